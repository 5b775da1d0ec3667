import { describe, expect, test } from 'vitest'
import {
  clickPath,
  goodCalls,
  keyedPaths,
  leadPath,
  refundPath,
  salePath,
  startTrackingApi,
  statusPath,
} from './support/api.ts'

const api = await startTrackingApi()
const program = await api.program()
const key = { key: program.apiKey }
const { goodBody, keyOf } = goodCalls(api, program)
const postPaths = [clickPath, ...keyedPaths]

describe('500 internal_error shows only the request id and leaves nothing behind', () => {
  const broken = [
    [clickPath, 'uncounted_clicks'],
    [leadPath, 'affiliate_lead_events'],
    [salePath, 'commissions'],
    [refundPath, 'refunds'],
  ] as const
  test.for(broken)('%s', async ([path, table]) => {
    const body = await goodBody(path)
    const { sql } = api.stack
    const counts = async () =>
      (
        await sql.query(`select (select count(*) from affiliate_click_events) as clicks, (select count(*) from sales) as sales,
        (select sum(refunded_cents) from sales) as refunded, (select count(customer_key) from customers) as keys`)
      ).rows
    const before = await counts()
    await sql.query(`alter table ${table} add constraint "refuse, a secret cause" check (false) not valid`)
    const answer = await api.call(path, body, keyOf(path))
    await sql.query(`alter table ${table} drop constraint "refuse, a secret cause"`)
    expect(answer).toMatchObject({ status: 500, body: { error: { code: 'internal_error' } } })
    expect(Object.keys(answer.body.error)).toEqual(['code', 'message'])
    expect(answer.body.error.message).toContain(answer.headers.get('x-request-id'))
    expect(JSON.stringify(answer.body)).not.toMatch(/secret|refuse|select|insert|neon|postgres/i)
    expect(await counts()).toEqual(before)
    expect(await api.call(path, body, keyOf(path))).toMatchObject({ status: 200 })
  })
})

describe("a database that fails once doesn't change the response, and the event is recorded once", () => {
  const effect: Record<string, string> = {
    [clickPath]: `select (select count(*)::int from affiliate_click_events) + (select sum(clicks)::int from link_click_counts) +
      (select count(*)::int from customers) as n`,
    [leadPath]: `select (select count(*)::int from affiliate_lead_events) + (select coalesce(sum(leads), 0)::int from daily_totals) as n`,
    [salePath]: `select (select count(*)::int from sales) + (select count(*)::int from commissions) + (select sum(sales)::int from daily_money) as n`,
    [refundPath]: `select (select sum(refunded_cents)::int from sales) + (select count(*)::int from refunds) +
      (select count(*)::int from outbox) + (select sum(reversed_cents)::int from commissions) as n`,
  }
  const effectOf = async (path: string) => Number((await api.rows(effect[path] ?? ''))[0].n)
  const faults = ['drop-before', 'drop-after', 'cut', 'unavailable', 'kill-backend'] as const

  test.for(postPaths.flatMap((path) => faults.map((action) => [path, action] as const)))(
    '%s: %s',
    async ([path, action]) => {
      const [plain, faulty] = [await goodBody(path), await goodBody(path)]
      const start = await effectOf(path)
      const expected = await api.call(path, plain, keyOf(path))
      const once = (await effectOf(path)) - start
      api.stack.neon.inject({ action })
      // The repeated click violates its own unique key, and then the recorded click is read.
      const wasRecorded = action === 'drop-after' || action === 'cut'
      const databaseRequests = path === clickPath && wasRecorded ? 3 : 2
      const answer = await api.call(path, faulty, { ...keyOf(path), databaseRequests })
      expect(answer.status).toBe(200)
      expect(shapeOf(answer.body)).toEqual(shapeOf(expected.body))
      expect((await effectOf(path)) - start).toBe(2 * once)
    },
  )

  test.for([
    ['of a customer', async () => api.click(program)],
    ['of no customer', async () => `cust_1790000000000_${'1'.repeat(20)}${program.programId}`],
  ] as const)('a click with the click id %s', async ([, existing]) => {
    const body = { ...(await goodBody(clickPath)), existing_click_id: await existing() }
    const before = await effectOf(clickPath)
    const plain = await api.call(clickPath, body)
    const once = (await effectOf(clickPath)) - before
    api.stack.neon.inject({ action: 'drop-after' })
    const answer = await api.call(clickPath, body, { databaseRequests: 3 })
    expect(shapeOf(answer.body)).toEqual(shapeOf(plain.body))
    expect(answer).toMatchObject({ status: 200, body: { partner_code: program.partnerCode } })
    expect((await effectOf(clickPath)) - before).toBe(2 * once)
  })

  const testBodies = [
    [
      clickPath,
      { affiliate_url: 'https://x.example.com/', additional_data: { test_mode: true, program_id: program.programId } },
      {},
    ],
    [leadPath, { customer_key: 't', additional_data: { test_mode: true } }, key],
    [leadPath, { customer_key: 't', program_id: program.programId, additional_data: { test_mode: true } }, {}],
  ] as const
  test.for(testBodies)('%s: a test event', async ([path, body, options]) => {
    const table = path === clickPath ? 'affiliate_click_events' : 'affiliate_lead_events'
    const before = Number((await api.rows(`select count(*) as n from ${table}`))[0].n)
    api.stack.neon.inject({ action: 'drop-after' })
    expect(await api.call(path, body, { ...options, databaseRequests: 2 })).toMatchObject({ status: 200 })
    expect(Number((await api.rows(`select count(*) as n from ${table}`))[0].n)).toBe(before + 1)
  })

  test.for([
    ['provisional lead', {}, {}],
    ['settled lead on browser_allowed', { lead_auth_policy: 'browser_allowed' }, {}],
  ] as const)('browser lead: %s', async ([, settings]) => {
    const own = await api.program(settings)
    const body = { customer_key: 'u', click_id: await api.click(own) }
    api.stack.neon.inject({ action: 'drop-after' })
    expect(await api.call(leadPath, body, { databaseRequests: 2 })).toMatchObject({ status: 200 })
    expect(
      await api.rows(`select count(*)::int as n from affiliate_lead_events where program_id = $1`, [own.programId]),
    ).toEqual([{ n: 1 }])
  })

  test.for([...postPaths, statusPath])(
    '%s: a database that stays unreachable causes 503 unavailable with Retry-After',
    async (path) => {
      const body = path === statusPath ? undefined : await goodBody(path)
      api.stack.neon.inject({ action: 'drop-before', times: 2 })
      const answer = await api.call(path, body, {
        ...keyOf(path),
        ...(path === statusPath && { method: 'GET' }),
        databaseRequests: 2,
      })
      expect(answer).toMatchObject({ status: 503, body: { error: { code: 'unavailable' } } })
      expect(answer.headers.get('retry-after')).toBe('1')
    },
  )

  test('a refund of a sale with a rejected commission is skipped, even if the first response was lost', async () => {
    const { transaction_id } = await goodBody(refundPath)
    await api.rows(
      `update commissions c set rejected_at = now(), reversal = 'full', reversed_cents = c.amount_cents from sales s
       where s.program_id = c.program_id and s.id = c.sale_id and s.transaction_id = $1`,
      [transaction_id],
    )
    const refund = (amount: number, databaseRequests: number) =>
      api.call(refundPath, { transaction_id, refund_amount_cents: amount }, { ...key, databaseRequests })
    const plain = await refund(100, 1)
    expect(plain.body).toMatchObject({ status: 'skipped', reason: 'already_reversed' })
    api.stack.neon.inject({ action: 'drop-after' })
    expect((await refund(200, 2)).body).toEqual(plain.body)
  })

  test('a sale whose responses were both lost gets 409 with same_payload on the retry', async () => {
    const body = await goodBody(salePath)
    api.stack.neon.inject({ action: 'drop-after', times: 2 })
    expect(await api.call(salePath, body, { ...key, databaseRequests: 2 })).toMatchObject({ status: 503 })
    expect(await api.call(salePath, body, key)).toMatchObject({
      status: 409,
      body: { error: { code: 'duplicate_transaction', same_payload: true } },
    })
  })
})

/** Returns the names of a response's fields, and the values that don't depend on ids. */
function shapeOf(body: Record<string, unknown>) {
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => [name, name.endsWith('id') ? typeof value : value]),
  )
}
