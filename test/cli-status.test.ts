import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { createTrackerProxy } from '@affiliate-tracking/svc-tracker/proxy'
import { expect, test } from 'vitest'
import { changeSecret, createConnection } from '../lib/processors/connections.ts'
import { createApiKey, rotateProxyKey } from '../lib/access/program-keys.ts'
import { isValidProxyKey, proxyKey } from '../lib/access/proxy-keys.ts'
import { clickPath, leadPath, salePath, startTrackingApi, statusPath } from './support/api.ts'

const api = await startTrackingApi()

const statusOf = async (key: string) => {
  const { status, headers, body } = await api.call(statusPath, undefined, { method: 'GET', key })
  expect(status).toBe(200)
  expect(headers.get('cache-control')).toBe('no-store')
  return body
}
const okOf = (body: { checks: { name: string; ok: boolean }[] }) =>
  Object.fromEntries(body.checks.map(({ name, ok }) => [name, ok]))

test('the status of a new program shows its settings, no activity, and the remaining steps', async () => {
  const program = await api.program({ name: 'Fresh', commission_bp: 1250, lead_auth_policy: 'browser_allowed' })
  await api.stack.sql.query(`delete from referral_links where program_id = $1`, [program.programId])
  await api.stack.sql.query(`update programs set processor_account_id = null where id = $1`, [program.programId])
  const never = { live: null, test: null }
  expect(await statusOf(program.apiKey)).toEqual({
    success: true,
    program: {
      id: program.programId,
      name: 'Fresh',
      domain: 'shop.example.com',
      currency: 'usd',
      commission_percent: 12.5,
      cookie_window_days: 30,
      lead_auth_policy: 'browser_allowed',
    },
    api_base_url: api.stack.environment['API_BASE_URL'],
    proxy_path: expect.stringMatching(/^[b-z]{8}$/),
    proxy_key: await proxyKey(api.stack.environment, program.programId),
    processor: { connected: false, account_id: null },
    activity: { last_click: never, last_lead: never, last_sale: never, last_webhook: never },
    refusals: [],
    checks: ['link_exists', 'click_seen', 'lead_seen', 'sale_seen', 'currency_matches', 'processor_connected'].map(
      (name) => ({ name, ok: name === 'currency_matches', message: expect.any(String) }),
    ),
  })
})

test("a read-only key doesn't get the proxy key", async () => {
  const { programId } = await api.program()
  const key = await createApiKey(api.stack.db, programId, 'reader', { scopes: ['read'] })
  expect(await statusOf(key)).toMatchObject({ program: { id: programId }, proxy_key: null })
})

test('a rotated proxy key works for another week, and the key before it stops working immediately', async () => {
  const { programId, apiKey, partnerCode } = await api.program()
  const { db, baseUrl, environment } = api.stack
  await rotateProxyKey(db, programId)
  await rotateProxyKey(db, programId)
  const keys = await Promise.all([0, 1, 2].map((keyNumber) => proxyKey(environment, programId, keyNumber)))
  expect(await statusOf(apiKey)).toMatchObject({ proxy_key: keys[2] })
  const countries = keys.map(async (key) => {
    const body = JSON.stringify({ affiliate_url: `https://shop.example.com/?aff=${partnerCode}` })
    const request = new Request('https://shop.example.com/x', { method: 'POST', body })
    const response = await createTrackerProxy({ baseUrl, key })(Object.assign(request, { cf: { country: 'DE' } }))
    const { click_id } = await response.json()
    const [event] = await api.rows('select geo_country from affiliate_click_events where click_id = $1', [click_id])
    return event?.['geo_country']
  })
  expect(await Promise.all(countries)).toEqual([null, 'DE', 'DE'])
})

test('the functions use a rotated key within a minute', async () => {
  const { programId } = await api.program()
  const env = { ...api.stack.env, PROXY_SECRET: 'of this test' }
  const validAt = async (seconds: number) => {
    const numbers = [0, 1].map((keyNumber) => isValidProxyKey(env, { programId, keyNumber }, seconds * 1000))
    return await Promise.all(numbers)
  }
  expect(await validAt(0)).toEqual([true, false])
  await rotateProxyKey(api.stack.db, programId)
  expect(await validAt(30)).toEqual([true, false])
  expect(await validAt(61)).toEqual([true, true])
  await api.stack.sql.query('update programs set previous_proxy_key_until = now() where id = $1', [programId])
  expect(await validAt(122)).toEqual([false, true])
})

test('received events are shown, live and in test mode', async () => {
  const program = await api.program()
  const key = { key: program.apiKey }
  const additional_data = { test_mode: true, program_id: program.programId }
  await api.call(clickPath, { affiliate_url: 'https://x.example.com/', additional_data })
  await api.call(leadPath, { customer_key: 'u', additional_data }, key)
  await api.call(salePath, { transaction_id: 't', customer_key: 'u', amount_cents: 1, additional_data }, key)
  const tested = await statusOf(program.apiKey)
  const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/)
  const testOnly = { live: null, test: at }
  expect(tested.activity).toMatchObject({ last_click: testOnly, last_lead: testOnly, last_sale: testOnly })
  expect(okOf(tested)).toEqual({
    link_exists: true,
    click_seen: true,
    lead_seen: true,
    sale_seen: true,
    currency_matches: true,
    processor_connected: true,
  })
  expect(tested.processor).toEqual({ connected: true, account_id: program.connectedAccountId })
  await api.stack.sql.query('update programs set processor_account_id = null where id = $1', [program.programId])
  expect((await statusOf(program.apiKey)).processor.connected).toBe(false)
  const connection = { processor: 'paddle', livemode: true } as const
  const accountId = await createConnection(api.stack.db, program.programId, connection)
  expect((await statusOf(program.apiKey)).processor.connected).toBe(false)
  await changeSecret(api.stack.db, { EMAIL_HASH_KEY: 'key' }, program.programId, accountId, 'secret')
  const sells = await statusOf(program.apiKey)
  expect(sells.processor).toEqual({ connected: true, account_id: null })
  expect(sells.checks).toContainEqual({
    name: 'processor_connected',
    ok: true,
    message: 'The program is connected to paddle.',
  })

  const click_id = await api.click(program)
  await api.call(leadPath, { customer_key: 'u', click_id }, key)
  await api.call(salePath, { transaction_id: 't', customer_key: 'stranger', amount_cents: 1 }, key)
  await api.stack.sql.query(
    `insert into processor_events (account_id, event_id, event_type, program_id, livemode, outcome, fact, event_created_at)
     values ($1, 'evt_1', 'invoice.payment_succeeded', $2, true, 'recorded', '{}', now())`,
    [program.connectedAccountId, program.programId],
  )
  const both = { live: at, test: at }
  expect((await statusOf(program.apiKey)).activity).toEqual({
    last_click: both,
    last_lead: both,
    last_sale: both,
    last_webhook: { live: at, test: null },
  })
})

test('refusals are shown, each with advice', async () => {
  const program = await api.program()
  await api.call(salePath, { transaction_id: 't', customer_key: 'u', amount_cents: '1' }, { key: program.apiKey })
  expect((await statusOf(program.apiKey)).refusals).toEqual([
    {
      call: 'sale',
      code: 'invalid_request',
      refused_at: expect.stringMatching(/^\d{4}-/),
      message: expect.stringMatching(/^A sale was refused: amount_cents must be .*Correct these fields\.$/),
    },
  ])
})

test('the currency check fails if none of the last twenty live sales is in the program’s currency', async () => {
  const program = await api.program({ currency: 'eur' })
  const sell = async (transaction_id: string, currency?: string) =>
    await api.call(salePath, { transaction_id, customer_key: 'u', amount_cents: 1, currency }, { key: program.apiKey })
  const check = async () => {
    const { checks } = await statusOf(program.apiKey)
    return checks.find(({ name }: { name: string }) => name === 'currency_matches')
  }
  expect(await check()).toMatchObject({ ok: true })
  await sell('with', 'usd')
  expect(await check()).toMatchObject({ ok: false, message: expect.stringMatching(/as USD.*currency: 'eur'/) })
  await sell('without', undefined)
  expect(await check()).toMatchObject({ ok: true })
  for (let number = 1; number < 20; number++) await sell(`usd-${number}`, 'usd')
  expect(await check()).toMatchObject({ ok: true })
  await sell('usd-20', 'usd')
  expect(await check()).toMatchObject({ ok: false })
})

test('a key without a scope is shown, with the name of the scope', async () => {
  const program = await api.program()
  const key = await createApiKey(api.stack.db, program.programId, 'reader', { scopes: ['read'] })
  await api.call(salePath, { transaction_id: 't', customer_key: 'u', amount_cents: 1 }, { key })
  const message = `A call arrived with the key svc_live_…${key.slice(-4)}, which doesn't allow it. Create a key for leads, sales and refunds, and use it for such calls.`
  expect((await statusOf(key)).refusals).toMatchObject([{ code: 'insufficient_scope', message }])
})

test('the probe goes from a click to a refund, counts nothing, and fails if a call fails or is slow', async () => {
  const { apiKey, programId } = await api.program()
  const probe = (key: string, ...options: string[]) => {
    const env = { ...process.env, SVC_API_KEY: key, SVC_BASE_URL: api.stack.baseUrl, NO_COLOR: '1' }
    return promisify(execFile)(process.execPath, ['lib/commands/probe.ts', ...options], { env })
  }
  const { stdout } = await probe(apiKey)
  const steps = ['status', 'click', 'lead', 'sale', 'refund']
  expect(stdout.replaceAll(/\d+/g, 'N')).toBe(steps.map((step) => `${step} N ms\n`).join(''))
  const { rows } = await api.stack.sql.query('select is_test from sales where program_id = $1', [programId])
  expect(rows).toEqual([{ is_test: true }])
  await expect(probe(`${apiKey}x`)).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('status: answered 401'),
  })
  const slow = probe(apiKey, '--max-seconds', '0.001')
  await expect(slow).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('status: no answer') })
})
