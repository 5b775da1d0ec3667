import { call, type Database } from '../database.ts'

/**
 * Counts the excluded payments of the last 90 days. These payments don't identify a buyer, and the program doesn't attribute payments from
 * known customers. A payment that several events report counts once.
 */
export async function countExcludedPayments(db: Database, programId: number): Promise<number> {
  const [row] = await db.query(excluded(programId))
  return row?.count_excluded_payments ?? 0
}

export const excluded = (programId: number) => call('count_excluded_payments', { of_program_id: programId })

/**
 * Enables the program's setting, so that `applyParkedEvents` applies the excluded payments again. Safe to repeat. Returns the connected
 * accounts of the program.
 */
export async function attributeKnownCustomers(db: Database, programId: number): Promise<string[]> {
  const [row] = await db.query(call('attribute_known_customers', { of_program_id: programId }))
  return row?.attribute_known_customers ?? []
}
