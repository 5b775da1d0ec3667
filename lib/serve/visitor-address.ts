import type { IncomingHttpHeaders } from 'node:http'
import { type BlockList, isIP } from 'node:net'

/**
 * Returns the visitor's address: the connection's, or the last untrusted one in X-Forwarded-For if the connection comes from a
 * trusted proxy. Visitors can invent all earlier entries.
 */
export function visitorAddress(from: string, headers: IncomingHttpHeaders, trusted: BlockList): string {
  let address = plain(from)
  if (!isTrusted(address, trusted)) return address
  const chain = String(headers['x-forwarded-for'] ?? '').split(',')
  for (const entry of chain.toReversed()) {
    const next = plain(entry.trim())
    if (isIP(next) === 0) break
    address = next
    if (!isTrusted(next, trusted)) break
  }
  return address
}

/** True if the service trusts the headers of this sender. */
export function isTrusted(address: string, trusted: BlockList): boolean {
  const family = isIP(plain(address))
  return family !== 0 && trusted.check(plain(address), family === 4 ? 'ipv4' : 'ipv6')
}

/** Removes a port, brackets, and the IPv6 prefix of an IPv4 address. */
function plain(address: string): string {
  const host = /^\[([^\]]*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address
  return /^::ffff:([\d.]+)$/i.exec(host)?.[1] ?? host
}
