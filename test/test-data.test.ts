import { describe, expect, test } from 'vitest'
import { auditEntriesStatement } from '../lib/access/audit-log.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { audit } from '../lib/commands/audit.ts'
import { createSandbox, type Sandbox } from '../lib/local/sandbox.ts'
import { refund, type Shop } from '../lib/local/stripe-events.ts'
import { clearTestData, readTestFigures } from '../lib/programs/test-data.ts'
import { bill, firstPayment, oneTime, paidBy } from './support/payments.ts'
import { startStack } from './support/stack.ts'
import { openWebhook } from './support/webhook.ts'

const stack = await startStack({ functions: ['dashboard', 'track-click', 'track-lead', 'track-sale', 'track-refund'] })
const { sql, db } = stack
const env = { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET }
const webhook = await openWebhook(stack)

const newProgram = () => createSandbox(db, env, { commission_bp: 1500, lead_commission_cents: 300 })

const shopOf = ({ programId, connectedAccountId }: Sandbox): Shop => ({
  generation: 'new',
  account: connectedAccountId,
  programId,
  clickId: null,
  customerKey: 'user-1',
  email: null,
  customer: 'cus_1',
  livemode: false,
  now: Math.floor(Date.now() / 1000),
})

async function track({ apiKey, partnerCode }: Sandbox, what: string, body: object, isTest = true) {
  const response = await fetch(`${stack.baseUrl}/api/v1/track/${what}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(what !== 'click' && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify({
      ...(what === 'click' && { affiliate_url: `https://shop.example.com/?aff=${partnerCode}` }),
      ...body,
      ...(isTest && what !== 'refund' && { additional_data: { test_mode: true } }),
    }),
  })
  const answer: { click_id?: string } = await response.json()
  return { status: response.status, ...answer }
}

async function open({ programId, dashboardToken }: Sandbox, part: string, form?: Record<string, string>) {
  const before = stack.neon.requests
  const cookie = `${sessionCookie}=${encodeURIComponent(dashboardToken)}`
  const response = await fetch(`${stack.baseUrl}/programs/${programId}${part}`, {
    method: form ? 'POST' : 'GET',
    headers: { cookie, ...(form && { origin: stack.baseUrl }) },
    body: form ? new URLSearchParams(form) : null,
    redirect: form ? 'manual' : 'follow',
  })
  return { status: response.status, html: await response.text(), requests: stack.neon.requests - before }
}

const withNewKey = async (sandbox: Sandbox) => (await open(sandbox, '/check/key', { key_scope: 'track' })).html

const headingIn = (html: string) => /<h1[^>]*>([^<]*)</.exec(html)?.[1]

const figuresIn = (html: string) =>
  Object.fromEntries(
    Array.from(html.matchAll(/<dt>([^<]+)<\/dt><dd class="value">([^<]+)</g), ([, name, value]) => [name, value]),
  )

/** The events of an actual visitor. */
async function sellLive(sandbox: Sandbox) {
  const { click_id } = await track(sandbox, 'click', {}, false)
  await track(sandbox, 'lead', { customer_key: 'user-1', click_id }, false)
  await track(sandbox, 'sale', { customer_key: 'user-1', transaction_id: 'in_1', amount_cents: 5000 }, false)
  await track(sandbox, 'refund', { transaction_id: 'in_1', refund_amount_cents: 1000 })
}

/** Creates test clicks, leads and sales, through the API and through Stripe in test mode, with the same ids as live data. */
async function recordTestData(sandbox: Sandbox) {
  const shop = shopOf(sandbox)
  for (let click = 0; click < 3; click++) await track(sandbox, 'click', {})
  await track(sandbox, 'lead', { customer_key: 'user-1' })
  await track(sandbox, 'lead', { customer_key: 'user-2' })
  await track(sandbox, 'sale', { customer_key: 'user-1', transaction_id: 'order-1', amount_cents: 10_001 })
  await track(sandbox, 'sale', {
    customer_key: 'nobody',
    transaction_id: 'order-2',
    amount_cents: 2000,
    currency: 'jpy',
  })
  await track(sandbox, 'refund', { transaction_id: 'order-1', refund_amount_cents: 5000 })
  await webhook.send(shop, 'checkout.session.completed', oneTime(shop))
  await webhook.send(shop, 'refund.updated', refund(shop, { id: 're_1', amount: 2500, status: 'succeeded', ...paidBy }))
  await webhook.send(
    shop,
    'refund.updated',
    refund(shop, { id: 're_2', amount: 2500, status: 'succeeded', payment_intent: 'pi_early', charge: 'ch_early' }),
  )
  await webhook.send(
    shop,
    'invoice.payment_succeeded',
    bill(shop, { metadata: {}, id: 'in_unnamed', payment_intent: 'pi_unnamed' }),
  )
}

/** More rows of each kind than fit into one batch. */
async function fillTests({ programId }: Sandbox, count: number) {
  for (const statement of [
    `insert into affiliate_click_events (program_id, is_test, click_timestamp, id)
    select $1, true, now() - n * interval '1 second', n from generate_series(1, $2::int) n`,
    `insert into affiliate_lead_events (program_id, is_test, lead_timestamp, customer_key)
    select $1, true, now() - n * interval '1 second', 'filled-' || n from generate_series(1, $2::int) n`,
    `insert into sales (program_id, is_test, transaction_id, customer_key, amount_cents, commission_base_cents, currency)
    select $1, true, 'filled-' || n, 'filled-' || n, 100, 100, 'usd' from generate_series(1, $2::int) n`,
  ])
    await sql.query(statement, [programId, count])
}

const testRows = `
  select 'click' as kind from affiliate_click_events where program_id = $1 and is_test
  union all select 'lead' from affiliate_lead_events where program_id = $1 and is_test
  union all select 'sale' from sales where program_id = $1 and is_test
  union all select 'refund' from refunds r join sales s on s.program_id = r.program_id and s.id = r.sale_id where r.program_id = $1 and s.is_test
  union all select 'event' from processor_events e join programs p on p.id = $1
    where not e.livemode and (e.program_id = p.id or e.account_id = p.processor_account_id)
  union all select 'reversal' from processor_reversals v join programs p on p.id = $1
    where not v.livemode and v.account_id = p.processor_account_id`

async function countTestRows({ programId }: Sandbox): Promise<Record<string, number>> {
  const { rows } = await sql.query<{ kind: string; count: number }>(
    `select kind, count(*)::int as count from (${testRows}) t group by kind`,
    [programId],
  )
  return Object.fromEntries(rows.map(({ kind, count }) => [kind, count]))
}

/** The audit log, sessions and keys change when they are used, and notifications are sent later. */
async function liveRows({ programId }: Sandbox): Promise<string> {
  const { rows: tables } = await sql.query<{ name: string; columns: string[] }>(
    `select c.relname as name, array_agg(a.attname::text) as columns from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attname in ('program_id', 'is_test', 'livemode')
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname not in ('audit_log', 'api_keys', 'public_test_events', 'notifications', 'notification_mails')
    group by 1 having bool_or(a.attname = 'program_id') order by 1`,
  )
  const parts = tables.map(({ name, columns }) => {
    const live = columns.includes('is_test') ? 'and not is_test' : columns.includes('livemode') ? 'and livemode' : ''
    const own =
      name === 'refunds' ? 'and sale_id in (select id from sales s where s.program_id = $1 and not s.is_test)' : ''
    const row = name === 'outbox' ? `(to_jsonb(t) - '{sent_at,delivered_at}'::text[])::text` : 't::text'
    return `select '${name}' as name, ${row} from ${name} t where program_id = $1 ${live} ${own}`
  })
  const { rows } = await sql.query(`${parts.join(' union all ')} order by 1, 2`, [programId])
  return JSON.stringify(rows)
}

describe('test data', () => {
  test('has separate figures, and earns nothing', async () => {
    const sandbox = await newProgram()
    await sellLive(sandbox)
    const before = await liveRows(sandbox)
    const live = figuresIn((await open(sandbox, '')).html)
    await recordTestData(sandbox)

    const { status, html, requests } = await open(sandbox, '/test')
    expect([status, requests]).toEqual([200, 2])
    // 15% of 100.01, rounded half up, minus half of that. 15% of 100.00, minus a quarter of that. Twice 3.00 for leads.
    expect(figuresIn(html)).toEqual({
      'Test clicks': '3',
      'Test leads': '2',
      'Test sales': '3',
      Revenue: '$200.01',
      Refunds: '$75.00',
      Commission: '$24.76',
    })
    expect(html).toContain('¥2,000 revenue (¥0 refunded) and ¥300 commission')
    expect(html).toContain('of which $6.00 for leads')
    expect(figuresIn((await open(sandbox, '')).html)).toEqual(live)
    expect(await liveRows(sandbox)).toBe(before)
  })

  test('earns for as long as the program pays for a customer, starting with their first test sale', async () => {
    const sandbox = await createSandbox(db, env, { commission_bp: 1500, commission_duration_months: 1 })
    const after = (days: number) => ({ ...shopOf(sandbox), now: shopOf(sandbox).now + days * 24 * 60 * 60 })
    const renewal = (days: number) =>
      bill(after(days), { id: `in_${days}`, payment_intent: `pi_after_${days}`, charge: `ch_after_${days}` })
    await webhook.send(after(0), 'checkout.session.completed', oneTime(after(0)))
    await webhook.send(after(20), 'invoice.payment_succeeded', renewal(20))
    await webhook.send(after(62), 'invoice.payment_succeeded', renewal(62))
    const { money } = await readTestFigures(db, sandbox.programId)
    expect(money).toMatchObject([{ sales: 3, revenue_cents: 30_000, commission_cents: 3000 }])
  })

  test.each([
    ['/test', 'Overview'],
    ['/test/events', 'Events'],
    ['/test/deliveries', 'Processor events'],
  ])('at %s is labeled, linked from live data, and links back', async (part, current) => {
    const sandbox = await newProgram()
    const { html, requests } = await open(sandbox, part)
    const base = `/programs/${sandbox.programId}`
    expect(requests).toBeLessThanOrEqual(3)
    expect(html).toMatch(/<title>Test data: /)
    expect(html).toContain('<strong>Test data.</strong> It is not included in any figures')
    expect(html).toMatch(new RegExp(`<a href="${base}${part}" aria-current="page">${current}`))
    expect(html).toContain(`<a href="${base}${part.slice('/test'.length)}">Live data</a>`)
    const live = await open(sandbox, part.slice('/test'.length))
    expect(live.html).toContain(`<a href="${base}${part}">Test data</a>`)
    expect(live.html).not.toMatch(/<title>Test data|Nothing here counts/)
  })

  test('from Stripe has a separate delivery log', async () => {
    const sandbox = await newProgram()
    const shop = shopOf(sandbox)
    await webhook.send(shop, 'checkout.session.completed', oneTime(shop), 'evt_tried')
    await webhook.send({ ...shop, livemode: true }, 'checkout.session.completed', oneTime(shop), 'evt_real')
    const shown = async (part: string) => (await open(sandbox, part)).html.match(/evt_\w+(?=<)/g)
    expect(await shown('/test/deliveries')).toEqual(['evt_tried'])
    expect(await shown('/deliveries')).toEqual(['evt_real'])
  })

  test('shows the test customers and sales', async () => {
    const sandbox = await newProgram()
    await recordTestData(sandbox)
    const { html } = await open(sandbox, '/test/events?eventType=conversion')
    for (const text of ['order-1', '$50.00 refunded', 'order-2', '¥2,000', 'nobody', '$100.00'])
      expect(html).toContain(text)
    expect((await open(sandbox, '/events')).html).toContain('No events yet')
  })
})

describe('clearing test data', () => {
  test('deletes it in batches, and nothing else, and makes its ids available again', async () => {
    const [sandbox, other] = [await newProgram(), await newProgram()]
    for (const program of [sandbox, other]) {
      await sellLive(program)
      await recordTestData(program)
    }
    await fillTests(sandbox, 600)
    const [live, others, othersTests] = [await liveRows(sandbox), await liveRows(other), await countTestRows(other)]
    expect(await countTestRows(sandbox)).toEqual({ click: 603, lead: 602, sale: 603, refund: 2, event: 4, reversal: 2 })

    const { status, requests } = await open(sandbox, '/test/clear', {})
    expect(status).toBe(303)
    expect(requests).toBeLessThanOrEqual(4)
    expect(await countTestRows(sandbox)).toEqual({})
    expect(await liveRows(sandbox)).toBe(live)
    expect([await liveRows(other), await countTestRows(other)]).toEqual([others, othersTests])
    expect((await open(sandbox, '/test')).html).toContain('No test data')

    const entries = await db.query(auditEntriesStatement(sandbox.workspaceId, { limit: 10, thing: 'data' }))
    expect(entries).toMatchObject([
      { action: 'data.test_cleared', program_id: sandbox.programId, details: { clicks: 603, leads: 602, sales: 603 } },
    ])
    expect(entries[0]?.user_id).not.toBeNull()

    await recordTestData(sandbox)
    const { money } = await readTestFigures(db, sandbox.programId)
    expect(money).toMatchObject([
      { currency: 'jpy', sales: 1 },
      { currency: 'usd', sales: 2, revenue_cents: 20_001, refunded_cents: 7500 },
    ])
  })

  test('during concurrent sales, refunds and processor events breaks none of them', async () => {
    const sandbox = await newProgram()
    const shop = shopOf(sandbox)
    await sellLive(sandbox)
    const live = await liveRows(sandbox)
    for (let round = 0; round < 15; round++) {
      const answers = await Promise.all([
        track(sandbox, 'sale', { customer_key: 'user-1', transaction_id: 'order-1', amount_cents: 1000 }),
        webhook.send(shop, 'checkout.session.completed', firstPayment(shop)),
        clearTestData(db, sandbox.programId).then(() => ({ status: 200 })),
        track(sandbox, 'refund', { transaction_id: 'order-1', refund_amount_cents: 100 }),
        webhook.send(shop, 'invoice.payment_succeeded', bill(shop, { billing_reason: 'subscription_create' })),
        webhook.send(shop, 'refund.updated', refund(shop, { id: 're_1', amount: 700, status: 'succeeded', ...paidBy })),
        clearTestData(db, sandbox.programId).then(() => ({ status: 200 })),
        track(sandbox, 'sale', { customer_key: 'user-1', transaction_id: 'order-1', amount_cents: 1000 }),
      ])
      expect(answers.filter(({ status }) => status >= 500)).toEqual([])
    }
    await clearTestData(db, sandbox.programId)
    expect(await countTestRows(sandbox)).toEqual({})
    expect(await liveRows(sandbox)).toBe(live)
  })
})

test('no test sale has a commission, and the audit finds nothing', async () => {
  const { rows } = await sql.query(
    'select from commissions c join sales s on s.program_id = c.program_id and s.id = c.sale_id where s.is_test',
  )
  expect(rows).toEqual([])
  // The audit finds nothing, although automatic test events have customers without clicks.
  const found = (await audit(sql)).filter(({ total }) => total > 0)
  expect(found.map(({ check }) => check)).toEqual([])
})

const events = async (table: string, { programId }: Sandbox) =>
  (
    await sql.query<{ tests: string; live: string }>(
      `select count(*) filter (where is_test) as tests, count(*) filter (where not is_test) as live from ${table} where program_id = $1`,
      [programId],
    )
  ).rows[0]

/** Calls a tracking endpoint without a key, as anybody can. */
async function keyless(path: string, body: object) {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  return await (await fetch(`${stack.baseUrl}/api/v1/track/${path}`, init)).json()
}

test("a test lead without a key doesn't turn a sale with a code into a test", async () => {
  const sandbox = await newProgram()
  const { programId, partnerCode, apiKey } = sandbox
  await sql.query(
    `insert into partner_codes (program_id, partner_id, code)
    select program_id, partner_id, 'SAVE10' from referral_links where program_id = $1 and code = $2`,
    [programId, partnerCode],
  )
  const affiliate_url = `https://shop.example.com/?aff=svc-test-${programId}`
  const { click_id } = await keyless('click', { affiliate_url })
  const additional_data = { test_mode: true, program_id: programId }
  const guessed = await keyless('lead', { customer_key: 'guessed', additional_data })
  const tested = await keyless('lead', { customer_key: 'tested', click_id })
  expect([guessed, tested]).toMatchObject([{ test_mode: true }, { test_mode: true }])
  const sale = { amount_cents: 10_000, coupon: 'SAVE10' }
  for (const customer_key of ['guessed', 'tested']) {
    const answer = await track(
      { ...sandbox, apiKey },
      'sale',
      { ...sale, customer_key, transaction_id: customer_key },
      false,
    )
    expect(answer).toMatchObject({ status: 200, attributed: true, commission_cents: 1500 })
    expect(answer).not.toHaveProperty('test_mode')
  }
  // Without a code, the sale is only a test because of the lead through the test link.
  await keyless('lead', { customer_key: 'guessed too', additional_data })
  await keyless('lead', { customer_key: 'tested too', click_id })
  const plain = async (customer_key: string) =>
    await track(sandbox, 'sale', { customer_key, transaction_id: customer_key, amount_cents: 900 }, false)
  expect(await plain('guessed too')).not.toHaveProperty('test_mode')
  expect(await plain('tested too')).toMatchObject({ test_mode: true })
})

describe('a test link', () => {
  const oneTest = { tests: '1', live: '0' }

  test.each([
    ['the click id with the lead', true],
    ['the click id with the sale only', false],
  ])('turns everything after it into a test, by %s', async (_, hasLead) => {
    const sandbox = await newProgram()
    const affiliate_url = `https://shop.example.com/?aff=SVC-test-${sandbox.programId}`
    const program_id = sandbox.programId
    const click = await track(sandbox, 'click', { affiliate_url, additional_data: { program_id } }, false)
    expect(click).toMatchObject({ status: 200, success: true, data: { test_mode: true }, cookie_window_days: 1 })
    expect(click.click_id).toMatch(/^cust_\d+_\d+$/)
    const { click_id } = click
    if (hasLead) {
      const lead = await track(sandbox, 'lead', { customer_key: 'tried', click_id }, false)
      expect(lead).toMatchObject({ status: 200, test_mode: true, click_id })
    }
    const sale = { customer_key: 'tried', transaction_id: 'order-9', amount_cents: 900, ...(!hasLead && { click_id }) }
    expect(await track(sandbox, 'sale', sale, false)).toMatchObject({ status: 200, attributed: false, test_mode: true })
    expect(await track(sandbox, 'sale', sale, false)).toMatchObject({ status: 409 })
    expect(await track(sandbox, 'refund', { transaction_id: 'order-9' })).toMatchObject({ status: 'no_commission' })

    expect(await events('affiliate_click_events', sandbox)).toEqual(oneTest)
    expect(await events('sales', sandbox)).toEqual(oneTest)
    expect(await sql.query('select from customers where program_id = $1', [program_id])).toMatchObject({ rowCount: 0 })
    expect(figuresIn((await open(sandbox, '/test')).html)).toMatchObject({ 'Test clicks': '1', Revenue: '$9.00' })
  })

  test("doesn't turn a partner's visitor into a test visitor, or anybody a day later", async () => {
    const sandbox = await newProgram()
    await track(sandbox, 'lead', { customer_key: 'both' })
    await track(sandbox, 'lead', { customer_key: 'late' })
    const { click_id } = await track(sandbox, 'click', {}, false)
    await track(sandbox, 'lead', { customer_key: 'both', click_id }, false)
    await sql.query(
      `update affiliate_lead_events set lead_timestamp = lead_timestamp - interval '25 hours' where program_id = $1 and is_test`,
      [sandbox.programId],
    )
    for (const customer_key of ['both', 'late']) {
      const sale = { customer_key, transaction_id: customer_key, amount_cents: 900 }
      expect(await track(sandbox, 'sale', sale, false)).toMatchObject({
        status: 200,
        attributed: customer_key === 'both',
      })
    }
    expect(await events('sales', sandbox)).toEqual({ tests: '0', live: '2' })
  })

  test("isn't a link of another program, and its code isn't a partner's", async () => {
    const [one, other] = [await newProgram(), await newProgram()]
    const affiliate_url = `https://shop.example.com/?aff=svc-test-${one.programId}`
    const additional_data = { program_id: other.programId }
    expect(await track(one, 'click', { affiliate_url, additional_data }, false)).toMatchObject({
      status: 400,
      error: { code: 'unknown_partner_code' },
    })
    const taken = { name: 'Eve', email: '', code: `svc-test-${one.programId}` }
    expect((await open(one, '/partners', taken)).html).toContain('cannot begin with svc-test-')
  })
})

const key = (apiKey: string) => ({ authorization: `Bearer ${apiKey}` })
async function refuse(path: string, body: object, headers: Record<string, string> = {}): Promise<number> {
  const response = await fetch(`${stack.baseUrl}/api/v1/track/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  await response.body?.cancel()
  return response.status
}
const clickOf = (code: string, program_id?: number) => ({
  affiliate_url: `https://shop.example.com/?aff=${code}`,
  additional_data: { program_id },
})

describe('the installation check', () => {
  test.each<[refused: string, call: (of: Sandbox) => Promise<unknown>, shown: string | undefined]>([
    [
      'a code without a link',
      ({ programId }) => refuse('click', clickOf('nobody', programId)),
      'A click arrived with the code &quot;nobody&quot;, which no link of this program has.',
    ],
    ['a code without a program', () => refuse('click', clickOf('nobody')), undefined],
    ['a code with a missing program', () => refuse('click', clickOf('nobody', 999_999_999)), undefined],
    [
      'a disabled link',
      async ({ programId, partnerCode }) => {
        await sql.query('update referral_links set is_active = false where program_id = $1', [programId])
        await refuse('click', clickOf(partnerCode))
      },
      'but its link is disabled',
    ],
    [
      'a lead without a click id',
      ({ apiKey }) => refuse('lead', { customer_key: 'secret-user' }, key(apiKey)),
      'A lead came without a click id',
    ],
    [
      'a lead with a click id of another program',
      async ({ apiKey }) => {
        const click_id = `cust_${Date.now()}_${'1'.repeat(20)}999`
        await refuse('lead', { customer_key: 'secret-user', click_id }, key(apiKey))
      },
      'unknown to this program or older than 30 days',
    ],
    [
      'a sale with an invalid amount',
      ({ apiKey }) =>
        refuse('sale', { transaction_id: 'secret-order', customer_key: 'secret-user', amount_cents: -1 }, key(apiKey)),
      'A sale was refused: amount_cents must be a positive integer',
    ],
    [
      "a lead that isn't JSON",
      ({ apiKey }) =>
        fetch(`${stack.baseUrl}/api/v1/track/lead`, {
          method: 'POST',
          headers: { ...key(apiKey), 'content-type': 'application/json' },
          body: '{',
        }),
      'The body is not valid JSON',
    ],
    [
      'a revoked key',
      async ({ programId, apiKey }) => {
        await sql.query('update api_keys set revoked_at = now() where program_id = $1', [programId])
        await refuse('sale', {}, key(apiKey))
      },
      'which is revoked. Put the new key',
    ],
    [
      'an expired key',
      async ({ programId, apiKey }) => {
        await sql.query(`update api_keys set expires_at = now() where program_id = $1`, [programId])
        await refuse('lead', { customer_key: 'u' }, key(apiKey))
      },
      'which has expired. Create a new one',
    ],
    [
      'a read-only key',
      async ({ programId, apiKey }) => {
        await sql.query(`update api_keys set scopes = '{read}' where program_id = $1`, [programId])
        await refuse('refund', { transaction_id: 't' }, key(apiKey))
      },
      'which doesn&#39;t allow it',
    ],
  ])('explains the problem with %s', async (_, call, shown) => {
    const sandbox = await newProgram()
    await call(sandbox)
    const { html, requests } = await open(sandbox, '/check')
    expect(html.includes('>Refused<')).toBe(shown !== undefined)
    if (shown) expect(html).toContain(shown)
    expect(html).not.toMatch(/secret-/)
    expect(requests).toBeLessThanOrEqual(2)
  })

  test('a refusal disappears after the call succeeds, and all checks start over on request', async () => {
    const sandbox = await newProgram()
    await refuse('click', clickOf('nobody', sandbox.programId))
    const { click_id } = await track(
      sandbox,
      'click',
      { affiliate_url: `https://shop.example.com/?aff=svc-test-${sandbox.programId}` },
      false,
    )
    const waiting = (await open(sandbox, '/check')).html
    expect(waiting).not.toContain('>Refused<')
    expect(waiting).toContain('<noscript><meta http-equiv="refresh" content="5"/></noscript>')
    expect(waiting).toContain(`data-poll="/programs/${sandbox.programId}/check"`)
    await track(sandbox, 'lead', { customer_key: 'u', click_id }, false)
    // With a new key, the program isn't ready yet.
    for (const html of [waiting, (await open(sandbox, '/check')).html, await withNewKey(sandbox)])
      expect(headingIn(html)).toMatch(/^Set up Sandbox program/)
    await track(sandbox, 'sale', { customer_key: 'u', transaction_id: 't', amount_cents: 1 }, false)
    const done = (await open(sandbox, '/check')).html
    expect(headingIn(done)).toMatch(/^Sandbox program .* is ready$/)
    expect(done).toContain('Everything works.')
    expect(done).not.toMatch(/data-poll|http-equiv="refresh"/)
    const anew = (await open(sandbox, `/check?since=${Date.now() + 1000}`)).html
    expect(anew).toContain('data-poll="')
    expect(anew).toContain('Waiting. Open your site')
  })

  test("doesn't count a browser's signup as a lead if the server must send it", async () => {
    const sandbox = await newProgram()
    const { click_id } = await track(sandbox, 'click', {}, false)
    await refuse('lead', { customer_key: 'u', click_id })
    expect((await open(sandbox, '/check')).html).toContain(
      'A browser reported a signup, but this program only counts leads from a server',
    )
  })

  test("reports a host outside the program's domain, and an unattributed sale", async () => {
    const sandbox = await newProgram()
    const { click_id } = await track(sandbox, 'click', { page_url: 'https://other.example.org/' }, false)
    await track(sandbox, 'lead', { customer_key: 'u', click_id }, false)
    await track(sandbox, 'sale', { customer_key: 'another', transaction_id: 't', amount_cents: 1 }, false)
    const { html } = await open(sandbox, '/check')
    expect(html).toContain('Not on shop.example.com')
    expect(html).toContain('No partner referred this customer')
  })
})
