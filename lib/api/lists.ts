import * as z from 'zod/mini'
import type { Operation } from './operation.ts'
import { text } from '../response-fields.ts'

const defaultLimit = 25
const maxLimit = 100

/** An integer in a query. */
export function numberIn(minimum: number, maximum: number) {
  const message = `must be an integer from ${minimum} to ${maximum}`
  return z.pipe(
    z.string().check(z.regex(/^\d{1,16}$/, message)),
    z.pipe(z.transform(Number), z.int(message).check(z.gte(minimum, message), z.lte(maximum, message))),
  )
}

export const idIn = () => numberIn(1, Number.MAX_SAFE_INTEGER)

/** Text in a query. Its length is limited to that of the longest value that it can match, which is an e-mail address. */
export const filterText = () => z.optional(z.string().check(z.maxLength(320)))

/** A word in a query that must be one of several allowed words. */
export const oneOf = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, `must be ${words.join(' or ')}`)

const noCursor = 'must be the next_cursor of a response to the same list'

/** Encodes the position after a page as opaque text. `parts` are the sort values of its last row. */
export function cursorOf(...parts: (string | number)[]): string {
  return btoa(parts.join(' ')).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** A cursor in a query. `read` decodes it and returns undefined if it is invalid. */
export function cursorIn<Position>(read: (parts: string[]) => Position | undefined) {
  return z.pipe(
    z.string(),
    z.transform((cursor: string, context) => {
      const position = /^[\w-]{1,200}$/.test(cursor) ? read(partsOf(cursor)) : undefined
      if (position !== undefined) return position
      context.issues.push({ code: 'custom', message: noCursor, input: cursor })
      return z.NEVER
    }),
  )
}

function partsOf(cursor: string): string[] {
  try {
    return atob(cursor.replaceAll('-', '+').replaceAll('_', '/')).split(' ')
  } catch {
    return []
  }
}

/** The cursor of a list that is ordered by id. */
const idCursor = () =>
  cursorIn(([id = '', ...more]) => (/^[1-9]\d{0,14}$/.test(id) && more.length === 0 ? Number(id) : undefined))

/** The query of a list: `limit`, `cursor` and `filters`. Unknown fields are refused. */
export function listQuery<Filters extends z.core.$ZodLooseShape>(filters: Filters) {
  return z.strictObject({
    limit: z.prefault(numberIn(1, maxLimit), String(defaultLimit)),
    cursor: z.optional(idCursor()),
    ...filters,
  })
}

/** Converts such a query to the options of the list functions, which read one extra row to find out whether there is another page. */
export function pageOf<Query extends { limit: number; cursor?: number | undefined; to?: Date | undefined }>({
  limit,
  cursor,
  to,
  ...filters
}: Query) {
  // The lists exclude the end of a range, and stored times have microseconds, so the end is one millisecond later.
  return { ...filters, limit: limit + 1, before: cursor, to: to && new Date(to.getTime() + 1) }
}

/** Renders a page of rows that were read with `pageOf`. */
export function listed<Row, Item>(
  rows: Row[],
  limit: number,
  item: (row: Row) => Item,
  cursor: (row: Row) => string,
): { success: true; data: Item[]; next_cursor: string | null } {
  const shown = rows.slice(0, limit)
  const last = rows.length > limit ? shown.at(-1) : undefined
  return { success: true, data: shown.map(item), next_cursor: last === undefined ? null : cursor(last) }
}

export const idCursorOf = ({ id }: { id: number }) => cursorOf(id)

/** The schema of a page, for the reference. */
export const listResponse = (item: z.ZodMiniType) =>
  z.object({ success: z.literal(true), data: z.array(item), next_cursor: text() })

type Parameters = NonNullable<Operation['parameters']>[number]

/** Filters of a list with their meanings. */
export type FilterTexts = Record<string, string | Parameters['fields'][string]>

/** Describes a list's query for the reference. */
export function listParameters(schema: z.ZodMiniType, filters: FilterTexts): Parameters {
  const described = Object.entries(filters).map(([name, filter]) => [
    name,
    typeof filter === 'string' ? { description: filter } : filter,
  ])
  return {
    in: 'query',
    schema,
    fields: {
      limit: {
        description: `Items per page, ${defaultLimit} by default.`,
        values: { type: 'integer', minimum: 1, maximum: maxLimit, default: defaultLimit },
      },
      cursor: {
        description: '`next_cursor` of the previous page. Pages never overlap, even if items are added in between.',
        values: { type: 'string' },
      },
      ...Object.fromEntries(described),
    },
  }
}

/** Describes an id in a path for the reference. */
export function idParameter(name: string, description: string, example = 1): Parameters {
  return {
    in: 'path',
    schema: z.object({}),
    fields: { [name]: { description, example, values: { type: 'integer', minimum: 1 } } },
  }
}
