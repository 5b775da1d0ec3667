import { sql } from 'kysely'
import { auditEntriesStatement } from '../access/audit-log.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { adjustmentsStatement } from '../money/adjustments.ts'
import { balancesOf } from '../money/balances.ts'
import { commissionsStatement } from '../money/commission-list.ts'
import { payoutsStatement } from '../money/payouts.ts'
import { asNotification, notificationsStatement } from '../notifications/notification-list.ts'
import { asPartnerCampaigns, partnerCampaignsStatement } from '../tracking/partner-campaigns.ts'
import { codeFiguresStatement } from './codes.ts'
import { rulesForPartner, termsOfPartner } from './commission-rules.ts'
import { groupNamesStatement } from './groups.ts'
import { linkFiguresOf } from './links.ts'
import { partnersStatement } from './partners.ts'

/** The maximum length of each list. */
export const newest = 10

/** The period for which named campaigns are counted. */
const campaigns = { days: 30, filters: {} } as const

export type PartnerDetails = Awaited<ReturnType<typeof readPartnerDetails>>

/**
 * Reads a partner with all their data in the program in one request. Lists contain the newest entries, and `earns` describes the partner's
 * terms. Throws `not_found`.
 */
export async function readPartnerDetails(
  db: Database,
  program: { id: number; workspaceId: string; currency: string },
  partnerId: number,
) {
  const of = { programId: program.id }
  const part = { limit: newest, partner_id: partnerId }
  const now = Date.now()
  const [
    [partner],
    [typed],
    links,
    codes,
    balances,
    commissions,
    adjustments,
    payouts,
    listed,
    history,
    groups,
    rules,
    [terms],
    named,
    imported,
  ] = await db.batch([
    partnersStatement(program.id, { limit: 1, partnerId }),
    kysely
      .selectFrom('partners')
      .select(['payout_email', 'payout_waits_until', 'note'])
      .where('program_id', '=', program.id)
      .where('id', '=', partnerId),
    linkFiguresOf(sql.val(program.id), sql.val(partnerId)),
    codeFiguresStatement(program.id, { limit: 100, partnerId }),
    balancesOf(program.id, partnerId),
    commissionsStatement(of, part),
    adjustmentsStatement(of, part),
    payoutsStatement(of, part),
    notificationsStatement({ programId: program.id, partnerId }, '', { limit: newest }),
    auditEntriesStatement(program.workspaceId, { limit: newest, of: { programId: program.id, partnerId } }),
    groupNamesStatement(program.id),
    rulesForPartner(sql.val(program.id), sql.val(partnerId), groupOf(program.id, partnerId)),
    kysely
      .selectFrom('programs')
      .select(['currency', 'commission_bp', 'commission_duration_months', 'lead_commission_cents'])
      .where('id', '=', program.id),
    partnerCampaignsStatement({ programId: program.id, partnerId, ...campaigns, currency: program.currency }, now),
    kysely
      .selectFrom('imported_commissions')
      .select(['id', 'external_id', 'amount_cents', 'currency', 'status', 'earned_at'])
      .where('program_id', '=', program.id)
      .where('partner_id', '=', partnerId)
      .orderBy('earned_at', 'desc')
      .orderBy('id', 'desc')
      .limit(newest),
  ])
  if (!partner || !typed || !terms) throw new ApiError('not_found', 'There is no such partner in this program.')
  const notifications = listed.map(asNotification)
  const earns = termsOfPartner(terms, rules)
  return {
    ...partner,
    ...typed,
    links,
    codes,
    balances,
    commissions,
    adjustments,
    payouts,
    notifications,
    history,
    imported,
    groups,
    earns,
    campaigns: asPartnerCampaigns(named, campaigns, now),
  }
}

const groupOf = (programId: number, partnerId: number) =>
  kysely
    .selectFrom('partners as p')
    .select('p.group_id')
    .where('p.program_id', '=', programId)
    .where('p.id', '=', partnerId)
    .$asScalar()
