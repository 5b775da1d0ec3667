import { sql } from 'kysely'
import type { Database } from '../database.ts'

/** Makes a workspace with its first owner and returns its id. */
export async function createWorkspace(db: Database, workspace: { name: string; ownerId: string }): Promise<string> {
  const id = crypto.randomUUID()
  await db.query(sql`
    with made as (insert into workspaces (id, name) values (${id}, ${workspace.name}) returning id)
    insert into workspace_members (workspace_id, user_id, role) select id, ${workspace.ownerId}, 'owner' from made`)
  return id
}
