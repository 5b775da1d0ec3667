import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { Agent, createServer, type IncomingMessage, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import type { OutboxMessage } from '../lib/notifications/outbox.ts'
import { openBodyReader } from '../lib/serve/bodies.ts'
import { openChannels } from '../lib/serve/channels.ts'
import { fetchOutside } from '../lib/serve/outside.ts'
import { hmac } from '../lib/hmac.ts'
import { openGeoFile } from '../lib/serve/geo.ts'
import { openPool } from '../lib/commands/postgres.ts'
import { findSystemPrograms, requireSameMajor } from '../lib/serve/postgres-programs.ts'
import { openRateLimits } from '../lib/serve/rate-limits.ts'
import { checkSecrets } from '../lib/commands/secrets.ts'
import { startServer } from '../lib/serve/server.ts'
import { readSettings, readTrusted } from '../lib/serve/settings.ts'
import { visitorAddress } from '../lib/serve/visitor-address.ts'
import { openVisitorBudget, type Use } from '../lib/serve/visitor-budget.ts'
import { readTestFunctions } from './support/functions.ts'
import { meter } from './support/meter.ts'
import { mmdb } from './support/mmdb.ts'
import { givenSecrets } from './support/serve-process.ts'
import { serveFunctions, startThread } from './support/served.ts'
import { createDatabase } from './support/stack.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'svc-serve-parts-'))
afterAll(() => rmSync(folder, { recursive: true }))

const whole = {
  ...givenSecrets,
  DATABASE_URL: 'postgresql://svc:secret@db.example.com/svc',
  BASE_URL: 'https://partners.example.com',
  MAIL_API_URL: 'https://api.example.com/emails',
  MAIL_API_KEY: 'key',
  MAIL_FROM: 'Partners <partners@example.com>',
  TRUST_PROXY: '127.0.0.1, 10.0.0.0/8 ::1',
}
const options = { embedded: false, data: path.join(folder, 'data'), migrates: true }
const problemsOf = (given: Record<string, string | undefined>, more = {}) =>
  readSettings({ ...whole, ...given }, { ...options, ...more }).problems

test('nothing is missing if every value is set', () => {
  expect(problemsOf({})).toEqual([])
  expect(problemsOf({ DATABASE_URL: undefined }, { embedded: true })).toEqual([])
})

test.each(Object.keys(whole))(
  'without %s, or with an empty value, the service refuses to start and says why',
  (name) => {
    for (const value of [undefined, '', ' ']) {
      expect(problemsOf({ [name]: value })).toEqual([expect.stringMatching(new RegExp(`^${name} is not set\\. .+`))])
    }
  },
)

test.each([
  [{ BASE_URL: 'http://partners.example.com' }, 'https://'],
  [{ BASE_URL: 'https://partners.example.com/' }, 'must have no path'],
  [{ BASE_URL: 'partners.example.com' }, 'must be an address'],
  [{ DATABASE_URL: 'mysql://db' }, 'connection string'],
  [{ AUTH_SECRET: 'short' }, 'too short'],
  [{ STRIPE_SECRET_KEY: 'sk_live_x' }, 'STRIPE_WEBHOOK_SECRET'],
  [{ STRIPE_WEBHOOK_SECRET: 'whsec_x' }, 'STRIPE_SECRET_KEY'],
  [{ GITHUB_CLIENT_ID: 'x' }, 'GITHUB_CLIENT_SECRET'],
  [{ TRUST_PROXY: 'proxy.example.com' }, 'neither an address nor a network'],
  [{ TRUST_PROXY: '10.0.0.0/33' }, 'neither an address nor a network'],
  [{ TRUST_PROXY: '0.0.0.0/0' }, "You can't trust all addresses"],
  [{ PORT: 'http' }, 'PORT must be'],
  [{ GEOIP_FILE: '/nowhere.mmdb' }, 'does not exist'],
  [{ CLICK_RETENTION_MONTHS: 'banana' }, 'a whole number of months'],
  [{ CLICK_RETENTION_MONTHS: '0' }, 'a whole number of months'],
  [{ LOGGED_PART: 'all' }, 'a number from 0 to 1'],
  [{ LOGGED_PART: '10' }, 'a number from 0 to 1'],
  [{ MAIL_FROM: 'Partners' }, 'MAIL_FROM must be an address'],
  [{ MAIL_FROM: 'Partners <partners>' }, 'MAIL_FROM must be an address'],
])('%o is refused with a message', (given, said) => {
  expect(problemsOf(given)).toEqual([expect.stringContaining(said)])
})

test("a secret in a variable applies while the variable is set and doesn't replace the stored secret", () => {
  const data = mkdtempSync(path.join(folder, 'kept-'))
  const read = (given: Record<string, string | undefined>) =>
    readSettings({ ...whole, DATABASE_URL: undefined, ...given }, { ...options, embedded: true, data }).settings
      .environment
  const created = read({ AUTH_SECRET: undefined })['AUTH_SECRET']
  expect(created?.length).toBeGreaterThan(40)
  expect(read({})['AUTH_SECRET']).toBe(givenSecrets['AUTH_SECRET'])
  expect(read({ AUTH_SECRET: undefined })['AUTH_SECRET']).toBe(created)
})

/** A data folder of a given major version, or an empty one. */
const dataOf = (major: string) => {
  const data = mkdtempSync(path.join(folder, 'pgdata-'))
  if (major) writeFileSync(path.join(data, 'PG_VERSION'), `${major}\n`)
  return data
}

/** A folder with programs that only report a version. */
const programs = (name: string, version: string) => {
  const bin = path.join(folder, name)
  mkdirSync(bin)
  writeFileSync(path.join(bin, 'initdb'), '')
  writeFileSync(path.join(bin, 'postgres'), `#!/bin/sh\necho "postgres (PostgreSQL) ${version}"\n`, { mode: 0o755 })
  return bin
}

describe('the programs of the embedded PostgreSQL', () => {
  const [old, current, next] = [
    programs('pg17', '17.9'),
    programs('pg18', '18.4 (Debian)'),
    programs('pg19', '19beta2'),
  ]

  test.each([
    ['new data uses the newest one of the system', '', [old, current, next], next],
    ['existing data keeps its major version', '18', [next, current], current],
    ['an older one is not used', '', [old], undefined],
    ['another major version is not used', '18', [next], undefined],
    ['a folder without a server is not used', '', ['', 'relative', tmpdir()], undefined],
  ])('%s', (_, major, folders, found) => {
    expect(findSystemPrograms(dataOf(major), folders)).toBe(found)
  })

  test('data of another major version is refused with instructions for moving it', () => {
    requireSameMajor(dataOf('18'), current)
    expect(() => requireSameMajor(dataOf('18'), next)).toThrow(
      /^PostgreSQL 18 created the data in .*, but this is PostgreSQL 19\. Install PostgreSQL 18, or move the data to 19/,
    )
  })
})

test('git ignores all files that a start in a clone creates', () => {
  expect(readFileSync('.gitignore', 'utf8').split('\n')).toEqual(expect.arrayContaining(['.local/', '/data/']))
})

test('a database without its secrets is not opened with new secrets', () => {
  const data = mkdtempSync(path.join(folder, 'lost-'))
  writeFileSync(path.join(data, 'postgres'), '')
  expect(problemsOf({ DATABASE_URL: undefined }, { embedded: true, data })).toEqual([
    expect.stringContaining('is missing'),
  ])
})

test('secrets that another process creates at the same moment are not overwritten', () => {
  const data = mkdtempSync(path.join(folder, 'both-'))
  // A check doesn't find the target of a broken link, but the link itself exists for a write.
  symlinkSync(path.join(data, 'nowhere'), path.join(data, 'secrets.json'))
  expect(problemsOf({ DATABASE_URL: undefined }, { embedded: true, data })).toEqual([
    expect.stringContaining('is in use by another process'),
  ])
})

test('a database keeps the secrets of its first use, until one is marked as new', async () => {
  const { databaseUrl } = await createDatabase()
  const other = { ...givenSecrets, EMAIL_HASH_KEY: 'y'.repeat(32), WEBHOOK_SECRET: 'z'.repeat(32) }
  const start = (secrets: Record<string, string>, replaced?: string) => checkSecrets(databaseUrl, secrets, replaced)
  await Promise.all([start(givenSecrets), start(givenSecrets)])
  await start({ ...givenSecrets, METRICS_TOKEN: 'another' })
  const refused: unknown = await start(other).catch((error: unknown) => error)
  expect(refused).toMatchObject({
    message: expect.stringMatching(
      /^This database was used with another EMAIL_HASH_KEY and another WEBHOOK_SECRET\. Put back .+ set REPLACED_SECRETS=\S+\.$/,
    ),
  })
  const [, replaced = ''] = /REPLACED_SECRETS=(\S+)\.$/.exec(String(refused)) ?? []
  await expect(start(other, replaced.split(',')[0])).rejects.toThrow('WEBHOOK_SECRET')
  await start(givenSecrets, replaced)
  await start(other, replaced)
  await start(other)
  // A confirmation doesn't allow a third secret, or the first one again.
  await expect(start({ ...other, EMAIL_HASH_KEY: 'w'.repeat(32) }, replaced)).rejects.toThrow('another EMAIL_HASH_KEY.')
  await expect(start(givenSecrets, replaced)).rejects.toThrow('EMAIL_HASH_KEY and another WEBHOOK_SECRET')
})

test('one of two processes that start at once on an empty database with different secrets is refused', async () => {
  const { databaseUrl } = await createDatabase()
  const starts = ['x', 'y'].map((letter) =>
    checkSecrets(databaseUrl, { ...givenSecrets, AUTH_SECRET: letter.repeat(32) }, undefined),
  )
  const outcomes = await Promise.allSettled(starts)
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
})

const { trusted } = readTrusted('127.0.0.1 10.0.0.0/8 fd00::/8')
describe('the address of a visitor', () => {
  test.each([
    ['a stranger', '198.51.100.7', undefined, '198.51.100.7'],
    ['a stranger with a forged header', '198.51.100.7', '203.0.113.9', '198.51.100.7'],
    ['the proxy', '127.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['the proxy on an IPv6 socket', '::ffff:127.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['the proxy, for a visitor with a forged header', '127.0.0.1', '1.2.3.4, 203.0.113.9', '203.0.113.9'],
    ['a proxy behind another proxy', '127.0.0.1', '1.2.3.4, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
    ['the proxy, with an IPv6 address', '127.0.0.1', '2001:db8::1', '2001:db8::1'],
    ['the proxy, with a port', '127.0.0.1', '203.0.113.9:4711', '203.0.113.9'],
    ['the proxy, with an IPv6 address and port', '127.0.0.1', '[2001:db8::1]:4711', '2001:db8::1'],
    ['the proxy, without a header', '127.0.0.1', undefined, '127.0.0.1'],
    ['the proxy, with an invalid address', '127.0.0.1', '203.0.113.9, unknown', '127.0.0.1'],
    ['an IPv6 proxy', 'fd00::1', '203.0.113.9', '203.0.113.9'],
  ])('from %s', (_who, from, forwarded, expected) => {
    expect(visitorAddress(from, forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }, trusted)).toBe(
      expected,
    )
  })
})

describe('over HTTP', async () => {
  const baseUrl = 'https://partners.example.com'
  const given = {
    service: {
      isProgramHost: (host: string) => Promise.resolve(host === 'partners.acme.example'),
      answer: async (request: Request) => {
        const { cf } = request as Request & { cf?: unknown }
        const seen = Object.fromEntries(request.headers)
        return Response.json({ url: request.url, seen, cf, length: (await request.arrayBuffer()).byteLength })
      },
    },
    budget: openVisitorBudget(),
    baseUrl,
    host: '127.0.0.1',
    port: 0,
    trusted: readTrusted('127.0.0.2').trusted,
    placeOf: (address: string) => (address === '203.0.113.9' ? { country: 'DE' } : {}),
    isBlocked: (address: string) => address === '203.0.113.66',
  }
  const server = await startServer(given)
  afterAll(() => server.stop())

  test.each([
    ['192.0.2.1', /^192\.0\.2\.1 is not an address of this machine\. Set HOST/],
    ['svc.invalid', /^The name .+ in HOST has no address\. Set HOST/],
  ])('HOST %s is refused with advice', async (host, said) => {
    await expect(startServer({ ...given, host })).rejects.toThrow(said)
  })

  /** Sends a raw request from one of this machine's addresses. */
  async function ask(
    from: string,
    headers: Record<string, string> = {},
    address = '/x',
    body?: Buffer,
    method = body ? 'POST' : 'GET',
  ) {
    const request = send({
      host: '127.0.0.1',
      port: server.port,
      localAddress: from,
      path: address,
      headers,
      method,
    })
    const answered = new Promise<string>((resolve, reject) => {
      request.on(
        'response',
        (response) => void text(response).then((said) => resolve(said || `${response.statusCode}`)),
      )
      request.on('error', reject)
    })
    request.end(body)
    return JSON.parse(await answered)
  }

  const forged = {
    'cf-connecting-ip': '1.1.1.1',
    'CF-Connecting-IP': '1.1.1.1',
    'x-real-ip': '1.1.1.1',
    'x-forwarded-for': '203.0.113.9',
    'cloudfront-viewer-country': 'FR',
    'x-geo-country': 'FR',
    'x-geo-city': Buffer.from('Łódź').toString('latin1'),
    host: 'evil.example',
  }
  test("restarts don't lose requests from a proxy that keeps connections open and retries refused connections", async () => {
    const served = { ...given, service: { ...given.service, answer: async () => (await sleep(2), new Response('ok')) } }
    let current = await startServer(served)
    const { port } = current
    const agent = new Agent({ keepAlive: true, maxSockets: 24 })
    const codes: unknown[] = []
    let answered = 0
    const over = new AbortController()
    async function visit() {
      while (!over.signal.aborted) {
        const asked = send({ host: '127.0.0.1', port, agent, method: 'POST', path: '/x' })
        const outcome = new Promise((resolve, reject) => {
          asked.on('response', (response) => void text(response).then(resolve, reject)).on('error', reject)
        })
        asked.end('{}')
        try {
          await outcome
          answered++
        } catch (error) {
          const code = error instanceof Error && 'code' in error ? error.code : error
          if (code === 'ECONNREFUSED') await sleep(10)
          else codes.push(code)
        }
      }
    }
    const visitors = Array.from({ length: 24 }, visit)
    for (let restarts = 0; restarts < 5; restarts++) {
      await sleep(100)
      await current.stop()
      current = await startServer({ ...served, port })
    }
    await sleep(100)
    over.abort()
    await Promise.all(visitors)
    agent.destroy()
    await current.stop()
    expect(answered).toBeGreaterThan(100)
    expect(codes).toEqual([])
  }, 60_000)

  test('idle connections stay open for longer than the two minutes in which Caddy uses them', async () => {
    const asked = send({
      host: '127.0.0.1',
      port: server.port,
      agent: new Agent({ keepAlive: true }),
      path: '/x',
    }).end()
    const [response]: IncomingMessage[] = await once(asked, 'response')
    const [, seconds] = /timeout=(\d+)/.exec(String(response?.headers['keep-alive'])) ?? []
    asked.destroy()
    expect(Number(seconds)).toBeGreaterThan(120)
  })

  test('a server that stops on a slow machine answers all connections that are waiting to be accepted', async () => {
    const slow = await startServer({
      ...given,
      service: {
        ...given.service,
        answer: async () => {
          const until = performance.now() + 30
          while (performance.now() < until);
          return new Response('ok')
        },
      },
    })
    const answers = Array.from({ length: 60 }, async () => {
      const asked = send({ host: '127.0.0.1', port: slow.port, agent: false, method: 'POST', path: '/x' })
      asked.end('{}')
      const [response]: IncomingMessage[] = await once(asked, 'response')
      return response && (await text(response))
    })
    await Promise.all([slow.stop(), ...answers])
  }, 60_000)

  test("a visitor's location headers are ignored, and a trusted proxy's headers count", async () => {
    expect(await ask('127.0.0.1', forged)).toMatchObject({
      url: `${baseUrl}/x`,
      seen: { 'cf-connecting-ip': '::ffff:127.0.0.1' },
      cf: {},
    })
    expect(await ask('127.0.0.2', forged)).toMatchObject({
      seen: { 'cf-connecting-ip': '203.0.113.9' },
      cf: { country: 'FR', city: 'Łódź' },
    })
    expect(await ask('127.0.0.2', { 'x-forwarded-for': '203.0.113.9' })).toMatchObject({ cf: { country: 'DE' } })
    for (const from of ['127.0.0.1', '127.0.0.2']) {
      const { seen } = await ask(from, forged)
      expect(Object.keys(seen).filter((name) => /^(x-|cloudfront-)/.test(name))).toEqual([])
    }
  })

  test('a blocked network is refused, even behind a proxy', async () => {
    const { error } = (await ask('127.0.0.2', { 'x-forwarded-for': '203.0.113.66' })) as { error: { code: string } }
    expect(error.code).toBe('forbidden')
    expect(await ask('127.0.0.1', { 'x-forwarded-for': '203.0.113.66' })).toMatchObject({ url: `${baseUrl}/x` })
  })

  test("only a trusted proxy can pass on a program's host and ask about one", async () => {
    const program = { 'x-program-host': 'Partners.Acme.example' }
    expect(await ask('127.0.0.1', program)).toMatchObject({ url: `${baseUrl}/x` })
    expect(await ask('127.0.0.2', program)).toMatchObject({
      url: 'https://partners.acme.example/x',
      seen: expect.not.objectContaining({ 'x-program-host': expect.anything() }),
    })
    for (const host of ['evil.example/programs', 'evil.example:8080', 'a@evil.example', ''])
      expect(await ask('127.0.0.2', { 'x-program-host': host })).toMatchObject({ error: { code: 'invalid_request' } })
    const about = '/internal/program-host?domain='
    expect(await ask('127.0.0.2', {}, `${about}partners.acme.example`)).toBe(200)
    expect(await ask('127.0.0.2', {}, `${about}other.example`)).toBe(404)
    expect(await ask('127.0.0.2', {}, '/internal/program-host')).toBe(404)
    // The proxy adds X-Forwarded-For to the requests of visitors.
    for (const [from, headers] of [
      ['127.0.0.1', {}],
      ['127.0.0.2', { 'x-forwarded-for': '203.0.113.9' }],
    ] as const)
      expect(await ask(from, headers, `${about}partners.acme.example`)).toMatchObject({ url: expect.any(String) })
  })

  test.each(['//evil.example/x', 'http://evil.example/x', '/%00', '/..//x'])(
    '%s keeps the address of the service',
    async (address) => {
      const { url = baseUrl } = await ask('127.0.0.1', {}, address)
      expect(new URL(url).origin).toBe(baseUrl)
    },
  )

  const events = '/api/v1/webhooks/stripe'
  test.each([
    ['/x', 64 * 1024],
    [events, 1024 * 1024],
  ])('the largest body of %s has %d bytes, and the server reads no larger one', async (address, most) => {
    expect((await ask('127.0.0.1', {}, address, Buffer.alloc(most))).length).toBe(most)
    const { seen, length } = await ask('127.0.0.1', {}, address, Buffer.alloc(most + 1))
    expect([seen['content-length'], length]).toEqual([`${most + 1}`, 0])
    const chunked = { 'transfer-encoding': 'chunked' }
    expect((await ask('127.0.0.1', chunked, address, Buffer.alloc(3 * most))).length).toBeGreaterThan(most)
  })

  describe('the budget of an address', () => {
    const budget = openVisitorBudget(() => 0)
    const usesOf = (address: string, pathname: string, more: Partial<Use> = {}) => {
      const use = { pathname, authorization: undefined, bodyBytes: 0, ...more }
      let count = 0
      while (count < 50_000 && budget.take(address, use)) count += 1
      return count
    }

    test('pages, passwords and refused events share one budget, and this machine has no limit', () => {
      expect([
        usesOf('203.0.113.1', '/docs'),
        Array.from({ length: 200 }, () => budget.takeHashing('203.0.113.2')).filter(Boolean).length,
        usesOf('203.0.113.3', events, { bodyBytes: 1024 * 1024 }),
        usesOf('127.0.0.1', '/docs'),
      ]).toEqual([21_875, 87, 781, 50_000])
      expect(usesOf('203.0.113.1', '/healthz')).toBe(0)
      expect(usesOf('2001:db8:1:2::1', '/docs')).toBe(21_875)
      expect(usesOf('2001:db8:1:2::2', '/docs')).toBe(0)
    })

    test("excludes visitors' clicks and leads, and valid keys", () => {
      expect(usesOf('203.0.113.1', '/api/v1/track/click')).toBe(50_000)
      expect(usesOf('203.0.113.1', '/api/v1/track/lead')).toBe(50_000)
      const use = { pathname: '/api/v1/track/sale', authorization: 'Bearer good', bodyBytes: 100 }
      expect(budget.take('203.0.113.1', use)).toBe(false)
      budget.know(use)
      expect(budget.take('203.0.113.1', use)).toBe(true)
      expect(budget.take('203.0.113.1', { ...use, pathname: '/api/v1/partners' })).toBe(true)
      expect(budget.take('203.0.113.1', { ...use, bodyBytes: 64 * 1024 + 1 })).toBe(false)
      expect(budget.take('203.0.113.1', { ...use, authorization: 'Bearer bad' })).toBe(false)
      // A key doesn't raise the limit for pages, and a call to a page doesn't prove that a key is valid.
      budget.know({ ...use, pathname: '/docs', authorization: 'Bearer bad' })
      expect(budget.take('203.0.113.1', { ...use, pathname: '/docs' })).toBe(false)
      expect(budget.take('203.0.113.1', { ...use, authorization: 'Bearer bad' })).toBe(false)
    })
  })

  test('bodies of unknown length count as the largest possible, and an address without budget is refused', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.77', 'transfer-encoding': 'chunked' }
    const unknownKey = { 'x-forwarded-for': '203.0.113.77', authorization: 'Bearer bad' }
    await ask('127.0.0.2', unknownKey, '/api/v1/track/sale', undefined, 'OPTIONS')
    // Sends twice the budget and two more requests, because a new window can start in between.
    const answers = await Promise.all(
      Array.from({ length: 101 }, () => ask('127.0.0.2', headers, '/api/v1/imports', Buffer.alloc(1))),
    )
    expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThanOrEqual(2)
    // The answer to a preflight doesn't prove that its key is valid.
    expect(await ask('127.0.0.2', unknownKey, '/api/v1/track/sale', Buffer.alloc(1))).toMatchObject({ status: 429 })
  })

  test("an interrupted body isn't answered, doesn't stop the service and doesn't write a log line", async () => {
    const logged = vi.spyOn(console, 'error')
    onTestFinished(() => logged.mockRestore())
    const headers = { 'content-length': '10' }
    const sent = send({ host: '127.0.0.1', port: server.port, method: 'POST', path: '/x', headers })
    sent.on('error', () => {})
    sent.write('half')
    await once(sent, 'socket')
    sent.destroy()
    expect(await ask('127.0.0.1')).toMatchObject({ length: 0 })
    expect(logged).not.toHaveBeenCalled()
  })
})

/** Starts to send a body of 10,000 bytes, and resolves when the connection ends. */
function stall(port: number, bytes: number): Promise<unknown> {
  const sent = send({ host: '127.0.0.1', port, method: 'POST', headers: { 'content-length': '10000' } })
  sent.write(Buffer.alloc(bytes))
  return new Promise((resolve) => void sent.on('error', resolve))
}

async function startReading(limits: Parameters<typeof openBodyReader>[0]) {
  const read = openBodyReader(limits)
  const bodies: IncomingMessage[] = []
  const server = createServer((incoming, outgoing) => {
    bodies.push(incoming)
    read(incoming, 10_000).then(
      (body) => outgoing.end(String(body.length)),
      () => {},
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { bodies, port: (server.address() as AddressInfo).port }
}

describe('bodies that stall', () => {
  test.each([
    ['bytes', { bytes: 10_000, bodies: 100, idleMilliseconds: 60_000 }],
    ['bodies', { bytes: 1_000_000, bodies: 3, idleMilliseconds: 60_000 }],
  ])('too many stalled %s end the oldest request, so that others get through', async (_, limits) => {
    const { port, bodies } = await startReading(limits)
    const stalled: Promise<unknown>[] = []
    for (let count = 1; count <= 3; count++) {
      stalled.push(stall(port, 3000))
      await expect.poll(() => bodies.filter(({ readableFlowing }) => readableFlowing).length).toBe(count)
    }
    const answer = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: Buffer.alloc(4000) })
    expect(await answer.text()).toBe('4000')
    await stalled[0]
    expect(bodies.map(({ destroyed }) => destroyed).slice(0, 3)).toEqual([true, false, false])
  })

  test('end if they send nothing for a while', async () => {
    const { port } = await startReading({ bytes: 1_000_000, bodies: 100, idleMilliseconds: 50 })
    expect(await stall(port, 3000)).toMatchObject({ code: 'ECONNRESET' })
  })
})

test.each([
  ['secret', 'text'],
  ['s'.repeat(100), 'ü€'],
])("an HMAC with %s equals Node's own", (secret, signed) => {
  expect(Buffer.from(hmac(secret, signed))).toEqual(createHmac('sha256', secret).update(signed).digest())
})

test('concurrent messages reach the consumer in one call, and each caller gets its own result', async () => {
  const calls: string[][] = []
  const channels = openChannels(({ Records }) => {
    calls.push(Records.map(({ body }) => body))
    if (Records.length === 1) return Promise.reject(new Error('the database is gone'))
    return Promise.resolve({ batchItemFailures: [{ itemIdentifier: '1' }] })
  })
  const report = (messages: OutboxMessage[]) => channels.send(messages)
  const [one, two, three] = [1, 2, 3].map((outbox_id) => ({ program_id: 1, outbox_id }))
  if (!one || !two || !three) throw new Error('There are three.')
  expect(await Promise.all([report([one]), report([two, three])])).toEqual([[one], [three]])
  await expect(report([two])).rejects.toThrow('the database is gone')
  expect(await Promise.all([report([two, one]), report([])])).toEqual([[two], []])
  expect(calls).toEqual(
    [[one, two, three], [two], [two, one]].map((reported) => reported.map((row) => JSON.stringify(row))),
  )
})

describe('rate limits', () => {
  const minute = { limit: 20, period: 60 }

  test('a window allows a limited number of calls, separately for each key', async () => {
    let now = 0
    const limiter = openRateLimits(() => now).limiter('1', minute)
    const let_through = async (key: string, times: number) =>
      (await Promise.all(Array.from({ length: times }, () => limiter.limit({ key })))).filter(({ success }) => success)
        .length
    expect([await let_through('a', 30), await let_through('b', 5)]).toEqual([20, 5])
    now = 60_000
    expect(await let_through('a', 30)).toBe(20)
  })

  test('processes that exchange counts enforce limits together, without sharing addresses', async () => {
    const [here, there] = [openRateLimits(() => 0), openRateLimits(() => 0)]
    const [one, other] = [here.limiter('1', minute), there.limiter('1', minute)]
    for (let times = 0; times < 15; times++) await one.limit({ key: '203.0.113.9' })
    const messages = here.takeMessages()
    expect(messages.join()).not.toContain('203.0.113.9')
    for (const message of messages) there.hear(message)
    expect(here.takeMessages()).toEqual([])
    const answers = []
    for (let times = 0; times < 10; times++) answers.push((await other.limit({ key: '203.0.113.9' })).success)
    expect(answers.filter(Boolean)).toHaveLength(5)
    expect((await other.limit({ key: '203.0.113.10' })).success).toBe(true)
  })

  test('counts far below a limit are not shared', async () => {
    const limits = openRateLimits(() => 0)
    await limits.limiter('1', minute).limit({ key: 'a' })
    expect(limits.takeMessages()).toEqual([])
  })
})

test('a MaxMind DB returns the location of an address', () => {
  const file = path.join(folder, 'places.mmdb')
  const berlin = {
    country: { iso_code: 'DE' },
    subdivisions: [{ names: { en: 'Land Berlin' } }],
    city: { names: { en: 'Berlin' } },
  }
  const networks: Parameters<typeof mmdb>[0] = [
    ['203.0.113.0', 24, berlin],
    ['2001:db8::', 32, { country: { iso_code: 'JP' } }],
  ]
  writeFileSync(file, mmdb(networks))
  const placeOf = openGeoFile(file)
  expect(placeOf('203.0.113.9')).toEqual({ country: 'DE', region: 'Land Berlin', city: 'Berlin' })
  expect(placeOf('2001:db8:1::5')).toEqual({ country: 'JP' })
  for (const address of ['203.0.112.9', '198.51.100.1', '::1', '2001:db9::', 'unknown', ''])
    expect(placeOf(address)).toEqual({})
})

test('a file that is not a MaxMind DB is refused', () => {
  const file = path.join(folder, 'other.mmdb')
  writeFileSync(file, 'x'.repeat(1000))
  expect(() => openGeoFile(file)).toThrow('is not a MaxMind DB')
})

test('a webhook to a name that resolves to this machine is not sent', async () => {
  const request = {
    method: 'POST',
    headers: {},
    body: '',
    redirect: 'manual',
    signal: AbortSignal.timeout(5000),
  } as const
  await expect(fetchOutside('https://localhost:1/x', request)).rejects.toThrow('not a public address')
})

test("if the functions' thread dies, its open calls and its shutdown fail with the cause", async () => {
  const file = path.join(folder, 'dies.js')
  const dies = `export default { scheduled: () => new Promise(() => setTimeout(() => { throw new Error('a fault') })) }`
  writeFileSync(file, dies)
  const [entry] = readTestFunctions()
  if (!entry) throw new Error('wrangler.toml has no function.')
  const main = path.relative(fileURLToPath(new URL('../', import.meta.url)), file)
  const port = await freePort()
  const served = await serveFunctions(
    {
      functions: [{ ...entry, name: 'dies', main, services: {}, rateLimits: [] }],
      databaseUrl: whole.DATABASE_URL,
      connections: 1,
      environment: {},
      common: {},
      baseUrl: `http://127.0.0.1:${port}`,
      port,
    },
    meter(openPool(whole.DATABASE_URL)),
    startThread(),
  )
  await expect(served.scheduled('dies')).rejects.toThrow('a fault')
  await expect(served.close()).rejects.toThrow('a fault')
})
