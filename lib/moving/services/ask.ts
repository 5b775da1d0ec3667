import * as z from 'zod/mini'
import { ApiError } from '../../errors.ts'
import type { ReadContext } from '../read-files.ts'
import type { ReadRow } from '../rows.ts'

/** The data needed to reach a service: its address and the values that a person entered. */
export interface Access {
  /** The address without a final slash. */
  url: string
  key: string
  /** The service's id of the account or the program, if it needs one. */
  account: string
}

/** A page of one of a service's lists: its rows, and the cursor of the next page. */
export interface Page {
  rows: ReadRow[]
  next: string | undefined
}

/** Reads a page of a service's list. The first page has no cursor. */
export type List = (access: Access, context: ReadContext, cursor: string | undefined) => Promise<Page>

const answerWithinMilliseconds = 20_000

/** Thrown if the service refused the key, or if its response has an unknown format. A retry wouldn't help. */
export class RefusedByService extends Error {}

/** Requests JSON from a service and checks its format. Throws `RefusedByService`, or any other error if a retry may help. */
export async function ask<Schema extends z.ZodMiniType>(
  schema: Schema,
  address: string,
  headers: Record<string, string>,
): Promise<z.output<Schema>> {
  const response = await fetch(address, {
    headers: { accept: 'application/json', ...headers },
    redirect: 'error',
    signal: AbortSignal.timeout(answerWithinMilliseconds),
  })
  const path = new URL(address).pathname
  if ([401, 403].includes(response.status)) {
    throw new RefusedByService(
      `The service refused the key for ${path} (${response.status}). Check the key and its permissions.`,
    )
  }
  if ([400, 404, 422].includes(response.status)) {
    throw new RefusedByService(
      `The service has nothing at ${path} (${response.status}). Check the account or program id.`,
    )
  }
  if (!response.ok) throw new ApiError('unavailable', `The service responded with ${response.status} at ${path}.`)
  const parsed = schema.safeParse(await response.json())
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join('.') ?? ''
    throw new RefusedByService(
      `The service's response at ${path} has an unexpected format (${field}). Import files instead.`,
    )
  }
  return parsed.data
}

/** The header of HTTP's basic authentication. */
export const basic = (user: string, password: string) => ({ authorization: `Basic ${btoa(`${user}:${password}`)}` })

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

/** Returns the next page of a list with numbered pages, or undefined if the last page was not full. */
export const nextNumber = (cursor: string | undefined, items: readonly unknown[], size: number) =>
  items.length < size ? undefined : String(Number(cursor ?? 1) + 1)

/** An id of a service: text or a number. */
export const anId = z.pipe(z.union([z.string(), z.number()]), z.transform(String))

/** A text that may be missing. */
export const aText = z.prefault(z.nullish(z.pipe(z.union([z.string(), z.number()]), z.transform(String))), null)

/** A time that may be missing, as ISO 8601. Numbers are milliseconds. */
export const aTime = z.pipe(
  z.prefault(z.nullish(z.union([z.string(), z.number()])), null),
  z.transform((value: string | number | null | undefined) => {
    const time = typeof value === 'number' ? value : Date.parse(value ?? '')
    return Number.isFinite(time) ? new Date(time).toISOString() : undefined
  }),
)

/** An integer amount in minor units, as a number or text. */
export const someCents = z.pipe(
  z.prefault(z.nullish(z.union([z.string(), z.number()])), null),
  z.transform((value: string | number | null | undefined) => {
    const cents = value === null || value === undefined || value === '' ? Number.NaN : Math.round(Number(value))
    return Number.isSafeInteger(cents) && Math.abs(cents) <= 9_999_999_999_999 ? cents : undefined
  }),
)
