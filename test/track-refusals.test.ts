import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { createApiKey } from '../lib/access/program-keys.ts'
import { generateApiKey } from '../lib/access/api-keys.ts'
import { clickRequest } from '../lib/api/track-click.ts'
import { errorCodes } from '../lib/errors.ts'
import { leadRequest } from '../lib/api/track-lead.ts'
import { refundRequest } from '../lib/api/track-refund.ts'
import { saleRequest } from '../lib/api/track-sale.ts'
import {
  clickPath,
  goodCalls,
  keyedPaths,
  leadPath,
  refundPath,
  salePath,
  startTrackingApi,
  statusPath,
} from './support/api.ts'

const api = await startTrackingApi()
const program = await api.program()
const { goodBody, keyOf } = goodCalls(api, program)
const unknownKey = await generateApiKey()
const revokedKey = await generateApiKey()
await api.stack.sql.query(
  `insert into api_keys (program_id, key_hash, hint, revoked_at) values ($1, decode($2, 'hex'), 'last', now())`,
  [program.programId, revokedKey.keyHash],
)

const expiredKey = await generateApiKey()
await api.stack.sql.query(
  `insert into api_keys (program_id, key_hash, hint, expires_at) values ($1, decode($2, 'hex'), 'last', now())`,
  [program.programId, expiredKey.keyHash],
)
const readKey = await createApiKey(api.stack.db, program.programId, 'reads', { scopes: ['read'], days: 30 })

const postPaths = [clickPath, ...keyedPaths]
const schemas = {
  [clickPath]: clickRequest,
  [leadPath]: leadRequest,
  [salePath]: saleRequest,
  [refundPath]: refundRequest,
}

const padded = async (path: string, bytes: number) => {
  const text = JSON.stringify({ ...(await goodBody(path)), padding: '' })
  return text.replace('"padding":""', `"padding":"${'x'.repeat(bytes - text.length)}"`)
}

describe('refusals of the path, method, type, size and JSON', () => {
  test.for(postPaths)("%s: a longer path gets 404, even on the function's own address", async (path) => {
    expect(await api.call(`${path}/more`, {}, { databaseRequests: 0 })).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found' } },
    })
  })

  test.for([
    ...postPaths.flatMap((path) => ['GET', 'PUT', 'PATCH', 'DELETE'].map((method) => [path, method] as const)),
    ...['POST', 'PUT', 'DELETE'].map((method) => [statusPath, method] as const),
  ])('%s: %s is 405 with Allow', async ([path, method]) => {
    const answer = await api.call(path, undefined, { method, databaseRequests: 0 })
    expect(answer).toMatchObject({ status: 405, body: { error: { code: 'method_not_allowed' } } })
    const allow = path === statusPath ? 'GET' : path === clickPath || path === leadPath ? 'POST, OPTIONS' : 'POST'
    expect(answer.headers.get('allow')).toBe(allow)
  })

  test.for(
    postPaths.flatMap((path) =>
      ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', '']
        .filter((type) => path !== clickPath || type !== 'text/plain')
        .map((type) => [path, type] as const),
    ),
  )('%s: content type %j is 415', async ([path, type]) => {
    const answer = await api.call(path, await goodBody(path), { ...keyOf(path), headers: { 'content-type': type } })
    expect(answer).toMatchObject({ status: 415, body: { error: { code: 'unsupported_media_type' } } })
  })

  test.for(postPaths)('%s: application/json with a charset is accepted', async (path) => {
    const headers = { 'content-type': 'Application/JSON; charset=utf-8' }
    expect(await api.call(path, await goodBody(path), { ...keyOf(path), headers })).toMatchObject({ status: 200 })
  })

  test.for(
    postPaths.flatMap((path) => ['', '{', 'null,', "{'a': 1}", '{"a": 1} x', 'undefined'].map((text) => [path, text])),
  )('%s: body %j gets 400 invalid_json', async ([path = '', text = '']) => {
    expect(await api.call(path, text, keyOf(path))).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_json' } },
    })
  })

  test.for(postPaths.flatMap((path) => ['null', '[]', '"text"', '7', '{}'].map((text) => [path, text])))(
    '%s: body %s gets 400 invalid_request',
    async ([path = '', text = '']) => {
      expect(await api.call(path, text, keyOf(path))).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_request' } },
      })
    },
  )

  test.for(postPaths)('%s: a body of 64 KiB is accepted, and one byte more gets 413', async (path) => {
    expect(await api.call(path, await padded(path, 65_536), keyOf(path))).toMatchObject({ status: 200 })
    const answer = await api.call(path, await padded(path, 65_537), { ...keyOf(path), databaseRequests: 0 })
    expect(answer).toMatchObject({ status: 413, body: { error: { code: 'payload_too_large' } } })
  })

  test.for(postPaths)('%s: a large body gets 413 even if it comes in chunks without a length', async (path) => {
    const body = await padded(path, 65_537)
    const answer = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const sent = request(
        api.stack.baseUrl + path,
        { method: 'POST', headers: { 'content-type': 'application/json', 'transfer-encoding': 'chunked' } },
        (response) => {
          let text = ''
          response.on('data', (chunk: Buffer) => (text += chunk.toString()))
          response.on('end', () => resolve({ status: response.statusCode, text }))
        },
      )
      sent.on('error', reject)
      sent.write(body.slice(0, 30_000))
      sent.end(body.slice(30_000))
    })
    expect(answer.status).toBe(413)
    expect(JSON.parse(answer.text)).toMatchObject({ success: false, error: { code: 'payload_too_large' } })
  })
})

describe("text and values that can't be stored get 400 invalid_request", () => {
  test.for(
    postPaths.flatMap((path) =>
      (
        [
          ['NUL in a field', { session_id: 'a\0b', transaction_id: 'a\0b' }],
          ['NUL in an unknown field', { unknown: ['\0'] }],
          ['a lone high surrogate', { unknown: '\ud83d' }],
          ['a lone low surrogate', { unknown: '\udc00 text' }],
          ['NUL in a name', { 'a\0': 1 }],
          ['a number above 2^53', { additional_data: { order: '12345678901234567890' } }],
          ['nesting of nine levels', { additional_data: { b: { c: { d: { e: { f: { g: { h: {} } } } } } } } }],
        ] as const
      ).map(([name, fields]) => [path, name, fields] as const),
    ),
  )('%s: %s', async ([path, , fields]) => {
    const body = JSON.stringify({ ...(await goodBody(path)), ...fields }).replace(
      '"12345678901234567890"',
      '12345678901234567890',
    )
    const answer = await api.call(path, body, keyOf(path))
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
    expect(answer.body.error.details.length).toBeGreaterThan(0)
  })

  test.for(postPaths)('%s: eight levels and an emoji are accepted', async (path) => {
    const additional_data = { b: { c: { d: { e: { f: { g: '🛒' } } } } } }
    expect(await api.call(path, { ...(await goodBody(path)), additional_data }, keyOf(path))).toMatchObject({
      status: 200,
    })
  })

  test.for([clickPath, leadPath, salePath])('%s: additional_data is limited to 2,048 bytes of JSON', async (path) => {
    const send = async (additional_data: object) =>
      await api.call(path, { ...(await goodBody(path)), additional_data }, keyOf(path))
    const frame = JSON.stringify({ a: '', b: [''] }).length
    const [half, rest] = ['é'.repeat(500), 'x'.repeat(2048 - frame - 1000)]
    expect((await send({ a: half, b: [rest] })).status).toBe(200)
    expect(await send({ a: half, b: [`${rest}x`] })).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_request', details: [{ field: 'additional_data' }] } },
    })
  })

  test.for([
    ...[undefined, null].map((value) => [salePath, { transaction_id: value }, 'transaction_id', 'missing'] as const),
    [salePath, { transaction_id: '' }, 'transaction_id', 'must not be empty'],
    [salePath, { transaction_id: 'x'.repeat(256) }, 'transaction_id', 'must be at most 255 characters long'],
    [salePath, { customer_key: 7 }, 'customer_key', 'must be text'],
    ...['10', 1.5, -1, 0, true, undefined, []].map(
      (value) => [salePath, { amount_cents: value }, 'amount_cents', 'must be a positive integer'] as const,
    ),
    [salePath, { amount_cents: 10_000_000_000_000 }, 'amount_cents', 'must be at most 9999999999999'],
    [salePath, { tax_cents: -1 }, 'tax_cents', 'must be 0 or a positive integer'],
    [
      salePath,
      { amount_cents: 100, tax_cents: 101 },
      'tax_cents',
      'must not be more than amount_cents, because amount_cents includes it',
    ],
    [salePath, { currency: 'dollars' }, 'currency', 'must be an ISO 4217 currency code'],
    [salePath, { is_recurring: 'yes' }, 'is_recurring', 'must be true or false'],
    [salePath, { sale_type: '' }, 'sale_type', 'must not be empty'],
    [salePath, { additional_data: 'x' }, 'additional_data', 'must be an object'],
    [refundPath, { refund_amount_cents: -1 }, 'refund_amount_cents', 'must be 0 or a positive integer'],
    [refundPath, { refund_amount_cents: '5' }, 'refund_amount_cents', 'must be 0 or a positive integer'],
    [refundPath, { reason: 'mood' }, 'reason', 'must be refund or chargeback'],
    [refundPath, { refund_reason: 'x'.repeat(1001) }, 'refund_reason', 'must be at most 1000 characters long'],
    [leadPath, { customer_key: undefined }, 'customer_key', 'missing'],
    [leadPath, { email: [] }, 'email', 'must be text'],
    [leadPath, { additional_data: { test_mode: 1 } }, 'additional_data.test_mode', 'must be true or false'],
    [clickPath, { affiliate_url: undefined }, 'affiliate_url', 'missing'],
    [clickPath, { viewport_size: 'wide' }, 'viewport_size', 'must have the form <width>x<height>'],
    [clickPath, { additional_data: { program_id: '1' } }, 'additional_data.program_id', 'must be a positive integer'],
  ] as const)('%s with %j says that %s %s', async ([path, fields, field, rule]) => {
    const answer = await api.call(path, { ...(await goodBody(path)), ...fields }, keyOf(path))
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
    expect(answer.body.error.details).toEqual([{ field, message: expect.stringContaining(rule) }])
    expect(answer.body.error.message).toBe(
      `The request was not accepted: ${field} ${answer.body.error.details[0].message}.`,
    )
  })

  test.for(Object.entries(schemas))("%s: a field's error is never just 'Invalid input'", async ([path, { shape }]) => {
    const wrong = [0, -1, 1.5, '', 'x'.repeat(3000), true, [], {}, null]
    for (const value of wrong) {
      const fields = Object.keys(shape)
      const body = Object.fromEntries(fields.map((field) => [field, value]))
      const answer = await api.call(path, body, keyOf(path))
      expect(answer.status).toBe(400)
      expect(JSON.stringify(answer.body)).not.toMatch(/invalid input|not accepted"/i)
    }
  })

  test("the error says so if the body isn't an object", async () => {
    const answer = await api.call(clickPath, '[]')
    expect(answer.body.error.message).toBe('The request was not accepted: the body must be an object.')
  })

  test('details are limited in number and length', async () => {
    const answer = await api.call(clickPath, { list: Array.from({ length: 5000 }, () => '\0') })
    expect(answer.body.error.details).toHaveLength(20)
  })

  test('`__proto__` in free data changes nothing', async () => {
    const body = `{"affiliate_url": "https://x.example.com/?aff=${program.partnerCode}", "additional_data": {"__proto__": {"test_mode": true}}}`
    expect((await api.call(clickPath, body)).body).toHaveProperty('click_id')
  })
})

describe('API key', () => {
  const flipped = program.apiKey.slice(0, -1) + (program.apiKey.endsWith('0') ? '1' : '0')
  const headers: [string, Record<string, string>, number][] = [
    ['missing', {}, 0],
    ['malformed: no scheme', { authorization: program.apiKey }, 0],
    ['malformed: another scheme', { authorization: `Basic ${program.apiKey}` }, 0],
    ['malformed: no key', { authorization: 'Bearer ' }, 0],
    ['malformed: two keys', { authorization: `Bearer ${program.apiKey} ${program.apiKey}` }, 0],
    ['invalid: not a key', { authorization: 'Bearer abc' }, 0],
    ['invalid: wrong checksum, no database request', { authorization: `Bearer ${flipped}` }, 0],
    ['invalid: a key that was never issued', { authorization: `Bearer ${unknownKey.key}` }, 1],
  ]
  const calls = [
    ...[salePath, refundPath].map((path) => [path, 'POST'] as const),
    [leadPath, 'POST'] as const,
    [statusPath, 'GET'] as const,
  ]

  test.for(
    calls.flatMap(([path, method]) =>
      headers
        .filter(([name]) => path !== leadPath || name !== 'missing')
        .map(([name, header, requests]) => [path, name, method, header, requests] as const),
    ),
  )('%s: %s gets 401 unauthorized', async ([path, , method, header, databaseRequests]) => {
    const body = method === 'GET' ? undefined : await goodBody(path)
    const answer = await api.call(path, body, { method, headers: header, databaseRequests })
    expect(answer).toMatchObject({ status: 401, body: { error: { code: 'unauthorized' } } })
  })

  test.for(calls)('%s: a revoked key gets 401 with a typed error', async ([path, method]) => {
    const body = method === 'GET' ? undefined : await goodBody(path)
    const answer = await api.call(path, body, { method, key: revokedKey.key, databaseRequests: 1 })
    expect(answer).toMatchObject({ status: 401, body: { status: 401, error: { code: 'api_key_retired' } } })
  })

  test.for(calls)('%s: an expired key gets 401 with its own code', async ([path, method]) => {
    const body = method === 'GET' ? undefined : await goodBody(path)
    const answer = await api.call(path, body, { method, key: expiredKey.key, databaseRequests: 1 })
    expect(answer).toMatchObject({ status: 401, body: { error: { code: 'api_key_expired' } } })
  })

  test.for(keyedPaths)('%s: a read-only key gets 403 with the required scope, whatever the body', async (path) => {
    for (const body of [await goodBody(path), '{}']) {
      const answer = await api.call(path, body, { key: readKey, databaseRequests: 1 })
      expect(answer).toMatchObject({
        status: 403,
        body: { error: { code: 'insufficient_scope', needed_scope: 'track' } },
      })
    }
  })

  test('a read-only key can read the status', async () => {
    expect(await api.call(statusPath, undefined, { method: 'GET', key: readKey })).toMatchObject({ status: 200 })
  })

  test.for([
    ['never', 'null', true],
    ['59 minutes ago', `now() - interval '59 minutes'`, false],
    ['61 minutes ago', `now() - interval '61 minutes'`, true],
  ] as const)('a key that was last used %s (%s) records the new use: %s', async ([, at, isNoted]) => {
    const { programId, apiKey } = await api.program()
    await api.rows(`update api_keys set last_used_at = ${at} where program_id = $1`, [programId])
    const bodies = Array.from({ length: 20 }, (_, n) => ({
      transaction_id: `use-${n}`,
      customer_key: 'key-use',
      amount_cents: 100,
    }))
    for (const { status } of await api.callAll(salePath, bodies, { key: apiKey })) expect(status).toBe(200)
    const [{ noted }] = await api.rows(
      `select last_used_at > now() - interval '1 minute' as noted from api_keys where program_id = $1`,
      [programId],
    )
    expect(noted).toBe(isNoted)
  })

  test.for(keyedPaths)("%s: the case of the scheme doesn't matter", async (path) => {
    const authorization = `bearer ${program.apiKey}`
    expect(await api.call(path, await goodBody(path), { headers: { authorization } })).toMatchObject({ status: 200 })
  })
})

describe('order of refusals', () => {
  const big = JSON.stringify({ padding: 'x'.repeat(70_000) })
  test.for(
    keyedPaths.flatMap((path) => [
      [path, 'method before key', { method: 'PUT', body: '{}', key: 'x' }, 'method_not_allowed'] as const,
      [path, 'size before key', { body: big, key: 'x' }, 'payload_too_large'] as const,
      [
        path,
        'key before content type',
        { body: '{}', key: unknownKey.key, type: 'text/plain' },
        'unauthorized',
      ] as const,
      [path, 'key before JSON', { body: '{', key: unknownKey.key }, 'unauthorized'] as const,
      [path, 'key before shape', { body: '{}', key: unknownKey.key }, 'unauthorized'] as const,
      [path, 'revoked key before shape', { body: '{}', key: revokedKey.key }, 'api_key_retired'] as const,
      [
        path,
        'content type before JSON',
        { body: '{', key: program.apiKey, type: 'a/b' },
        'unsupported_media_type',
      ] as const,
    ]),
  )('%s: %s', async ([path, , sent, code]) => {
    const answer = await api.call(path, sent.body, {
      key: sent.key,
      ...('method' in sent && { method: sent.method }),
      headers: { 'content-type': 'type' in sent ? sent.type : 'application/json' },
    })
    expect(answer.body.error.code).toBe(code)
  })
})

test('every error code of the table has a status from 400 on and a title', () => {
  for (const { status, title } of Object.values(errorCodes)) {
    expect(status).toBeGreaterThanOrEqual(400)
    expect(title).not.toBe('')
  }
})
