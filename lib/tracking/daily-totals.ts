import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/**
 * Folds the slots of past hours into slot 0 of their day, which also has the figures by hour. Folds up to `limit` rows each of
 * `daily_totals` and `daily_money`, of one program or of all programs, and returns the number of deleted rows. The sums of a day and its hours don't change. Each table has
 * its own transaction, so runs can overlap with each other and with writers. The next run also folds late writes, such as a refund of an
 * old sale.
 */
export async function foldDailyTotals(db: Database, limit: number, programId: number | null = null): Promise<number> {
  const rows = { max_rows: limit, of_program_id: programId }
  const [totals] = await db.query(call('fold_daily_totals', rows))
  const [money] = await db.query(call('fold_daily_money', rows))
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

/** Lists the programs with slots that aren't folded yet. */
export async function programsToFold(db: Database): Promise<number[]> {
  const rows = await db.query(
    kysely
      .selectFrom('daily_totals')
      .select('program_id')
      .where('slot', '>', 0)
      .union(kysely.selectFrom('daily_money').select('program_id').where('slot', '>', 0)),
  )
  return rows.map(({ program_id }) => program_id)
}
