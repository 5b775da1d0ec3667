import { expressionBuilder, sql } from 'kysely'
import { machineCsv, withoutFormula } from '../csv.ts'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { decimalAmount } from '../money.ts'
import type { DB } from '../schema.ts'

/** The layout of the file: PayPal Payouts (mass payments), Wise batch payments, or plain CSV for any other program. */
export const payoutLayouts = ['paypal', 'wise', 'csv'] as const
export type PayoutLayout = (typeof payoutLayouts)[number]

/** The maximum number of payments in one file of each layout. */
export const maxPayments: Partial<Record<PayoutLayout, number>> = { paypal: 5000, wise: 1000 }

/**
 * The currencies in which PayPal pays out. It accepts forints and Taiwan dollars only in whole units.
 *
 * @see https://developer.paypal.com/docs/payouts/standard/reference/country-feature/
 */
const paypalCurrencies = new Set(
  'aud brl cad chf czk dkk eur gbp hkd huf ils jpy mxn myr nok nzd php pln sek sgd thb twd usd'.split(' '),
)
const wholeAtPaypal = new Set(['huf', 'twd'])

/** Returns whether a layout can pay in a currency. */
export function pays(layout: PayoutLayout, currency: string): boolean {
  return layout !== 'paypal' || paypalCurrencies.has(currency)
}

/** A payment in a file. The reference contains the payout's id, so that a repeated payment is recognizable. */
export interface Payment {
  id: number
  name: string
  email: string
  currency: string
  amount_cents: number
  program_name: string
}

/**
 * The payouts for a file. For a payout run: its payouts, or one part of them (from 1) if one file can't hold all. For payouts that partners
 * requested in a currency: the unsent ones, or those of an earlier file.
 */
type PaymentsOf =
  | { payoutRunId: number; part?: number | undefined }
  | { askedIn: string; fileNumber?: number | undefined }

/** The layout, and the chosen currency if any. */
export interface PayoutFile {
  layout: PayoutLayout
  currency?: string | undefined
}

/**
 * Creates a file with which a program pays payouts, in the order of their ids. For a run, the file contains the open payouts, optionally in
 * one currency. Once the run is paid, the file contains the paid payouts. Until then, it omits payouts that were paid individually, so that
 * nobody pays them again. Payouts that partners requested belong to no run, and only to the first file that contained them. So two files
 * never hold the same money. Partners without a payout address are excluded.
 *
 * The payouts in the file are marked as sent. Their amounts and addresses never change again, so the file matches the later deductions from
 * the balances. Throws `conflict` if the layout cannot pay a payout or hold all payouts, and `not_found` if there are none.
 */
export async function exportPayments(
  db: Database,
  programId: number,
  of: PaymentsOf,
  { layout, currency }: PayoutFile,
): Promise<string> {
  let query = kysely
    .selectFrom('payouts as w')
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
    )
    .innerJoin('programs as g', 'g.id', 'w.program_id')
    .select((eb) => [
      'w.id',
      'p.name',
      eb.fn.coalesce('w.payout_address', 'p.payout_email', 'p.email').$notNull().as('email'),
      'w.currency',
      'w.amount_cents',
      'g.name as program_name',
    ])
    .where('w.program_id', '=', programId)
    .where((eb) => eb(eb.fn.coalesce('w.payout_address', 'p.payout_email', 'p.email'), 'is not', null))
    // Payouts in a batch are paid by a provider.
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('payout_items as i')
            .whereRef('i.program_id', '=', 'w.program_id')
            .whereRef('i.payout_id', '=', 'w.id'),
        ),
      ),
    )
    .orderBy('w.id')
  const limit = maxPayments[layout]
  const fileNumber = 'askedIn' in of ? of.fileNumber : undefined
  if ('payoutRunId' in of) {
    query = query
      .where('w.payout_run_id', '=', of.payoutRunId)
      .where((eb) =>
        eb.or([
          eb('w.decided_at', 'is', null),
          eb.and([
            eb('w.status', '=', 'paid'),
            eb.exists(
              eb
                .selectFrom('payout_runs as r')
                .whereRef('r.program_id', '=', 'w.program_id')
                .whereRef('r.id', '=', 'w.payout_run_id')
                .where('r.paid_at', 'is not', null),
            ),
          ]),
        ]),
      )
    if (limit !== undefined && of.part !== undefined) {
      query = query.where('w.id', 'in', idsOfPart(programId, of.payoutRunId, of.part, limit))
    }
  } else {
    query = query
      .where(isAskedPayment)
      .where('w.currency', '=', of.askedIn)
      .where('w.payment_file_number', fileNumber === undefined ? 'is' : '=', fileNumber ?? null)
    // The next file contains the rest.
    if (limit !== undefined && fileNumber === undefined) query = query.limit(limit)
  }
  if (currency !== undefined) query = query.where('w.currency', '=', currency)
  for (let attempt = 0; attempt < 5; attempt++) {
    const payments = await db.query(query)
    if (payments.length === 0) throw new ApiError('not_found', nothingIn(of))
    const file = payoutFile(layout, payments)
    const send = call('send_payouts', {
      of_program_id: programId,
      payout_ids: payments.map(({ id }) => id),
      amounts: payments.map(({ amount_cents: cents }) => cents),
      addresses: payments.map(({ email }) => email),
      of_file_number: fileNumber ?? null,
    })
    const [row] = await retryOnce(() => db.query(send))
    if (row?.send_payouts) return file
  }
  throw new ApiError('conflict', 'The payouts of this file are changing. Download it again in a moment.')
}

/** The parts count all payouts of the run, so a payout stays in its part whatever happens to the others. */
function idsOfPart(programId: number, payoutRunId: number, part: number, limit: number) {
  const numbered = kysely
    .selectFrom('payouts')
    .select(['id', sql<number>`row_number() over (partition by currency order by id)`.as('number')])
    .where('program_id', '=', programId)
    .where('payout_run_id', '=', payoutRunId)
  return kysely
    .selectFrom(numbered.as('n'))
    .select('n.id')
    .where('n.number', '>', (part - 1) * limit)
    .where('n.number', '<=', part * limit)
}

function nothingIn(of: PaymentsOf): string {
  if ('payoutRunId' in of) {
    return 'This program has no such payout run, or this file of the run has nothing left to pay.'
  }
  return of.fileNumber === undefined
    ? `No requested payout in ${of.askedIn.toUpperCase()} is waiting for a file. You can download earlier files again from the payouts page.`
    : 'This program has no such file, or its payouts are all decided.'
}

export type AskedFile = Awaited<ReturnType<typeof listAskedFiles>>[number]

/**
 * Lists the payment files of requested payouts, newest first, with their number of open payouts. The file with the number null doesn't
 * exist yet. It will contain the unsent payouts in its currency.
 */
export async function listAskedFiles(db: Database, programId: number) {
  return await db.query(
    kysely
      .selectFrom('payouts as w')
      .innerJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
      )
      .select((eb) => [
        'w.currency',
        'w.payment_file_number',
        'w.sent_at',
        eb.cast<number>(eb.fn.countAll(), 'bigint').as('payments'),
      ])
      .where('w.program_id', '=', programId)
      .where(isAskedPayment)
      .groupBy(['w.payment_file_number', 'w.sent_at', 'w.currency'])
      .orderBy('w.payment_file_number', (order) => order.desc().nullsFirst())
      .orderBy('w.currency'),
  )
}

/**
 * Selects the open payouts that partners requested. They are paid to the partner's current address, unless that address changed within the
 * last day.
 */
const isAskedPayment = () =>
  payment.and([
    payment('w.payout_run_id', 'is', null),
    payment('w.decided_at', 'is', null),
    payment(payment.fn.coalesce('w.payout_address', 'p.payout_email', 'p.email'), 'is not', null),
    payment.or([
      payment('w.sent_at', 'is not', null),
      payment('p.payout_waits_until', 'is', null),
      payment('p.payout_waits_until', '<', now),
    ]),
  ])
const payment = expressionBuilder<{ w: DB['payouts']; p: DB['partners'] }, 'w' | 'p'>()

/**
 * Writes a payout file. Files for PayPal and Wise contain unchanged values. People open the plain CSV in a spreadsheet, so its names can't
 * be formulas. Its addresses don't change, because money is sent to them. PayPal's file has no header and one currency. Its customer id
 * has up to 30 characters and no spaces. Throws `conflict` for a value that the file can't contain, and for too many payments.
 */
export function payoutFile(layout: PayoutLayout, payments: Payment[]): string {
  const limit = maxPayments[layout] ?? payments.length
  if (payments.length > limit) {
    throw new ApiError(
      'conflict',
      `This file can hold ${limit} payments, but there are ${payments.length}. Choose a part of the run or another layout.`,
    )
  }
  const unwritable = payments.find(({ name, email, program_name }) =>
    /[\p{Cc}\u2028\u2029]/u.test(name + email + program_name),
  )
  if (unwritable) {
    throw new ApiError(
      'conflict',
      `A payment file cannot contain the line breaks or control characters in the name or address of payout ${unwritable.id}. Remove them first.`,
    )
  }
  const currencies = [...new Set(payments.map(({ currency }) => currency))]
  if (layout === 'paypal') {
    const [currency = 'usd', ...others] = currencies
    if (others.length > 0) {
      const choices = currencies.join(', ')
      throw new ApiError('conflict', `PayPal accepts one currency per file. Choose one of ${choices}.`)
    }
    if (!pays(layout, currency)) {
      throw new ApiError('conflict', `PayPal does not pay in ${currency.toUpperCase()}. Choose another layout.`)
    }
    const broken = payments.find(({ amount_cents: cents }) => wholeAtPaypal.has(currency) && cents % 100 !== 0)
    if (broken) {
      throw new ApiError(
        'conflict',
        `PayPal accepts only whole ${currency.toUpperCase()}, and ${broken.name} has ${amountOf(broken)}. Choose another layout.`,
      )
    }
    // Recipient, amount, currency, customer id, note to the recipient, wallet.
    return machineCsv(
      payments.map((p) => [p.email, amountOf(p), p.currency.toUpperCase(), referenceOf(p), p.program_name, 'PayPal']),
    )
  }
  if (layout === 'csv') {
    return machineCsv([
      ['reference', 'partner', 'payout_email', 'amount', 'currency', 'program'],
      ...payments.map((p) => {
        const [partner, program] = [withoutFormula(p.name), withoutFormula(p.program_name)]
        return [referenceOf(p), partner, p.email, amountOf(p), p.currency.toUpperCase(), program]
      }),
    ])
  }
  // `target`: the partner receives exactly the amount.
  return machineCsv([
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
    ...payments.map((p) => {
      const code = p.currency.toUpperCase()
      return [p.name, p.email, referenceOf(p), 'PERSON', 'target', amountOf(p), code, code]
    }),
  ])
}

const referenceOf = ({ id }: Payment) => `payout-${id}`

const amountOf = ({ amount_cents: cents, currency }: Payment) => decimalAmount(cents, currency)
