import * as z from 'zod/mini'
import type { Fact } from './facts.ts'
import { id, reference } from './payload.ts'

/** A payment intent as far as it is read; before 2025-03-31 it names its invoice. */
const intent = z.looseObject({ id, latest_charge: reference, invoice: reference })

/** Reads `payment_intent.succeeded`: the one event that says which charge is of a checkout's payment. */
export function readPaymentIntent(object: unknown): Fact {
  const paid = intent.parse(object)
  const paymentIds = [paid.id, paid.latest_charge].filter((one) => one !== null)
  return { kind: 'invoice_payment', payment_ids: paymentIds, invoice_id: paid.invoice }
}
