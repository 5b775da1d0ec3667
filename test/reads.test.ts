import { expect, test } from 'vitest'
import { addMember, createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({ functions: ['tracking-performance', 'tracking-events'] })
const env = { ...stack.env, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
const sandbox = await createSandbox(stack.db, env)
const reads = ['performance', 'events'] as const

async function get(path: string, headers: Record<string, string> = bearer(sandbox.dashboardToken)) {
  const before = stack.neon.requests
  const response = await fetch(`${stack.baseUrl}/api/tracking/${path}`, { headers })
  return {
    status: response.status,
    headers: response.headers,
    body: await response.json(),
    requests: stack.neon.requests - before,
  }
}

function bearer(token: string) {
  return { authorization: `Bearer ${token}` }
}

async function person(name: string) {
  return await createPerson(stack.db, env, { name, email: `${name}-${crypto.randomUUID()}@example.com` })
}

const expired = await person('expired')
const signedOut = await person('signed-out')
const removed = await person('removed')
const member = await person('member')
const guest = await person('guest')
const openedGuest = await person('opened-guest')
for (const [{ userId }, role] of [
  [expired, 'owner'],
  [signedOut, 'owner'],
  [removed, 'owner'],
  [member, 'member'],
  [guest, 'guest'],
  [openedGuest, 'guest'],
] as const) {
  await addMember(stack.db, sandbox.workspaceId, userId, role)
}
await stack.sql.query("update sessions set expires_at = now() - interval '1 second' where user_id = $1", [
  expired.userId,
])
await stack.sql.query('delete from sessions where user_id = $1', [signedOut.userId])
await stack.sql.query('update workspace_members set removed_at = now() where user_id = $1', [removed.userId])
await stack.sql.query(
  "insert into program_members (program_id, workspace_id, user_id, role) values ($1, $2, $3, 'member')",
  [sandbox.programId, sandbox.workspaceId, openedGuest.userId],
)
await stack.sql.query(
  "insert into program_members (program_id, workspace_id, user_id, role) values ($1, $2, $3, 'member')",
  [sandbox.programId, sandbox.workspaceId, removed.userId],
)

const callers: [who: string, headers: Record<string, string>, performance: number, events: number][] = [
  ['an owner', bearer(sandbox.dashboardToken), 200, 200],
  ['an owner with a cookie', { cookie: `${sessionCookie}=${encodeURIComponent(sandbox.dashboardToken)}` }, 200, 200],
  ['a member', bearer(member.token), 200, 200],
  ['a guest with access to the program', bearer(openedGuest.token), 200, 200],
  ['a member without tracking:list', bearer(sandbox.billingToken), 200, 403],
  ['a guest without access to the program', bearer(guest.token), 403, 403],
  ['a removed member', bearer(removed.token), 403, 403],
  ["another workspace's owner", bearer(sandbox.outsiderToken), 403, 403],
  ['a partner', bearer(sandbox.partnerToken), 403, 403],
  ['nobody', {}, 401, 401],
  ['an API key', bearer(sandbox.apiKey), 401, 401],
  [
    'an API key with a valid cookie',
    { ...bearer(sandbox.apiKey), cookie: `${sessionCookie}=${sandbox.dashboardToken}` },
    401,
    401,
  ],
  ['an expired session', bearer(expired.token), 401, 401],
  ['a signed-out session', bearer(signedOut.token), 401, 401],
  ['a forged session', bearer(sandbox.dashboardToken.replace(/^./, (first) => (first === 'a' ? 'b' : 'a'))), 401, 401],
  ['a session without a signature', bearer(sandbox.dashboardToken.split('.')[0] ?? ''), 401, 401],
]
const unsigned = [
  'nobody',
  'an API key',
  'an API key with a valid cookie',
  'a forged session',
  'a session without a signature',
]
const errorCode: Record<number, string> = {
  400: 'invalid_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
}

test.each(callers)('%s gets the specified status', async (who, headers, ...statuses) => {
  for (const [index, read] of reads.entries()) {
    const status = statuses[index] ?? 0
    const answer = await get(`${read}/${sandbox.programId}`, headers)
    expect(answer).toMatchObject({
      status,
      body: status === 200 ? { data: expect.any(Array) } : { success: false, error: { code: errorCode[status] } },
    })
    expect(answer.body).not.toHaveProperty(status === 200 ? 'error' : 'data')
    expect(answer.requests, 'database requests').toBe(unsigned.includes(who) ? 0 : 1)
  }
})

const unusual: [what: string, path: string, authenticated: number, stranger: number, nobody: number][] = [
  ['a program that does not exist', '999999999', 404, 404, 401],
  ['the largest safe integer', '9007199254740991', 404, 404, 401],
  ['a larger integer', '99999999999999999999', 404, 404, 401],
  ['zero', '0', 400, 400, 401],
  ['a negative number', '-1', 400, 400, 401],
  ['a fraction', '1.5', 400, 400, 401],
  ['a word', 'abc', 400, 400, 401],
  ['a number in another notation', '1e3', 400, 400, 401],
  ['a valid id with an invalid query', `${sandbox.programId}?dateFrom=tomorrow`, 400, 400, 401],
  ['an unknown program with an invalid query', '999999999?dateFrom=tomorrow', 400, 400, 401],
]

test.each(unusual)('%s checks in this order: session, input, existence, access', async (_what, path, ...statuses) => {
  const tokens = [bearer(sandbox.dashboardToken), bearer(sandbox.outsiderToken), {}]
  for (const read of reads) {
    for (const [index, headers] of tokens.entries()) {
      const status = statuses[index] ?? 0
      expect(await get(`${read}/${path}`, headers)).toMatchObject({
        status,
        body: { error: { code: errorCode[status] } },
      })
    }
  }
})

const queries: [read: 'performance' | 'events', query: string, refusedField: string | null][] = [
  ['performance', '', null],
  ['performance', 'period=90d', null],
  ['performance', 'period=all&anything=else', null],
  ['performance', 'period=1d', 'period'],
  ['performance', 'period=', 'period'],
  ['performance', 'period=7d&period=30d', 'period'],
  ['performance', 'period=7d&period=', 'period'],
  ['performance', 'anything=1&anything=2', null],
  ['performance', 'dateFrom=2026-01-01', null],
  ['performance', 'dateTo=2026-01-01', null],
  ['performance', 'dateFrom=2026-01-01&dateTo=2026-01-01', null],
  ['performance', 'dateFrom=2026-01-01T00:00:00Z&dateTo=2026-01-01T00:00:00Z', null],
  ['performance', 'dateFrom=2026-01-01T00:00&dateTo=2026-01-01T23:59:59.999999%2B02:00', null],
  ['performance', 'dateFrom=2026-01-01T12:00Z&dateTo=2026-01-02', null],
  ['performance', 'dateFrom=2023-11-17&dateTo=2026-11-20', null],
  ['performance', 'dateFrom=2023-11-16&dateTo=2026-11-20', 'dateTo'],
  ['performance', 'dateFrom=0001-01-01&dateTo=0001-01-02', null],
  ['performance', 'dateFrom=9999-12-30&dateTo=9999-12-31', null],
  ['performance', 'dateFrom=2026-01-02&dateTo=2026-01-01', 'dateTo'],
  ['performance', 'dateFrom=yesterday&dateTo=2026-01-01', 'dateFrom'],
  ['performance', 'dateFrom=2026-02-30&dateTo=2026-03-01', 'dateFrom'],
  ['performance', 'dateFrom=01/02/2026&dateTo=2026-03-01', 'dateFrom'],
  ['performance', 'dateFrom=1767225600000&dateTo=2026-03-01', 'dateFrom'],
  ['events', '', null],
  ['events', 'page=1&pageSize=1', null],
  ['events', 'page=1000000000&pageSize=100', null],
  ['events', 'eventType=conversion&dateFrom=2026-01-01', null],
  ['events', 'dateTo=2026-01-01T00:00:00.000Z', null],
  ['events', 'dateFrom=0001-01-01&dateTo=9999-12-31T23:59:59.999Z', null],
  ['events', 'dateFrom=0000-01-01', null],
  ['events', 'page=0', 'page'],
  ['events', 'page=-1', 'page'],
  ['events', 'page=1.5', 'page'],
  ['events', 'page=one', 'page'],
  ['events', 'page=', 'page'],
  ['events', 'pageSize=0', 'pageSize'],
  ['events', 'pageSize=101', 'pageSize'],
  ['events', 'pageSize=1e1', 'pageSize'],
  ['events', 'eventType=sale', 'eventType'],
  ['events', 'eventType=CLICK', 'eventType'],
  ['events', 'dateFrom=2026-01-02&dateTo=2026-01-01', 'dateTo'],
  ['events', 'dateTo=now', 'dateTo'],
]

test.each(queries)('%s?%s is answered, or refused with the invalid field', async (read, query, refusedField) => {
  const { status, body, requests } = await get(`${read}/${sandbox.programId}?${query}`)
  expect(requests, 'database requests').toBe(1)
  if (refusedField === null) expect(status, JSON.stringify(body)).toBe(200)
  else {
    expect({ status, body }).toMatchObject({
      status: 400,
      body: { success: false, error: { code: 'invalid_request', details: [{ field: refusedField }] } },
    })
  }
})

function length(range: { dateFrom: string; dateTo: string }): number {
  return Date.parse(range.dateTo) - Date.parse(range.dateFrom)
}

test('performance contains three parts and covers the last seven days by default', async () => {
  const before = new Date()
  const { body } = await get(`performance/${sandbox.programId}`)
  const none = { trend: 0, trendDirection: 'stable' }
  const today = before.toISOString().slice(0, 10)
  expect(body).toEqual({
    data: Array.from({ length: 7 }, (_, index) => {
      const date = new Date(Date.parse(today) - (6 - index) * 24 * 60 * 60 * 1000).toISOString().slice(0, 10)
      const partners = index === 6 ? 1 : 0
      return { date, period: date, clicks: 0, leads: 0, conversions: 0, revenue: 0, partners, sales: 0, commission: 0 }
    }),
    metrics: {
      totalClicks: 0,
      totalLeads: 0,
      totalConversions: 0,
      totalRevenue: 0,
      totalRefunds: 0,
      conversionRate: 0,
      averageOrderValue: 0,
      totalPartners: 1,
      totalSales: 0,
      totalPartnersCommission: 0,
      clicksTrend: none,
      leadsTrend: none,
      conversionsTrend: none,
      revenueTrend: none,
      partnersTrend: { trend: 100, trendDirection: 'up' },
      salesTrend: none,
      commissionTrend: none,
      otherCurrencies: {},
    },
    meta: {
      period: '7d',
      dateFrom: `${body.data[0].date}T00:00:00.000Z`,
      dateTo: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      previousPeriod: {
        dateFrom: expect.any(String),
        dateTo: new Date(Date.parse(body.data[0].date) - 1).toISOString(),
      },
    },
  })
  expect(length(body.meta.previousPeriod)).toBe(length(body.meta))
  expect(Date.parse(body.meta.dateTo)).toBeGreaterThanOrEqual(before.getTime() - 1000)
})

test('events are the newest ten by default, and an empty program has none', async () => {
  const { body } = await get(`events/${sandbox.programId}`)
  expect(body).toEqual({ data: [], meta: { pagination: { page: 1, pageSize: 10, pageCount: 0, total: 0 } } })
})

test('reads are not cached and allow only GET', async () => {
  for (const read of reads) {
    const { headers } = await get(`${read}/${sandbox.programId}`)
    expect(headers.get('cache-control')).toBe('private, no-store')
    const posted = await fetch(`${stack.baseUrl}/api/tracking/${read}/${sandbox.programId}`, { method: 'POST' })
    expect({ status: posted.status, allow: posted.headers.get('allow') }).toEqual({ status: 405, allow: 'GET, HEAD' })
  }
})
