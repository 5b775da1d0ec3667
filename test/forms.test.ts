import { expect, test } from 'vitest'
import { sessionCookie } from '../lib/access/sessions.ts'
import { createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { startStack } from './support/stack.ts'

/** Tests forms that are sent twice, for example on a slow network. */
const stack = await startStack({ functions: ['dashboard', 'auth'] })
const env = { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET }
const { programId, workspaceId, dashboardToken } = await createSandbox(stack.db, env)
const stranger = await createPerson(stack.db, env, { name: 'Eve', email: 'eve@example.com' })

async function send(method: 'GET' | 'POST', path: string, token: string | undefined, fields?: Record<string, string>) {
  const page = path.replace(/\/keys$/, '')
  const response = await fetch(stack.baseUrl + path, {
    method,
    redirect: 'manual',
    headers: {
      origin: stack.baseUrl,
      referer: stack.baseUrl + page,
      ...(token && { cookie: `${sessionCookie}=${encodeURIComponent(token)}` }),
    },
    ...(fields && { body: new URLSearchParams(fields) }),
  })
  return { status: response.status, location: response.headers.get('location'), text: await response.text() }
}

/** Returns the hidden fields of the form on `page` that posts to `action`. */
async function formOn(page: string, action: string, token: string | undefined): Promise<Record<string, string>> {
  const { text } = await send('GET', page, token)
  const form = new RegExp(`<form method="post" action="${action}"[\\s\\S]*?</form>`).exec(text)?.[0] ?? ''
  return Object.fromEntries(
    Array.from(form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g), ([, name = '', value = '']) => [
      name,
      value,
    ]),
  )
}

const count = async (query: string, values: unknown[] = []) =>
  Number((await stack.sql.query<{ count: string }>(query, values)).rows[0]?.count)

const program = {
  name: 'Twice',
  domain: 'twice.example.com',
  currency: 'usd',
  commission_bp: '20',
  cookie_window_days: '30',
  hold_days: '30',
  lead_auth_policy: 'server_verified',
  attribution_model: 'last_click',
  attribution_priority: 'code',
  workspace_id: workspaceId,
}
const forms: [what: string, page: string, action: string, fields: Record<string, string>, counted: string][] = [
  ['a program', '/programs/new', '/programs/new', program, `programs where name = 'Twice'`],
  [
    'a partner',
    `/programs/${programId}/partners`,
    `/programs/${programId}/partners`,
    { name: 'Grace', email: 'grace@example.com', code: '' },
    `referral_links l join partners p on p.id = l.partner_id where p.name = 'Grace'`,
  ],
  [
    'an invitation and its mail',
    `/workspaces/${workspaceId}/members`,
    `/workspaces/${workspaceId}/members`,
    { email: 'bob@example.com', role: 'member' },
    `mails where recipient = 'bob@example.com'`,
  ],
  [
    'a key',
    `/programs/${programId}/settings?tab=keys`,
    `/programs/${programId}/settings/keys`,
    { key_name: 'twice' },
    `api_keys where name = 'twice'`,
  ],
  [
    'an endpoint',
    `/programs/${programId}/webhooks`,
    `/programs/${programId}/webhooks`,
    { url: 'https://example.com/twice', 'sale.created': 'on' },
    `webhook_endpoints where url = 'https://example.com/twice'`,
  ],
]

test.each(forms)('a double click creates %s once and opens it', async (what, page, action, fields, counted) => {
  const complete = { ...fields, ...(await formOn(page, action, dashboardToken)) }
  const [one, two] = await Promise.all([
    send('POST', action, dashboardToken, complete),
    send('POST', action, dashboardToken, complete),
  ])
  const statuses = [one.status, two.status].toSorted((a, b) => a - b)
  // The page with a new key is the direct answer, because a browser could follow a redirect again. A repeated form leads to the page
  // without the key.
  const showsKey = what === 'a key' || what === 'an endpoint'
  expect(statuses).toEqual(showsKey ? [200, 303] : [303, 303])
  const location = showsKey ? (one.location ?? two.location) : one.location
  if (!showsKey) expect(two.location).toBe(location)
  if (what === 'a key') expect(location).toBe(page)
  if (what === 'a program') expect(location).toMatch(/^\/programs\/\d+\/start\/rate$/)
  if (what === 'an endpoint') expect(location).toMatch(/\/webhooks\/\d+$/)
  const third = await send('POST', action, dashboardToken, complete)
  expect(third).toMatchObject({ status: 303, location })
  expect(await count(`select count(*) from ${counted}`)).toBe(1)
  expect([one, two, third].filter((answer) => /svc_live_|whsec_/.test(answer.text)).length).toBeLessThan(2)
})

test('a rule can be previewed, refused with the field marked, saved, changed and ended, and its group can be removed', async () => {
  const groups = `/programs/${programId}/groups`
  const created = await send('POST', groups, dashboardToken, { name: 'Gold' })
  const page = created.location ?? ''
  expect(page).toMatch(/\/groups\/\d+$/)
  expect((await send('POST', groups, dashboardToken, { name: 'GOLD' })).location).toBe(groups)
  expect((await send('GET', groups, dashboardToken)).text).not.toContain('aria-invalid')
  const rules = async () =>
    (
      await stack.sql.query(
        `select commission_bp, commission_fixed_cents, sale_type from commission_rules
    where program_id = $1 and ended_at is null order by id`,
        [programId],
      )
    ).rows
  const shown = async (query: string) => (await send('GET', `${page}/preview?${query}`, dashboardToken)).text
  expect(await shown('commission_bp=12.5&commission_fixed_cents=3')).toContain('Under today&#39;s rules')
  for (const [typed, field] of [
    ['commission_bp=lots', 'commission_bp'],
    ['commission_bp=12.345', 'commission_bp'],
    ['commission_bp=101', 'commission_bp'],
    ['', 'commission_bp'],
    ['commission_bp=1&commission_fixed_cents=-1', 'commission_fixed_cents'],
    ['commission_bp=1&lifetime_cap_cents=1e9', 'lifetime_cap_cents'],
    ['commission_bp=1&commission_duration_months=0', 'commission_duration_months'],
    ['commission_bp=1&product_id=prod%20a', 'product_id'],
    ['commission_bp=1&product_id=prod_a&sale_type=b', 'sale_type'],
    ['commission_bp=1&sale_type=b&lead_commission_cents=1', 'lead_commission_cents'],
  ] as const) {
    const text = await shown(typed)
    expect([typed, /<input id="(\w+)"[^>]*aria-invalid/.exec(text)?.[1]]).toEqual([typed, field])
    expect(text).not.toContain('Under today&#39;s rules')
    const refused = await send('POST', `${page}/save`, dashboardToken, Object.fromEntries(new URLSearchParams(typed)))
    expect(refused).toMatchObject({ status: 303, location: page })
  }
  expect(await rules()).toEqual([])
  await send('POST', `${page}/save`, dashboardToken, {
    commission_bp: '12,5',
    commission_fixed_cents: '3',
    sale_type: 'a',
  })
  expect(await rules()).toEqual([{ commission_bp: 1250, commission_fixed_cents: '300', sale_type: 'a' }])
  const { text } = await send('GET', page, dashboardToken)
  const [, id = ''] = /rule=(\d+)/.exec(text) ?? []
  expect((await send('GET', `${page}?rule=${id}`, dashboardToken)).text).toContain(`name="replaces" value="${id}"`)
  await send('POST', `${page}/save`, dashboardToken, { replaces: id, commission_bp: '20' })
  expect(await rules()).toEqual([{ commission_bp: 2000, commission_fixed_cents: '0', sale_type: null }])
  const [, next = ''] = /ends=(\d+)/.exec((await send('GET', page, dashboardToken)).text) ?? []
  expect(await shown(`ends=${next}`)).toContain('Without this rule')
  await send('POST', `${page}/end`, dashboardToken, { ends: next })
  expect(await rules()).toEqual([])

  const [own, everybodys] = [`/programs/${programId}/partners/1/rules`, `${groups}/everybody`]
  await send('POST', `${own}/save`, dashboardToken, { commission_bp: '7' })
  await send('POST', `${everybodys}/save`, dashboardToken, { commission_bp: '8' })
  await send('POST', `${everybodys}/save`, dashboardToken, { commission_bp: '9', product_id: 'prod_a' })
  expect((await rules()).map((rule: { commission_bp: number }) => rule.commission_bp)).toEqual([700, 900])
  const partners = `/programs/${programId}/partners`
  const groupId = page.split('/').at(-1) ?? ''
  const moved = { which: 'chosen', shown: '1', 'row-1': 'on', to: groupId }
  expect(await send('POST', `${partners}/move`, dashboardToken, moved)).toMatchObject({
    status: 303,
    location: partners,
  })
  expect((await send('GET', `${partners}?group=${groupId}`, dashboardToken)).text).toMatch(
    /data-label="Group"[^>]*>Gold</,
  )
  await send('POST', `${partners}/1/group`, dashboardToken, { group_id: '' })
  expect(await count('select count(*) from partners where program_id = $1 and group_id is not null', [programId])).toBe(
    0,
  )
  await send('POST', `${partners}/1/group`, dashboardToken, { group_id: groupId })
  expect(await send('POST', `${page}/remove`, dashboardToken, {})).toMatchObject({ status: 303, location: groups })
  expect((await send('GET', page, dashboardToken)).status).toBe(404)
  expect(await count('select count(*) from partners where program_id = $1 and group_id is not null', [programId])).toBe(
    0,
  )
})

test('a password reset that is sent twice sends one mail', async () => {
  const sent = { email: 'eve@example.com' }
  const complete = { ...sent, ...(await formOn('/forgot-password', '/forgot-password', undefined)) }
  await Promise.all([1, 2].map(() => send('POST', '/forgot-password', undefined, complete)))
  expect(await count(`select count(*) from mails where recipient = 'eve@example.com'`)).toBe(1)
})

test('a form of a stranger that sends no mail stores nothing, however long its address is', async () => {
  const token = { form_token: crypto.randomUUID() }
  await send('POST', `/application?token=${'x'.repeat(4000)}`, undefined, token)
  expect(await count('select count(*) from used_forms where token = $1', [token.form_token])).toBe(0)
})

test('the bytes that the forms store for a workspace have a daily limit', async () => {
  const page = `/programs/${programId}/partners`
  const key = `form bytes of workspace ${workspaceId}`
  const sent = async () => (await send('POST', page, dashboardToken, { name: 'Bytes', email: '', code: '' })).status
  expect(await sent()).toBe(303)
  expect(await count('select attempts as count from sign_in_attempts where key = $1', [key])).toBeGreaterThan(1024)
  await stack.sql.query('update sign_in_attempts set attempts = $2 where key = $1', [key, 100 * 2 ** 20])
  expect(await sent()).toBe(429)
  await stack.sql.query('delete from sign_in_attempts where key = $1', [key])
})

test('a refused form can be sent again', async () => {
  const page = `/programs/${programId}/partners`
  const hidden = await formOn(page, page, dashboardToken)
  const taken = { ...hidden, name: 'Hopper', email: '', code: 'hopper' }
  await send('POST', page, dashboardToken, { name: 'First', email: '', code: 'hopper' })
  await send('POST', page, dashboardToken, taken)
  const again = await send('POST', page, dashboardToken, { ...taken, code: 'hopper2' })
  expect(again.status).toBe(303)
  expect(await count(`select count(*) from referral_links where code = 'hopper2'`)).toBe(1)
})

test.each(['drop-before', 'drop-after'] as const)(
  'after an unknown outcome (%s), sending the form again takes effect once',
  async (action) => {
    const page = `/programs/${programId}/settings`
    const complete = { key_name: action, ...(await formOn(`${page}?tab=keys`, `${page}/keys`, dashboardToken)) }
    stack.neon.inject({ action, matching: 'insert into "api_keys"' })
    expect((await send('POST', `${page}/keys`, dashboardToken, complete)).status).toBe(503)
    expect((await send('POST', `${page}/keys`, dashboardToken, complete)).status).toBeLessThan(400)
    expect(await count(`select count(*) from api_keys where name = $1`, [action])).toBe(1)
  },
)

test("another person's form token reveals nothing of theirs", async () => {
  const hidden = await formOn('/programs/new', '/programs/new', dashboardToken)
  const fields = { ...program, name: 'Mine', ...hidden }
  const mine = await send('POST', '/programs/new', dashboardToken, fields)
  expect(mine.location).toMatch(/start\/rate$/)
  const theirs = await send('POST', '/programs/new', stranger.token, { ...fields, workspace: 'Eve', workspace_id: '' })
  expect(theirs.location ?? '').not.toBe(mine.location)
})

test('every form of every page has its own token', async () => {
  for (const page of [
    '/programs/new',
    `/programs/${programId}/settings`,
    `/programs/${programId}/settings?tab=keys`,
    `/programs/${programId}/settings?tab=payments`,
    `/programs/${programId}/groups/everybody`,
    `/programs/${programId}/groups/everybody/preview?commission_bp=10`,
    `/workspaces/${workspaceId}/members`,
    '/account',
  ]) {
    const { text } = await send('GET', page, dashboardToken)
    const tokens = Array.from(text.matchAll(/name="form_token" value="([^"]+)"/g), ([, token]) => token)
    expect(tokens.length).toBe(text.match(/<form method="post"/g)?.length)
    expect(new Set(tokens).size).toBe(tokens.length)
  }
})

test.each(['multipart/form-data', 'multipart/form-data; boundary=x'])(
  'a body that is not %s is refused',
  async (type) => {
    const cookie = `${sessionCookie}=${encodeURIComponent(dashboardToken)}`
    const headers = { origin: stack.baseUrl, cookie, 'content-type': type }
    const response = await fetch(`${stack.baseUrl}/account/name`, { method: 'POST', headers, body: 'name=Ada' })
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('The form could not be read.'),
    ])
  },
)
