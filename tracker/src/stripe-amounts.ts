/**
 * Converts an amount from Stripe to the currency's minor unit by ISO 4217. Three currencies differ. ISK and UGX no longer have decimals,
 * but Stripe still writes two, so the amount is rounded half up. MGA has two decimals, but Stripe writes none.
 *
 * @see https://docs.stripe.com/currencies#special-cases
 */
export function stripeAmount(amount: number, currency: string): number {
  if (/^(isk|ugx)$/i.test(currency)) return Math.round(amount / 100)
  return /^mga$/i.test(currency) ? amount * 100 : amount
}

/** Returns `amount × part / whole` in integers, rounded half up, or the amount itself if the whole is zero. */
export function shareOf(amount: number, part: number, whole: number): number {
  if (whole <= 0) return amount
  return Number((2n * BigInt(amount) * BigInt(part) + BigInt(whole)) / (2n * BigInt(whole)))
}

/** The amounts of a checkout session, after discounts and with tax. */
export interface SessionAmounts {
  amount_total?: number | null | undefined
  total_details?: { amount_tax?: number | null | undefined } | null | undefined
}

/** Returns a session's total without tax, in Stripe's unit. */
export const untaxedOfSession = ({ amount_total, total_details }: SessionAmounts) =>
  Math.max(0, (amount_total ?? 0) - (total_details?.amount_tax ?? 0))

/** The amounts of an invoice, in payloads of every API version. */
export interface InvoiceAmounts {
  amount_paid: number
  amount_due?: number | null | undefined
  /** Before 2025-03-31, `amount_paid` does not include payments outside Stripe. */
  paid_out_of_band?: boolean | null | undefined
  total: number
  total_excluding_tax?: number | null | undefined
  /** In payloads without `total_excluding_tax`. */
  tax?: number | null | undefined
  currency: string
}

/**
 * Returns the paid amount of an invoice with and without tax, in the currency's minor unit by ISO 4217. The paid amount can be less or more
 * than the total (customer balance, partial payments). The paid amount contains tax in proportion.
 */
export function paidOfInvoice({ currency, total, ...invoice }: InvoiceAmounts): { amount: number; untaxed: number } {
  const paid = invoice.paid_out_of_band ? Math.max(invoice.amount_paid, invoice.amount_due ?? 0) : invoice.amount_paid
  const amount = stripeAmount(paid, currency)
  const untaxed = Math.max(0, Math.min(invoice.total_excluding_tax ?? total - (invoice.tax ?? 0), total))
  return { amount, untaxed: shareOf(amount, untaxed, total) }
}
