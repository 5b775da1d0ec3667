import { expect, test } from 'vitest'
import { addMember, createPerson, tiePartner } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { saveRules } from '../lib/programs/commission-rules.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { createWorkspace } from '../lib/programs/workspaces.ts'
import { refusalIn } from './support/refusal.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({
  functions: ['dashboard', 'relay-outbox', 'track-click', 'track-lead', 'track-sale', 'track-refund'],
})
const env = { ...stack.env, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
const hostile = '<img src=x onerror=alert(1)>"\'&'
const sandbox = await createSandbox(stack.db, env, { name: `Secret program ${hostile}` })
const { programId, workspaceId } = sandbox
const other = await createSandbox(stack.db, env)

async function person(name: string) {
  return await createPerson(stack.db, env, { name, email: `${name}-${crypto.randomUUID()}@example.com` })
}

/** Another partner of the same program, who must not see the first one's sales. */
const rival = await person('rival')
const { partnerId: rivalId } = await addPartner(stack.db, {
  programId,
  name: `=cmd|' /C calc'!A0 ${hostile}`,
  email: rival.email,
  code: null,
})
await tiePartner(stack.db, rivalId, rival.userId)

const removed = await person('removed')
await addMember(stack.db, workspaceId, removed.userId, 'owner')
await stack.sql.query('update workspace_members set removed_at = now() where user_id = $1', [removed.userId])
const guest = await person('guest')
await addMember(stack.db, workspaceId, guest.userId, 'guest')
const expired = await person('expired')
await addMember(stack.db, workspaceId, expired.userId, 'owner')
await stack.sql.query("update sessions set expires_at = now() - interval '1 second' where user_id = $1", [
  expired.userId,
])

async function track(path: string, body: object, apiKey?: string) {
  const response = await fetch(`${stack.baseUrl}/api/v1/track/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify(body),
  })
  const answer: { click_id?: string; commission_id?: number } = await response.json()
  if (!response.ok) throw new Error(JSON.stringify(answer))
  return answer
}

const { click_id: clickId } = await track('click', {
  affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}`,
  page_url: `https://shop.example.com/secret-page`,
})
await track('lead', { customer_key: 'secret-customer', click_id: clickId }, sandbox.apiKey)
await track(
  'sale',
  { transaction_id: 'secret-transaction', customer_key: 'secret-customer', amount_cents: 10_000 },
  sandbox.apiKey,
)
await track('refund', { transaction_id: 'secret-transaction', refund_amount_cents: 2500 }, sandbox.apiKey)

function cookieOf(token: string) {
  return `${sessionCookie}=${encodeURIComponent(token)}`
}

async function get(path: string, token?: string) {
  const headers = { ...(token && { cookie: cookieOf(token) }) }
  const response = await fetch(stack.baseUrl + path, { redirect: 'manual', headers })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

async function post(path: string, fields: Record<string, string>, token?: string, origin = stack.baseUrl) {
  const response = await fetch(stack.baseUrl + path, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin, ...(token && { cookie: cookieOf(token) }) },
    body: new URLSearchParams(fields),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

const programPaths = [
  '',
  '/performance.csv',
  '/events',
  '/events.csv',
  '/test',
  '/test/events',
  '/test/events.csv',
  '/test/deliveries',
  '/test/deliveries.csv',
  '/partners',
  '/partners.csv',
  '/partners/1/rules',
  '/groups',
  '/groups/everybody',
  '/groups/everybody/preview',
  '/commissions',
  '/commissions.csv',
  '/sales/secret-transaction',
  '/customers/1',
  '/withdrawals',
  '/withdrawals.csv',
  '/payouts',
  '/notices',
  '/notices.csv',
  '/deliveries',
  '/deliveries.csv',
  '/deliveries/notifications',
  '/deliveries/notifications.csv',
  '/webhooks',
  '/webhooks/deliveries',
  '/webhooks/deliveries.csv',
  '/settings',
  '/check',
].map((path) => `/programs/${programId}${path}`)
const ownerPaths = [...programPaths, '/programs/new', `/workspaces/${workspaceId}/members`, '/account']
const partnerPaths = [
  '/partner',
  '/partner/links',
  '/partner/commissions',
  '/partner/commissions.csv',
  '/partner/withdrawals',
  '/partner/withdrawals.csv',
  '/partner/notifications',
  '/partner/notifications.csv',
]
const publicPaths = [
  '/sign-in',
  '/sign-up',
  '/verify-email?token=x',
  '/forgot-password',
  '/reset-password?token=x',
  '/invitation?token=x',
]

const pages: [path: string, token: string | undefined][] = [
  ...ownerPaths.map((path): [string, string] => [path, sandbox.dashboardToken]),
  ...partnerPaths.map((path): [string, string] => [path, sandbox.partnerToken]),
  ...publicPaths.map((path): [string, undefined] => [path, undefined]),
]

test.each(pages)('%s is stored nowhere, runs no inline script and is framed by nobody', async (path, token) => {
  const { status, headers, text } = await get(path, token)
  expect(status).toBe(200)
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(headers.get('x-frame-options')).toBe('DENY')
  const policy = headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toContain('unsafe')
  if (path.includes('.csv')) return
  const tags = [...text.matchAll(/<([a-z][^>]*)>/g)].map(([, tag = '']) => tag.replaceAll(/"[^"]*"/g, '""'))
  expect(tags.filter((tag) => /^img|^script(?!.* src="")| style=| on[a-z]+=/.test(tag))).toEqual([])
})

test('what pages load is kept for ever, under an address that changes with it', async () => {
  const { text } = await get('/sign-in')
  const assets = [...text.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path = '']) => path)
  expect(assets).toHaveLength(3)
  for (const path of assets) {
    expect(path).toMatch(/-[0-9a-z]{5,}\.(css|js|svg)$/)
    const { status, headers } = await get(path)
    expect(status).toBe(200)
    expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  }
  expect((await get('/assets/dashboard-old.css')).status).toBe(404)
})

const secret = /secret-page|secret-customer|secret-transaction|Secret program/

const strangers: [who: string, token: string | undefined, status: number][] = [
  ['nobody', undefined, 303],
  ['an expired session', expired.token, 303],
  ['a removed member', removed.token, 404],
  ['a guest to whom the program is not open', guest.token, 404],
  ["another workspace's owner", sandbox.outsiderToken, 404],
  ['a partner', sandbox.partnerToken, 404],
]

test.each(strangers)("%s is shown nothing of a program's pages", async (_who, token, status) => {
  const answers = await Promise.all(programPaths.map((path) => get(path, token)))
  expect(answers.map((answer) => answer.status)).toEqual(programPaths.map(() => status))
  for (const { headers, text } of answers) {
    expect(text).not.toMatch(secret)
    if (status === 303) expect(headers.get('location')).toMatch(/^\/sign-in\?next=%2Fprograms%2F/)
  }
})

test('a member without tracking:list opens the pages of billing and no other', async () => {
  const open = [
    '',
    '/performance.csv',
    '/test',
    '/partners',
    '/partners.csv',
    '/partners/1/rules',
    '/groups',
    '/groups/everybody',
    '/commissions',
    '/commissions.csv',
    '/sales/secret-transaction',
  ]
  const alsoOpen = ['/notices', '/notices.csv', '/payouts', '/withdrawals', '/withdrawals.csv', '/settings', '/check']
  for (const path of programPaths) {
    const { status, text } = await get(path, sandbox.billingToken)
    const own = path.slice(`/programs/${programId}`.length)
    const expected = [...open, ...alsoOpen].includes(own) ? 200 : 403
    expect([path, status]).toEqual([path, expected])
    if (expected === 403) expect(text).not.toMatch(secret)
    expect(text).not.toContain('secret-customer')
  }
})

test('a partner sees their own sales, and another partner of the same program does not', async () => {
  const why = `/partner/sales/${programId}/secret-transaction`
  const explained = await get(why, sandbox.partnerToken)
  expect(explained.status).toBe(200)
  expect(explained.text).not.toMatch(/secret-customer|secret-page/)
  expect((await get(why, rival.token)).status).toBe(404)
  const own = await Promise.all(partnerPaths.map((path) => get(path, sandbox.partnerToken)))
  expect(own.map(({ text }) => text).join()).toContain('secret-transaction')
  const others = await Promise.all(partnerPaths.map((path) => get(path, rival.token)))
  expect(others.map(({ status }) => status)).toEqual(partnerPaths.map(() => 200))
  expect(others.map(({ text }) => text).join()).not.toMatch(/secret-transaction|secret-customer|secret-page/)
  const nobodies = await Promise.all(partnerPaths.map((path) => get(path, sandbox.dashboardToken)))
  expect(nobodies.map(({ status }) => status)).toEqual(partnerPaths.map(() => 404))
})

test('what signups pay stands among what everybody earns, and a fixed amount without a percentage by itself', async () => {
  const {
    programId: id,
    dashboardToken,
    apiKey,
    partnerId,
    ...made
  } = await createSandbox(stack.db, env, {
    lead_commission_cents: 150,
  })
  expect((await get(`/programs/${id}/groups`, dashboardToken)).text).toContain(
    '20 % of each sale; $1.50 for each signup',
  )
  await saveRules(stack.db, id, { partnerId }, [{ commission_fixed_cents: 400 }])
  const { click_id } = await track('click', { affiliate_url: `https://shop.example.com/?aff=${made.partnerCode}` })
  await track('sale', { transaction_id: 'order-1', customer_key: 'ann', amount_cents: 5000, click_id }, apiKey)
  const shown = (await get(`/programs/${id}/sales/order-1`, dashboardToken)).text
  expect(shown.match(/Rate<\/dt>\s*<dd[^>]*>(.*?)<\/dd>/)?.[1]).toBe('$4.00')
})

test('what is found of a commission as it is approved is not called approved already', async () => {
  const made = await createSandbox(stack.db, env, { review_rules: ['paid_ads'] })
  const { click_id } = await track('click', {
    affiliate_url: `https://shop.example.com/?aff=${made.partnerCode}&gclid=abc`,
  })
  const sale = { transaction_id: 'order-1', customer_key: 'ann', amount_cents: 5000, click_id }
  const { commission_id: id } = await track('sale', sale, made.apiKey)
  const commissions = `/programs/${made.programId}/commissions`
  const decided = await post(`${commissions}/decide`, { which: 'shown', shown: `${id}` }, made.dashboardToken)
  const said = decodeURIComponent(decided.headers.getSetCookie().join())
  expect(said).toContain('1 had been approved, rejected or reversed already, or held for review.')
})

const commissionId = (
  await stack.sql.query<{ id: string }>('select id from commissions where program_id = $1', [programId])
).rows[0]?.id

const posts: [path: string, fields: Record<string, string>][] = [
  ['/programs/new', { name: 'X', domain: 'x.example', commission_bp: '1', currency: 'usd' }],
  [`/programs/${programId}/partners`, { name: 'X' }],
  [`/programs/${programId}/partners/${sandbox.partnerId}/deactivate`, {}],
  [`/programs/${programId}/commissions/${commissionId}/approve`, {}],
  [`/programs/${programId}/commissions/${commissionId}/reject`, { reason: 'no' }],
  [`/programs/${programId}/withdrawals/1/pay`, { amount_cents: '1', reference: 'transfer-1', paid_on: '2026-11-20' }],
  [`/programs/${programId}/payouts`, { request_id: crypto.randomUUID() }],
  [`/programs/${programId}/payouts/minimum`, { currency: 'usd', minimum: '5' }],
  [
    `/programs/${programId}/payouts/by-hand`,
    {
      partner_id: '1',
      currency: 'usd',
      request_id: crypto.randomUUID(),
      amount_cents: '1',
      reference: 'transfer-1',
      paid_on: '2026-11-20',
    },
  ],
  [`/programs/${programId}/payouts/1/pay`, { amount_cents: '1', reference: 'transfer-1', paid_on: '2026-11-20' }],
  [`/programs/${programId}/withdrawals/1/refuse`, { reason: 'no' }],
  [`/programs/${programId}/settings`, { name: 'X', domain: 'x.example' }],
  [`/programs/${programId}/settings/forget`, { forgotten: 'secret-customer' }],
  [`/programs/${programId}/settings/keys`, { key_name: 'x' }],
  [`/programs/${programId}/settings/keys/1/retire`, {}],
  [`/programs/${programId}/webhooks`, { url: 'https://evil.example/', 'sale.created': 'on' }],
  [`/programs/${programId}/webhooks/1/rotate`, {}],
  [`/programs/${programId}/test/clear`, {}],
  [`/programs/${programId}/settings/processor/connect`, { account_id: 'acct_other' }],
  [`/programs/${programId}/settings/processor/disconnect`, {}],
  [`/programs/${programId}/settings/processor/own-account`, {}],
  [`/programs/${programId}/settings/processor/known-customers`, {}],
  [`/programs/${programId}/settings/processor/backfill`, { months: '3' }],
  [`/programs/${programId}/settings/processor/backfill/continue`, {}],
  [`/programs/${programId}/settings/processor/backfill/stop`, {}],
  [`/workspaces/${workspaceId}/members`, { email: 'eve@example.com', role: 'owner' }],
  [`/workspaces/${workspaceId}/members/${removed.userId}/remove`, {}],
  [
    `/workspaces/${workspaceId}/members/programs`,
    { user: guest.userId, program: `${programId}`, program_role: 'admin' },
  ],
  ['/account/password', { current: 'x', new: 'a new password' }],
  ['/partner/withdrawals', { balance: `${programId} usd`, amount: '1', request_id: crypto.randomUUID() }],
  ['/partner/links', { program: `${programId}`, page: '', code: 'eve' }],
  ['/sign-out', {}],
]

/** Everything a post could have changed. */
async function state() {
  const { rows } = await stack.sql.query(`
    select (select count(*) from programs) as programs, (select count(*) from partners) as partners,
      (select count(*) from api_keys) as keys, (select json_agg(e order by id) from webhook_endpoints e) as endpoints, (select count(*) from api_keys where retired_at is not null) as retired,
      (select count(*) from workspace_invitations) as invitations, (select count(*) from sessions) as sessions,
      (select count(*) from program_members) as openings, (select count(*) from withdrawals) as withdrawals,
      (select json_agg(p order by id) from programs p) as settings, (select json_agg(c order by id) from commissions c) as commissions,
      (select json_agg(m order by user_id, workspace_id) from workspace_members m) as members,
      (select json_agg(l order by id) from referral_links l) as links, (select json_agg(u order by id) from customers u) as customers`)
  return rows[0] as unknown
}

test.each(posts)('a post to %s from another origin is refused and changes nothing', async (path, fields) => {
  const before = await state()
  for (const token of [sandbox.dashboardToken, sandbox.partnerToken]) {
    expect((await post(path, fields, token, 'https://evil.example')).status).toBe(403)
  }
  expect(await state()).toEqual(before)
})

const misleading = 'Your account is locked\r\nBcc: eve@example.com'
const terms = { domain: 'x.example', commission_bp: '1', currency: 'usd', cookie_window_days: '30', hold_days: '30' }
test.each([
  ['/programs/new', { ...terms, name: misleading }],
  ['/programs/new', { ...terms, name: 'X', workspace: 'x'.repeat(81) }],
  [`/programs/${programId}/settings`, { ...terms, name: '\u202Egnp.exe' }],
  [`/programs/${programId}/partners`, { name: 'x'.repeat(81) }],
  ['/sign-up', { name: misleading, email: 'eve@evil.example', password: 'a long password' }],
])('%s refuses a name that could mislead', async (path, fields: Record<string, string>) => {
  const before = await state()
  const token = fields['workspace'] ? rival.token : sandbox.dashboardToken
  const { headers } = await post(path, fields, path === '/sign-up' ? undefined : token)
  expect(refusalIn(headers)).toContain('80 characters')
  expect(await state()).toEqual(before)
})

test.each([
  ['JSON', { 'content-type': 'application/json' }, '{}'],
  ['no declared body', {}, undefined],
])('so is a post of %s', async (_what, headers, body) => {
  const before = await state()
  for (const [path] of posts) {
    const response = await fetch(stack.baseUrl + path, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: 'https://evil.example', cookie: cookieOf(sandbox.dashboardToken), ...headers },
      ...(body && { body }),
    })
    expect([path, response.status]).toEqual([path, 403])
  }
  expect(await state()).toEqual(before)
})

test('a withdrawal of more than there can be is refused as input', async () => {
  for (const amount of ['999999999999', '999999999999.99', '9999999999999']) {
    const fields = { balance: `${programId} usd`, amount, request_id: crypto.randomUUID() }
    const { headers } = await post('/partner/withdrawals', fields, sandbox.partnerToken)
    expect(refusalIn(headers)).toContain('"amount":"')
  }
})

const outsiders: [who: string, token: string, statuses: number[]][] = [
  ["another workspace's owner", other.dashboardToken, [404]],
  ['a removed member', removed.token, [404]],
  ['a partner', sandbox.partnerToken, [404]],
  ['a member who may not', sandbox.billingToken, [403]],
]

test.each(outsiders)('%s changes nothing of a program', async (_who, token, statuses) => {
  const before = await state()
  const own = posts.filter(
    ([path]) =>
      /^\/(programs\/\d|workspaces)/.test(path) &&
      !(/\/withdrawals\/|\/payouts(?!\/minimum)/.test(path) && token === sandbox.billingToken),
  )
  for (const [path, fields] of own) {
    const { status } = await post(path, fields, token)
    expect([path, status]).toEqual([path, statuses[0]])
  }
  expect(await state()).toEqual(before)
})

test("an owner's ids of another program are not found through their own program", async () => {
  const base = `/programs/${other.programId}`
  const before = await state()
  const answers = [
    await post(`${base}/partners/${sandbox.partnerId}/deactivate`, {}, other.dashboardToken),
    await post(`${base}/commissions/${commissionId}/reject`, { reason: 'mine now' }, other.dashboardToken),
    await post(`${base}/commissions/${commissionId}/approve`, {}, other.dashboardToken),
  ]
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 409])
  expect(await state()).toEqual(before)
})

test("a first program makes a workspace of its own, and goes into no other's", async () => {
  const founder = await person('founder')
  const program = {
    name: 'First',
    domain: 'first.example',
    commission_bp: '10',
    currency: 'usd',
    cookie_window_days: '30',
    hold_days: '14',
    lead_auth_policy: 'server_verified',
    attribution_model: 'last_click',
    attribution_priority: 'code',
  }
  const nameless = await post('/programs/new', { ...program, name: '' }, founder.token)
  expect(refusalIn(nameless.headers)).toContain('Give the program a name.')
  const before = await state()
  const foreign = { ...program, workspace: 'Founders', workspace_id: workspaceId }
  expect((await post('/programs/new', foreign, founder.token)).status).toBe(403)
  expect(await state()).toEqual(before)
  const made = await post('/programs/new', { ...program, workspace: 'Founders' }, founder.token)
  expect(made.text).toMatch(/npx svc init --base-url \S+ --api-key svc_live_\w+/)
  const address = made.headers.get('content-location') ?? ''
  const again = await get(address, founder.token)
  expect(again.text).toContain('Set up First')
  expect(again.text).not.toContain('svc_live_')
  expect((await post(`${address}/key`, {}, founder.token)).text).toMatch(/--api-key svc_live_\w+/)
})

test('the pages sign up, in and out', async () => {
  const email = `ada-${crypto.randomUUID()}@example.com`
  const password = 'correct horse battery'
  const weak = await post('/sign-up?next=/account', { name: 'Ada', email, password: 'short' })
  expect(refusalIn(weak.headers)).toContain('Use at least 10 characters.')
  expect(refusalIn(weak.headers)).not.toContain('short')
  const signedUp = await post('/sign-up?next=/account', { name: 'Ada', email, password })
  expect([signedUp.status, signedUp.headers.get('location')]).toEqual([303, '/sign-in?next=%2Faccount'])
  const wrong = await post('/sign-in', { email, password: 'wrong horse battery' })
  expect(refusalIn(wrong.headers)).toContain('The e-mail address or the password is wrong.')
  expect(refusalIn(wrong.headers)).toContain(email)
  expect(refusalIn(wrong.headers)).not.toContain('wrong horse battery')
  const signedIn = await post('/sign-in?next=//evil.example', { email: email.toUpperCase(), password })
  expect([signedIn.status, signedIn.headers.get('location')]).toEqual([303, '/'])
  const cookie = signedIn.headers.getSetCookie()[0] ?? ''
  expect(cookie).toMatch(/^__Host-svc_session=[^;]+; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
  const token = decodeURIComponent(/=([^;]+)/.exec(cookie)?.[1] ?? '')
  expect((await get('/account', token)).text).toContain(email)
  const signedOut = await post('/sign-out', {}, token)
  expect(signedOut.headers.getSetCookie().join()).toContain('__Host-svc_session=; Max-Age=0; Path=/; HttpOnly; Secure')
  expect((await get('/account', token)).status).toBe(303)
})

const destinations: [next: string, location: string][] = [
  ['/programs/1/events?page=2', '/programs/1/events?page=2'],
  ["/programs/1/partners?q=O'Hara+(Jr.),+a@b:c;*!$", "/programs/1/partners?q=O'Hara+(Jr.),+a@b:c;*!$"],
  ['https://evil.example/', '/'],
  ['//evil.example/', '/'],
  ['/\\evil.example/', '/'],
  ['/\t/evil.example', '/'],
  ['javascript:alert(1)', '/'],
]

test.each(destinations)('after sign-in, next=%s leads to %s', async (next, location) => {
  const { status, headers } = await get(`/sign-in?next=${encodeURIComponent(next)}`, sandbox.dashboardToken)
  expect(status).toBe(303)
  expect(headers.get('location')).toBe(location)
})

const shown = async (path: string) => (await get(`/programs/${programId}${path}`, sandbox.dashboardToken)).text

test('what was refunded stands beside revenue, beside its sale, which leads to its explanation, and in the CSV of events', async () => {
  expect(await shown('')).toMatch(/Revenue<\/dt><dd[^>]*>\$100\.00.*Refunds<\/dt><dd[^>]*>\$25\.00.*?of this revenue/s)
  const sales = await shown('/events?eventType=conversion')
  expect(sales).toContain('$25.00 refunded')
  expect(sales).toContain(`href="/programs/${programId}/sales/secret-transaction"`)
  const [head, row] = (await shown('/events.csv?eventType=conversion')).split('\r\n')
  expect(head).toContain(',amount,refunded,currency,')
  expect(row).toContain(',100,25,usd,')
})

test('CSV files hold what the pages show, and nothing that a spreadsheet would run', async () => {
  const partners = await get(`/programs/${programId}/partners.csv`, sandbox.dashboardToken)
  expect(partners.headers.get('content-disposition')).toBe(`attachment; filename="partners-${programId}.csv"`)
  expect(partners.text).toContain(`"'=cmd|' /C calc'!A0 <img src=x onerror=alert(1)>""'&"`)
  const commissions = await get(`/programs/${programId}/commissions.csv`, sandbox.dashboardToken)
  const [head, row] = commissions.text.split('\r\n')
  expect(head).toBe(
    'id,made,partner_id,partner,kind,transaction_id,status,currency,amount,reversed,reason,hold_until,review_reason,held,flags',
  )
  expect(row).toContain(',sale,secret-transaction,refunded,usd,20,5,')
})

test('an API key is shown once and works', async () => {
  const { text } = await post(`/programs/${programId}/settings/keys`, { key_name: 'server' }, sandbox.dashboardToken)
  const [key = ''] = /svc_live_[0-9A-Za-z]{40,}/.exec(text) ?? []
  await expect(track('lead', { customer_key: 'second', click_id: clickId }, key)).resolves.toMatchObject({
    success: true,
  })
  expect((await get(`/programs/${programId}/settings`, sandbox.dashboardToken)).text).not.toContain(key)
})

test('a page costs two rounds to the database at most before its own figures', async () => {
  const before = stack.neon.requests
  await get(`/programs/${programId}/commissions`, sandbox.dashboardToken)
  expect(stack.neon.requests - before).toBe(2)
})

test.each(['deliveries?before=a%00b', 'events?before=%00', 'commissions?status=%00'])(
  'an address with a NUL is refused: %s',
  async (path) => {
    expect((await get(`/programs/${programId}/${path}`, sandbox.dashboardToken)).status).toBe(400)
  },
)

test('an address that nothing answers is a page, or the envelope under /api/', async () => {
  const page = await get('/nothing/here')
  expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=UTF-8'])
  const api = await get('/api/nothing')
  expect([api.status, JSON.parse(api.text)]).toMatchObject([404, { success: false, error: { code: 'not_found' } }])
})

test('a customer is erased from the settings, by their key or click id', async () => {
  const path = `/programs/${other.programId}/settings/forget`
  const { click_id } = await track('click', { affiliate_url: `https://shop.example.com/?aff=${other.partnerCode}` })
  await track('lead', { customer_key: 'leaving', click_id }, other.apiKey)
  const named = "select from customers where customer_key = 'leaving'"
  expect((await stack.sql.query(named)).rowCount).toBe(1)
  expect(await post(path, { forgotten: 'leaving' }, other.dashboardToken)).toMatchObject({ status: 303 })
  expect((await stack.sql.query(named)).rowCount).toBe(0)
  const again = await post(path, { forgotten: 'leaving' }, other.dashboardToken)
  expect(refusalIn(again.headers)).toContain('"forgotten":"')
})

test('1,121 programs that invite somebody cost their pages three database requests, show a page of names, and can be answered', async () => {
  const invited = await person('invited')
  await stack.sql.query(
    `with made as (
      insert into programs (workspace_id, name, domain) select $1, 'Inviting ' || n, 'x.example' from generate_series(1, 1121) n returning id
    ),
    partner as (insert into partners (program_id, name, email) select id, 'Typed text', $2 from made returning program_id, id)
    insert into partner_invitations (program_id, partner_id, email, token_hash, invited_by, expires_at)
    select program_id, id, $2, sha256(id::text::bytea), (select user_id from workspace_members where workspace_id = $1 and role = 'owner' limit 1),
      now() + interval '14 days' from partner`,
    [workspaceId, invited.email],
  )
  for (const path of ['/partner/invitations', '/account', '/']) {
    const before = stack.neon.requests
    const { text } = await get(path, invited.token)
    expect([path, stack.neon.requests - before]).toEqual([path, expect.toSatisfy((requests: number) => requests <= 3)])
    expect(text).not.toContain('Typed text')
    expect(text.length).toBeLessThan(100_000)
  }
  const answers = async () =>
    [...(await get('/partner/invitations', invited.token)).text.matchAll(/action="([^"]*\/(?:accept|decline))"/g)].map(
      ([, action = '']) => action,
    )
  const [accept = '', , , decline = ''] = await answers()
  expect(await answers()).toHaveLength(100)
  expect((await post(decline, {}, invited.token)).status).toBe(303)
  expect((await get('/partner', invited.token)).status).toBe(404)
  expect((await post(accept, {}, invited.token)).headers.get('location')).toBe('/partner/links')
  expect(await answers()).not.toContain(decline)
  for (const path of [
    '/partner',
    '/partner/links',
    '/partner/withdrawals',
    '/partner/commissions',
    '/partner/notifications',
  ]) {
    const before = stack.neon.requests
    const { status, text } = await get(path, invited.token)
    expect([path, status, stack.neon.requests - before <= 3]).toEqual([path, 200, true])
    expect(text).not.toContain('Typed text')
  }
})

test('invitations are mailed to one address three times a day, and a hundred times from a workspace', async () => {
  const { workspaceId: ours, programId: theirs, dashboardToken } = await createSandbox(stack.db, env)
  const invite = (email: string) => post(`/workspaces/${ours}/members`, { email, role: 'member' }, dashboardToken)
  const mailsTo = async (text: string) =>
    (
      await stack.sql.query<{ subject: string; body: string }>(
        'select subject, body from mails where recipient like $1',
        [text],
      )
    ).rows
  const victim = `victim-${crypto.randomUUID()}@example.com`
  const statuses = []
  for (const email of [victim, victim.toUpperCase(), victim, victim]) statuses.push((await invite(email)).status)
  expect(statuses).toEqual([303, 303, 303, 429])
  // The same address as a partner counts as well, and the partner is added.
  const added = await post(`/programs/${theirs}/partners`, { name: 'Victim', email: victim }, dashboardToken)
  expect(added.status).toBe(303)
  expect(await mailsTo(victim)).toHaveLength(3)
  const tag = crypto.randomUUID().slice(0, 8)
  const many = await Promise.all(Array.from({ length: 110 }, (_, n) => invite(`${tag}-${n}@example.com`)))
  expect(many.filter(({ status }) => status === 303)).toHaveLength(97)
  expect(many.filter(({ status }) => status === 429)).toHaveLength(13)
  expect(await mailsTo(`${tag}-%`)).toHaveLength(97)
  // Another workspace of the same account begins no new count.
  const { rows } = await stack.sql.query(
    'select user_id from workspace_members where workspace_id = $1 and role = $2',
    [ours, 'owner'],
  )
  const next = await createWorkspace(stack.db, { name: 'Next', ownerId: rows[0]?.user_id })
  const email = `${tag}-next@example.com`
  expect((await post(`/workspaces/${next}/members`, { email, role: 'member' }, dashboardToken)).status).toBe(429)
  expect(await mailsTo(email)).toHaveLength(0)
})

test('an unverified account mails nobody, also not by adding a partner', async () => {
  const { programId: theirs, dashboardToken } = await createSandbox(stack.db, env)
  await stack.sql.query(
    `update users u set email_verified = false from workspace_members m join programs p on p.workspace_id = m.workspace_id
    where u.id = m.user_id and p.id = $1`,
    [theirs],
  )
  const email = `victim-${crypto.randomUUID()}@example.com`
  expect((await post(`/programs/${theirs}/partners`, { name: 'Victim', email }, dashboardToken)).status).toBe(303)
  const { rows } = await stack.sql.query('select from mails where recipient = $1', [email])
  expect(rows).toEqual([])
})

test('an account that cannot be connected, and a time that cannot be read back to, are marked in their forms', async () => {
  const path = `/programs/${programId}/settings/processor`
  await stack.sql.query(`update programs set processor_account_id = 'acct_theirs' where id = $1`, [other.programId])
  const forms: [address: string, fields: Record<string, string>, refusal: string][] = [
    ['/connect', {}, '"account_id":"A Stripe account id begins with acct_.'],
    ['/connect', { account_id: 'cus_1' }, '"account_id":"A Stripe account id begins with acct_.'],
    ['/connect', { account_id: 'acct_theirs' }, '"account_id":"This account is connected in another workspace.'],
    ['/backfill', { months: '7' }, '"months":"Choose how far back to import."'],
  ]
  for (const [address, fields, refusal] of forms) {
    const { status, headers } = await post(path + address, fields, sandbox.dashboardToken)
    expect([status, refusalIn(headers)]).toEqual([303, expect.stringContaining(refusal)])
    for (const typed of Object.values(fields)) expect(refusalIn(headers)).toContain(`"${typed}"`)
  }
})

test("an owner is shown where Stripe must send the deployment's own events, and the code that proves whose the account is", async () => {
  const { programId: ownId, dashboardToken: token } = await createSandbox(stack.db, env)
  await stack.sql.query('update programs set processor_account_id = null where id = $1', [ownId])
  const address = `/programs/${ownId}/settings/processor/own-account`
  expect((await post(address, {}, token)).status).toBe(303)
  const { rows } = await stack.sql.query<{ code: string }>('select code from own_account_codes where program_id = $1', [
    ownId,
  ])
  const { text } = await get(address, token)
  for (const part of [`${stack.baseUrl}/api/v1/webhooks/stripe`, rows[0]?.code, 'svc_connect_code', 'data-poll'])
    expect(text).toContain(part)
})

const yen = await createSandbox(stack.db, env, { name: 'מתנות', currency: 'jpy' })
const yenClick = await track('click', { affiliate_url: `https://shop.example.com/?aff=${yen.partnerCode}` })
await track('lead', { customer_key: 'yen', click_id: yenClick.click_id }, yen.apiKey)
await track('sale', { transaction_id: 'yen', customer_key: 'yen', amount_cents: 5250, currency: 'jpy' }, yen.apiKey)
const { rows: earned } = await stack.sql.query<{ id: string; amount: string }>(
  'select id, amount_cents as amount from commissions where program_id = $1',
  [yen.programId],
)
await post(`/programs/${yen.programId}/commissions/${earned[0]?.id}/approve`, {}, yen.dashboardToken)

test.each([
  ['10.50', 'Amounts in JPY have no decimals. Up to ¥1,050 is available.'],
  ['0', 'Enter an amount above zero. Up to ¥1,050 is available.'],
  ['all', 'Enter an amount in digits. Up to ¥1,050 is available.'],
  ['1051', 'Only ¥1,050 is available now. Request that or less.'],
])('a withdrawal of %s yen of 1,050 says which rule it breaks', async (amount, said) => {
  const fields = { balance: `${yen.programId} jpy`, amount, request_id: crypto.randomUUID() }
  const { headers } = await post('/partner/withdrawals', fields, yen.partnerToken)
  expect(refusalIn(headers)).toContain(said)
})

test.each([
  ['withdrawals/1/pay', {}],
  ['payouts/1/pay', {}],
  ['payouts/by-hand', { partner_id: '1', currency: 'jpy', request_id: crypto.randomUUID() }],
])('%s takes no transfer of a day that has not begun', async (path, fields) => {
  const transfer = { ...fields, amount_cents: '1', reference: 'transfer-1', paid_on: '9999-12-31' }
  const { headers } = await post(`/programs/${yen.programId}/${path}`, transfer, yen.dashboardToken)
  expect(refusalIn(headers)).toContain('Enter the day on which the money left: today or before.')
})

test('a withdrawal of no amount is of all that is available, and then nothing is', async () => {
  // The name, written from right to left, would turn the amount around.
  expect((await get('/partner/withdrawals', yen.partnerToken)).text).toContain('\u2068מתנות\u2069: ¥1,050 available')
  const fields = { balance: `${yen.programId} jpy`, amount: '' }
  await post('/partner/withdrawals', { ...fields, request_id: crypto.randomUUID() }, yen.partnerToken)
  expect((await get('/partner/withdrawals', yen.partnerToken)).text).toContain('¥1,050</strong>')
  const { headers } = await post(
    '/partner/withdrawals',
    { ...fields, request_id: crypto.randomUUID() },
    yen.partnerToken,
  )
  expect(refusalIn(headers)).toContain('Nothing is available in JPY now.')
})

test('a partner who is deactivated reads so on each of their pages', async () => {
  await post(`/programs/${yen.programId}/partners/${yen.partnerId}/deactivate`, {}, yen.dashboardToken)
  for (const page of partnerPaths.filter((path) => !path.endsWith('.csv'))) {
    expect([page, (await get(page, yen.partnerToken)).text]).toEqual([
      page,
      expect.stringContaining('has deactivated you as a partner.'),
    ])
  }
})
