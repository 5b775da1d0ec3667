import { type InferResult, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import type { Database } from '../database.ts'
import { type Filters, type Order, type Part, partOf, totalsOf } from '../keyset.ts'
import { hasWords, kysely } from '../kysely.ts'

export const commissionStatuses = ['pending', 'approved', 'paid', 'refunded', 'reversed'] as const
export type CommissionStatus = (typeof commissionStatuses)[number]

export type ListedCommission = InferResult<ReturnType<typeof commissionsStatement>>[number]

export const commissionSorts = ['newest', 'oldest', 'amount', 'hold'] as const

/** Selects the names of the flags in a commission's review (`commission_reviews v`). Null if the commission was never held. */
export const flagNames = sql<string[] | null>`jsonb_path_query_array(v.flags, '$[*].rule')`.as('flags')

interface CommissionList extends Part {
  /** Newest first by default. Other orders: by amount, largest first, or by the end of the hold, soonest first. */
  sort?: (typeof commissionSorts)[number] | undefined
  /** Searches the partner's name, or matches the whole transaction id. */
  search?: string | undefined
  status?: CommissionStatus | undefined
  partner_id?: number | undefined
  /** Created in this range, which excludes `to`. */
  from?: Date | undefined
  to?: Date | undefined
  updated_since?: Date | undefined
  /** A program's commissions for review: waiting or decided. */
  review?: 'waiting' | 'decided' | undefined
  transaction_id?: string | undefined
  commissionId?: number | undefined
  commissionIds?: number[] | undefined
}

/** A program, one of its partners, or a person as a partner in all their programs. */
type Holder = { programId: number } | { programId: number; partnerId: number } | { userId: string }

/** Lists commissions of a program, of a partner or of a person. `list` selects, orders and limits them. */
export async function listCommissions(db: Database, of: Holder, list: CommissionList): Promise<ListedCommission[]> {
  return await db.query(commissionsStatement(of, list))
}

/** Counts a whole list of commissions and sums their amounts after reversals. */
export const commissionTotals = (of: Holder, filters: Filters<CommissionList>) =>
  totalsOf(commissionsStatement(of, { ...filters, limit: 0 }), sql<number>`amount_cents - reversed_cents`)

const reviewOf = kysely
  .selectFrom('commission_reviews as r')
  .select('r.commission_id')
  .where('r.program_id', '=', sql.ref<number>('n.program_id'))
  .where('r.commission_id', '=', sql.ref<number>('n.id'))
  .where('r.decision', 'is not', null)

/** Shadow-mode commissions are never credited, so they don't need a decision. */
const creditable = () => kysely.selectFrom('commissions as n').where('n.is_shadow', '=', sql.lit(false))

/** Held commissions that wait for a person's decision, in any program. */
export const heldCommissions = () => creditable().where('n.held_at', 'is not', null).where('n.reversal', '<>', 'full')

const browserNamed = () => creditable().where('n.review_reason', 'is not', null).where('n.held_at', 'is', null)
const isSettled = sql<boolean>`num_nonnulls(n.credited_at, n.rejected_at) > 0 or n.reversal = 'full'`

/** Commissions of customers that only a browser has reported, until the commissions are credited or reviewed. */
export const unverifiedCommissions = () =>
  browserNamed()
    .where(sql<boolean>`not (${isSettled})`)
    .where((eb) => eb.not(eb.exists(reviewOf)))
const settledCommissions = () => browserNamed().where(sql<boolean>`(${isSettled})`)
const reviewedCommissions = () =>
  kysely
    .selectFrom('commission_reviews as r')
    .innerJoin('commissions as n', (join) =>
      join.onRef('n.program_id', '=', 'r.program_id').onRef('n.id', '=', 'r.commission_id'),
    )
    .where('r.decision', 'is not', null)

/** The statement of `listCommissions`, for a transaction that decides on a commission. */
export function commissionsStatement(of: Holder, list: CommissionList) {
  const {
    status,
    partner_id,
    from,
    to,
    updated_since,
    review,
    transaction_id,
    search,
    sort = 'newest',
    ...others
  } = list
  const { commissionId, commissionIds, ...part } = others
  let query = kysely
    .selectFrom('commissions as c')
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'c.program_id').onRef('p.id', '=', 'c.partner_id'),
    )
    .leftJoin('sales as s', (join) => join.onRef('s.program_id', '=', 'c.program_id').onRef('s.id', '=', 'c.sale_id'))
    .leftJoin('commission_reviews as v', (join) =>
      join.onRef('v.program_id', '=', 'c.program_id').onRef('v.commission_id', '=', 'c.id'),
    )
    .select((eb) => [
      'c.program_id',
      'c.id',
      'c.kind',
      'c.partner_id',
      'c.customer_id',
      'p.name as partner_name',
      'c.status',
      'c.currency',
      'c.amount_cents',
      'c.reversed_cents',
      /** The reason for its reversal or rejection. */
      'c.reason',
      /** The reason why a person should review the commission. Null for most commissions. */
      'c.review_reason',
      /** The time when the commission was held for review, and the names of its flags. Null if it was never held. */
      'c.held_at',
      'v.decision as review_decision',
      flagNames,
      /** The commission's sale. Null for a lead commission. */
      's.transaction_id',
      's.amount_cents as sale_cents',
      'c.hold_until',
      'c.credited_at',
      'c.rejected_at',
      /** Computed in shadow mode, and never credited. */
      'c.is_shadow',
      /** The payout that paid the commission's last part. */
      'c.payout_id',
      'c.created_at',
      'c.updated_at',
      /** The refunds and chargebacks that reversed it, oldest first. Rows with `returned` were undone. */
      jsonArrayFrom(
        eb
          .selectFrom('refunds as r')
          .select((refund) => [
            'r.applied_cents as amount_cents',
            'r.reason',
            'r.reason_text',
            'r.created_at as at',
            refund('r.returned_at', 'is not', null).as('returned'),
          ])
          .whereRef('r.program_id', '=', 'c.program_id')
          .whereRef('r.sale_id', '=', 'c.sale_id')
          .orderBy('r.id'),
      ).as('refunds'),
    ])
    .$narrowType<{ status: CommissionStatus }>()
  query = 'userId' in of ? query.where('p.user_id', '=', of.userId) : query.where('c.program_id', '=', of.programId)
  if ('partnerId' in of) query = query.where('c.partner_id', '=', of.partnerId)
  // Partners don't see shadow-mode commissions.
  if ('partnerId' in of || 'userId' in of) query = query.where('c.is_shadow', '=', sql.lit(false))
  if (status !== undefined) query = query.where('c.status', '=', status)
  if (partner_id !== undefined) query = query.where('c.partner_id', '=', partner_id)
  if (from !== undefined) query = query.where('c.created_at', '>=', from)
  if (to !== undefined) query = query.where('c.created_at', '<', to)
  if (updated_since !== undefined) query = query.where('c.updated_at', '>=', updated_since)
  if (review !== undefined && 'programId' in of) {
    const [one, other] =
      review === 'waiting'
        ? [heldCommissions().select('n.id'), unverifiedCommissions().select('n.id')]
        : [reviewedCommissions().select('n.id'), settledCommissions().select('n.id')]
    const ids = one.where('n.program_id', '=', of.programId).union(other.where('n.program_id', '=', of.programId))
    query = query.where(sql<boolean>`c.id = any (array(${ids}))`)
  }
  if (transaction_id !== undefined)
    query = query.where('s.transaction_id', '=', transaction_id).where('s.is_test', '=', false)
  if (commissionId !== undefined) query = query.where('c.id', '=', commissionId)
  if (commissionIds !== undefined) query = query.where(sql<boolean>`c.id = any (${commissionIds}::bigint[])`)
  if (search !== undefined) {
    // Partners and sales are looked up first, because commissions don't contain names or transaction ids.
    const partners = kysely.selectFrom('partners as n').where(hasWords(sql.ref('n.name'), search))
    const sales = kysely.selectFrom('sales as n').select('n.id').where('n.transaction_id', '=', search)
    const ofTheirs =
      'programId' in of
        ? {
            partners: partners.where('n.program_id', '=', of.programId),
            sales: sales.where('n.program_id', '=', of.programId),
          }
        : {
            partners: partners.where('n.user_id', '=', of.userId),
            sales: sales.where('n.program_id', 'in', (eb) =>
              eb.selectFrom('partners').select('program_id').where('user_id', '=', of.userId),
            ),
          }
    query = query.where(
      sql<boolean>`(c.partner_id = any (array(${ofTheirs.partners.select('n.id')})) or c.sale_id = any (array(${ofTheirs.sales})))`,
    )
  }
  return partOf(query, sql.ref<number>('c.id'), part, orderBy(sort, from !== undefined || to !== undefined))
}

/** The query finds a range of days by time, so it also orders the commissions by time. */
function orderBy(sort: (typeof commissionSorts)[number], isOfRange: boolean): Order {
  const isByTime = sort === 'newest' || sort === 'oldest'
  if (isByTime && !isOfRange) return { ascending: sort === 'oldest' }
  const column = isByTime ? 'created_at' : sort === 'amount' ? 'amount_cents' : 'hold_until'
  const of = (id: number) =>
    kysely
      .selectFrom('commissions as n')
      .select(`n.${column}`)
      .where('n.program_id', '=', sql.ref<number>('c.program_id'))
      .where('n.id', '=', id)
  return { ascending: sort === 'hold' || sort === 'oldest', value: { by: sql.ref(`c.${column}`), of } }
}

/**
 * Returns a partner's earnings after reversals on each of the last `days` days (UTC), oldest first, in the currency of their newest
 * program.
 */
export async function earningsByDay(
  db: Database,
  userId: string,
  days: number,
): Promise<{ date: string; currency: string; amount_cents: number }[]> {
  const currency = sql<string>`(select g.currency from partners p join programs g on g.id = p.program_id where p.user_id = ${userId}
    order by p.id desc limit 1)`
  const day = sql<{ date: Date }>`(select utc_day(now()) - n as date from generate_series(0, ${days - 1}::int) n)`
  return await db.query(
    kysely
      .selectFrom(day.as('day'))
      .leftJoin('commissions as c', (join) =>
        join
          .on((eb) => eb(eb.fn<Date>('utc_day', ['c.created_at']), '=', eb.ref('day.date')))
          .on('c.currency', '=', currency)
          .on('c.is_shadow', '=', sql.lit(false))
          .on('c.created_at', '>=', sql<Date>`now() - make_interval(days => ${days})`)
          .on((eb) =>
            eb(
              eb.refTuple('c.program_id', 'c.partner_id'),
              'in',
              eb
                .selectFrom('partners as p')
                .select(['p.program_id', 'p.id'])
                .where('p.user_id', '=', userId)
                .$asTuple('program_id', 'id'),
            ),
          ),
      )
      .select((eb) => [
        eb.cast<string>('day.date', 'text').as('date'),
        currency.as('currency'),
        eb
          .cast<number>(
            eb.fn.coalesce(eb.fn.sum(eb('c.amount_cents', '-', eb.ref('c.reversed_cents'))), eb.lit(0)),
            'bigint',
          )
          .as('amount_cents'),
      ])
      .groupBy('day.date')
      .orderBy('day.date'),
  )
}
