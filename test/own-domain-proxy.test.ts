import { readFile } from 'node:fs/promises'
import { createTrackerProxy } from '@affiliate-tracking/svc-tracker/proxy'
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
  body: unknown = { affiliate_url: 'https://shop.example.com/?aff=jane' },
) =>
  new Request('http://internal:3000/mount', {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { origin, 'content-type': 'application/json', ...headers },
  })

describe("the proxy on a program's own domain", () => {
  const proxy = createTrackerProxy({ baseUrl: standIn.baseUrl, key, isBehindProxy: true })
  const click = ok({ click_id: 'cust_1_2', cookie_window_days: 30 })
  test.each([
    ['a click', { affiliate_url: 'https://shop.example.com/?aff=jane' }, '/api/v1/track/click'],
    ['a signup', { customer_key: 'user-1', click_id: 'cust_1_2' }, '/api/v1/track/lead'],
  ])('recognizes %s by its content', async (_, body, path) => {
    standIn.answers = [click]
    await proxy(proxied('https://shop.example.com', {}, body))
    expect(standIn.received).toMatchObject([{ path, body }])
  })

  test.each(['', '{', '[]', 'null', '{}', '{"transaction_id":"1"}'])("doesn't accept the call %j", async (body) => {
    expect((await proxy(proxied('https://shop.example.com', {}, body))).status).toBe(404)
    expect(standIn.received).toEqual([])
  })

  test("doesn't trust addresses that visitors send themselves when they connect directly", async () => {
    standIn.answers = [click]
    const direct = createTrackerProxy({ baseUrl: standIn.baseUrl, key })
    await direct(proxied('https://shop.example.com', { 'x-forwarded-for': '198.51.100.7' }))
    const [call] = standIn.received
    expect(new URLSearchParams(new Headers(call?.headers).get('svc-visitor') ?? '').get('address')).toBe('')
  })

  test('forwards the user agent and its own description of the visitor, and nothing else', async () => {
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
    expect(standIn.received[0]).toMatchObject({ path: '/api/v1/track/click' })
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
    ['neither provider, whatever the visitor sends', '', undefined, { country: null, address: '198.51.100.7' }],
  ] as const)('the service accepts address and place from an edge of %s', async ([, vercel, cf, expected]) => {
    vi.stubEnv('VERCEL', vercel)
    await proxy(Object.assign(proxied('https://shop.example.com', ofVercel), cf && { cf }))
    const header = standIn.received[0]?.headers.get('svc-visitor') ?? null
    expect(await readProxiedVisitor(header, env)).toMatchObject({ programId: 7, ...expected })
    expect(await readProxiedVisitor(header, env, Date.now() + 290_000)).toMatchObject({ programId: 7 })
  })

  test.for<[string, (header: string) => string, number?]>([
    ['from five minutes ago', (header) => header, 310_000],
    ['from five minutes ahead', (header) => header, -310_000],
    ['with another address', (header) => header.replace('198.51.100.7', '198.51.100.8')],
    ['with another country', (header) => header.replace('country=', 'country=DE')],
    ['of another program', (header) => header.replace('program=7', 'program=8')],
    ['of no program', (header) => header.replace('program=7', 'program=')],
    ['with another signature', (header) => header.replace(/.{64}$/, 'a'.repeat(64))],
    ['without its signature', (header) => header.replace(/&signature.*/, '')],
    ['that is empty', () => ''],
    ['that is too long', (header) => header.replace('city=', `city=${'x'.repeat(3000)}`)],
  ])('the service ignores a header %s', async ([, change, later = 0]) => {
    await proxy(proxied('https://shop.example.com', { 'x-forwarded-for': '198.51.100.7' }))
    const header = standIn.received[0]?.headers.get('svc-visitor') ?? ''
    expect(await readProxiedVisitor(header, env)).toMatchObject({ address: '198.51.100.7' })
    expect(await readProxiedVisitor(change(header), env, Date.now() + later)).toBeUndefined()
  })

  test.for([undefined, ofAnotherSecret, 'svc_proxy_7_guessed', ''])(
    "the service doesn't trust a proxy whose key is %s",
    async (other) => {
      await createTrackerProxy({ baseUrl: standIn.baseUrl, key: other })(proxied('https://shop.example.com'))
      const header = standIn.received[0]?.headers.get('svc-visitor') ?? null
      expect(header).not.toBeNull()
      expect(await readProxiedVisitor(header, env)).toBeUndefined()
    },
  )

  test('a place name that is cut inside a character can be stored', async () => {
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
    const [cookie, copy] = response.headers.getSetCookie()
    expect(cookie).toBe(
      ['svc_click_id=cust_1_2; Path=/; Max-Age=2592000; SameSite=Lax', rest].filter(Boolean).join('; '),
    )
    expect(copy?.replace(/\.\d+;/, '.UNTIL;')).toBe(
      ['svc_click_id_kept=cust_1_2.UNTIL; Path=/; Max-Age=2592000; SameSite=Lax; HttpOnly', rest]
        .filter(Boolean)
        .join('; '),
    )
  })

  test("doesn't keep a cookie longer than browsers allow", async () => {
    standIn.answers = [ok({ click_id: 'cust_1_2', cookie_window_days: 730 })]
    const response = await proxy(proxied('https://shop.example.com'))
    expect(response.headers.getSetCookie()[0]).toContain('Max-Age=34560000;')
  })

  const soon = Math.floor(Date.now() / 1000) + 1000
  test.each([
    ['is gone', `svc_click_id_kept=cust_1_2.${soon}`, /^svc_click_id=cust_1_2; Path=\/; Max-Age=(1000|9\d\d); /],
    ['still exists', `svc_click_id_kept=cust_1_2.${soon}; svc_click_id=cust_1_2`, /^$/],
    ['has expired', `svc_click_id_kept=cust_1_2.${soon - 2000}`, /^$/],
    ['never existed', 'session=1', /^$/],
    ['is not a click id', `svc_click_id_kept=<x>.${soon}`, /^$/],
  ])('sets the click id cookie again with the script only if it is missing: it %s', async (_, cookie, set) => {
    standIn.answers = [{ status: 200, headers: { 'cache-control': 'public, max-age=86400' } }]
    const response = await proxy(new Request('http://x/mount', { headers: { cookie } }))
    const setCookie = response.headers.get('set-cookie') ?? ''
    expect(setCookie).toMatch(set)
    // Shared caches must not keep a visitor's answer. The browser's own cache only works for the same cookies.
    expect(response.headers.get('cache-control')).toBe(setCookie ? 'no-store' : 'private, max-age=86400')
    expect(response.headers.get('vary')).toBe('cookie')
  })

  test('a visitor who lost the cookie recovers the click from its copy', async () => {
    standIn.answers = [click]
    await proxy(proxied('https://shop.example.com', { cookie: `svc_click_id_kept=cust_1_2.${soon}` }))
    expect(standIn.received[0]?.body).toMatchObject({ existing_click_id: 'cust_1_2' })
  })

  test("doesn't set a cookie for a refused click that is answered with 200", async () => {
    const refused = { success: false, error: { code: 'unknown_partner_code' } }
    standIn.answers = [{ status: 200, body: JSON.stringify(refused) }]
    const response = await proxy(proxied('https://shop.example.com'))
    expect([response.status, response.headers.get('set-cookie'), await response.json()]).toEqual([200, null, refused])
  })

  test('deletes both cookies without asking the service if the visitor revokes consent', async () => {
    const response = await proxy(proxied('https://shop.example.com', {}, { revoked: true }))
    expect([response.status, response.headers.getSetCookie()]).toEqual([
      204,
      ['svc_click_id', 'svc_click_id_kept'].map(
        (name) => `${name}=; Path=/; Max-Age=0; SameSite=Lax; Domain=example.com; Secure`,
      ),
    ])
    expect(standIn.received).toEqual([])
  })

  test('forwards a refusal unchanged, without a cookie', async () => {
    standIn.answers = [refusal(429, 'rate_limited', {}, { 'retry-after': '60' })]
    const response = await proxy(proxied('https://shop.example.com'))
    expect([response.status, response.headers.get('retry-after'), response.headers.get('set-cookie')]).toEqual([
      429,
      '60',
      null,
    ])
    expect(await response.json()).toMatchObject({ error: { code: 'rate_limited' } })
  })

  test('returns 503 if the service is unreachable, so that the tracker retries the click', async () => {
    standIn.answers = ['drop']
    expect((await proxy(proxied('https://shop.example.com'))).status).toBe(503)
  })

  test('serves the script at a path that no block list contains', async () => {
    const built = await readFile(new URL('../tracker/dist/svc-tracker.js', import.meta.url), 'utf8')
    standIn.answers = [{ status: 200, body: built }]
    const script = await (await proxy(new Request('http://x/mount'))).text()
    expect(built).toContain('/api/v1/track/')
    expect(script).not.toMatch(/\/api\/|track\//)
  })

  test('revalidates the script', async () => {
    standIn.answers = [{ status: 304, headers: { etag: '"a"' } }]
    const response = await proxy(new Request('http://x/mount', { headers: { 'if-none-match': '"a"' } }))
    expect([response.status, response.headers.get('etag')]).toEqual([304, '"a"'])
    expect(standIn.received[0]?.headers.get('if-none-match')).toBe('"a"')
  })
})
