import { type Expression, sql, type SqlBool } from 'kysely'
import { jsonArrayFrom, jsonBuildObject, jsonObjectFrom } from 'kysely/helpers/postgres'
import { type Brand, brandOf } from '../brand.ts'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import type { SavedView } from './saved-views.ts'
import type { Role } from './roles.ts'
import { readSessionToken, type SessionEnv } from './sessions.ts'

/** The person who is signed in on a page. Names and roles are current. */
export interface Viewer {
  user: { id: string; name: string; email: string; emailVerified: boolean; twoFactor: boolean }
  /** The session of the request. */
  sessionId: string
  /**
   * Set if the person accepted a program's invitation. The name and the payout address are null until they enter them. At most 100 unread
   * notifications are counted. `closed` lists the programs that refuse clicks on the partner's links, because they paused the partner or
   * ended the partnership in the last thirty days. `language` is the person's choice, and `programLanguage` the language of the first program
   * that has one. `brand` is the brand of the person's only program, or null if there are several.
   */
  partner: {
    name: string | null
    payoutEmail: string | null
    language: string | null
    programLanguage: string | null
    unread: number
    closed: { name: string; hasEnded: boolean }[]
    brand: Brand | null
  } | null
  /** The number of open program invitations to the person's verified address, up to 100. */
  invitations: number
  workspaces: ViewerWorkspace[]
  /** The workspaces that require two-factor codes, if this person has none. These workspaces stay hidden until the person sets up codes. */
  locked: { id: string; name: string; programIds: number[] }[]
  programs: ViewerProgram[]
}

interface ViewerWorkspace {
  id: string
  name: string
  role: Role
  requiresTwoFactor: boolean
}

export interface ViewerProgram {
  id: number
  name: string
  domain: string
  currency: string
  workspaceId: string
  /** ISO 8601. The day of its first event, if an archive brought its history. */
  createdAt: string
  roles: Role[]
  /** Whether the program computes commissions but credits none of them. */
  inShadowMode: boolean
  /** Whether the operator blocks the program. */
  isBlocked: boolean
  /** The number of notifications that this user has not read, up to 100. */
  unread: number
  /** This user's views of the program's lists. */
  views: SavedView[]
}

/** Whether the person only uses the service as a partner. Pages that partners and members share are in the language of such a person. */
export function isOnlyPartner(viewer: Viewer | undefined): boolean {
  return Boolean(viewer?.partner) && viewer?.workspaces.length === 0 && viewer.locked.length === 0
}

/** Finds the signed-in person with their workspaces and programs in one database query. Returns undefined without a session. */
export async function findViewer(db: Database, env: SessionEnv, headers: Headers): Promise<Viewer | undefined> {
  const token = await readSessionToken(headers, env.AUTH_SECRET)
  if (token === undefined) return undefined
  const [viewer] = await db.query(
    kysely
      .selectFrom('sessions')
      .innerJoin('users', 'users.id', 'sessions.user_id')
      .select((eb) => [
        jsonBuildObject({
          id: eb.ref('users.id'),
          name: eb.ref('users.name'),
          email: eb.ref('users.email'),
          emailVerified: eb.ref('users.email_verified'),
          twoFactor: eb.ref('users.two_factor_enabled'),
        }).as('user'),
        'sessions.id as sessionId',
        jsonObjectFrom(partnerOf(eb.ref('users.id'))).as('partner'),
        openInvitationsTo(eb.ref('users.id')).$asScalar().$notNull().as('invitations'),
        jsonArrayFrom(workspacesOf(eb.ref('users.id'), false)).as('workspaces'),
        jsonArrayFrom(workspacesOf(eb.ref('users.id'), true).select(programIds)).as('locked'),
        jsonArrayFrom(programsOf(eb.ref('users.id'))).as('programs'),
      ])
      .where('sessions.token', '=', token)
      .where('sessions.expires_at', '>', sql<Date>`now()`),
  )
  return viewer
}

function partnerOf(userId: Expression<string>) {
  const partners = kysely.selectFrom('partners as p').select('p.id').where('p.user_id', '=', userId)
  return kysely
    .selectFrom('users as u')
    .leftJoin('partner_profiles as f', 'f.user_id', 'u.id')
    .select([
      'f.name',
      'f.payout_email as payoutEmail',
      'f.language',
      programLanguageOf(userId).as('programLanguage'),
      unreadBy(userId, 'partner', sql`n.partner_id in (${partners})`)
        .$asScalar()
        .$notNull()
        .as('unread'),
    ])
    .select((eb) => [
      jsonArrayFrom(closedTo(eb.ref('u.id'))).as('closed'),
      jsonObjectFrom(brandOf(onlyProgramOf(eb.ref('u.id')))).as('brand'),
    ])
    .where('u.id', '=', userId)
    .where((eb) => eb.exists(partners))
}

function programLanguageOf(userId: Expression<string>) {
  return kysely
    .selectFrom('partners as p')
    .innerJoin('programs as g', 'g.id', 'p.program_id')
    .select('g.language')
    .where('p.user_id', '=', userId)
    .where('g.language', 'is not', null)
    .orderBy('p.id')
    .limit(1)
    .$asScalar()
}

function onlyProgramOf(userId: Expression<string>) {
  return sql<number>`(select min(p.program_id) from partners p where p.user_id = ${userId} having count(*) = 1)`
}

function closedTo(userId: Expression<string>) {
  return kysely
    .selectFrom('partners as p')
    .innerJoin('programs as g', 'g.id', 'p.program_id')
    .select((eb) => ['g.name', eb('p.ended_at', 'is not', null).$castTo<boolean>().as('hasEnded')])
    .where('p.user_id', '=', userId)
    .where('p.is_active', '=', false)
    .where((eb) =>
      eb.or([
        eb('p.ended_at', 'is', null),
        eb.and([eb('p.ended_by', '=', 'program'), eb('p.ended_at', '>', sql<Date>`now() - interval '30 days'`)]),
      ]),
    )
    .orderBy('p.id')
    .limit(20)
}

function openInvitationsTo(userId: Expression<string>) {
  const open = kysely
    .selectFrom('partner_invitations as i')
    .innerJoin('users as u', 'u.email', 'i.email')
    .select('i.id')
    .where('u.id', '=', userId)
    .where('u.email_verified', '=', true)
    .where('i.accepted_at', 'is', null)
    .where('i.declined_at', 'is', null)
    .where('i.revoked_at', 'is', null)
    .where('i.expires_at', '>', sql<Date>`now()`)
    .limit(100)
  return kysely.selectFrom(open.as('open')).select((eb) => eb.fn.countAll<number>().as('count'))
}

/** Selects the workspaces that the member can open, or the locked ones. */
function workspacesOf(userId: Expression<string>, isLocked: boolean) {
  return kysely
    .selectFrom('active_members as m')
    .innerJoin('workspaces as w', 'w.id', 'm.workspace_id')
    .select(['w.id', 'w.name', 'w.requires_two_factor as requiresTwoFactor'])
    .select((eb) => eb.ref('m.role').$castTo<Role>().as('role'))
    .where('m.user_id', '=', userId)
    .where('m.is_locked', '=', isLocked)
    .orderBy('w.created_at')
    .orderBy('w.id')
}

const programIds = sql<number[]>`array(select p.id from programs p where p.workspace_id = w.id)`.as('programIds')

/** A guest sees only the programs that were opened to them. Other members see all programs of the workspace. */
function programsOf(userId: Expression<string>) {
  return kysely
    .selectFrom('program_roles as m')
    .innerJoin('programs as p', 'p.id', 'm.program_id')
    .select(['p.id', 'p.name', 'p.domain', 'p.currency', 'p.workspace_id as workspaceId'])
    .select((eb) => [
      eb.ref('m.roles').$castTo<Role[]>().as('roles'),
      eb
        .and([eb('p.shadow_since', 'is not', null), eb('p.shadow_ended_at', 'is', null)])
        .$castTo<boolean>()
        .as('inShadowMode'),
      sql<boolean>`is_blocked(p.id)`.as('isBlocked'),
      sql<string>`program_began(p.id, p.created_at)`.as('createdAt'),
      unreadBy(userId, 'advertiser', sql`n.program_id = p.id`)
        .$asScalar()
        .$notNull()
        .as('unread'),
      jsonArrayFrom(
        eb
          .selectFrom('saved_views as v')
          .select(['v.list', 'v.name', 'v.query'])
          .whereRef('v.program_id', '=', 'p.id')
          .where('v.user_id', '=', userId)
          .orderBy('v.name'),
      ).as('views'),
    ])
    .where('m.user_id', '=', userId)
    .where('m.is_locked', '=', false)
    .where('m.roles', '<>', sql<string[]>`array['guest']`)
    .orderBy('p.created_at')
    .orderBy('p.id')
}

/** The number of notifications from which a badge says "99+". */
const mostCounted = 100

/**
 * Counts the notifications `n` for this audience that the user hasn't read, up to `mostCounted`. A person always reads all at once, so the
 * unread ones are the newest ones.
 */
function unreadBy(userId: Expression<string>, audience: 'partner' | 'advertiser', isTheirs: Expression<SqlBool>) {
  const newest = kysely
    .selectFrom('notifications as n')
    .select(['n.program_id', 'n.id'])
    .where('n.audience', '=', audience)
    .where(isTheirs)
    .orderBy('n.created_at', 'desc')
    .limit(mostCounted)
  return kysely
    .selectFrom(newest.as('n'))
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('notification_reads as r')
            .whereRef('r.program_id', '=', 'n.program_id')
            .whereRef('r.notification_id', '=', 'n.id')
            .where('r.user_id', '=', userId),
        ),
      ),
    )
}
