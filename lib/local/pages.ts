import type { IncomingMessage, ServerResponse } from 'node:http'

const loopback = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/

/**
 * Refuses requests from web pages to a server of this machine and returns whether it did. Browsers send `Origin` or
 * `Sec-Fetch-Site`. If a foreign name points to this machine, the name is in `Host`.
 */
export function refusePages({ headers }: IncomingMessage, response: ServerResponse): boolean {
  const isOfPage = headers.origin !== undefined || headers['sec-fetch-site'] !== undefined
  if (!isOfPage && loopback.test(headers.host ?? '')) return false
  response.writeHead(403, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ message: 'Only programs on this machine may call this, not web pages.' }))
  return true
}
