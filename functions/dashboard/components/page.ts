import type { Context } from 'hono'
import { getCookie } from 'hono/cookie'
import { createMiddleware } from 'hono/factory'
import { Hono } from 'hono/tiny'
import { countFormBytes } from '../../../lib/access/form-bytes.ts'
import type { ProxyEnv } from '../../../lib/access/proxy-keys.ts'
import { blockedProgram } from '../../../lib/access/program-access.ts'
import { type Action, may } from '../../../lib/access/roles.ts'
import { findViewer, type Viewer, type ViewerProgram } from '../../../lib/access/viewer.ts'
import { maxBodyBytes } from '../../../lib/api/app.ts'
import type { RateLimit } from '../../../lib/api/rate-limits.ts'
import type { ClickHouseEnv } from '../../../lib/click-house.ts'
import type { TurnstileEnv } from '../../../lib/access/turnstile.ts'
import type { AuthEnv } from '../../../lib/access/sign-in.ts'
import { type Database, openDatabase } from '../../../lib/database.ts'
import { ApiError } from '../../../lib/errors.ts'
import { chooseLanguage, type Language } from '../../../lib/languages.ts'
import { canMail, mailIsMissing } from '../../../lib/mail.ts'
import type { AddressEnv } from '../../../lib/notifications/public-address.ts'
import type { RelayEnv } from '../../../lib/notifications/outbox.ts'
import type { WebhookSecretEnv } from '../../../lib/notifications/webhook-secrets.ts'
import type { ImportEnv } from '../../../lib/moving/read-service.ts'
import type { ConnectEnv } from '../../../lib/processors/stripe/connect.ts'
import type { Brand } from '../../../lib/brand.ts'
import type { ProgramOfHost } from '../../../lib/programs/hosts.ts'
import type { RefusedVariables } from './form.ts'
import { type PageTexts, textsIn } from './text.tsx'

export interface DashboardEnv
  extends
    AuthEnv,
    ConnectEnv,
    ProxyEnv,
    RelayEnv,
    WebhookSecretEnv,
    AddressEnv,
    TurnstileEnv,
    ImportEnv,
    ClickHouseEnv {
  RATE_LIMIT?: RateLimit
  /** `on` if the service also receives requests to the domains of programs. */
  PROGRAM_HOSTS?: string
}

interface Variables extends RefusedVariables {
  requestId: string
  db: Database
  viewer: Viewer | undefined
  /** The texts, in the reader's language on pages for partners and in English on all others. */
  texts: PageTexts
  /** Set if the request came to a program's own host. */
  host?: ProgramOfHost
  /** The brand of a page for partners. */
  brand?: Brand
  /** Whether the page loads the script of the challenge. */
  isChallenged?: boolean
}

interface PageEnv<More = object> {
  Bindings: DashboardEnv
  Variables: Variables & More
}

/**
 * The context of a handler for each kind of reader: anybody, a signed-in person, a program's member, a partner, or a workspace's manager.
 */
export type PageContext<More = object> = Context<PageEnv<More>>
export type ViewerContext = PageContext<{ viewer: Viewer }>
export type ProgramContext = PageContext<{ viewer: Viewer; program: ViewerProgram }>
export type PartnerContext = PageContext<{ viewer: Viewer; partner: NonNullable<Viewer['partner']> }>
export type WorkspaceContext = PageContext<{ viewer: Viewer; workspace: Viewer['workspaces'][number] }>

type EnvOf<C> = C extends Context<infer Env> ? Env : never

/** Creates a group of pages. Every handler has `db`, and `viewer` if somebody is signed in. */
export function createPages() {
  return new Hono<PageEnv>()
}

/** Creates a group of pages below the address of a program. */
export function createProgramPages() {
  return createPages().basePath('/programs/:programId')
}

/** Loads the signed-in person into `viewer`, together with the page's first query. Nobody can sign in on a program's own host. */
export const loadViewer = createMiddleware<PageEnv>(async (c, next) => {
  if (!c.get('host')) c.set('viewer', await findViewer(c.get('db'), c.env, c.req.raw.headers))
  await next()
})

/** Chooses the language of a page: the person's, then the program's, then the browser's. */
export function languageOf(c: PageContext, programLanguage?: string | null): Language {
  const partner = c.get('viewer')?.partner
  const choices = [partner?.language, programLanguage ?? partner?.programLanguage]
  return chooseLanguage(choices, c.req.header('accept-language'))
}

/** Shows the page in the language and the time zone of a partner, with the brand of their only program or a neutral one. */
export function showToPartner(c: PageContext, language = languageOf(c)): void {
  const texts = textsIn(language, zoneOf(c))
  c.set('texts', texts)
  c.set('brand', c.get('viewer')?.partner?.brand ?? { name: texts.t('Partner portal'), color: null, logo: null })
}

/** Reads the reader's time zone from the cookie that the script of an earlier page stored. Null if there is none. */
export function zoneOf(c: Context): string | null {
  const zone = getCookie(c, zoneCookie)
  if (!zone || !/^[\w+/-]{1,64}$/.test(zone)) return null
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone
  } catch {
    return null
  }
}

/** The script in script/basics.ts writes this cookie. */
const zoneCookie = 'svc_time_zone'

/** Requires a signed-in person. Redirects other people to the sign-in page, which sends them back afterward. */
export const requireViewer = createMiddleware<EnvOf<ViewerContext>>(async (c, next) => {
  const viewer: Viewer | undefined = c.get('viewer')
  if (!viewer) return c.redirect(signInPath(c), 303)
  return await next()
})

/** The bytes that a form may store, with about a kilobyte for its entry of the audit log. Uploaded files have their own limits. */
const writtenBytes = ({ req }: Pick<PageContext, 'req'>) =>
  1024 + Math.min(maxBodyBytes, Number(req.header('content-length') ?? maxBodyBytes))

/**
 * Requires an active member with `action` on the program in the path. The response is the same for unknown programs and for programs of
 * other workspaces.
 */
export function requireProgram(action: Action) {
  return createMiddleware<EnvOf<ProgramContext>>(async (c, next) => {
    const viewer: Viewer | undefined = c.get('viewer')
    if (!viewer) return c.redirect(signInPath(c), 303)
    if (viewer.locked.some(({ programIds }) => programIds.map(String).includes(c.req.param('programId') ?? '')))
      return leadToTwoFactor(c)
    const program = viewer.programs.find(({ id }) => String(id) === c.req.param('programId'))
    if (!program) throw new ApiError('not_found', "This program doesn't exist, or you don't have access to it.")
    if (program.isBlocked) throw blockedProgram()
    if (!may(program.roles, action)) throw closedPage()
    if (c.req.method === 'POST') await countFormBytes(openDatabase(c.env), program.workspaceId, writtenBytes(c))
    c.set('program', program)
    return await next()
  })
}

/** Requires `action` on the workspace in the path, or any active member if `action` is missing. */
export function requireWorkspace(action?: Action) {
  return createMiddleware<EnvOf<WorkspaceContext>>(async (c, next) => {
    const viewer: Viewer | undefined = c.get('viewer')
    if (!viewer) return c.redirect(signInPath(c), 303)
    if (viewer.locked.some(({ id }) => id === c.req.param('workspaceId'))) return leadToTwoFactor(c)
    const workspace = viewer.workspaces.find(({ id }) => id === c.req.param('workspaceId'))
    if (!workspace) throw new ApiError('not_found', "This workspace doesn't exist, or you don't have access to it.")
    if (action !== undefined && !may([workspace.role], action)) throw closedPage()
    c.set('workspace', workspace)
    return await next()
  })
}

/** Requires a partner of at least one program. */
export const requirePartner = createMiddleware<EnvOf<PartnerContext>>(async (c, next) => {
  const viewer: Viewer | undefined = c.get('viewer')
  if (!viewer) return c.redirect(signInPath(c), 303)
  if (!viewer.partner)
    throw new ApiError('not_found', "You aren't a partner yet. Open the link in your invitation first.")
  c.set('partner', viewer.partner)
  return await next()
})

/** Requires a confirmed e-mail address and a mail service, for pages that send mail. Call this after one of the checks above. */
export const requireVerified = createMiddleware<EnvOf<ViewerContext>>(async (c, next) => {
  if (!canMail(c.env)) throw new ApiError('unavailable', mailIsMissing)
  if (!c.get('viewer').user.emailVerified)
    throw new ApiError(
      'forbidden',
      'First open the link in our e-mail to confirm your address. You can request a new link at the top of each page.',
    )
  await next()
})

/** Redirects a member without two-factor codes if their workspace requires them. */
export function leadToTwoFactor(c: Context): Response {
  return c.redirect('/account/two-factor', 303)
}

function closedPage(): ApiError {
  return new ApiError(
    'forbidden',
    "Your role in this workspace doesn't include this page. Ask an owner for another role.",
  )
}

function signInPath(c: Context): string {
  const { pathname, search } = new URL(c.req.url)
  if (pathname === '/' || c.req.method !== 'GET') return '/sign-in'
  return `/sign-in?next=${encodeURIComponent(pathname + search)}`
}
