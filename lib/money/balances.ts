import { type Expression, type InferResult, sql } from 'kysely'
import { jsonObjectFrom } from 'kysely/helpers/postgres'
import { kysely } from '../kysely.ts'

/** A partner's debt to the program in one currency, and the time when it began. */
export type Debt = InferResult<ReturnType<typeof debtsStatement>>[number]

/** Lists up to 100 partners with a balance below zero, oldest debt first, including erased partners. */
export const debtsStatement = (programId: number) =>
  kysely
    .selectFrom('owed_balances as o')
    .innerJoin('partners as r', (join) =>
      join.onRef('r.program_id', '=', 'o.program_id').onRef('r.id', '=', 'o.partner_id'),
    )
    .select(['r.id as partner_id', 'r.name as partner_name'])
    // The generated types declare every column of a view as nullable.
    .select((eb) => [
      eb.ref('o.currency').$notNull().as('currency'),
      eb.ref('o.owed_cents').$notNull().as('owed_cents'),
      eb.ref('o.owed_since').$notNull().as('owed_since'),
    ])
    .where('o.program_id', '=', programId)
    .orderBy('o.owed_since')
    .orderBy('o.partner_id')
    .limit(100)

/**
 * The transaction of the commission behind the balance entry `e`, or the note of its adjustment. Subqueries read both by key. With joins,
 * 57 lines of a new program took a minute, because Postgres expected the program to have a single row and joined all of its sales.
 */
export const transactionOfEntry = sql<string | null>`(
  select s.transaction_id from sales s where s.program_id = e.program_id and s.id = (
    select c.sale_id from commissions c where c.program_id = e.program_id and c.id = e.commission_id
  )
)`.as('transaction_id')
export const noteOfEntry = sql<string | null>`(
  select a.note from adjustments a where a.program_id = e.program_id and a.id = e.adjustment_id
)`.as('note')

/** The amounts between a program and a partner in one currency, in minor units. */
export type PartnerBalance = InferResult<ReturnType<typeof balancesOf>>[number]

/**
 * Selects a partner's money in a program, one row per currency, ordered by currency code. Use it as a statement or as a column of a
 * partner's row.
 */
export function balancesOf(programId: number | Expression<number>, partnerId: number | Expression<number>) {
  const pending = kysely
    .selectFrom('commissions')
    .select((eb) => [
      'currency',
      eb('amount_cents', '-', eb.ref('reversed_cents')).as('pending_cents'),
      eb.lit<number>(0).as('balance_cents'),
      eb.lit<number>(0).as('requested_cents'),
      eb.lit<number>(0).as('paid_cents'),
    ])
    .where('program_id', '=', programId)
    .where('partner_id', '=', partnerId)
    .where('credited_at', 'is', null)
    .where('rejected_at', 'is', null)
    .where('is_shadow', '=', sql.lit(false))
  const credited = kysely
    .selectFrom('balances')
    .select((eb) => [
      'currency',
      eb.lit<number>(0).as('pending_cents'),
      'balance_cents',
      eb.lit<number>(0).as('requested_cents'),
      eb.lit<number>(0).as('paid_cents'),
    ])
    .where('program_id', '=', programId)
    .where('partner_id', '=', partnerId)
  const withdrawn = kysely
    .selectFrom('payouts')
    .select((eb) => [
      'currency',
      eb.lit<number>(0).as('pending_cents'),
      eb.lit<number>(0).as('balance_cents'),
      eb.case().when('decided_at', 'is', null).then(eb.ref('amount_cents')).else(eb.lit(0)).end().as('requested_cents'),
      eb.case().when('status', '=', 'paid').then(eb.ref('amount_cents')).else(eb.lit(0)).end().as('paid_cents'),
    ])
    .where('program_id', '=', programId)
    .where('partner_id', '=', partnerId)
  return (
    kysely
      .selectFrom(pending.unionAll(credited).unionAll(withdrawn).as('part'))
      // The sum of a bigint column is numeric, and the driver would return it as text.
      .select((eb) => [
        'currency',
        /** Commissions whose hold has not ended yet. */
        eb.cast<number>(eb.fn.sum('pending_cents'), 'bigint').as('pending_cents'),
        /** All credited commissions, minus reversals and payouts. Negative if reversals exceeded the balance. */
        eb.cast<number>(eb.fn.sum('balance_cents'), 'bigint').as('balance_cents'),
        /** The amount in open payouts. */
        eb.cast<number>(eb.fn.sum('requested_cents'), 'bigint').as('requested_cents'),
        /** The sum of all paid payouts. */
        eb.cast<number>(eb.fn.sum('paid_cents'), 'bigint').as('paid_cents'),
        /** The available amount: the balance minus open payouts, at least zero. */
        eb
          .cast<number>(
            eb.fn<number>('greatest', [
              eb(eb.fn.sum<number>('balance_cents'), '-', eb.fn.sum<number>('requested_cents')),
              eb.lit(0),
            ]),
            'bigint',
          )
          .as('available_cents'),
      ])
      .groupBy('currency')
      .orderBy('currency')
  )
}

/** Selects, as a column, the next UTC day on which pending commissions in `currency` become available to a partner, with their sum. */
export function nextCreditOf(
  programId: Expression<number>,
  partnerId: Expression<number>,
  currency: Expression<string>,
) {
  return jsonObjectFrom(
    kysely
      .selectFrom('commissions')
      .select([
        sql<string>`utc_day(hold_until)`.as('day'),
        sql<number>`sum(amount_cents - reversed_cents)::bigint`.as('amount_cents'),
      ])
      .where('program_id', '=', programId)
      .where('partner_id', '=', partnerId)
      .where('currency', '=', currency)
      .where('credited_at', 'is', null)
      .where('rejected_at', 'is', null)
      .where('held_at', 'is', null)
      .where('is_shadow', '=', sql.lit(false))
      .where('hold_until', '>', sql<Date>`now()`)
      .where((eb) => eb('amount_cents', '>', eb.ref('reversed_cents')))
      .groupBy(sql`1`)
      .orderBy(sql`1`)
      .limit(sql.lit(1)),
  )
}

/** Selects, as a column, the oldest open payout of a partner in `currency`. */
export function openPayoutOf(
  programId: Expression<number>,
  partnerId: Expression<number>,
  currency: Expression<string>,
) {
  return jsonObjectFrom(
    payoutsOf(programId, partnerId, currency)
      .select(['w.amount_cents', 'w.status', sql<string>`w.created_at`.as('since')])
      .where('w.decided_at', 'is', null)
      .where('w.amount_cents', '>', 0)
      .orderBy('w.id')
      .limit(sql.lit(1)),
  )
}

/** Selects, as a column, the latest payment to a partner in `currency`. */
export function lastPayoutOf(
  programId: Expression<number>,
  partnerId: Expression<number>,
  currency: Expression<string>,
) {
  return jsonObjectFrom(
    payoutsOf(programId, partnerId, currency)
      .select(['w.amount_cents', sql<string>`w.paid_on`.as('day')])
      .where('w.status', '=', 'paid')
      .orderBy('w.paid_on', 'desc')
      .limit(sql.lit(1)),
  )
}

const payoutsOf = (programId: Expression<number>, partnerId: Expression<number>, currency: Expression<string>) =>
  kysely
    .selectFrom('payouts as w')
    .where('w.program_id', '=', programId)
    .where('w.partner_id', '=', partnerId)
    .where('w.currency', '=', currency)
