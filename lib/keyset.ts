import { type Expression, type SelectQueryBuilder, sql } from 'kysely'
import type { Statement } from './database.ts'
import { kysely } from './kysely.ts'

/** A page of a list: up to `limit` rows below the row with the id `before`, or the nearest rows above the row with the id `after`. */
export interface Part<Id = number> {
  limit: number
  before?: Id | undefined
  after?: Id | undefined
}

/** The order of a list: optionally by a value that is never null, and then by row id. */
export interface Order<Id = number> {
  ascending: boolean
  value?: {
    by: Expression<unknown>
    /** The value of the row with this id. */
    of: (id: Id) => Expression<unknown>
  }
}

/** Limits a list to one page, with the latest ids first unless the list has another order. */
export function partOf<DB, TB extends keyof DB, Row, Id extends number | string>(
  list: SelectQueryBuilder<DB, TB, Row>,
  id: Expression<Id>,
  { limit, before, after }: Part<Id>,
  { ascending, value }: Order<Id> = { ascending: false },
): SelectQueryBuilder<DB, TB, Row> {
  const rises = ascending !== (after !== undefined)
  const direction = rises ? 'asc' : 'desc'
  const ordered = (value ? list.orderBy(value.by, direction) : list).orderBy(id, direction).limit(limit)
  const end = after ?? before
  if (end === undefined) return ordered
  const beyond = sql.raw(rises ? '>' : '<')
  if (!value) return ordered.where(sql<boolean>`${id} ${beyond} ${end}`)
  return ordered.where(sql<boolean>`(${value.by}, ${id}) ${beyond} (${value.of(end)}, ${end})`)
}

/** The filters of a list, without its page. */
export type Filters<List extends Pick<Part, 'limit'>> = Omit<List, keyof Part>

/** The number of rows in all pages of a list, and the sum of their amounts, for one currency. Rows without amounts have no currency. */
export interface Totals {
  currency: string | null
  rows: number
  cents: number
  /** Whether the list has more rows than `rows`. */
  hasMore?: boolean
}

/** Counting more rows takes too long for lists that grow with the traffic, such as clicks. */
const maxCounted = 1000

/** A part of a list with enough rows for `countStatement`. */
export const countedPart = { limit: maxCounted + 1 } as const satisfies Part

/** Counts the rows of a list up to 1,000. The list must be limited to `countedPart`. */
export function countStatement<DB, TB extends keyof DB, Row>(list: SelectQueryBuilder<DB, TB, Row>): Statement<Totals> {
  return kysely
    .selectFrom(list.clearOrderBy().as('row'))
    .select([
      sql<null>`null::text`.as('currency'),
      sql<number>`least(count(*), ${sql.lit(maxCounted)})`.as('rows'),
      sql<number>`0`.as('cents'),
      sql<boolean>`count(*) > ${sql.lit(maxCounted)}`.as('hasMore'),
    ])
}

/** Counts all rows of a list and sums `cents`, an expression on its columns. */
export function totalsOf<DB, TB extends keyof DB, Row>(
  list: SelectQueryBuilder<DB, TB, Row>,
  cents?: Expression<number>,
): Statement<Totals> {
  return kysely
    .selectFrom(list.clearOrderBy().clearLimit().as('row'))
    .select([
      (cents ? sql<string | null>`currency` : sql<null>`null::text`).as('currency'),
      sql<number>`count(*)`.as('rows'),
      sql<number>`coalesce(sum(${cents ?? sql.lit(0)}), 0)::bigint`.as('cents'),
    ])
    .groupBy(sql`1`)
    .orderBy(sql`1`)
}
