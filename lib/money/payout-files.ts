import { type RawBuilder, sql } from 'kysely'
import { csvLines } from '../csv.ts'
import type { Database } from '../database.ts'
import { currencyExponent, majorUnits } from '../money.ts'

/** Who takes the file: PayPal's Payouts (mass payments), or Wise's batch payments. */
export const payoutLayouts = ['paypal', 'wise'] as const
export type PayoutLayout = (typeof payoutLayouts)[number]

interface Payout {
  name: string
  email: string
  amount_cents: string
  reference: string
  program_name: string
}

/** How many payments each takes in one file. */
export const maxPayments: Record<PayoutLayout, number> = { paypal: 5000, wise: 1000 }

/**
 * The open withdrawals of a program in one currency as a file to pay them with, the longest waiting first and no more than the
 * file may hold. A partner without an address is left out. Mark each as paid when its transfer is made.
 */
export async function exportWithdrawals(
  db: Database,
  programId: number,
  layout: PayoutLayout,
  currency: string,
): Promise<string> {
  const withdrawals = sql`select w.program_id, w.partner_id, w.amount_cents, 'withdrawal-' || w.id as reference, w.id
  from withdrawals w where w.program_id = ${programId} and w.currency = ${currency} and w.status = 'requested'`
  return await exportPayouts(db, withdrawals, layout, currency)
}

/**
 * The same of commissions that are credited and not paid, with what refunds left of each, for advertisers who pay without being
 * asked. They are paid here by a withdrawal: pay from this file or from the withdrawals' one, not from both.
 */
export async function exportCommissions(
  db: Database,
  programId: number,
  layout: PayoutLayout,
  currency: string,
): Promise<string> {
  const commissions = sql`select c.program_id, c.partner_id, c.amount_cents - c.reversed_cents as amount_cents,
    'commission-' || c.id as reference, c.id
  from commissions c
  where c.program_id = ${programId} and c.currency = ${currency} and c.credited_at is not null and c.paid_at is null
    and c.amount_cents > c.reversed_cents`
  return await exportPayouts(db, commissions, layout, currency)
}

async function exportPayouts(
  db: Database,
  due: RawBuilder<unknown>,
  layout: PayoutLayout,
  currency: string,
): Promise<string> {
  const payouts = await db.query(sql<Payout>`
    select p.name, coalesce(p.payout_email, p.email) as email, due.amount_cents, due.reference, g.name as program_name
    from (${due}) due join partners p on p.id = due.partner_id join programs g on g.id = due.program_id
    where coalesce(p.payout_email, p.email) is not null
    order by due.id limit ${maxPayments[layout]}`)
  return payoutFile(layout, currency, payouts)
}

/** The lines of a payout file. PayPal's has no header and one currency; its customer id has no spaces and 30 characters at most. */
export function payoutFile(layout: PayoutLayout, currency: string, payouts: Payout[]): string {
  const code = currency.toUpperCase()
  const exponent = currencyExponent(currency)
  const amountOf = ({ amount_cents }: Payout) => majorUnits(Number(amount_cents), currency).toFixed(exponent)
  if (layout === 'paypal') {
    // Recipient, amount, currency, customer id, note to the recipient, wallet.
    return csvLines(payouts.map((p) => [p.email, amountOf(p), code, p.reference, p.program_name, 'PayPal']))
  }
  // `target`: the partner receives exactly the amount.
  return csvLines([
    [
      'name',
      'recipientEmail',
      'paymentReference',
      'receiverType',
      'amountCurrency',
      'amount',
      'sourceCurrency',
      'targetCurrency',
    ],
    ...payouts.map((p) => [p.name, p.email, p.reference, 'PERSON', 'target', amountOf(p), code, code]),
  ])
}
