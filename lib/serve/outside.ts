import { lookup } from 'node:dns'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request as send } from 'node:https'
import type { LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import { isPublicAddress, type OutsideRequest } from '../notifications/public-address.ts'

/** When connecting, refuses addresses of this machine or its network. */
const publicLookup: LookupFunction = (host, options, callback) => {
  lookup(host, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, [])
    const hidden = addresses.find(({ address }) => !isPublicAddress(address))
    if (hidden) return callback(new Error(`${host} resolves to ${hidden.address}, which is not a public address.`), [])
    if (options.all) return callback(null, addresses)
    const [first] = addresses
    return first
      ? callback(null, first.address, first.family)
      : callback(new Error(`${host} resolves to no address.`), [])
  })
}

/**
 * A `fetch` for untrusted addresses that allows only https to the public Internet. Cloudflare's edge already enforces this. On one box, a
 * name could resolve to a private address after an earlier check, so the address is checked during the connection. Plain http is only for
 * trials on this machine (`refusalOfAddress`).
 */
export async function fetchOutside(url: string, outgoing: OutsideRequest): Promise<Response> {
  // Parsing also accepts `HTTPS:` and leading blanks.
  const address = new URL(url)
  if (address.protocol !== 'https:') return await fetch(address, outgoing)
  const { method, headers, body, signal } = outgoing
  const request = send(address, { method, headers, signal, lookup: publicLookup })
  request.on('error', () => {})
  request.end(body)
  // oxlint-disable-next-line no-unsafe-type-assertion -- what the event carries
  const [answer] = (await once(request, 'response')) as [IncomingMessage]
  const { statusCode: status = 502 } = answer
  const isEmpty = status === 204 || status === 205 || status === 304
  if (isEmpty) answer.resume()
  // oxlint-disable-next-line no-unsafe-type-assertion -- Node's own stream of the web
  return new Response(isEmpty ? null : (Readable.toWeb(answer) as ReadableStream), { status: Math.max(status, 200) })
}
