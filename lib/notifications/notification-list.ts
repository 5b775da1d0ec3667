import { type InferResult, sql } from 'kysely'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'

/** The fields of a notification. Each kind has its own subset. */
export const notificationPayload = z.object({
  commission_id: z.optional(z.number()),
  payout_id: z.optional(z.number()),
  /** Set for a manual commission or deduction. */
  adjustment_id: z.nullish(z.number()),
  transaction_id: z.nullish(z.string()),
  /** Absent for notifications without money. */
  amount_cents: z.optional(z.number()),
  reduced_by_cents: z.optional(z.number()),
  currency: z.optional(z.string()),
  /** The address of a disabled webhook endpoint. */
  url: z.optional(z.string()),
  /** The disabled host of a join page. */
  host: z.optional(z.string()),
  /** The reference of a paid payout's transfer. */
  reference: z.nullish(z.string()),
  reason: z.nullish(z.string()),
  deducted: z.optional(z.boolean()),
  /** For notifications about a whole day (UTC): the day and its number of commissions. */
  day: z.optional(z.string()),
  /** For statements: the month (UTC), such as 2026-01. */
  month: z.optional(z.string()),
  /** A program's message, as somebody wrote it. */
  text: z.optional(z.string()),
  commissions: z.optional(z.number()),
  /** The number of partners with due payouts. */
  partners: z.optional(z.number()),
})

/** The recipient of notifications: an advertiser or a partner of one program, or a person across all their programs as a partner. */
export type Recipient = { programId: number } | { programId: number; partnerId: number } | { userId: string }

/** The audience is a literal, because otherwise Postgres doesn't use the partial indexes. */
function notificationsOf(recipient: Recipient) {
  const notifications = kysely.selectFrom('notifications as n')
  if ('partnerId' in recipient) {
    return notifications
      .where('n.program_id', '=', recipient.programId)
      .where('n.partner_id', '=', recipient.partnerId)
      .where('n.audience', '=', sql.lit('partner'))
  }
  return 'programId' in recipient
    ? notifications.where('n.program_id', '=', recipient.programId).where('n.audience', '=', sql.lit('advertiser'))
    : notifications
        .where('n.partner_id', 'in', kysely.selectFrom('partners').select('id').where('user_id', '=', recipient.userId))
        .where('n.audience', '=', sql.lit('partner'))
}

export type ListedNotification = Awaited<ReturnType<typeof listNotifications>>[number]

/** Lists in-app notifications, newest first. */
export async function listNotifications(db: Database, recipient: Recipient, userId: string, part: Part) {
  return (await db.query(notificationsStatement(recipient, userId, part))).map(asNotification)
}

export const notificationTotals = (recipient: Recipient) => totalsOf(notificationsOf(recipient).select('n.id'))

/** Parses a row of `notificationsStatement`. */
export const asNotification = (row: InferResult<ReturnType<typeof notificationsStatement>>[number]) => ({
  ...row,
  payload: notificationPayload.parse(row.payload),
})

export function notificationsStatement(recipient: Recipient, userId: string, part: Part) {
  const query = notificationsOf(recipient)
    .innerJoin('programs as g', 'g.id', 'n.program_id')
    .leftJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'n.program_id').onRef('p.id', '=', 'n.partner_id'),
    )
    .leftJoin('notification_reads as r', (join) =>
      join
        .onRef('r.program_id', '=', 'n.program_id')
        .onRef('r.notification_id', '=', 'n.id')
        .on('r.user_id', '=', userId),
    )
    .select([
      'n.id',
      'n.program_id',
      'g.name as program_name',
      'p.name as partner_name',
      'n.kind',
      'n.payload',
      'n.created_at',
    ])
    .select((eb) => eb('r.user_id', 'is not', null).$castTo<boolean>().as('read'))
  const createdAt = (id: number) => notificationsOf(recipient).where('n.id', '=', id).select('n.created_at')
  const order = { ascending: false, value: { by: sql.ref('n.created_at'), of: createdAt } }
  return partOf(query, sql.ref<number>('n.id'), part, order)
}

/** Marks all of a recipient's notifications as read by a user. Later ones are unread. */
export async function markNotificationsRead(db: Database, recipient: Recipient, userId: string): Promise<void> {
  await db.query(
    kysely
      .insertInto('notification_reads')
      .columns(['program_id', 'notification_id', 'user_id'])
      .expression(notificationsOf(recipient).select((eb) => ['n.program_id', 'n.id', eb.val(userId).as('user_id')]))
      .onConflict((oc) => oc.doNothing()),
  )
}

/** Deletes up to `limit` delivered notifications that are older than 13 months, read or not. Returns the number of deleted rows. */
export async function deleteOldNotifications(db: Database, limit: number): Promise<number> {
  const [row] = await db.query(call('delete_old_notifications', { max_rows: limit }))
  return row?.delete_old_notifications ?? 0
}
