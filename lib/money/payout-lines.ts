import { type InferResult, sql } from 'kysely'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'
import { noteOfEntry, transactionOfEntry } from './balances.ts'
import { payoutsStatement } from './payouts.ts'

export type PayoutLine = InferResult<ReturnType<typeof payoutLinesStatement>>[number]

/** Selects the payouts of a program, or of a person in all their programs as a partner. */
type Whose = { programId: number } | { userId: string }

type LinesOf = { payoutId: number } | { payoutRunId: number }
type PayoutLineList = Part & LinesOf

/**
 * Lists the lines of a payout, or of all payouts of a run: the credits, reversals and manual adjustments that they pay, newest first. The
 * lines of a payment add up to its payout's amount. A large commission can have lines in several payouts. Lines with `is_returned` belong
 * to a payment that came back. Open payouts have no lines yet. Throws `not_found` if `of` has no such payout or run.
 */
export async function listPayoutLines(db: Database, of: Whose, list: PayoutLineList): Promise<PayoutLine[]> {
  const [payouts, lines] = await db.batch([
    payoutsStatement(of, { ...list, limit: 1, before: undefined, after: undefined }),
    payoutLinesStatement(of, list),
  ])
  if (payouts.length === 0) throw new ApiError('not_found', 'There is no such payout.')
  return lines
}

/** Counts the lines of a payout or a run. Payments that came back do not count for the sum. */
export const payoutLineTotals = (of: Whose, list: LinesOf) =>
  totalsOf(linesOf(of, list), sql<number>`case when is_returned then 0 else amount_cents end`)

/** Selects the stored lines of a payout or a run, with their payouts and partners. */
function linesOf(of: Whose, list: LinesOf) {
  const lines = kysely
    .selectFrom('payout_lines as l')
    .innerJoin('payouts as w', (join) =>
      join.onRef('w.program_id', '=', 'l.program_id').onRef('w.id', '=', 'l.payout_id'),
    )
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
    )
    .selectAll('l')
    .select(['w.payout_run_id', 'w.reference', 'p.name as partner_name'])
  const theirs =
    'programId' in of ? lines.where('l.program_id', '=', of.programId) : lines.where('p.user_id', '=', of.userId)
  return 'payoutId' in list
    ? theirs.where('l.payout_id', '=', list.payoutId)
    : theirs.where('w.payout_run_id', '=', list.payoutRunId)
}

function payoutLinesStatement(of: Whose, list: PayoutLineList) {
  // Only the lines of the page are joined with their entries.
  const page = partOf(linesOf(of, list), sql.ref<number>('l.id'), list)
  const lines = kysely
    .selectFrom(page.as('l'))
    // With `limit`, Postgres looks up one entry by its whole key for each line, even if its statistics don't include a new program's rows
    // yet.
    .innerJoinLateral(
      (eb) =>
        eb
          .selectFrom('balance_entries as n')
          .selectAll('n')
          .whereRef('n.program_id', '=', 'l.program_id')
          .whereRef('n.partner_id', '=', 'l.partner_id')
          .whereRef('n.currency', '=', 'l.currency')
          .whereRef('n.entry_number', '=', 'l.entry_number')
          .limit(1)
          .as('e'),
      (join) => join.onTrue(),
    )
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom('balance_entries as n')
          .select(['n.reference', 'n.created_at'])
          .whereRef('n.program_id', '=', 'l.program_id')
          .where('n.cause', '=', 'payout_returned')
          .where('n.commission_id', 'is', null)
          .whereRef('n.payout_id', '=', 'l.payout_id')
          .where((on) => on(on.fn.coalesce('n.correction_number', on.lit(1)), '=', on.ref('l.payment_number')))
          .limit(1)
          .as('r'),
      (join) => join.on('l.is_returned', '=', true),
    )
    .select((eb) => [
      'l.id',
      'l.program_id',
      'l.payout_id',
      'l.payout_run_id',
      'l.partner_id',
      'l.partner_name',
      'l.currency',
      'e.cause',
      'e.commission_id',
      transactionOfEntry,
      'e.refund_id',
      'e.adjustment_id',
      noteOfEntry,
      /** The part of the entry that this payment pays. */
      'l.amount_cents',
      /** The whole entry. */
      'e.amount_cents as entry_cents',
      'l.is_returned',
      'e.created_at',
      /** The reference of the transfer, even if it came back. */
      eb
        .case()
        .when('l.is_returned', '=', true)
        .then(eb.ref('r.reference'))
        .else(eb.ref('l.reference'))
        .end()
        .as('reference'),
      'r.created_at as returned_at',
    ])
  return partOf(lines, sql.ref<number>('l.id'), list)
}
