import { expect, test } from 'vitest'
import { createSandbox } from '../lib/local/sandbox.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack()
const program = await createSandbox(stack.db, { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET })
const other = 'https://shop.example.com'
const cookie = `${sessionCookie}=${encodeURIComponent(program.dashboardToken)}`

/** The security headers of a page or a response. */
const watched = `
  access-control-allow-origin access-control-allow-credentials cache-control content-security-policy
  content-type cross-origin-opener-policy cross-origin-resource-policy referrer-policy strict-transport-security
  x-content-type-options x-frame-options
`
  .trim()
  .split(/\s+/)

async function headersOf(method: string, path: string): Promise<Record<string, string | number>> {
  const body = method === 'POST' ? '{}' : null
  const init = {
    method,
    body,
    headers: { origin: other, cookie, 'content-type': 'application/json' },
    redirect: 'manual' as const,
  }
  const response = await fetch(stack.baseUrl + path, init)
  await response.arrayBuffer()
  expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
  for (const name of ['server', 'x-powered-by', 'x-aspnet-version']) expect(response.headers.has(name)).toBe(false)
  const found = watched.flatMap((name) => (response.headers.has(name) ? [[name, response.headers.get(name)]] : []))
  return { status: response.status, ...(Object.fromEntries(found) as Record<string, string>) }
}

const open = { 'access-control-allow-origin': '*' }
const json = { 'content-type': 'application/json' }
const unreadable = {
  status: 200,
  'cache-control': 'private, no-store',
  'content-type': expect.stringMatching(/^application\/json/),
}

const answers: [method: string, path: string, headers: object][] = [
  ['POST', '/api/v1/track/click', { status: 400, ...open, ...json }],
  ['POST', '/api/v1/track/lead', { status: 400, ...open, ...json }],
  ['POST', '/api/v1/track/sale', { status: 401, ...json }],
  ['POST', '/api/v1/track/refund', { status: 401, ...json }],
  ['GET', '/api/v1/cli/status', { status: 401, ...json }],
  ['POST', '/api/v1/webhooks/stripe', { status: 400, ...json }],
  ['GET', `/api/tracking/performance/${program.programId}`, unreadable],
  ['GET', `/api/tracking/events/${program.programId}`, unreadable],
  ['GET', '/api/v1/openapi.json', { status: 200, ...open, ...json, 'cache-control': 'public, max-age=300' }],
]

test.each(answers)('%s %s is readable by its intended audience', async (method, path, headers) => {
  expect(await headersOf(method, path)).toEqual(headers)
})

test('any page may load the script, but no other file', async () => {
  expect(await headersOf('GET', '/js/svc-tracker.js')).toMatchObject({
    ...open,
    status: 200,
    'content-type': 'text/javascript; charset=utf-8',
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff',
  })
})

const pages = [
  '/sign-in',
  '/',
  '/account',
  `/programs/${program.programId}`,
  `/programs/${program.programId}/events.csv`,
  '/nothing/here',
]

test.each(pages)("other pages can't frame, cache or read the page %s, or run scripts in it", async (path) => {
  const { status, 'content-type': type, 'content-security-policy': policy, ...headers } = await headersOf('GET', path)
  expect(headers).toEqual({
    'cache-control': 'no-store',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'same-origin',
    'strict-transport-security': 'max-age=15552000; includeSubDomains',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  })
  expect(policy).toBe(
    "default-src 'none'; style-src 'self'; script-src 'self'; frame-src 'none'; connect-src 'self'; font-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  )
  if (status !== 303) expect(type).toMatch(/^text\/(html|csv)/)
})

const preflights: [path: string, origin: string | null][] = [
  ['/api/v1/track/click', '*'],
  ['/api/v1/track/lead', '*'],
  ['/api/v1/track/sale', null],
  ['/api/v1/track/refund', null],
  ['/api/v1/cli/status', null],
  ['/api/tracking/events/1', null],
  ['/api/auth/sign-in/email', null],
  ['/sign-in', null],
]

test.each(preflights)('a preflight of another site for %s is allowed for %s', async (path, origin) => {
  const headers = {
    origin: other,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type',
  }
  const response = await fetch(stack.baseUrl + path, { method: 'OPTIONS', headers })
  expect(response.headers.get('access-control-allow-origin')).toBe(origin)
  expect(response.headers.get('access-control-allow-credentials')).toBeNull()
  if (origin) expect(response.headers.get('access-control-allow-headers')).toBe('Content-Type')
})

/** Sends the same headers as a browser. */
async function post(path: string, body: string, headers: Record<string, string> = {}) {
  const init = { method: 'POST', body, headers: { origin: other, ...headers } }
  const response = await fetch(`${stack.baseUrl}/api/v1/track/${path}`, init)
  return [response.status, (await response.json()) as Record<string, unknown>] as const
}

test("browser calls don't need a preflight: the two public routes accept JSON as text, but only without a key", async () => {
  const [status, click] = await post(
    'click',
    JSON.stringify({ affiliate_url: `https://shop.example.com/?aff=${program.partnerCode}` }),
  )
  expect([status, click]).toMatchObject([200, { success: true, partner_code: program.partnerCode }])
  const lead = JSON.stringify({ click_id: click['click_id'], customer_key: 'text-1' })
  expect(await post('lead', lead)).toMatchObject([200, { success: true, provisional: true }])
  expect(await post('lead', lead, { authorization: `Bearer ${program.apiKey}` })).toMatchObject([
    415,
    { error: { code: 'unsupported_media_type' } },
  ])
  expect(await post('click', '{')).toMatchObject([400, { error: { code: 'invalid_json' } }])
  expect(await post('click', '[]')).toMatchObject([400, { error: { code: 'invalid_request' } }])
  expect(await post('click', '{"affiliate_url": "\\u0000"}')).toMatchObject([
    400,
    { error: { code: 'invalid_request' } },
  ])
})

test('a path without a function gets 404 and a platform error', async () => {
  const response = await fetch(`${stack.baseUrl}/api/v1/nothing`)
  expect(response.status).toBe(404)
  expect(await response.json()).toMatchObject({ success: false, error: { code: 'not_found' } })
})
