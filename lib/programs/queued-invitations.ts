import { type Expression, expressionBuilder, sql } from 'kysely'
import { rolesWith } from '../access/roles.ts'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { canMail, type MailEnv } from '../mail.ts'
import { mailBounds } from '../mail-bounds.ts'
import type { DatabaseFunctions, DB } from '../schema.ts'
import { countMail, mailPartnerInvitation } from './invitation-mails.ts'
import { invitePartner } from './partner-invitations.ts'

/** Invitations that wait until their workspace may send mail again. */

/** Column: whether a partner's invitation is queued. */
export function queuedInvitationOf(programId: Expression<number>, partnerId: Expression<number>) {
  const eb = expressionBuilder<DB>()
  return eb.exists(
    eb
      .selectFrom('queued_invitations as q')
      .where('q.program_id', '=', programId)
      .where('q.partner_id', '=', partnerId),
  )
}

/** Queues the invitations of a bulk job (`Database.inJob`) and returns their number. Sends no mail. */
export async function queueInvitations(db: Database, programId: number, partnerIds: number[]): Promise<number> {
  const [row] = await db.query(call('queue_invitations', { of_program_id: programId, partner_ids: partnerIds }))
  return row?.queue_invitations ?? 0
}

const dayMs = 86_400_000

/**
 * Computes how many of `count` new invitations can be sent today (UTC), and the day on which the last one is sent. Invitations that the
 * workspace or the sender queued earlier are sent first, and today's other mails count toward the daily limit.
 */
export async function planInvitations(db: Database, sender: { workspaceId: string; userId: string }, count: number) {
  const { workspaceId, userId } = sender
  const perDay = mailBounds.workspace.perWorkspace
  const [[queued], [sent]] = await db.batch([
    kysely
      .selectFrom('queued_invitations as q')
      .innerJoin('programs as g', 'g.id', 'q.program_id')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where((eb) => eb.or([eb('g.workspace_id', '=', workspaceId), eb('q.invited_by', '=', userId)])),
    kysely
      .selectFrom('mail_counts')
      .select((eb) => eb.fn.coalesce(eb.fn.max('mails'), eb.lit(0)).as('mails'))
      .where('counted', 'in', [`workspace ${workspaceId}`, `account ${userId}`])
      .where('day', '=', sql<Date>`utc_day(now())`),
  ])
  const waiting = queued?.count ?? 0
  const left = Math.max(0, perDay - (sent?.mails ?? 0))
  return {
    today: Math.min(count, Math.max(0, left - waiting)),
    perDay,
    lastDay: new Date(Date.now() + Math.max(0, Math.ceil((waiting + count - left) / perDay)) * dayMs),
  }
}

/** The number of invitations per claim. Each one takes three database requests and one mail. */
const claimed = 20

/**
 * Sends queued invitations until no more may be sent today, or until `deadline` (ms since 1970) has passed. Returns the number of
 * sent mails. Drops an invitation if its sender may no longer invite people, if the program is blocked, or if the partner has joined. A
 * failed mail is sent again after ten minutes.
 */
export async function sendQueuedInvitations(
  db: Database,
  env: MailEnv & { BASE_URL: string },
  deadline: number,
): Promise<number> {
  let sent = 0
  while (canMail(env) && Date.now() < deadline) {
    const claims = await db.query(
      call('claim_queued_invitations', { max_rows: claimed, per_day: mailBounds.workspace.perWorkspace }),
    )
    if (claims.length === 0) break
    const before = sent
    for (const claim of claims) if (await sendOne(db, env, claim)) sent += 1
    if (sent === before) break
  }
  return sent
}

/** Sends an invitation and removes it from the queue. Returns false if it stays in the queue or was dropped. */
async function sendOne(
  db: Database,
  env: MailEnv & { BASE_URL: string },
  claim: DatabaseFunctions['claim_queued_invitations']['row'],
): Promise<boolean> {
  const { of_program_id: programId, of_partner_id: partnerId, of_job_id: jobId, sender_id: senderId } = claim
  if (programId === null || partnerId === null || jobId === null || senderId === null) return false
  const row = kysely
    .deleteFrom('queued_invitations')
    .where('program_id', '=', programId)
    .where('partner_id', '=', partnerId)
  const [found] = await db.query(
    kysely
      .selectFrom('partners as p')
      .innerJoin('programs as g', 'g.id', 'p.program_id')
      .innerJoin('program_roles as m', 'm.program_id', 'g.id')
      .innerJoin('users as u', 'u.id', 'm.user_id')
      .select(['p.email', 'g.name', 'g.workspace_id', 'u.name as sender', 'u.email as sender_email'])
      .where('p.program_id', '=', programId)
      .where('p.id', '=', partnerId)
      .where('p.user_id', 'is', null)
      .where('p.ended_at', 'is', null)
      .where('m.user_id', '=', senderId)
      .where('m.roles', '&&', sql<string[]>`${rolesWith('partner:manage')}::text[]`)
      .where('u.email_verified', '=', true)
      .where('g.deleted_at', 'is', null)
      .where(sql<boolean>`not is_blocked(g.id)`),
  )
  if (!found?.email || !found.workspace_id) {
    await db.query(row)
    return false
  }
  const { email, name, workspace_id: workspaceId, sender, sender_email: senderEmail } = found
  const exceeded = await countMail(db, { of_workspace_id: workspaceId, of_user_id: senderId, to_recipient: email })
  if (exceeded !== null) return false
  const invitation = await invitePartner(db.actingAs(senderId).inJob(jobId), {
    programId,
    partnerId,
    invitedBy: senderId,
  })
  if (!invitation) {
    await db.query(row)
    return false
  }
  const { token, email: to, language } = invitation
  const user = { id: senderId, name: sender, email: senderEmail, emailVerified: true }
  const link = `${env.BASE_URL}/partner-invitation?token=${token}`
  try {
    await mailPartnerInvitation(db, env, { workspaceId, user }, { to, programId, name, language, link, days: 14 })
  } catch {
    // `sendMail` logs a refused mail.
    return false
  }
  await db.query(row)
  return true
}
