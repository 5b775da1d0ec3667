import * as z from 'zod/mini'
import { paidOfInvoice } from '../../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored, type PurchaseSale } from '../facts.ts'
import { emailHashes } from '../../tracking/customers.ts'
import { discountFacts } from './read-discounts.ts'
import {
  amount,
  currency,
  freeText,
  type HashEmail,
  id,
  looseReference,
  metadata,
  noMetadata,
  reference,
  unixTime,
} from '../payload.ts'

const payment = z.looseObject({ payment_intent: reference, charge: reference })

const includedTax = z.looseObject({ amount, inclusive: z.nullish(z.boolean()), tax_behavior: z.nullish(z.string()) })

const line = z.looseObject({
  /** Before 2025-03-31: `subscription` or `invoiceitem`. */
  type: z.nullish(z.string()),
  /** Since 2025-03-31. */
  parent: z.nullish(z.looseObject({ type: z.nullish(z.string()) })),
  metadata,
  amount: z.nullish(z.int()),
  discount_amounts: z.nullish(z.array(z.looseObject({ amount }))),
  /** Since 2025-03-31. */
  taxes: z.nullish(z.array(includedTax)),
  /** Before 2025-03-31. */
  tax_amounts: z.nullish(z.array(includedTax)),
  /** Since 2025-03-31. */
  pricing: z.nullish(
    z.looseObject({
      price_details: z.nullish(z.looseObject({ price: looseReference, product: looseReference })),
    }),
  ),
  /** Before 2025-03-31. */
  price: z.nullish(z.looseObject({ id: looseReference, product: looseReference })),
})

/** The fields of an invoice that the service reads, from old and new API versions, each optional. */
const invoice = z.looseObject({
  id,
  created: unixTime,
  amount_paid: amount,
  amount_due: z.nullish(amount),
  /** Before 2025-03-31, `amount_paid` excludes money that was paid outside of Stripe. */
  paid_out_of_band: z.nullish(z.boolean()),
  total: z.int(),
  total_excluding_tax: z.nullish(z.int()),
  /** In even older payloads. */
  tax: z.nullish(z.int()),
  currency,
  billing_reason: z.nullish(z.string()),
  collection_method: z.nullish(z.string()),
  metadata,
  customer: reference,
  customer_email: freeText(320),
  status_transitions: z.nullish(z.looseObject({ paid_at: z.nullish(unixTime) })),
  /** Since 2025-03-31. */
  parent: z.nullish(
    z.looseObject({ subscription_details: z.nullish(z.looseObject({ metadata, subscription: reference })) }),
  ),
  payments: z.nullish(z.looseObject({ data: z.array(z.looseObject({ payment })) })),
  /** Before 2025-03-31. */
  subscription_details: z.nullish(z.looseObject({ metadata })),
  subscription: reference,
  payment_intent: reference,
  charge: reference,
  lines: z.nullish(z.looseObject({ data: z.array(line) })),
})

/**
 * Reads `invoice.payment_succeeded` and `invoice.paid`, which report the same payment. The attribution comes from the invoice's own
 * metadata, or else from the subscription's. The subscription's metadata is under `parent` since 2025-03-31, at the top level before that,
 * and in the line in even older payloads. The invoice's amounts take precedence over its session's, even if nothing was paid.
 */
export async function readInvoice(object: unknown, created: string, hashEmail: HashEmail): Promise<Fact> {
  const paid = invoice.parse(object)
  const details = paid.parent?.subscription_details
  const lines = paid.lines?.data ?? []
  const subscriptionLine = lines.find(
    ({ type, parent }) => type === 'subscription' || parent?.type === 'subscription_item_details',
  )
  const places = [
    paid.metadata,
    details?.metadata,
    paid.subscription_details?.metadata,
    subscriptionLine?.metadata,
    // The lines for a changed subscription aren't subscription lines.
    ...lines.map((other) => other.metadata),
  ].filter((place) => place && Object.values(place).some((value) => value !== null))
  const { program_id, click_id, customer_key } = places.find((place) => place?.program_id) ?? places[0] ?? noMetadata
  const subscriptionId = details?.subscription ?? paid.subscription
  const sums = paidOfInvoice(paid)
  const paymentIds = [
    paid.id,
    paid.payment_intent,
    paid.charge,
    ...(paid.payments?.data ?? []).flatMap((one) => [one.payment.payment_intent, one.payment.charge]),
  ]
  return {
    kind: 'purchase',
    program_id,
    click_id,
    customer_key,
    ...(await emailHashes(hashEmail, paid.customer_email)),
    processor_customer_id: paid.customer,
    session_id: null,
    started_at: paid.created,
    settles_lead: false,
    awaits_payment: false,
    requested: null,
    payment_ids: [...new Set(paymentIds.filter((paymentId) => paymentId !== null))],
    // A session may identify the buyer of a first or a single invoice. Invoices that are sent to the customer don't have a session.
    reported_alone:
      paid.collection_method === 'send_invoice' ||
      (paid.billing_reason !== 'subscription_create' && paid.billing_reason !== 'manual'),
    asks_invoice_of: null,
    ...discountFacts(object, paid.id),
    sale: {
      transaction_id: paid.id,
      amount_cents: sums.amount,
      amount_source: 'invoice',
      commission_base_cents: sums.untaxed,
      currency: paid.currency,
      sale_type: subscriptionId === null ? 'payment' : 'subscription',
      is_recurring: paid.billing_reason === 'subscription_cycle',
      subscription_id: subscriptionId,
      lines: soldLines(lines),
      processor_invoice_id: paid.id,
      processor_payment_intent_id: paid.payment_intent,
      processor_charge_id: paid.charge,
      sale_date: paid.status_transitions?.paid_at ?? created,
    },
  }
}

/**
 * Returns the sold lines for `sales.lines`, after their discounts and without included tax. Skips credited lines and merges lines with the
 * same price. All lines after the 50 largest become one line without a product. Null if no line has a product.
 */
function soldLines(lines: z.output<typeof line>[]): PurchaseSale['lines'] {
  const weights = new Map<string, { product_ids: string[]; weight: number }>()
  const sell = (productIds: string[], weight: number) => {
    const known = weights.get(productIds.join(' '))
    weights.set(productIds.join(' '), { product_ids: productIds, weight: weight + (known?.weight ?? 0) })
  }
  for (const { amount: whole, discount_amounts: discounts, taxes, tax_amounts: oldTaxes, pricing, price } of lines) {
    const included = [...(taxes ?? []), ...(oldTaxes ?? [])].filter(
      (tax) => tax.inclusive || tax.tax_behavior === 'inclusive',
    )
    const weight = (whole ?? 0) - sum(discounts ?? []) - sum(included)
    const ids = [
      pricing?.price_details?.price ?? price?.id ?? null,
      pricing?.price_details?.product ?? price?.product ?? null,
    ]
    if (weight > 0)
      sell(
        ids.filter((productId) => productId !== null),
        weight,
      )
  }
  const found = [...weights.values()].toSorted((a, b) => b.weight - a.weight)
  if (!found.some(({ product_ids: ids }) => ids.length > 0)) return null
  const rest = found.slice(50)
  return rest.length === 0
    ? found
    : [...found.slice(0, 50), { product_ids: [], weight: rest.reduce((total, { weight }) => total + weight, 0) }]
}

const sum = (parts: { amount: number }[]) => parts.reduce((total, { amount: part }) => total + part, 0)

const invoicePayment = z.looseObject({ invoice: reference, payment })

/** Reads `invoice_payment.paid`, which since 2025-03-31 is the only event with the invoice of a payment intent. */
export function readInvoicePayment(object: unknown): Fact {
  const { invoice: invoiceId, payment: paidBy } = invoicePayment.parse(object)
  const paymentIds = [paidBy.payment_intent, paidBy.charge].filter((paymentId) => paymentId !== null)
  if (invoiceId === null || paymentIds.length === 0) return ignored('It contains no invoice or no payment.')
  return { kind: 'invoice_payment', payment_ids: paymentIds, invoice_id: invoiceId }
}
