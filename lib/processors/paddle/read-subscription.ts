import * as z from 'zod/mini'
import type { Fact } from '../facts.ts'
import { type HashEmail, id, namesIn, time } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { purchaseOf } from '../purchase.ts'

const subscription = z.looseObject({
  id,
  customer_id: z.nullish(id),
  custom_data: z.optional(z.unknown()),
  created_at: time,
})

/** Reads `subscription.created`. The event isn't a payment, but its custom data identifies the buyer of renewals without custom data. */
export async function readSubscription({ object }: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const started = subscription.parse(object)
  return await purchaseOf(
    {
      names: namesIn(started.custom_data),
      customerId: started.customer_id ?? null,
      subscriptionId: started.id,
      paymentIds: [],
      startedAt: started.created_at,
      settlesLead: false,
      sale: null,
    },
    hashEmail,
  )
}
