import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../database.ts'

/**
 * Folds the slots of past hours into the row of their day, slot 0, which has the figures by hour too, and returns how many rows went:
 * at most `limit` of `daily_totals` and of `daily_money` each. The sums of a day and of its hours are the same before, while and after.
 * Each table is a transaction of its own, takes only rows that nobody holds and writes in key order, so it may run twice at once
 * and beside writers without waiting in a circle; what a late write (a refund of an old sale) puts into a slot afterwards is
 * folded by the next run.
 */
export async function foldDailyTotals(db: Database, limit: number): Promise<number> {
  const totals = await fold(db, 'daily_totals', ['program_id', 'day'], ['clicks', 'leads', 'conversions'], limit)
  const money = ['sales', 'revenue_cents', 'commission_cents']
  return Math.max(totals, await fold(db, 'daily_money', ['program_id', 'day', 'currency'], money, limit))
}

async function fold(db: Database, name: string, key: string[], figures: string[], limit: number): Promise<number> {
  const table = sql.raw(name)
  const keys = sql.raw(key.join(', '))
  const each = (separator: string, text: (figure: string) => string): RawBuilder<unknown> =>
    sql.raw(figures.map(text).join(separator))
  const [row] = await db.query(sql<{ folded: string }>`with waiting as (
  select ${keys}, slot from ${table}
  where slot >= 64 and (day < utc_day(now()) or day = utc_day(now()) and slot < 64 * hour_of_day(now()))
  order by day limit ${limit} for update skip locked
),
folded as (
  delete from ${table} t using waiting w
  where (${sql.raw([...key, 'slot'].map((column) => `t.${column} = w.${column}`).join(' and '))})
  returning t.*, t.slot / 64 as hour
),
hourly as (
  select ${keys}, hour, ${each(', ', (figure) => `coalesce(sum(${figure}), 0) as ${figure}`)}
  from (select distinct ${keys} from folded) days cross join generate_series(1, 24) hour left join folded using (${keys}, hour)
  group by ${keys}, hour
),
kept as (
  insert into ${table} as counted (${keys}, slot, ${each(', ', (figure) => `${figure}, ${figure}_by_hour`)})
  select ${keys}, 0, ${each(', ', (figure) => `sum(${figure}), array_agg(${figure} order by hour)`)}
  from hourly group by ${keys} order by ${keys}
  on conflict (${keys}, slot) do update set ${each(
    ', ',
    (figure) => `${figure} = counted.${figure} + excluded.${figure},
    ${figure}_by_hour = add_hours(counted.${figure}_by_hour, excluded.${figure}_by_hour)`,
  )}
)
select count(*) as folded from folded`)
  return Number(row?.folded)
}
