import { randomUUID } from 'node:crypto'
import { type Connection, fetchStatus, request } from './service.ts'

export type TestEventKind = 'click' | 'lead' | 'sale'

/** A test event as the service answered it. It counts for nothing: no commission, no balance, no figure. */
export interface TestEvent {
  kind: TestEventKind
  /** The id of the recorded event. */
  id: number
  program_id: number
  /** What was sent, so that it can be repeated by hand. */
  sent: { path: string; body: object }
}

/** Sends a test event and returns what the service recorded. `amountCents` is for a sale. */
export async function sendTestEvent(
  connection: Connection,
  kind: TestEventKind,
  amountCents: number,
): Promise<TestEvent> {
  const { program } = await fetchStatus(connection)
  const additional_data = { test_mode: true, program_id: program.id }
  const customer_key = `svc_test_${randomUUID()}`
  const page = `https://${program.domain ?? 'example.com'}/`
  const bodies = {
    click: { affiliate_url: `${page}?aff=svc-test`, page_url: page, additional_data },
    lead: { customer_key, additional_data },
    sale: {
      transaction_id: `svc_test_${randomUUID()}`,
      customer_key,
      amount_cents: amountCents,
      currency: program.currency,
      additional_data,
    },
  }
  const path = `/api/v1/track/${kind}`
  const body = bodies[kind]
  const answer = await request<{ data?: { eventId: number }; lead_id?: number; sale_id?: number }>(
    connection,
    path,
    body,
  )
  const id = answer.data?.eventId ?? answer.lead_id ?? answer.sale_id ?? 0
  return { kind, id, program_id: program.id, sent: { path, body } }
}
