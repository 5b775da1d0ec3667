import { expect, test } from 'vitest'
import { blockProgram, endBlock } from '../lib/access/blocks.ts'
import { pngOf } from './support/images.ts'
import { refusalIn } from './support/refusal.ts'
import { cookieOf, partnerPaths, startDashboard } from './support/dashboard.ts'
import { routes } from './support/route-access.ts'

const { stack, sandbox, rival, person, get, post } = await startDashboard()
const { programId, workspaceId } = sandbox

const programPaths = [
  '',
  ...`
    /performance.csv /events /events.csv /test /test/events /test/events.csv /test/deliveries
    /test/deliveries.csv /partners /partners.csv /partners/1/rules /groups /groups/everybody
    /groups/everybody/preview /commissions /commissions.csv /sales/secret-transaction /customers/1
    /payouts /payouts.csv /payouts /notifications /notifications.csv /deliveries /deliveries.csv
    /deliveries/notifications /deliveries/notifications.csv /webhooks /webhooks/deliveries
    /webhooks/deliveries.csv /settings /check
  `
    .trim()
    .split(/\s+/),
].map((path) => `/programs/${programId}${path}`)
const ownerPaths = [...programPaths, '/programs/new', `/workspaces/${workspaceId}/members`, '/account']
const publicPaths =
  '/sign-in /sign-up /verify-email?token=x /forgot-password /reset-password?token=x /invitation?token=x'.split(' ')

const pages: [path: string, token: string | undefined][] = [
  ...ownerPaths.map((path): [string, string] => [path, sandbox.dashboardToken]),
  ...partnerPaths.map((path): [string, string] => [path, sandbox.partnerToken]),
  ...publicPaths.map((path): [string, undefined] => [path, undefined]),
]

test.each(pages)("%s is not cached, runs no inline script and can't be framed", async (path, token) => {
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

test('page assets are cached forever, under an address that changes with the content', async () => {
  const { text } = await get('/sign-in')
  const assets = [...text.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path = '']) => path)
  expect(assets).toHaveLength(4)
  for (const path of assets) {
    expect(path).toMatch(/-[0-9a-z]{5,}\.(css|js|svg|woff2)$/)
    const { status, headers } = await get(path)
    expect(status).toBe(200)
    expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  }
  expect((await get('/assets/dashboard-old.css')).status).toBe(404)
})

const posts = [
  ...Object.keys(routes.program),
  ...routes.workspace,
  ...routes.partner,
  ...routes.signedIn,
  'POST /sign-out',
]
  .filter((route) => route.startsWith('POST '))
  .map((route) =>
    route
      .slice('POST '.length)
      .replace(':programId', `${programId}`)
      .replace(':workspaceId', workspaceId)
      .replaceAll(/:\w+/g, '1'),
  )

/** Reads all data that a POST request could change. */
async function state() {
  const { rows } = await stack.sql.query(`
    select (select count(*) from programs) as programs, (select count(*) from partners) as partners,
      (select count(*) from api_keys) as keys, (select json_agg(e order by id) from webhook_endpoints e) as endpoints, (select count(*) from api_keys where revoked_at is not null) as retired,
      (select count(*) from workspace_invitations) as invitations, (select count(*) from sessions) as sessions,
      (select count(*) from program_members) as openings, (select count(*) from payouts) as payouts,
      (select json_agg(p order by id) from programs p) as settings, (select json_agg(c order by id) from commissions c) as commissions,
      (select json_agg(m order by user_id, workspace_id) from workspace_members m) as members,
      (select json_agg(l order by id) from referral_links l) as links, (select json_agg(u order by id) from customers u) as customers`)
  return rows[0] as unknown
}

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
  ['a form', {}, new URLSearchParams({ name: 'X', reason: 'no' })],
  ['JSON', { 'content-type': 'application/json' }, '{}'],
  ['no declared body', {}, undefined],
])('a post of %s from another origin is refused on every page and changes nothing', async (_what, headers, body) => {
  expect(posts.length).toBeGreaterThan(80)
  const before = await state()
  for (const path of posts) {
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

test("a first program creates its own workspace and doesn't join another one", async () => {
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
  const created = await post('/programs/new', { ...program, workspace: 'Founders' }, founder.token)
  const [, createdId = ''] = /^\/programs\/(\d+)\/start\/rate$/.exec(created.headers.get('location') ?? '') ?? []
  const address = `/programs/${createdId}/check`
  const again = await get(address, founder.token)
  expect(again.text).toContain('Set up First')
  expect(again.text).not.toContain('svc_live_')
  expect((await post(`${address}/key`, {}, founder.token)).text).toMatch(
    /npx --yes --package=\S+ svc init --base-url \S+ --api-key svc_live_\w+/,
  )
  const start = `/programs/${createdId}/start`
  const steps = ['rate', 'brand', 'join-page', 'sales', 'partner', 'check']
  for (const [index, step] of steps.slice(0, -1).entries()) {
    const { text } = await get(`${start}/${step}`, founder.token)
    expect(text).toContain(`Step ${index + 2} of 6`)
    const next = steps[index + 1] === 'check' ? address : `${start}/${steps[index + 1]}`
    expect(text).toContain(`href="${next}">Skip</a>`)
  }
  const rate = await post(
    `/programs/${createdId}/settings?step=rate`,
    { ...program, commission_bp: '12.5' },
    founder.token,
  )
  expect(rate.headers.get('location')).toBe(`${start}/brand`)
  const page = await post(`${start}/join-page`, { headline: 'Earn with us', intro: 'Hi' }, founder.token)
  expect(page.headers.get('location')).toBe(`${start}/sales`)
  await stack.sql.query(`update sign_in_attempts set attempts = 20 where key = 'new programs of ' || $1`, [
    founder.userId,
  ])
  expect((await post('/programs/new', program, founder.token)).status).toBe(429)
})

test('people sign up, sign in and sign out on the pages', async () => {
  const email = `ada-${crypto.randomUUID()}@example.com`
  const password = 'correct horse battery'
  const weak = await post('/sign-up?next=/account', { name: 'Ada', email, password: 'short' })
  expect(refusalIn(weak.headers)).toContain('Use at least 10 characters.')
  expect(refusalIn(weak.headers)).not.toContain('short')
  const signedUp = await post('/sign-up?next=/account', { name: 'Ada', email, password })
  expect([signedUp.status, signedUp.headers.get('location')]).toEqual([303, '/account'])
  const firstToken = decodeURIComponent(
    /__Host-svc_session=([^;]+)/.exec(signedUp.headers.getSetCookie().join())?.[1] ?? '',
  )
  expect((await get('/account', firstToken)).text).toContain(`Confirm your e-mail address: we sent a link to`)
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
  // The first download of a payment file changes its payouts.
  ['/programs/1/payouts/payouts.csv?layout=wise&currency=usd', '/'],
  ['/programs/1/payout-runs/1/file%2Ecs%76', '/'],
  ['/%E0', '/'],
]

test.each(destinations)('after sign-in, next=%s redirects to %s', async (next, location) => {
  const { status, headers } = await get(`/sign-in?next=${encodeURIComponent(next)}`, sandbox.dashboardToken)
  expect(status).toBe(303)
  expect(headers.get('location')).toBe(location)
})

test('a sign-in page has the language of the page behind it, but not of a page behind a long chain of sign-in pages', async () => {
  const german = { headers: { 'accept-language': 'de' } }
  const languageAt = async (depth: number) => {
    const chain = `${'/sign-in?next='.repeat(depth)}/partner`
    return /<html lang="(\w+)"/.exec(await (await fetch(`${stack.baseUrl}${chain}`, german)).text())?.[1]
  }
  expect([await languageAt(1), await languageAt(2), await languageAt(4)]).toEqual(['de', 'de', 'en'])
})

test('the pages of a blocked program refuse everything, also to its owner', async () => {
  const block = await blockProgram(stack.db, programId, { hours: 1, reason: 'spam' })
  for (const path of programPaths) expect([path, (await get(path, sandbox.dashboardToken)).status]).toEqual([path, 403])
  for (const path of posts.filter((one) => one.startsWith(`/programs/${programId}/`)))
    expect([path, (await post(path, {}, sandbox.dashboardToken)).status]).toEqual([path, 403])
  await endBlock(stack.db, block ?? 0)
  expect((await get(`/programs/${programId}`, sandbox.dashboardToken)).status).toBe(200)
})

test('a person can save 50 views in a program, whatever names of lists they send', async () => {
  await stack.sql.query(
    `insert into saved_views (program_id, user_id, list, name, query)
    select $1, u.id, 'list-' || repeat('a', n), 'A view', '' from users u, generate_series(1, 50) n where u.name = 'Owner'`,
    [programId],
  )
  const save = async (list: string) =>
    await post(`/programs/${programId}/views`, { list, name: 'A view', query: 'q=a' }, sandbox.dashboardToken)
  expect((await save('another-list')).status).toBe(409)
  expect((await save('list-a')).status).toBe(303)
})

test('a program can upload 20 logos a day', async () => {
  const upload = async () => {
    const form = new FormData()
    form.append('logo', new Blob([new Uint8Array(pngOf(40, 20))]), 'logo.png')
    const response = await fetch(`${stack.baseUrl}/programs/${programId}/settings/logo`, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: stack.baseUrl, cookie: cookieOf(sandbox.dashboardToken) },
      body: form,
    })
    return refusalIn(response.headers)
  }
  expect(await upload()).toBe('')
  await stack.sql.query(`update sign_in_attempts set attempts = 20 where key = 'logos of program ' || $1`, [programId])
  expect(await upload()).toContain('A program can upload 20 logos a day.')
})
