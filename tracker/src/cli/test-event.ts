import { randomUUID } from 'node:crypto'
import { CommandError, type Connection, fetchStatus, request, siteAddress } from './service.ts'

export type TestEventKind = 'click' | 'lead' | 'sale'

/** A recorded test event. It doesn't create a commission or change a balance, and no figure includes it. */
export interface TestEvent {
  kind: TestEventKind
  /** The id of the recorded event. */
  id: number
  program_id: number
  /** For a sale, true if it has a partner's valid code, so that the partner would get it. */
  attributed?: boolean
  /** The time (ISO 8601) of the program's last test event of this kind, according to the service. */
  arrived_at: string
  /** The request, so that the user can repeat it by hand. */
  sent: { path: string; body: object }
}

/** Sends a test event and checks that the service shows it. The amount and the coupon are only for sales. */
export async function sendTestEvent(
  connection: Connection,
  kind: TestEventKind,
  { amountCents, coupon }: { amountCents: number; coupon?: string | undefined },
): Promise<TestEvent> {
  const { program, activity } = await fetchStatus(connection)
  const additional_data = { test_mode: true, program_id: program.id }
  const customer_key = `svc_test_${randomUUID()}`
  const page_url = `${siteAddress(connection, program)}/`
  const bodies = {
    click: { affiliate_url: `${page_url}?aff=svc-test`, page_url, additional_data },
    lead: { customer_key, additional_data },
    sale: {
      transaction_id: `svc_test_${randomUUID()}`,
      customer_key,
      amount_cents: amountCents,
      currency: program.currency,
      ...(coupon !== undefined && { coupon }),
      additional_data,
    },
  }
  const path = `/api/v1/track/${kind}`
  const body = bodies[kind]
  const answer = await request<{
    data?: { eventId: number }
    lead_id?: number
    sale_id?: number
    attributed?: boolean
  }>(connection, path, {
    body,
  })
  const id = answer.data?.eventId ?? answer.lead_id ?? answer.sale_id ?? 0
  const arrived = (await fetchStatus(connection)).activity[`last_${kind}`].test
  if (!arrived || arrived === activity[`last_${kind}`].test) {
    throw new CommandError(
      'not_seen',
      `The service accepted the test ${kind} as event ${id}, but does not show it.`,
      'Run `svc status` in a minute. If it is still missing, send support the event id.',
    )
  }
  const { attributed } = answer
  return {
    kind,
    id,
    program_id: program.id,
    ...(attributed !== undefined && { attributed }),
    arrived_at: arrived,
    sent: { path, body },
  }
}
