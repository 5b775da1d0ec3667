import * as z from 'zod/mini'
import { stripeAmount, untaxedOfSession } from '../../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored, type Purchase } from '../facts.ts'
import { emailHashes } from '../../tracking/customers.ts'
import { discountFacts } from './read-discounts.ts'
import {
  amount,
  currency,
  freeText,
  type HashEmail,
  id,
  metadata,
  noMetadata,
  reference,
  unixTime,
} from '../payload.ts'

/** The fields of a checkout session that the service reads, in payloads of every API version. */
const session = z.looseObject({
  id,
  mode: z.string(),
  payment_status: z.string(),
  created: unixTime,
  amount_total: z.nullish(amount),
  currency: z.nullish(currency),
  total_details: z.nullish(z.looseObject({ amount_tax: z.nullish(amount) })),
  metadata,
  client_reference_id: freeText(255),
  customer: reference,
  customer_details: z.nullish(z.looseObject({ email: freeText(320) })),
  customer_email: freeText(320),
  invoice: reference,
  payment_intent: reference,
  subscription: reference,
})

const isClickId = (text: string) => /^cust_\d+_\d+$/.test(text)

/**
 * Reads `checkout.session.completed` and `.async_payment_succeeded`. `amount_total` is the paid amount after discounts and with tax. The
 * commission is computed without tax. If nothing was paid, there is a lead but no sale. If the payment is pending, only the attribution
 * is stored.
 */
export async function readCheckout(
  type: string,
  object: unknown,
  created: string,
  hashEmail: HashEmail,
): Promise<Fact> {
  const checkout = session.parse(object)
  if (checkout.mode === 'setup') return ignored('A session that only saves a payment method sells nothing.')
  const { program_id, click_id, customer_key } = checkout.metadata ?? noMetadata
  const referenceId = checkout.client_reference_id
  const email = checkout.customer_details?.email ?? checkout.customer_email
  const succeeded = type === 'checkout.session.async_payment_succeeded'
  const awaitsPayment = !succeeded && checkout.payment_status === 'unpaid'
  const total = checkout.amount_total ?? 0
  const untaxed = untaxedOfSession(checkout)
  const purchase: Purchase = {
    kind: 'purchase',
    program_id,
    // This is the only field that a page can add to a payment link. Other sites use it for an order or a customer.
    click_id: click_id ?? (referenceId !== null && isClickId(referenceId) ? referenceId : null),
    customer_key,
    ...(await emailHashes(hashEmail, email)),
    processor_customer_id: checkout.customer,
    session_id: checkout.id,
    started_at: checkout.created,
    settles_lead: !awaitsPayment,
    awaits_payment: awaitsPayment,
    requested: awaitsPayment && total > 0 ? { total, untaxed } : null,
    payment_ids: [checkout.id, checkout.payment_intent, checkout.invoice].filter((one) => one !== null),
    reported_alone: true,
    asks_invoice_of: null,
    ...discountFacts(object, checkout.id),
    sale: null,
  }
  const isFree = total === 0 || (!succeeded && checkout.payment_status === 'no_payment_required')
  if (awaitsPayment || isFree || !checkout.currency) return purchase
  return {
    ...purchase,
    sale: {
      transaction_id: checkout.invoice ?? checkout.payment_intent ?? checkout.id,
      amount_cents: stripeAmount(total, checkout.currency),
      amount_source: 'session',
      commission_base_cents: stripeAmount(untaxed, checkout.currency),
      currency: checkout.currency,
      sale_type: checkout.mode === 'subscription' ? 'subscription' : 'payment',
      is_recurring: false,
      subscription_id: checkout.subscription,
      processor_invoice_id: checkout.invoice,
      processor_payment_intent_id: checkout.payment_intent,
      processor_charge_id: null,
      sale_date: created,
    },
  }
}
