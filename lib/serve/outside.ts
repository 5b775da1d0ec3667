import { lookup } from 'node:dns'
import type { ClientRequest, IncomingMessage } from 'node:http'
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
  const answered = answerTo(request)
  request.end(body)
  const answer = await answered
  const { statusCode: status = 0 } = answer
  if (status < 200 || status > 599) {
    answer.destroy()
    throw new Error(`The server answered with the invalid status ${status}.`)
  }
  // These statuses have no body. A server that sends one anyway could send without end.
  if (status === 204 || status === 205 || status === 304) {
    answer.destroy()
    return new Response(null, { status })
  }
  // oxlint-disable-next-line no-unsafe-type-assertion -- Node's own stream of the web
  return new Response(Readable.toWeb(answer) as ReadableStream, { status })
}

/** Waits for the response. If the server switches to another protocol instead, Node reports neither a response nor an error. */
async function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => {
    request.on('response', resolve)
    request.on('error', reject)
    request.on('upgrade', (_, socket) => {
      socket.destroy()
      reject(new Error('The server switched to another protocol.'))
    })
    request.on('close', () => reject(new Error('The server closed the connection.')))
  })
}
