import type { IncomingMessage, ServerResponse } from 'node:http'

const loopback = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/

/**
 * Refuses what a web page sent to a server of this machine alone, and answers whether it did: browsers say so in `Origin` or `Sec-Fetch-Site`, and a
 * name that was pointed at this machine stands in `Host`.
 */
export function refusePages({ headers }: IncomingMessage, response: ServerResponse): boolean {
  const isOfPage = headers.origin !== undefined || headers['sec-fetch-site'] !== undefined
  if (!isOfPage && loopback.test(headers.host ?? '')) return false
  response.writeHead(403, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ message: 'This is for programs on this machine, and not for web pages.' }))
  return true
}
