import { getClickId, SvcClient } from '@affiliate-tracking/svc-tracker'
import { SvcApi } from '@affiliate-tracking/svc-tracker/api'
import { describe, expect, test, vi } from 'vitest'
import { type Answer, ok, refusal, openStandIn } from './support/stand-in.ts'

const standIn = await openStandIn()
const { baseUrl } = standIn
const client = new SvcClient({ apiKey: 'svc_live_key', baseUrl, timeoutMs: 2000 })
const sale = { customerExternalId: 'user-1', amount: 4990, invoiceId: 'inv-1' }

const duplicate = (samePayload: boolean) =>
  refusal(409, 'duplicate_transaction', { sale_id: 7, same_payload: samePayload })

describe('a call', () => {
  test.each([
    [
      'a lead',
      () =>
        client.trackLead({
          customerExternalId: 'u',
          clickId: 'cust_1_2',
          email: 'a@b.example',
          additionalData: { test_mode: true },
        }),
      '/api/v1/track/lead',
      { customer_key: 'u', click_id: 'cust_1_2', email: 'a@b.example', additional_data: { test_mode: true } },
    ],
    [
      'a lead without a click',
      () => client.trackLead({ customerExternalId: 'u', clickId: null }),
      '/api/v1/track/lead',
      { customer_key: 'u', click_id: null },
    ],
    [
      'a sale',
      () => client.trackSale(sale),
      '/api/v1/track/sale',
      { transaction_id: 'inv-1', customer_key: 'user-1', amount_cents: 4990, currency: 'usd' },
    ],
    [
      "a sale in the client's currency",
      () => new SvcClient({ apiKey: 'svc_live_key', baseUrl, currency: 'jpy' }).trackSale(sale),
      '/api/v1/track/sale',
      { transaction_id: 'inv-1', customer_key: 'user-1', amount_cents: 4990, currency: 'jpy' },
    ],
    [
      'a renewal',
      () =>
        client.trackSale({
          ...sale,
          currency: 'eur',
          isRecurring: true,
          saleType: 'subscription',
          subscriptionId: 'sub_1',
          clickId: 'cust_1_2',
        }),
      '/api/v1/track/sale',
      {
        transaction_id: 'inv-1',
        customer_key: 'user-1',
        amount_cents: 4990,
        currency: 'eur',
        is_recurring: true,
        sale_type: 'subscription',
        subscription_id: 'sub_1',
        click_id: 'cust_1_2',
      },
    ],
    [
      'a full refund',
      () => client.trackRefund({ invoiceId: 'inv-1' }),
      '/api/v1/track/refund',
      { transaction_id: 'inv-1' },
    ],
    [
      'a partial refund',
      () =>
        client.trackRefund({
          invoiceId: 'inv-1',
          amount: 100,
          refundId: 're_1',
          reason: 'chargeback',
          refundReason: 'Broken',
        }),
      '/api/v1/track/refund',
      {
        transaction_id: 'inv-1',
        refund_amount_cents: 100,
        refund_id: 're_1',
        reason: 'chargeback',
        refund_reason: 'Broken',
      },
    ],
  ])('for %s', async (_, call, path, body) => {
    standIn.answers = [ok({ commission_id: 3 })]
    expect(await call()).toEqual({ ok: true, status: 200, error: null, data: { success: true, commission_id: 3 } })
    expect(standIn.received).toMatchObject([{ path, body }])
    expect(Object.keys(standIn.received[0]?.body as object)).toEqual(Object.keys(body))
    expect(standIn.received[0]?.headers.get('authorization')).toBe('Bearer svc_live_key')
    expect(standIn.received[0]?.headers.get('content-type')).toBe('application/json')
  })

  test("can't be a test sale", async () => {
    await client.trackSale({ ...sale, additionalData: { test_mode: true } } as typeof sale)
    expect(standIn.received[0]?.body).not.toHaveProperty('additional_data')
  })

  test("uses the route's own address", async () => {
    const scattered = new SvcClient({ apiKey: 'svc_live_k', baseUrl: `${baseUrl}/`, urls: { sale: `${baseUrl}/own/` } })
    await scattered.trackSale(sale)
    await scattered.trackRefund({ invoiceId: 'inv-1' })
    expect(standIn.received.map(({ path }) => path)).toEqual(['/own/', '/api/v1/track/refund'])
  })

  test.each([0, -1, 49.9, Number.NaN, 2 ** 60, '100' as unknown as number])(
    'does nothing for an amount of %s',
    async (amount) => {
      const result = await client.trackSale({ ...sale, amount })
      expect(result).toMatchObject({ ok: false, status: 400, error: { code: 'invalid_request' } })
      expect(standIn.received).toEqual([])
    },
  )
})

describe('a refusal', () => {
  test.each([
    [400, 'no_attribution'],
    [401, 'api_key_retired'],
    [404, 'not_found'],
    [409, 'duplicate_transaction'],
  ])('%i %s is a result, and the call is not retried', async (status, code) => {
    standIn.answers = [refusal(status, code, { details: [{ field: 'f', message: 'm' }] })]
    expect(await client.trackSale(sale)).toEqual({
      ok: false,
      status,
      error: { code, message: 'Because.', details: [{ field: 'f', message: 'm' }] },
      data: null,
    })
    expect(standIn.received).toHaveLength(1)
  })
})

describe('a call that may have failed', () => {
  test.each([
    ['a broken connection', 'drop'],
    ['no answer in time', 'hang'],
    ['500', refusal(500, 'internal_error')],
    ['503', refusal(503, 'unavailable', {}, { 'retry-after': '1' })],
    ['429', refusal(429, 'rate_limited', {}, { 'retry-after': '1' })],
    ["a gateway's page", { status: 502, body: '<h1>Bad gateway</h1>' }],
  ] satisfies [string, Answer][])('with %s is retried', async (_, answer) => {
    const quick = new SvcClient({ apiKey: 'svc_live_k', baseUrl, timeoutMs: answer === 'hang' ? 300 : 10_000 })
    standIn.answers = [answer, ok({ lead_id: 1 })]
    expect(await quick.trackLead({ customerExternalId: 'u', clickId: null })).toMatchObject({
      ok: true,
      data: { lead_id: 1 },
    })
    expect(standIn.received).toHaveLength(2)
  })

  test.each([
    ['drop', 0, 'network_error'],
    ['hang', 0, 'timeout'],
    [refusal(503, 'unavailable'), 503, 'unavailable'],
    [{ status: 502, body: '<h1>Bad gateway</h1>' }, 502, 'invalid_response'],
  ] satisfies [Answer, number, string][])('after three attempts is a result: %s', async (answer, status, code) => {
    const quick = new SvcClient({ apiKey: 'svc_live_k', baseUrl, timeoutMs: answer === 'hang' ? 200 : 10_000 })
    standIn.answers = [answer, answer, answer]
    expect(await quick.trackSale(sale)).toMatchObject({ ok: false, status, error: { code }, data: null })
    expect(standIn.received).toHaveLength(3)
  })

  test('is not retried if the service asks for a long wait', async () => {
    standIn.answers = [refusal(429, 'rate_limited', {}, { 'retry-after': '60' })]
    expect(await client.trackSale(sale)).toMatchObject({ ok: false, status: 429, error: { code: 'rate_limited' } })
    expect(standIn.received).toHaveLength(1)
  })

  test('is not retried if the caller wants no retries', async () => {
    standIn.answers = ['drop']
    const once = new SvcClient({ apiKey: 'svc_live_k', baseUrl, retries: 0 })
    expect(await once.trackSale(sale)).toMatchObject({ ok: false, status: 0 })
    expect(standIn.received).toHaveLength(1)
  })
})

describe('409 for a sale', () => {
  test.each([
    ['at once', [duplicate(true)], false],
    ['with the same payload, after a lost response', ['drop', duplicate(true)], true],
    [
      "with the same payload, after an outcome that the service doesn't know",
      [refusal(503, 'unavailable'), duplicate(true)],
      true,
    ],
    ['with another payload, after a lost response', ['drop', duplicate(false)], false],
    [
      'with the same payload, after a rate limit, which records nothing',
      [refusal(429, 'rate_limited'), duplicate(true)],
      false,
    ],
  ] satisfies [string, Answer[], boolean][])('%s', async (_, sequence, expected) => {
    standIn.answers = [...sequence]
    const result = await client.trackSale(sale)
    expect(result).toMatchObject({ ok: expected, status: 409 })
    if (result.ok) expect(result.data).toEqual({ success: true, sale_id: 7 })
    else expect(result.error).toMatchObject({ code: 'duplicate_transaction', sale_id: 7 })
  })
})

describe('a call that fails', () => {
  const circular: Record<string, unknown> = {}
  circular['self'] = circular
  test.each([
    ['no input', () => client.trackLead(undefined as never), 'invalid_request'],
    [
      "a value that isn't JSON",
      () => client.trackLead({ customerExternalId: 'u', clickId: null, additionalData: circular }),
      'invalid_request',
    ],
    [
      'no address',
      () => new SvcClient({ apiKey: 'svc_live_k', baseUrl: 'nowhere', retries: 0 }).trackSale(sale),
      'network_error',
    ],
  ])("doesn't throw: %s", async (_, call, code) => {
    expect(await call()).toMatchObject({ ok: false, error: { code } })
  })

  test('includes the cause in network_error', async () => {
    const away = new SvcClient({ apiKey: 'svc_live_k', baseUrl: 'http://127.0.0.1:2', retries: 0 })
    expect(await away.trackSale(sale)).toMatchObject({
      error: { code: 'network_error', message: expect.stringContaining('(ECONNREFUSED) at http://127.0.0.1:2/') },
    })
  })

  test("doesn't follow a redirect, so that no other server gets the key", async () => {
    standIn.answers = [{ status: 302, headers: { location: `${baseUrl}/elsewhere` }, body: '' }]
    expect(await client.trackSale(sale)).toMatchObject({ ok: false, status: 302, error: { code: 'invalid_response' } })
    expect(standIn.received).toHaveLength(1)
  })
})

describe('the constructor', () => {
  test.each([
    ['without a key', { apiKey: undefined, baseUrl }, 'Set SVC_API_KEY'],
    ['with an empty key', { apiKey: ' ', baseUrl }, 'Set SVC_API_KEY'],
    ['with a malformed key', { apiKey: 'svc_live_\nsecret\u{1F511}', baseUrl }, 'Copy the complete key'],
    ['without an address', { apiKey: 'svc_live_k' }, 'Pass the address of the service'],
  ])('throws %s, and never quotes the key', (_, options, message) => {
    for (const create of [() => new SvcClient(options), () => new SvcApi(options)]) {
      expect(create).toThrow(message)
      expect(create).not.toThrow('secret')
    }
  })

  test('takes the address from SVC_BASE_URL', async () => {
    vi.stubEnv('SVC_BASE_URL', `${baseUrl}/`)
    const found = new SvcClient({ apiKey: 'svc_live_k' })
    await found.trackSale(sale)
    vi.unstubAllEnvs()
    expect(standIn.received).toHaveLength(1)
  })
})

test('the client logs ignored fields once', async () => {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
  standIn.answers = [ok({ sale_id: 7, ignored_fields: ['colour'] }), ok({ sale_id: 8, ignored_fields: ['colour'] })]
  await client.trackSale(sale)
  await client.trackSale({ ...sale, invoiceId: 'inv-2' })
  expect(warn.mock.calls).toEqual([['The service ignored these unknown fields: colour.']])
  warn.mockRestore()
})

describe('getClickId', () => {
  const id = 'cust_1700000000000_12345678901234567890'
  test.each([
    ['a Request', () => ({ headers: new Headers({ cookie: `a=b; svc_click_id=${id}; c=d` }) }), id],
    ['a Node request', () => ({ headers: { cookie: `svc_click_id=${id}` } }), id],
    ['a request without cookies', () => ({ headers: {} }), null],
    ['another cookie with the same suffix', () => ({ headers: { cookie: `my_svc_click_id=${id}` } }), null],
    ['an invalid click id', () => ({ headers: { cookie: 'svc_click_id=<script>' } }), null],
  ])('of %s', (_, request, expected) => {
    expect(getClickId(request())).toBe(expected)
  })
})
