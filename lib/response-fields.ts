import * as z from 'zod/mini'

// Response fields for the description of the API. Tests check real responses against them. They are functions, so that bundles without
// calls to them don't include them.

export const success = () => z.literal(true)
export const clickId = () => z.string().check(z.regex(/^cust_\d+_\d+$/))
export const id = () => z.int().check(z.positive())
export const count = () => z.int().check(z.nonnegative())
export const cents = () => z.int().check(z.nonnegative())
export const currency = () => z.string().check(z.regex(/^[a-z]{3}$/))
export const day = () => z.iso.date()
export const time = () => z.iso.datetime()
/** Names of unknown fields in the body of a tracking call. */
export const ignored = () => z.optional(z.array(z.string()))
export const text = () => z.nullable(z.string())
