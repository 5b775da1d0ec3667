import { zValidator } from '@hono/zod-validator'
import type { Context, Env, MiddlewareHandler } from 'hono'
import * as z from 'zod/mini'
import { ApiError, type ErrorDetail } from '../errors.ts'
import { maxBodyBytes } from './app.ts'

const maxBodyDepth = 8
/** A body of 64 KiB contains fewer values than this. */
const maxBodyValues = 50_000
const maxDetails = 20

type Target = 'json' | 'query' | 'param' | 'form'

interface Accepted<T extends Target, Schema extends z.ZodMiniType> {
  in: Record<T, z.input<Schema>>
  out: Record<T, z.output<Schema>>
}

/**
 * Validates a request's body, query or path with `schema`, for `c.req.valid(target)`. Refuses bodies that aren't declared as JSON or can't
 * be parsed, and lists each invalid field. `refuse` runs before that response. It can refuse the caller first, because callers are checked
 * before their input. It can also return a response of its own. `textFromBrowsers` also accepts JSON as `text/plain` from callers without
 * a key.
 */
export function accept<T extends Target, Schema extends z.ZodMiniType, E extends Env>(
  target: T,
  schema: Schema,
  refuse: (c: Context<E>, refusal: unknown) => Promise<Response | void>,
  { textFromBrowsers = false } = {},
): MiddlewareHandler<E, string, Accepted<T, Schema>> {
  type Input = Accepted<T, Schema>
  const validate = zValidator<Schema, T, E, string, z.input<Schema>, z.output<Schema>, Input>(
    target,
    schema,
    undefined,
    {
      validationFunction: (_, value) => ({ success: true, data: parse(schema, value, target) }),
    },
  )
  return async (c, next) => {
    try {
      if (textFromBrowsers && isText(c)) c.req.addValidatedData(target, parse(schema, await readJson(c), target) ?? {})
      else {
        if (target === 'json') await checkJson(c)
        await validate(c, nothing)
      }
    } catch (error) {
      // Any other error comes from reading the body: an HTTPException, or an error because the body was already read.
      const refusal = error instanceof ApiError ? error : unreadable(target)
      const answer = await refuse(c, refusal)
      if (answer) return answer
      throw refusal
    }
    return await next()
  }
}

/** The handler runs after the validator and not inside it, because a handler's error is not an input error. */
const nothing = () => Promise.resolve()

/** The body is read first, because the validator ignores bodies of other types and reports truncated bodies as invalid JSON. */
async function checkJson(c: Context): Promise<void> {
  if (!/^application\/json\s*(;|$)/i.test(c.req.header('content-type') ?? '')) {
    throw new ApiError('unsupported_media_type', 'Send the body with the header Content-Type: application/json.')
  }
  await readText(c)
}

/**
 * Reads the text of a JSON body. Refuses too many values before the parser creates them, because millions of values would block the process
 * for seconds.
 */
async function readText(c: Context): Promise<string> {
  const text = await c.req.text()
  if (text.length > maxBodyBytes && hasTooManyValues(text)) {
    throw new ApiError('invalid_request', `The request can have at most ${maxBodyValues} values. Send it in parts.`)
  }
  return text
}

/**
 * Returns whether a JSON text has more values than a body can have. It counts the characters that begin or separate values outside strings.
 * It reads character codes, because that is several times as fast as reading characters.
 */
function hasTooManyValues(text: string): boolean {
  const [quote, backslash, ...separators] = Array.from('"\\,[{', (character) => character.charCodeAt(0))
  let count = 1
  let isString = false
  for (let at = 0; at < text.length && count <= maxBodyValues; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) isString = !isString
    else if (isString) at += code === backslash ? 1 : 0
    else if (separators.includes(code)) count += 1
  }
  return count > maxBodyValues
}

/**
 * Returns whether the body is JSON sent as text without a key. A browser sends such a call to another site directly, but sends a preflight
 * first for `application/json`. So sending text halves the number of requests from a visitor's page.
 */
function isText(c: Context): boolean {
  return /^text\/plain\s*(;|$)/i.test(c.req.header('content-type') ?? '') && !c.req.header('authorization')
}

async function readJson(c: Context): Promise<unknown> {
  const text = await readText(c)
  try {
    return JSON.parse(text)
  } catch {
    throw unreadable('json')
  }
}

function unreadable(target: Target): ApiError {
  return target === 'form'
    ? new ApiError('invalid_request', 'The form could not be read. Go back and send it again.')
    : new ApiError('invalid_json', 'The body is not valid JSON. Send one JSON object.')
}

/** Parses a value from outside. Throws an `invalid_request` that lists each invalid field. */
export function parse<Schema extends z.ZodMiniType>(schema: Schema, value: unknown, target: Target): z.output<Schema> {
  const parsed = schema.safeParse(target === 'form' ? textsOf(value) : value, { error: ruleOf })
  const others = target === 'form' ? [] : unstorable(value)
  if (parsed.success && others.length === 0) {
    if (target === 'json') keepIgnored(schema, value, parsed.data)
    return parsed.data
  }
  const named = (parsed.error?.issues ?? []).flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ field: [...issue.path, key.slice(0, 100)].join('.'), message: 'is not known here' }))
      : [{ field: issue.path.join('.'), message: issue.message }],
  )
  const details = [...others, ...named].slice(0, maxDetails)
  const fields = details.map(({ field, message }) => `${field || 'the body'} ${message}`).join('; ')
  throw new ApiError('invalid_request', `The request was not accepted: ${fields}.`, { details })
}

/** The unknown fields of accepted bodies. */
const ignored = new WeakMap<object, string[]>()

/** Keeps the names of the fields that the schema does not know, for `ignoredFields`. */
function keepIgnored(schema: z.ZodMiniType, sent: unknown, accepted: unknown): void {
  if (!(schema instanceof z.ZodMiniObject) || typeof accepted !== 'object' || accepted === null) return
  const { shape } = schema
  const names = Object.keys(sent ?? {}).filter((name) => !Object.hasOwn(shape, name))
  if (names.length > 0) ignored.set(accepted, names)
}

/** Returns the field `ignored_fields` of a response: the unknown fields of an accepted body, if there are any. */
export function ignoredFields(accepted: object): { ignored_fields?: string[] } {
  const names = ignored.get(accepted)
  return names ? { ignored_fields: names.slice(0, maxDetails).map((name) => name.slice(0, 100).toWellFormed()) } : {}
}

const typeNames: Record<string, string> = {
  string: 'text',
  boolean: 'true or false',
  int: 'an integer',
  number: 'a number',
  object: 'an object',
  array: 'a list',
}

/** Describes the violated rule, if the schema has no message of its own for it. */
function ruleOf(issue: z.core.$ZodRawIssue): string {
  if (issue.input === undefined || (issue.input === null && issue.code === 'invalid_type')) return 'is missing'
  if (issue.code === 'invalid_type') return `must be ${typeNames[issue.expected] ?? issue.expected}`
  if (issue.code === 'invalid_value') return `must be ${issue.values.join(' or ')}`
  if (issue.code === 'too_small') {
    if (issue.origin === 'string' && issue.minimum === 1) return 'must not be empty'
    return `must be ${issue.inclusive ? 'at least' : 'more than'} ${issue.minimum}${unitOf(issue.origin)}`
  }
  if (issue.code === 'too_big') {
    return `must be ${issue.inclusive ? 'at most' : 'less than'} ${issue.maximum}${unitOf(issue.origin)}`
  }
  return 'has a format that is not accepted'
}

const unitOf = (origin: string) => (origin === 'string' ? ' characters long' : '')

/** Reads the text fields of a form post, and only the last field for each name. Ignores files. */
export function textsOf(sent: unknown): Record<string, string> {
  const texts = Object.entries(sent ?? {}).flatMap(([name, value]: [string, unknown]) => {
    const text: unknown = Array.isArray(value) ? value.at(-1) : value
    return typeof text === 'string' ? [[name, storable(text)] as const] : []
  })
  return Object.fromEntries(texts)
}

/** Removes characters that Postgres cannot store: NUL and lone surrogates. */
const storable = (text: string) => text.replaceAll(/\0|\p{Surrogate}/gu, '')

/** Returns whether Postgres can store a text: it has no NUL and no lone surrogates. */
export const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0')

/**
 * Finds invalid values that no schema checks, anywhere in the input. These are text with NUL or lone surrogates
 * (also in keys), numbers that the JSON parser rounded, and more than eight levels of nesting.
 */
function unstorable(value: unknown, field = '', depth = 0): ErrorDetail[] {
  if (typeof value === 'string') {
    return isStorable(value) ? [] : [{ field, message: 'must be text without NUL or lone surrogates' }]
  }
  if (typeof value === 'number') {
    return Math.abs(value) > Number.MAX_SAFE_INTEGER
      ? [{ field, message: 'must be a number between -(2^53 - 1) and 2^53 - 1; send larger ones as text' }]
      : []
  }
  if (typeof value !== 'object' || value === null) return []
  if (depth >= maxBodyDepth) return [{ field, message: `must not be nested deeper than ${maxBodyDepth} levels` }]
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = field === '' ? key : `${field}.${key}`
    return isStorable(key)
      ? unstorable(inner, path, depth + 1)
      : [{ field, message: 'must have names without NUL or lone surrogates' }]
  })
}
