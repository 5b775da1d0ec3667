import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { createMiddleware } from 'hono/factory'
import { Hono } from 'hono/tiny'
import type * as z from 'zod/mini'
import { type Action, may } from '../../../lib/access/roles.ts'
import { findViewer, type Viewer, type ViewerProgram } from '../../../lib/access/viewer.ts'
import type { RateLimit } from '../../../lib/api/rate-limits.ts'
import type { AuthEnv } from '../../../lib/access/sign-in.ts'
import type { Database } from '../../../lib/database.ts'
import { ApiError } from '../../../lib/errors.ts'
import type { RelayEnv } from '../../../lib/notifications/outbox.ts'
import type { ConnectEnv } from '../../../lib/stripe/connect.ts'

export interface DashboardEnv extends AuthEnv, ConnectEnv, RelayEnv {
  RATE_LIMIT?: RateLimit
}

interface Variables {
  requestId: string
  db: Database
  viewer: Viewer | undefined
}
interface ProgramVariables extends Variables {
  viewer: Viewer
  program: ViewerProgram
}
interface PartnerVariables extends Variables {
  viewer: Viewer
  partner: NonNullable<Viewer['partner']>
}

export type PageContext<More = object> = Context<{ Bindings: DashboardEnv; Variables: Variables & More }>

/** A group of pages. Every handler has `db` and, where somebody is signed in, `viewer`. */
export function createPages() {
  return new Hono<{ Bindings: DashboardEnv; Variables: Variables }>()
}

/** Puts who is signed in into `viewer`, in the page's first database query. */
export const loadViewer = createMiddleware<{ Bindings: DashboardEnv; Variables: Variables }>(async (c, next) => {
  c.set('viewer', await findViewer(c.get('db'), c.env, c.req.raw.headers))
  await next()
})

/** The signed-in person, or a redirect to the sign-in page that leads back here. */
export const requireViewer = createMiddleware<{ Bindings: DashboardEnv; Variables: Variables & { viewer: Viewer } }>(
  async (c, next) => {
    if (!c.get('viewer')) return c.redirect(signInPath(c), 303)
    return await next()
  },
)

/**
 * The program in the path, where the person is an active member with `action` on it. Programs of other workspaces answer as
 * ones that do not exist.
 */
export function requireProgram(action: Action) {
  return createMiddleware<{ Bindings: DashboardEnv; Variables: ProgramVariables }>(async (c, next) => {
    const viewer: Viewer | undefined = c.get('viewer')
    if (!viewer) return c.redirect(signInPath(c), 303)
    const program = viewer.programs.find(({ id }) => String(id) === c.req.param('programId'))
    if (!program) throw new ApiError('not_found', 'There is no such program among yours.')
    if (!may(program.roles, action)) {
      throw new ApiError(
        'forbidden',
        'Your role in this workspace does not open this page. Ask an owner for another role.',
      )
    }
    c.set('program', program)
    return await next()
  })
}

/** The partner account of the person. */
export const requirePartner = createMiddleware<{ Bindings: DashboardEnv; Variables: PartnerVariables }>(
  async (c, next) => {
    const viewer: Viewer | undefined = c.get('viewer')
    if (!viewer) return c.redirect(signInPath(c), 303)
    if (!viewer.partner)
      throw new ApiError('not_found', 'You are no partner yet. Open the link in your invitation first.')
    c.set('partner', viewer.partner)
    return await next()
  },
)

function signInPath(c: Context): string {
  const { pathname, search } = new URL(c.req.url)
  if (pathname === '/' || c.req.method !== 'GET') return '/sign-in'
  return `/sign-in?next=${encodeURIComponent(pathname + search)}`
}

/** A path of this site to go on to, or `/` where the value is anything else, so that no link leads people astray. */
export function safePath(value: string | undefined): string {
  return value !== undefined && /^\/(?![/\\])[\w\-./?=&%~]*$/.test(value) ? value : '/'
}

const flashCookie = '__Host-svc_flash'

export interface Flash {
  kind: 'good' | 'bad'
  text: string
}

/** Leaves a message for the next page, which shows it once. */
export function flash(c: Context, kind: Flash['kind'], text: string): void {
  const value = JSON.stringify({ kind, text })
  setCookie(c, flashCookie, value, { path: '/', secure: true, httpOnly: true, sameSite: 'Lax', maxAge: 60 })
}

export function takeFlash(c: Context): Flash | undefined {
  const value = getCookie(c, flashCookie)
  if (value === undefined) return undefined
  deleteCookie(c, flashCookie, { path: '/', secure: true })
  try {
    const { kind, text }: { kind: unknown; text: unknown } = JSON.parse(value)
    return typeof text === 'string' ? { kind: kind === 'good' ? 'good' : 'bad', text } : undefined
  } catch {
    return undefined
  }
}

/** What a form page shows again after a refusal: the values that were sent, and what is wrong with which field. */
export interface FormState {
  values: Record<string, string>
  errors: Record<string, string>
  /** What is wrong with none of the fields in particular. */
  problem?: string
}

export const emptyForm: FormState = { values: {}, errors: {} }

/** The text fields of a form post. Files and repeated fields are left out. */
export async function readForm(c: Context): Promise<Record<string, string>> {
  const body = await c.req.parseBody().catch(() => {
    throw new ApiError('invalid_request', 'The form could not be read. Go back and send it again.')
  })
  const fields = Object.entries(body).filter((field): field is [string, string] => typeof field[1] === 'string')
  return Object.fromEntries(fields.map(([name, value]) => [name, value.replaceAll(/\0|\p{Surrogate}/gu, '')]))
}

/** Messages by field, from the first issue of each. */
export function fieldErrors(issues: readonly z.core.$ZodIssue[]): Record<string, string> {
  return Object.fromEntries(issues.toReversed().map((issue) => [String(issue.path[0] ?? ''), issue.message]))
}

/** A positive integer in a path or query, or undefined where it is anything else. */
export function positiveInteger(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined
}

export function csvResponse(c: Context, name: string, text: string): Response {
  return c.body(text, 200, {
    'Content-Type': 'text/csv; charset=utf-8',
    'Content-Disposition': `attachment; filename="${name}.csv"`,
  })
}

/** `base` with those query parameters that have a value. */
export function addressOf(base: string, parameters: Record<string, string | undefined>): string {
  const entries = Object.entries(parameters).filter((entry): entry is [string, string] => Boolean(entry[1]))
  return entries.length === 0 ? base : `${base}?${new URLSearchParams(entries).toString()}`
}

/** An ISO 8601 moment in a query, or undefined where it is none that anything here could have happened at. */
export function momentOf(text: string | undefined): Date | undefined {
  const moment = new Date(text ?? '')
  return moment.getTime() > 0 ? moment : undefined
}
