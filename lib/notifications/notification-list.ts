import { sql } from 'kysely'
import * as z from 'zod/mini'
import type { Database } from '../database.ts'

/** What a notification says of the event; which fields it has depends on its kind. */
const payload = z.object({
  commission_id: z.optional(z.number()),
  withdrawal_id: z.optional(z.number()),
  transaction_id: z.nullish(z.string()),
  amount_cents: z.number(),
  reduced_by_cents: z.optional(z.number()),
  currency: z.string(),
  reason: z.nullish(z.string()),
  deducted: z.optional(z.boolean()),
})

export interface InboxItem {
  id: number
  program_id: number
  program_name: string
  partner_name: string
  kind: string
  payload: z.infer<typeof payload>
  created_at: Date
  read: boolean
}

/** Whose notifications: an advertiser's of one program, or a partner's of all their programs. */
export type Inbox = { programId: number } | { partnerId: number }

function inboxOf(inbox: Inbox) {
  return 'programId' in inbox
    ? sql`n.program_id = ${inbox.programId} and n.audience = 'advertiser'`
    : sql`n.partner_id = ${inbox.partnerId} and n.audience = 'partner'`
}

/** In-app notifications, the newest first: `limit` of them at most, after the one with the id `before` where it is given. */
export async function listInbox(
  db: Database,
  inbox: Inbox,
  userId: string,
  options: { limit: number; before?: number | undefined },
): Promise<InboxItem[]> {
  const { before } = options
  const after =
    before === undefined
      ? sql`true`
      : sql`(n.created_at, n.id) < (
      select n.created_at, n.id from notifications n where ${inboxOf(inbox)} and n.id = ${before})`
  const rows = await db.query<
    Omit<InboxItem, 'id' | 'program_id' | 'payload'> & { id: string; program_id: string; payload: unknown }
  >(sql`
    select n.id, n.program_id, g.name as program_name, p.name as partner_name, n.kind, n.payload, n.created_at,
      r.user_id is not null as read
    from notifications n
    join programs g on g.id = n.program_id
    join partners p on p.id = n.partner_id
    left join notification_reads r on r.program_id = n.program_id and r.notification_id = n.id and r.user_id = ${userId}
    where ${inboxOf(inbox)} and ${after}
    order by n.created_at desc, n.id desc limit ${options.limit}`)
  return rows.map((row) => ({
    ...row,
    id: Number(row.id),
    program_id: Number(row.program_id),
    payload: payload.parse(row.payload),
  }))
}

/** Marks everything in an inbox as read by a user. What comes later is unread. */
export async function markInboxRead(db: Database, inbox: Inbox, userId: string): Promise<void> {
  await db.query(sql`
    insert into notification_reads (program_id, notification_id, user_id)
    select n.program_id, n.id, ${userId} from notifications n where ${inboxOf(inbox)}
    on conflict do nothing`)
}
