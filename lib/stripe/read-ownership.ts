import * as z from 'zod/mini'
import { type Fact, ignored } from './facts.ts'

/** What Stripe sends when somebody writes metadata of a product. */
export const ownershipEventTypes = ['product.created', 'product.updated'] as const

/** The name under which an owner writes a program's code into the metadata of a product. */
export const ownershipField = 'svc_connect_code'

const product = z.looseObject({ metadata: z.nullish(z.record(z.string(), z.unknown())) })

/**
 * A code that an owner was given stands in the metadata of a product. Only who runs an account writes metadata of its products; names,
 * addresses and `client_reference_id` are buyers' to choose, so nothing is read of those.
 */
export function readOwnership(object: unknown): Fact {
  const code = product.parse(object).metadata?.[ownershipField]
  return typeof code === 'string' && /^[\w-]{43}$/.test(code)
    ? { kind: 'ownership', code }
    : ignored('It is a product, and says nothing of a payment.')
}
