import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request as plainly } from 'node:http'
import { request as securely, type RequestOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, describe, expect, inject, test, vi } from 'vitest'
import { sessionCookie } from '../lib/access/sessions.ts'
import { audit } from '../lib/commands/audit.ts'
import { Database } from '../lib/database.ts'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { createEndpoint, programOwner } from '../lib/notifications/webhook-endpoints.ts'
import { openPool } from '../lib/commands/postgres.ts'
import { checkSecrets } from '../lib/commands/secrets.ts'
import { lossesOf, startCallers } from './chaos/serve.ts'
import { launchBrowser } from './support/browser.ts'
import { mmdb } from './support/mmdb.ts'
import { password, signUpInBrowser } from './support/people.ts'
import { startReceiver } from './support/receiver.ts'
import { startMailApi, startServe, settingsOf } from './support/serve.ts'
import { givenSecrets, openSocket, type Served } from './support/serve-process.ts'
import { bareEnvironment } from './support/spawned.ts'
import { createDatabase } from './support/stack.ts'
import { startTlsProxy } from './support/tls-proxy.ts'

const mailApi = await startMailApi()
const folder = mkdtempSync(path.join(tmpdir(), 'svc-serve-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const run = promisify(execFile)

async function post(baseUrl: string, address: string, body: unknown, key?: string) {
  const response = await fetch(baseUrl + address, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key !== undefined && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: await response.json() }
}

/** Calls the proxy, or the service directly, from one of this machine's addresses. */
async function clickFrom(options: RequestOptions, send: typeof plainly | typeof securely, body: object) {
  const request = send({ method: 'POST', path: '/api/v1/track/click', ...options })
  const answered = once(request, 'response') as Promise<[IncomingMessage]>
  request.end(JSON.stringify(body))
  const [response] = await answered
  return JSON.parse(await text(response)) as { click_id: string }
}

describe('with its own database', async () => {
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const host = 'partners.example.com'
  const dataFolder = path.join(folder, 'data')
  const geoFile = path.join(folder, 'places.mmdb')
  // The addresses that the proxy sees are in Germany, and those that visitors claim are in France.
  const networks: Parameters<typeof mmdb>[0] = [
    ['203.0.113.0', 24, { country: { iso_code: 'DE' } }],
    ['198.51.100.0', 24, { country: { iso_code: 'FR' } }],
  ]
  writeFileSync(geoFile, mmdb(networks))
  const environment = {
    ...settingsOf(port, mailApi),
    BASE_URL: `https://${host}`,
    GEOIP_FILE: geoFile,
    WEBHOOK_LOOPBACK: 'on',
    LOGGED_PART: '1',
  }
  let shopPage = ''
  const proxy = await startTlsProxy({ host, port, visitor: '203.0.113.9', page: () => shopPage })
  const browser = await launchBrowser(proxy.browserArg)
  const started: Served[] = []
  const socket = openSocket(port)
  afterAll(() => socket.close())
  const start = async () => {
    const served = await startServe(environment, ['--embedded', '--data', dataFolder], process.cwd(), socket)
    started.push(served)
    return served
  }
  let generated: Record<string, string> = {}
  const receiver = await startReceiver()
  afterAll(() => receiver.close())

  async function withDatabase<Result>(work: (sql: Client, db: Database) => Promise<Result>): Promise<Result> {
    const connectionString = readFileSync(path.join(dataFolder, 'database-url'), 'utf8')
    const sql = new Client({ connectionString })
    const pool = openPool(connectionString, 2)
    await sql.connect()
    try {
      return await work(sql, new Database({ DATABASE_URL: connectionString, POSTGRES: pool }))
    } finally {
      await sql.end()
      await pool.end()
    }
  }

  test('behind a TLS proxy a person signs up, creates a program, and everything from a click to the refund is recorded', async () => {
    const served = await start()
    generated = secrets()
    // Another process can't use the folder, and trying to use it does no harm.
    const refused = run(process.execPath, ['lib/serve/serve.ts', '--embedded', '--data', dataFolder], {
      env: { ...bareEnvironment, ...environment, PORT: '0' },
    }).catch((error: unknown) => error)
    const email = 'ada@example.com'
    const context = await browser.newContext({ ignoreHTTPSErrors: true, baseURL: environment.BASE_URL })
    const page = await context.newPage()
    const complaints: string[] = []
    context.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())))
    await page.goto('/sign-up')
    await signUpInBrowser(page, 'Ada', email)
    await page.getByText(`we sent a link to ${email}`).waitFor()
    const session = { domain: host, path: '/', secure: true, httpOnly: true, sameSite: 'Lax' }
    expect(await context.cookies()).toEqual([expect.objectContaining({ ...session, name: sessionCookie })])
    await vi.waitFor(() => expect(mailApi.to(email)?.text).toContain('/verify-email?token='), 60_000)
    const [link = ''] = /https:\S+\/verify-email\?token=\S+/.exec(mailApi.to(email)?.text ?? '') ?? []
    await page.goto(link)
    await page.getByRole('button', { name: 'Yes, confirm it' }).click()
    await page.getByText('Your e-mail address is confirmed.').waitFor()
    await page.getByLabel('Company').fill('Acme')
    await page.getByLabel('Program name').fill('Shop')
    await page.getByLabel('Domain of your site').fill('shop.example.com')
    await page.getByRole('button', { name: 'Create program' }).click()
    await page.getByLabel('Commission per sale (%)').fill('20')
    await page.getByText('Attribution, holds and leads').click()
    await page.getByLabel('Hold period (days)').fill('0')
    await page.getByRole('button', { name: 'Save and continue' }).click()
    await page.getByRole('link', { name: 'Skip', exact: true }).click()
    await page.getByRole('link', { name: 'Skip', exact: true }).click()
    await page.getByRole('button', { name: 'Show the command with a new key' }).click()
    await page.getByRole('heading', { name: 'Set up Shop' }).waitFor()
    const [key = ''] = /svc_live_\w+/.exec(await page.content()) ?? []
    const programId = Number(/\/programs\/(\d+)/.exec(await page.content())?.[1])
    expect([key.length > 20, programId > 0]).toEqual([true, true])

    // A partner who gets notifications, and an endpoint that gets webhooks.
    await page.goto(`/programs/${programId}/partners`)
    await page.getByLabel('Name').fill('Bob')
    await page.getByLabel('E-mail').fill('bob@example.com')
    await page.getByLabel('Code').fill('bob')
    await page.getByRole('button', { name: 'Add partner' }).click()
    await page.getByText('An invitation is on its way.').waitFor()
    const endpoint = await withDatabase((_, db) =>
      createEndpoint(db, { ...environment, WEBHOOK_SECRET: secrets().WEBHOOK_SECRET ?? '' }, programOwner(programId), {
        url: receiver.urlOf('shop', 'ok'),
        description: 'shop',
        types: ['sale.created', 'commission.reversed'],
      }),
    )
    receiver.expect('shop', endpoint.secret)

    shopPage = `<!doctype html><title>Shop</title><script async src="https://${host}/js/svc-tracker.js" data-svc-program-id="${programId}"></script>`
    await page.goto('https://shop.example.com/?aff=bob')
    const clickId = await page.waitForFunction(() => window.svc?.getClickId())
    const click = { click_id: await clickId.jsonValue() }
    // The address that visitors claim to have has no effect, with or without the proxy.
    const body = { affiliate_url: 'https://shop.example.com/?aff=bob' }
    const headers = { host, 'content-type': 'application/json', 'x-forwarded-for': '198.51.100.7' }
    const forged = await clickFrom({ port: proxy.port, headers, rejectUnauthorized: false }, securely, body)
    const direct = await clickFrom({ port, headers, host: '127.0.0.1', localAddress: '127.0.0.2' }, plainly, body)
    const countries = await withDatabase((sql) =>
      sql.query('select geo_country from affiliate_click_events order by array_position($1::text[], click_id)', [
        [click.click_id, forged.click_id, direct.click_id],
      ]),
    )
    expect(countries.rows.map(({ geo_country }: { geo_country: string | null }) => geo_country)).toEqual([
      'DE',
      'DE',
      null,
    ])
    expect(complaints).toEqual([])
    const lead = { customer_key: 'user-1', click_id: click.click_id, email: 'visitor@example.com' }
    expect(await post(origin, '/api/v1/track/lead', lead, key)).toMatchObject({ status: 200, body: { success: true } })
    const sale = { transaction_id: 'order-1', customer_key: 'user-1', amount_cents: 10_000 }
    expect(await post(origin, '/api/v1/track/sale', sale, key)).toMatchObject({ body: { commission_cents: 2000 } })
    await vi.waitFor(() => expect(receiver.of('shop').map(({ signed }) => signed)).toEqual([true]), 60_000)

    const inUse = expect.stringMatching(/The data folder \S+ is in use by process \d+\. Stop/)
    expect(await refused).toMatchObject({ code: 1, stderr: '', stdout: inUse })

    // The next leader finishes the remaining work, because the commission's hold period is over.
    expect(await served.end('SIGTERM')).toBe(0)
    // A call that arrives in between waits in systemd's socket.
    const waiting = post(origin, '/api/v1/track/click', { affiliate_url: 'https://shop.example.com/?aff=bob' })
    const again = await start()
    expect(await waiting).toMatchObject({ status: 200, body: { success: true } })
    await vi.waitFor(async () => {
      const { rows } = await withDatabase((sql) => sql.query('select balance_cents from balances'))
      expect(rows).toEqual([{ balance_cents: '2000' }])
    }, 60_000)
    const refund = { transaction_id: 'order-1', reason: 'chargeback' }
    expect(await post(origin, '/api/v1/track/refund', refund, key)).toMatchObject({ body: { status: 'reversed' } })
    await vi.waitFor(async () => {
      const { rows } = await withDatabase((sql) => sql.query('select kind, audience from notifications'))
      expect(rows).toContainEqual({ kind: 'commission_reversed', audience: 'partner' })
    }, 60_000)
    await vi.waitFor(() => expect(receiver.of('shop')).toHaveLength(2), 60_000)

    const token = (await post(origin, '/api/auth/sign-in/email', { email, password })).body.token
    const read = await fetch(`${origin}/api/tracking/performance/${programId}`, {
      headers: { authorization: `Bearer ${token}` },
    })
    expect(await read.json()).toMatchObject({
      metrics: { totalClicks: 4, totalLeads: 1, totalSales: 1, totalRefunds: 100 },
    })
    const health = await fetch(`${origin}/healthz`, {
      headers: { authorization: `Bearer ${secrets().METRICS_TOKEN}` },
    })
    expect(await health.json()).toMatchObject({ ok: true, problems: [] })
    expect(await withDatabase(async (sql) => (await audit(sql)).filter(({ total }) => total > 0))).toEqual([])
    expect(again.errors()).toBe('')

    // When the service is killed, the database ends too, and the next process finds everything in the same folder.
    const last = await post(origin, '/api/v1/track/click', {
      affiliate_url: 'https://shop.example.com/?aff=bob',
    })
    expect(await again.end('SIGKILL')).toBe(null)
    const third = await start()
    expect(
      await withDatabase((sql) => sql.query('select from customers where click_id = $1', [last.body.click_id])),
    ).toMatchObject({ rowCount: 1 })
    expect(await withDatabase(async (sql) => (await audit(sql)).filter(({ total }) => total > 0))).toEqual([])

    // When PostgreSQL is killed under load, it restarts, and callers who retry succeed.
    const callers = startCallers(() => origin, [{ apiKey: key, partnerCode: 'bob' }])
    await vi.waitFor(() => expect(callers.count()).toBeGreaterThan(20), 60_000)
    process.kill(Number.parseInt(readFileSync(path.join(dataFolder, 'postgres/postmaster.pid'), 'utf8')), 'SIGKILL')
    const before = callers.count()
    await vi.waitFor(() => expect(callers.count()).toBeGreaterThan(before + 50), 60_000)
    const heard = await callers.stop()
    expect(heard.refusals).toBeGreaterThan(0)
    expect(await withDatabase((sql) => lossesOf(sql, heard))).toEqual([])
    expect(JSON.stringify(third.logs())).toContain('Postgres is running again.')
    const [broken, ...more] = third.logs().filter(({ error }) => error === 'coordinator')
    // Logged errors name the source files, even after bundling.
    expect(broken?.['frames']).toEqual(expect.arrayContaining([expect.stringMatching(/node_modules\/pg[-/]/)]))
    expect(more).toEqual([])
    expect(third.errors()).toBe('')
  }, 180_000)

  const secrets = () =>
    JSON.parse(readFileSync(path.join(dataFolder, 'secrets.json'), 'utf8')) as Record<string, string>

  test('generated secrets are readable only by their user, stay the same, and appear in no log', () => {
    for (const name of ['secrets.json', 'database-url'])
      expect(statSync(path.join(dataFolder, name)).mode & 0o777).toBe(0o600)
    const values = Object.values(secrets())
    expect(values.every((secret) => secret.length >= 40)).toBe(true)
    expect(new Set(values).size).toBe(6)
    expect(generated).toEqual(secrets())
    const logged = JSON.stringify(started.flatMap((served) => served.logs()))
    expect(logged).toContain('/api/v1/track/sale')
    for (const hidden of [...values, 'ada@example.com', 'visitor@example.com', 'svc_live_'])
      expect(logged).not.toContain(hidden)
  })
})

describe('several processes on one database', async () => {
  const { databaseUrl, sql } = await createDatabase()
  const pool = openPool(databaseUrl, 2)
  afterAll(() => pool.end())
  const db = new Database({ DATABASE_URL: databaseUrl, POSTGRES: pool })
  const sandbox = await createSandbox(db, { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '' })
  /** The traces and metrics as Protocol Buffers, by path. Names and ids are plain bytes in them. */
  const exported: Record<string, Buffer[]> = {}
  const collector = createServer((incoming, outgoing) => {
    void (async () => {
      const body = await buffer(incoming)
      ;(exported[incoming.url ?? ''] ??= []).push(body)
      outgoing.end()
    })()
  })
  await once(collector.listen(0, '127.0.0.1'), 'listening')
  afterAll(() => void collector.close())
  const start = async (args: string[] = [], hoursAhead = 0) => {
    const port = await freePort()
    const telemetry = {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
      OTEL_SERVICE_NAME: 'partners',
    }
    const clock = {
      NODE_OPTIONS: `--import=${fileURLToPath(new URL('chaos/clock.ts', import.meta.url))}`,
      CLOCK_AHEAD_MS: String(hoursAhead * 3_600_000),
    }
    return await startServe(
      { ...settingsOf(port, mailApi), ...givenSecrets, ...clock, ...telemetry, DATABASE_URL: databaseUrl },
      args,
    )
  }
  const leads = (served: Awaited<ReturnType<typeof start>>) => served.logs().some(({ leader }) => leader === true)

  test('one of them leads, another takes over if the leader is killed, and limits count the requests of both', async () => {
    const first = await start()
    await vi.waitFor(() => expect(leads(first)).toBe(true), 60_000)
    const second = await start(['--no-migrate'])
    // The first process gets more requests than the limit. The test retries, because a window may start in between.
    const ask = async ({ baseUrl }: typeof first) =>
      (await fetch(`${baseUrl}/api/v1/cli/status`, { headers: { authorization: 'Bearer svc_live_x' } })).status
    await vi.waitFor(
      async () => {
        const answers = await Promise.all(Array.from({ length: 610 }, () => ask(first)))
        expect(answers).toContain(429)
        await new Promise((resolve) => setTimeout(resolve, 1500))
        expect(await ask(second)).toBe(429)
      },
      { timeout: 60_000, interval: 10 },
    )
    expect(leads(second)).toBe(false)
    await first.end('SIGKILL')
    await vi.waitFor(() => expect(leads(second)).toBe(true), 60_000)
    expect(await second.end('SIGTERM')).toBe(0)
  }, 180_000)

  test('a process that is killed under load beside a new one loses no acknowledged call, and the other continues, even if their clocks are one hour off in opposite directions', async () => {
    let serving = await start([], -1)
    const old = serving
    const callers = startCallers(() => serving.baseUrl, [sandbox])
    await vi.waitFor(() => expect(callers.count()).toBeGreaterThan(50), 60_000)
    serving = await start([], 1)
    expect(await old.end('SIGKILL')).toBeNull()
    const before = callers.count()
    await vi.waitFor(() => expect(callers.count()).toBeGreaterThan(before + 50), 60_000)
    const heard = await callers.stop()
    expect(await lossesOf(sql, heard)).toEqual([])
    expect(await lossesOf(sql, { ...heard, sales: ['none'] })).toEqual(['lost: sale none'])
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'
    await fetch(`${serving.baseUrl}/healthz`, { headers: { traceparent } })
    expect(await serving.end('SIGTERM')).toBe(0)
    expect([old.errors(), serving.errors()]).toEqual(['', ''])
  }, 120_000)

  test('a collector gets the traces and metrics of the process, without addresses and values', () => {
    const traces = Buffer.concat(exported['/v1/traces'] ?? [])
    const metrics = Buffer.concat(exported['/v1/metrics'] ?? [])
    // The trace of the caller continues.
    expect(traces.toString('hex')).toContain('0af7651916cd43dd8448eb211c80319c')
    for (const name of [
      'partners',
      'POST track-sale',
      'GET health',
      'run count-clicks',
      'track_sale(',
      'svc.request_id',
    ])
      expect(traces.includes(name), name).toBe(true)
    for (const name of [
      'partners',
      'svc_up',
      'svc_outbox_undelivered',
      'svc_requests_total',
      'svc_request_seconds',
      'svc_schedule_lag_seconds',
    ])
      expect(metrics.includes(name), name).toBe(true)
    for (const hidden of ['/healthz', sandbox.apiKey, sandbox.partnerCode]) expect(traces.includes(hidden)).toBe(false)
  })
})

test('during a long migration, and then until there is a program, calls get 503 and Retry-After', async () => {
  const { databaseUrl, sql } = await createDatabase()
  const port = await freePort()
  await sql.query('begin; lock table schema_functions in access exclusive mode')
  const starting = startServe({ ...settingsOf(port, mailApi), ...givenSecrets, DATABASE_URL: databaseUrl })
  const answer = () => fetch(`http://127.0.0.1:${port}/healthz`)
  await vi.waitFor(async () => {
    const { status, headers } = await answer()
    expect([status, headers.get('retry-after')]).toEqual([503, '10'])
  }, 60_000)
  await sql.query('rollback')
  const served = await starting
  expect((await answer()).status).toBe(200)
  // A backup is restored after the start. Until then, the service doesn't know any key, link or account of a processor.
  const track = () => fetch(`http://127.0.0.1:${port}/api/v1/track/click`, { method: 'POST', body: '{}' })
  const { status, headers } = await track()
  expect([status, headers.get('retry-after')]).toEqual([503, '10'])
  await sql.query('alter table programs rename to unreadable')
  expect((await track()).status).toBe(503)
  await sql.query('alter table unreadable rename to programs')
  const pool = openPool(databaseUrl, 1)
  const db = new Database({ DATABASE_URL: databaseUrl, POSTGRES: pool })
  await createSandbox(db, { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '' })
  await pool.end()
  expect((await track()).status).toBe(400)
  expect(await served.end('SIGTERM')).toBe(0)
}, 120_000)

test('a Node version without TypeScript support is refused with a message', async () => {
  const args = ['--no-strip-types', '--import', './lib/commands/check-node.js', 'lib/serve/serve.ts']
  const refused = await run(process.execPath, args).catch((error: unknown) => error)
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^Node 24\.\S+ at \S+ cannot run TypeScript\. .*\n$/),
  })
})

test('a start with missing values is refused before anything changes, and the error lists them all', async () => {
  const refused = await run(
    process.execPath,
    ['lib/serve/serve.ts', '--embedded', '--data', path.join(folder, 'none')],
    {
      env: { PATH: process.env['PATH'], BASE_URL: 'https://partners.example.com' },
    },
  ).catch((error: unknown) => error)
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/MAIL_API_URL is not set[^]*MAIL_API_KEY[^]*MAIL_FROM[^]*TRUST_PROXY/),
  })
  expect(existsSync(path.join(folder, 'none'))).toBe(false)
})

describe('a failed start says in one sentence what to do', async () => {
  const { databaseUrl } = await createDatabase()
  const taken = Number(new URL(mailApi.url).port)
  await checkSecrets(databaseUrl, givenSecrets, undefined)
  const other = (change: Partial<URL>) => Object.assign(new URL(databaseUrl), change).href

  test.each<[what: string, changed: Record<string, string>, message: RegExp, args?: string[]]>([
    [
      'its port is taken',
      { PORT: String(taken) },
      new RegExp(`^Port ${taken} of 127\\.0\\.0\\.1 is in use by another process\\. .*set PORT to another port`),
    ],
    [
      'the password is wrong',
      { DATABASE_URL: other({ password: 'wrong' }) },
      /Check the user and password in DATABASE_URL.*--embedded, restore the secrets\.json/,
    ],
    [
      'the schema is missing and migrations are disabled',
      { DATABASE_URL: inject('adminUrl') },
      /^The database does not have the schema of this version: 0001_\w+\.sql is not applied\. Run `npm run migrate`/,
      ['--no-migrate'],
    ],
    [
      'a secret differs from the one that the database was used with',
      { WEBHOOK_SECRET: 'y'.repeat(32) },
      /^This database was used with another WEBHOOK_SECRET\. Put back/,
    ],
  ])('%s', async (_, changed, message, args = []) => {
    const settings = settingsOf(await freePort(), mailApi)
    const environment = { ...bareEnvironment, ...settings, ...givenSecrets, DATABASE_URL: databaseUrl }
    const ended = run(process.execPath, ['lib/serve/serve.ts', ...args], { env: { ...environment, ...changed } })
    const failed: unknown = await ended.catch((error: unknown) => error)
    expect(failed).toMatchObject({ code: 1, stderr: '' })
    const lines = (failed as { stdout: string }).stdout.trim().split('\n')
    const problems = lines
      .map((line) => JSON.parse(line) as Record<string, string>)
      .filter(({ level }) => level === 'error')
    expect(problems).toEqual([expect.objectContaining({ message: expect.stringMatching(message) })])
    expect(JSON.stringify(problems)).not.toMatch(/frames|\bat file:/)
  })
})
