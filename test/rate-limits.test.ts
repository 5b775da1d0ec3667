import { readFileSync } from 'node:fs'
import { createTrackerProxy } from '@affiliate-tracking/svc-tracker/proxy'
import { describe, expect, test } from 'vitest'
import { generateApiKey } from '../lib/access/api-keys.ts'
import { countedAddress } from '../lib/access/counted-address.ts'
import { proxyKey } from '../lib/access/proxy-keys.ts'
import { withRateLimits } from '../lib/commands/rate-limits.ts'
import type { Sandbox } from '../lib/local/sandbox.ts'
import { type Answer, clickPath, leadPath, refundPath, salePath, startTrackingApi, statusPath } from './support/api.ts'

/** Changes the letters of a code whose bits are set in `bits` to upper case. */
const inCase = (code: string, bits: number) =>
  Array.from(code, (letter, at) => ((bits >> at) & 1 ? letter.toUpperCase() : letter)).join('')

// A window starts at each full minute, which can be between two calls. Twice the limit is always too many.
const rateLimit = 3
const api = await startTrackingApi({ on: 'workers', rateLimit })
const [one, other] = [await api.program(), await api.program()]

const from = (address: string) => ({ 'cf-connecting-ip': address })
const clickOn = (code: string) => ({ affiliate_url: `https://shop.example.com/?aff=${code}` })

const clickFrom = (address: string, code: string) => api.call(clickPath, clickOn(code), { headers: from(address) })

/** Calls until the limit applies, and returns that response. */
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

test('wrangler.toml contains the rate-limit table that `npm run rate-limits` writes', () => {
  const toml = readFileSync('wrangler.toml', 'utf8')
  expect(withRateLimits(toml)).toBe(toml)
})

describe('public calls are counted per address and program', () => {
  test('click', async () => {
    const limited = await exhaust(() => clickFrom('203.0.113.1', one.partnerCode))
    expectLimited(limited)
    expect(limited.headers.get('access-control-allow-origin')).toBe('*')
    expect((await clickFrom('203.0.113.1', other.partnerCode)).status).toBe(200)
    expect((await clickFrom('203.0.113.2', one.partnerCode)).status).toBe(200)
  })

  test('a lead that a browser settles counts ten times for its address', async () => {
    const settling = { lead_auth_policy: 'browser_allowed' } as const
    const programs = await Promise.all(Array.from({ length: 5 }, () => api.program(settling)))
    const limited = await exhaust(async (index) => {
      const click_id = await api.click(programs[index % programs.length] ?? one)
      const lead = { customer_key: crypto.randomUUID(), click_id }
      return await api.call(leadPath, lead, { headers: from('203.0.113.55') })
    })
    expectLimited(limited)
  })

  test('a click with 4 KB of text counts three times for its address', async () => {
    const additional_data = { note: 'x'.repeat(2000) }
    const full = { ...clickOn('unknown'), page_title: 'x'.repeat(1000), user_agent: 'x'.repeat(2000), additional_data }
    const address = from('203.0.113.9')
    const limited = await exhaust((index) => {
      const body = { ...full, affiliate_url: `https://shop.example.com/?aff=unknown-${index}` }
      return api.call(clickPath, body, { headers: address })
    }, 2 * rateLimit)
    expectLimited(limited)
  })

  test('a click with 900 Chinese characters counts several times, because its bytes count', async () => {
    const full = { ...clickOn('unknown'), additional_data: { note: '字'.repeat(900) } }
    const address = from('203.0.113.19')
    const limited = await exhaust((index) => {
      const body = { ...full, affiliate_url: `https://shop.example.com/?aff=unknown-${index}` }
      return api.call(clickPath, body, { headers: address })
    }, rateLimit)
    expectLimited(limited)
  })

  test('upper and lower case of a code share one limit', async () => {
    expectLimited(await exhaust((index) => clickFrom('203.0.113.11', inCase(one.partnerCode, index))))
  })

  test('addresses within one IPv6 /64 share a limit, and another network has its own limit', async () => {
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
    '%s: an address that sends a different program each time reaches the address limit',
    async ([, path, body]) => {
      const address = `192.0.2.${path.length}`
      const call = (index: number) => api.call(path, body(index), { headers: from(address) })
      expectLimited(await exhaust(call, 10 * rateLimit))
    },
  )

  test.for([clickPath, leadPath])(
    '%s: an invalid body counts too, and the limit is checked before the body',
    async (path) => {
      const limited = await exhaust(() => api.call(path, '{', { headers: from(`198.51.100.${path.length}`) }))
      expectLimited(limited)
    },
  )

  test('calls from the machine of a local stack are not counted', async () => {
    for (let calls = 0; calls < 3 * rateLimit; calls++) {
      expect((await api.call(clickPath, clickOn(one.partnerCode))).status).toBe(200)
    }
  })
})

test("a network that uses up a program's test events leaves a hundred to every other network", async () => {
  const { programId } = await api.program()
  const additional_data = { test_mode: true, program_id: programId }
  const send = async (address: string, path: string) => {
    const body = { affiliate_url: 'https://shop.example.com/', customer_key: 'u', additional_data }
    return (await api.call(path, body, { headers: from(address) })).status
  }
  const setTo = (events: number, which: 'program' | 'networks') =>
    api.stack.sql.query(
      `update public_test_events set events = $2 where program_id = $1 and network ${which === 'program' ? '=' : '<>'} 0`,
      [programId, events],
    )
  expect(await send('192.0.2.10', clickPath)).toBe(200)
  await setTo(1000, 'program')
  await setTo(100, 'networks')
  expect(await send('192.0.2.11', clickPath)).toBe(429)
  expect(await send('192.0.2.12', leadPath)).toBe(429)
  expect(await send('198.51.100.10', leadPath)).toBe(200)
  await setTo(99, 'networks')
  expect(await send('198.51.100.11', clickPath)).toBe(200)
  expect(await send('198.51.100.12', clickPath)).toBe(429)
  expect(await send('2001:db8:5:1::1', clickPath)).toBe(200)
})

/** Sends a call like a page behind the proxy. The proxy is on this machine, whose address isn't counted. */
async function throughProxy(key: string | undefined, address: string, body: object, path = clickPath) {
  const request = new Request(`https://shop.example.com/svc${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
  })
  const response = await createTrackerProxy({ baseUrl: api.stack.baseUrl, key, isBehindProxy: true })(request)
  return { status: response.status, headers: response.headers, body: await response.json() }
}
const keyOf = ({ programId }: Sandbox) => proxyKey(api.stack.environment, programId)

describe("visitors behind a proxy on an integrator's own domain", () => {
  test.for([clickPath, leadPath])("%s: each visitor's own address counts", async (path) => {
    const program = await api.program()
    const key = await keyOf(program)
    const body =
      path === clickPath ? clickOn(program.partnerCode) : { customer_key: 'u', click_id: await api.click(program) }
    const limited = await exhaust(() => throughProxy(key, '203.0.113.50', body, path))
    expect(limited.headers.get('retry-after')).toBe('60')
    expect((await throughProxy(key, '203.0.113.51', body, path)).status).toBe(200)
  })

  test('visitors with the same address count separately in each program', async () => {
    const [first, second] = [await api.program(), await api.program()]
    const keys = [await keyOf(first), await keyOf(second)] as const
    await exhaust(() => throughProxy(keys[0], '203.0.113.52', clickOn('unknown')))
    expect((await throughProxy(keys[1], '203.0.113.52', clickOn('unknown'))).status).toBe(400)
    expect((await clickFrom('203.0.113.52', first.partnerCode)).status).toBe(200)
  })

  test("forwarded addresses that a key's owner invents count against the program's limit", async () => {
    const program = await api.program()
    const key = await keyOf(program)
    const call = (index: number) => throughProxy(key, `10.0.${index >> 8}.${index & 255}`, clickOn(program.partnerCode))
    expect((await exhaust(call, 20 * rateLimit)).body).toMatchObject({ error: { code: 'rate_limited' } })
  })

  test("the proxy key of one program can't record clicks or leads of another", async () => {
    const [mine, theirs] = [await api.program(), await api.program()]
    const key = await keyOf(mine)
    const click_id = await api.click(theirs)
    const refused = [
      await throughProxy(key, '203.0.113.53', clickOn(theirs.partnerCode)),
      await throughProxy(key, '203.0.113.53', {
        ...clickOn(mine.partnerCode),
        additional_data: { test_mode: true, program_id: theirs.programId },
      }),
      await throughProxy(key, '203.0.113.54', { customer_key: 'u', click_id }, leadPath),
    ]
    expect(refused.map(({ status, body }) => [status, body.error.code])).toEqual([
      [400, 'unknown_partner_code'],
      [400, 'unknown_partner_code'],
      [400, 'invalid_request'],
    ])
    const [{ clicks }] = await api.rows(
      'select count(*)::int as clicks from affiliate_click_events where program_id = $1',
      [theirs.programId],
    )
    expect(clicks).toBe(1)
  })

  test("an unsigned caller's own address counts, without a location, whatever headers they send", async () => {
    const { partnerCode, programId } = await api.program()
    const call = (index: number) => {
      const time = Math.floor(Date.now() / 1000)
      const visitor = `program=${programId}&time=${time}&address=10.1.0.${index}&country=DE&signature=${'0'.repeat(64)}`
      return api.call(clickPath, clickOn(partnerCode), { headers: { ...from('203.0.113.55'), 'svc-visitor': visitor } })
    }
    expectLimited(await exhaust(call))
    const places = await api.rows(`select distinct geo_country from affiliate_click_events where program_id = $1`, [
      programId,
    ])
    expect(places).toEqual([{ geo_country: null }])
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
  expect(countedAddress(address)).toBe(counted)
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
  ] as const)('%s: invented keys count for their address', async ([path, method, address]) => {
    const body = method === 'GET' ? undefined : {}
    const invented = async () => {
      const { key } = await generateApiKey()
      return await api.call(path, body, { method, key, headers: from(address) })
    }
    expectLimited(await exhaust(invented))
  })

  test('a known key keeps working from an address that also sends invented keys', async () => {
    const { apiKey } = await api.program()
    const call = (key: string) => api.call(statusPath, undefined, { method: 'GET', key, headers: from('203.0.113.25') })
    expect((await api.call(statusPath, undefined, { method: 'GET', key: apiKey })).status).toBe(200)
    await exhaust(async () => await call((await generateApiKey()).key))
    expect((await call(apiKey)).status).toBe(200)
  })

  test('a malformed header counts against its address, and the limit is checked before the key', async () => {
    expectLimited(await exhaust(() => api.call(salePath, {}, { key: 'nonsense', headers: from('203.0.113.9') })))
  })
})
