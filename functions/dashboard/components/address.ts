import type { Context } from 'hono'
import { ApiError } from '../../../lib/errors.ts'

/** `base` with those query parameters that have a value. */
export function addressOf(base: string, parameters: Record<string, string | undefined>): string {
  const entries = Object.entries(parameters).filter((entry): entry is [string, string] => Boolean(entry[1]))
  return entries.length === 0 ? base : `${base}?${new URLSearchParams(entries).toString()}`
}

/** A path of this site to go on to, or `/` where the value is anything else, so that no link leads people astray. */
export function safePath(value: string | undefined): string {
  return value !== undefined && /^\/(?![/\\])[\w\-./?=&%~+*!'(),:;@$]*$/.test(value) ? value : '/'
}

/** The page of this site that a form was posted from, where the browser says it. */
export function cameFrom(c: { req: Context['req'] }): string | undefined {
  const from = c.req.header('referer')
  if (!from || !URL.canParse(from)) return undefined
  const { pathname, search } = new URL(from)
  return safePath(pathname + search)
}

/** Where a post leads on to: `page` as it stood when the form was sent, with its filters and its part of a list. */
export function backTo(c: { req: Context['req'] }, page: string): string {
  const from = cameFrom(c)
  return from?.split('?')[0] === page.split('?')[0] && from ? from : page
}

/** The token of the mailed link that led here. */
export function tokenInQuery(c: { req: Context['req'] }): string {
  return c.req.query('token') ?? ''
}

/** The first `length` characters of a text in a query or form. Postgres stores no half of a character, which a cut can leave. */
export function cut(text: string, length: number): string {
  return text.slice(0, length).toWellFormed()
}

/** A positive integer in a query or form, or undefined where it is anything else. */
export function positiveInteger(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined
}

/** The id in the path's parameter `name`. Refuses with `not_found` and `missing` what can be no id. */
export function idInPath(c: Context, name: string, missing: string): number {
  const id = positiveInteger(c.req.param(name))
  if (id === undefined) throw new ApiError('not_found', missing)
  return id
}

/** An ISO 8601 moment in a query, or undefined where it is none that anything here could have happened at. */
export function momentOf(text: string | undefined): Date | undefined {
  const moment = new Date(text ?? '')
  return moment.getTime() > 0 ? moment : undefined
}
