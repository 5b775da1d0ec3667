import { brotliDecompressSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import trackerScript from '../functions/tracker-script.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({ functions: ['tracker-script'] })

describe.each(['svc-tracker.js', 'svc-tracker-consent.js', 'svc-payment-links.js'])('GET /js/%s', (file) => {
  const url = `${stack.baseUrl}/js/${file}`

  test("is revalidated, allowed for every origin, and doesn't need the database", async () => {
    const before = stack.neon.requests
    const response = await fetch(url)
    expect(response.status).toBe(200)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=86400, stale-while-revalidate=604800',
      'access-control-allow-origin': '*',
      'cross-origin-resource-policy': 'cross-origin',
      etag: expect.stringMatching(/^W\/"[\w-]{22}"$/),
      vary: 'Accept-Encoding',
      'x-request-id': expect.any(String),
    })
    expect(stack.neon.requests).toBe(before)
  })

  test.each([
    ['the same tag', (etag: string) => etag, 304],
    ['the tag in a list', (etag: string) => `"other", ${etag}`, 304],
    ['*', () => '*', 304],
    ['another tag', () => '"other"', 200],
  ])('answers If-None-Match with %s', async (_, header, status) => {
    const etag = (await fetch(url)).headers.get('etag') ?? ''
    const response = await fetch(url, { headers: { 'if-none-match': header(etag) } })
    expect([response.status, (await response.text()) === '']).toEqual([status, status === 304])
    expect(response.headers.get('etag')).toBe(etag)
  })

  test('answers HEAD and refuses other methods', async () => {
    const head = await fetch(url, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    const post = await fetch(url, { method: 'POST' })
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    expect(await post.json()).toMatchObject({ success: false, error: { code: 'method_not_allowed' } })
  })

  test('is compressed for a browser that accepts brotli, and plain otherwise', async () => {
    const get = (encoding: string) =>
      trackerScript.fetch(new Request(url, { headers: { 'accept-encoding': encoding } }))
    const brotli = get('gzip, deflate, br')
    expect(brotli.headers.get('content-encoding')).toBe('br')
    const bytes = await brotli.bytes()
    expect(bytes.length).toBeLessThan(file === 'svc-tracker-consent.js' ? 1152 : 1024)
    const plain = get('gzip')
    expect(plain.headers.get('content-encoding')).toBeNull()
    expect(brotliDecompressSync(bytes).toString()).toBe(await plain.text())
    // This runs in workerd, with a client that decodes the body.
    expect(await (await fetch(url)).text()).toBe(await get('').text())
  })
})

test.each([
  ['https://api.example.com/js/svc-tracker.js?v=2', 'svc-tracker.js'],
  ['https://svc-tracker-script.example.workers.dev/', 'svc-tracker.js'],
  ['https://api.example.com/js/svc-payment-links.js?v=2', 'svc-payment-links.js'],
  ['https://svc-tracker-script.example.workers.dev/js/', undefined],
])('%s is %s', async (address, file) => {
  const response = trackerScript.fetch(new Request(address))
  expect(response.status).toBe(file ? 200 : 404)
  if (file) expect(await response.text()).toBe(await (await fetch(`${stack.baseUrl}/js/${file}`)).text())
  else expect(await response.json()).toMatchObject({ success: false, error: { code: 'not_found' } })
})
