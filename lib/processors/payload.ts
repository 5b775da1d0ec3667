import * as z from 'zod/mini'

/** Hashes an e-mail address. See `emailHash`. */
export type HashEmail = (email: string) => Promise<string>

/** An id or another word from the processor that the database can store and that fits into a key. */
export const id = z.string().check(
  z.minLength(1),
  z.maxLength(255),
  z.refine((text: string) => text.isWellFormed() && !text.includes('\0')),
)

/** An id, the expanded object with this id, or neither. */
export const reference = z.pipe(
  z.nullish(z.union([id, z.looseObject({ id })])),
  z.transform((value) => (typeof value === 'object' ? (value?.id ?? null) : (value ?? null))),
)

/** A reference in a field that may contain anything. */
export const looseReference = z.pipe(
  z.optional(z.unknown()),
  z.transform((value) => z.safeParse(reference, value).data ?? null),
)

/** Converts Unix seconds to ISO 8601. */
export const unixTime = z.pipe(
  z.int().check(z.gte(0), z.lte(8_640_000_000_000)),
  z.transform((seconds) => new Date(seconds * 1000).toISOString()),
)

/** An amount in the processor's unit, which can be a hundredth of ours. The upper limit applies after scaling. */
export const amount = z.int().check(z.gte(0))
export const currency = z.string().check(z.regex(/^[a-z]{3}$/))

/** Text that people enter. If the database can't store it, it counts as missing. */
export function freeText(length: number) {
  return z.pipe(
    z.optional(z.unknown()),
    z.transform((value) =>
      typeof value === 'string' &&
      value !== '' &&
      value.length <= length &&
      value.isWellFormed() &&
      !value.includes('\0')
        ? value
        : null,
    ),
  )
}

/** The metadata that the integrator attaches to a checkout session or a subscription. */
export const metadata = z.nullish(
  z.pipe(
    z.looseObject({
      program_id: freeText(20),
      svc_click_id: freeText(255),
      svc_customer_key: freeText(255),
    }),
    z.transform(({ program_id, svc_click_id, svc_customer_key }) => ({
      program_id: program_id !== null && /^[1-9]\d{0,14}$/.test(program_id) ? Number(program_id) : null,
      click_id: svc_click_id,
      customer_key: svc_customer_key,
    })),
  ),
)

export const noMetadata = { program_id: null, click_id: null, customer_key: null }

/** The three keys of a purchase's metadata. */
export type Names = NonNullable<z.output<typeof metadata>>

const clickId = /^cust_\d+_\d+$/

/**
 * Returns whether a reference is a click id. Pages can add a reference to a payment link, and some sites use it for orders or customers.
 */
export const isClickId = (text: string) => clickId.test(text)

/**
 * Reads the keys from metadata with arbitrary values. Numbers count as text, because processors keep the types of custom data, and
 * nobody expects a difference between `program_id: 7` and `"7"`.
 */
export function namesIn(custom: unknown): Names {
  if (typeof custom !== 'object' || custom === null) return noMetadata
  const asText = Object.entries(custom).map(([key, value]) => [
    key,
    Number.isSafeInteger(value) ? String(value) : value,
  ])
  return metadata.parse(Object.fromEntries(asText)) ?? noMetadata
}

/** True if the metadata contains a click, a customer or a program. */
export const namesSomething = (names: Names) => Object.values(names).some((value) => value !== null)

/** A currency code in upper or lower case. */
export const anyCurrency = z.pipe(
  z.string().check(z.regex(/^[A-Za-z]{3}$/)),
  z.transform((code) => code.toLowerCase()),
)

/** A number or a text as an id. */
export const numericId = z.pipe(
  z.union([z.int(), id]),
  z.transform((value) => String(value)),
)

const firstTime = Date.parse('0001-01-01T00:00:00Z')
const endOfTime = Date.UTC(10_000, 0)

/** A time with its zone, as ISO 8601 in milliseconds. The database can read years with four digits, starting at 0001. */
export const time = z.pipe(
  z.string().check(z.refine((text: string) => Date.parse(text) >= firstTime && Date.parse(text) < endOfTime)),
  z.transform((text) => new Date(text).toISOString()),
)
