import * as z from 'zod/mini'
import { type Fact, ignored } from '../facts.ts'
import { id, namesIn, namesSomething } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'

const customer = z.looseObject({ id, custom_data: z.optional(z.unknown()) })

/**
 * Reads `customer.created` and `customer.updated`. Their custom data attributes the customer's payments without custom data. An update
 * without a visitor removes the previous visitor, because Paddle doesn't report the changes.
 */
export function readCustomer({ type, object, createdAt }: ProcessorEvent): Fact {
  const read = customer.parse(object)
  const names = namesIn(read.custom_data)
  if (type === 'customer.created' && !namesSomething(names))
    return ignored("The customer's custom data contains no visitor.")
  return {
    kind: 'customer',
    ...names,
    processor_customer_id: read.id,
    is_deleted: false,
    reported_at: createdAt.toISOString(),
  }
}
