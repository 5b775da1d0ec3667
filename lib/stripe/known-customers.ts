import { call, type Database } from '../database.ts'

/**
 * How many payments of the last 90 days say nothing of their buyer and are left out because the program does not attribute known
 * customers' payments. One that several events tell of counts once.
 */
export async function countLeftOut(db: Database, programId: number): Promise<number> {
  const [row] = await db.query(excluded(programId))
  return row?.count_excluded_payments ?? 0
}

export const excluded = (programId: number) => call('count_excluded_payments', { of_program_id: programId })

/**
 * Turns the program's setting on, and has what was left out for it applied again: it waits for `applyParkedEvents` from then on. May be
 * done again at any time. Returns the account of these events, null where none is connected.
 */
export async function attributeKnownCustomers(db: Database, programId: number): Promise<string | null> {
  const [row] = await db.query(call('attribute_known_customers', { of_program_id: programId }))
  return row?.attribute_known_customers ?? null
}
