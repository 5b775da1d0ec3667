import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import { ApiError } from '../../../lib/errors.ts'
import { findProgramOfHost } from '../../../lib/programs/hosts.ts'
import type { PageContext } from '../components/page.ts'

type EnvOf<C> = C extends Context<infer Env> ? Env : never

/** Pages that are served on a program's own host. They never read a session. */
const publicPaths = /^\/(join\/[^/]+(\/sent)?)?$/
/**
 * Pages for signed-in people, links from mails, and documents. Only the service's own host serves them, so that no session and no proof of a
 * mailbox exists on a program's host.
 */
const movedPaths = /^\/(application|partner|partner-invitation|sign-in|sign-up|forgot-password|docs)(\/|$)/

/** True if a request was sent to the service's own host or to this machine. */
export function isOwnHost(c: PageContext): boolean {
  const { host, hostname } = new URL(c.req.url)
  return host === new URL(c.env.BASE_URL).host || ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}

/**
 * A program's own host only serves that program's join page. With `PROGRAM_HOSTS`, a host that no program has verified doesn't serve
 * any pages. Without `PROGRAM_HOSTS`, such a host can be a tunnel to a local stack.
 */
export const limitHost = createMiddleware<EnvOf<PageContext>>(async (c, next) => {
  if (isOwnHost(c)) return await next()
  const { host, pathname, search } = new URL(c.req.url)
  const found = await findProgramOfHost(c.get('db'), host)
  if (!found && c.env.PROGRAM_HOSTS !== 'on') return await next()
  if (!found) throw new ApiError('not_found', 'No program uses this domain.')
  if (c.req.method === 'GET' && movedPaths.test(pathname)) return c.redirect(c.env.BASE_URL + pathname + search, 303)
  if (!publicPaths.test(pathname)) throw new ApiError('not_found', "This page doesn't exist.")
  c.set('host', found)
  return await next()
})
