import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'

export type OutboxNotification = Awaited<ReturnType<typeof listOutbox>>[number]

/**
 * The messages that changes in a program have caused, and how far each has come, the newest first: `limit` of them at most, below
 * the id `before` where one is given.
 */
export async function listOutbox(
  db: Database,
  programId: number,
  options: { limit: number; before?: number | undefined },
) {
  const { limit, before } = options
  let query = kysely
    .selectFrom('outbox as o')
    .leftJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'o.program_id').onRef('p.id', '=', 'o.partner_id'),
    )
    .select(['o.id', 'o.kind', 'o.audience', 'p.name as partner_name', 'o.created_at', 'o.sent_at', 'o.delivered_at'])
    .where('o.program_id', '=', programId)
    .orderBy('o.id', 'desc')
    .limit(limit)
  if (before !== undefined) query = query.where('o.id', '<', before)
  return await db.query(query)
}
