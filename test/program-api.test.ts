import { SvcApi, SvcApiError } from 'svc-tracker/api'
import { expect, test, vi } from 'vitest'
import { createApiKey } from '../lib/access/program-keys.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { listAuditEntries } from '../lib/access/audit-log.ts'
import { callsPerMinute } from '../lib/api/rate-limits.ts'
import { operations } from '../lib/api/operations.ts'
import { readFunctions } from '../lib/local/functions.ts'
import { confirmApplication, findApplication } from '../lib/programs/applications.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'
import { refundPath, salePath, startTrackingApi, times } from './support/api.ts'

const programOperations = operations.filter(({ scope }) => scope !== undefined)
const programFunctions = readFunctions().filter(({ main, paths }) =>
  programOperations.some(
    ({ path }) => main.startsWith('functions/') && paths.some((own) => own.replace(/\*$/, '') === root(path)),
  ),
)
function root(path: string): string {
  return path.replace(/\/\{.*/, '')
}

const api = await startTrackingApi({
  functions: ['track-click', 'track-lead', 'track-sale', 'track-refund', ...programFunctions.map(({ name }) => name)],
})
const program = await api.program()
const other = await api.program()
const key = { key: program.apiKey }
const twoRequests = { databaseRequests: 2 }

const get = (path: string, options = {}) =>
  api.call(path, undefined, { method: 'GET', ...key, ...twoRequests, ...options })
const post = (path: string, body: unknown, options = {}) => api.call(path, body, { ...key, ...twoRequests, ...options })
const patch = (path: string, body: unknown, options = {}) =>
  api.call(path, body, { method: 'PATCH', ...key, ...twoRequests, ...options })
/** What mails somebody after its answer, which is a request to the database of its own. */
const mailing = async (method: string, path: string, body: unknown, options = {}) => {
  const [answer] = await api.callAll(path, [body], { method, ...key, ...options })
  if (!answer) throw new Error('there was no answer')
  return answer
}
const withKey = (token: string) => ({ headers: { 'idempotency-key': token } })

const addressOf = (path: string) =>
  path.replaceAll(/\{\w+\}/g, (name) => (name === '{delivery_id}' ? 'evt_1' : '999999999'))

test.for(programOperations.map((operation) => [operation.method, operation.path, operation] as const))(
  '%s %s: a key without its scope is refused, and so is no key, in one request at most',
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
  '%s %s: what it does not know is refused by name, and other methods by Allow',
  async ([method, path, { body, parameters = [] }]) => {
    const address = addressOf(path)
    if (body) {
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

test('the limit that answers name is the one of wrangler.toml', () => {
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

/** An application that waits. */
async function applying(): Promise<number> {
  await patch('/api/v1/join-page', {})
  const { id } = (
    await mailing('POST', '/api/v1/applications', { name: 'Grace', email: `${crypto.randomUUID()}@example.com` })
  ).body.application
  await api.stack.sql.query(`update applications set status = 'waiting', verified_at = now() where id = $1`, [id])
  return id
}

/** A webhook endpoint; answers it with its secret. */
async function listenTo(settings: object = {}, options: object = {}) {
  const asked = { url: 'https://hooks.example.com/a', types: ['sale.created'], ...settings }
  return (await post('/api/v1/webhook-endpoints', asked, options)).body.webhook_endpoint
}

/** A sale that a partner brought; returns its commission. */
async function sell(): Promise<number> {
  const sale = {
    transaction_id: crypto.randomUUID(),
    customer_key: crypto.randomUUID(),
    click_id: await api.click(program),
  }
  return (await api.call(salePath, { ...sale, amount_cents: 1000 }, key)).body.commission_id
}

/** A payout run with one payout. */
async function due(): Promise<number> {
  await patch(`/api/v1/commissions/${await sell()}`, { status: 'approved' })
  const run = await post('/api/v1/payout-runs', {})
  expect(run.status).toBe(200)
  return run.body.payout_run.id
}

test.for(lists)('%s: pages show each once, newest first, whatever is added meanwhile', async ([path, fill]) => {
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
})

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

const creations: [path: string, body: (tag: string) => Record<string, unknown>, table: string][] = [
  ['/api/v1/partners', (tag) => ({ name: 'Once', email: `${tag}@example.com`, code: tag }), 'partners'],
  ['/api/v1/links', (tag) => ({ partner_id: program.partnerId, code: tag }), 'referral_links'],
  ['/api/v1/payout-runs', () => ({}), 'payout_runs'],
  [
    '/api/v1/webhook-endpoints',
    (tag) => ({ url: 'https://hooks.example.com/b', types: ['sale.created'], description: tag }),
    'webhook_endpoints',
  ],
]

test.for(creations)('%s: what is sent again with its Idempotency-Key is made once', async ([path, bodyOf, table]) => {
  const body = bodyOf(`once-${table}`)
  const [one, many] = [`first ${table}`, `race ${table}`].map((token) => withKey(token.replace(' ', '-')))
  const prepare = async () => {
    if (table === 'payout_runs') await patch(`/api/v1/commissions/${await sell()}`, { status: 'approved' })
  }
  await prepare()
  const first = await post(path, body, one)
  expect(first.status).toBe(200)
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
  expect(racing[0]?.status).toBe(200)
  expect(await count()).toBe(before + 1)
  expect(await post(path, body, { ...withKey('has space'), databaseRequests: 1 })).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_request' } },
  })
})

test('a request whose answer was lost on the way from the database makes one thing', async () => {
  api.stack.neon.inject({ action: 'drop-after', matching: 'insert into "partners"' })
  const made = await post('/api/v1/partners', { name: 'Lost', email: 'lost@example.com' }, { databaseRequests: 3 })
  expect(made).toMatchObject({ status: 200, body: { partner: { email: 'lost@example.com' } } })
  expect((await get('/api/v1/partners?email=LOST@example.com')).body.data).toEqual([made.body.partner])
})

test('a refused request leaves its Idempotency-Key free, another program has keys of its own, and a day later it is forgotten', async () => {
  await post('/api/v1/partners', { name: 'Taken', code: 'taken-code' })
  const refused = await post('/api/v1/partners', { name: 'Late', code: 'taken-code' }, withKey('free'))
  expect(refused).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
  const made = await post('/api/v1/partners', { name: 'Late' }, withKey('free'))
  const elsewhere = await post('/api/v1/partners', { name: 'Late' }, { ...withKey('free'), key: other.apiKey })
  expect(elsewhere.body.partner.id).not.toBe(made.body.partner.id)
  await api.rows(`update idempotency_keys set created_at = now() - interval '25 hours' where token = 'free'`)
  await deleteExpired(api.stack.db)
  const later = await post('/api/v1/partners', { name: 'Later' }, withKey('free'))
  expect(later.body.partner).toMatchObject({ name: 'Later' })
})

test('a partner is changed by the field, as JSON Merge Patch does', async () => {
  const made = await post('/api/v1/partners', {
    name: 'Ada',
    email: 'ada@example.com',
    external_id: 'ext-1',
    metadata: { tier: 'gold', note: 'x' },
  })
  const { id } = made.body.partner
  const path = `/api/v1/partners/${id}`
  expect((await patch(path, { metadata: { tier: 'silver', note: null } })).body.partner).toMatchObject({
    name: 'Ada',
    email: 'ada@example.com',
    external_id: 'ext-1',
    metadata: { tier: 'silver' },
    status: 'active',
  })
  const off = await patch(path, { status: 'inactive', external_id: null, email: null })
  expect(off.body.partner).toMatchObject({ status: 'inactive', external_id: null, email: null })
  expect(off.body.partner.links).toMatchObject([{ status: 'inactive' }])
  expect((await patch(path, { status: 'active', metadata: null })).body.partner).toMatchObject({
    status: 'active',
    metadata: {},
  })
  expect((await get(path)).body.partner).toMatchObject({ name: 'Ada', metadata: {} })
  expect((await get(`/api/v1/partners?search=aDa`)).body.data.map((one: { id: number }) => one.id)).toContain(id)
  const many = Object.fromEntries(times(15, (n) => [`a${n}`, 'x'] as const))
  await patch(path, { metadata: many })
  const more = Object.fromEntries(times(15, (n) => [`b${n}`, 'x'] as const))
  expect(await patch(path, { metadata: more })).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_request' } },
  })
  expect((await patch('/api/v1/partners/999999999', { name: 'X' })).status).toBe(404)
})

test.each([
  ['/api/v1/partners', 'partner'],
  ['/api/v1/groups', 'group'],
  ['/api/v1/applications', 'applicant'],
])('%s says of a name what it must be', async (path, whom) => {
  const messages = [`must be the name of the ${whom}`, 'must have at most 80 characters, without line breaks or']
  for (const [n, name] of ['', 'x'.repeat(81)].entries()) {
    const { body } = await api.call(path, { name, email: 'ada@example.com' }, { method: 'POST', ...key })
    expect(body.error.message).toContain(`The request was not accepted: name ${messages[n]}`)
    expect(body.error.message).not.toContain('..')
  }
})

test('rules are previewed for whom they would be, everybody’s are changed, and partners move to a group that is removed', async () => {
  const made = (await post('/api/v1/groups', { name: 'Previewed' })).body.group
  const { partner } = (await post('/api/v1/partners', { name: 'Mover' })).body
  const seller = await api.program()
  const own = { key: seller.apiKey }
  const clickId = await api.click(seller)
  await api.call(
    salePath,
    { transaction_id: 'looked-at', customer_key: 'x', click_id: clickId, amount_cents: 9000 },
    own,
  )
  const month = new Date().toISOString().slice(0, 7)
  const rules = [{ sale_type: 'payment', commission_bp: 5000 }]
  const amounts = { currency: 'usd', brought_cents: 1800, now_cents: 1800, then_cents: 4500 }
  for (const whose of [{}, { partner_id: seller.partnerId }]) {
    expect((await post('/api/v1/rules/preview', { ...whose, rules, month }, own)).body).toMatchObject({
      success: true,
      preview: { month, totals: [amounts], partners: [{ partner_id: seller.partnerId, ...amounts }] },
    })
  }
  expect((await post('/api/v1/rules/preview', { rules })).body.preview).toMatchObject({ totals: [], partners: [] })
  expect((await get('/api/v1/rules')).body.rules).toEqual([])
  const everybodys = await patch('/api/v1/rules', { rules })
  expect(everybodys.body.rules).toMatchObject([{ sale_type: 'payment', commission_bp: 5000, product_id: null }])
  expect((await get('/api/v1/rules')).body.rules).toEqual(everybodys.body.rules)
  await patch('/api/v1/rules', { rules: [] })
  for (const [path, body, field] of [
    ['/api/v1/rules', { rules: [{ commission_bp: 5 }] }, 'rules'],
    ['/api/v1/rules/preview', { rules: [{ commission_bp: 5 }] }, 'rules'],
    ['/api/v1/rules/preview', { rules: [], group_id: 1, partner_id: 1 }, 'partner_id'],
    ['/api/v1/rules/preview', { rules: [], month: '2026-13' }, 'month'],
  ] as const) {
    const send = path === '/api/v1/rules' ? patch : post
    expect(await send(path, body, { databaseRequests: 1 })).toMatchObject({
      status: 400,
      body: { error: { details: [{ field }] } },
    })
  }
  expect(await post('/api/v1/rules/preview', { rules: [], group_id: 999_999_999 })).toMatchObject({ status: 404 })

  const address = `/api/v1/groups/${made.id}`
  const moved = await post(`${address}/partners`, { partner_ids: [partner.id, seller.partnerId] })
  expect(moved.body).toEqual({ success: true, partners: 1 })
  expect((await get(`/api/v1/partners?group_id=${made.id}`)).body.data).toMatchObject([{ id: partner.id }])
  const remove = () => api.call(address, undefined, { method: 'DELETE', ...key, ...twoRequests })
  expect((await remove()).body).toEqual({ success: true, deleted_id: made.id })
  for (const answer of [
    await remove(),
    await get(address),
    await patch(address, { rules: [] }),
    await post(`${address}/partners`, { partner_ids: [partner.id] }),
    await post('/api/v1/rules/preview', { rules: [], group_id: made.id }),
  ])
    expect(answer).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } })
  expect((await get(`/api/v1/partners/${partner.id}`)).body.partner).toMatchObject({ group_id: null })
})

test('the join page is changed by the field, and an application by key is mailed once, confirmed and decided once', async () => {
  const questions = [{ label: 'Where?', type: 'short', required: true }]
  const own = { key: other.apiKey }
  expect((await get('/api/v1/join-page', own)).body.join_page).toMatchObject({ slug: null, url: null, is_open: false })
  const early = await mailing('POST', '/api/v1/applications', { name: 'Grace', email: 'early@example.com' }, own)
  expect(early).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
  const slug = `page-${crypto.randomUUID()}`
  const page = await patch(
    '/api/v1/join-page',
    { slug, questions, terms: 'Be true.', logo_url: 'https://a.example/b.png' },
    own,
  )
  expect(page.body.join_page).toMatchObject({
    slug,
    url: expect.stringContaining(`/join/${slug}`),
    terms_version: 1,
    questions,
  })
  expect((await patch('/api/v1/join-page', { intro: 'Hello' }, own)).body.join_page).toMatchObject({
    slug,
    intro: 'Hello',
    questions,
  })

  const applicant = {
    name: 'Grace Hopper',
    email: `Grace-${crypto.randomUUID()}@Example.com`,
    answers: [{ question: 'Where?', answer: 'Here' }],
    terms_version: 1,
  }
  for (const [wrong, field] of [
    [{ terms_version: 2 }, 'terms_version'],
    [{ terms_version: null }, 'terms_version'],
    [{ answers: [] }, 'answers'],
    [{ answers: [{ question: 'Where?', answer: ' ' }] }, 'answers'],
    [{ answers: [...applicant.answers, { question: 'Why?', answer: 'x' }] }, 'answers'],
    [{ answers: [...applicant.answers, ...applicant.answers] }, 'answers'],
    [{ answers: [{ question: 'Where?', answer: 'x'.repeat(301) }] }, 'answers'],
    [{ email: 'nobody' }, 'email'],
    [{ name: 'a\u202Eb' }, 'name'],
  ] as const) {
    const refused = await mailing('POST', '/api/v1/applications', { ...applicant, ...wrong }, own)
    expect([wrong, refused.body.error.details?.[0].field]).toEqual([wrong, field])
  }
  const made = await mailing('POST', '/api/v1/applications', applicant, { ...own, ...withKey('grace') })
  expect(made.body.application).toMatchObject({
    status: 'unverified',
    source: 'api',
    email: applicant.email.toLowerCase(),
    terms_version: 1,
  })
  expect((await mailing('POST', '/api/v1/applications', applicant, { ...own, ...withKey('grace') })).body).toEqual(
    made.body,
  )
  const mails = async () =>
    (
      await api.stack.sql.query<{ subject: string; body: string }>(
        'select subject, body from mails where recipient = $1 order by id',
        [applicant.email.toLowerCase()],
      )
    ).rows
  await vi.waitFor(async () => expect(await mails()).toHaveLength(1))
  const { id } = made.body.application
  const address = `/api/v1/applications/${id}`
  expect(await mailing('PATCH', address, { status: 'approved' }, own)).toMatchObject({ status: 409 })
  const confirmed = /application\?token=(\S+)/.exec((await mails())[0]?.body ?? '')?.[1] ?? ''
  const found = await findApplication(api.stack.db, confirmed)
  if (found) await confirmApplication(api.stack.db, found)
  for (const wrong of [
    { status: 'waiting' },
    { status: 'rejected', group_id: 1 },
    { status: 'approved', note: 'x' },
    {},
  ])
    expect(await mailing('PATCH', address, wrong, own)).toMatchObject({ status: 400 })
  expect(await mailing('PATCH', address, { status: 'approved', group_id: 9_999_999 }, own)).toMatchObject({
    status: 409,
  })
  const approved = await mailing('PATCH', address, { status: 'approved' }, own)
  expect(approved.body.application).toMatchObject({
    status: 'approved',
    partner_id: expect.any(Number),
    decided_by: expect.any(String),
  })
  expect((await mailing('PATCH', address, { status: 'approved' }, own)).body).toEqual(approved.body)
  expect(await mailing('PATCH', address, { status: 'rejected' }, own)).toMatchObject({ status: 409 })
  expect((await get(address, own)).body).toEqual(approved.body)
  await vi.waitFor(async () => expect((await mails()).map(({ subject }) => subject)).toHaveLength(2))
  expect(
    await get(`/api/v1/applications?email=${encodeURIComponent(applicant.email)}&status=approved`, own),
  ).toMatchObject({
    body: { data: [{ id }] },
  })
  expect(await mailing('DELETE', address, undefined, own)).toMatchObject({ status: 409 })
})

test('a group is made with its rules once, changed by the field, and pays its partners', async () => {
  const rules = [{ commission_bp: 3000 }, { sale_type: 'upgrade', commission_fixed_cents: 500 }]
  const made = await post('/api/v1/groups', { name: 'Gold', rules }, withKey('gold'))
  expect(made).toMatchObject({
    status: 200,
    body: {
      group: {
        name: 'Gold',
        partners: 0,
        rules: [
          { product_id: null, sale_type: null, commission_bp: 3000, lifetime_cap_cents: null },
          { sale_type: 'upgrade', commission_bp: 0, commission_fixed_cents: 500 },
        ],
      },
    },
  })
  const { group } = made.body
  expect((await post('/api/v1/groups', { name: 'Gold', rules }, withKey('gold'))).body).toEqual(made.body)
  expect(await post('/api/v1/groups', { name: 'GOLD' })).toMatchObject({
    status: 409,
    body: { error: { code: 'conflict', details: [{ field: 'name' }] } },
  })
  const { partner } = (await post('/api/v1/partners', { name: 'Grouped', group_id: group.id })).body
  expect(partner).toMatchObject({ group_id: group.id, rules: [] })
  const address = `/api/v1/groups/${group.id}`
  expect((await patch(address, { name: 'Silver' })).body.group).toMatchObject({
    name: 'Silver',
    partners: 1,
    rules: group.rules,
  })
  expect((await patch(address, { rules: [{ commission_bp: 100 }] })).body.group.rules).toMatchObject([
    { commission_bp: 100 },
  ])
  expect((await get(address)).body.group.rules).toHaveLength(1)
  const ofPartner = `/api/v1/partners/${partner.id}`
  expect((await patch(ofPartner, { rules: [{ commission_bp: 50 }] })).body.partner).toMatchObject({
    group_id: group.id,
    rules: [{ commission_bp: 50 }],
  })
  expect((await patch(ofPartner, { group_id: null, rules: [] })).body.partner).toMatchObject({
    group_id: null,
    rules: [],
  })
  for (const group_id of [
    999_999,
    (await post('/api/v1/groups', { name: 'Theirs' }, { key: other.apiKey })).body.group.id,
  ]) {
    const refused = { status: 409, body: { error: { code: 'conflict', details: [{ field: 'group_id' }] } } }
    expect(await patch(ofPartner, { group_id, name: 'Half' })).toMatchObject(refused)
    expect(await post('/api/v1/partners', { name: 'Half', group_id })).toMatchObject(refused)
  }
  expect((await get(ofPartner)).body.partner.name).toBe('Grouped')
})

test('a code is given once, found by its text, and revoked', async () => {
  const asked = { partner_id: program.partnerId, code: 'Spring-20' }
  const made = await post('/api/v1/codes', asked, withKey('spring'))
  expect(made).toMatchObject({
    status: 200,
    body: { code: { ...asked, status: 'active', promotion_code_id: null, revoked_at: null } },
  })
  expect((await post('/api/v1/codes', asked, withKey('spring'))).body).toEqual(made.body)
  expect((await get('/api/v1/codes?code=SPRING-20')).body.data).toEqual([made.body.code])
  const partner = (await post('/api/v1/partners', { name: 'Coded' })).body.partner
  const taken = { status: 409, body: { error: { code: 'conflict', details: [{ field: 'code' }] } } }
  expect(await post('/api/v1/codes', { partner_id: partner.id, code: 'spring-20' })).toMatchObject(taken)
  const address = `/api/v1/codes/${made.body.code.id}`
  const revoked = await api.call(address, undefined, { method: 'DELETE', key: program.apiKey, databaseRequests: 2 })
  expect(revoked.body.code).toMatchObject({ status: 'revoked', revoked_at: expect.any(String) })
  expect(
    (await api.call(address, undefined, { method: 'DELETE', key: program.apiKey, databaseRequests: 2 })).body,
  ).toEqual(revoked.body)
  expect(await post('/api/v1/codes', { partner_id: partner.id, code: 'spring-20' })).toMatchObject(taken)
  expect((await get('/api/v1/codes?status=active&code=spring-20')).body.data).toEqual([])
  expect((await post('/api/v1/codes', asked)).body.code).toMatchObject({ id: made.body.code.id, status: 'active' })
  expect(await post('/api/v1/codes', { partner_id: 999_999_999, code: 'NOBODYS' })).toMatchObject({ status: 409 })
  const discounted = { ...asked, stripe: { percent_off: 20, duration: 'once' } }
  expect((await post('/api/v1/codes', discounted, { databaseRequests: 3 })).body.code).toMatchObject({
    id: made.body.code.id,
    promotion_code_id: expect.stringMatching(/^promo_/),
  })
})

test.each([
  ['none', {}, 'code'],
  ['one with a space', { code: 'A B' }, 'code'],
  ['one that is too long', { code: 'x'.repeat(65) }, 'code'],
  ['one with a line break', { code: 'A\nB' }, 'code'],
  ['one that Stripe does not take', { code: 'CAFÉ', stripe: { coupon_id: 'c' } }, 'code'],
  ['a code beside a promotion code', { code: 'A', stripe: { promotion_code_id: 'promo_1' } }, 'code'],
  ['no id of a promotion code', { stripe: { promotion_code_id: 'cou_1' } }, 'stripe'],
  ['a discount of nothing', { code: 'A', stripe: { duration: 'once' } }, 'stripe'],
  ['a discount of both', { code: 'A', stripe: { percent_off: 1, amount_off_cents: 1, duration: 'once' } }, 'stripe'],
  [
    'months of a discount on one',
    { code: 'A', stripe: { percent_off: 1, duration: 'once', duration_in_months: 2 } },
    'stripe',
  ],
])('a code is refused: %s', async (_, code, field) => {
  const answer = await post('/api/v1/codes', { partner_id: program.partnerId, ...code }, { databaseRequests: 1 })
  expect([answer.status, answer.body.error.details?.[0].field.split('.')[0]]).toEqual([400, field])
})

test.each([
  ['two for every sale', [{ commission_bp: 1 }, { commission_bp: 2 }], 'rules'],
  ['two for one product', [{ product_id: 'prod_1' }, { product_id: 'prod_1', sale_type: null }], 'rules'],
  ['one for a product and a type', [{ product_id: 'prod_1', sale_type: 'payment' }], 'rules.0.sale_type'],
  ['a lead of a product', [{ product_id: 'prod_1', lead_commission_cents: 1 }], 'rules.0.lead_commission_cents'],
  ['more than everything', [{ commission_bp: 10_001 }], 'rules.0.commission_bp'],
  ['an amount below zero', [{ commission_fixed_cents: -1 }], 'rules.0.commission_fixed_cents'],
  ['no months', [{ commission_duration_months: 0 }], 'rules.0.commission_duration_months'],
  ['what no database could hold', [{ lifetime_cap_cents: 1e15 }], 'rules.0.lifetime_cap_cents'],
  ['a type that is no text', [{ sale_type: '\0' }], 'rules.0.sale_type'],
  ['fifty-one', Array.from({ length: 51 }, (_, n) => ({ product_id: `prod_${n}` })), 'rules'],
])('rules are refused: %s', async (_, rules, field) => {
  const answer = await post('/api/v1/groups', { name: crypto.randomUUID(), rules }, { databaseRequests: 1 })
  expect([answer.status, answer.body.error.details?.[0].field]).toEqual([400, field])
})

test('what a person says of themselves is not for the API to change', async () => {
  expect(await patch(`/api/v1/partners/${program.partnerId}`, { name: 'Other' })).toMatchObject({
    status: 409,
    body: { error: { code: 'conflict' } },
  })
})

test('the audit log names the key that did it', async () => {
  const made = await post('/api/v1/partners', { name: 'Logged', code: 'logged-1' })
  const { id } = made.body.partner
  await patch(`/api/v1/partners/${id}`, { name: 'Logged again' })
  const link = await post('/api/v1/links', { partner_id: id, code: 'logged-2' })
  await patch(`/api/v1/links/${link.body.link.id}`, { external_id: 'logged' })
  const commission = await sell()
  await patch(`/api/v1/commissions/${commission}`, { status: 'approved' })
  const entries = await listAuditEntries(api.stack.db, program.workspaceId, { limit: 5 })
  const actor = `API key default …${program.apiKey.slice(-4)}`
  expect(entries.toReversed()).toMatchObject([
    { actor, action: 'partner.added', subject: String(id) },
    { actor, action: 'partner.changed', subject: String(id) },
    { actor, action: 'partner.link_added', subject: 'logged-2' },
    { actor, action: 'partner.link_changed', subject: 'logged-2' },
    { actor, action: 'commission.approved', subject: String(commission) },
  ])
})

test.for([
  ['', null],
  [
    'group_by=partner&interval=day&time_zone=Asia/Kolkata&metrics=clicks,revenue_cents&sort=revenue_cents&order=asc&limit=1',
    null,
  ],
  ['group_by=utm_source&from=2026-01-01&to=2028-12-31&interval=week&currency=eur', null],
  ['time_zone=europe/berlin', null],
  ['metrics=clicks', null],
  ['group_by=city', 'group_by'],
  ['group_by=', 'group_by'],
  ['group_by=link&group_by=page', 'group_by'],
  ['from=2026-02-30', 'from'],
  ['from=0001-01-01', 'from'],
  ['from=2026-01-01T00:00:00Z', 'from'],
  ['from=2026-01-02&to=2026-01-01', 'to'],
  ['from=2023-01-01&to=2026-01-05', 'to'],
  ['from=2999-01-01', 'to'],
  ['time_zone=Mars/Olympus', 'time_zone'],
  ['time_zone=%2B05:30', 'time_zone'],
  ['time_zone=', 'time_zone'],
  ['interval=minute', 'interval'],
  ['interval=hour&from=2026-01-01&to=2026-02-01', 'interval'],
  ['interval=day&from=2026-01-01&to=2027-01-02', 'interval'],
  ['group_by=page&interval=hour&from=2026-01-01&to=2026-01-09&limit=100', 'limit'],
  ['metrics=clicks,money', 'metrics'],
  ['metrics=', 'metrics'],
  ['sort=sales&metrics=clicks', 'sort'],
  ['sort=value', 'sort'],
  ['order=up', 'order'],
  ['limit=1e1', 'limit'],
  ['currency=USD', 'currency'],
] as const)('performance?%s is answered, or refused for %s by its rule', async ([query, field]) => {
  const { status, body } = await get(`/api/v1/performance?${query}`, { databaseRequests: field === null ? 2 : 1 })
  expect([status, body.error?.details[0].field ?? null]).toEqual([field === null ? 200 : 400, field])
})

test('performance shows what was counted of the program, and of no other one', async () => {
  const shop = await api.program({ name: 'Counted' })
  const clickId = await api.click(shop, {
    affiliate_url: `https://shop.example.com/?aff=${shop.partnerCode}&utm_source=mail`,
  })
  await api.call(
    '/api/v1/track/sale',
    { transaction_id: 'grouped', customer_key: 'buyer', click_id: clickId, amount_cents: 5000 },
    { key: shop.apiKey },
  )
  const query = 'group_by=utm_source&interval=month&metrics=clicks,sales,revenue_cents,conversion_rate'
  const read = async () => (await get(`/api/v1/performance?${query}`, { key: shop.apiKey })).body
  expect(await read()).toMatchObject({ total: { clicks: 0, revenue_cents: 0 }, data: [] })
  while ((await countClicks(api.stack.db, 1000)) + (await countFigures(api.stack.db, 1000)) > 0);
  const figures = { clicks: 1, sales: 1, revenue_cents: 5000, conversion_rate: 100 }
  const { total, data, ...asked } = await read()
  expect(asked).toMatchObject({ group_by: 'utm_source', time_zone: 'UTC', interval: 'month', currency: 'usd' })
  expect(total).toMatchObject(figures)
  expect(data).toEqual([{ value: 'mail', ...figures, intervals: expect.any(Array) }])
  expect((await get('/api/v1/performance?group_by=utm_source', { key: other.apiKey })).body.data).toEqual([])
})

test('links are added and changed, on the own domain and while their partner is on', async () => {
  const made = await post('/api/v1/partners', { name: 'Linked' })
  const partner_id = made.body.partner.id
  const { domain } = (await api.rows('select domain from programs where id = $1', [program.programId]))[0]
  const asked = {
    partner_id,
    code: 'spring-sale',
    page_url: `https://${domain}/spring`,
    metadata: { a: 'b' },
    external_id: 'l1',
  }
  const { link } = (await post('/api/v1/links', asked)).body
  expect(link).toMatchObject({ ...asked, url: `https://${domain}/spring?aff=spring-sale`, status: 'active', clicks: 0 })
  expect((await get('/api/v1/links?code=SPRING-sale')).body.data).toEqual([link])
  const path = `/api/v1/links/${link.id}`
  const page_url = 'https://elsewhere.example/'
  expect((await patch(path, { page_url }, { databaseRequests: 1 })).body.error.details[0].field).toBe('page_url')
  expect((await patch(path, { status: 'inactive', page_url: null })).body.link).toMatchObject({
    status: 'inactive',
    page_url: null,
  })
  await patch(`/api/v1/partners/${partner_id}`, { name: 'Still off' })
  expect((await get(`/api/v1/links?external_id=l1`)).body.data[0].status).toBe('inactive')
  await patch(`/api/v1/partners/${partner_id}`, { status: 'inactive' })
  expect((await patch(path, { status: 'active' })).status).toBe(409)
  expect((await post('/api/v1/links', { partner_id })).status).toBe(409)
  expect((await post('/api/v1/links', { partner_id: program.partnerId, code: 'SPRING-SALE' })).status).toBe(409)
  expect((await post('/api/v1/links', { partner_id: program.partnerId, external_id: 'l1' })).status).toBe(409)
})

test('a customer, their sale and its commission are read by their own names', async () => {
  const click_id = await api.click(program)
  const customer_key = 'user 1/ö'
  await api.call('/api/v1/track/lead', { customer_key, click_id }, key)
  await api.call(salePath, { transaction_id: 'order/1', customer_key, amount_cents: 5000 }, key)
  await api.call(refundPath, { transaction_id: 'order/1', refund_amount_cents: 1000 }, key)
  const { customer } = (await get(`/api/v1/customers/${click_id}`)).body
  expect(customer).toMatchObject({ click_id, customer_key, status: 'conversion', partner_id: program.partnerId })
  expect((await get(`/api/v1/customers/${encodeURIComponent(customer_key)}`)).body.customer).toEqual(customer)
  const { sale } = (await get(`/api/v1/sales/${encodeURIComponent('order/1')}`)).body
  expect(sale).toMatchObject({
    click_id,
    customer_key,
    amount_cents: 5000,
    refunded_cents: 1000,
    commission: { status: 'refunded', amount_cents: 1000, reversed_cents: 200 },
  })
  expect((await get(`/api/v1/sales?customer_key=${encodeURIComponent(customer_key)}`)).body.data).toEqual([sale])
  const of = (list: string, partnerId: number) => get(`/api/v1/${list}?partner_id=${partnerId}`)
  expect((await of('sales', program.partnerId)).body.data).toContainEqual(sale)
  expect((await of('sales', program.partnerId + 1)).body.data).not.toContainEqual(sale)
  const visitor = await api.click(program)
  const theirs: { click_id: string }[] = (await of('customers', program.partnerId)).body.data
  expect(theirs).toContainEqual(customer)
  expect(theirs.map((one) => one.click_id)).not.toContain(visitor)
  expect((await of('customers', program.partnerId + 1)).body.data).not.toContainEqual(customer)
  const { data } = (await get('/api/v1/commissions?transaction_id=order%2F1')).body
  expect(data).toMatchObject([{ id: sale.commission.id, transaction_id: 'order/1', sale_cents: 5000 }])
  expect((await get('/api/v1/customers/nobody')).status).toBe(404)
  expect((await get('/api/v1/sales/nothing')).status).toBe(404)
})

test('money is decided on by the rules of the dashboard, and again changes nothing', async () => {
  const commission = await sell()
  const path = `/api/v1/commissions/${commission}`
  for (let time = 0; time < 2; time++) {
    expect((await patch(path, { status: 'approved' })).body.commission).toMatchObject({ status: 'approved' })
  }
  const run = (await post('/api/v1/payout-runs', {})).body.payout_run
  const whole = (await get(`/api/v1/payout-runs/${run.id}`)).body.payout_run
  expect(whole).toMatchObject({ status: 'open', payouts: 1, payout_list: [{ status: 'requested' }], left_out: [] })
  const [{ id, amount_cents }] = whole.payout_list
  const payout = `/api/v1/payouts/${id}`
  const transfer = { status: 'paid', amount_cents, reference: 'transfer 1', paid_on: '2026-11-20' }
  expect((await patch(payout, { ...transfer, amount_cents: amount_cents + 1 })).status).toBe(409)
  expect((await patch(payout, { ...transfer, reason: 'x' }, { databaseRequests: 1 })).status).toBe(400)
  expect((await patch(payout, { ...transfer, paid_on: '9999-12-31' }, { databaseRequests: 1 })).status).toBe(400)
  expect((await patch(payout, { status: 'paid' }, { databaseRequests: 1 })).status).toBe(400)
  for (let time = 0; time < 2; time++) {
    expect((await patch(payout, transfer)).body.payout).toMatchObject({
      status: 'paid',
      reference: 'transfer 1',
      paid_on: '2026-11-20',
    })
  }
  expect((await patch(payout, { status: 'refused', reason: 'late' })).status).toBe(409)
  expect((await get(payout)).body.payout).toMatchObject({ status: 'paid' })
  expect((await get(`/api/v1/payouts?payout_run_id=${run.id}&status=paid`)).body.data).toHaveLength(1)
  expect((await post('/api/v1/payout-runs', {})).status).toBe(409)
  for (let time = 0; time < 2; time++) {
    const rejected = await patch(path, { status: 'rejected', reason: 'Self-referral' })
    expect(rejected.body.commission).toMatchObject({ status: 'reversed', reason: 'Self-referral' })
  }
  expect((await patch(path, { status: 'approved' })).status).toBe(409)
})

test('a webhook endpoint is made with its secret, read without it, changed, rotated and deleted', async () => {
  const asked = {
    url: 'https://hooks.example.com/orders',
    description: 'Orders',
    types: ['sale.created', 'payout.paid'],
  }
  const { secret, ...made } = await listenTo(asked)
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(made).toMatchObject({ ...asked, status: 'active', inactive_because: null, previous_secret_until: null })
  const path = `/api/v1/webhook-endpoints/${made.id}`
  expect((await get(path)).body).toEqual({ success: true, webhook_endpoint: made })
  expect((await get('/api/v1/webhook-endpoints')).body.data).toContainEqual(made)
  const off = { status: 'inactive', description: null, types: ['lead.created'] }
  expect((await patch(path, off)).body.webhook_endpoint).toEqual({
    ...made,
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
  // Sent again it rotates nothing, and answers the secret that the first answer may have lost.
  expect((await post(`${path}/rotate-secret`, undefined, withKey('rotate-once'))).body).toEqual(rotated.body)
  expect(
    (await api.rows('select secret_number from webhook_endpoints where id = $1', [made.id]))[0].secret_number,
  ).toBe(2)

  const gone = () => api.call(path, undefined, { method: 'DELETE', ...key, ...twoRequests })
  for (let time = 0; time < 2; time++) expect((await gone()).body).toEqual({ success: true, deleted_id: made.id })
  expect((await get(path)).status).toBe(404)
  expect((await patch(path, { status: 'active' })).status).toBe(404)
  expect((await get(`${path}/deliveries`)).status).toBe(404)
  const entries = await listAuditEntries(api.stack.db, program.workspaceId, { limit: 7 })
  const actor = `API key default …${program.apiKey.slice(-4)}`
  const acts = entries.filter(({ subject }) => subject === asked.url)
  expect(acts.map((entry) => [entry.actor, entry.action])).toEqual(
    expect.arrayContaining(
      ['made', 'turned_off', 'turned_on', 'secret_rotated', 'deleted'].map((act) => [actor, `webhook.${act}`]),
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
  [{ types: ['sale.made'] }, 'types.0'],
  [{ types: ['webhook.test'] }, 'types.0'],
  [{ description: 'x'.repeat(201) }, 'description'],
] as const)('a webhook endpoint with %.60j is refused for %s, made or changed', async ([settings, field]) => {
  const asked = { url: 'https://hooks.example.com/', types: ['sale.created'], ...settings }
  const before = await endpoints()
  // What the schema takes is refused before anything is written, too.
  const { status, body } = await post('/api/v1/webhook-endpoints', asked, { databaseRequests: 1 })
  expect([status, body.error.details[0].field]).toEqual([400, field])
  expect(await endpoints()).toBe(before)
  const changed = await patch('/api/v1/webhook-endpoints/1', settings, { databaseRequests: 1 })
  expect([changed.status, changed.body.error.details[0].field]).toEqual([400, field])
})

test('a webhook endpoint without what it needs, or with more, is refused by name', async () => {
  for (const [asked, field] of [
    [{ types: ['sale.created'] }, 'url'],
    [{ url: 'https://hooks.example.com/' }, 'types'],
    [{ url: 'https://hooks.example.com/', types: ['sale.created'], secret: 'whsec_mine' }, 'secret'],
  ] as const) {
    const { status, body } = await post('/api/v1/webhook-endpoints', asked, { databaseRequests: 1 })
    expect([status, body.error.details[0].field]).toEqual([400, field])
  }
})

test('a program has twenty webhook endpoints at most, however many ask at once', async () => {
  const busy = await api.program()
  const asked = times(24, () => ({ url: 'https://hooks.example.com/c', types: ['sale.created'] }))
  const answers = await api.callAll('/api/v1/webhook-endpoints', asked, { key: busy.apiKey })
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20)
  expect(answers.filter(({ status, body }) => status === 409 && body.error.code === 'conflict')).toHaveLength(4)
})

test('deliveries are listed page by page, read with their tries, and sent again one by one or by their time', async () => {
  const shop = await api.program()
  const own = { key: shop.apiKey }
  const made = await listenTo({}, own)
  const path = `/api/v1/webhook-endpoints/${made.id}`
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
    `update webhook_deliveries set status = 'failed', tries = 9, next_try_at = null, finished_at = now()
    where endpoint_id = $1 and 'evt_' || message_id = any ($2)`,
    [made.id, [last, second]],
  )
  await api.rows(
    `insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, answer)
    select program_id, endpoint_id, message_id, now(), 12, 500, 'broken' from webhook_deliveries where endpoint_id = $1 and 'evt_' || message_id = $2`,
    [made.id, last],
  )
  const failed = (await get(`${path}/deliveries?status=failed`, own)).body.data
  expect(failed).toMatchObject([{ id: last, tries: 9, next_try_at: null }, { id: second }])
  expect((await get(`${path}/deliveries/${last}`, own)).body.delivery).toEqual({
    ...failed[0],
    attempts: [{ attempted_at: expect.any(String), duration_ms: 12, status: 500, error: null, answer: 'broken' }],
  })
  expect(failed[0].payload).toMatchObject({ id: last, type: 'webhook.test', data: { endpoint_id: made.id } })

  const replay = (body: object, options = {}) => post(`${path}/replay`, body, { ...own, ...options })
  const since = new Date(Date.now() - 3_600_000).toISOString()
  expect((await replay({ since, until: '2026-01-01T00:00:00Z' }, { databaseRequests: 1 })).status).toBe(400)
  expect((await replay({ since: '2020-01-01T00:00:00Z', until: since })).body).toEqual({ success: true, replayed: 0 })
  expect((await replay({ delivery_id: last })).body).toEqual({ success: true, replayed: 1 })
  expect((await replay({ delivery_id: last })).body).toEqual({ success: true, replayed: 0 })
  expect((await replay({ since, failed_only: true })).body).toEqual({ success: true, replayed: 1 })
  expect((await get(`${path}/deliveries/${second}`, own)).body.delivery).toMatchObject({ status: 'pending', tries: 0 })
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
  // Nothing of it is another program's.
  const elsewhere = await listenTo({}, { key: other.apiKey })
  const strange = `/api/v1/webhook-endpoints/${elsewhere.id}`
  expect((await get(`${strange}/deliveries/${last}`, { key: other.apiKey })).status).toBe(404)
  expect((await post(`${strange}/replay`, { delivery_id: last }, { key: other.apiKey })).status).toBe(404)
})

test('an endpoint without an address keeps what is fetched, and gets no address', async () => {
  const made = await listenTo({ url: null })
  const path = `/api/v1/webhook-endpoints/${made.id}`
  const { delivery_id: id } = (await post(`${path}/test`, undefined)).body
  expect((await get(`${path}/deliveries`)).body.data).toMatchObject([{ id, status: 'pending', next_try_at: null }])
  expect((await patch(path, { url: 'https://hooks.example.com/' })).status).toBe(409)
  expect((await post(`${path}/replay`, { delivery_id: id })).status).toBe(404)
})

test('events are turned page by page through moments that many share', async () => {
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

test('the client makes, changes and reads over all pages, and says what was refused', async () => {
  const client = new SvcApi({ apiKey: program.apiKey, baseUrl: `${api.stack.baseUrl}/` })
  const asked = { name: 'By the client', code: 'by-client', metadata: { from: 'client' } }
  const made = await client.partners.create(asked, { idempotencyKey: 'client-1' })
  expect(made).toMatchObject({ ok: true, status: 200, data: { name: 'By the client', metadata: { from: 'client' } } })
  expect(await client.partners.create(asked, { idempotencyKey: 'client-1' })).toEqual(made)
  expect(await client.partners.create(asked)).toMatchObject({ ok: false, status: 409, error: { code: 'conflict' } })
  const id = made.data?.id ?? 0
  expect(await client.partners.get(id)).toEqual(made)
  const link = await client.links.create({ partner_id: id, code: 'by-client-2' })
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

test('the client sends a creation whose answer was lost again, and makes one thing', async () => {
  const client = new SvcApi({ apiKey: program.apiKey, baseUrl: api.stack.baseUrl })
  api.stack.neon.inject({ action: 'drop-after', matching: 'insert into "partners"', times: 2 })
  const made = await client.partners.create({ name: 'Twice lost', external_id: 'twice-lost' })
  expect(made).toMatchObject({ ok: true, data: { name: 'Twice lost' } })
  expect((await client.partners.list({ external_id: 'twice-lost' }).page()).data?.data).toEqual([made.data])
})

test('the client reads and decides on money', async () => {
  const client = new SvcApi({ apiKey: program.apiKey, baseUrl: api.stack.baseUrl })
  const commission = await sell()
  expect(await client.commissions.approve(commission)).toMatchObject({ data: { status: 'approved' } })
  const run = await client.payoutRuns.create()
  const [payout] = (await client.payoutRuns.get(run.data?.id ?? 0)).data?.payout_list ?? []
  const { id = 0, amount_cents = 0 } = payout ?? {}
  const paid = await client.payouts.markPaid(id, { amount_cents, reference: 'bank 1', paid_on: '2026-11-21' })
  expect(paid).toMatchObject({ data: { status: 'paid', reference: 'bank 1' } })
  expect((await client.payouts.list({ status: 'paid' }).page()).data?.data[0]).toMatchObject({ id })
  expect(await client.commissions.reject(commission, 'no')).toMatchObject({ data: { status: 'reversed' } })
  expect(await client.customers.get('nobody')).toMatchObject({ ok: false, status: 404 })
})
