import { settingsTabs } from '../functions/dashboard/program/settings-tabs.ts'
import { Stripe } from 'stripe'
import { expect, test } from 'vitest'
import { type Action, may, roles } from '../lib/access/roles.ts'
import { addMember, createPerson } from '../lib/local/people.ts'
import { checkoutSession, stripeEvent } from '../lib/local/stripe-events.ts'
import { readRoutes } from './chaos/routes.ts'
import { today } from './support/ledger.ts'
import { mailing, routes } from './support/route-access.ts'
import { runOn } from './support/stack.ts'
import { startTenants } from './support/tenants.ts'

const { stack, env, victim, attacker, removed, fellow, callers, partnerKeys, send, own } = await startTenants()

type Caller = keyof typeof callers
const names = Object.keys(callers) as Caller[]

/** A route's address with the victim's ids, or with the attacker's program and workspace around them. */
function address(route: string, around: Record<string, string> = {}): string {
  const path = Object.entries({ ...own, ...around }).reduce(
    (text, [name, id]) => text.replace(`/${name}`, `/${id}`),
    route,
  )
  return /\/(payouts|file)\.csv$/.test(path) ? `${path}?layout=wise&currency=usd&file=1` : path
}

/** The fields that the forms of these routes accept. */
const fields = {
  name: 'Taken over',
  domain: 'evil.example',
  email: 'eve@evil.example',
  role: 'owner',
  user: removed.userId,
  program: own[':programId'],
  program_role: 'admin',
  reason: 'no',
  amount_cents: '500',
  reference: 'evil-transfer',
  paid_on: today,
  minimum: '1',
  currency: 'usd',
  partner_id: own[':partnerId'],
  amount: '1',
  balance: `${own[':programId']} usd`,
  request_id: crypto.randomUUID(),
  key_name: 'evil',
  customer_key: 'secret-customer',
  customer: 'secret-customer',
  account_id: 'acct_evil',
  payout_email: 'eve@evil.example',
  part: '1',
  content_base64: 'YQ==',
  url: 'https://evil.example/hooks',
  'sale.created': 'on',
  since: '2026-01-01T00:00',
  until: '2036-01-01T00:00',
  code: 'eve',
  commission_bp: '100',
  sale_type: 'evil',
  which: 'shown',
  ends: '1',
  shown: `${own[':partnerId']} ${own[':commissionId']}`,
  to: own[':groupId'],
  group_id: own[':groupId'],
  page: '',
  new_code: 'EVE-CODE',
  way: 'own',
  client_id: 'x',
  client_secret: 'x',
  duration: 'once',
  current: 'x',
  new: 'a new password',
  kind: 'deduction',
  adjust_note: 'no',
  decision: 'rejected',
  note: 'no',
  [`row-${own[':commissionId']}`]: 'on',
}

const { rows: tables } = await stack.sql.query<{ name: string }>(
  `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'program_id'
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
)
// This excludes exports by the victim's own members, and the refusal of the victim's own revoked key.
const noted: Record<string, string> = {
  audit_log: "and action <> 'data.exported'",
  refused_calls: "and call <> 'key'",
}
const parts = tables.map(
  ({ name }) => `select '${name}' as name, t::text from ${name} t where program_id = $1 ${noted[name] ?? ''}`,
)
// The statement is prepared, because each test runs it twice and planning takes longer than reading.
const everything = {
  name: 'everything',
  text: `${parts.join(' union all ')} union all select 'programs', p::text from programs p where id = $1
    union all select 'partners', p::text from partners p where id = $3
    union all select 'members', m::text from workspace_members m where workspace_id::text = $2
    union all select 'invitations', i::text from workspace_invitations i where workspace_id::text = $2 order by 1, 2`,
}

/** Returns all data of the victim as one string. */
async function victims(): Promise<string> {
  const values = [victim.programId, victim.workspaceId, victim.partnerId]
  const { rows } = await stack.sql.query({ ...everything, values })
  return JSON.stringify(rows)
}

async function statuses(route: string, who: readonly Caller[] = names): Promise<Partial<Record<Caller, number>>> {
  const answers = await Promise.all(who.map((name) => send(address(route), callers[name], fields)))
  return Object.fromEntries(who.map((name, index) => [name, answers[index]?.status]))
}

const except = (...left: Caller[]) => names.filter((name) => !left.includes(name))
const strangers = {
  nobody: 303,
  'a revoked key': 303,
  "its program's key": 303,
  "another program's key": 303,
  "another workspace's owner": 404,
  "another program's partner": 404,
  'another partner of the program': 404,
  'a removed member': 404,
  'an expired session': 303,
}

test('every route of every function has a row here', async () => {
  const rows = Object.values(routes).flatMap((group) =>
    Array.isArray(group) ? (group as string[]) : Object.keys(group),
  )
  expect(await readRoutes()).toEqual(rows.toSorted())
})

/** The first payment file freezes its payouts. Downloading it again changes nothing. */
const paymentFiles = /^GET .*\/(file|payouts\/payouts)\.csv$/

test.each(Object.entries(routes.program))('%s is for members with %s only', async (route, action) => {
  if (paymentFiles.test(route)) {
    await stack.sql.query('update partners set payout_waits_until = null where id = $1', [victim.partnerId])
    await send(address(route).replace('&file=1', ''), callers.owner, fields)
  }
  const before = await victims()
  const reads = route.startsWith('GET')
  const billing = may(['billing'], action) ? 200 : 403
  const doing: Caller[] = ['owner']
  if (billing === 200) doing.push('a member without the action')
  if (!mailing.has(route)) doing.push('an unverified account')
  const asCallers = reads ? names : except(...doing)
  const owners = { owner: 200, 'an unverified account': mailing.has(route) ? 403 : 200 }
  const expected = { ...owners, 'a member without the action': billing, 'its partner': 404, ...strangers }
  const wanted = Object.fromEntries(asCallers.map((name) => [name, expected[name]]))
  expect(await statuses(route, asCallers)).toEqual(wanted)
  expect(await victims()).toBe(before)
})

test.each(routes.workspace)('%s is only for people who manage it', async (route) => {
  const before = await victims()
  const owners = { owner: 200, 'an unverified account': mailing.has(route) ? 403 : 200 }
  const expected = { ...owners, 'a member without the action': 403, 'its partner': 404, ...strangers }
  const doing: Caller[] = mailing.has(route) ? ['owner'] : ['owner', 'an unverified account']
  const asCallers = route.startsWith('GET') ? names : except(...doing)
  expect(await statuses(route, asCallers)).toEqual(Object.fromEntries(asCallers.map((name) => [name, expected[name]])))
  expect(await victims()).toBe(before)
})

test.each(routes.partner)('%s is for partners, and shows nothing of another partner', async (route) => {
  const before = await victims()
  const asCallers = route.startsWith('GET') ? names : except('its partner', 'another partner of the program')
  const found = await statuses(route, asCallers)
  const { "another program's partner": other, ...rest } = found
  const members = { owner: 404, 'an unverified account': 404, 'a member without the action': 404 }
  const isOfOne = /\/(sales|lines|:postbackId)\b/.test(route)
  // A partner of one program is led to its postbacks.
  const answered = route === 'GET /partner/postbacks' ? 303 : 200
  const partners = { 'its partner': answered, 'another partner of the program': isOfOne ? 404 : answered }
  const expected = { ...strangers, ...members, ...partners }
  expect(rest).toEqual(
    Object.fromEntries(
      asCallers.filter((name) => name !== "another program's partner").map((name) => [name, expected[name]]),
    ),
  )
  expect(other).toBeLessThan(500)
  const { text } = await send(route, attacker.partnerToken, fields)
  for (const secret of [victim.partnerCode, 'secret-transaction', 'secret-postback']) expect(text).not.toContain(secret)
  if (route.startsWith('GET')) {
    const beside = await send(address(route), fellow.token)
    const ofPartner = [
      victim.partnerCode,
      'secret-transaction',
      'secret-note',
      'secret-payout',
      'SECRET-CODE',
      'secret-postback',
    ]
    expect(ofPartner.filter((secret) => beside.text.includes(secret))).toEqual([])
  }
  expect(await victims()).toBe(before)
})

test.each([
  'POST /partner/payouts/:programId/:payoutId/cancel',
  'POST /partner/api-keys/:programId/:partnerKeyId/revoke',
  'POST /partner/invitations/:programId/:invitationId/accept',
  'POST /partner/invitations/:programId/:invitationId/decline',
  'GET /partner/applications/:programId/:applicationId',
])('%s changes nothing of another partner of the program or of an applicant', async (route) => {
  const before = await victims()
  for (const token of [fellow.token, attacker.partnerToken, victim.dashboardToken]) {
    const { status, text } = await send(address(route), token, fields)
    expect([404, 409]).toContain(status)
    expect(text).not.toContain('Applicant')
  }
  expect(await victims()).toBe(before)
})

test.each(routes.signedIn)('%s redirects signed-out people to the sign-in page', async (route) => {
  const asCallers = [
    'nobody',
    'a revoked key',
    "its program's key",
    "another program's key",
    'an expired session',
  ] as const
  for (const name of asCallers) {
    const { status, location } = await send(route, callers[name], fields)
    expect([name, status]).toEqual([name, 303])
    expect(location).toMatch(/^\/sign-in/)
  }
})

test.each(Object.entries(routes.read))('%s is for members with %s only', async (route, action) => {
  const found = await statuses(route)
  const keyOrNone = {
    nobody: 401,
    'a revoked key': 401,
    "its program's key": 401,
    "another program's key": 401,
    'an expired session': 401,
  }
  const others = {
    "another workspace's owner": 403,
    "another program's partner": 403,
    'another partner of the program': 403,
    'a removed member': 403,
    'its partner': 403,
  }
  expect(found).toEqual({
    owner: 200,
    'an unverified account': 200,
    'a member without the action': may(['billing'], action) ? 200 : 403,
    ...keyOrNone,
    ...others,
  })
  const { status } = await send(route.replace(':programId', '999999999'), callers.owner)
  expect(status).toBe(404)
})

test.each(routes.documents)('%s is for members who pay partners and for its partner', async (route) => {
  const answers = names.map(async (name) => {
    const { status } = await send(`${address(route)}?partner=${victim.partnerId}`, callers[name])
    return [name, status]
  })
  const found = Object.fromEntries(await Promise.all(answers))
  const signedOut = Object.fromEntries(
    Object.entries(strangers).map(([name, status]) => [name, status === 303 ? 401 : 404]),
  )
  const readers = { owner: 200, 'an unverified account': 200, 'a member without the action': 200, 'its partner': 200 }
  // Partners of the program get their own statement, no matter which partner they request.
  const ofFellow = route.includes('statements') ? { 'another partner of the program': 200 } : {}
  expect(found).toEqual({ ...signedOut, ...readers, ...ofFellow })
})

/** Secrets in the victim's pages and files, with the permission that each requires. */
const secrets: [what: string, text: string, action: Action][] = [
  ["a visitor's page", 'secret-page', 'tracking:list'],
  ["a customer's id", 'secret-customer', 'tracking:list'],
  ['a click id', own.click_id, 'tracking:list'],
  ['a webhook address', 'secret-hook', 'webhook:list'],
  ["a partner's payout address", 'secret-payout@example.com', 'payout-address:read'],
  ["an applicant's e-mail address", 'secret-applicant@example.com', 'payout-address:read'],
  ["a partner's e-mail address", 'secret-partner@example.com', 'payout-address:read'],
  ['the processor account', victim.connectedAccountId, 'processor:manage'],
  ['the note of a manual commission', 'secret-note', 'commission:list'],
  ['the reason for a flagged commission', 'secret-agent', 'tracking:list'],
  ['the name of a group', 'Secret group', 'partner:list'],
  ["a payee's legal name", 'Secret payee', 'payout:list'],
  ["a key's last characters", `…${victim.apiKey.slice(-4)}`, 'api-key:manage'],
  ["a member's address", removed.email, 'member:manage'],
]
await stack.sql.query(
  `update partners set payout_email = 'secret-payout@example.com', email = 'secret-partner@example.com' where id = $1`,
  [victim.partnerId],
)
const people = Object.fromEntries(
  await Promise.all(
    roles.map(async (role) => {
      const person = await createPerson(stack.db, env, {
        name: role,
        email: `${role}-${crypto.randomUUID()}@example.com`,
      })
      await addMember(stack.db, victim.workspaceId, person.userId, role)
      return [role, person.token] as const
    }),
  ),
)
/** The tabs of pages. Each shows different data. */
const tabs: Record<string, readonly string[]> = {
  'GET /programs/:programId/settings': settingsTabs.map(({ name }) => name),
  'GET /programs/:programId/partners/:partnerId': ['commissions', 'payouts', 'links', 'activity', 'settings'],
}
const pages = [...Object.keys(routes.program), ...routes.workspace, ...routes.signedIn]
  .filter((route) => route.startsWith('GET'))
  .flatMap((route) => [route, ...(tabs[route] ?? []).map((tab) => `${route}?tab=${tab}`)])

test.each(roles)('%s sees no data beyond their role on any page or in any file', async (role) => {
  const shown = await Promise.all(pages.map((route) => send(address(route), people[role])))
  const leaks = shown.flatMap(({ text }, index) =>
    secrets
      .filter(([, secret, action]) => !may([role], action) && text.includes(secret))
      .map(([what]) => [pages[index], what]),
  )
  expect(leaks).toEqual([])
  const missing = secrets.filter(
    ([, secret, action]) => may([role], action) && !shown.some(({ text }) => text.includes(secret)),
  )
  expect(missing.map(([what]) => what)).toEqual([])
})

test.each(roles.filter((role) => role !== 'owner'))("%s can't change anything beyond their role", async (role) => {
  const before = await victims()
  const denied = Object.entries(routes.program).filter(([, action]) => !may([role], action))
  const found = await Promise.all(
    denied.map(async ([route]) => [route, (await send(address(route), people[role], fields)).status]),
  )
  // For a guest without access, the program doesn't exist.
  expect(found).toEqual(denied.map(([route]) => [route, role === 'guest' ? 404 : 403]))
  expect(await victims()).toBe(before)
})

const sessions = except('nobody', 'a revoked key', "its program's key", "another program's key")

test.each(routes.keyed)('%s accepts an active key and nothing else', async (route) => {
  const before = await victims()
  const body = route.startsWith('GET') ? undefined : { transaction_id: 'x', customer_key: 'x', amount_cents: 1 }
  for (const name of ['nobody', 'a revoked key', ...sessions] as const) {
    const { status } = await send(route, callers[name], {}, body)
    expect([name, status]).toEqual([name, 401])
  }
  expect((await send(route, partnerKeys.own, {}, body)).status).toBe(401)
  expect(await victims()).toBe(before)
})

await stack.sql.query(`update programs set embed_origins = '{https://app.example.com}'`)

/** Bodies of program API calls that would change the victim's data. */
const changes: Record<string, object> = {
  'POST /api/v1/partners': { name: 'Eve', external_id: 'eve' },
  'PATCH /api/v1/partners/:partner_id': { status: 'inactive' },
  'POST /api/v1/groups': { name: 'Eve', rules: [{ commission_bp: 10_000 }] },
  'POST /api/v1/groups/:group_id/partners': { partner_ids: [victim.partnerId] },
  'PATCH /api/v1/rules': { rules: [{ sale_type: 'evil', commission_bp: 10_000 }] },
  'PATCH /api/v1/program': { commission_base: 'net_of_fees' },
  'POST /api/v1/rules/preview': { partner_id: victim.partnerId, rules: [{ commission_bp: 10_000 }] },
  'PATCH /api/v1/groups/:group_id': { name: 'Eve', rules: [{ commission_bp: 10_000 }] },
  'POST /api/v1/applications': { name: 'Eve', email: 'eve@evil.example' },
  'PATCH /api/v1/applications/:application_id': { status: 'rejected' },
  'PATCH /api/v1/join-page': { intro: 'Buy at evil.example' },
  'POST /api/v1/codes': { partner_id: victim.partnerId, code: 'EVE' },
  'POST /api/v1/embed-tokens': { partner_id: victim.partnerId },
  'POST /api/v1/links': { partner_id: victim.partnerId, code: 'eve-link' },
  'PATCH /api/v1/links/:link_id': { status: 'inactive' },
  'PATCH /api/v1/commissions': { ids: [Number(own[':commission_id'])], status: 'rejected', reason: 'no' },
  'PATCH /api/v1/reviews': { commission_ids: [Number(own[':commission_id'])], decision: 'rejected', note: 'no' },
  'POST /api/v1/adjustments': { partner_id: victim.partnerId, amount_cents: -100, note: 'no' },
  'POST /api/v1/imports': { source: 'csv', files: { 'partners.csv': 'Name\nEve' } },
  'POST /api/v1/imports/:import_id/parts': { part: 1, content_base64: 'UEsDBA==' },
  'POST /api/v1/shadow-mode/commissions': {
    commissions: [
      {
        id: 'eve',
        partner_id: victim.partnerId,
        amount_cents: 1,
        currency: 'usd',
        status: 'paid',
        earned_at: '2026-11-20T00:00:00Z',
      },
    ],
  },
  'PATCH /api/v1/commissions/:commission_id': { status: 'rejected', reason: 'no' },
  'PATCH /api/v1/payouts/:payout_id': { status: 'refused', reason: 'no' },
  'POST /api/v1/payout-runs': {},
  'POST /api/v1/webhook-endpoints': { url: 'https://evil.example/hooks', types: ['sale.created'] },
  'PATCH /api/v1/webhook-endpoints/:webhook_endpoint_id': { url: 'https://evil.example/hooks' },
  'POST /api/v1/webhook-endpoints/:webhook_endpoint_id/replay': { delivery_id: own[':delivery_id'] },
}

test.each(routes.scoped)('%s accepts an active key, and shows nothing of another program', async (route) => {
  const before = await victims()
  const body = changes[route]
  for (const name of ['nobody', 'a revoked key', ...sessions] as const) {
    const { status } = await send(address(route), callers[name], {}, body)
    expect([name, status]).toEqual([name, 401])
  }
  expect((await send(address(route), partnerKeys.own, {}, body)).status).toBe(401)
  const { status, text } = await send(address(route), attacker.apiKey, {}, body)
  // The other program has no due payouts and no join page.
  const conflicts = ['POST /api/v1/payout-runs', 'POST /api/v1/applications']
  const isNamed = /\/:|^POST .*(preview|adjustments|codes|embed-tokens|links|shadow-mode\/commissions)$/.test(route)
  const success = /^POST .*(partners|groups|imports|exports|webhook-endpoints)$/.test(route) ? 201 : 200
  expect(status).toBe(conflicts.includes(route) ? 409 : isNamed ? 404 : success)
  for (const secret of [victim.partnerCode, 'secret-hook', ...secrets.map(([, hidden]) => hidden)])
    expect(text).not.toContain(secret)
  expect(await victims()).toBe(before)
})

test.each(routes.partnerKeyed)("%s shows a partner's own data, and accepts only their key", async (route) => {
  const before = await victims()
  for (const name of names) expect([name, (await send(route, callers[name])).status]).toEqual([name, 401])
  const [mine, beside, elsewhere] = await Promise.all(
    [partnerKeys.own, partnerKeys.fellow, partnerKeys.other].map((key) => send(route, key)),
  )
  expect([mine?.status, beside?.status, elsewhere?.status]).toEqual([200, 200, 200])
  const shown = {
    links: victim.partnerCode,
    performance: victim.partnerCode,
    commissions: 'secret-transaction',
    payouts: '500',
  }
  const [name = ''] = route.match(/\w+$/) ?? []
  expect(mine?.text).toContain(Object.entries(shown).find(([of]) => of === name)?.[1])
  for (const secret of [victim.partnerCode, 'secret-', 'pending-transaction']) {
    expect(beside?.text).not.toContain(secret)
    expect(elsewhere?.text).not.toContain(secret)
  }
  // Partners never see the buyer, an address, the review or the program's own data.
  const hidden = /customer|click_id|@|flags|review|external_id|metadata|bot_clicks|partner_id|program_id/
  expect(mine?.text).not.toMatch(hidden)
  expect((await send(`${route}?partner_id=${victim.partnerId}`, partnerKeys.fellow)).status).toBe(400)
  expect((await send(route.replace('GET', 'POST'), partnerKeys.own, {}, {})).status).toBe(405)
  expect(await victims()).toBe(before)
})

const foreign: [what: string, route: string, body: (id: typeof own) => object, status: number][] = [
  [
    'a sale with the click id',
    'POST /api/v1/track/sale',
    ({ click_id }) => ({ transaction_id: 'a', customer_key: 'secret-customer', click_id, amount_cents: 1 }),
    200,
  ],
  [
    'a sale of the program',
    'POST /api/v1/track/sale',
    () => ({
      transaction_id: 'b',
      customer_key: 'x',
      amount_cents: 1,
      additional_data: { program_id: victim.programId },
    }),
    400,
  ],
  [
    'a sale with its transaction id',
    'POST /api/v1/track/sale',
    () => ({ transaction_id: 'secret-transaction', customer_key: 'x', amount_cents: 1 }),
    200,
  ],
  ['a refund of its sale', 'POST /api/v1/track/refund', () => ({ transaction_id: 'pending-transaction' }), 404],
  ['a lead with the click id', 'POST /api/v1/track/lead', ({ click_id }) => ({ customer_key: 'x', click_id }), 400],
  ['a lead with the customer key', 'POST /api/v1/track/lead', () => ({ customer_key: 'secret-customer' }), 400],
  [
    'a lead of the program',
    'POST /api/v1/track/lead',
    ({ click_id }) => ({ customer_key: 'x', click_id, additional_data: { program_id: victim.programId } }),
    400,
  ],
]

test.each(foreign)("%s changes nothing with another program's key", async (_what, route, body, status) => {
  const before = await victims()
  const answer = await send(route, attacker.apiKey, {}, body(own))
  expect(answer.status).toBe(status)
  if (status === 200) expect(JSON.parse(answer.text)).toMatchObject({ attributed: false, commission_id: null })
  expect(await victims()).toBe(before)
})

test("a key's status describes its own program", async () => {
  const { text } = await send('GET /api/v1/cli/status', attacker.apiKey)
  expect(JSON.parse(text)).toMatchObject({ program: { id: attacker.programId } })
})

// The kind of a bulk action isn't an id.
const withIds = Object.keys(routes.program)
  .concat(routes.workspace)
  .filter((route) => /\/:(?!programId|workspaceId|kind$)/.test(route))

test.each(withIds)("%s changes nothing if a member uses another program's ids in their own program", async (route) => {
  const before = await victims()
  const around = { ':programId': String(attacker.programId), ':workspaceId': attacker.workspaceId }
  const { status } = await send(address(route, around), attacker.dashboardToken, fields)
  // Some calls get a 404, and some have nothing to do.
  expect([303, 404, 409]).toContain(status)
  expect(await victims()).toBe(before)
})

test('an event of another account changes nothing, whatever program and visitor it contains', async () => {
  const before = await victims()
  const shop = {
    generation: 'new' as const,
    account: attacker.connectedAccountId,
    programId: victim.programId,
    clickId: own.click_id,
    customerKey: 'secret-customer',
    email: null,
    customer: null,
    livemode: true,
    now: Math.floor(Date.now() / 1000),
  }
  const payload = JSON.stringify(
    stripeEvent(
      shop,
      'evt_evil',
      'checkout.session.completed',
      checkoutSession(shop, { id: 'cs_evil', total: 500, payment_intent: 'pi_evil' }),
    ),
  )
  const deliver = (secret: string) =>
    fetch(`${stack.baseUrl}/api/v1/webhooks/stripe`, {
      method: 'POST',
      headers: { 'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret }) },
      body: payload,
    })
  expect((await deliver('whsec_other')).status).toBe(400)
  expect((await deliver(stack.environment.STRIPE_WEBHOOK_SECRET)).status).toBe(200)
  expect(await victims()).toBe(before)
})

test('only roles that can see payouts see the amounts of payouts in webhook deliveries', async () => {
  await stack.sql.query(
    `update webhook_messages set type = 'payout.paid', data = '{"amount_cents": 987654321}' where program_id = $1 and id = $2`,
    [victim.programId, own[':messageId']],
  )
  const page = address('/programs/:programId/webhooks/:endpointId/deliveries/:messageId')
  const bodyFor = async (role: 'admin' | 'member') => (await send(`GET ${page}`, people[role])).text
  expect(await bodyFor('admin')).toContain('987654321')
  expect(await bodyFor('member')).not.toContain('987654321')
})

test("a partner's key lasts until they revoke it, the partnership ends or the person is no longer the partner", async () => {
  const page = `/partner/api-keys/${victim.programId}`
  const created = await send(`POST ${page}`, fellow.token)
  const [key = ''] = /svc_partner_\w{49}/.exec(created.text) ?? []
  const works = async () => (await send('GET /api/v1/partner/payouts', key)).status
  expect(await works()).toBe(200)
  const { text } = await send(`GET ${page}`, fellow.token)
  expect(text).not.toContain(key)
  expect(text).toContain(`svc_partner_…${key.slice(-4)}`)
  const change = (to: string) => stack.sql.query(`update partners set ${to} where name = 'Fellow'`)
  await change(`is_active = false, ended_at = now(), ended_by = 'program'`)
  expect([await works(), (await send(`POST ${page}`, fellow.token)).status]).toEqual([401, 409])
  await change('ended_at = null, ended_by = null, is_active = true')
  expect(await works()).toBe(200)
  const { rows } = await stack.sql.query('select user_id from partners where id = $1', [attacker.partnerId])
  await change(`user_id = '${rows[0].user_id}'`)
  expect([await works(), (await send(`GET ${page}`, attacker.partnerToken)).text.includes(key.slice(-4))]).toEqual([
    401,
    false,
  ])
  await change(`user_id = '${fellow.userId}'`)
  await Promise.all([1, 2, 3, 4, 5].map(() => send(`POST ${page}`, fellow.token)))
  const { rows: keys } = await stack.sql.query('select id from partner_keys where user_id = $1 order by id', [
    fellow.userId,
  ])
  expect(keys.length).toBe(5)
  expect((await send(`POST ${page}/${keys[1].id}/revoke`, fellow.token)).location).toBe(page)
  expect(await works()).toBe(401)
  await stack.sql.query(`update programs set deleted_at = now() where id = $1`, [victim.programId])
  expect((await send('GET /api/v1/partner/payouts', partnerKeys.own)).status).toBe(401)
  await stack.sql.query(`update programs set deleted_at = null where id = $1`, [victim.programId])
})

/** The most database requests of a read that wait for each other. The first one finds the reader. */
function mostRounds(path: string): number {
  // Its first reads fix the payouts of the file.
  if (/\/(payout-runs\/\d+\/file|payouts\/payouts)\.csv$/.test(path)) return 5
  // An export also writes an audit log entry.
  if (path.endsWith('.csv')) return 3
  // These find the partner's program first, because their other reads need the partner's id.
  return /^\/partner\/(campaigns|postbacks\/.*)$/.test(path) ? 3 : 2
}

test('a page finds its reader and then reads everything else at once', () => {
  const reads = stack.answers.filter(({ method, status }) => method === 'GET' && status === 200)
  expect(reads.filter(({ path, rounds }) => rounds > mostRounds(path))).toEqual([])
  // Only this way of running the service counts them.
  if (runOn === 'serve') expect(reads.filter(({ rounds }) => rounds === 2).length).toBeGreaterThan(300)
})
