import { type InferResult, sql } from 'kysely'
import { call, type Database } from '../database.ts'
import { countedPart, countStatement, type Filters, type Part, partOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'

/**
 * An entry of a workspace's audit log. Triggers write most entries (migrations/functions/1_base/audit-log.sql), and `Database.actingAs`
 * sets the actor. The database cannot detect a file export, so this module records exports.
 */
export type AuditEntry = InferResult<ReturnType<typeof auditEntriesStatement>>[number]

/** The subjects of actions. The name of an action begins with its subject and a dot. */
export const auditThings = [
  'workspace',
  'member',
  'program',
  'api_key',
  'agent',
  'partner',
  'join_page',
  'application',
  'code',
  'group',
  'commission_rule',
  'commission',
  'payout',
  'payout_run',
  'processor',
  'customer',
  'webhook',
  'data',
] as const
export type AuditThing = (typeof auditThings)[number]

/** Records that somebody exports a file of a program. Call this before the file is sent. */
export async function noteExport(db: Database, userId: string, programId: number, file: string): Promise<void> {
  await db.actingAs(userId).query(
    call('write_program_audit', {
      of_program_id: programId,
      of_action: 'data.exported',
      of_subject: file,
      of_details: null,
    }),
  )
}

/** Records that somebody exports a file of a workspace. Call this before the file is sent. */
export async function noteWorkspaceExport(
  db: Database,
  userId: string,
  workspaceId: string,
  file: string,
): Promise<void> {
  await db.actingAs(userId).query(
    call('write_audit', {
      of_workspace_id: workspaceId,
      of_program_id: null,
      of_action: 'data.exported',
      of_subject: file,
      of_subject_user_id: null,
      of_details: null,
    }),
  )
}

/** Records an agent's tool call. `db` acts with the API key. A plan changes nothing. */
export async function noteAgentCall(
  db: Database,
  programId: number,
  { tool, ...details }: { tool: string; client: string; is_plan: boolean },
): Promise<void> {
  await db.query(
    call('write_program_audit', {
      of_program_id: programId,
      of_action: 'agent.called',
      of_subject: tool,
      of_details: JSON.stringify(details),
    }),
  )
}

interface AuditEntries extends Part {
  thing?: AuditThing | undefined
  userId?: string | undefined
  /** Only actions that affected this partner. */
  of?: { programId: number; partnerId: number }
}

export const auditTotals = (workspaceId: string, filters: Filters<AuditEntries>) =>
  countStatement(auditEntriesStatement(workspaceId, { ...filters, ...countedPart }))

/**
 * Selects the entries of a workspace, newest first, optionally of one subject or one person. `actor` is null if the service itself or a
 * deleted account acted.
 */
export function auditEntriesStatement(workspaceId: string, { thing, userId, of, ...part }: AuditEntries) {
  let query = kysely
    .selectFrom('audit_log as a')
    .leftJoin('users as u', 'u.id', 'a.user_id')
    .leftJoin('api_keys as k', 'k.id', 'a.api_key_id')
    .leftJoin('users as s', 's.id', 'a.subject_user_id')
    .leftJoin('workspace_invitations as i', (join) =>
      join.onRef('i.id', '=', 'a.subject').on('a.action', 'like', sql.lit('member.invit%')),
    )
    .select([
      'a.id',
      'a.created_at',
      'a.user_id',
      sql<string | null>`coalesce(u.email, 'API key ' || k.name || ' …' || k.hint)`.as('actor'),
      'a.action',
      'a.program_id',
      sql<
        string | null
      >`case when a.action like 'member.invit%' then coalesce(i.email, 'a deleted invitation') else coalesce(a.subject, s.email, a.subject_user_id) end`.as(
        'subject',
      ),
      'a.details',
    ])
    .where('a.workspace_id', '=', workspaceId)
  if (thing !== undefined) query = query.where('a.action', 'like', `${thing.replaceAll('_', '\\_')}.%`)
  if (userId !== undefined) query = query.where('a.user_id', '=', userId)
  if (of !== undefined) {
    query = query.where('a.program_id', '=', of.programId).where(
      sql<boolean>`(a.subject = ${String(of.partnerId)} and a.action like 'partner.%' or a.details ? 'job' and exists (
          select from bulk_jobs j join bulk_job_rows r on r.program_id = j.program_id and r.job_id = j.id
          where j.program_id = a.program_id and j.id = (a.details ->> 'job')::bigint
            and r.row_id = case when a.action like 'partner.%' then ${of.partnerId} else (
              select p.id from applications p where p.program_id = j.program_id and p.id = r.row_id and p.partner_id = ${of.partnerId}) end
        ))`,
    )
  }
  return partOf(query, sql.ref<number>('a.id'), part)
}

/**
 * Deletes entries at the end of their retention period: two years, or ten for money. The log doesn't allow anybody to delete newer entries.
 */
export async function deleteOldAuditEntries(db: Database, limit: number): Promise<number> {
  const old = kysely
    .selectFrom('audit_log')
    .select('id')
    .where('created_at', '<', sql<Date>`audit_log_begins()`)
    .where(sql<boolean>`is_over(audit_log)`)
    .orderBy('created_at')
    .limit(limit)
  return (await db.query(kysely.deleteFrom('audit_log').where('id', 'in', old).returning('id'))).length
}
