import type { AliasableExpression, InferResult, NotNull } from 'kysely'
import { csvLines } from '../csv.ts'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { currencyExponent, majorUnits } from '../money.ts'

/** Who takes the file: PayPal's Payouts (mass payments), or Wise's batch payments. */
export const payoutLayouts = ['paypal', 'wise'] as const
export type PayoutLayout = (typeof payoutLayouts)[number]

type Payout = Omit<InferResult<ReturnType<typeof payoutsStatement>>[number], 'id'> & {
  /** What the payment says it is for. */
  reference: string
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
  const withdrawals = kysely
    .selectFrom('withdrawals')
    .select(['program_id', 'partner_id', 'id', 'amount_cents'])
    .where('program_id', '=', programId)
    .where('currency', '=', currency)
    .where('status', '=', 'requested')
  return await exportPayouts(db, withdrawals, 'withdrawal', layout, currency)
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
  const commissions = kysely
    .selectFrom('commissions')
    .select((eb) => [
      'program_id',
      'partner_id',
      'id',
      eb('amount_cents', '-', eb.ref('reversed_cents')).as('amount_cents'),
    ])
    .where('program_id', '=', programId)
    .where('currency', '=', currency)
    .where('credited_at', 'is not', null)
    .where('paid_at', 'is', null)
    .whereRef('amount_cents', '>', 'reversed_cents')
  return await exportPayouts(db, commissions, 'commission', layout, currency)
}

async function exportPayouts(
  db: Database,
  due: Due,
  kind: 'withdrawal' | 'commission',
  layout: PayoutLayout,
  currency: string,
): Promise<string> {
  const payouts = await db.query(payoutsStatement(due, maxPayments[layout]))
  return payoutFile(
    layout,
    currency,
    payouts.map(({ id, ...payout }) => ({ ...payout, reference: `${kind}-${id}` })),
  )
}

type Due = AliasableExpression<{ program_id: number; partner_id: number; id: number; amount_cents: number }>

function payoutsStatement(due: Due, limit: number) {
  return kysely
    .selectFrom(due.as('due'))
    .innerJoin('partners as p', 'p.id', 'due.partner_id')
    .innerJoin('programs as g', 'g.id', 'due.program_id')
    .select((eb) => [
      'due.id',
      'p.name',
      eb.fn.coalesce('p.payout_email', 'p.email').as('email'),
      'due.amount_cents',
      'g.name as program_name',
    ])
    .where((eb) => eb(eb.fn.coalesce('p.payout_email', 'p.email'), 'is not', null))
    .$narrowType<{ email: NotNull }>()
    .orderBy('due.id')
    .limit(limit)
}

/** The lines of a payout file. PayPal's has no header and one currency; its customer id has no spaces and 30 characters at most. */
export function payoutFile(layout: PayoutLayout, currency: string, payouts: Payout[]): string {
  const code = currency.toUpperCase()
  const exponent = currencyExponent(currency)
  const amountOf = ({ amount_cents }: Payout) => majorUnits(amount_cents, currency).toFixed(exponent)
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
