import { type Expression, type InferResult, sql } from 'kysely'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'
import { noteOfEntry, transactionOfEntry } from './balances.ts'

/** A partner, as seen by their program or by the person themselves. */
export type StatementOf = { programId: number; partnerId: number } | { userId: string; programId: number }

/** One currency of a month (UTC). `from` is the start of the month and `to` the start of the next. Null means the program's currency. */
export interface StatementPeriod {
  from: Date
  to: Date
  currency: string | null
}

export type StatementEntry = InferResult<ReturnType<typeof statementEntriesStatement>>[number]
export type StatementTotals = InferResult<ReturnType<typeof statementTotalsStatement>>[number]

/** Names of the causes of balance entries. */
export const causeTexts: Record<string, string> = {
  commission_credited: 'Commission',
  commission_corrected: 'Correction of a commission',
  commission_reversed: 'Reversal',
  reversal_returned: 'Reversal undone',
  adjusted: 'Manual commission or deduction',
  opening_balance: 'Opening balance from another service',
  payout_paid: 'Payout',
  payout_returned: 'Returned payout',
}

/** Returns a month such as `2026-01` as a range of times, or undefined if the text is not a month. */
export function monthRange(text: string | undefined): Pick<StatementPeriod, 'from' | 'to'> | undefined {
  if (!text || !/^20\d\d-(0[1-9]|1[0-2])$/.test(text)) return undefined
  const [year = 0, month = 0] = text.split('-').map(Number)
  return { from: new Date(Date.UTC(year, month - 1)), to: new Date(Date.UTC(year, month)) }
}

/**
 * Returns whether a month's statement can still change, which is until an hour after the month's end. An entry has the time at which its
 * transaction began, but it is visible only after the commit.
 */
export const isOpenMonth = ({ to }: Pick<StatementPeriod, 'to'>, now: Date) =>
  now.getTime() < to.getTime() + 60 * 60 * 1000

/**
 * Lists the balance entries of a partner in one month and currency, newest first. Entries never change, and a later correction is an entry
 * in its own month. So the statement of a past month never changes. Throws `not_found` if there is no such partner.
 */
export async function listStatementEntries(
  db: Database,
  of: StatementOf,
  period: StatementPeriod,
  part: Part,
): Promise<StatementEntry[]> {
  const [[partner], entries] = await db.batch([
    partnersOf(of).select('p.id'),
    statementEntriesStatement(of, period, part),
  ])
  if (!partner) throw noPartner()
  return entries
}

/**
 * Reads the balance before and after the month, the month's sums of credits and of deductions, and the partner's currencies. All
 * amounts are in minor units. Throws `not_found` if there is no such partner.
 */
export async function readStatementTotals(
  db: Database,
  of: StatementOf,
  period: StatementPeriod,
): Promise<StatementTotals> {
  const [totals] = await db.query(statementTotalsStatement(of, period))
  if (!totals) throw noPartner()
  return totals
}

const noPartner = () => new ApiError('not_found', 'There is no such partner.')

const chosen = (currency: string | null) =>
  sql<string>`coalesce(${currency}, (select o.currency from programs o where o.id = p.program_id))`

const partnersOf = (of: StatementOf) => {
  const query = kysely.selectFrom('partners as p').where('p.program_id', '=', of.programId)
  return 'userId' in of ? query.where('p.user_id', '=', of.userId) : query.where('p.id', '=', of.partnerId)
}

/** Counts the entries of a month and sums them. */
export const statementEntryTotals = (of: StatementOf, period: StatementPeriod) =>
  totalsOf(statementEntriesStatement(of, period, { limit: 0 }), sql<number>`amount_cents`)

export function statementEntriesStatement(of: StatementOf, { from, to, currency }: StatementPeriod, part: Part) {
  const query = partnersOf(of)
    .innerJoin('balance_entries as e', (join) =>
      join.onRef('e.program_id', '=', 'p.program_id').onRef('e.partner_id', '=', 'p.id'),
    )
    .select([
      'e.entry_number as id',
      'e.program_id',
      'e.created_at',
      'e.cause',
      'e.currency',
      'e.amount_cents',
      'e.balance_after_cents',
      'e.commission_id',
      transactionOfEntry,
      'e.refund_id',
      'e.payout_id',
      'e.reference',
      'e.adjustment_id',
      noteOfEntry,
    ])
    .where('e.currency', '=', chosen(currency))
    .where('e.created_at', '>=', from)
    .where('e.created_at', '<', to)
  return partOf(query, sql.ref<number>('e.entry_number'), part)
}

export function statementTotalsStatement(of: StatementOf, { from, to, currency }: StatementPeriod) {
  const entries = () =>
    kysely
      .selectFrom('balance_entries as e')
      .where('e.program_id', '=', sql.ref<number>('p.program_id'))
      .where('e.partner_id', '=', sql.ref<number>('p.id'))
      .where('e.currency', '=', chosen(currency))
  const balanceAt = (moment: Date) =>
    orZero(
      entries()
        .select('e.balance_after_cents')
        .where('e.created_at', '<', moment)
        .orderBy('e.entry_number', 'desc')
        .limit(1),
    )
  const sumOf = (sign: '>' | '<') =>
    orZero(
      entries()
        .select((eb) => eb.cast<number>(eb.fn.sum('e.amount_cents'), 'bigint').as('cents'))
        .where('e.created_at', '>=', from)
        .where('e.created_at', '<', to)
        .where('e.amount_cents', sign, 0),
    )
  return partnersOf(of)
    .innerJoin('programs as g', 'g.id', 'p.program_id')
    .select([
      'p.id as partner_id',
      'p.name as partner_name',
      'g.name as program_name',
      chosen(currency).as('currency'),
      balanceAt(from).as('opening_cents'),
      sumOf('>').as('credited_cents'),
      sumOf('<').as('deducted_cents'),
      balanceAt(to).as('closing_cents'),
      sql<string[]>`array(
        select b.currency::text from balances b where b.program_id = p.program_id and b.partner_id = p.id order by b.currency
      )`.as('currencies'),
    ])
}

const orZero = (cents: Expression<unknown>) => sql<number>`coalesce(${cents}, 0)::bigint`
