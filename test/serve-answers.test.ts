import { Stripe } from 'stripe'
import { expect, test } from 'vitest'
import { sessionCookie } from '../lib/access/sessions.ts'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import { createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { setHost } from '../lib/programs/hosts.ts'
import { checkoutSession, stripeEvent } from '../lib/local/stripe-events.ts'
import { startMailApi, startServe, settingsOf } from './support/serve.ts'
import { givenSecrets } from './support/serve-process.ts'
import { startStack } from './support/stack.ts'

// Sends the same requests to workerd and to `npm run serve` on one database, and compares the answers.

const stripe = { STRIPE_WEBHOOK_SECRET: 'whsec_both', STRIPE_SECRET_KEY: 'sk_test_both' }
const stack = await startStack({ on: 'workers', environment: { ...givenSecrets, ...stripe } })
const port = await freePort()
const served = await startServe({
  ...settingsOf(port, await startMailApi()),
  ...givenSecrets,
  ...stripe,
  DATABASE_URL: stack.databaseUrl,
})
const sandbox = await createSandbox(stack.db, { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '' })

interface Sent {
  method?: string
  headers?: Record<string, string>
  /** Headers that depend on the body or the address. */
  signed?: (text: string, origin: string) => Record<string, string>
  /** Each side has its own keys, because the answer for a repeated key would differ. */
  body?: string | ((side: string) => object)
}

const keyed = { authorization: `Bearer ${sandbox.apiKey}` }
const reader = { authorization: `Bearer ${sandbox.dashboardToken}` }
const affiliate_url = `https://shop.example.com/?aff=${sandbox.partnerCode}`
const asOwner = { cookie: `${sessionCookie}=${encodeURIComponent(sandbox.dashboardToken)}` }
const env = { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '' }
// Hashes the password at the cost that both sides expect.
const person = { name: 'Ada', email: 'ada@example.com', password: 'correct horse battery' }
await createPerson(stack.db, env, person)
const fromPage = (_: string, origin: string) => ({ origin })
const signed = (payload: string) => ({
  'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret: stripe.STRIPE_WEBHOOK_SECRET }),
})
const shop = {
  generation: 'new' as const,
  account: sandbox.connectedAccountId,
  programId: sandbox.programId,
  clickId: '',
  customerKey: 'buyer',
  email: 'buyer@example.com',
  customer: 'cus_1',
  livemode: true,
  now: Math.floor(Date.now() / 1000),
}
const paid = (side: string) =>
  stripeEvent(
    shop,
    `evt_${side}`,
    'checkout.session.completed',
    checkoutSession(shop, { id: `cs_${side}`, total: 700, payment_intent: `pi_${side}` }),
  )
const form = { 'content-type': 'application/x-www-form-urlencoded' }
const comparedHeaders = `
  content-type cache-control allow location retry-after www-authenticate content-security-policy
  access-control-allow-origin access-control-allow-headers access-control-expose-headers access-control-max-age
  ratelimit-policy vary
`
  .trim()
  .split(/\s+/)

async function answerOf(origin: string, side: string, address: string, { method, headers, body, signed: sign }: Sent) {
  const sent = typeof body === 'string' ? body : body && JSON.stringify(body(side))
  const response = await fetch(origin + address, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      // An unread body closes its connection, which the next call could otherwise reuse.
      connection: 'close',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
      ...sign?.(sent ?? '', origin),
    },
    redirect: 'manual',
    ...(sent !== undefined && { body: sent }),
  })
  const text = await response.text()
  const masked = text
    .replaceAll(origin, 'ORIGIN')
    .replaceAll(side, 'SIDE')
    .replaceAll(/(?<="token":")[^"]+/g, '#')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|cust_\d+_\d+|(?<="(?:\w+_)?id":)\d+|\d{2,}/g, '#')
  return {
    status: response.status,
    headers: comparedHeaders.map((name) => [
      name,
      response.headers
        .get(name)
        ?.replaceAll(origin, 'ORIGIN')
        .replace(/(?<=\/api\/.*\/)\d+$/, '#'),
    ]),
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
  ['/api/auth/sign-in/email', { signed: fromPage, body: () => ({ email: person.email, password: person.password }) }],
  ['/sign-in', { signed: fromPage, body: new URLSearchParams(person).toString(), headers: form }],
  [`/programs/${sandbox.programId}`, { headers: asOwner }],
  [`/programs/${sandbox.programId}/partners`, { headers: asOwner }],
  [`/programs/${sandbox.programId}/partners`, { headers: { ...asOwner, ...form }, body: 'name=&email=x' }],
  [
    `/programs/${sandbox.programId}/partners`,
    { headers: { ...asOwner, ...form }, signed: fromPage, body: 'name=&email=x' },
  ],
  [`/programs/${sandbox.programId}/commissions`, { headers: asOwner }],
  [`/programs/${sandbox.programId}/webhooks`, { headers: asOwner }],
  [`/programs/${sandbox.programId}/commissions.csv`, { headers: asOwner }],
  ['/account', { headers: asOwner }],
  [
    '/api/v1/partners',
    { headers: keyed, body: (side) => ({ name: 'Grace', email: `${side}@example.com`, code: side }) },
  ],
  ['/api/v1/webhook-endpoints', { headers: keyed }],
  ['/api/v1/webhooks/stripe', { body: '{}' }],
  ['/api/v1/webhooks/stripe', { body: paid, signed }],
  ['/api/v1/webhooks/stripe', { body: paid, signed }],
  ['/api/v1/webhooks/stripe', { body: 'x'.repeat(1024 * 1024 + 1) }],
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

test("on a program's own host, one box only serves the join page, and ignores sessions and keys", async () => {
  const [host, ask] = ['partners.acme.example', `${served.baseUrl}/internal/program-host?domain=partners.acme.example`]
  await stack.sql.query(
    `with page as (insert into join_slugs (slug, program_id) values ('acme', $1) returning slug, program_id)
    insert into join_pages (program_id, slug, is_open) select program_id, slug, true from page`,
    [sandbox.programId],
  )
  await setHost(stack.db, sandbox.programId, host)
  expect((await fetch(ask)).status).toBe(404)
  await stack.sql.query('update program_hosts set verified_at = now() where host = $1', [host])
  // The answer is up to two seconds old.
  await expect.poll(async () => (await fetch(ask)).status).toBe(200)
  const statusOf = async (path: string, headers: Record<string, string> = {}) => {
    const sent = { ...headers, 'x-program-host': host }
    return [path, (await fetch(served.baseUrl + path, { headers: sent, redirect: 'manual' })).status]
  }
  expect(await statusOf('/')).toEqual(['/', 200])
  const closed: [string, Record<string, string>][] = [
    [`/programs/${sandbox.programId}`, asOwner],
    ['/account', asOwner],
    ['/api/auth/get-session', asOwner],
    [`/api/tracking/events/${sandbox.programId}`, reader],
    ['/api/v1/partners', keyed],
    ['/api/v1/cli/status', keyed],
    ['/js/svc-tracker.js', {}],
    ['/healthz', {}],
    ['/openapi.json', {}],
  ]
  for (const [path, headers] of closed) expect(await statusOf(path, headers)).toEqual([path, 404])
})
