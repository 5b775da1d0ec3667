import type { Database } from '../../database.ts'
import { backfillOf } from './backfill.ts'
import { excluded } from '../known-customers.ts'
import { waitingEvents } from '../parked-events.ts'

export type ConnectionState = Awaited<ReturnType<typeof readConnectionState>>

/**
 * Reads the state of a program's Stripe account for the settings in one request: its waiting events, its excluded payments and the progress
 * of its backfill.
 */
export async function readConnectionState(db: Database, programId: number) {
  const [waiting, [left], [backfill]] = await db.batch([
    waitingEvents(programId),
    excluded(programId),
    backfillOf(programId),
  ])
  return { waiting, excluded: left?.count_excluded_payments ?? 0, backfill }
}
