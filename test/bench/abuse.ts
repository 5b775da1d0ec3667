import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import { generateApiKey } from '../../lib/access/api-keys.ts'
import { countsOfSettledLead, rateLimits } from '../../lib/api/rate-limits.ts'
import { campaignNames } from '../../lib/tracking/campaign.ts'
import { openPool } from '../../lib/commands/postgres.ts'
import { Database } from '../../lib/database.ts'
import { createSandbox, type Sandbox } from '../../lib/local/sandbox.ts'
import { costOf, hashing_ms, perMinute as budgetPerMinute } from '../../lib/serve/visitor-budget.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'
import { givenSecrets, spawnServe } from '../support/serve-process.ts'
import { cpuMicroseconds } from './environment.ts'
import { type Result, round } from './result.ts'

/** The number of measured requests of a route, or fewer if the route allows fewer per minute. */
const mostMeasured = 300
const megabyte = 1024 * 1024
/** The hourly requests of one address are sent in parts, each from a different address, because a server counts clicks every 25 seconds. */
const partsOfHour = 144
/** Each program has its own totals by value. Two thirds of them let browsers settle leads. */
const programs = 51
const letsBrowsersSettle = (program: number) => program % 3 > 0

interface Sent {
  path: string
  method?: string
  headers?: Record<string, string>
  body?: string
}

interface Route {
  route: string
  /** The number of requests that one address may send. If it is undefined, only the common budget applies. */
  perMinute?: number
  /** The limit that the route shares with others. */
  limit?: 'clicks' | 'leads'
  send: (n: number) => Sent
}

const perMinuteOf = (name: string, limiter: string) => rateLimits[name]?.[limiter]?.perMinute ?? NaN
const leadsPerMinute = perMinuteOf('track-lead', 'ADDRESS_RATE_LIMIT')
const settledLeadsPerMinute = leadsPerMinute / countsOfSettledLead
const nothing = { core: 0, disk: 0, log: 0 }
/** 100 attempts in 15 minutes (lib/access/sign-in.ts). */
const attempts = 100 / 15

const json = (sent: string, body: object): Sent => ({
  path: sent,
  method: 'POST',
  headers: { 'content-type': 'application/json', origin: baseUrlOf() },
  body: JSON.stringify(body),
})
let baseUrl = ''
const baseUrlOf = () => baseUrl

const text = (length: number) => randomBytes(length).toString('base64url').slice(0, length)

const account = (n: number) => ({ email: `stranger-${n}@example.com`, password: text(30), name: 'Stranger' })

/** The most expensive request of each public route. */
function routesOf(
  { programId, partnerCode }: Sandbox,
  { clickIds, unsettledIds, unknownKeys }: Record<'clickIds' | 'unsettledIds' | 'unknownKeys', string[]>,
): Route[] {
  const additional_data = { note: text(2000) }
  const click = (code: string, more = {}) =>
    json('/api/v1/track/click', {
      affiliate_url: `https://shop.example.com/${text(900)}?aff=${code}`,
      page_url: `https://shop.example.com/${text(900)}`,
      referrer_url: `https://blog.example.org/${text(900)}`,
      user_agent: text(2000),
      page_title: text(1000),
      additional_data,
      ...more,
    })
  // A click with 4 KB of text counts three times.
  const clicks = perMinuteOf('track-click', 'ADDRESS_RATE_LIMIT') / 3
  return [
    { route: 'click', limit: 'clicks', perMinute: clicks, send: () => click(partnerCode) },
    { route: 'click with an unknown code', limit: 'clicks', perMinute: clicks, send: (n) => click(`unknown-${n}`) },
    {
      route: 'small click',
      limit: 'clicks',
      perMinute: perMinuteOf('track-click', 'ADDRESS_RATE_LIMIT'),
      send: () => json('/api/v1/track/click', { affiliate_url: `https://shop.example.com/?aff=${partnerCode}` }),
    },
    {
      route: 'test click',
      limit: 'clicks',
      perMinute: clicks,
      send: () => click('x', { additional_data: { ...additional_data, test_mode: true, program_id: programId } }),
    },
    ...[
      { route: 'browser lead', ids: clickIds, perMinute: leadsPerMinute },
      { route: 'browser lead that settles', ids: unsettledIds, perMinute: settledLeadsPerMinute },
    ].map(({ route, ids, perMinute }) => ({
      route,
      limit: 'leads' as const,
      perMinute,
      send: (n: number) =>
        json('/api/v1/track/lead', {
          customer_key: text(255),
          click_id: ids[n % ids.length],
          page_url: `https://shop.example.com/${text(2000)}`,
          additional_data,
        }),
    })),
    {
      route: 'sale with an unknown key',
      perMinute: perMinuteOf('track-sale', 'UNKNOWN_KEY_RATE_LIMIT'),
      send: (n) => {
        const sale = json('/api/v1/track/sale', { transaction_id: String(n), customer_key: 'u', amount_cents: 1 })
        return { ...sale, headers: { ...sale.headers, authorization: `Bearer ${unknownKeys[n % unknownKeys.length]}` } }
      },
    },
    {
      route: 'Stripe event with a wrong signature',
      send: () => ({
        path: '/api/v1/webhooks/stripe',
        method: 'POST',
        headers: { 'stripe-signature': `t=${Math.floor(Date.now() / 1000)},v1=${'0'.repeat(64)}` },
        body: text(megabyte),
      }),
    },
    { route: 'sign-in', perMinute: attempts, send: (n) => json('/api/auth/sign-in/email', account(n)) },
    { route: 'sign-up', perMinute: attempts, send: (n) => json('/api/auth/sign-up/email', account(n)) },
    { route: 'reset', perMinute: attempts, send: (n) => json('/api/auth/request-password-reset', account(n)) },
    {
      route: 'dashboard page',
      perMinute: perMinuteOf('dashboard', 'RATE_LIMIT'),
      send: () => ({ path: '/sign-up' }),
    },
    { route: 'script', send: () => ({ path: '/js/svc-tracker.js' }) },
    { route: 'documentation', send: () => ({ path: '/docs?q=click' }) },
    {
      route: 'medium click',
      limit: 'clicks',
      perMinute: perMinuteOf('track-click', 'ADDRESS_RATE_LIMIT'),
      send: () =>
        json('/api/v1/track/click', {
          affiliate_url: `https://shop.example.com/?aff=${partnerCode}`,
          user_agent: text(850),
        }),
    },
    {
      route: 'reference',
      perMinute: perMinuteOf('api-reference', 'RATE_LIMIT'),
      send: () => ({ path: '/api/v1/reference' }),
    },
    {
      route: 'OpenAPI document',
      perMinute: perMinuteOf('api-reference', 'RATE_LIMIT'),
      send: () => ({ path: '/api/v1/openapi.json' }),
    },
    {
      route: 'nothing',
      perMinute: perMinuteOf('dashboard', 'RATE_LIMIT'),
      send: (n) => ({ path: `/${text(2000)}${n}` }),
    },
    { route: 'health', send: () => ({ path: '/healthz' }) },
  ]
}

const hex = (length: number) => randomBytes(length).toString('hex').slice(0, length)

/** A click with ten new values, which counts once. */
function richClick({ programId, partnerCode }: Sandbox): Sent {
  const campaign = campaignNames.map((name) => `${name}=${hex(16)}`).join('&')
  return json('/api/v1/track/click', {
    affiliate_url: `https://shop.example.com/?aff=${partnerCode}&${campaign}`,
    page_url: `https://shop.example.com/${hex(150)}`,
    referrer_url: `https://${hex(60)}.example.com/`,
    additional_data: { program_id: programId },
  })
}

/**
 * Sends the most expensive request of each public route to `npm run serve` from one address. Computes the cost of an hour at the allowed
 * rate: the share of a core, and the growth of the database, the log and the memory. Each route gets its own address. The goals are for all
 * routes together: clicks, leads, and the common budget of everything else. For clicks and leads, the disk usage is measured over a whole
 * hour with the background jobs, because jobs and totals don't grow with each request.
 */
export async function abuse(): Promise<Result> {
  const data = mkdtempSync(path.join(tmpdir(), 'svc-abuse-'))
  const port = await freePort()
  baseUrl = `http://127.0.0.1:${port}`
  const environment = {
    PATH: process.env['PATH'] ?? '',
    BASE_URL: baseUrl,
    PORT: String(port),
    TRUST_PROXY: '127.0.0.1',
    MAIL_API_URL: 'http://127.0.0.1:9/',
    MAIL_API_KEY: 'key',
    MAIL_FROM: 'Partners <partners@example.com>',
    ...givenSecrets,
  }
  const served = await spawnServe(environment, ['--embedded', '--data', data])
  const databaseUrl = readFileSync(path.join(data, 'database-url'), 'utf8')
  const postgresPid = Number(readFileSync(path.join(data, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])
  const sql = new Client({ connectionString: databaseUrl })
  await sql.connect()
  const pool = openPool(databaseUrl, 2)
  const db = new Database({ DATABASE_URL: databaseUrl, POSTGRES: pool })
  const sandboxEnv = { ...environment, AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '' }
  const sandbox = await createSandbox(db, sandboxEnv)
  const settling = { lead_auth_policy: 'browser_allowed', lead_commission_cents: 100 } as const
  const sandboxes = await Promise.all(
    Array.from({ length: programs }, (_, n) => createSandbox(db, sandboxEnv, letsBrowsersSettle(n) ? settling : {})),
  )
  // Each settled lead also sends a webhook to an endpoint that doesn't answer.
  await sql.query(
    `insert into webhook_endpoints (program_id, url, types) select id, 'https://hooks.example.invalid', $1 from programs`,
    [['lead.created', 'commission.created']],
  )
  const pid = served.process.pid ?? NaN

  async function send({ path: address, ...sent }: Sent, from: string): Promise<unknown> {
    const response = await fetch(baseUrl + address, { ...sent, headers: { ...sent.headers, 'x-forwarded-for': from } })
    const answer = await response.text()
    return response.ok && answer.startsWith('{') ? JSON.parse(answer) : response.status
  }
  async function read() {
    await sql.query('checkpoint')
    const { rows } = await sql.query<{ size: string }>('select pg_database_size(current_database()) as size')
    return {
      cpu_us: cpuMicroseconds(pid) + cpuMicroseconds(postgresPid, true),
      bytes: Number(rows[0]?.size),
      logged: JSON.stringify(served.logs()).length,
      memory_kb: Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]),
    }
  }

  const visit = { affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}` }
  const clicked = Array.from({ length: mostMeasured }, () => send(json('/api/v1/track/click', visit), '203.0.113.1'))
  const clickIds = (await Promise.all(clicked)).map((answer) => (answer as { click_id: string }).click_id)
  const keys = await Promise.all(Array.from({ length: mostMeasured }, async () => (await generateApiKey()).key))

  const result: Result = { figures: [], goals: [] }
  const most = { clicks: { ...nothing }, leads: { ...nothing }, budget: { ...nothing } }

  async function counted(): Promise<void> {
    for (;;) {
      const { rows } = await sql.query('select from uncounted_clicks union all select from uncounted_figures limit 1')
      if (rows.length === 0) return
      await new Promise((resolve) => setTimeout(resolve, 1000))
    }
  }
  /** Waits until the database has not grown for five seconds, for a minute at most. */
  async function untilJobsRest(): Promise<void> {
    for (let waited = 0, last = 0; waited < 12; waited++) {
      const { bytes } = await read()
      if (bytes === last) return
      last = bytes
      await new Promise((resolve) => setTimeout(resolve, 5000))
    }
  }
  /** Sends the requests that one address may send in an hour, and waits for the background jobs. Returns the answers. */
  async function hourOf(
    what: string,
    limit: 'clicks' | 'leads',
    perMinute: number,
    next: (n: number) => Sent,
  ): Promise<unknown[]> {
    await counted()
    const before = await read()
    const ofPart = (60 * perMinute) / partsOfHour
    const answers: unknown[] = []
    for (let part = 0; part < partsOfHour; part++)
      for (let n = 0; n < ofPart; n += 20) {
        const batch = Array.from({ length: Math.min(20, ofPart - n) }, (_, each) =>
          send(next(Math.floor(part * ofPart) + n + each), `10.${part}.0.${what.length}`),
        )
        answers.push(...(await Promise.all(batch)))
      }
    await counted()
    const after = await read()
    const disk = (after.bytes - before.bytes) / megabyte
    most[limit].disk = Math.max(most[limit].disk, disk)
    result.figures.push({
      route: `an hour of ${what} with its jobs`,
      'per minute': perMinute,
      'recorded of an hour': answers.filter((answer) => typeof answer === 'object').length,
      'MB of disk per hour': round(disk),
      'MB of log per hour': round((after.logged - before.logged) / megabyte),
    })
    return answers
  }
  const richClicks = await hourOf('clicks', 'clicks', perMinuteOf('track-click', 'ADDRESS_RATE_LIMIT'), (n) =>
    richClick(sandboxes[n % programs] ?? sandbox),
  )
  const idsOf = (settle: boolean) =>
    richClicks.flatMap((answer, n) =>
      letsBrowsersSettle(n % programs) === settle ? ((answer as { click_id?: string }).click_id ?? []) : [],
    )
  const hourOfLeads = async (what: string, perMinute: number, ids: string[]) =>
    await hourOf(what, 'leads', perMinute, (n) =>
      json('/api/v1/track/lead', {
        customer_key: text(255),
        session_id: text(255),
        click_id: ids[n % ids.length],
        page_url: `https://shop.example.com/${text(2000)}`,
      }),
    )
  const unsettledIds = idsOf(true)
  await hourOfLeads('leads', leadsPerMinute, idsOf(false))
  await hourOfLeads('leads that settle', settledLeadsPerMinute, unsettledIds.splice(mostMeasured + 10))
  // Autovacuum, repeated webhooks and waiting jobs would add disk pages that no route caused.
  await sql.query('truncate webhook_endpoints cascade')
  await sql.query('alter system set autovacuum = off')
  await sql.query('select pg_reload_conf()')
  await untilJobsRest()

  for (const [index, { route, perMinute: own = Infinity, limit = 'budget', send: next }] of routesOf(sandbox, {
    clickIds,
    unsettledIds,
    unknownKeys: keys,
  }).entries()) {
    const from = `203.0.113.${index + 1}`
    const { path: pathname, body = '' } = next(0)
    const hashing = own === attempts ? hashing_ms : 0
    const cost = hashing + costOf({ pathname, authorization: undefined, bodyBytes: body.length })
    const perMinute = limit === 'budget' ? Math.min(own, budgetPerMinute / cost) : own
    const count = Math.min(mostMeasured, Math.max(5, Math.floor(perMinute)))
    for (let n = 0; n < 3; n++) await send(next(n), `198.51.100.${index + 1}`)
    const perHour = (60 * perMinute) / count
    const rounds: Awaited<ReturnType<typeof read>>[] = []
    for (let turn = 0; turn < 2; turn++) {
      const before = await read()
      for (let n = 0; n < count; n += 10)
        await Promise.all(
          Array.from({ length: Math.min(10, count - n) }, (_, each) =>
            send(next(turn * count + n + each), `${from}${turn}`),
          ),
        )
      const after = await read()
      rounds.push({
        cpu_us: after.cpu_us - before.cpu_us,
        bytes: after.bytes - before.bytes,
        logged: after.logged - before.logged,
        memory_kb: after.memory_kb,
      })
    }
    // Background jobs run between requests, so the lower figures are those of the route.
    const lowest = (figure: keyof Awaited<ReturnType<typeof read>>) => Math.min(...rounds.map((one) => one[figure]))
    const core = (lowest('cpu_us') * perHour) / 3.6e9
    const disk = limit === 'budget' ? (lowest('bytes') * perHour) / megabyte : most[limit].disk
    const log = (lowest('logged') * perHour) / megabyte
    // Other routes can use up the rest of the common budget, so this is the cost of the whole budget.
    const whole = limit === 'budget' ? (budgetPerMinute / cost) * (lowest('cpu_us') / count / 6e7) : core
    const { core: mostCore, disk: mostDisk, log: mostLog } = most[limit]
    most[limit] = { core: Math.max(mostCore, whole), disk: Math.max(mostDisk, disk), log: Math.max(mostLog, log) }
    result.figures.push({
      route,
      'per minute': round(perMinute),
      'us per request': round(lowest('cpu_us') / count),
      '% of a core': round(100 * core),
      ...(limit === 'budget' && { 'MB of disk per hour': round(disk) }),
      'MB of log per hour': round(log),
      'MB of memory': round(lowest('memory_kb') / 1024),
    })
  }
  const together = (figure: keyof typeof nothing) =>
    round(most.clicks[figure] + most.leads[figure] + most.budget[figure])
  result.goals.push(
    { what: 'share of a core that one address can use on all routes together', measured: together('core'), most: 0.05 },
    { what: 'MB of disk that one address can fill in an hour', measured: together('disk'), most: 100 },
    { what: 'MB of log that one address can write in an hour', measured: together('log'), most: 10 },
  )
  await pool.end()
  await sql.end()
  await served.end('SIGTERM')
  rmSync(data, { recursive: true })
  return result
}
