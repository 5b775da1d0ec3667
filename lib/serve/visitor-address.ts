import type { IncomingHttpHeaders } from 'node:http'
import { type BlockList, isIP } from 'node:net'

/**
 * Who sent a request: the address that it came from, and where that is of a trusted proxy, the last one in X-Forwarded-For that is none.
 * What stands before that one, the visitor wrote.
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

/** Whether what a request says of its visitor is believed. */
export function isTrusted(address: string, trusted: BlockList): boolean {
  const family = isIP(plain(address))
  return family !== 0 && trusted.check(plain(address), family === 4 ? 'ipv4' : 'ipv6')
}

/** Without a port, brackets or the prefix that an IPv4 address has on a socket of IPv6. */
function plain(address: string): string {
  const host = /^\[([^\]]*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address
  return /^::ffff:([\d.]+)$/i.exec(host)?.[1] ?? host
}
