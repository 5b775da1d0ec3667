import { format } from 'oxfmt'
import { expect, test } from 'vitest'
import formatting from '../.oxfmtrc.json' with { type: 'json' }
import { jsonSchema, openApiDocument } from '../lib/api/openapi.ts'
import { operations } from '../lib/api/operations.ts'
import { webhookTypes } from '../lib/notifications/webhook-types.ts'
import { webhookPayloads } from '../lib/api/webhook-payloads.ts'

interface Schema {
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema & { description?: string }>
  additionalProperties?: Schema | boolean
  required?: string[]
}

interface Documented {
  parameters?: { name: string; in: string; description?: string; schema: Schema }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
  responses: Record<string, { content: Record<string, { schema: Schema }> }>
}

/** A JSON Schema as a type. */
function typeOf({
  type,
  const: only,
  enum: words,
  anyOf,
  items,
  properties,
  additionalProperties,
  required = [],
}: Schema): string {
  if (anyOf) return anyOf.map(typeOf).join(' | ')
  if (only !== undefined) return JSON.stringify(only)
  if (words) return words.map((word) => JSON.stringify(word)).join(' | ')
  if (type === 'array') return `(${typeOf(items ?? {})})[]`
  if (properties && Object.keys(properties).length > 0) {
    const fields = Object.entries(properties).map(([name, { description, ...field }]) => {
      const optional = required.includes(name) ? '' : '?'
      return `${commented(description)}${name}${optional}: ${typeOf(field)}${optional && ' | undefined'}`
    })
    return `{ ${fields.join('\n')} }`
  }
  if (type === 'object') {
    return typeof additionalProperties === 'object'
      ? `Record<string, ${typeOf(additionalProperties)}>`
      : 'Record<string, never>'
  }
  return [type ?? 'unknown']
    .flat()
    .map((name) => (name === 'integer' ? 'number' : name))
    .join(' | ')
}

const commented = (text: string | undefined) => (text ? `/** ${text} */\n` : '')

test('the types of `svc-tracker/api` are those of the reference', async () => {
  const { paths } = JSON.parse(JSON.stringify(openApiDocument('https://api.example.com'))) as {
    paths: Record<string, Record<string, Documented>>
  }
  const types = operations.flatMap(({ id, path, method, scope, summary }) => {
    const documented = paths[path]?.[method]
    if (!scope || !documented) return []
    const query = (documented.parameters ?? []).filter(({ in: place }) => place === 'query')
    const fields = query.map(
      ({ name, description, schema }) => `${commented(description)}${name}?: ${typeOf(schema)} | undefined`,
    )
    const body = documented.requestBody?.content['application/json']?.schema
    const answer = documented.responses['200']?.content['application/json']?.schema
    return `/** ${summary}. */
      ${id}: {
        query: ${fields.length > 0 ? `{ ${fields.join('\n')} }` : 'undefined'}
        body: ${body ? typeOf(body) : 'undefined'}
        answer: ${typeOf(answer ?? {})}
      }`
  })
  const text = `// Written by test/client-types.test.ts from what the API takes and answers.

    /** What each call of the program API takes and answers. */
    export interface ApiOperations { ${types.join('\n')} }`
  await expectFile('tracker/src/api-types.ts', text)
})

async function expectFile(file: string, text: string): Promise<void> {
  const { printWidth, semi, singleQuote } = formatting
  const { code } = await format(file, text, { printWidth, semi, singleQuote })
  await expect(code).toMatchFileSnapshot(`../${file}`)
}

test('the types of `svc-tracker/webhooks` are those of what is sent', async () => {
  const types = Object.entries(webhookPayloads).map(
    ([type, { when, data }]) => `/** ${when} */\n'${type}': ${typeOf(jsonSchema(data, 'output') as Schema)}`,
  )
  const text = `// Written by test/client-types.test.ts from what the service sends.

    /** What \`data\` of an event holds, by its type. A field that has no value is left out. */
    export interface WebhookData { ${types.join('\n')} }

    export type WebhookType = keyof WebhookData

    /** What an endpoint can be told. A test event it is told anyway. */
    export const webhookTypes = [${webhookTypes.map((type) => `'${type}'`).join(', ')}] as const

    /** An event of one type. */
    export interface WebhookEventOf<Type extends WebhookType> {
      /** The same in every try: what came before under it can be passed over. */
      id: string
      type: Type
      /** When it happened, ISO 8601. */
      timestamp: string
      /** Of two about one sale, commission or payout, the one with the larger number came later. */
      sequence: number
      data: WebhookData[Type]
    }

    /** An event: \`type\` says what its \`data\` holds. */
    export type WebhookEvent = { [Type in WebhookType]: WebhookEventOf<Type> }[WebhookType]`
  await expectFile('tracker/src/webhook-types.ts', text)
})
