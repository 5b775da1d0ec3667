import { SvcApi, SvcApiError } from '@affiliate-tracking/svc-tracker/api'
import { expect, test } from 'vitest'
import { createApiKey } from '../lib/access/program-keys.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { auditEntriesStatement } from '../lib/access/audit-log.ts'
import { callsPerMinute } from '../lib/api/rate-limits.ts'
import { times } from './support/api.ts'
import { today } from './support/ledger.ts'
import { programFunctions, programOperations, startProgramApi, withKey } from './support/program-api.ts'

const { api, program, other, key, get, post, patch, mailing, approve, sell, listenTo } = await startProgramApi()

const addressOf = (path: string) =>
  path.replaceAll(/\{\w+\}/g, (name) => (name === '{delivery_id}' ? 'evt_1' : '999999999'))

test.for(programOperations.map((operation) => [operation.method, operation.path, operation] as const))(
  '%s %s: a missing key or scope is refused in one request at most',
  async ([method, path, { scope = 'read' }]) => {
    const others = (['track', 'read', 'manage'] as const).filter((name) => name !== scope)
    const without = await createApiKey(api.stack.db, program.programId, 'without', { scopes: others })
    const send = (options: { key?: string }) =>
      api.call(addressOf(path), method === 'get' ? undefined : '{', { method: method.toUpperCase(), ...options })
    expect(await send({ key: without })).toMatchObject({
      status: 403,
      body: { error: { code: 'insufficient_scope', needed_scope: scope } },
    })
    expect(await send({})).toMatchObject({ status: 401, body: { error: { code: 'unauthorized' } } })
  },
)

test.for(programOperations.map((operation) => [operation.method, operation.path, operation] as const))(
  '%s %s: refusals list unknown fields, and an Allow header for other methods',
  async ([method, path, { parameters = [] }]) => {
    const address = addressOf(path)
    if (method === 'post' || method === 'patch') {
      const answer = await api.call(address, { surprise: 1 }, { method: method.toUpperCase(), ...key })
      expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
      expect(answer.body.error.details).toContainEqual({ field: 'surprise', message: 'is not known here' })
    }
    if (parameters.some(({ in: place }) => place === 'query')) {
      for (const [field, value] of [
        ['surprise', '1'],
        ['limit', '0'],
        ['limit', '101'],
        ['cursor', 'x'],
      ] as const) {
        const { status, body: refusal } = await get(`${address}?${field}=${value}`, { databaseRequests: 1 })
        expect([status, refusal.error.details[0].field]).toEqual([400, field])
      }
    }
    const refused = await api.call(address, undefined, { method: 'PUT', ...key, databaseRequests: 0 })
    expect(refused.status).toBe(405)
    expect(refused.headers.get('allow')).toContain(method.toUpperCase())
    expect(refused.headers.get('ratelimit-policy')).toBe('"default";q=600;w=60')
  },
)

test('the limit in responses is the one in wrangler.toml', () => {
  expect(programFunctions).not.toEqual([])
  for (const { name, rateLimits } of programFunctions) {
    expect([name, rateLimits.map(({ simple }) => simple)]).toEqual([name, [{ limit: callsPerMinute, period: 60 }]])
  }
})

const lists: [path: string, fill: (n: number) => Promise<unknown>][] = [
  ['/api/v1/partners', (n) => post('/api/v1/partners', { name: `Partner ${n}` })],
  ['/api/v1/groups', (n) => post('/api/v1/groups', { name: `Group ${n} ${crypto.randomUUID()}` })],
  ['/api/v1/applications', () => applying()],
  [
    '/api/v1/codes',
    (n) => post('/api/v1/codes', { partner_id: program.partnerId, code: `CODE-${n}-${crypto.randomUUID()}` }),
  ],
  ['/api/v1/links', () => post('/api/v1/links', { partner_id: program.partnerId })],
  ['/api/v1/customers', () => api.click(program)],
  ['/api/v1/sales', sell],
  ['/api/v1/commissions', sell],
  ['/api/v1/payouts', due],
  ['/api/v1/payout-runs', due],
  ['/api/v1/webhook-endpoints', () => listenTo()],
]

/** A waiting application. */
async function applying(): Promise<number> {
  await patch('/api/v1/join-page', {})
  const { id } = (
    await mailing('POST', '/api/v1/applications', { name: 'Grace', email: `${crypto.randomUUID()}@example.com` })
  ).body.application
  await api.stack.sql.query(`update applications set status = 'waiting', verified_at = now() where id = $1`, [id])
  return id
}

/** A payout run with one payout. */
async function due(): Promise<number> {
  await approve(await sell())
  const run = await post('/api/v1/payout-runs', {})
  expect(run.status).toBe(201)
  return run.body.payout_run.id
}

test.for(lists)(
  '%s: pages show each row once, newest first, even if rows are added between them',
  async ([path, fill]) => {
    for (let n = 0; n < 5; n++) await fill(n)
    const ids: number[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const { status, body } = await get(`${path}?limit=2${cursor && `&cursor=${cursor}`}`)
      expect([status, body.success]).toEqual([200, true])
      ids.push(...body.data.map(({ id }: { id: number }) => id))
      cursor = body.next_cursor
      if (ids.length === 2) await fill(99)
    }
    expect(ids.length).toBeGreaterThanOrEqual(5)
    expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => b - a))
    const others = await get(`${path}?limit=100`, { key: other.apiKey })
    expect(others.body.data.filter(({ id }: { id: number }) => ids.includes(id))).toEqual([])
  },
)

interface Sorted {
  id: number
  name: string
  sales: number
  amount_cents: number
  hold_until: string
}

test.for<[path: string, sort: string, by: (row: Sorted) => number | string]>([
  ['/api/v1/partners', 'oldest', ({ id }) => id],
  ['/api/v1/partners', 'name', ({ name }) => name.toLowerCase()],
  ['/api/v1/partners', 'sales', ({ sales }) => -sales],
  ['/api/v1/commissions', 'amount', ({ amount_cents: amount }) => -amount],
  ['/api/v1/commissions', 'hold', ({ hold_until: until }) => until],
  ['/api/v1/payouts', 'amount', ({ amount_cents: amount }) => -amount],
  ['/api/v1/payout-runs', 'oldest', ({ id }) => id],
])('%s?sort=%s: pages show each once in that order', async ([path, sort, by]) => {
  const fill = lists.find(([list]) => list === path)?.[1]
  for (let n = 0; n < 4; n++) await fill?.(n)
  const rows: Sorted[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body } = await get(`${path}?sort=${sort}&limit=3${cursor && `&cursor=${cursor}`}`)
    rows.push(...body.data)
    cursor = body.next_cursor
  }
  expect(rows.length).toBeGreaterThan(3)
  const { body } = await get(`${path}?limit=100`)
  expect(rows.map(({ id }) => id).toSorted((a, b) => b - a)).toEqual(body.data.map(({ id }: { id: number }) => id))
  const values = rows.map(by)
  expect(values).toEqual(values.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)))
  const refused = await get(`${path}?sort=size`, { databaseRequests: 1 })
  expect([refused.status, refused.body.error.details[0].field]).toEqual([400, 'sort'])
})

const creations: [path: string, body: (tag: string) => Record<string, unknown> | undefined, table: string][] = [
  ['/api/v1/partners', (tag) => ({ name: 'Once', email: `${tag}@example.com`, code: tag }), 'partners'],
  ['/api/v1/links', (tag) => ({ partner_id: program.partnerId, code: tag }), 'referral_links'],
  ['/api/v1/payout-runs', () => undefined, 'payout_runs'],
  [
    '/api/v1/webhook-endpoints',
    (tag) => ({ url: 'https://hooks.example.com/b', types: ['sale.created'], description: tag }),
    'webhook_endpoints',
  ],
]

test.for(creations)('%s: a repeat with the same Idempotency-Key creates nothing', async ([path, bodyOf, table]) => {
  const body = bodyOf(`once-${table}`)
  const [one, many] = [`first ${table}`, `race ${table}`].map((token) => withKey(token.replace(' ', '-')))
  const prepare = async () => {
    if (table === 'payout_runs') await approve(await sell())
  }
  await prepare()
  const first = await post(path, body, one)
  expect(first.status).toBe(201)
  expect((await post(path, body, one)).body).toEqual(first.body)
  const elsewhere = path === '/api/v1/partners' ? '/api/v1/links' : '/api/v1/partners'
  const mismatched =
    path === '/api/v1/payout-runs'
      ? await post(elsewhere, { name: 'X' }, one)
      : await post(path, bodyOf('another'), one)
  expect(mismatched).toMatchObject({
    status: 422,
    body: { error: { code: 'idempotency_mismatch' } },
  })
  const count = async () => Number((await api.rows(`select count(*) as n from ${table}`))[0].n)
  await prepare()
  const before = await count()
  const racing = await api.callAll(
    path,
    times(12, () => bodyOf(`race-${table}`)),
    { ...key, ...many },
  )
  expect(new Set(racing.map(({ status, body: answer }) => JSON.stringify([status, answer]))).size).toBe(1)
  expect(racing[0]?.status).toBe(201)
  expect(await count()).toBe(before + 1)
  expect(await post(path, body, { ...withKey('has space'), databaseRequests: 1 })).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_request' } },
  })
})

test('a request whose database response was lost creates one row', async () => {
  api.stack.neon.inject({ action: 'drop-after', matching: 'insert into "partners"' })
  const created = await post('/api/v1/partners', { name: 'Lost', email: 'lost@example.com' }, { databaseRequests: 3 })
  expect(created).toMatchObject({ status: 201, body: { partner: { email: 'lost@example.com' } } })
  expect((await get('/api/v1/partners?email=LOST@example.com')).body.data).toEqual([created.body.partner])
})

test('a refused request releases its Idempotency-Key, programs have separate keys, and a key expires after a day', async () => {
  await post('/api/v1/partners', { name: 'Taken', code: 'taken-code' })
  const refused = await post('/api/v1/partners', { name: 'Late', code: 'taken-code' }, withKey('free'))
  expect(refused).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
  const created = await post('/api/v1/partners', { name: 'Late' }, withKey('free'))
  const elsewhere = await post('/api/v1/partners', { name: 'Late' }, { ...withKey('free'), key: other.apiKey })
  expect(elsewhere.body.partner.id).not.toBe(created.body.partner.id)
  await api.rows(`update idempotency_keys set created_at = now() - interval '25 hours' where token = 'free'`)
  await deleteExpired(api.stack.db)
  const later = await post('/api/v1/partners', { name: 'Later' }, withKey('free'))
  expect(later.body.partner).toMatchObject({ name: 'Later' })
})

test('the bytes that the API stores for a workspace have a daily limit, which is smaller for an unconfirmed owner', async () => {
  const whose = `key = 'bytes of workspace ' || (select workspace_id from programs where id = $1)`
  const counted = async () =>
    (await api.rows(`select attempts from sign_in_attempts where ${whose}`, [other.programId]))[0]?.attempts ?? 0
  const create = async (value = '', options: object = {}) =>
    await post('/api/v1/partners', { name: 'Bytes', metadata: { value } }, { key: other.apiKey, ...options })
  const refused = async () => await create('', { databaseRequests: 1 })
  const before = await counted()
  expect([(await create('é'.repeat(500))).status, (await counted()) - before > 1500]).toEqual([201, true])
  const use = async (megabytes: number) =>
    await api.rows(`update sign_in_attempts set attempts = $2 where ${whose}`, [other.programId, megabytes * 2 ** 20])
  await use(100)
  expect(await refused()).toMatchObject({ status: 429, body: { error: { code: 'rate_limited' } } })
  expect((await get('/api/v1/partners', { key: other.apiKey })).status).toBe(200)
  await use(99)
  expect((await create()).status).toBe(201)
  const confirm = async (is: boolean) =>
    await api.rows(
      `update users set email_verified = $2 where id in (select user_id from workspace_members join programs using (workspace_id) where id = $1)`,
      [other.programId, is],
    )
  await confirm(false)
  expect((await refused()).status).toBe(429)
  await use(1)
  expect((await create()).status).toBe(201)
  await api.rows(`update sign_in_attempts set window_started_at = now() - interval '2 days' where ${whose}`, [
    other.programId,
  ])
  await use(200)
  expect([(await create()).status, (await counted()) < 2000]).toEqual([201, true])
  await confirm(true)
})

test.each([
  ['/api/v1/partners', 'partner'],
  ['/api/v1/groups', 'group'],
  ['/api/v1/applications', 'applicant'],
])('%s explains which names it accepts', async (path, whom) => {
  const messages = [`must be the name of the ${whom}`, 'must have at most 80 characters, without line breaks or']
  for (const [n, name] of ['', 'x'.repeat(81)].entries()) {
    const { body } = await api.call(path, { name, email: 'ada@example.com' }, { method: 'POST', ...key })
    expect(body.error.message).toContain(`The request was not accepted: name ${messages[n]}`)
    expect(body.error.message).not.toContain('..')
  }
})

test('the audit log records the acting key', async () => {
  const created = await post('/api/v1/partners', { name: 'Logged', code: 'logged-1' })
  const { id } = created.body.partner
  await patch(`/api/v1/partners/${id}`, { name: 'Logged again' })
  const link = await post('/api/v1/links', { partner_id: id, code: 'logged-2' })
  await patch(`/api/v1/links/${link.body.link.id}`, { external_id: 'logged' })
  const commission = await sell()
  await approve(commission)
  const entries = await api.stack.db.query(auditEntriesStatement(program.workspaceId, { limit: 5 }))
  const actor = `API key default …${program.apiKey.slice(-4)}`
  expect(entries.toReversed()).toMatchObject([
    { actor, action: 'partner.added', subject: String(id) },
    { actor, action: 'partner.changed', subject: String(id) },
    { actor, action: 'partner.link_added', subject: 'logged-2' },
    { actor, action: 'partner.link_changed', subject: 'logged-2' },
    { actor, action: 'commission.approved', subject: String(commission) },
  ])
})

test('paging returns every event, even if many have the same time', async () => {
  const { programId } = other
  await api.rows(
    `insert into affiliate_click_events (program_id, click_timestamp, id, click_id)
    select $1, '2026-01-01T00:00:00.000001Z'::timestamptz + (n / 3) * interval '1 microsecond', n, 'cust_1_1' from generate_series(1, 9) n`,
    [programId],
  )
  const ids: number[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body } = await get(`/api/v1/events?limit=2${cursor && `&cursor=${cursor}`}`, { key: other.apiKey })
    ids.push(...body.data.map(({ id }: { id: number }) => id))
    cursor = body.next_cursor
  }
  expect(ids).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1])
})

test('the client creates, changes and reads across all pages, and reports refusals', async () => {
  const client = new SvcApi({ apiKey: program.apiKey, baseUrl: `${api.stack.baseUrl}/` })
  const request = { name: 'By the client', code: 'by-client', metadata: { from: 'client' } }
  const created = await client.partners.create(request, { idempotencyKey: 'client-1' })
  expect(created).toMatchObject({
    ok: true,
    status: 201,
    data: { name: 'By the client', metadata: { from: 'client' } },
  })
  expect(await client.partners.create(request, { idempotencyKey: 'client-1' })).toEqual(created)
  expect(await client.partners.create(request)).toMatchObject({ ok: false, status: 409, error: { code: 'conflict' } })
  const id = created.data?.id ?? 0
  expect(await client.partners.get(id)).toEqual({ ...created, status: 200 })
  const link = await client.links.create({ partner_id: id, code: 'by-client-2' })
  expect(await client.links.get(link.data?.id ?? 0)).toEqual({ ...link, status: 200 })
  expect(await client.links.update(link.data?.id ?? 0, { status: 'inactive' })).toMatchObject({
    data: { status: 'inactive' },
  })
  expect(await client.partners.update(id, { status: 'inactive' })).toMatchObject({ data: { status: 'inactive' } })
  const names: string[] = []
  for await (const partner of client.partners.list({ limit: 2 })) names.push(partner.name)
  const { body } = await get('/api/v1/partners?limit=100')
  expect(names).toEqual(body.data.map(({ name }: { name: string }) => name))
  const page = await client.partners.list({ code: 'by-client', status: 'inactive' }).page()
  expect(page.data?.data).toMatchObject([{ id }])
  const stranger = new SvcApi({ apiKey: 'svc_live_wrong', baseUrl: api.stack.baseUrl })
  await expect(stranger.sales.list()[Symbol.asyncIterator]().next()).rejects.toThrow(SvcApiError)
  expect(await stranger.sales.list().page()).toMatchObject({ ok: false, status: 401, error: { code: 'unauthorized' } })
})

test('if the response to a creation is lost, the client retries and creates only one row', async () => {
  const client = new SvcApi({ apiKey: program.apiKey, baseUrl: api.stack.baseUrl })
  api.stack.neon.inject({ action: 'drop-after', matching: 'insert into "partners"', times: 2 })
  const created = await client.partners.create({ name: 'Twice lost', external_id: 'twice-lost' })
  expect(created).toMatchObject({ ok: true, data: { name: 'Twice lost' } })
  expect((await client.partners.list({ external_id: 'twice-lost' }).page()).data?.data).toEqual([created.data])
})

test('the client reads commissions and payouts, and decides on them', async () => {
  const client = new SvcApi({ apiKey: program.apiKey, baseUrl: api.stack.baseUrl })
  const commission = await sell()
  expect(await client.commissions.approve(commission)).toMatchObject({ data: { status: 'approved' } })
  const run = await client.payoutRuns.create()
  const [payout] = (await client.payoutRuns.get(run.data?.id ?? 0)).data?.payout_list ?? []
  const { id = 0, amount_cents = 0 } = payout ?? {}
  const paid = await client.payouts.markPaid(id, { amount_cents, reference: 'bank 1', paid_on: today })
  expect(paid).toMatchObject({ data: { status: 'paid', reference: 'bank 1' } })
  expect((await client.payouts.list({ status: 'paid' }).page()).data?.data[0]).toMatchObject({ id })
  expect(await client.commissions.reject(commission, 'no')).toMatchObject({ data: { status: 'reversed' } })
  expect(await client.customers.get('nobody')).toMatchObject({ ok: false, status: 404 })
  const unknown = { data: { changed: 0, data: [], unknown_ids: [999_999] } }
  expect(await client.commissions.approveAll([999_999])).toMatchObject(unknown)
})

test.each(['events', 'customers', 'sales', 'commissions', 'payouts'])(
  '%s can be limited to a range of days',
  async (noun) => {
    const { body } = await get(`/api/v1/${noun}?limit=100`)
    expect(body.data.length).toBeGreaterThan(0)
    expect((await get(`/api/v1/${noun}?limit=100&from=2026-01-01&to=${today}`)).body.data).toHaveLength(
      body.data.length,
    )
    expect((await get(`/api/v1/${noun}?to=2025-12-31T23:59:59.999Z`)).body.data).toEqual([])
    expect((await get(`/api/v1/${noun}?from=2100-01-01`)).body.data).toEqual([])
    const backwards = {
      status: 400,
      body: { error: { details: [{ field: 'to', message: 'must not be before from' }] } },
    }
    const query = '?from=2026-02-01&to=2026-01-01'
    expect(await get(`/api/v1/${noun}${query}`, { databaseRequests: 1 })).toMatchObject(backwards)
  },
)
