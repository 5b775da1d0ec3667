import { Stripe } from 'stripe'
import { expect, test } from 'vitest'
import { checkoutSession, stripeEvent } from '../lib/local/stripe-events.ts'
import { createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({ on: 'workers', environment: { MAIL_API_URL: '' } })
const env = { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET }
const program = await createSandbox(stack.db, env)
const password = 'a-planted-password-of-a-person'
const email = 'Planted.Customer@Private.Example'
const person = await createPerson(stack.db, env, {
  name: 'Pat',
  email: `pat-${program.programId}@people.example`,
  password,
})

const planted = {
  'the API key': program.apiKey,
  "the API key's secret part": program.apiKey.slice('svc_live_'.length),
  'the signed session token of a member': program.dashboardToken,
  'the signed session token of a partner': program.partnerToken,
  "the customer's e-mail address": email,
  "the e-mail address of the processor's customer": 'planted.payer@private.example',
  "the webhook's secret": stack.environment.STRIPE_WEBHOOK_SECRET,
  'the secret of sessions': stack.environment.AUTH_SECRET,
  'the hash key of e-mail addresses': stack.environment.EMAIL_HASH_KEY,
  "a person's password": password,
}

async function post(path: string, body: object | string, headers: Record<string, string> = {}) {
  const response = await fetch(stack.baseUrl + path, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  return { status: response.status, text }
}

/** Returns all rows of all tables as text. */
async function dump(): Promise<string> {
  const { rows: tables } = await stack.sql.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  )
  const texts = []
  for (const { name } of tables) {
    const { rows } = await stack.sql.query<{ text: string }>(`select t::text as text from ${name} t`)
    texts.push(...rows.map(({ text }) => `${name} ${text}`))
  }
  return texts.join('\n')
}

/** Collects the queue's messages before the functions remove them. */
const messages: string[] = []

test('every route that takes a secret or an address is called with valid and invalid input over a day', async () => {
  const key = { authorization: `Bearer ${program.apiKey}` }
  const affiliate_url = `https://shop.example.com/?aff=${program.partnerCode}`
  const { click_id } = JSON.parse((await post('/api/v1/track/click', { affiliate_url, user_agent: 'x' })).text) as {
    click_id: string
  }
  const sale = { transaction_id: 't-1', customer_key: 'user-1', amount_cents: 5000 }
  const answers = [
    await post('/api/v1/track/lead', { customer_key: 'user-2', click_id, email }),
    await post('/api/v1/track/lead', { customer_key: 'user-1', click_id, email }, key),
    await post('/api/v1/track/lead', { customer_key: 'user-1', email: [email] }, key),
    await post('/api/v1/track/lead', `{"email": "${email}"`, key),
    await post('/api/v1/track/sale', sale, key),
    await post('/api/v1/track/sale', sale, key),
    await post('/api/v1/track/sale', sale, { authorization: program.apiKey }),
    await post('/api/v1/track/refund', { transaction_id: 't-1', refund_amount_cents: 100 }, key),
    await post(
      '/api/v1/track/refund',
      { transaction_id: 't-1' },
      { authorization: `Bearer ${program.dashboardToken}` },
    ),
  ]
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 400, 200, 409, 401, 200, 401])
  messages.push(...stack.queue.messages())

  // When the database fails, the functions log as much as possible.
  stack.neon.inject({ action: 'drop-before', times: 2 })
  expect((await post('/api/v1/track/lead', { customer_key: 'user-3', click_id, email }, key)).status).toBe(503)

  const shop = {
    generation: 'new' as const,
    account: program.connectedAccountId,
    programId: program.programId,
    clickId: click_id,
    customerKey: 'user-1',
    email: planted["the e-mail address of the processor's customer"],
    customer: 'cus_1',
    livemode: true,
    now: Math.floor(Date.now() / 1000),
  }
  const payload = JSON.stringify(
    stripeEvent(
      shop,
      'evt_1',
      'checkout.session.completed',
      checkoutSession(shop, { id: 'cs_1', total: 700, payment_intent: 'pi_1' }),
    ),
  )
  const signature = Stripe.webhooks.generateTestHeaderString({
    payload,
    secret: stack.environment.STRIPE_WEBHOOK_SECRET,
  })
  expect((await post('/api/v1/webhooks/stripe', payload, { 'stripe-signature': signature })).status).toBe(200)

  const signIn = await post('/api/auth/sign-in/email', { email: person.email, password }, { origin: stack.baseUrl })
  expect(signIn.status).toBe(200)
  Object.assign(planted, { 'the token from a sign-in': (JSON.parse(signIn.text) as { token: string }).token })
  expect(
    (
      await post(
        '/api/auth/sign-in/email',
        { email: person.email, password: `${password}x` },
        { origin: stack.baseUrl },
      )
    ).status,
  ).toBe(401)

  for (const token of [program.dashboardToken, program.partnerToken]) {
    const cookie = `${sessionCookie}=${encodeURIComponent(token)}`
    for (const path of ['/', `/programs/${program.programId}/events`, '/partner/notifications', '/account']) {
      const response = await fetch(stack.baseUrl + path, { headers: { cookie }, redirect: 'manual' })
      const page = await response.text()
      expect(page).not.toContain(token)
      expect(page.toLowerCase()).not.toContain(email.toLowerCase())
    }
  }
  for (const name of ['relay-outbox', 'deliver-notifications', 'approve-commissions', 'fold-daily-totals'])
    await stack.scheduled(name)
  expect((await stack.sql.query('select from notifications')).rowCount).toBeGreaterThan(0)
  expect(messages.length).toBeGreaterThan(0)
})

test.each(['the database', 'the log', 'the queue'] as const)(
  '%s contains no secret and no customer address',
  async (place) => {
    const text = place === 'the database' ? await dump() : (place === 'the log' ? stack.logs : messages).join('\n')
    expect(text.length).toBeGreaterThan(20)
    const found = Object.entries(planted).filter(([, secret]) =>
      [secret, encodeURIComponent(secret), btoa(secret)].some((form) =>
        text.toLowerCase().includes(form.toLowerCase()),
      ),
    )
    expect(found.map(([what]) => what)).toEqual([])
  },
)

test('this search finds planted secrets', async () => {
  expect(await dump()).toContain('user-1')
  expect(stack.logs.join('\n')).toContain('/api/v1/track/lead')
  expect(messages.join('\n')).toContain(`"program_id":${program.programId}`)
})

test('the log has one line per request, with its id, status and duration, and no personal data', () => {
  const lines = stack.logs.map((line) => JSON.parse(line) as Record<string, unknown>)
  const requests = lines.filter((line) => 'method' in line)
  expect(requests.length).toBeGreaterThan(15)
  for (const line of requests) {
    expect(line).toEqual({
      request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      method: expect.any(String),
      route: expect.stringMatching(/^\//),
      status: expect.any(Number),
      duration_ms: expect.any(Number),
      ...(Number(line['status']) >= 500 && { error: expect.objectContaining({ name: expect.any(String) }) }),
    })
  }
  expect(new Set(requests.map((line) => line['request_id'])).size).toBe(requests.length)
  for (const name of ['@', 'user-1', 'Pat']) expect(stack.logs.join('\n')).not.toContain(name)
})
