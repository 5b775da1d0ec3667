import * as z from 'zod/mini'
import { id, reference } from './payload.ts'

const discount = z.looseObject({ id: z.nullish(id), promotion_code: reference })

/** What a schema reads; null where it does not fit, as of a payload in which it may be anything. */
function loose<Schema extends z.ZodMiniType>(schema: Schema) {
  return z.pipe(
    z.optional(z.unknown()),
    z.transform((value) => z.safeParse(schema, value).data ?? null),
  )
}

/** An id, or a discount in full. */
const place = loose(z.union([id, discount]))

/** Where sessions and invoices of all API versions have their discounts. */
const discounted = z.looseObject({
  /** Of invoices before 2025-03-31. */
  discount: place,
  /** Of invoices ids, unless they are expanded; of sessions from 2025-01-27 on what each is by. */
  discounts: loose(z.array(place)),
  total_discount_amounts: loose(z.array(z.looseObject({ discount: place }))),
  total_details: loose(
    z.looseObject({
      amount_discount: z.nullish(z.number()),
      /** Only where it was asked for. */
      breakdown: z.nullish(z.looseObject({ discounts: z.nullish(z.array(z.looseObject({ discount: place }))) })),
    }),
  ),
})

export interface Discounts {
  promotion_code_ids: string[]
  /** Whether there are discounts of which the payload does not say what they are by. */
  isPartial: boolean
}

/** The promotion codes that a session or an invoice was discounted by, as far as its payload says. */
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

/** The same as a purchase has it: where the payload is not enough, Stripe is asked for the object with this id. */
export function discountFacts(object: unknown, objectId: string) {
  const { promotion_code_ids, isPartial } = discountsOf(object)
  return {
    ...(promotion_code_ids.length > 0 && { promotion_code_ids }),
    ...(isPartial && { asks_discounts_of: objectId }),
  }
}
