import { call, type Database, isLockTimeout } from '../database.ts'

/**
 * Deletes customers of one program or of all programs who only clicked and whose window is over. Reads up to about `limit` click events
 * (migrations/functions/upkeep/retention.sql). Later calls with their click ids get the response for expired ids. `more` says whether more
 * are waiting.
 */
export async function deleteExpiredCustomers(
  db: Database,
  limit: number,
  programId: number | null = null,
): Promise<{ deleted: number; more: boolean }> {
  const [row] = await db.query(call('delete_expired_customers', { max_clicks: limit, of_program_id: programId }))
  return { deleted: row?.deleted ?? 0, more: row?.more ?? false }
}

/**
 * Drops the oldest month of click events if it ended `months` months ago and before every program's window. Returns the
 * month's name, or undefined if none is due or if another transaction holds its lock. Totals and the clicks of each
 * link are kept.
 */
export async function dropClickMonth(db: Database, months: number): Promise<string | undefined> {
  try {
    const [row] = await db.query(call('drop_click_month', { months_kept: months }))
    return row?.drop_click_month ?? undefined
  } catch (error) {
    if (!isLockTimeout(error)) throw error
    console.warn(JSON.stringify({ function: 'apply-retention', delayed: 'drop_click_month' }))
    return undefined
  }
}

/**
 * Rewrites up to `limit` clicks of the oldest past month into shorter rows (migrations/functions/upkeep/rewriting.sql). `more` says
 * whether clicks are waiting. It is false if another transaction holds a lock. In that case, the next run continues.
 */
export async function rewriteClicks(db: Database, limit: number): Promise<{ rewritten: number; more: boolean }> {
  try {
    const [row] = await db.query(call('rewrite_clicks', { max_clicks: limit }))
    return { rewritten: row?.rewritten ?? 0, more: row?.more ?? false }
  } catch (error) {
    if (!isLockTimeout(error)) throw error
    console.warn(JSON.stringify({ function: 'apply-retention', delayed: 'rewrite_clicks' }))
    return { rewritten: 0, more: false }
  }
}

/** How many months a deployment keeps click events by default. */
export const defaultClickMonths = 25

/** Returns how many months the deployment keeps click events: CLICK_RETENTION_MONTHS, or 25 if it is empty. */
export function clickRetentionMonths(value: string | undefined): number {
  const months = Number(value || defaultClickMonths)
  if (!Number.isInteger(months) || months < 1) {
    throw new Error('CLICK_RETENTION_MONTHS must be a whole number of months, at least 1, or empty for 25.')
  }
  return months
}
