import { createTrackerProxy } from 'svc-tracker/proxy'
import { describe, expect, test } from 'vitest'
import { ok, refusal, openStandIn } from './support/stand-in.ts'

const standIn = await openStandIn()

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
  const proxy = createTrackerProxy({ baseUrl: standIn.baseUrl })
  const click = ok({ click_id: 'cust_1_2', cookie_window_days: 30 })
  test('passes on address, agent and place of the visitor, and nothing else of the request', async () => {
    standIn.answers = [click]
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
    const headers = Object.fromEntries(standIn.received[0]?.headers ?? [])
    expect(standIn.received[0]).toMatchObject({ path: '/api/v1/track/click', body: { a: 1 } })
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
      standIn.received.map(({ headers }) => [headers.get('svc-visitor-country'), headers.get('svc-visitor-city')]),
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
    standIn.answers = [click]
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
    standIn.answers = [refusal(429, 'rate_limited', {}, { 'retry-after': '60' })]
    const response = await proxy(proxied('https://shop.example.com'))
    expect([response.status, response.headers.get('retry-after'), response.headers.get('set-cookie')]).toEqual([
      429,
      '60',
      null,
    ])
    expect(await response.json()).toMatchObject({ error: { code: 'rate_limited' } })
  })

  test('answers 503 where the service does not, so that the click is sent again', async () => {
    standIn.answers = ['drop']
    expect((await proxy(proxied('https://shop.example.com'))).status).toBe(503)
  })

  test('revalidates the script', async () => {
    standIn.answers = [{ status: 304, headers: { etag: '"a"' } }]
    const response = await proxy(new Request('http://x/any/js/svc-tracker.js', { headers: { 'if-none-match': '"a"' } }))
    expect([response.status, response.headers.get('etag')]).toEqual([304, '"a"'])
    expect(standIn.received[0]?.headers.get('if-none-match')).toBe('"a"')
  })

  test.each(['/svc/api/v1/track/sale', '/svc/api/v1/track/refund', '/svc/api/v1/cli/status', '/svc/'])(
    'does not serve %s',
    async (path) => {
      const response = await proxy(proxied('https://shop.example.com', {}, `http://x${path}`))
      expect(response.status).toBe(404)
      expect(standIn.received).toEqual([])
    },
  )
})
