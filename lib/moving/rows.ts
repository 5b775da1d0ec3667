import type { ReasonCode } from './reasons.ts'

/**
 * One record of a source, in the format that all sources share. `migrations/functions/moving/` plans and applies
 * such rows.
 */
export interface ReadRow {
  kind: 'group' | 'partner' | 'link' | 'code' | 'customer' | 'balance' | 'commission'
  /** The id in the source, or another identifier there. */
  source_id: string
  /** The file and line, or the API's resource. */
  origin: string
  fields: Record<string, unknown>
  /** The reason why the record can't be imported. */
  problem?: ReasonCode
}

/** Matches a link's code, like the constraint of the table. */
export const linkCode = /^[A-Za-z0-9._@-]{1,64}$/

/** Matches a coupon code, like the constraint of the table. */
// oxlint-disable-next-line no-control-regex -- the domain `code_text` forbids the same characters
export const couponCode = /^[^\s\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]{1,64}$/u

/** Cuts a text to its limit, and drops characters that Postgres can't store: NUL and lone surrogates. */
const stored = (text: string, length: number) => text.slice(0, length).toWellFormed().replaceAll('\0', '')

/** Creates a row without empty fields. Texts are cut to their limits. */
export function row(
  kind: ReadRow['kind'],
  sourceId: string,
  origin: string,
  fields: Record<string, unknown>,
  problem?: ReasonCode,
): ReadRow {
  const entries = Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    // Codes are indexed, and long values don't fit into the index.
    .map(([name, value]) => [name, typeof value === 'string' ? stored(value, name === 'code' ? 200 : 2000) : value])
  return {
    kind,
    source_id: stored(sourceId, 200) || 'none',
    origin: stored(origin, 200),
    fields: Object.fromEntries(entries),
    ...(problem && { problem }),
  }
}

/** Creates the row of a link. If the code contains characters that links cannot have, creates an error row. */
export function linkRow(
  origin: string,
  link: { id?: string | undefined; partner: string; code: string; page_url?: string | undefined },
) {
  const { id, partner, code, page_url } = link
  const isUsable = linkCode.test(code) && !/^svc-test-/i.test(code)
  return row(
    'link',
    id ?? code.toLowerCase(),
    origin,
    { partner, code, page_url },
    isUsable ? undefined : 'code_not_accepted',
  )
}

/** Creates the row of a coupon code. */
export function codeRow(
  origin: string,
  { id, partner, code }: { id?: string | undefined; partner: string; code: string },
) {
  return row(
    'code',
    id ?? code.toLowerCase(),
    origin,
    { partner, code },
    couponCode.test(code) ? undefined : 'code_not_accepted',
  )
}
