import * as z from 'zod/mini'
import { isAlias, type Operation } from './operation.ts'
import { operations } from './operations.ts'
import { type ErrorCode, errorCodes, problemCodes } from '../errors.ts'
import { errorEnvelope, problemEnvelope } from './envelopes.ts'
import { sessionCookie } from '../access/sessions.ts'
import {
  payloadTypes,
  webhookBodyFields,
  webhookBodySchema,
  webhookExample,
  webhookFields,
  webhookHeaderFields,
  webhookPayloads,
} from './webhook-payloads.ts'

type Json = Record<string, unknown>
type Schema = z.core.JSONSchema.BaseSchema

const securityOf: Record<Operation['auth'], Json[]> = {
  none: [],
  key: [{ apiKey: [] }],
  'key or browser': [{ apiKey: [] }, {}],
  'partner key': [{ partnerKey: [] }],
  session: [{ session: [] }, { sessionCookie: [] }],
  signature: [{ processorSignature: [] }],
}

const bodyErrors: ErrorCode[] = ['invalid_request', 'invalid_json', 'payload_too_large', 'unsupported_media_type']
const keyErrors: ErrorCode[] = ['unauthorized', 'api_key_retired', 'api_key_expired']

const anyRequestId = {
  'X-Request-Id': { description: 'The id of this request in the logs.', schema: { type: 'string', format: 'uuid' } },
}
const retryAfter = { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } }

/** Converts a zod schema to the JSON Schema of a request (`input`) or a response (`output`). */
export function jsonSchema(schema: z.ZodMiniType, io: 'input' | 'output' = 'input'): Json {
  return schemaOf(schema, io)
}

function schemaOf(schema: z.ZodMiniType, io: 'input' | 'output'): Schema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    // Some generators compile such a pattern without the flag `u` and fail.
    override: ({ jsonSchema: created }) => void (/\\p\{/i.test(created.pattern ?? '') && delete created.pattern),
  })
  return rest
}

/**
 * Adds a description to each property of an object schema. Skips alternative spellings of a field, because generated clients would give
 * both the same name.
 */
function described(schema: Schema, texts: Record<string, string>) {
  const properties = Object.entries(schema.properties ?? {})
    .filter(([name]) => !isAlias(texts[name] ?? ''))
    .map(([name, property]): [string, Json] => [
      name,
      { ...(typeof property === 'object' && property), description: texts[name] },
    ])
  return { ...schema, properties: Object.fromEntries(properties) }
}

/** `trackSale` → `TrackSale`, `sale.created` → `SaleCreated`. */
const typeName = (id: string) => id.replaceAll(/(?:^|\.)(\w)/g, (_, letter: string) => letter.toUpperCase())

const refTo = (name: string) => ({ $ref: `#/components/schemas/${name}` })

/** The schema of a successful response. */
function successOf({ success }: Operation): Json {
  const schemas = success.schemas.map((schema) => jsonSchema(schema))
  return schemas.length === 1 && schemas[0] ? schemas[0] : { anyOf: schemas }
}

/**
 * Chooses names for the items of the lists, such as `Partner` for the items of `listPartners`. Returns a map from the JSON text of an
 * item's schema to its name.
 */
function itemNames(): Map<string, string> {
  return new Map(
    operations.flatMap((operation) => {
      const [, plural] = /^list(\w+)$/.exec(operation.id) ?? []
      const { properties } = successOf(operation) as { properties?: { data?: { items?: object } } }
      if (!plural || !properties?.data?.items) return []
      return [[JSON.stringify(properties.data.items), plural.replace(/ies$/, 'y').replace(/s$/, '')]]
    }),
  )
}

/** Replaces each schema of a list's item with a reference to its name. */
function withNames(schema: unknown, names: Map<string, string>): unknown {
  if (Array.isArray(schema)) return schema.map((one) => withNames(one, names))
  if (typeof schema !== 'object' || schema === null) return schema
  const name = names.get(JSON.stringify(schema))
  if (name) return refTo(name)
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, withNames(value, names)]))
}

/** The named schemas of the document: items, bodies and responses of the operations, webhooks, and both envelopes of errors. */
function namedSchemas(): Json {
  const names = itemNames()
  return {
    ...Object.fromEntries(Array.from(names, ([item, name]) => [name, JSON.parse(item)])),
    ...Object.fromEntries(
      operations.flatMap((operation) => [
        ...(operation.body ? [[`${typeName(operation.id)}Request`, bodyOf(operation.body)]] : []),
        [`${typeName(operation.id)}Answer`, withNames(successOf(operation), names)],
      ]),
    ),
    ...Object.fromEntries(payloadTypes.map((type) => [`${typeName(type)}Event`, eventOf(type)])),
    Error: jsonSchema(errorEnvelope),
    Problem: jsonSchema(problemEnvelope),
  }
}

const bodyOf = ({ schema, fields }: NonNullable<Operation['body']>) => described(schemaOf(schema, 'input'), fields)

function eventOf(type: (typeof payloadTypes)[number]): Json {
  const schema = described(schemaOf(webhookBodySchema(type), 'output'), webhookBodyFields)
  const data = described(schemaOf(webhookPayloads[type].data, 'output'), webhookFields)
  return { ...schema, properties: { ...Object(schema['properties']), data } }
}

const tags = {
  Tracking: 'Clicks, leads, sales and refunds.',
  Program: 'The partners, links, payouts and figures of a program.',
  Partner: 'A partner’s own data, for partners.',
  Reads: 'The figures and events that the dashboard reads.',
  Service: 'The status of a program, and events from the payment processor.',
  Webhooks: 'Requests to your server.',
}

function tagOf({ path, auth, scope }: Operation): keyof typeof tags {
  if (scope) return 'Program'
  if (auth === 'partner key') return 'Partner'
  return path.startsWith('/api/v1/track') ? 'Tracking' : auth === 'session' ? 'Reads' : 'Service'
}

export const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Identifies the request for a day. If you repeat the request with the same key, nothing is created and you get the first response again. The same key with a different body is refused. After a refused request, you can use the key again.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}

function describedParameters({ parameters = [] }: Pick<Operation, 'parameters'>) {
  return parameters.flatMap(({ in: place, schema, fields }) => {
    const { properties = {} } = schemaOf(schema, 'output')
    return Object.entries(fields).map(([name, { description, example, values }]) => ({
      name,
      in: place,
      description,
      required: place === 'path',
      schema: values ?? properties[name],
      ...(example !== undefined && { example }),
    }))
  })
}

function parametersOf(operation: Operation): Json[] {
  const allParameters = describedParameters(operation)
  return operation.idempotent ? [...allParameters, idempotencyKey] : allParameters
}

/**
 * Builds one schema for everything that an operation accepts: path, query and body. An MCP tool takes all of them as arguments, because
 * the names don't overlap.
 */
export function inputSchema({ body: sent, parameters = [] }: Operation) {
  const allParameters = describedParameters({ parameters })
  const ofBody = sent && described(schemaOf(sent.schema, 'input'), sent.fields)
  return {
    type: 'object' as const,
    properties: {
      ...Object.fromEntries(
        allParameters.map(({ name, description, schema }) => [
          name,
          { ...(typeof schema === 'object' && schema), description },
        ]),
      ),
      ...ofBody?.properties,
    },
    required: [
      ...allParameters.filter(({ required }) => required).map(({ name }) => name),
      ...(ofBody?.required ?? []),
    ],
    additionalProperties: false,
  }
}

/** Builds the example of an error code from the table. */
function errorExample(code: ErrorCode): Json {
  const { status, title } = errorCodes[code]
  const envelope = { success: false, error: { code, message: `${title}.` } }
  if (!problemCodes.has(code)) return envelope
  return { type: `urn:svc:error:${code}`, title, status, detail: `${title}.`, ...envelope }
}

/** The examples of error codes, for operations without their own examples. */
function errorExamples(): Json {
  const codes = operations.flatMap((operation) =>
    errorsOf(operation).filter((code) => !operation.examples.some(({ name }) => name === code)),
  )
  return Object.fromEntries(
    [...new Set(codes)].map((code) => [code, { summary: errorCodes[code].title, value: errorExample(code) }]),
  )
}

/** Groups the error codes of one status by the content type of their envelope. Uses the operation's own examples if there are any. */
function errorContent(codes: ErrorCode[], operation: Operation): Json {
  const contentOf = (ofThese: ErrorCode[], envelope: 'Error' | 'Problem') => {
    const replayed = operation.examples.filter(({ name }) => ofThese.some((code) => code === name))
    const created = ofThese.filter((code) => !replayed.some(({ name }) => name === code))
    return {
      schema: refTo(envelope),
      examples: Object.fromEntries([
        ...created.map((code) => [code, { $ref: `#/components/examples/${code}` }]),
        ...replayed.map(({ name, summary, response }) => [name, { summary, value: response }]),
      ]),
    }
  }
  const problems = codes.filter((code) => problemCodes.has(code))
  const others = codes.filter((code) => !problemCodes.has(code))
  return {
    ...(others.length > 0 && { 'application/json': contentOf(others, 'Error') }),
    ...(problems.length > 0 && { 'application/problem+json': contentOf(problems, 'Problem') }),
  }
}

/** Returns all error codes of an operation: its own codes, and those for its input, its path, its key and the service. */
export function errorsOf(operation: Operation): ErrorCode[] {
  const { method, path, auth, parameters, idempotent, errors = [] } = operation
  if (auth === 'signature') return errors
  const input: ErrorCode[] = parameters ? ['invalid_request'] : []
  // The status call accepts a key with any scope.
  const scope: ErrorCode[] = tagOf(operation) === 'Service' ? [] : ['insufficient_scope']
  return [
    ...(method === 'post' || method === 'patch' ? bodyErrors : input),
    ...errors,
    ...(path.includes('{') ? (['not_found'] as const) : []),
    ...(idempotent ? (['idempotency_mismatch'] as const) : []),
    ...(auth === 'partner key' ? (['unauthorized'] as const) : []),
    ...(auth.startsWith('key') ? [...keyErrors, ...scope] : []),
    'rate_limited',
    'internal_error',
    'unavailable',
  ]
}

function responsesOf(operation: Operation): Json {
  const { id, success, examples } = operation
  const all = errorsOf(operation)
  const answers = examples.filter(({ status }) => status < 300)
  const successStatus = answers[0]?.status ?? 200
  const statuses = [...new Set(all.map((code) => errorCodes[code].status))].toSorted((a, b) => a - b)
  const errors = statuses.map((status) => {
    const codes = all.filter((code) => errorCodes[code].status === status)
    return [
      status,
      {
        description: codes.map((code) => `\`${code}\`: ${errorCodes[code].title}`).join('. '),
        headers: { ...anyRequestId, ...((status === 429 || status === 503) && retryAfter) },
        content: errorContent(codes, operation),
      },
    ] as const
  })
  return {
    [successStatus]: {
      description: success.description,
      headers: anyRequestId,
      content: {
        [success.media ?? 'application/json']: {
          schema: refTo(`${typeName(id)}Answer`),
          ...(answers.length > 0 && { examples: examplesOf(answers, ({ response }) => response) }),
        },
      },
    },
    ...Object.fromEntries(errors),
  }
}

function examplesOf(examples: Operation['examples'], value: (example: Operation['examples'][number]) => unknown): Json {
  return Object.fromEntries(
    examples.map((example) => [example.name, { summary: example.summary, value: value(example) }]),
  )
}

function requestBodyOf({ id, auth, body, examples }: Operation): Json {
  if (auth === 'signature') {
    const content = {
      schema: { type: 'object', description: 'A Stripe event with Stripe’s signature.' },
      examples: examplesOf(examples, (example) => example.body),
    }
    return { requestBody: { required: true, content: { 'application/json': content } } }
  }
  if (!body) return {}
  const content = {
    schema: refTo(`${typeName(id)}Request`),
    examples: examplesOf(examples, (example) => example.body),
  }
  return { requestBody: { required: true, content: { 'application/json': content } } }
}

/** Describes the webhooks by type. */
function webhooks(): Json {
  const parameters = Object.entries(webhookHeaderFields).map(([name, field]) => ({
    name,
    in: 'header',
    required: true,
    schema: { type: 'string' },
    ...field,
  }))
  return Object.fromEntries(
    payloadTypes.map((type) => {
      const content = {
        schema: refTo(`${typeName(type)}Event`),
        examples: { [type]: { value: webhookExample(type) } },
      }
      const post = {
        operationId: `on${typeName(type)}`,
        summary: type,
        description: webhookPayloads[type].when,
        tags: ['Webhooks'],
        security: [],
        parameters,
        requestBody: { required: true, content: { 'application/json': content } },
        responses: {
          '2XX': {
            description: 'Your server accepted the event. Up to 4 KB of the response are stored with the delivery.',
          },
          default: {
            description:
              'After any other response, a redirect, or no response within ten seconds, the event is sent again with the same `webhook-id`.',
          },
        },
      }
      return [type, { post }]
    }),
  )
}

/**
 * Builds the OpenAPI 3.1 document of the public API from the schemas that validate requests and the table of error
 * codes.
 */
export function openApiDocument(baseUrl: string): Json {
  const paths = operations.map((operation) => {
    const parameters = parametersOf(operation)
    const description = {
      operationId: operation.id,
      summary: operation.summary,
      description: operation.description,
      tags: [tagOf(operation)],
      security: securityOf[operation.auth],
      ...(parameters.length > 0 && { parameters }),
      ...requestBodyOf(operation),
      responses: responsesOf(operation),
    }
    return { path: operation.path, method: operation.method, description }
  })
  const byPath = Object.entries(Object.groupBy(paths, ({ path }) => path)).map(([path, ofPath = []]) => [
    path,
    Object.fromEntries(ofPath.map(({ method, description }) => [method, description])),
  ])
  return {
    openapi: '3.1.1',
    info: {
      title: 'Affiliate Tracking Service',
      version: '1',
      summary: 'An API for clicks, leads, sales and refunds, and the commissions that they earn.',
      description:
        'Amounts in fields that end in `_cents` are integers in the minor unit of their currency. Tracking calls ignore unknown fields; program calls refuse them.',
      license: { name: 'MIT', identifier: 'MIT' },
      contact: { name: 'Documentation', url: `${baseUrl}/docs` },
    },
    servers: [{ url: baseUrl }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: Object.fromEntries(byPath),
    webhooks: webhooks(),
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'Program API key, `svc_live_…`. For servers only.' },
        partnerKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'API key of a partner, `svc_partner_…`. It is read-only.',
        },
        session: { type: 'http', scheme: 'bearer', description: 'Session token of a dashboard user.' },
        sessionCookie: { type: 'apiKey', in: 'cookie', name: sessionCookie, description: 'The dashboard’s cookie.' },
        processorSignature: { type: 'apiKey', in: 'header', name: 'Stripe-Signature' },
      },
      schemas: namedSchemas(),
      examples: errorExamples(),
    },
  }
}
