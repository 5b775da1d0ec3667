import { sql } from 'kysely'
import type { Database } from './database.ts'

/**
 * Folds the slots of past days into slot 0 and returns how many rows went: at most `limit` of `daily_totals` and of
 * `daily_money` each. The sum of a day is the same before, while and after. Each table is a transaction of its own, takes only
 * rows that nobody holds and writes in key order, so it may run twice at once and beside writers without waiting in a circle;
 * what a late write (a refund of an old sale) puts into another slot afterwards is folded by the next run. Slots of
 * `link_clicks` have no days, so a link has 64 of them at most and they stay.
 */
export async function foldDailyTotals(db: Database, limit: number): Promise<number> {
  const [totals] = await db.query(sql<{ folded: string }>`with waiting as (
  select program_id, day, slot from daily_totals where slot > 0 and day < utc_day(now())
  order by day limit ${limit} for update skip locked
),
folded as (
  delete from daily_totals t using waiting w
  where t.program_id = w.program_id and t.day = w.day and t.slot = w.slot
  returning t.*
),
kept as (
  insert into daily_totals as counted (program_id, day, slot, clicks, leads, conversions)
  select program_id, day, 0, sum(clicks), sum(leads), sum(conversions) from folded group by program_id, day order by program_id, day
  on conflict (program_id, day, slot) do update set
    clicks = counted.clicks + excluded.clicks,
    leads = counted.leads + excluded.leads,
    conversions = counted.conversions + excluded.conversions
)
select count(*) as folded from folded`)
  const [money] = await db.query(sql<{ folded: string }>`with waiting as (
  select program_id, day, currency, slot from daily_money where slot > 0 and day < utc_day(now())
  order by day limit ${limit} for update skip locked
),
folded as (
  delete from daily_money t using waiting w
  where t.program_id = w.program_id and t.day = w.day and t.currency = w.currency and t.slot = w.slot
  returning t.*
),
kept as (
  insert into daily_money as counted (program_id, day, currency, slot, sales, revenue_cents, commission_cents)
  select program_id, day, currency, 0, sum(sales), sum(revenue_cents), sum(commission_cents)
  from folded group by program_id, day, currency order by program_id, day, currency
  on conflict (program_id, day, currency, slot) do update set
    sales = counted.sales + excluded.sales,
    revenue_cents = counted.revenue_cents + excluded.revenue_cents,
    commission_cents = counted.commission_cents + excluded.commission_cents
)
select count(*) as folded from folded`)
  return Math.max(Number(totals?.folded), Number(money?.folded))
}
