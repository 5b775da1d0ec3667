import type { Database } from '../database.ts'
import { leftOut } from './known-customers.ts'
import { waitingEvents } from './parked-events.ts'

export type ConnectionState = Awaited<ReturnType<typeof readConnectionState>>

/** What the settings say of a program's Stripe account, in one request: what waits for it and what is left out. */
export async function readConnectionState(db: Database, programId: number) {
  const [waiting, [left]] = await db.batch([waitingEvents(programId), leftOut(programId)])
  return { waiting, leftOut: left?.count_left_out ?? 0 }
}
