import { refuse } from '../constraints.ts'
import { call, type Database } from '../database.ts'

/** Counts the bytes that a form may store for a workspace. Throws `rate_limited` if they are too many for a day. */
export async function countFormBytes(db: Database, workspaceId: string, bytes: number): Promise<void> {
  await db
    .query(call('count_workspace_bytes', { counter: 'form bytes', of_workspace_id: workspaceId, bytes }))
    .catch(refuse)
}
