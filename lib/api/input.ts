import { type Hook, zValidator } from '@hono/zod-validator'
import type { Context, Env, Input, MiddlewareHandler } from 'hono'
import type * as z from 'zod/mini'
import { ApiError, type ErrorDetail } from '../errors.ts'

const maxBodyDepth = 8
const maxDetails = 20

/**
 * Takes a request's JSON body, query or path as `schema` does and gives it to the handler as `c.req.valid(target)`. Refuses a body
 * that is not declared as JSON or is none, and what the schema does not accept, naming each field. `checkCaller` runs before
 * that is said and may refuse the caller instead: who calls is checked before what they send.
 */
export function accept<Target extends 'json' | 'query' | 'param', Schema extends z.ZodMiniType<object>, E extends Env>(
  target: Target,
  schema: Schema,
  checkCaller: (c: Context<E>) => Promise<void>,
): MiddlewareHandler<E, string, Accepted<Target, Schema>> {
  return async (c, next) => {
    try {
      const others = target === 'json' ? unstorable(await readJson(c)) : []
      const validate = zValidator<
        Schema,
        Target,
        E,
        string,
        Refusal<Schema, Target, E>,
        z.input<Schema>,
        z.output<Schema>,
        Input,
        Input,
        z.output<Schema>
      >(target, schema, (result) => {
        if (!result.success || others.length > 0) refuse(others, result.success ? [] : result.error.issues)
      })
      await validate(c, nothingYet)
    } catch (error) {
      await checkCaller(c)
      throw error
    }
    await next()
  }
}

/** The handler runs outside of the validator, so that what it throws is not taken for a refused input. */
const nothingYet = () => Promise.resolve()

/** What the validator calls with its result. `{}` is how it says that no answer is given. */
type Refusal<Schema extends z.ZodMiniType, Target extends 'json' | 'query' | 'param', E extends Env> = Hook<
  z.output<Schema>,
  E,
  string,
  Target,
  {},
  Schema
>

interface Accepted<Target extends string, Schema extends z.ZodMiniType> {
  in: Record<Target, z.input<Schema>>
  out: Record<Target, z.output<Schema>>
}

async function readJson(c: Context): Promise<unknown> {
  if (!/^application\/json\s*(;|$)/i.test(c.req.header('content-type') ?? '')) {
    throw new ApiError('unsupported_media_type', 'Send the body with the header Content-Type: application/json.')
  }
  try {
    return await c.req.json()
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new ApiError('invalid_json', 'The body is not valid JSON. Send one JSON object.')
  }
}

function refuse(others: ErrorDetail[], issues: readonly z.core.$ZodIssue[]): never {
  const named = issues.map(({ path, message }) => ({ field: path.join('.'), message }))
  const details = [...others, ...named].slice(0, maxDetails)
  const fields = details.map(({ field, message }) => `${field || 'the body'} ${message}`).join('; ')
  throw new ApiError('invalid_request', `The request was not accepted: ${fields}.`, { details })
}

const loneSurrogateOrNul = /\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/

/**
 * Details for what no schema field sees, anywhere in the value: text that Postgres cannot hold (NUL, lone surrogates; in keys too),
 * numbers that JSON's reader has already rounded, and nesting deeper than eight levels.
 */
function unstorable(value: unknown, field = '', depth = 0): ErrorDetail[] {
  if (typeof value === 'string') {
    return loneSurrogateOrNul.test(value) ? [{ field, message: 'must be text without NUL and lone surrogates' }] : []
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
    return loneSurrogateOrNul.test(key)
      ? [{ field, message: 'must have names without NUL and lone surrogates' }]
      : unstorable(inner, path, depth + 1)
  })
}
