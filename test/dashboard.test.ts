import { expect, test } from 'vitest'
import { createApiKey } from '../lib/access/program-keys.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { createImport, importFiles } from '../lib/moving/imports.ts'
import { createEndpoint, testEndpoint, programOwner } from '../lib/notifications/webhook-endpoints.ts'
import { createConnection } from '../lib/processors/connections.ts'
import { saveRules } from '../lib/programs/commission-rules.ts'
import { createWorkspace } from '../lib/programs/workspaces.ts'
import { today } from './support/ledger.ts'
import { refusalIn } from './support/refusal.ts'
import { cookieOf, partnerPaths, startDashboard } from './support/dashboard.ts'

const { stack, env, sandbox, other, person, track, get, post } = await startDashboard()
const { programId, workspaceId } = sandbox

test('all earnings include signup commissions, and a fixed amount is shown without a percentage', async () => {
  const {
    programId: id,
    dashboardToken,
    apiKey,
    partnerId,
    ...created
  } = await createSandbox(stack.db, env, {
    lead_commission_cents: 150,
  })
  expect((await get(`/programs/${id}/groups`, dashboardToken)).text).toContain(
    '20% of each sale; $1.50 for each signup',
  )
  await saveRules(stack.db, id, { partnerId }, [{ commission_fixed_cents: 400 }])
  const { click_id } = await track('click', { affiliate_url: `https://shop.example.com/?aff=${created.partnerCode}` })
  await track('sale', { transaction_id: 'order-1', customer_key: 'ann', amount_cents: 5000, click_id }, apiKey)
  const shown = (await get(`/programs/${id}/sales/order-1`, dashboardToken)).text
  expect(shown).toContain(`<a href="/programs/${id}/events?code=${created.partnerCode}">Events of the link`)
  expect(shown.match(/Rate<\/dt>\s*<dd[^>]*>(.*?)<\/dd>/)?.[1]).toBe('$4.00')
})

test('a commission that is flagged on approval is not shown as approved', async () => {
  const created = await createSandbox(stack.db, env, { review_rules: ['paid_ads'] })
  const { click_id } = await track('click', {
    affiliate_url: `https://shop.example.com/?aff=${created.partnerCode}&gclid=abc`,
  })
  const sale = { transaction_id: 'order-1', customer_key: 'ann', amount_cents: 5000, click_id }
  const { commission_id: id } = await track('sale', sale, created.apiKey)
  const commissions = `/programs/${created.programId}/commissions`
  const decided = await post(`${commissions}/decide`, { which: 'shown', shown: `${id}` }, created.dashboardToken)
  const message = decodeURIComponent(decided.headers.getSetCookie().join())
  expect(message).toContain(
    '"kind":"warn","text":"1 unchanged: already approved, rejected or reversed, held for review, or computed in shadow mode."',
  )
})

test("deliveries for svc listen are not shown as pending, since the service doesn't send them", async () => {
  const { programId: id, dashboardToken } = await createSandbox(stack.db, env)
  const listener = { url: null, description: '', types: ['sale.created' as const] }
  const endpoint = await createEndpoint(stack.db, stack.environment, programOwner(id), listener)
  const message = await testEndpoint(stack.db, programOwner(id), endpoint.id)
  const webhooks = `/programs/${id}/webhooks`
  const listed = />For svc listen<\/span>/g
  for (const path of ['', `/${endpoint.id}`, '/deliveries', `/${endpoint.id}/deliveries/${message}`]) {
    const { text } = await get(`${webhooks}${path}`, dashboardToken)
    expect([path, text.match(listed)?.length, text.includes('>Pending</span>')]).toEqual([path, 1, false])
  }
  for (const [status, count] of [
    ['pending', undefined],
    ['to_fetch', 1],
  ] as const) {
    const { text } = await get(`${webhooks}/deliveries?status=${status}`, dashboardToken)
    expect([status, text.match(listed)?.length]).toEqual([status, count])
  }
})

test('a payout above the possible maximum is refused as invalid input', async () => {
  for (const amount of ['999999999999', '999999999999.99', '9999999999999']) {
    const fields = { balance: `${programId} usd`, amount, request_id: crypto.randomUUID() }
    const { headers } = await post('/partner/payouts', fields, sandbox.partnerToken)
    expect(refusalIn(headers)).toContain('"amount":"')
  }
})

const shown = async (path: string) => (await get(`/programs/${programId}${path}`, sandbox.dashboardToken)).text

test('a partner adds, tests and reads a postback, and a hostile address is refused at its field', async () => {
  const [page, token] = [`/partner/postbacks/${programId}`, sandbox.partnerToken]
  // The partner has one program, so there is nothing to choose.
  expect((await get('/partner/postbacks', token)).headers.get('location')).toBe(page)
  const kept = { method: 'GET', url: 'https://tracker.example.com/?cid={sub1}&e={event}', lead: 'on' }
  for (const [change, refusal] of [
    [{ url: 'https://10.0.0.1/?cid={sub1}' }, 'must be a public address'],
    [{ url: 'https://tracker.example.com/?cid={email}' }, 'contains the unknown placeholder'],
    [{ url: `https://tracker.example.com/?${'x'.repeat(2000)}` }, 'Use at most 2,000 characters'],
    [{ method: 'PUT' }, 'Choose a kind'],
  ] as const)
    expect(refusalIn((await post(page, { ...kept, ...change }, token)).headers)).toContain(refusal)
  // These values are too long for a cookie.
  const long = `https://tracker.example.com/?${'x'.repeat(8000)}`
  const refused = await post(page, { ...kept, url: long }, token)
  expect(refused.text).toContain(`value="${long}"`)
  expect(refused.text).toContain('Use at most 2,000 characters')
  expect((await get(page, token)).text).not.toContain('GET https://tracker')
  const added = (await post(page, kept, token)).headers.get('location') ?? ''
  expect(added).toMatch(/^\/partner\/postbacks\/\d+\/\d+$/)
  const sent = (await post(`${added}/test`, {}, token)).headers.get('location') ?? ''
  expect((await get(sent, token)).text).toContain('https://tracker.example.com/?cid=test-sub1&amp;e=test')
  expect((await get(page, token)).text).toContain('GET https://tracker.example.com/')
  expect(await shown('/webhooks')).not.toContain('tracker.example.com')
  for (let count = 1; count < 5; count++) await post(page, kept, token)
  expect((await post(page, kept, token)).status).toBe(409)
  expect((await post(`${added}/delete`, {}, token)).headers.get('location')).toBe(page)
  expect((await get(added, token)).status).toBe(404)
})

test('refunds are shown beside revenue, beside their sale with a link to its explanation, and in the CSV file of events', async () => {
  expect(await shown('')).toMatch(/Revenue<\/dt><dd[^>]*>\$100\.00.*Refunds<\/dt><dd[^>]*>\$25\.00.*?of this revenue/s)
  const sales = await shown('/events?eventType=conversion')
  expect(sales).toContain('$25.00 refunded')
  expect(sales).toContain(`href="/programs/${programId}/sales/secret-transaction"`)
  const [head, row] = (await shown('/events.csv?eventType=conversion')).split('\r\n')
  expect(head).toContain(',amount,refunded,currency,')
  expect(row).toContain(',100,25,usd,')
})

test('CSV files match the pages and contain no formula that a spreadsheet would run', async () => {
  const partners = await get(`/programs/${programId}/partners.csv`, sandbox.dashboardToken)
  expect(partners.headers.get('content-disposition')).toBe(`attachment; filename="partners-${programId}.csv"`)
  expect(partners.text).toContain(`"'=cmd|' /C calc'!A0 <img src=x onerror=alert(1)>""'&"`)
  const commissions = await get(`/programs/${programId}/commissions.csv`, sandbox.dashboardToken)
  const [head, row] = commissions.text.split('\r\n')
  expect(head).toBe(
    'id,created,partner_id,partner,kind,transaction_id,status,currency,amount,reversed,reason,hold_until,review_reason,payout_id,held,flags,shadow',
  )
  expect(row).toContain(',sale,secret-transaction,refunded,usd,20.00,5.00,')
})

test('a page sends at most two database requests before its own figures', async () => {
  const before = stack.neon.requests
  await get(`/programs/${programId}/commissions`, sandbox.dashboardToken)
  expect(stack.neon.requests - before).toBe(2)
})

test.each(['deliveries?before=a%00b', 'events?before=%00', 'commissions?status=%00'])(
  'an address with a NUL character is refused: %s',
  async (path) => {
    expect((await get(`/programs/${programId}/${path}`, sandbox.dashboardToken)).status).toBe(400)
  },
)

test.each([
  [`/programs/${programId}?utm_source=`, 199, sandbox.dashboardToken],
  [`/partner/campaigns?sub1=`, 199, sandbox.partnerToken],
  [`/programs/${programId}/events?partner=`, 99, sandbox.dashboardToken],
  [`/programs/${programId}/partners?q=`, 99, sandbox.dashboardToken],
])('%s is cut after a whole character', async (path, length, token) => {
  expect((await get(`${path}${'x'.repeat(length)}%F0%9F%98%80`, token)).status).toBe(200)
})

test('an unknown address returns a page, or a JSON error under /api/', async () => {
  const page = await get('/nothing/here')
  expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=UTF-8'])
  const api = await get('/api/nothing')
  expect([api.status, JSON.parse(api.text)]).toMatchObject([404, { success: false, error: { code: 'not_found' } }])
})

test('a customer is erased in the settings, by their key or click id', async () => {
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

test('invitations to 1,121 programs cost a page three database requests, are listed in pages, and can be answered', async () => {
  const invited = await person('invited')
  await stack.sql.query(
    `with created as (
      insert into programs (workspace_id, name, domain) select $1, 'Inviting ' || n, 'x.example' from generate_series(1, 1121) n returning id
    ),
    partner as (insert into partners (program_id, name, email) select id, 'Typed text', $2 from created returning program_id, id)
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
    '/partner/payouts',
    '/partner/commissions',
    '/partner/notifications',
  ]) {
    const before = stack.neon.requests
    const { status, text } = await get(path, invited.token)
    expect([path, status, stack.neon.requests - before <= 3]).toEqual([path, 200, true])
    expect(text).not.toContain('Typed text')
  }
})

test('a partner of 250 programs finds each balance and each program, with three database requests per page', async () => {
  const joined = await person('joined')
  await stack.sql.query(
    `with created as (
      insert into programs (workspace_id, name, domain) select $1, 'Paying ' || n, 'x.example' from generate_series(1, 250) n returning id
    )
    insert into partners (program_id, name, email, user_id) select id, 'Joined', $2, $3 from created`,
    [workspaceId, joined.email, joined.userId],
  )
  await stack.sql.query(
    `select create_adjustment(program_id, id, 'usd', 1250, 'Bonus', null, null, gen_random_uuid()) from partners where user_id = $1`,
    [joined.userId],
  )
  for (const [path, option] of [
    ['/partner/payouts', /<option[^>]*>\W*Paying \d+\W*: \$12\.50 available/g],
    ['/partner/campaigns', /<option[^>]*>Paying \d+<\/option>/g],
  ] as const) {
    const before = stack.neon.requests
    const { text } = await get(path, joined.token)
    expect([path, text.match(option)?.length, stack.neon.requests - before <= 3]).toEqual([path, 250, true])
  }
})

test('a program has at most 100 API keys and 20 payment connections, even if they are created at once', async () => {
  const { programId: id } = await createSandbox(stack.db, env)
  await stack.sql.query(
    `with keys as (
      insert into api_keys (program_id, key_hash, hint) select $1, sha256(('limit ' || n)::bytea), 'hint' from generate_series(1, 97) n
    )
    insert into processor_connections (program_id, account_id, processor, livemode)
    select $1, 'conn_' || lpad(n::text, 43, 'a'), 'paddle', true from generate_series(1, 18) n`,
    [id],
  )
  for (const create of [
    () => createApiKey(stack.db, id, 'server'),
    () => createConnection(stack.db, id, { processor: 'polar', livemode: true }),
  ]) {
    const outcomes = await Promise.allSettled(Array.from({ length: 4 }, create))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
    await expect(create()).rejects.toMatchObject({ code: 'conflict' })
  }
  await stack.sql.query('update api_keys set revoked_at = now() where program_id = $1 and name = $2', [id, 'default'])
  await createApiKey(stack.db, id, 'server')
})

test('the button beside the role of a member says that it changes the role', async () => {
  const { text } = await get(`/workspaces/${sandbox.workspaceId}/members`, sandbox.dashboardToken)
  expect(text).toMatch(/aria-label="Role of [^"]+".*?<\/select><button[^>]*>Change role<\/button>/s)
})

test('an address gets at most three invitation mails a day, and a workspace sends at most a hundred', async () => {
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
  // The limit also applies to a partner's address, but the partner is added.
  const added = await post(`/programs/${theirs}/partners`, { name: 'Victim', email: victim }, dashboardToken)
  expect(added.status).toBe(303)
  expect(await mailsTo(victim)).toHaveLength(3)
  const tag = crypto.randomUUID().slice(0, 8)
  const many = await Promise.all(Array.from({ length: 110 }, (_, n) => invite(`${tag}-${n}@example.com`)))
  expect(many.filter(({ status }) => status === 303)).toHaveLength(97)
  expect(many.filter(({ status }) => status === 429)).toHaveLength(13)
  expect(await mailsTo(`${tag}-%`)).toHaveLength(97)
  // Another workspace of the same account shares the limit.
  const { rows } = await stack.sql.query(
    'select user_id from workspace_members where workspace_id = $1 and role = $2',
    [ours, 'owner'],
  )
  const next = await createWorkspace(stack.db, { name: 'Next', ownerId: rows[0]?.user_id })
  const email = `${tag}-next@example.com`
  expect((await post(`/workspaces/${next}/members`, { email, role: 'member' }, dashboardToken)).status).toBe(429)
  expect(await mailsTo(email)).toHaveLength(0)
})

test("an unverified account can't send mail, not even by adding a partner", async () => {
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

test("the forms mark a Stripe account that can't connect and an invalid start date of an import", async () => {
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

test("an owner sees the address for the deployment's own Stripe events, and the code that proves who owns the account", async () => {
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

test('a page plans the files of an import, corrects their headings, applies the plan and undoes it', async () => {
  const shop = await createSandbox(stack.db, env)
  const address = `/programs/${shop.programId}/imports`
  const headers = { origin: stack.baseUrl, cookie: cookieOf(shop.dashboardToken) }
  const plan = async (fields: Record<string, string>) => {
    const body = new FormData()
    for (const [name, value] of Object.entries(fields)) body.set(name, value)
    body.append('files', new File(['Person,Email,Token\nIda Moss,ida@example.com,ida-moved'], 'partners.csv'))
    const response = await fetch(stack.baseUrl + address, { method: 'POST', redirect: 'manual', headers, body })
    return response.headers.get('location') ?? ''
  }
  const first = await get(await plan({ source: 'tolt' }), shop.dashboardToken)
  expect(first.text).toContain('Email: “Email”, Link: “Token”')
  expect(first.text).toContain('Not used: Person')
  const page = await plan({ source: 'tolt', 'heading.partners.name': 'Person', 'heading.partners.email': 'Email' })
  const { text } = await get(`${page}?outcome=create`, shop.dashboardToken)
  const asLinks = await get(await plan({ source: 'tolt', 'table.partners.csv': 'links' }), shop.dashboardToken)
  expect(asLinks.text).toContain('</strong> has links.')
  expect(text).toContain('Ida Moss, ida@example.com')
  expect(text).toContain('Apply 2 rows')
  const act = async (verb: string) => {
    await post(`${page}/${verb}`, {}, shop.dashboardToken)
    return (await get(page, shop.dashboardToken)).text
  }
  expect(await act('apply')).toContain('The import was applied.')
  expect((await get(`/programs/${shop.programId}/partners`, shop.dashboardToken)).text).toContain('Ida Moss')
  expect(await act('undo')).toContain('The import was undone.')
  const refused = await post(address, { source: 'tolt', access_token: 'secret-key' }, shop.dashboardToken)
  expect(refusalIn(refused.headers)).toContain('Enter the id of your account or program.')
  expect(refusalIn(refused.headers)).not.toContain('secret-key')
})

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()

test('the "Side by side" page finds and explains three planted differences in a month of shadow mode', async () => {
  const shop = await createSandbox(stack.db, env)
  const { programId: id, partnerId, dashboardToken: token } = shop
  const page = `/programs/${id}/side-by-side`
  await post(`${page}/enter`, {}, token)
  expect((await get(`/programs/${id}/commissions`, token)).text).toContain(
    'New commissions are computed and never credited.',
  )
  await stack.sql.query(
    `with rival as (insert into partners (program_id, name, email) values ($1, 'Rival', 'rival@example.com'))
    update partners set email = 'ada@example.com', name = 'Ada' where program_id = $1 and id = $2`,
    [id, partnerId],
  )
  const former = [
    'Commission ID,Affiliate email,Amount,Currency,Status,Sale amount,Stripe charge ID,Created at',
    `lost,ada@example.com,9.80,USD,due,49.00,ch_lost,${daysAgo(20)}`,
  ]
  for (let number = 1; number <= 9; number++) {
    const click = await track('click', { affiliate_url: `https://shop.example.com/?aff=${shop.partnerCode}` })
    const sale = { transaction_id: `month-${number}`, customer_key: `buyer-${number}`, click_id: click.click_id }
    await track('sale', { ...sale, amount_cents: 4900 }, shop.apiKey)
    const [email, amount] = [number === 8 ? 'rival' : 'ada', number === 3 ? '14.70' : '9.80']
    former.push(`c${number},${email}@example.com,${amount},USD,due,49.00,month-${number},${daysAgo(3 * number)}`)
  }
  await stack.sql.query(
    `update sales set sale_date = now() - 3 * split_part(transaction_id, '-', 2)::integer * interval '1 day' where program_id = $1`,
    [id],
  )
  const files = [{ name: 'commissions.csv', content: Buffer.from(former.join('\n')) }]
  const importId = await createImport(stack.db, stack.environment, id, 'rewardful')
  await importFiles(stack.db, stack.environment, id, importId, {
    source: 'rewardful',
    files,
    mappings: {},
    seconds: 60,
  })
  await post(`/programs/${id}/imports/${importId}/apply`, {}, token)

  const { text } = await get(page, token)
  const rows = text.slice(text.indexOf('Differences</h2>')).split('<tr').slice(2)
  const texts = rows.map((row) => row.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' '))
  expect(texts).toEqual([
    expect.stringMatching(/month-3 .*\$14\.70 \$9\.80 Another rate: 30% there, 20% here\./),
    expect.stringMatching(/ch_lost .*\$9\.80 Nothing Only the former service has it\./),
    expect.stringMatching(/month-8 .*\$9\.80 \$9\.80 Another partner: Rival there, Ada here\./),
  ])
  const sums = text.slice(text.indexOf('By partner'), text.indexOf('Differences</h2>')).replaceAll(/<[^>]*>/g, ' ')
  expect(sums.replaceAll(/\s+/g, ' ')).toContain('Rival $9.80 $0.00 -$9.80 1 Ada $93.10 $88.20 -$4.90 3')
  expect(text).toContain('9 commissions ($88.20) of shadow mode are never credited')
  const { text: ofRival } = await get(`${page}?partner=${partnerId + 1}`, token)
  expect(ofRival.match(/Another (rate|partner)/g)).toEqual(['Another partner'])
  const { text: refused } = await get(`${page}?dateFrom=2026-01-01&dateTo=2026-12-31&before=x`, token)
  expect(refused).toContain('at most 100 days')

  for (const path of ['/partner', '/partner/commissions'])
    expect((await get(path, shop.partnerToken)).text).not.toMatch(/\$9\.80|[Ss]hadow/)
  expect((await post(`${page}/leave`, {}, token)).status).toBe(303)
  expect((await get(page, token)).text).toContain('9 commissions ($88.20) of shadow mode are never credited.')
  const { rows: log } = await stack.sql.query(
    "select action from audit_log where program_id = $1 and action like 'shadow%' order by id",
    [id],
  )
  expect(log).toEqual([{ action: 'shadow_mode.entered' }, { action: 'shadow_mode.left' }])
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
])('a payout of %s out of 1,050 yen is refused, and the message explains the rule', async (amount, message) => {
  const fields = { balance: `${yen.programId} jpy`, amount, request_id: crypto.randomUUID() }
  const { headers } = await post('/partner/payouts', fields, yen.partnerToken)
  expect(refusalIn(headers)).toContain(message)
})

test.each([
  ['10.50', 'Amounts in JPY have no decimals.'],
  ['1e13', 'Enter an amount in digits.'],
  ['10000000000000', 'Enter ¥9,999,999,999,999 at most.'],
  ...['-5', '\u22125', ' \u20135'].map((amount): [string, string] => [
    amount,
    'Enter the amount without a minus sign, and choose a deduction to subtract it from the balance.',
  ]),
])('an adjustment by %s yen is refused, and the message explains the rule', async (amount, message) => {
  const typed = { request_id: crypto.randomUUID(), kind: 'commission', amount, currency: 'JPY', adjust_note: 'Bonus' }
  const path = `/programs/${yen.programId}/partners/${yen.partnerId}/adjust`
  const { headers } = await post(path, typed, yen.dashboardToken)
  expect(refusalIn(headers)).toContain(message)
})

test.each([
  ['payouts/1/pay', '9999-12-31', {}],
  ['payouts/1/pay', '0026-11-20', {}],
  ['payout-runs/1/pay', '9999-12-31', {}],
  ['payout-runs/by-hand', '9999-12-31', { partner_id: '1', currency: 'jpy', request_id: crypto.randomUUID() }],
])('%s refuses a transfer of %s', async (path, day, fields) => {
  const transfer = { ...fields, amount_cents: '1', reference: 'transfer-1', paid_on: day }
  const { headers } = await post(`/programs/${yen.programId}/${path}`, transfer, yen.dashboardToken)
  expect(refusalIn(headers)).toContain('Enter the day on which the money left, today or earlier, with a four-digit')
})

test('a payout without an amount pays the whole available balance', async () => {
  // Without isolation, the right-to-left name would change the order of the amount.
  expect((await get('/partner/payouts', yen.partnerToken)).text).toContain('\u2068מתנות\u2069: ¥1,050 available')
  const fields = { balance: `${yen.programId} jpy`, amount: '' }
  await post('/partner/payouts', { ...fields, request_id: crypto.randomUUID() }, yen.partnerToken)
  expect((await get('/partner/payouts', yen.partnerToken)).text).toContain('¥1,050</strong>')
  const { headers } = await post('/partner/payouts', { ...fields, request_id: crypto.randomUUID() }, yen.partnerToken)
  expect(refusalIn(headers)).toContain('Nothing is available in JPY now.')

  // Two people transfer the same money, and the page warns the second person.
  const { rows } = await stack.sql.query<{ id: string }>('select id from payouts where program_id = $1', [
    yen.programId,
  ])
  const messages: string[] = []
  for (const reference of ['transfer-1', 'transfer-2', 'transfer-1']) {
    const transfer = { amount_cents: '1050', reference, paid_on: today }
    const path = `/programs/${yen.programId}/payouts/${rows[0]?.id}/pay`
    const paid = await post(path, transfer, yen.dashboardToken)
    messages.push(decodeURIComponent(paid.headers.get('set-cookie') ?? ''))
  }
  const good = expect.stringContaining('Marked as paid.')
  expect(messages).toEqual([good, expect.stringContaining('already paid with the transfer transfer-1,'), good])

  const back = { reason: 'Account closed' }
  await post(`/programs/${yen.programId}/payouts/${rows[0]?.id}/return`, back, yen.dashboardToken)
  const created = await post(
    `/programs/${yen.programId}/payout-runs`,
    { request_id: crypto.randomUUID() },
    yen.dashboardToken,
  )
  const runMessages: string[] = []
  for (const reference of ['transfer-3', 'transfer-4', 'transfer-3']) {
    const transfer = { amount_cents: '1050', reference, paid_on: today }
    const paid = await post(`${created.headers.get('location')}/pay`, transfer, yen.dashboardToken)
    runMessages.push(decodeURIComponent(paid.headers.get('set-cookie') ?? ''))
  }
  const paidRun = expect.stringContaining('The run was paid.')
  expect(runMessages).toEqual([paidRun, expect.stringContaining('already paid with the transfer transfer-3,'), paidRun])
})

test('a deactivated partner sees their status on each of their pages', async () => {
  await post(`/programs/${yen.programId}/partners/${yen.partnerId}/deactivate`, {}, yen.dashboardToken)
  for (const page of partnerPaths.filter((path) => !path.endsWith('.csv'))) {
    expect([page, (await get(page, yen.partnerToken)).text]).toEqual([
      page,
      expect.stringContaining('has deactivated you as a partner.'),
    ])
  }
})
