import { expect, test } from 'vitest'
import { freePort } from '../lib/local/postgres.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { startMailApi, startServe, settingsOf } from './support/serve.ts'
import { givenSecrets } from './support/serve-process.ts'
import { startStack } from './support/stack.ts'

// The same requests to workerd and to `npm run serve`, on one database: both give the same answers.

const stack = await startStack({ on: 'workers', environment: { ...givenSecrets } })
const port = await freePort()
const served = await startServe({
  ...settingsOf(port, await startMailApi()),
  ...givenSecrets,
  DATABASE_URL: stack.databaseUrl,
})
const sandbox = await createSandbox(stack.db, { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '' })

interface Sent {
  method?: string
  headers?: Record<string, string>
  /** Each side sends its own keys, since what is recorded twice is answered otherwise. */
  body?: string | ((side: string) => object)
}

const keyed = { authorization: `Bearer ${sandbox.apiKey}` }
const reader = { authorization: `Bearer ${sandbox.dashboardToken}` }
const affiliate_url = `https://shop.example.com/?aff=${sandbox.partnerCode}`
const form = { 'content-type': 'application/x-www-form-urlencoded' }
const comparedHeaders = [
  'content-type',
  'cache-control',
  'allow',
  'location',
  'retry-after',
  'www-authenticate',
  'content-security-policy',
  'access-control-allow-origin',
  'access-control-allow-headers',
  'access-control-expose-headers',
  'access-control-max-age',
  'ratelimit-policy',
  'vary',
]

async function answerOf(origin: string, side: string, address: string, { method, headers, body }: Sent) {
  const response = await fetch(origin + address, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    redirect: 'manual',
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body(side)) }),
  })
  const text = await response.text()
  const masked = text
    .replaceAll(origin, 'ORIGIN')
    .replaceAll(side, 'SIDE')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|cust_\d+_\d+|(?<="sale_id":)\d+|\d{2,}/g, '#')
  return {
    status: response.status,
    headers: comparedHeaders.map((name) => [name, response.headers.get(name)?.replaceAll(origin, 'ORIGIN')]),
    hasRequestId: response.headers.has('x-request-id'),
    cookies: response.headers.getSetCookie().map((cookie) => cookie.replace(/=[^;]*/, '=')),
    text: masked,
  }
}

test.each<[string, Sent]>([
  ['/api/v1/track/click', { body: () => ({ affiliate_url }) }],
  ['/api/v1/track/click', { body: JSON.stringify({ affiliate_url }), headers: { 'content-type': 'text/plain' } }],
  ['/api/v1/track/click', { body: () => ({ affiliate_url: 'https://shop.example.com/?aff=nobody' }) }],
  ['/api/v1/track/click', { body: () => ({ affiliate_url: 5, page_url: 'x' }) }],
  ['/api/v1/track/click', { body: '{"a"' }],
  ['/api/v1/track/click', { body: '' }],
  ['/api/v1/track/click', { body: `\ufeff${JSON.stringify({ affiliate_url })}` }],
  ['/api/v1/track/click', { body: () => ({ affiliate_url, padding: 'x'.repeat(70_000) }) }],
  ['/api/v1/track/click', { body: 'a=1', headers: form }],
  [
    '/api/v1/track/click',
    { method: 'OPTIONS', headers: { origin: 'https://shop.example.com', 'access-control-request-method': 'POST' } },
  ],
  ['/api/v1/track/click', { method: 'PUT', body: '{}' }],
  ['/api/v1/track/click', {}],
  ['/api/v1/track/lead', { headers: keyed, body: (side) => ({ customer_key: `lead-${side}` }) }],
  ['/api/v1/track/lead', { body: () => ({ customer_key: 'x' }) }],
  [
    '/api/v1/track/sale',
    { headers: keyed, body: (side) => ({ transaction_id: side, customer_key: side, amount_cents: 5 }) },
  ],
  [
    '/api/v1/track/sale',
    { headers: keyed, body: (side) => ({ transaction_id: side, customer_key: side, amount_cents: 6 }) },
  ],
  ['/api/v1/track/sale', { body: () => ({}) }],
  ['/api/v1/track/sale', { headers: { authorization: 'Bearer x' }, body: () => ({}) }],
  ['/api/v1/track/refund', { headers: keyed, body: (side) => ({ transaction_id: side }) }],
  ['/api/v1/track/refund', { headers: keyed, body: () => ({ transaction_id: 'none' }) }],
  ['/api/v1/cli/status', { headers: keyed }],
  ['/api/v1/cli/status', { method: 'HEAD', headers: keyed }],
  ['/api/v1/partners', { headers: keyed }],
  ['/api/v1/partners?limit=0', { headers: keyed }],
  [`/api/tracking/performance/${sandbox.programId}?period=30d`, { headers: reader }],
  [`/api/tracking/performance/${sandbox.programId}?start=%00`, { headers: reader }],
  [`/api/tracking/performance/${sandbox.programId}`, {}],
  [`/api/tracking/events/${sandbox.programId}?page=x`, { headers: reader }],
  ['/api/v1/nothing', {}],
  ['/sign-in', {}],
  ['/sign-in', { body: 'email=a%40example.com&password=wrong', headers: form }],
  ['/', {}],
  [`/programs/${sandbox.programId}`, { headers: reader }],
  ['/api/auth/sign-in/email', { body: () => ({ email: 'nobody@example.com', password: 'wrong-password' }) }],
  ['/js/svc-tracker.js', {}],
  ['/js/svc-tracker.js', { method: 'HEAD' }],
  ['/openapi.json', {}],
  ['/docs', {}],
])('%s (%#)', async (address, sent) => {
  const [ofWorkerd, ofServe] = await Promise.all([
    answerOf(stack.baseUrl, 'on-workerd', address, sent),
    answerOf(served.baseUrl, 'on-one-box', address, sent),
  ])
  expect(ofServe).toEqual(ofWorkerd)
})
