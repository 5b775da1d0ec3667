import { sql } from 'kysely'
import { auditEntriesStatement } from '../access/audit-log.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { balancesOf } from '../money/balances.ts'
import { commissionsStatement } from '../money/commission-list.ts'
import { withdrawalsStatement } from '../money/withdrawals.ts'
import { asNotification, notificationsStatement } from '../notifications/notification-list.ts'
import { linkFiguresOf } from './links.ts'
import { partnersStatement } from './partners.ts'

/** How many of the newest of each list there are. */
export const newest = 10

export type PartnerDetails = Awaited<ReturnType<typeof readPartnerDetails>>

/**
 * A partner of a program with all that the program has of them, in one request: their links with figures, their money, the newest of their
 * commissions and withdrawals, of what they were told and of what was done to them. Refuses with `not_found`.
 */
export async function readPartnerDetails(
  db: Database,
  program: { id: number; workspaceId: string },
  partnerId: number,
) {
  const of = { programId: program.id }
  const part = { limit: newest, partner_id: partnerId }
  const [[partner], [typed], links, balances, commissions, withdrawals, told, history] = await db.batch([
    partnersStatement(program.id, { limit: 1, partnerId }),
    kysely
      .selectFrom('partners')
      .select(['payout_email', 'payout_waits_until', 'note'])
      .where('program_id', '=', program.id)
      .where('id', '=', partnerId),
    linkFiguresOf(sql.val(program.id), sql.val(partnerId)),
    balancesOf(program.id, partnerId),
    commissionsStatement(of, part),
    withdrawalsStatement(of, part),
    notificationsStatement({ programId: program.id, partnerId }, '', { limit: newest }),
    auditEntriesStatement(program.workspaceId, { limit: newest, of: { programId: program.id, partnerId } }),
  ])
  if (!partner || !typed) throw new ApiError('not_found', 'There is no such partner in this program.')
  const notifications = told.map(asNotification)
  return { ...partner, ...typed, links, balances, commissions, withdrawals, notifications, history }
}
