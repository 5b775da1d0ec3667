import * as z from 'zod/mini'
import type { Fact } from '../facts.ts'
import { freeText, type HashEmail, id, time } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { purchaseOf } from '../purchase.ts'
import { namesOf } from './names.ts'

const subscription = z.looseObject({
  id,
  created_at: time,
  customer_id: z.nullish(id),
  metadata: z.optional(z.unknown()),
  customer: z.nullish(z.looseObject({ email: freeText(320), external_id: freeText(255) })),
})

/** Reads `subscription.created`. The event isn't a payment, but its metadata identifies the buyer of renewals. */
export async function readSubscription({ object }: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const started = subscription.parse(object)
  return await purchaseOf(
    {
      names: namesOf([started.metadata], started.customer?.external_id),
      email: started.customer?.email ?? null,
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
