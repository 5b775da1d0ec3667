import { sql } from 'kysely'
import type { Database } from '../database.ts'

export interface OutboxDelivery {
  id: number
  kind: string
  audience: 'partner' | 'advertiser'
  partner_name: string
  created_at: Date
  sent_at: Date | null
  delivered_at: Date | null
}

/** The messages that changes in a program have caused, and how far each has come, the newest first. */
export async function listOutbox(
  db: Database,
  programId: number,
  options: { limit: number; before?: number | undefined },
): Promise<OutboxDelivery[]> {
  const rows = await db.query(sql<Omit<OutboxDelivery, 'id'> & { id: string }>`
    select o.id, o.kind, o.audience, p.name as partner_name, o.created_at, o.sent_at, o.delivered_at
    from outbox o join partners p on p.id = o.partner_id
    where o.program_id = ${programId} and o.id < coalesce(${options.before ?? null}::bigint, 9223372036854775807)
    order by o.id desc limit ${options.limit}`)
  return rows.map((row) => ({ ...row, id: Number(row.id) }))
}
