import dns from 'node:dns'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer, globalAgent } from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import * as publicAddress from '../lib/notifications/public-address.ts'
import { sendWebhook } from '../lib/notifications/webhook-request.ts'
import { fetchOutside } from '../lib/serve/outside.ts'
import { selfSigned } from './support/self-signed.ts'

/** The answer from an attacker's name server to this machine's resolver, and whether this machine counts as public. */
const resolver = { answers: [] as string[], isLoopbackPublic: false }
const { isPublicAddress } = publicAddress

let answer: RequestListener = (_, response) => response.end('ok')
let connections = 0
const server = createTlsServer(selfSigned(['hooks.example.com']), (request, response) => answer(request, response))
server.on('connection', () => (connections += 1))
server.listen(0, '127.0.0.1')
/** The requests to an internal server that redirects or DNS rebinding would reach. */
let reached = 0
const inside = createServer((_, response) => {
  reached += 1
  response.end('secret')
}).listen(0, '127.0.0.1')
/** Answers DNS over HTTPS. Every name resolves to a public address at the service's first lookup. */
const nameService = createServer((request, response) => {
  const isIPv4 = request.url?.includes('type=A') && !request.url.includes('AAAA')
  response.end(JSON.stringify({ Answer: isIPv4 ? [{ type: 1, data: '8.8.8.8' }] : [] }))
}).listen(0, '127.0.0.1')
await Promise.all([once(server, 'listening'), once(inside, 'listening'), once(nameService, 'listening')])
afterAll(() => {
  for (const one of [server, inside, nameService]) {
    one.close()
    one.closeAllConnections()
  }
})
const portOf = (one: { address(): unknown }) => (one.address() as AddressInfo).port
const env = {
  DNS_OVER_HTTPS_URL: `http://127.0.0.1:${portOf(nameService)}/dns-query`,
  OUTSIDE: { fetch: fetchOutside },
}
const send = (url: string) =>
  sendWebhook({ url, method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }, env)
const hooks = `https://hooks.example.com:${portOf(server)}/`

beforeEach(() => {
  // A persistent connection doesn't need a lookup, because its address has been checked.
  globalAgent.destroy()
  Object.assign(resolver, { answers: ['127.0.0.1'], isLoopbackPublic: true })
  connections = 0
  reached = 0
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
  // Spies also work in a module that an earlier test file in this process has loaded, but `vi.mock` doesn't.
  vi.spyOn(publicAddress, 'isPublicAddress').mockImplementation(
    (address) => (resolver.isLoopbackPublic && address === '127.0.0.1') || isPublicAddress(address),
  )
  const lookup = (
    _: string,
    __: unknown,
    callback: (error: null, found: { address: string; family: number }[]) => void,
  ) =>
    callback(
      null,
      resolver.answers.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )
  vi.spyOn(dns, 'lookup').mockImplementation(lookup as unknown as typeof dns.lookup)
  syncBuiltinESMExports()
})
afterEach(() => {
  vi.restoreAllMocks()
  syncBuiltinESMExports()
  vi.useRealTimers()
  vi.unstubAllEnvs()
})

test('a webhook reaches a public name', async () => {
  expect(await send(hooks)).toMatchObject({ status: 200, answer: 'ok' })
})

describe("an attacker's webhook can't reach an internal server", () => {
  test.each([
    [['127.0.0.1']],
    [['8.8.8.8', '127.0.0.1']],
    [['::1']],
    [['::ffff:127.0.0.1']],
    [['64:ff9b::7f00:1']],
    [['0.0.0.0']],
    [['10.0.0.1']],
    [['169.254.169.254']],
    [['fe80::1']],
  ])('when the name resolves to %j after the check', async (answers) => {
    Object.assign(resolver, { answers, isLoopbackPublic: false })
    expect(await send(hooks)).toMatchObject({ status: null, error: expect.stringContaining('is not a public address') })
    expect(connections).toBe(0)
  })

  test.each(['HTTPS:', ' https:', 'h\nttps:', 'https:\\\\', '\u0000https:'])(
    'when the name resolves to it after the check, by the address %j',
    async (scheme) => {
      Object.assign(resolver, { answers: ['127.0.0.1'], isLoopbackPublic: false })
      const sent = await send(hooks.replace('https:', scheme))
      expect(sent).toMatchObject({ status: null, error: expect.stringContaining('is not a public address') })
      expect(connections).toBe(0)
    },
  )

  test.each([
    'https://127.0.0.1',
    'https://127.1',
    'https://2130706433',
    'https://0177.0.0.1',
    'https://0x7f000001',
    'https://127.0.0.1.',
    'https://0.0.0.0',
    'https://0',
    'https://[::1]',
    'https://[::]',
    'https://[::ffff:127.0.0.1]',
    'https://[::ffff:7f00:1]',
    'https://[64:ff9b::127.0.0.1]',
    'https://[fe80::1]',
    'https://①②⑦.0.0.1',
    'https://localhost',
    'https://LOCALHOST.',
    'https://hooks.localhost',
    'https://hooks.example.com@127.0.0.1',
    'http://hooks.example.com',
    'https://user:secret@hooks.example.com',
  ])('by the address %s', async (address) => {
    resolver.isLoopbackPublic = false
    const sent = await send(`${address}:${portOf(server)}/`)
    expect([sent.status, connections]).toEqual([null, 0])
    expect(sent.error).toMatch(/^The address must /)
  })

  test.each([301, 302, 303, 307, 308])('by a redirect with %d', async (status) => {
    answer = (_, response) =>
      response.writeHead(status, { location: `http://127.0.0.1:${portOf(inside)}/` }).end('moved')
    expect(await send(hooks)).toMatchObject({ status, answer: 'moved' })
    expect(reached).toBe(0)
  })
})

test('a compressed response of 100 MB is neither unpacked nor stored', async () => {
  const bomb = gzipSync(Buffer.alloc(100 * 1024 * 1024))
  answer = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb)
  const before = process.memoryUsage.rss()
  const sent = await send(hooks)
  expect(sent.status).toBe(200)
  expect(sent.answer?.length).toBeLessThanOrEqual(4096)
  expect(process.memoryUsage.rss() - before).toBeLessThan(50 * 1024 * 1024)
})

test.each([
  ['HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c', null, /switched to another protocol/],
  ['HTTP/1.1 999 Odd\r\nTransfer-Encoding: chunked', null, /invalid status 999/],
  ['HTTP/1.1 205 Reset\r\nTransfer-Encoding: chunked', 205, /^null$/],
  ['HTTP/1.1 101 Switching', null, /^The connection failed: /],
])('a connection does not stay open after %j', async (head, status, error) => {
  const closed = Promise.withResolvers<void>()
  answer = ({ socket }) => {
    socket.write(`${head}\r\n\r\n`)
    const endless = setInterval(() => socket.write('1\r\nx\r\n'), 5)
    socket
      .on('error', () => {})
      .on('close', () => {
        clearInterval(endless)
        closed.resolve()
      })
  }
  const sent = await send(hooks)
  expect([sent.status, String(sent.error)]).toEqual([status, expect.stringMatching(error)])
  await closed.promise
})

test('a slow response is cut off after ten seconds', async () => {
  const begun = Promise.withResolvers<void>()
  let drip: NodeJS.Timeout | undefined
  answer = (_, response) => {
    response.write('x')
    drip = setInterval(() => response.write('x'), 5)
    begun.resolve()
  }
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const sent = send(hooks)
  await begun.promise
  vi.advanceTimersByTime(10_000)
  expect(await sent).toMatchObject({ status: null, error: 'There was no response within 10 seconds.' })
  clearInterval(drip)
})
