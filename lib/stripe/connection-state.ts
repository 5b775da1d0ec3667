import type { Database } from '../database.ts'
import { backfillOf } from './backfill.ts'
import { excluded } from './known-customers.ts'
import { waitingEvents } from './parked-events.ts'

export type ConnectionState = Awaited<ReturnType<typeof readConnectionState>>

/** What the settings say of a program's Stripe account, in one request: what waits for it, what is left out, and how far its past is read. */
export async function readConnectionState(db: Database, programId: number) {
  const [waiting, [left], [backfill]] = await db.batch([
    waitingEvents(programId),
    excluded(programId),
    backfillOf(programId),
  ])
  return { waiting, excluded: left?.count_excluded_payments ?? 0, backfill }
}
