import { call, type Database } from '../database.ts'

/**
 * Deletes customers who are only a click and whose window is over, looking through `limit` click events at most (migrations/functions/upkeep/retention.sql).
 * A click id of theirs that comes later is answered as one that has expired. `more` says whether others wait.
 */
export async function deleteExpiredCustomers(db: Database, limit: number): Promise<{ deleted: number; more: boolean }> {
  const [row] = await db.query(call('delete_expired_customers', { max_clicks: limit }))
  return { deleted: row?.deleted ?? 0, more: row?.more ?? false }
}

/**
 * Drops the oldest month of click events where it ended `months` months ago and every program's window is past it, and returns its
 * name; undefined where none is due. Totals, and each link's clicks, stay.
 */
export async function dropClickMonth(db: Database, months: number): Promise<string | undefined> {
  const [row] = await db.query(call('drop_click_month', { months_kept: months }))
  return row?.drop_click_month ?? undefined
}

const defaultMonths = 25

/** How many months click events are kept, as CLICK_RETENTION_MONTHS of the deployment says: 25 where it is empty. */
export function clickRetentionMonths(given: string | undefined): number {
  const months = Number(given || defaultMonths)
  if (!Number.isInteger(months) || months < 1) {
    throw new Error('CLICK_RETENTION_MONTHS takes a whole number of months from 1 on, or nothing for 25.')
  }
  return months
}
