import { sql } from 'kysely'
import type { Database } from './database.ts'

export interface ProcessorEvent {
  event_id: string
  event_type: string
  livemode: boolean
  outcome: 'recorded' | 'duplicate' | 'ignored' | 'parked'
  /** Why it was ignored or parked. */
  reason: string | null
  received_at: Date
}

/** What the payment processor sent for a program and what became of it, the newest first. */
export async function listProcessorEvents(
  db: Database,
  programId: number,
  options: { limit: number; before?: Date | undefined },
): Promise<ProcessorEvent[]> {
  return await db.query(sql<ProcessorEvent>`
    select event_id, event_type, livemode, outcome, reason, received_at from processor_events
    where program_id = ${programId} and received_at < coalesce(${options.before ?? null}::timestamptz, 'infinity')
    order by received_at desc, event_id limit ${options.limit}`)
}

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
