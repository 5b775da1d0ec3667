import { call, type Database } from '../database.ts'

/**
 * Folds the slots of past hours into the row of their day, slot 0, which has the figures by hour too, and returns how many rows went:
 * at most `limit` of `daily_totals` and of `daily_money` each. The sums of a day and of its hours are the same before, while and after.
 * Each table is a transaction of its own, so it may run twice at once and beside writers; what a late write (a refund of an old
 * sale) puts into a slot afterwards is folded by the next run.
 */
export async function foldDailyTotals(db: Database, limit: number): Promise<number> {
  const [totals] = await db.query(call('fold_daily_totals', { max_rows: limit }))
  const [money] = await db.query(call('fold_daily_money', { max_rows: limit }))
  return Math.max(totals?.fold_daily_totals ?? 0, money?.fold_daily_money ?? 0)
}
