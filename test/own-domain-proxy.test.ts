import { createTrackerProxy } from 'svc-tracker/proxy'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { proxyKey } from '../lib/access/proxy-keys.ts'
import { readProxiedVisitor } from '../lib/tracking/proxied-visitor.ts'
import { ok, refusal, openStandIn } from './support/stand-in.ts'

const standIn = await openStandIn()
const env = { PROXY_SECRET: 'secret of the deployment' }
const key = await proxyKey(env, 7)
const ofAnotherSecret = await proxyKey({ PROXY_SECRET: 'another' }, 7)
afterEach(() => void vi.unstubAllEnvs())

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
  const proxy = createTrackerProxy({ baseUrl: standIn.baseUrl, key })
  const click = ok({ click_id: 'cust_1_2', cookie_window_days: 30 })
  test('passes on the agent, and nothing else of the request but what it says of the visitor', async () => {
    standIn.answers = [click]
    await proxy(
      proxied('https://shop.example.com', {
        cookie: 'session=secret',
        authorization: 'Bearer secret',
        'user-agent': 'Visitor/1.0',
        'x-forwarded-for': '192.0.2.1, 198.51.100.7',
        'x-vercel-ip-country': 'DE',
        'svc-visitor': 'address=secret',
      }),
    )
    const headers = Object.fromEntries(standIn.received[0]?.headers ?? [])
    expect(standIn.received[0]).toMatchObject({ path: '/api/v1/track/click', body: { a: 1 } })
    expect(headers).toMatchObject({ 'user-agent': 'Visitor/1.0' })
    expect(Object.fromEntries(new URLSearchParams(headers['svc-visitor']))).toEqual({
      program: '7',
      time: expect.stringMatching(/^\d{10}$/),
      address: '198.51.100.7',
      country: '',
      region: '',
      city: '',
      signature: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(JSON.stringify(headers)).not.toContain('secret')
  })

  const ofVercel = {
    'x-vercel-ip-country': 'DE',
    'x-vercel-ip-country-region': 'NW',
    'x-vercel-ip-city': 'K%C3%B6ln',
    'x-forwarded-for': '198.51.100.7',
    'cf-connecting-ip': '198.51.100.8',
  }
  const place = { country: 'DE', region: 'NW', city: 'Köln' }
  test.for([
    ['Vercel', '1', undefined, { ...place, address: '198.51.100.7' }],
    ['Cloudflare', '', place, { ...place, address: '198.51.100.8' }],
    ['neither, whatever the visitor sends', '', undefined, { country: null, address: '198.51.100.7' }],
  ] as const)('the service believes address and place from an edge of %s', async ([, vercel, cf, expected]) => {
    vi.stubEnv('VERCEL', vercel)
    await proxy(Object.assign(proxied('https://shop.example.com', ofVercel), cf && { cf }))
    const header = standIn.received[0]?.headers.get('svc-visitor') ?? null
    expect(await readProxiedVisitor(header, env)).toMatchObject({ programId: 7, ...expected })
    expect(await readProxiedVisitor(header, env, Date.now() + 290_000)).toMatchObject({ programId: 7 })
  })

  test.for<[string, (header: string) => string, number?]>([
    ['of another time, five minutes before', (header) => header, 310_000],
    ['of another time, five minutes ahead', (header) => header, -310_000],
    ['with another address', (header) => header.replace('198.51.100.7', '198.51.100.8')],
    ['with another country', (header) => header.replace('country=', 'country=DE')],
    ['of another program', (header) => header.replace('program=7', 'program=8')],
    ['of no program', (header) => header.replace('program=7', 'program=')],
    ['with another signature', (header) => header.replace(/.{64}$/, 'a'.repeat(64))],
    ['without its signature', (header) => header.replace(/&signature.*/, '')],
    ['that is empty', () => ''],
    ['that is too long', (header) => header.replace('city=', `city=${'x'.repeat(3000)}`)],
  ])('the service believes no header %s', async ([, change, later = 0]) => {
    await proxy(proxied('https://shop.example.com', { 'x-forwarded-for': '198.51.100.7' }))
    const header = standIn.received[0]?.headers.get('svc-visitor') ?? ''
    expect(await readProxiedVisitor(header, env)).toMatchObject({ address: '198.51.100.7' })
    expect(await readProxiedVisitor(change(header), env, Date.now() + later)).toBeUndefined()
  })

  test.for([undefined, ofAnotherSecret, 'svc_proxy_7_guessed', ''])(
    'the service does not believe a proxy with the key %s',
    async (other) => {
      await createTrackerProxy({ baseUrl: standIn.baseUrl, key: other })(proxied('https://shop.example.com'))
      const header = standIn.received[0]?.headers.get('svc-visitor') ?? null
      expect(header).not.toBeNull()
      expect(await readProxiedVisitor(header, env)).toBeUndefined()
    },
  )

  test('a place longer than what is kept, and cut inside a character, can be stored', async () => {
    const city = `${'x'.repeat(254)}🛒`
    await proxy(Object.assign(proxied('https://shop.example.com'), { cf: { city } }))
    const visitor = await readProxiedVisitor(standIn.received[0]?.headers.get('svc-visitor') ?? null, env)
    expect(visitor?.city).toBe(`${'x'.repeat(254)}\uFFFD`)
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
