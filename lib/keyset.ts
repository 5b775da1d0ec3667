import { type Expression, type SelectQueryBuilder, sql } from 'kysely'

/**
 * A page of a list: up to `limit` rows below the row with the id `before`, or with `after` the nearest rows above that
 * row.
 */
export interface Part<Id = number> {
  limit: number
  before?: Id | undefined
  after?: Id | undefined
}

/** The order of a list: by a value that is never null, if there is one, and then by row id. */
export interface Order<Id = number> {
  ascending: boolean
  value?: {
    by: Expression<unknown>
    /** The value of the row with this id. */
    of: (id: Id) => Expression<unknown>
  }
}

/** Limits a list to one page, the latest ids first unless it has another order. */
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
