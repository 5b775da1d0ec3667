import * as z from 'zod/mini'
import { maxLogoBytes } from '../programs/logo-image.ts'
import { archiveVersion, type Kind, type KindName, kindOf, referredBy } from './archive-kinds.ts'
import { isMoment } from './archive-shapes.ts'

/** The maximum length of texts in the tables. */
const maxText = 30_000

const bases: Record<string, { schema: Record<string, unknown>; accepts: (value: unknown) => boolean }> = {
  integer: { schema: { type: 'integer' }, accepts: Number.isSafeInteger },
  integers: {
    schema: { type: 'array', items: { type: 'integer' }, maxItems: 20 },
    accepts: (value) => Array.isArray(value) && value.length <= 20 && value.every((one) => Number.isSafeInteger(one)),
  },
  text: {
    schema: { type: 'string', maxLength: maxText },
    accepts: (value) => typeof value === 'string' && value.length <= maxText,
  },
  texts: {
    schema: { type: 'array', items: { type: 'string' }, maxItems: 100 },
    accepts: (value) =>
      Array.isArray(value) && value.length <= 100 && value.every((one) => typeof one === 'string' && one.length <= 300),
  },
  boolean: { schema: { type: 'boolean' }, accepts: (value) => typeof value === 'boolean' },
  time: {
    schema: { type: 'string', format: 'date-time' },
    accepts: (value) => typeof value === 'string' && isMoment(value),
  },
  past: {
    schema: { type: 'string', format: 'date-time' },
    accepts: (value) => typeof value === 'string' && isMoment(value) && Date.parse(value) <= Date.now() + 60_000,
  },
  date: {
    schema: { type: 'string', format: 'date' },
    accepts: (value) => typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value) && Date.parse(value) >= 0,
  },
  bytes: {
    schema: { type: 'string', pattern: '^\\\\x([0-9a-f]{2})*$' },
    accepts: (value) =>
      typeof value === 'string' &&
      value.length <= 2 + 2 * maxLogoBytes &&
      value.length % 2 === 0 &&
      /^\\x[0-9a-f]*$/.test(value),
  },
  // Each JSON field has a shape.
  json: { schema: {}, accepts: () => false },
}

const baseOf = (type: string) => bases[type.replace('?', '')] ?? bases['integer']

/** Returns whether a field of this kind may have this value. */
export function accepts({ fields, shapes }: Kind, field: string, value: unknown): boolean {
  const type = fields[field] ?? ''
  if (value === null) return type.endsWith('?')
  return shapes?.[field]?.safeParse(value).success ?? baseOf(type)?.accepts(value) === true
}

/** Returns the JSON Schema of a line of a kind's file. */
export function schemaOfKind(name: KindName, baseUrl: string): Record<string, unknown> {
  const { title, fields, shapes } = kindOf(name)
  const properties = Object.entries(fields).map(([field, type]): [string, unknown] => {
    const referred = referredBy(type)
    const shape = shapes?.[field]
    const schema: Record<string, unknown> = (shape ? z.toJSONSchema(shape) : baseOf(type)?.schema) ?? {}
    const { $schema: _, type: jsonType, ...rest } = schema
    const nullable = type.endsWith('?') ? [...[jsonType].flat(), 'null'] : jsonType
    const description = referred && `The id of a row of ${referred}.`
    return [field, { type: nullable, ...rest, ...(description && { description }) }]
  })
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `${baseUrl}/docs/archive/${name}.json`,
    title,
    description: `A line of data/${name}.jsonl in an archive of version ${archiveVersion}. Money is in the minor unit of its currency.`,
    type: 'object',
    properties: Object.fromEntries(properties),
    required: Object.keys(fields),
    additionalProperties: false,
  }
}
