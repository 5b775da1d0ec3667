import * as z from 'zod/mini'
import { id, reference } from '../payload.ts'

const discount = z.looseObject({ id: z.nullish(id), promotion_code: reference })

/** Parses a value with a schema. Returns null if the value doesn't match, because the payload may contain anything there. */
function loose<Schema extends z.ZodMiniType>(schema: Schema) {
  return z.pipe(
    z.optional(z.unknown()),
    z.transform((value) => z.safeParse(schema, value).data ?? null),
  )
}

/** An id or a full discount. */
const place = loose(z.union([id, discount]))

/** The fields that contain discounts in sessions and invoices, in all API versions. */
const discounted = z.looseObject({
  /** In invoices before 2025-03-31. */
  discount: place,
  /** In invoices, these are ids unless they are expanded. In sessions since 2025-01-27, they contain the source of each discount. */
  discounts: loose(z.array(place)),
  total_discount_amounts: loose(z.array(z.looseObject({ discount: place }))),
  total_details: loose(
    z.looseObject({
      amount_discount: z.nullish(z.number()),
      /** Only present if the request expands the field. */
      breakdown: z.nullish(z.looseObject({ discounts: z.nullish(z.array(z.looseObject({ discount: place }))) })),
    }),
  ),
})

export interface Discounts {
  promotion_code_ids: string[]
  /** Returns whether the payload has discounts without their source. */
  isPartial: boolean
}

/** Returns the promotion codes in the payload that discounted a session or an invoice. */
export function discountsOf(object: unknown): Discounts {
  const {
    discount: single,
    discounts,
    total_discount_amounts: amounts,
    total_details: details,
  } = discounted.parse(object)
  const breakdown = details?.breakdown?.discounts
  const places = [single, ...(discounts ?? []), ...(amounts ?? []).map((one) => one.discount)]
  const all = [...places, ...(breakdown ?? []).map((one) => one.discount)]
  const full = all.filter((one) => typeof one === 'object' && one !== null)
  const known = new Set(full.map((one) => one.id))
  const codes = full.map((one) => one.promotion_code).filter((code) => code !== null)
  const isUnreported = (details?.amount_discount ?? 0) > 0 && !discounts && !breakdown
  return {
    promotion_code_ids: [...new Set(codes)].slice(0, 20),
    isPartial: isUnreported || all.some((one) => typeof one === 'string' && !known.has(one)),
  }
}

/**
 * Returns the discount fields of a purchase. If the payload is incomplete, they include `objectId`, so that the service asks Stripe about
 * that object.
 */
export function discountFacts(object: unknown, objectId: string) {
  const { promotion_code_ids, isPartial } = discountsOf(object)
  return {
    ...(promotion_code_ids.length > 0 && { promotion_code_ids }),
    ...(isPartial && { asks_discounts_of: objectId }),
  }
}
