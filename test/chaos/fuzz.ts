import { once } from 'node:events'
import { type IncomingMessage, request as httpRequest } from 'node:http'
import type { Client } from 'pg'
import type { Sandbox } from '../../lib/local/sandbox.ts'
import { type Fields, type Stage, stagedSale, withIds } from './callers.ts'
import { makeDelivery } from './deliveries.ts'
import { type Random, seeded } from './random.ts'

interface Schema {
  $ref?: string
  type?: string | string[]
  properties?: Record<string, Schema>
  items?: Schema
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
}

/** The parts of an OpenAPI document that this file reads. */
export interface ApiDocument {
  paths: Record<
    string,
    Record<
      string,
      { parameters?: { name: string; in: string }[]; requestBody?: { content: Record<string, { schema: Schema }> } }
    >
  >
  components: { schemas: Record<string, Schema> }
}

interface FuzzRequest {
  method: string
  path: string
  headers: Record<string, string>
  body: string | Uint8Array<ArrayBuffer> | null
  /** Whether the request is a delivery whose signature must be refused. */
  isForged?: boolean
}

export interface FuzzResult {
  /** Forbidden answers. */
  wrong: string[]
  /** The number of answers by status. 0 means that the connection ended while a large body or address was being sent. */
  statuses: Record<number, number>
  /** Sales that the service acknowledged, by id. */
  sales: Map<number, { programId: number; isTest: boolean }>
  slowest_ms: number
}

const oddTexts = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\ud800',
  'x\udc00y',
  '\u{1f9ea}',
  '\u202eabc',
  'İ',
  'é'.normalize('NFD'),
  '__proto__',
  'constructor',
  'null',
  "' or 1=1 --",
  '"; drop table sales; --',
  '${7*7}',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '../../etc/passwd',
  '%00',
  '%zz',
  '\r\nX-Injected: 1',
  'a'.repeat(256),
  'a'.repeat(5000),
  'ü'.repeat(40_000),
  'cust_1767225600000_123456789012345678901',
  'cust_99999999999999_1',
  '9'.repeat(40),
  '1e400',
  '2026-02-30T00:00:00Z',
  '275760-09-14',
  '-1',
]
const oddNumbers = [
  0,
  -0,
  -1,
  1,
  0.5,
  1e-7,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 53 - 1,
  2 ** 53,
  2 ** 63,
  -(2 ** 63),
  1e308,
  5e-324,
  99_999_999_999_999,
]

function oddValue(random: Random, depth = 0): unknown {
  const kind = random.integer(0, 9)
  if (kind <= 3) return random.pick(oddTexts)
  if (kind <= 5) return random.pick(oddNumbers)
  if (kind === 6) return random.pick([null, true, false])
  if (kind === 7)
    return depth > 3 ? [] : Array.from({ length: random.integer(0, 4) }, () => oddValue(random, depth + 1))
  if (kind === 8) return nested(random.integer(1, 60))
  const names = ['a', '__proto__', 'constructor', 'toString', 'test_mode', 'program_id', '\u0000', '']
  // Assigning `__proto__` would set the prototype. `Object.fromEntries` treats it as an ordinary name.
  return Object.fromEntries(
    Array.from({ length: random.integer(0, 3) }, () => [
      random.pick(names) ?? '',
      depth > 3 ? 1 : oddValue(random, depth + 1),
    ]),
  )
}

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value }
  return value
}

/** Returns a value that the schema accepts or almost accepts. */
function likely(schema: Schema | undefined, random: Random, name: string, own: Record<string, unknown>): unknown {
  if (name in own && random.chance(0.8)) return own[name]
  if (!schema) return oddValue(random)
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return random.pick(schema.enum)
  if (schema.anyOf) return likely(random.pick(schema.anyOf), random, name, own)
  const type = Array.isArray(schema.type) ? random.pick(schema.type) : schema.type
  if (type === 'integer' || type === 'number')
    return random.chance(0.8) ? random.integer(1, 100_000) : random.pick(oddNumbers)
  if (type === 'null') return null
  if (type === 'boolean') return random.chance(0.5)
  if (type === 'array') return [likely(schema.items, random, name, own)]
  if (type === 'object') return object(schema, random, own)
  return random.chance(0.7) ? `${name}-${random.integer(1, 2000)}` : random.pick(oddTexts)
}

/** An object based on its schema. Most fields are likely, and some are missing, odd or unknown. */
function object(schema: Schema, random: Random, own: Record<string, unknown>): Record<string, unknown> {
  const oddity = random.pick([0, 0, 0.1, 0.5]) ?? 0
  const fields = Object.entries(schema.properties ?? {})
    .filter(([name]) => (name in own ? !random.chance(0.1) : random.chance(0.4)))
    .map(([name, field]): [string, unknown] => [
      name,
      random.chance(oddity) ? oddValue(random) : likely(field, random, name, own),
    ])
  if (random.chance(0.1)) fields.push([random.pick(oddTexts) ?? '', oddValue(random)])
  return Object.fromEntries(fields)
}

function brokenText(text: string, random: Random): string | Uint8Array<ArrayBuffer> {
  const kind = random.integer(0, 5)
  const at = random.integer(0, text.length)
  if (kind === 0) return text.slice(0, at)
  if (kind === 1)
    return text.slice(0, at) + (random.pick(['{', '"', ',', '\u0000', '\\u', '//', 'NaN']) ?? '') + text.slice(at)
  if (kind === 2)
    return (
      random.pick(['', ' ', '[]', 'null', '1', '"', '{', '{}', '[[[[', '{"a":1,"a":2}', '\ufeff{}', 'a=1&b=2']) ?? ''
    )
  if (kind === 3) return `${'['.repeat(20_000)}${']'.repeat(20_000)}`
  if (kind === 4) return new Uint8Array(Array.from({ length: random.integer(1, 300) }, () => random.integer(0, 255)))
  return JSON.stringify({ a: 'x'.repeat(random.integer(60_000, 70_000)) })
}

const oddHeaders: [string, string][] = [
  ['content-type', 'text/plain'],
  ['content-type', 'application/json; charset=utf-16'],
  ['content-type', 'application/json;'],
  ['content-type', 'multipart/form-data'],
  ['content-encoding', 'gzip'],
  ['accept', 'text/html'],
  ['origin', 'https://evil.example'],
  ['origin', 'null'],
  ['x-forwarded-for', "1.1.1.1' or 1=1"],
  ['x-http-method-override', 'DELETE'],
  ['cookie', '__Host-svc_session=%E0%A4%A'],
  ['cookie', `a=${'b'.repeat(4000)}`],
  ['user-agent', 'Mozilla/5.0 '.repeat(300)],
  ['user-agent', '((((((((((a+)+)+)+)+)+)+)+)+)+'],
  ['if-none-match', '*'],
  ['range', 'bytes=0-1,-1'],
  ['referer', 'http://['],
]

/** Headers can contain Latin-1 without line breaks. Other characters are removed. */
const asHeader = (text: string) => text.replaceAll(/[^\x20-\x7e]/g, '').trim()

function makeRequest(
  document: ApiDocument,
  sandbox: Sandbox,
  { ids, receiver: { clickId } }: Stage,
  random: Random,
): FuzzRequest {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )
  const pages = [
    '/',
    '/sign-in',
    '/partner',
    '/partner/commissions',
    '/account',
    '/invitation',
    '/reset-password',
    '/js/svc-tracker.js',
    '/api/v1/reference',
    '/api/auth/get-session',
    '/processor/callback',
  ]
  const programPages = [
    '',
    '/events',
    '/events.csv',
    '/partners',
    '/commissions',
    '/payouts',
    '/notifications',
    '/deliveries',
    '/webhooks',
    '/webhooks/deliveries',
    '/webhooks/deliveries.csv',
    '/performance.csv',
    '/payout-runs',
    '/payout-runs/1',
    '/payout-runs/1/file.csv',
  ].map((page) => `/programs/{programId}${page}`)
  const page = random.chance(0.15) ? random.pick([...pages, ...programPages, ...programPages]) : undefined
  // The program API has so many operations that tracking calls would be rare.
  const tracking = operations.filter(({ path }) => path.startsWith('/api/v1/track/'))
  const chosen = random.pick(random.chance(0.4) ? tracking : operations)
  if (!chosen) throw new Error('The OpenAPI document has no operations.')
  const operation = page === undefined ? chosen.operation : {}
  let method = page === undefined ? chosen.method.toUpperCase() : 'GET'
  if (random.chance(0.03)) method = random.pick(['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD']) ?? method

  let path = (page ?? chosen.path).replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const known = name === 'programId' ? String(sandbox.programId) : (ids[`:${name}`] ?? '1')
    return encodeURIComponent(random.chance(0.75) ? known : asText(oddValue(random)).toWellFormed()) || '0'
  })
  const names = [
    ...(operation.parameters ?? []).filter((parameter) => parameter.in === 'query').map(({ name }) => name),
    'period',
    'page',
    'before',
    'status',
    'dateFrom',
    'dateTo',
    'token',
    'next',
    'layout',
    'currency',
  ]
  const query = Array.from({ length: random.pick([0, 0, 1, 2, 5]) ?? 0 }, () => {
    const value = random.pick([
      ...oddTexts,
      ...oddNumbers.map(String),
      '7d',
      '30d',
      'all',
      '2026-01-01',
      '2026-11-20',
      '2',
    ])
    return `${random.pick(names)}=${random.chance(0.1) ? '%zz%00%ff' : encodeURIComponent((value ?? '').toWellFormed()).slice(0, 6000)}`
  })
  if (query.length > 0) path += `?${query.join('&')}`

  const own = {
    affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}`,
    customer_key: `user-${random.integer(1, 200)}`,
    // This way, refunds and repeats often refer to a recorded sale.
    transaction_id: `t-${random.integer(1, 300)}`,
    click_id: clickId,
    amount_cents: random.integer(1, 50_000),
    currency: 'usd',
    program_id: sandbox.programId,
    partner_id: Number(ids[':partner_id']),
    partner_ids: [Number(ids[':partner_id'])],
    group_id: Number(ids[':group_id']),
    ids: [Number(ids[':commission_id'])],
    commission_ids: [Number(ids[':commission_id'])],
  }
  const { $ref, ...inline } = Object.values(operation.requestBody?.content ?? {})[0]?.schema ?? {}
  const schema = $ref ? document.components.schemas[$ref.replace('#/components/schemas/', '')] : inline
  if (!schema) throw new Error(`The OpenAPI document has no ${$ref}.`)
  const good = object(schema, random, own)
  const json = random.chance(0.9) ? good : oddValue(random)
  const text = JSON.stringify(json) ?? ''
  const body = ['GET', 'HEAD'].includes(method) ? null : random.chance(0.15) ? brokenText(text, random) : text

  const headers: Record<string, string> = { 'content-type': 'application/json' }
  const needsSession = page !== undefined || chosen.path.startsWith('/api/tracking')
  const token = needsSession
    ? random.pick([sandbox.dashboardToken, sandbox.dashboardToken, sandbox.partnerToken])
    : sandbox.apiKey
  if (chosen.path.includes('/webhooks/') && page === undefined)
    headers['stripe-signature'] = asHeader(random.pick(oddTexts) ?? '') || 't=1,v1=00'
  else if (random.chance(0.85)) {
    if (page === undefined) headers['authorization'] = `Bearer ${token}`
    else headers['cookie'] = `__Host-svc_session=${encodeURIComponent(token ?? '')}`
  } else if (random.chance(0.7))
    headers['authorization'] =
      asHeader(
        `${random.pick(['Bearer ', 'bearer', 'Basic ', '']) ?? ''}${random.pick([...oddTexts, sandbox.partnerToken, `${sandbox.apiKey}x`]) ?? ''}`,
      ).slice(0, 6000) || 'Bearer'
  if (random.chance(0.1)) {
    const [name, value] = random.pick(oddHeaders) ?? ['accept', '*/*']
    headers[name] = value
  }
  return { method, path, headers, body }
}

/** Likely values of fields, in addition to those that their form offers. */
function likelyField(name: string, offered: string[], stage: Stage, random: Random): string {
  const email = () => random.pick(stage.emails) ?? ''
  const password = () => random.pick(['right horse battery', 'wrong horse battery', 'x', 'p'.repeat(129)]) ?? ''
  if (name === 'form_token' || name === 'request_id')
    return [8, 4, 4, 4, 12].map((length) => hex(length, random)).join('-')
  if (/password|^current$|^new$/i.test(name)) return password()
  if (/email/.test(name)) return random.chance(0.7) ? email() : `a-${random.integer(1, 50)}@example.com`
  if (/amount|minimum/.test(name))
    return random.pick(['1', '5.00', '5,00', '100', '999999999999', '0', '-1', '1e9']) ?? ''
  if (name === 'code') return random.pick(['123456', 'abcd-efgh', `code-${random.integer(1, 500)}`]) ?? ''
  if (name === 'token') return random.pick(stage.tokens) ?? ''
  if (/URL|redirectTo/.test(name)) return random.pick(['/', '/account', 'https://evil.example/']) ?? ''
  if (name === 'user') return stage.ids[':userId'] ?? ''
  if (name === 'balance') return `${stage.ids[':programId']} usd`
  if (name === 'partner_id') return stage.ids[':partnerId'] ?? ''
  if (name === 'group_id' || name === 'to') return random.pick([stage.ids[':groupId'] ?? '', '']) ?? ''
  if (/_on$|date|From|To$/.test(name))
    return random.pick([new Date().toISOString().slice(0, 10), '2026-02-30', '0001-01-01', '9999-12-31']) ?? ''
  return random.chance(0.8) && offered.length > 0 ? (random.pick(offered) ?? '') : `${name} ${random.integer(1, 500)}`
}

const hex = (length: number, random: Random) =>
  Array.from({ length }, () => random.integer(0, 15).toString(16)).join('')

const authFields =
  'email password name newPassword currentPassword token code rememberMe revokeOtherSessions trustDevice callbackURL redirectTo provider disableRedirect image'.split(
    ' ',
  )

/** A call to any dashboard or sign-in route by any kind of caller, with the fields of the route's form or with odd fields. */
function makeSignedInRequest(
  baseUrl: string,
  routes: string[],
  forms: Map<string, Fields>,
  stage: Stage,
  random: Random,
): FuzzRequest {
  const [method = 'GET', route = '/'] = (random.pick(routes) ?? 'GET /').split(' ')
  const oddity = random.pick([0, 0, 0.1, 0.4]) ?? 0
  const ids = Object.fromEntries(
    Object.entries(stage.ids).map(([name, id]) => [
      name,
      random.chance(oddity / 2) ? asText(oddValue(random)).toWellFormed().slice(0, 300) : id,
    ]),
  )
  const path = withIds(route, ids)
  const cookie = random.pick(Object.values(stage.callers))
  const headers: Record<string, string> = { ...(cookie && { cookie }), origin: baseUrl }
  if (random.chance(0.1)) {
    const [name, value] = random.pick(oddHeaders) ?? ['accept', '*/*']
    headers[name] = value
  }
  const isAuth = route.startsWith('/api/auth/')
  const form = forms.get(route) ?? random.pick([...forms.values()]) ?? new Map<string, string[]>()
  const names = isAuth ? authFields : [...form.keys()]
  // The forms contain ids of another stage.
  const nameNow = (name: string) =>
    name.replace(/^(commission|partner|application)-\d+$/, (_, of: string) => `${of}-${stage.ids[`:${of}Id`]}`)
  const fields = names
    .filter(() => random.chance(isAuth ? 0.6 : 0.93))
    .map((name): [string, string] => [
      nameNow(name),
      random.chance(oddity) ? asText(oddValue(random)) : likelyField(name, form.get(name) ?? [], stage, random),
    ])
  if (method === 'GET') {
    const query = random.chance(0.4) ? `?${String(new URLSearchParams(fields)).slice(0, 4000)}` : ''
    return { method, path: path + query, headers, body: null }
  }
  const isJson = isAuth && random.chance(0.9)
  headers['content-type'] ??= isJson ? 'application/json' : 'application/x-www-form-urlencoded'
  const odd = (text: string) => (random.chance(oddity) ? oddValue(random) : text === 'true' || text)
  const text = isJson
    ? JSON.stringify(Object.fromEntries(fields.map(([name, value]) => [name, odd(value)])))
    : String(new URLSearchParams(fields.map(([name, value]): [string, string] => [name, value.toWellFormed()])))
  return { method, path, headers, body: random.chance(0.04) ? brokenText(text, random) : text }
}

const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 3000)

/** Internal details: stack frames, database messages, statements. */
const inside =
  /\n\s+at |NeonDbError|invalid input syntax|violates|relation "|SQLSTATE|syntax error at|\b(insert into|delete from)\b|\bselect\b[^<]*\bfrom\b|node_modules/i

const isLarge = ({ body, path }: FuzzRequest) => path.length > 8192 || Buffer.byteLength(body ?? '') > 8192

/**
 * Sends one request. Large bodies and addresses get their own connection. A refusal can end the connection while the body is being sent,
 * and the next request would be lost too.
 */
async function answerTo(baseUrl: string, request: FuzzRequest): Promise<{ status: number; text: string }> {
  const { method, path, headers, body } = request
  if (!isLarge(request)) {
    const signal = AbortSignal.timeout(30_000)
    const response = await fetch(baseUrl + path, { method, headers, body, redirect: 'manual', signal })
    return { status: response.status, text: await response.text() }
  }
  const sent = httpRequest(baseUrl + path, { method, headers, agent: false, timeout: 30_000 })
  // The connection can break while the rest of the body is being sent.
  sent.on('error', () => {})
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk)
  return { status: response.statusCode ?? 0, text }
}

/** This many requests share a stage, because later requests would find that people were removed and sessions have ended. */
const requestsOfStage = 200

/** The shares of the kinds of requests: deliveries from processors, and calls by signed-in people. The rest are calls to the API. */
export interface Shares {
  deliveries: number
  signedIn: number
}

const usualShares: Shares = { deliveries: 0.1, signedIn: 0.45 }

/** Sends `requests` hostile requests, 24 at a time, and returns the forbidden answers. */
export async function fuzz(options: {
  baseUrl: string
  document: ApiDocument
  sandbox: Sandbox
  requests: number
  seed: number
  /** Every route of every function. */
  routes: string[]
  /** Creates a workspace and its callers. Hostile calls use up ids and sessions, so this is called again from time to time. */
  openStage: () => Promise<Stage>
  /** The fields of each route's form. Routes without a form get the fields of any form. */
  forms: Map<string, Fields>
  shares?: Shares
}): Promise<FuzzResult> {
  const { baseUrl, document, sandbox, seed, forms, shares = usualShares } = options
  const pages = options.routes.filter((route) => !/ \/(api\/v1|api\/tracking|js|docs|healthz|packages)/.test(route))
  const stages = new Map<number, Promise<Stage>>()
  const result: FuzzResult = { wrong: [], statuses: {}, sales: new Map(), slowest_ms: 0 }
  let next = 0
  async function send(number: number): Promise<void> {
    const random = seeded(seed, number)
    const stageNumber = Math.floor(number / requestsOfStage)
    if (!stages.has(stageNumber)) stages.set(stageNumber, options.openStage())
    const stage = await stages.get(stageNumber)
    if (!stage) throw new Error('The stage is missing.')
    const kind = random.next()
    let called = stage.sandbox
    const callApi = () => {
      // Uses the ids of the stage, with the key of its own program or of another one.
      called = random.chance(0.6) ? stage.sandbox : sandbox
      return makeRequest(document, called, stage, random)
    }
    const request: FuzzRequest =
      kind < shares.deliveries
        ? { method: 'POST', ...makeDelivery(stage.receiver, random, () => oddValue(random)) }
        : kind < shares.deliveries + shares.signedIn
          ? makeSignedInRequest(baseUrl, pages, forms, stage, random)
          : callApi()
    const complain = (what: string) => {
      if (result.wrong.length < 100)
        result.wrong.push(
          `request ${number}: ${what}: ${request.method} ${request.path.slice(0, 200)} ${JSON.stringify(request.headers).slice(0, 300)} ${String(request.body).slice(0, 400)}`,
        )
    }
    const started = performance.now()
    try {
      const { status, text } = await answerTo(baseUrl, request)
      result.slowest_ms = Math.max(result.slowest_ms, performance.now() - started)
      result.statuses[status] = (result.statuses[status] ?? 0) + 1
      if (status >= 500) complain(`${status} ${text.slice(0, 200)}`)
      if (request.isForged && status < 400) complain('accepts a wrong signature')
      if (status >= 400 && inside.test(text)) complain(`shows its inside: ${text.slice(0, 300)}`)
      if (request.path.startsWith('/api/v1/track/sale') && status === 200 && request.method === 'POST') {
        const sale = JSON.parse(text) as { sale_id: number; test_mode?: true }
        if (result.sales.has(sale.sale_id) && !String(request.body).includes('"correct_currency":true'))
          complain(`records sale ${sale.sale_id} again`)
        result.sales.set(sale.sale_id, { programId: called.programId, isTest: sale.test_mode === true })
      }
      if (request.path.startsWith('/api/v1') && status >= 400 && request.method !== 'HEAD') {
        const { success, error } = JSON.parse(text) as { success?: boolean; error?: { code?: string } }
        if (success !== false || !error?.code) complain(`no envelope: ${text.slice(0, 200)}`)
      }
    } catch (error) {
      if (isLarge(request)) result.statuses[0] = (result.statuses[0] ?? 0) + 1
      else complain(String(error))
    }
  }
  await Promise.all(
    Array.from({ length: 24 }, async () => {
      while (next < options.requests) await send(next++)
    }),
  )
  return result
}

/**
 * Compares the acknowledged sales with the stored ones. Returns the unexpected differences. Hostile calls to the dashboard can clear a
 * program's test data, so a test sale can be missing if the audit log says so.
 */
export async function compareSales(sql: Client, sales: FuzzResult['sales']): Promise<string[]> {
  const { rows: stored } = await sql.query<{ id: string }>(
    `select id from sales where transaction_id not like '${stagedSale}%' and request_id is not null`,
  )
  const { rows: cleared } = await sql.query<{ program_id: string }>(
    "select distinct program_id from audit_log where action = 'data.test_cleared'",
  )
  const storedIds = new Set(stored.map(({ id }) => Number(id)))
  const clearedIds = new Set(cleared.map(({ program_id: id }) => Number(id)))
  const lost = [...sales].filter(
    ([id, { programId, isTest }]) => !storedIds.has(id) && !(isTest && clearedIds.has(programId)),
  )
  return [
    ...lost.map(([id]) => `sale ${id} got a success answer and is missing`),
    ...[...storedIds].filter((id) => !sales.has(id)).map((id) => `sale ${id} is stored without a success answer`),
  ]
}
