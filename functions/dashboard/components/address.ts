import type { Context } from 'hono'
import { ApiError } from '../../../lib/errors.ts'

/** Adds the parameters that have a value to `base`. */
export function addressOf(base: string, parameters: Record<string, string | undefined>): string {
  const entries = Object.entries(parameters).filter((entry): entry is [string, string] => Boolean(entry[1]))
  return entries.length === 0 ? base : `${base}?${new URLSearchParams(entries).toString()}`
}

/** Returns the value if it is a path on this site, and `/` otherwise, so that no link leads people to another site. */
export function safePath(value: string | undefined): string {
  return value !== undefined && /^\/(?![/\\])[\w\-./?=&%~+*!'(),:;@$]*$/.test(value) ? value : '/'
}

/** Returns the page of this site that sent a form, if the browser sends its address. */
export function cameFrom(c: { req: Context['req'] }): string | undefined {
  const from = c.req.header('referer')
  if (!from || !URL.canParse(from)) return undefined
  const { pathname, search } = new URL(from)
  return safePath(pathname + search)
}

/** Returns the address after a post: `page` with the filters and the list position that it had when the form was sent. */
export function backTo(c: { req: Context['req'] }, page: string): string {
  const from = cameFrom(c)
  return from?.split('?')[0] === page.split('?')[0] && from ? from : page
}

/** Returns the token from the mailed link. */
export function tokenInQuery(c: { req: Context['req'] }): string {
  return c.req.query('token') ?? ''
}

/**
 * Returns the first `length` characters of a text from a query or form. Drops half a surrogate pair at the end, because Postgres can't
 * store it.
 */
export function cut(text: string, length: number): string {
  return text.slice(0, length).toWellFormed()
}

/** Parses a positive integer from a query or form. Returns undefined for anything else. */
export function positiveInteger(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined
}

/** Returns the id in the path parameter `name`. Refuses anything else with `not_found` and the message `missing`. */
export function idInPath(c: { req: Context['req'] }, name: string, missing: string): number {
  const id = positiveInteger(c.req.param(name))
  if (id === undefined) throw new ApiError('not_found', missing)
  return id
}

/** Parses an ISO 8601 time from a query. Returns undefined for anything else and for years that can't occur here. */
export function momentOf(text: string | undefined): Date | undefined {
  const moment = new Date(text ?? '')
  return moment.getTime() > 0 ? moment : undefined
}
