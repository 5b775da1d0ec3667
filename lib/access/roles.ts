import { sql } from 'kysely'
import type { Database, Statement } from '../database.ts'
import { ApiError } from '../errors.ts'
import { readSessionToken } from './sessions.ts'

/** The variable a function needs to know who is signed in. */
export interface SessionEnv {
  /** Signs session tokens. The same in every function that reads sessions. */
  AUTH_SECRET: string
}

/** The roles a person can be given in a workspace, mightiest first. */
export const roles = ['owner', 'admin', 'member', 'billing', 'guest'] as const
export type Role = (typeof roles)[number]

const overview = ['program:read', 'performance:read'] as const
const analysis = ['tracking:list', 'partner:list', 'commission:list', 'notice:list', 'delivery:list'] as const
const payment = ['partner:list', 'commission:list', 'withdrawal:list', 'withdrawal:pay'] as const
const management = [
  'partner:manage',
  'commission:decide',
  'customer:forget',
  'program:create',
  'program:update',
  'api-key:manage',
  'processor:manage',
  'member:manage',
] as const
const ownership = ['owner:manage'] as const

export type Action = (typeof overview | typeof analysis | typeof payment | typeof management | typeof ownership)[number]

/**
 * What each role may do: the one access policy. `billing` pays partners and does not see who visited; `guest` sees only the
 * programs that were opened to them. Only an owner makes, changes or removes owners.
 */
export const roleActions: Readonly<Record<Role, readonly Action[]>> = {
  owner: [...overview, ...analysis, ...payment, ...management, ...ownership],
  admin: [...overview, ...analysis, ...payment, ...management],
  member: [...overview, ...analysis],
  billing: [...overview, ...payment],
  guest: [],
}

/** True where one of `held` carries `action`. */
export function may(held: readonly Role[], action: Action): boolean {
  return held.some((role) => roleActions[role].includes(action))
}

/** Who asks, and what stands between them and a program. `program` is undefined where no program has that id. */
export interface Access {
  user: { id: string; name: string; email: string }
  program: { id: number; workspaceId: string; name: string; currency: string; createdAt: Date } | undefined
  /** The active member's role in the program's workspace and the one the program was opened with; else empty. */
  roles: Role[]
}

interface AccessRow {
  user_id: string | null
  user_name: string
  user_email: string
  program_id: string | null
  workspace_id: string
  program_name: string
  currency: string
  program_created_at: Date
  workspace_role: Role | null
  program_role: Role | null
}

/**
 * Finds who sent a request and what they hold on a program, and reads `statements` in the same database request. What those
 * answer is for the caller to give only after `requireAction`. Throws `unauthorized` where there is no session: none sent,
 * forged, expired, signed out, or an API key; what is not signed asks the database nothing. `programId` may be undefined where the one
 * sent was not a positive integer: refuse that after this, so that nobody without a session learns what an address takes.
 */
export async function findAccess<Row = never>(
  db: Database,
  env: SessionEnv,
  headers: Headers,
  programId: number | undefined,
  statements: Statement<Row>[] = [],
): Promise<{ access: Access; results: Row[][] }> {
  const token = await readSessionToken(headers, env.AUTH_SECRET)
  const [found, ...results] =
    token === undefined ? [[]] : await db.batch([accessStatement(token, programId), ...statements])
  const [row] = found
  if (!row?.user_id) {
    throw new ApiError('unauthorized', 'Sign in first, and send the session token as Authorization: Bearer <token>.')
  }
  return { access: asAccess(row, row.user_id), results }
}

function asAccess(row: AccessRow, userId: string): Access {
  return {
    user: { id: userId, name: row.user_name, email: row.user_email },
    program:
      row.program_id === null
        ? undefined
        : {
            id: Number(row.program_id),
            workspaceId: row.workspace_id,
            name: row.program_name,
            currency: row.currency,
            createdAt: row.program_created_at,
          },
    // A program's own grant counts only for an active member of its workspace.
    roles:
      row.workspace_role === null ? [] : [row.workspace_role, ...(row.program_role === null ? [] : [row.program_role])],
  }
}

function accessStatement(token: string, programId: number | undefined) {
  return sql<AccessRow>`
    select users.id as user_id, users.name as user_name, users.email as user_email,
      programs.id as program_id, programs.workspace_id, programs.name as program_name, programs.currency,
      programs.created_at as program_created_at,
      workspace_members.role as workspace_role, program_members.role as program_role
    from sessions
    join users on users.id = sessions.user_id
    left join programs on programs.id = ${programId ?? null}::bigint
    left join workspace_members on workspace_members.workspace_id = programs.workspace_id
      and workspace_members.user_id = users.id and workspace_members.removed_at is null
    left join program_members on program_members.program_id = programs.id and program_members.user_id = users.id
    where sessions.token = ${token} and sessions.expires_at > now()`
}

/** Refuses with `not_found` where there is no such program, and with `forbidden` unless a role held on it carries `action`. */
export function requireAction(access: Access, action: Action): NonNullable<Access['program']> {
  if (!access.program) throw new ApiError('not_found', 'There is no program with this id. Check the id in the address.')
  if (access.roles.length === 0) {
    throw new ApiError(
      'forbidden',
      "You are not an active member of this program's workspace. Ask its owner to invite you.",
    )
  }
  if (!may(access.roles, action)) {
    throw new ApiError('forbidden', `Your role does not carry ${action}. Ask an owner of the workspace for it.`)
  }
  return access.program
}

/** What a page needs to know of the person who looks at it. Names and roles are those that hold now. */
export interface Viewer {
  user: { id: string; name: string; email: string }
  /** The partner account tied to the user, and how many of its notifications are unread. */
  partner: { id: number; name: string; payoutEmail: string | null; unread: number } | null
  workspaces: { id: string; name: string; role: Role }[]
  programs: ViewerProgram[]
}

export interface ViewerProgram {
  id: number
  name: string
  domain: string
  currency: string
  workspaceId: string
  /** ISO 8601. */
  createdAt: string
  roles: Role[]
  /** Manual-review notices that this user has not read. */
  unread: number
}

/** Finds who sent a request, with their workspaces and programs, in one database query; undefined without a session. */
export async function findViewer(db: Database, env: SessionEnv, headers: Headers): Promise<Viewer | undefined> {
  const token = await readSessionToken(headers, env.AUTH_SECRET)
  if (token === undefined) return undefined
  const [viewer] = await db.query<Viewer>(sql`
    select
      json_build_object('id', u.id, 'name', u.name, 'email', u.email) as "user",
      (
        select json_build_object('id', p.id, 'name', p.name, 'payoutEmail', coalesce(p.payout_email, p.email), 'unread', (
          select count(*) from notifications n
          where n.partner_id = p.id and n.audience = 'partner' and not exists (
            select from notification_reads r
            where r.program_id = n.program_id and r.notification_id = n.id and r.user_id = u.id)))
        from partners p where p.user_id = u.id
      ) as partner,
      (
        select coalesce(json_agg(json_build_object('id', w.id, 'name', w.name, 'role', m.role) order by w.created_at, w.id), '[]')
        from workspace_members m join workspaces w on w.id = m.workspace_id
        where m.user_id = u.id and m.removed_at is null
      ) as workspaces,
      (
        select coalesce(json_agg(json_build_object(
          'id', p.id, 'name', p.name, 'domain', p.domain, 'currency', p.currency, 'workspaceId', p.workspace_id, 'createdAt', p.created_at,
          'roles', array_remove(array[m.role, o.role], null),
          'unread', (
            select count(*) from notifications n
            where n.program_id = p.id and n.audience = 'advertiser' and not exists (
              select from notification_reads r
              where r.program_id = n.program_id and r.notification_id = n.id and r.user_id = u.id)))
          order by p.created_at, p.id), '[]')
        from workspace_members m
        join programs p on p.workspace_id = m.workspace_id
        left join program_members o on o.program_id = p.id and o.user_id = m.user_id
        where m.user_id = u.id and m.removed_at is null and (m.role <> 'guest' or o.role is not null)
      ) as programs
    from sessions s join users u on u.id = s.user_id
    where s.token = ${token} and s.expires_at > now()`)
  return viewer
}
