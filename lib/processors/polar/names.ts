import * as z from 'zod/mini'
import { freeText, isClickId, type Names, namesIn, namesSomething } from '../payload.ts'

const reference = z.looseObject({ reference_id: freeText(255) })

/**
 * Returns the keys that identify a buyer, from the metadata of the payment, or else from the metadata of its subscription. The click id can
 * also be the `reference_id` of a checkout link. The customer key can also be the customer's external id.
 */
export function namesOf(places: unknown[], externalId: string | null | undefined): Names {
  const names = places.map(namesIn).find(namesSomething) ?? namesIn(null)
  const referenced = places.map((place) => reference.safeParse(place).data?.reference_id ?? '').find(isClickId)
  return {
    program_id: names.program_id,
    click_id: names.click_id ?? referenced ?? null,
    customer_key: names.customer_key ?? externalId ?? null,
  }
}
