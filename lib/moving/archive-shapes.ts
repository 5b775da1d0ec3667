import * as z from 'zod/mini'
import { reviewRules } from '../review-rules.ts'
import { campaignNames } from '../tracking/campaign.ts'

/**
 * The shapes of the JSON fields of an archive: exactly what the service itself stores there. Scheduled functions read these fields of all
 * programs, so a row of another shape could stop them.
 */

/** A time of an archive, with an offset. */
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d(:\d\d)?|Z)$/

/** The maximum length of the JSON of a field. The service accepts at most 64 KiB in a call. */
const maxJson = 65_536

/** Returns whether a text is a time since 1970. Calendar arithmetic and JavaScript dates aren't exact for every earlier year. */
export const isMoment = (text: string) => time.test(text) && Date.parse(text) >= 0

const moment = z.string().check(z.refine(isMoment))
export const word = z.string().check(z.minLength(1), z.maxLength(64))
const integer = z.int()
const orNull = <Shape extends z.core.$ZodType>(shape: Shape) => z.nullable(shape)
/** A click can have 200 characters in a value, and some characters have a length of 2. */
const value = z.string().check(z.minLength(1), z.maxLength(400))

export const eventId = z.int().check(z.minimum(1))

/** `joinPageChanges` checks the lengths. */
export const faq = z.array(z.strictObject({ question: z.string(), answer: z.string() }))
export const questions = z.array(z.strictObject({ label: z.string(), type: z.string(), required: z.boolean() }))

/** A constraint of the database limits the number of keys and the length. */
export const metadata = z.record(z.string(), z.string())

function isSmall(data: unknown): boolean {
  try {
    return JSON.stringify(data).length <= maxJson
  } catch {
    // It is nested too deeply.
    return false
  }
}

/** The integrator's own data. */
export const additionalData = z.record(z.string(), z.unknown()).check(z.refine(isSmall))

export const campaign = z.partialRecord(z.enum(campaignNames), value)

export const origin = z.partialRecord(
  z.enum(['country', 'device', 'browser', 'referrer', 'page', ...campaignNames]),
  value,
)

export const termsAmong = z.strictObject({
  rules_version: orNull(integer),
  group_id: orNull(integer),
  commission_bp: orNull(integer),
  commission_months: orNull(integer),
})

export const lines = z
  .array(
    z.strictObject({
      product_ids: orNull(z.array(z.string().check(z.maxLength(255))).check(z.maxLength(100))),
      weight: orNull(integer),
    }),
  )
  .check(z.maxLength(1000))

export const termsByLine = z
  .array(
    z.strictObject({
      rule_id: orNull(integer),
      commission_bp: orNull(integer),
      commission_months: orNull(integer),
      fixed_cents: orNull(integer),
      cap_cents: orNull(integer),
      weight: orNull(integer),
    }),
  )
  .check(z.maxLength(1000))

export const resolution = z.strictObject({
  steps: z.array(z.tuple([word, word])).check(z.maxLength(50)),
  at: z.nullish(moment),
  link_id: z.nullish(integer),
  clicked_at: z.nullish(moment),
  came_at: z.nullish(moment),
  window_days: z.nullish(integer),
  model: z.nullish(word),
  hold_days: z.nullish(integer),
  partner_left: z.optional(z.boolean()),
  expired_click: z.optional(
    z.strictObject({ clicked_at: orNull(moment), came_at: orNull(moment), at: orNull(moment) }),
  ),
})

/** Amount, commission base, currency, type, whether it is recurring, and subscription. See `payload_of` in the database. */
export const apiPayload = z.tuple([
  integer,
  integer,
  word,
  word,
  z.boolean(),
  orNull(z.string().check(z.maxLength(255))),
])

export const corrections = z.array(
  z.strictObject({
    at: moment,
    was_cents: integer,
    amount_cents: integer,
    change_cents: integer,
    base_cents: integer,
    source: word,
  }),
)

/** An erasure removes the evidence. */
export const flags = z
  .array(
    z.strictObject({
      rule: z.enum(reviewRules),
      evidence: z.optional(z.record(word, z.union([z.string().check(z.maxLength(200)), integer, z.null()]))),
    }),
  )
  .check(z.maxLength(reviewRules.length))

const partyFields = {
  legal_name: z.string().check(z.maxLength(1000)),
  address: z.string().check(z.maxLength(1000)),
  country: z.string().check(z.length(2)),
  vat_id: orNull(word),
}
export const issuer = z.strictObject(partyFields)
/** Empty after the payee was erased and the retention period is over. */
export const payee = z.partial(issuer)

export const documentLines = z
  .array(
    z.strictObject({
      cause: word,
      commission_id: z.optional(integer),
      adjustment_id: z.optional(integer),
      posted_on: z.optional(z.string().check(z.regex(/^\d{4}-\d\d-\d\d$/))),
      entries: z.optional(integer),
      amount_cents: integer,
    }),
  )
  .check(z.maxLength(100))
