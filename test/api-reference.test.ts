import { Validator } from '@seriousme/openapi-schema-validator'
import { Stripe } from 'stripe'
import { describe, expect, test } from 'vitest'
import type { Example, Operation } from '../lib/api/operation.ts'
import { operations } from '../lib/api/operations.ts'
import { errorCodes } from '../lib/errors.ts'
import { readFunctions } from '../lib/commands/wrangler-file.ts'
import { openApiDocument } from '../lib/api/openapi.ts'
import { payloadTypes } from '../lib/api/webhook-payloads.ts'
import { exampleConnectionId } from '../lib/api/processor-webhook.ts'
import { paddleFixtures } from '../lib/local/paddle-events.ts'
import { createPartnerKey } from '../lib/access/partner-keys.ts'
import { changeSecret } from '../lib/processors/connections.ts'
import { addLink } from '../lib/programs/links.ts'
import { startTrackingApi } from './support/api.ts'
import { axeFindings } from './support/axe.ts'
import { launchBrowser } from './support/browser.ts'
import { checkerOf, webhookBodyPlace } from './support/openapi.ts'

const functions = readFunctions()
  .filter(({ name, paths }) => name !== 'auth' && paths.some((path) => path.startsWith('/api/')))
  .map(({ name }) => name)
const api = await startTrackingApi({ functions })
const { stack } = api
const program = await api.program({ name: 'Shop' })

interface Media {
  schema: object
  examples?: Record<string, { value: unknown } | { $ref: string }>
}
interface Documented {
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, { content: Record<string, Media> }>
}
interface OpenApi {
  openapi: string
  servers: unknown
  paths: Record<string, Record<string, Documented>>
  webhooks: Record<
    string,
    { post: { requestBody: { content: { 'application/json': Media & { schema: { $ref: string } } } } } }
  >
  components: { schemas: Record<string, Described>; examples: Record<string, { value: unknown }> }
}
interface Described {
  properties?: Record<string, Described & { description?: string }>
}

const answer = await fetch(`${stack.baseUrl}/api/v1/openapi.json`)
const document = (await answer.json()) as OpenApi
const violations = checkerOf(document)

const nameIn = ({ $ref }: { $ref: string }) => $ref.replace(/^.*\//, '')

const documented = ({ path, method }: Operation): Documented => {
  const found = document.paths[path]?.[method]
  if (!found) throw new Error(`${method} ${path} is missing from the document.`)
  return found
}
const typeOf = (operation: Operation, status: number) =>
  Object.keys(documented(operation).responses[status]?.content ?? {})

test('any site can read the document as JSON, with the address of the API', () => {
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
  expect(answer.headers.get('access-control-allow-origin')).toBe('*')
  expect(document).toEqual(JSON.parse(JSON.stringify(openApiDocument(stack.baseUrl))))
  expect(document.servers).toEqual([{ url: stack.baseUrl }])
})

test('the document matches the OpenAPI 3.1 schema', async () => {
  const validator = new Validator()
  expect(await validator.validate({ ...structuredClone(document) })).toMatchObject({ valid: true })
  expect(validator.version).toBe('3.1')
})

test('the document describes every public route of wrangler.toml, and nothing else', () => {
  const own = ['api-reference', 'auth', 'dashboard']
  const routes = readFunctions()
    .filter(({ name }) => !own.includes(name))
    .flatMap(({ paths }) => paths)
    // These routes are excluded, because only the deployment's own mail API and a program's payout provider call them.
    .filter((path) => path.startsWith('/api/') && !/webhooks\/(mail|payouts)\*$/.test(path))
    .map((path) => path.replace(/\/?\*$/, ''))
  expect(Object.keys(document.paths).map((path) => path.replace(/\/\{.*/, ''))).toEqual(expect.arrayContaining(routes))
})

test('an undocumented response field is an error', () => {
  const place = ['paths', '/api/v1/track/sale', 'post', 'responses', 200, 'content', 'application/json', 'schema']
  const [sale] = operations.flatMap(({ id, examples }) => (id === 'trackSale' ? examples : []))
  expect(violations(place, sale?.response)).toBeNull()
  expect(violations(place, { ...Object(sale?.response), more: 1 })).not.toBeNull()
})

test('the document describes every webhook with an example and all fields', () => {
  expect(Object.keys(document.webhooks)).toEqual(payloadTypes)
  for (const [type, { post }] of Object.entries(document.webhooks)) {
    const { schema, examples } = post.requestBody.content['application/json']
    expect(violations(webhookBodyPlace(type), Object(examples?.[type]).value)).toBeNull()
    const { data, ...fields } = document.components.schemas[nameIn(schema)]?.properties ?? {}
    const undescribed = Object.entries({ ...fields, ...data?.properties }).filter(([, one]) => !one.description)
    expect([type, undescribed]).toEqual([type, []])
  }
})

describe('every example fits its schema', () => {
  test.for(
    operations.flatMap((operation) =>
      operation.examples.map(
        (example) => [`${operation.method} ${operation.path}`, example.name, operation, example] as const,
      ),
    ),
  )('%s: %s', ([, , operation, example]) => {
    if (operation.body) {
      expect(
        violations(
          ['paths', operation.path, operation.method, 'requestBody', 'content', 'application/json', 'schema'],
          example.body,
        ),
      ).toBeNull()
    }
    for (const type of typeOf(operation, example.status)) {
      const place = ['paths', operation.path, operation.method, 'responses', example.status, 'content', type, 'schema']
      if (type === 'application/json') expect(violations(place, example.response)).toBeNull()
    }
  })

  test.for(
    operations.flatMap((operation) =>
      Object.entries(documented(operation).responses).map(
        ([status]) => [`${operation.method} ${operation.path}`, status, operation] as const,
      ),
    ),
  )('%s: responds with %s', ([, status, operation]) => {
    const { content } = documented(operation).responses[status] ?? { content: {} }
    for (const [type, { examples = {} }] of Object.entries(content)) {
      // Archives are binary, so they have no example. test/archives.test.ts reads one.
      if (type === 'application/zip') continue
      expect(Object.keys(examples)).not.toEqual([])
      for (const example of Object.values(examples)) {
        const value = '$ref' in example ? document.components.examples[nameIn(example)]?.value : example.value
        const place = ['paths', operation.path, operation.method, 'responses', status, 'content', type, 'schema']
        expect(violations(place, value)).toBeNull()
      }
    }
  })
})

describe('the service responds to the examples as documented', async () => {
  expect(program.programId).toBe(1)
  const link = { programId: 1, partnerId: program.partnerId, pageUrl: null }
  await addLink(stack.db, { ...link, code: 'jane' })
  await addLink(stack.db, { ...link, code: 'former' })
  await stack.sql.query(`update referral_links set is_active = false where code = 'former'`)
  await stack.sql.query("update programs set embed_origins = '{https://app.example.com}' where id = 1")
  await stack.sql.query("insert into partner_codes (program_id, partner_id, code) values (1, $1, 'JANE20')", [
    program.partnerId,
  ])
  await stack.sql.query(
    `insert into applications (program_id, id, source, status, name, email, verified_at) overriding system value
    values (1, 7, 'page', 'waiting', 'Ada', 'ada@example.com', now()),
      (1, 8, 'page', 'unverified', 'Eve', 'eve@example.com', null)`,
  )
  await stack.sql.query(
    "insert into processor_connections (account_id, program_id, processor, livemode) values ($1, 1, 'paddle', true)",
    [exampleConnectionId],
  )
  await changeSecret(stack.db, stack.environment, 1, exampleConnectionId, 'paddle-secret')
  const { rows: people } = await stack.sql.query('select user_id from partners where id = $1', [program.partnerId])
  const partnerKey = await createPartnerKey(stack.db, { programId: 1, userId: people[0].user_id })
  const clickIds = new Set(JSON.stringify(operations.map(({ examples }) => examples)).match(/cust_\d+_\d+/g))
  for (const clickId of clickIds) {
    await stack.sql.query(
      `insert into customers (program_id, click_id, link_id, partner_id, last_click_at)
       select program_id, $1, id, partner_id, now() from referral_links where code = 'jane'`,
      [clickId],
    )
  }

  async function send(operation: Operation, example: Example): Promise<Response> {
    const { method, path, auth, parameters = [] } = operation
    const fields = parameters.flatMap(({ in: place, fields: named }) =>
      Object.entries(named).flatMap(([name, field]) =>
        field.example === undefined ? [] : [[place, name, String(field.example)] as const],
      ),
    )
    const inPath = Object.fromEntries(fields.map(([, name, value]) => [`{${name}}`, value]))
    const url = new URL(stack.baseUrl + path.replaceAll(/{\w+}/g, (name) => inPath[name] ?? name))
    for (const [place, name, value] of fields) if (place === 'query') url.searchParams.set(name, value)
    const payload = JSON.stringify(example.body)
    const secret = stack.environment['STRIPE_WEBHOOK_SECRET'] ?? ''
    const credentials: Record<Operation['auth'], () => Record<string, string>> = {
      none: () => ({}),
      key: () => ({ authorization: `Bearer ${program.apiKey}` }),
      'key or browser': () => ({ authorization: `Bearer ${program.apiKey}` }),
      'partner key': () => ({ authorization: `Bearer ${partnerKey}` }),
      session: () => ({ authorization: `Bearer ${program.dashboardToken}` }),
      signature: () => ({
        'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret }),
        ...paddleFixtures.headersOf(payload, 'paddle-secret', new Date()),
      }),
    }
    return await fetch(url, {
      method: method.toUpperCase(),
      headers: { 'content-type': 'application/json', ...(!example.unsigned && credentials[auth]()) },
      ...(example.body && { body: payload }),
    })
  }

  test.for(
    operations.flatMap((operation) =>
      operation.examples.map(
        (example) => [`${operation.method} ${operation.path}`, example.name, operation, example] as const,
      ),
    ),
  )('%s: %s', async ([, , operation, example]) => {
    const response = await send(operation, example)
    const body: unknown = await response.json()
    expect(response.status).toBe(example.status)
    const [type = ''] = (response.headers.get('content-type') ?? '').split(';')
    const place = ['paths', operation.path, operation.method, 'responses', response.status, 'content', type, 'schema']
    expect(violations(place, body)).toBeNull()
    expect(body).toMatchObject(comparable(example.response))
  })
})

/** Reduces an example to its outcome, because lists, figures, ids and times differ between calls. */
function comparable(response: unknown): object {
  const fixed = `
    success status reason deductionAmount error customer_status provisional duplicate attributed
    commission_cents test_mode message partner_code outcome
  `
    .trim()
    .split(/\s+/)
  return Object.fromEntries(Object.entries(response as object).filter(([name]) => fixed.includes(name)))
}

describe('the reference page', async () => {
  const page = await fetch(`${stack.baseUrl}/api/v1/reference`)
  const html = await page.text()

  test('is HTML that loads nothing external and follows the light or dark setting', () => {
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toMatch(/^text\/html/)
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(html).toMatch(/^<!doctype html>/)
    expect(html).not.toMatch(/<script|<link|<img|@import|url\((?!\/docs\/inter\.woff2\))/)
    expect(html).toContain('color-scheme: light dark')
  })

  test.for(operations.map(({ path, summary }) => [path, summary]))(
    'documents the operation %s',
    ([path = '', summary = '']) => {
      expect(html).toContain(path)
      expect(html).toContain(summary)
    },
  )

  test.for(payloadTypes)('documents the webhook %s', (type) => {
    expect(html).toContain(`<h3 id="webhook-${type}">`)
  })

  test.for(Object.entries(errorCodes))('documents the error code %s and its status', ([code, { status }]) => {
    expect(html).toMatch(new RegExp(`<code id="error-${code}">${code}</code></td><td>${status}</td>`))
  })

  test.for(['/api/v1/openapi.json', '/api/v1/reference'])('%s accepts only GET', async (path) => {
    const refused = await fetch(stack.baseUrl + path, { method: 'POST' })
    expect(refused.status).toBe(405)
    expect(refused.headers.get('allow')).toBe('GET, HEAD')
  })

  const browser = await launchBrowser()
  const sheet = await browser.newPage({ bypassCSP: true })
  await sheet.goto(`${stack.baseUrl}/api/v1/reference`)
  await sheet.evaluate(`document.querySelectorAll('details').forEach((one) => (one.open = true))`)

  test.for([
    ['light', 390],
    ['dark', 1280],
  ] as const)('%s at %i pixels: axe finds nothing, and the page fits the screen', async ([colorScheme, width]) => {
    await sheet.emulateMedia({ colorScheme })
    await sheet.setViewportSize({ width, height: 900 })
    // In dark mode, only colors differ.
    expect(await axeFindings(sheet, { colours: colorScheme === 'dark' })).toEqual([])
    expect(await sheet.evaluate('document.documentElement.scrollWidth')).toBe(width)
  })
})
