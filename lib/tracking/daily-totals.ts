import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/**
 * Folds the slots of past hours into slot 0 of their day, which also has the figures by hour. Folds up to `limit` rows each of
 * `daily_totals` and `daily_money`, and returns the number of deleted rows. The sums of a day and its hours don't change. Each table has
 * its own transaction, so runs can overlap with each other and with writers. The next run also folds late writes, such as a refund of an
 * old sale.
 */
export async function foldDailyTotals(db: Database, limit: number): Promise<number> {
  const [totals] = await db.query(call('fold_daily_totals', { max_rows: limit }))
  const [money] = await db.query(call('fold_daily_money', { max_rows: limit }))
  return Math.max(totals?.fold_daily_totals ?? 0, money?.fold_daily_money ?? 0)
}

/** Lists the programs with uncounted clicks or figures. */
export async function programsToCount(db: Database): Promise<number[]> {
  const rows = await db.query(
    kysely
      .selectFrom('uncounted_clicks')
      .select('program_id')
      .union(kysely.selectFrom('uncounted_figures').select('program_id')),
  )
  return rows.map(({ program_id }) => program_id)
}
