import { sql } from 'kysely'
import { call } from '../database.ts'

/** A queue message. It contains the id of an outbox row, which contains the notification itself. */
export interface OutboxMessage {
  program_id: number
  outbox_id: number
}

/** A message in the webhook queue. It contains the id of a program with a delivery that is due at `due_at` (seconds since 1970). */
export interface WebhookWake {
  program_id: number
  due_at: number
}

/** A message for `relay-outbox`, which sends each kind of message to its own queue. */
export type RelayMessage = OutboxMessage | WebhookWake

/** The messages that a transaction wrote. */
interface Written {
  outbox_ids: number[] | null
  wrote_webhooks: boolean | null
}

/** Returns the messages that a database function wrote. */
export function messagesAbout(row: Partial<Written> & { program_id: number | null }): RelayMessage[] {
  const { program_id, outbox_ids, wrote_webhooks } = row
  if (program_id === null) return []
  const rows = (outbox_ids ?? []).map((outbox_id) => ({ program_id, outbox_id }))
  return wrote_webhooks ? [...rows, { program_id, due_at: 0 }] : rows
}

/** The last statement of a transaction: returns its messages for `messagesAbout`. */
export const writtenMessages = () => call('written_messages', {})

/** Selects the distinct rows of messages as a table `named`. */
export function rowsOf(messages: OutboxMessage[]) {
  const programIds = messages.map(({ program_id }) => program_id)
  const ids = messages.map(({ outbox_id }) => outbox_id)
  return sql<{ program_id: number; id: number }>`(
    select distinct program_id, id from unnest(${programIds}::bigint[], ${ids}::bigint[]) as message (program_id, id)
  )`.as('named')
}

/** The binding to `relay-outbox`. Only that function has a queue client. */
export interface RelayEnv {
  RELAY: { fetch(url: string, init: { method: string; body: string }): Promise<Response> }
}

/**
 * Asks the relay to send messages right after the response that caused them. If the relay or the queue fails, the response doesn't fail,
 * because the scheduled run finds the rows in the outbox. The call starts a millisecond later, because the relay shares the thread and
 * would delay the response.
 */
export async function sendSoon(env: RelayEnv, messages: RelayMessage[]): Promise<void> {
  if (messages.length === 0) return
  await new Promise((resolve) => setTimeout(resolve, 1))
  try {
    await env.RELAY.fetch('https://relay/', { method: 'POST', body: JSON.stringify(messages) })
  } catch (error) {
    console.error(
      JSON.stringify({ error: 'relay_unreachable', name: error instanceof Error ? error.name : typeof error }),
    )
  }
}
