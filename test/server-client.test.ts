import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { checkoutMetadata, getClickId, renewalFromInvoice, stripeAmount, SvcClient } from 'svc-tracker'
import { createTrackerProxy } from 'svc-tracker/proxy'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { asRequest } from './support/shop.ts'

/** What the server answers to one request: status and body, a broken connection, or nothing for ever. */
type Answer = { status: number; body?: unknown; headers?: Record<string, string> } | 'drop' | 'hang'

interface Received {
  path: string
  headers: Headers
  body: unknown
}

let answers: Answer[] = []
let received: Received[] = []

const server: Server = createServer((incoming, outgoing) => {
  void asRequest(incoming).then(async (request) => {
    const text = await request.text()
    received.push({ path: new URL(request.url).pathname, headers: request.headers, body: text && JSON.parse(text) })
    const answer = answers.shift() ?? { status: 200, body: { success: true } }
    if (answer === 'drop') return incoming.socket.destroy()
    if (answer === 'hang') return undefined
    const { status, body, headers } = answer
    outgoing.writeHead(status, { 'content-type': 'application/json', ...headers })
    return outgoing.end(typeof body === 'string' ? body : JSON.stringify(body))
  })
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
afterAll(() => {
  server.close()
  server.closeAllConnections()
})
const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const client = new SvcClient({ apiKey: 'svc_live_key', baseUrl, timeoutMs: 2000 })
const sale = { customerExternalId: 'user-1', amount: 4990, invoiceId: 'inv-1' }

const ok = (body: object = {}): Answer => ({ status: 200, body: { success: true, ...body } })
const refusal = (status: number, code: string, more: object = {}, headers: Record<string, string> = {}): Answer => ({
  status,
  body: { success: false, error: { code, message: 'Because.', ...more } },
  headers,
})
const duplicate = (samePayload: boolean) =>
  refusal(409, 'duplicate_transaction', { sale_id: 7, same_payload: samePayload })

beforeEach(() => {
  answers = []
  received = []
})

describe('what is sent', () => {
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
    answers = [ok({ commission_id: 3 })]
    expect(await call()).toEqual({ ok: true, status: 200, error: null, data: { success: true, commission_id: 3 } })
    expect(received).toMatchObject([{ path, body }])
    expect(Object.keys(received[0]?.body as object)).toEqual(Object.keys(body))
    expect(received[0]?.headers.get('authorization')).toBe('Bearer svc_live_key')
    expect(received[0]?.headers.get('content-type')).toBe('application/json')
  })

  test('cannot be a test sale', async () => {
    await client.trackSale({ ...sale, additionalData: { test_mode: true } } as typeof sale)
    expect(received[0]?.body).not.toHaveProperty('additional_data')
  })

  test('goes to an address of its own where a route has one', async () => {
    const scattered = new SvcClient({ apiKey: 'k', baseUrl: `${baseUrl}/`, urls: { sale: `${baseUrl}/own/` } })
    await scattered.trackSale(sale)
    await scattered.trackRefund({ invoiceId: 'inv-1' })
    expect(received.map(({ path }) => path)).toEqual(['/own/', '/api/v1/track/refund'])
  })

  test.each([0, -1, 49.9, Number.NaN, 2 ** 60, '100' as unknown as number])(
    'is nothing for an amount of %s',
    async (amount) => {
      const result = await client.trackSale({ ...sale, amount })
      expect(result).toMatchObject({ ok: false, status: 400, error: { code: 'invalid_request' } })
      expect(received).toEqual([])
    },
  )
})

describe('a refusal', () => {
  test.each([
    [400, 'no_attribution'],
    [401, 'api_key_retired'],
    [404, 'not_found'],
    [409, 'duplicate_transaction'],
  ])('%i %s is a result, and the call is not repeated', async (status, code) => {
    answers = [refusal(status, code, { details: [{ field: 'f', message: 'm' }] })]
    expect(await client.trackSale(sale)).toEqual({
      ok: false,
      status,
      error: { code, message: 'Because.', details: [{ field: 'f', message: 'm' }] },
      data: null,
    })
    expect(received).toHaveLength(1)
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
  ] satisfies [string, Answer][])('with %s is sent again', async (_, answer) => {
    const quick = new SvcClient({ apiKey: 'k', baseUrl, timeoutMs: answer === 'hang' ? 300 : 10_000 })
    answers = [answer, ok({ lead_id: 1 })]
    expect(await quick.trackLead({ customerExternalId: 'u', clickId: null })).toMatchObject({
      ok: true,
      data: { lead_id: 1 },
    })
    expect(received).toHaveLength(2)
  })

  test.each([
    ['drop', 0, 'network_error'],
    ['hang', 0, 'timeout'],
    [refusal(503, 'unavailable'), 503, 'unavailable'],
    [{ status: 502, body: '<h1>Bad gateway</h1>' }, 502, 'invalid_response'],
  ] satisfies [Answer, number, string][])('three times is a result: %s', async (answer, status, code) => {
    const quick = new SvcClient({ apiKey: 'k', baseUrl, timeoutMs: answer === 'hang' ? 200 : 10_000 })
    answers = [answer, answer, answer]
    expect(await quick.trackSale(sale)).toMatchObject({ ok: false, status, error: { code }, data: null })
    expect(received).toHaveLength(3)
  })

  test('is left to the caller where the service asks for a long wait', async () => {
    answers = [refusal(429, 'rate_limited', {}, { 'retry-after': '60' })]
    expect(await client.trackSale(sale)).toMatchObject({ ok: false, status: 429, error: { code: 'rate_limited' } })
    expect(received).toHaveLength(1)
  })

  test('is not repeated where the caller wants none', async () => {
    answers = ['drop']
    const once = new SvcClient({ apiKey: 'k', baseUrl, retries: 0 })
    expect(await once.trackSale(sale)).toMatchObject({ ok: false, status: 0 })
    expect(received).toHaveLength(1)
  })
})

describe('409 for a sale', () => {
  test.each([
    ['at once', [duplicate(true)], false],
    ['with the same payload, after an answer was lost', ['drop', duplicate(true)], true],
    [
      'with the same payload, after an outcome unknown to the service',
      [refusal(503, 'unavailable'), duplicate(true)],
      true,
    ],
    ['with another payload, after an answer was lost', ['drop', duplicate(false)], false],
    [
      'with the same payload, after a rate limit, which records nothing',
      [refusal(429, 'rate_limited'), duplicate(true)],
      false,
    ],
  ] satisfies [string, Answer[], boolean][])('%s', async (_, sequence, expected) => {
    answers = [...sequence]
    const result = await client.trackSale(sale)
    expect(result).toMatchObject({ ok: expected, status: 409 })
    if (result.ok) expect(result.data).toEqual({ success: true, sale_id: 7 })
    else expect(result.error).toMatchObject({ code: 'duplicate_transaction', sale_id: 7 })
  })
})

describe('whatever is passed, nothing throws', () => {
  const circular: Record<string, unknown> = {}
  circular['self'] = circular
  test.each([
    ['no input', () => client.trackLead(undefined as never), 'invalid_request'],
    [
      'what is no JSON',
      () => client.trackLead({ customerExternalId: 'u', clickId: null, additionalData: circular }),
      'invalid_request',
    ],
    [
      'no address',
      () => new SvcClient({ apiKey: 'k', baseUrl: 'nowhere', retries: 0 }).trackSale(sale),
      'network_error',
    ],
  ])('%s', async (_, call, code) => {
    expect(await call()).toMatchObject({ ok: false, error: { code } })
  })

  test('and an API key that is no header value is not told', async () => {
    const result = await new SvcClient({ apiKey: 'svc_live_\nsecret\u{1F511}', baseUrl, retries: 0 }).trackSale(sale)
    expect(result).toMatchObject({ ok: false, error: { code: 'network_error' } })
    expect(JSON.stringify(result)).not.toContain('secret')
  })

  test('and a redirect is not followed with the key', async () => {
    answers = [{ status: 302, headers: { location: `${baseUrl}/elsewhere` }, body: '' }]
    expect(await client.trackSale(sale)).toMatchObject({ ok: false, status: 302, error: { code: 'invalid_response' } })
    expect(received).toHaveLength(1)
  })
})

describe('getClickId', () => {
  const id = 'cust_1700000000000_12345678901234567890'
  test.each([
    ['a Request', () => ({ headers: new Headers({ cookie: `a=b; svc_click_id=${id}; c=d` }) }), id],
    ['a Node request', () => ({ headers: { cookie: `svc_click_id=${id}` } }), id],
    ['a request without cookies', () => ({ headers: {} }), null],
    ['another cookie whose name ends so', () => ({ headers: { cookie: `my_svc_click_id=${id}` } }), null],
    ['a value that is no click id', () => ({ headers: { cookie: 'svc_click_id=<script>' } }), null],
  ])('of %s', (_, request, expected) => {
    expect(getClickId(request())).toBe(expected)
  })
})

describe('checkoutMetadata', () => {
  const input = { clickId: 'cust_1_2', customerExternalId: 'user-1', programId: 5 }
  const metadata = { svc_click_id: 'cust_1_2', svc_customer_key: 'user-1', program_id: '5' }

  test('of a payment is on the session alone, which Stripe would refuse otherwise', () => {
    expect(checkoutMetadata({ ...input, mode: 'payment' })).toEqual({ metadata })
  })

  test('of a subscription is on both', () => {
    expect(checkoutMetadata({ ...input, mode: 'subscription' })).toEqual({ metadata, subscription_data: { metadata } })
  })

  test('has all three fields for a visitor without a click', () => {
    expect(checkoutMetadata({ ...input, clickId: null, mode: 'payment' }).metadata).toEqual({
      ...metadata,
      svc_click_id: '',
    })
  })
})

test.each([
  ['usd', 990, 990],
  ['jpy', 990, 990],
  ['kwd', 990, 990],
  ['isk', 99_000, 990],
  ['ISK', 99_050, 991],
  ['ugx', 99_049, 990],
  ['mga', 990, 99_000],
])('%s %i of Stripe are %i minor units by ISO 4217', (currency, amount, expected) => {
  expect(stripeAmount(amount, currency)).toBe(expected)
})

describe('renewalFromInvoice', () => {
  const metadata = { svc_customer_key: 'user-1' }
  const base = { id: 'in_1', amount_paid: 990, billing_reason: 'subscription_cycle', currency: 'eur' }
  const current = { ...base, parent: { subscription_details: { metadata, subscription: 'sub_1' } } }
  const renewal = {
    customerExternalId: 'user-1',
    amount: 990,
    invoiceId: 'in_1',
    currency: 'eur',
    isRecurring: true,
    saleType: 'subscription',
    subscriptionId: 'sub_1',
  }
  test.each([
    ['the current shape', current, renewal],
    [
      'the current shape, expanded',
      { ...base, parent: { subscription_details: { metadata, subscription: { id: 'sub_1' } } } },
      renewal,
    ],
    ['the shape before 2025-03-31', { ...base, subscription_details: { metadata }, subscription: 'sub_1' }, renewal],
    [
      'the older shape, expanded',
      { ...base, subscription_details: { metadata }, subscription: { id: 'sub_1' } },
      renewal,
    ],
    [
      'both shapes, the current one first',
      { ...current, subscription_details: { metadata: { svc_customer_key: 'other' } }, subscription: 'sub_other' },
      renewal,
    ],
    [
      'krónur, which Stripe writes with two decimals',
      { ...current, amount_paid: 99_050, currency: 'isk' },
      { ...renewal, amount: 991, currency: 'isk' },
    ],
    ['no subscription id', { ...base, subscription_details: { metadata } }, { ...renewal, subscriptionId: undefined }],
    ['the first payment', { ...current, billing_reason: 'subscription_create' }, null],
    ['a manual invoice', { ...current, billing_reason: 'manual' }, null],
    ['nothing paid', { ...current, amount_paid: 0 }, null],
    ['a credit', { ...current, amount_paid: -5 }, null],
    ['no customer key', { ...base, parent: { subscription_details: { metadata: {} } } }, null],
    ['no subscription', base, null],
  ])('with %s', (_, invoice, expected) => {
    expect(renewalFromInvoice(invoice)).toEqual(expected)
  })
})

const proxied = (
  origin: string,
  headers: Record<string, string> = {},
  url = 'http://internal:3000/svc/api/v1/track/click',
) =>
  new Request(url, {
    method: 'POST',
    body: '{"a":1}',
    headers: { origin, 'content-type': 'application/json', ...headers },
  })

describe('the proxy on the own domain', () => {
  const proxy = createTrackerProxy({ baseUrl })
  const click = ok({ click_id: 'cust_1_2', cookie_window_days: 30 })
  test('passes on address, agent and place of the visitor, and nothing else of the request', async () => {
    answers = [click]
    await proxy(
      proxied('https://shop.example.com', {
        cookie: 'session=secret',
        authorization: 'Bearer secret',
        'user-agent': 'Visitor/1.0',
        'x-forwarded-for': '198.51.100.7',
        'x-vercel-ip-country': 'DE',
        'x-vercel-ip-country-region': 'NW',
        'x-vercel-ip-city': 'K%C3%B6ln',
      }),
    )
    const headers = Object.fromEntries(received[0]?.headers ?? [])
    expect(received[0]).toMatchObject({ path: '/api/v1/track/click', body: { a: 1 } })
    expect(headers).toMatchObject({
      'user-agent': 'Visitor/1.0',
      'x-forwarded-for': '198.51.100.7',
      'svc-visitor-country': 'DE',
      'svc-visitor-country-region': 'NW',
      'svc-visitor-city': 'K%C3%B6ln',
    })
    expect(JSON.stringify(headers)).not.toContain('secret')
  })

  test('takes the place from the edge of Cloudflare, and names none where nobody knows it', async () => {
    await proxy(Object.assign(proxied('https://shop.example.com'), { cf: { country: 'DE', city: 'Köln' } }))
    await proxy(proxied('https://shop.example.com'))
    expect(
      received.map(({ headers }) => [headers.get('svc-visitor-country'), headers.get('svc-visitor-city')]),
    ).toEqual([
      ['DE', 'K%C3%B6ln'],
      ['', ''],
    ])
  })

  test.each([
    ['https://shop.example.com', 'Domain=example.com; Secure'],
    ['https://example.com', 'Domain=example.com; Secure'],
    ['https://shop.example.co.uk', 'Domain=example.co.uk; Secure'],
    ['http://shop.example.com:8080', 'Domain=example.com'],
    ['http://localhost:3000', ''],
    ['http://127.0.0.1:3000', ''],
    ['null', ''],
  ])('sets the cookie of a page on %s', async (origin, rest) => {
    answers = [click]
    const response = await proxy(proxied(origin))
    expect(await response.json()).toEqual({
      success: true,
      click_id: 'cust_1_2',
      cookie_window_days: 30,
      cookie_set: true,
    })
    expect(response.headers.get('set-cookie')).toBe(
      ['svc_click_id=cust_1_2; Path=/; Max-Age=2592000; SameSite=Lax', rest].filter(Boolean).join('; '),
    )
  })

  test('passes on a refusal as it is, without a cookie', async () => {
    answers = [refusal(429, 'rate_limited', {}, { 'retry-after': '60' })]
    const response = await proxy(proxied('https://shop.example.com'))
    expect([response.status, response.headers.get('retry-after'), response.headers.get('set-cookie')]).toEqual([
      429,
      '60',
      null,
    ])
    expect(await response.json()).toMatchObject({ error: { code: 'rate_limited' } })
  })

  test('answers 503 where the service does not, so that the click is sent again', async () => {
    answers = ['drop']
    expect((await proxy(proxied('https://shop.example.com'))).status).toBe(503)
  })

  test('revalidates the script', async () => {
    answers = [{ status: 304, headers: { etag: '"a"' } }]
    const response = await proxy(new Request('http://x/any/js/svc-tracker.js', { headers: { 'if-none-match': '"a"' } }))
    expect([response.status, response.headers.get('etag')]).toEqual([304, '"a"'])
    expect(received[0]?.headers.get('if-none-match')).toBe('"a"')
  })

  test.each(['/svc/api/v1/track/sale', '/svc/api/v1/track/refund', '/svc/api/v1/cli/status', '/svc/'])(
    'does not serve %s',
    async (path) => {
      const response = await proxy(proxied('https://shop.example.com', {}, `http://x${path}`))
      expect(response.status).toBe(404)
      expect(received).toEqual([])
    },
  )
})
