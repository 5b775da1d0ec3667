import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/** Makes a workspace with its first owner and returns its id. */
export async function createWorkspace(db: Database, workspace: { name: string; ownerId: string }): Promise<string> {
  const { name, ownerId } = workspace
  const id = crypto.randomUUID()
  await db.batch([
    kysely.insertInto('workspaces').values({ id, name }),
    kysely.insertInto('workspace_members').values({ workspace_id: id, user_id: ownerId, role: 'owner' }),
  ])
  return id
}
