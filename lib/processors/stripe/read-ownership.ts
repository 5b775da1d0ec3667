import * as z from 'zod/mini'
import { type Fact, ignored } from '../facts.ts'

/** The events that Stripe sends when somebody changes a product's metadata. */
export const ownershipEventTypes = ['product.created', 'product.updated'] as const

/** The metadata field of a product that contains a program's code. */
export const ownershipField = 'svc_connect_code'

const product = z.looseObject({ metadata: z.nullish(z.record(z.string(), z.unknown())) })

/**
 * Reads a program's code from a product's metadata. Only a person who runs an account can write the metadata of its products.
 * Buyers choose names, addresses and `client_reference_id`, so those are not read.
 */
export function readOwnership(object: unknown): Fact {
  const code = product.parse(object).metadata?.[ownershipField]
  return typeof code === 'string' && /^[\w-]{43}$/.test(code)
    ? { kind: 'ownership', code }
    : ignored('It is a product, not a payment.')
}
