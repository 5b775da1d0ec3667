import { describe, expect, test } from 'vitest'
import { generateApiKey } from '../lib/access/api-keys.ts'
import { countedAddress } from '../lib/access/counted-address.ts'
import { type Answer, clickPath, leadPath, refundPath, salePath, startTrackingApi, statusPath } from './support/api.ts'

// The window begins with the minute of the clock, which can fall between two calls; a limit is met within twice its count anyway.
const rateLimit = 3
const api = await startTrackingApi({ rateLimit })
const [one, other] = [await api.program(), await api.program()]

const from = (address: string) => ({ 'cf-connecting-ip': address })
const clickOn = (code: string) => ({ affiliate_url: `https://shop.example.com/?aff=${code}` })

const clickFrom = (address: string, code: string) => api.call(clickPath, clickOn(code), { headers: from(address) })

/** Calls until the limit is met, and returns the answer that says so. */
async function exhaust(call: (index: number) => Promise<Answer>, limit = rateLimit): Promise<Answer> {
  for (let calls = 1; calls <= 2 * limit + 1; calls++) {
    const answer = await call(calls)
    if (answer.status === 429) {
      expect(calls).toBeGreaterThan(limit)
      return answer
    }
  }
  throw new Error('The limit was never met.')
}

function expectLimited(answer: Answer): void {
  expect(answer).toMatchObject({ status: 429, body: { status: 429, error: { code: 'rate_limited' } } })
  expect(answer.headers.get('content-type')).toBe('application/problem+json')
  expect(answer.headers.get('retry-after')).toBe('60')
  expect(answer.headers.get('ratelimit')).toBe('"default";r=0;t=60')
}

describe('public calls are counted per address and program', () => {
  test('click', async () => {
    const limited = await exhaust(() => clickFrom('203.0.113.1', one.partnerCode))
    expectLimited(limited)
    expect(limited.headers.get('access-control-allow-origin')).toBe('*')
    expect((await clickFrom('203.0.113.1', other.partnerCode)).status).toBe(200)
    expect((await clickFrom('203.0.113.2', one.partnerCode)).status).toBe(200)
  })

  test('an IPv6 address that changes within its /64 meets the limit, and another network does not', async () => {
    const limited = await exhaust((index) => clickFrom(`2001:db8:1:2:${index}::${index}`, one.partnerCode))
    expectLimited(limited)
    expect((await clickFrom('2001:db8:1:3::1', one.partnerCode)).status).toBe(200)
  })

  test('browser lead', async () => {
    const [first, second] = [await api.click(one), await api.click(other)]
    const call = (address: string, click_id: string) =>
      api.call(leadPath, { customer_key: 'u', click_id }, { headers: from(address) })
    expectLimited(await exhaust(() => call('203.0.113.3', first)))
    expect((await call('203.0.113.3', second)).status).toBe(200)
    expect((await call('203.0.113.4', first)).status).toBe(200)
  })

  test.for([
    ['click', clickPath, (index: number) => clickOn(`unknown-${index}`)],
    [
      'browser lead',
      leadPath,
      (index: number) => ({ customer_key: 'u', click_id: `cust_1700000000000_${'1'.repeat(20)}${index}` }),
    ],
  ] as const)(
    '%s: an address that names another program each time meets the limit of the address',
    async ([, path, body]) => {
      const address = `192.0.2.${path.length}`
      const call = (index: number) => api.call(path, body(index), { headers: from(address) })
      expectLimited(await exhaust(call, 10 * rateLimit))
    },
  )

  test.for([clickPath, leadPath])('%s: a bad body counts too, and the limit goes before its refusal', async (path) => {
    const limited = await exhaust(() => api.call(path, '{', { headers: from(`198.51.100.${path.length}`) }))
    expectLimited(limited)
  })

  test('calls from the machine of a local stack are not counted', async () => {
    for (let calls = 0; calls < 3 * rateLimit; calls++) {
      expect((await api.call(clickPath, clickOn(one.partnerCode))).status).toBe(200)
    }
  })
})

test.for([
  ['203.0.113.7', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8::2:3:4:5:6', '2001:db8:0:2::/64'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['::1', undefined],
  ['127.0.0.1', undefined],
] as const)('%s is counted as %s', ([address, counted]) => {
  expect(countedAddress(new Headers(from(address)))).toBe(counted)
})

describe('keyed calls are counted per key', () => {
  test.for([
    [leadPath, 'POST'],
    [salePath, 'POST'],
    [refundPath, 'POST'],
    [statusPath, 'GET'],
  ] as const)('%s', async ([path, method]) => {
    const call = (key: string) => api.call(path, method === 'GET' ? undefined : {}, { method, key })
    expectLimited(await exhaust(() => call(one.apiKey)))
    expect((await call(other.apiKey)).status).not.toBe(429)
  })

  test.for([
    [leadPath, 'POST', '203.0.113.21'],
    [salePath, 'POST', '203.0.113.22'],
    [refundPath, 'POST', '203.0.113.23'],
    [statusPath, 'GET', '203.0.113.24'],
  ] as const)('%s: keys that were invented count for their address', async ([path, method, address]) => {
    const body = method === 'GET' ? undefined : {}
    const invented = async () => {
      const { key } = await generateApiKey()
      return await api.call(path, body, { method, key, headers: from(address) })
    }
    expectLimited(await exhaust(invented))
  })

  test('a key that is known goes on at an address that invents others', async () => {
    const { apiKey } = await api.program()
    const call = (key: string) => api.call(statusPath, undefined, { method: 'GET', key, headers: from('203.0.113.25') })
    expect((await api.call(statusPath, undefined, { method: 'GET', key: apiKey })).status).toBe(200)
    await exhaust(async () => await call((await generateApiKey()).key))
    expect((await call(apiKey)).status).toBe(200)
  })

  test('a header that holds no key counts for its address, and the limit goes before the 401', async () => {
    expectLimited(await exhaust(() => api.call(salePath, {}, { key: 'nonsense', headers: from('203.0.113.9') })))
  })
})
