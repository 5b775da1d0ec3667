import * as z from 'zod/mini'
import { type Fact, ignored } from '../facts.ts'
import { id, metadata, noMetadata, reference, unixTime } from '../payload.ts'

const subscription = z.looseObject({ id, created: unixTime, customer: reference, metadata })

/** Reads a subscription from the API. A subscription isn't a payment, but its metadata identifies the customer. */
export function readSubscription(object: unknown): Fact {
  const read = subscription.safeParse(object).data
  if (read === undefined) return ignored('No known API version sends this format.')
  const { created, customer, metadata: found } = read
  return {
    kind: 'purchase',
    ...(found ?? noMetadata),
    email_hash: null,
    processor_customer_id: customer,
    session_id: null,
    started_at: created,
    settles_lead: false,
    awaits_payment: false,
    requested: null,
    payment_ids: [],
    reported_alone: false,
    asks_invoice_of: null,
    sale: null,
  }
}
