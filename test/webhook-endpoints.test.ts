import { expect, test } from 'vitest'
import { auditEntriesStatement } from '../lib/access/audit-log.ts'
import { times } from './support/api.ts'
import { startProgramApi, twoRequests, withKey } from './support/program-api.ts'

const { api, program, other, key, get, post, patch, listenTo } = await startProgramApi(['webhook-endpoints'])

test('a webhook endpoint is created with its secret, read without it, changed, rotated and deleted', async () => {
  const request = {
    url: 'https://hooks.example.com/orders',
    description: 'Orders',
    types: ['sale.created', 'payout.paid'],
  }
  const { secret, ...created } = await listenTo(request)
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(created).toMatchObject({ ...request, status: 'active', inactive_because: null, previous_secret_until: null })
  const path = `/api/v1/webhook-endpoints/${created.id}`
  expect((await get(path)).body).toEqual({ success: true, webhook_endpoint: created })
  expect((await get('/api/v1/webhook-endpoints')).body.data).toContainEqual(created)
  const off = { status: 'inactive', description: null, types: ['lead.created'] }
  expect((await patch(path, off)).body.webhook_endpoint).toEqual({
    ...created,
    ...off,
    description: '',
    inactive_because: 'owner',
  })
  expect(await post(`${path}/test`, {})).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } })
  expect((await patch(path, { status: 'active' })).body.webhook_endpoint).toMatchObject({ status: 'active' })
  expect((await patch(path, {})).body.webhook_endpoint).toMatchObject({ status: 'active', types: ['lead.created'] })

  const rotated = await post(`${path}/rotate-secret`, undefined, withKey('rotate-once'))
  expect(rotated.body.webhook_endpoint.secret).not.toBe(secret)
  expect(new Date(rotated.body.webhook_endpoint.previous_secret_until).getTime()).toBeGreaterThan(Date.now() + 8e7)
  // A repeated request doesn't rotate the secret again. It returns the secret from the first response, which may have been lost.
  expect((await post(`${path}/rotate-secret`, undefined, withKey('rotate-once'))).body).toEqual(rotated.body)
  expect(
    (await api.rows('select secret_number from webhook_endpoints where id = $1', [created.id]))[0].secret_number,
  ).toBe(2)

  const gone = () => api.call(path, undefined, { method: 'DELETE', ...key, ...twoRequests })
  for (let time = 0; time < 2; time++) expect((await gone()).body).toEqual({ success: true, deleted_id: created.id })
  expect((await get(path)).status).toBe(404)
  expect((await patch(path, { status: 'active' })).status).toBe(404)
  expect((await get(`${path}/deliveries`)).status).toBe(404)
  const entries = await api.stack.db.query(auditEntriesStatement(program.workspaceId, { limit: 7 }))
  const actor = `API key default …${program.apiKey.slice(-4)}`
  const acts = entries.filter(({ subject }) => subject === request.url)
  expect(acts.map((entry) => [entry.actor, entry.action])).toEqual(
    expect.arrayContaining(
      ['created', 'disabled', 'enabled', 'secret_rotated', 'deleted'].map((act) => [actor, `webhook.${act}`]),
    ),
  )
})

const endpoints = async () => (await api.rows('select count(*) as n from webhook_endpoints'))[0].n

test.for([
  [{ url: 'http://hooks.example.com/' }, 'url'],
  [{ url: 'https://127.0.0.1/' }, 'url'],
  [{ url: 'https://169.254.169.254/latest/meta-data/' }, 'url'],
  [{ url: 'https://[::1]/' }, 'url'],
  [{ url: 'https://localhost/' }, 'url'],
  [{ url: 'https://db.internal/' }, 'url'],
  [{ url: 'https://me:secret@hooks.example.com/' }, 'url'],
  [{ url: 'hooks.example.com' }, 'url'],
  [{ url: `https://hooks.example.com/${'a'.repeat(2000)}` }, 'url'],
  [{ types: [] }, 'types'],
  [{ types: ['sale.created', 'sale.created'] }, 'types'],
  [{ types: ['sale.invented'] }, 'types.0'],
  [{ types: ['webhook.test'] }, 'types.0'],
  [{ description: 'x'.repeat(201) }, 'description'],
] as const)('a webhook endpoint with %.60j is refused for %s, on creation and change', async ([settings, field]) => {
  const request = { url: 'https://hooks.example.com/', types: ['sale.created'], ...settings }
  const before = await endpoints()
  // Some values that match the schema are also refused before anything is written.
  const { status, body } = await post('/api/v1/webhook-endpoints', request, { databaseRequests: 1 })
  expect([status, body.error.details[0].field]).toEqual([400, field])
  expect(await endpoints()).toBe(before)
  const changed = await patch('/api/v1/webhook-endpoints/1', settings, { databaseRequests: 1 })
  expect([changed.status, changed.body.error.details[0].field]).toEqual([400, field])
})

test('a refused webhook endpoint lists its missing or unknown fields', async () => {
  for (const [request, field] of [
    [{ types: ['sale.created'] }, 'url'],
    [{ url: 'https://hooks.example.com/' }, 'types'],
    [{ url: 'https://hooks.example.com/', types: ['sale.created'], secret: 'whsec_mine' }, 'secret'],
  ] as const) {
    const { status, body } = await post('/api/v1/webhook-endpoints', request, { databaseRequests: 1 })
    expect([status, body.error.details[0].field]).toEqual([400, field])
  }
})

test('a program has at most twenty webhook endpoints, even under concurrent requests', async () => {
  const busy = await api.program()
  const request = times(24, () => ({ url: 'https://hooks.example.com/c', types: ['sale.created'] }))
  const answers = await api.callAll('/api/v1/webhook-endpoints', request, { key: busy.apiKey })
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(20)
  expect(answers.filter(({ status, body }) => status === 409 && body.error.code === 'conflict')).toHaveLength(4)
})

test('deliveries can be listed, read with their attempts, and replayed one by one or by a time range', async () => {
  const shop = await api.program()
  const own = { key: shop.apiKey }
  const created = await listenTo({}, own)
  const path = `/api/v1/webhook-endpoints/${created.id}`
  const ids: string[] = []
  for (let n = 0; n < 5; n++) ids.unshift((await post(`${path}/test`, undefined, own)).body.delivery_id)
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body } = await get(`${path}/deliveries?limit=2${cursor && `&cursor=${cursor}`}`, own)
    seen.push(...body.data.map(({ id }: { id: string }) => id))
    cursor = body.next_cursor
    if (seen.length === 2) await post(`${path}/test`, undefined, own)
  }
  expect(seen).toEqual(ids)
  const [last = '', second = ''] = ids
  await api.rows(
    `update webhook_deliveries set status = 'failed', attempt_count = 9, next_attempt_at = null, finished_at = now()
    where endpoint_id = $1 and 'evt_' || message_id = any ($2)`,
    [created.id, [last, second]],
  )
  await api.rows(
    `insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, answer)
    select program_id, endpoint_id, message_id, now(), 12, 500, 'broken' from webhook_deliveries where endpoint_id = $1 and 'evt_' || message_id = $2`,
    [created.id, last],
  )
  const failed = (await get(`${path}/deliveries?status=failed`, own)).body.data
  expect(failed).toMatchObject([{ id: last, attempt_count: 9, next_attempt_at: null }, { id: second }])
  expect((await get(`${path}/deliveries/${last}`, own)).body.delivery).toEqual({
    ...failed[0],
    attempts: [{ attempted_at: expect.any(String), duration_ms: 12, status: 500, error: null, answer: 'broken' }],
  })
  expect(failed[0].payload).toMatchObject({ id: last, type: 'webhook.test', data: { endpoint_id: created.id } })

  const replay = (body: object, options = {}) => post(`${path}/replay`, body, { ...own, ...options })
  const since = new Date(Date.now() - 3_600_000).toISOString()
  expect((await replay({ since, until: '2026-01-01T00:00:00Z' }, { databaseRequests: 1 })).status).toBe(400)
  expect((await replay({ since: '2020-01-01T00:00:00Z', until: since })).body).toEqual({ success: true, replayed: 0 })
  expect((await replay({ delivery_id: last })).body).toEqual({ success: true, replayed: 1 })
  expect((await replay({ delivery_id: last })).body).toEqual({ success: true, replayed: 0 })
  expect((await replay({ since, failed_only: true })).body).toEqual({ success: true, replayed: 1 })
  expect((await get(`${path}/deliveries/${second}`, own)).body.delivery).toMatchObject({
    status: 'pending',
    attempt_count: 0,
  })
  for (const missing of ['evt_999999', seen[0]?.replace('evt_', 'evt_9999')]) {
    expect((await replay({ delivery_id: missing })).status).toBe(404)
  }
  for (const [body, field] of [
    [{}, 'since'],
    [{ failed_only: true }, 'since'],
    [{ delivery_id: last, since }, 'delivery_id'],
    [{ delivery_id: 'last' }, 'delivery_id'],
    [{ since: '2026-02-30T00:00:00Z' }, 'since'],
    [{ since: '0000-01-01T00:00:00Z' }, 'since'],
    [{ since: '2026-01-01' }, 'since'],
  ] as const) {
    const refused = await replay(body, { databaseRequests: 1 })
    expect([body, refused.status, refused.body.error.details[0].field]).toEqual([body, 400, field])
  }
  // Another program can't reach the endpoint or its deliveries.
  const elsewhere = await listenTo({}, { key: other.apiKey })
  const strange = `/api/v1/webhook-endpoints/${elsewhere.id}`
  expect((await get(`${strange}/deliveries/${last}`, { key: other.apiKey })).status).toBe(404)
  expect((await post(`${strange}/replay`, { delivery_id: last }, { key: other.apiKey })).status).toBe(404)
})

test("an endpoint without an address keeps fetched deliveries, and can't get an address", async () => {
  const created = await listenTo({ url: null })
  const path = `/api/v1/webhook-endpoints/${created.id}`
  const { delivery_id: id } = (await post(`${path}/test`, undefined)).body
  expect((await get(`${path}/deliveries`)).body.data).toMatchObject([{ id, status: 'to_fetch', next_attempt_at: null }])
  for (const [status, count] of [
    ['to_fetch', 1],
    ['pending', 0],
  ] as const)
    expect((await get(`${path}/deliveries?status=${status}`)).body.data).toHaveLength(count)
  expect((await patch(path, { url: 'https://hooks.example.com/' })).status).toBe(409)
  expect((await post(`${path}/replay`, { delivery_id: id })).status).toBe(404)
})
