import { sql } from 'kysely'
import { call } from '../database.ts'

/** What a queue message carries: which outbox row it is about. The row itself holds what is told. */
export interface OutboxMessage {
  program_id: number
  outbox_id: number
}

/** What a message of the webhooks' queue carries: a program that has something due, from `due_at` on (seconds since 1970). */
export interface WebhookWake {
  program_id: number
  due_at: number
}

/** What a function hands to `relay-outbox`, which has a queue for each. */
export type RelayMessage = OutboxMessage | WebhookWake

/** What a transaction wrote that is to be sent. */
interface Written {
  outbox_ids: number[] | null
  wrote_webhooks: boolean | null
}

/** The messages about what a function of the database says it wrote. */
export function messagesAbout(row: Partial<Written> & { program_id: number | null }): RelayMessage[] {
  const { program_id, outbox_ids, wrote_webhooks } = row
  if (program_id === null) return []
  const rows = (outbox_ids ?? []).map((outbox_id) => ({ program_id, outbox_id }))
  return wrote_webhooks ? [...rows, { program_id, due_at: 0 }] : rows
}

/** As the last statement of a transaction: what it wrote, for `messagesAbout`. */
export const writtenMessages = () => call('written_messages', {})

/** The rows that messages are about, each once, as a table `named` of a query. */
export function rowsOf(messages: OutboxMessage[]) {
  const programIds = messages.map(({ program_id }) => program_id)
  const ids = messages.map(({ outbox_id }) => outbox_id)
  return sql<{ program_id: number; id: number }>`(
    select distinct program_id, id from unnest(${programIds}::bigint[], ${ids}::bigint[]) as message (program_id, id)
  )`.as('named')
}

/** The binding by which a function hands messages to `relay-outbox`, which holds the queue's client for all. */
export interface RelayEnv {
  RELAY: { fetch(url: string, init: { method: string; body: string }): Promise<Response> }
}

/**
 * Has the relay send messages right after the response that caused them. A relay or queue that fails is no failure of the
 * response: the scheduled run finds the rows in the outbox. It begins a millisecond later, because the relay works on the same
 * thread, and what it does at once is done before the response is written.
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
