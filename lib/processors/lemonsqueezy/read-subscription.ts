import * as z from 'zod/mini'
import type { Fact } from '../facts.ts'
import { freeText, type HashEmail, namesIn, numericId, time } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { purchaseOf } from '../purchase.ts'
import { subscriptionId } from './ids.ts'

const subscription = z.looseObject({
  id: numericId,
  order_id: z.nullish(numericId),
  customer_id: z.nullish(numericId),
  user_email: freeText(320),
  created_at: time,
  custom_data: z.optional(z.unknown()),
})

/**
 * Reads `subscription_created`. The event isn't a payment, but it contains the order that started the subscription. Its custom data
 * identifies the buyer of renewals without custom data.
 */
export async function readSubscription({ object }: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const started = subscription.parse(object)
  const startId = subscriptionId(started.id)
  return await purchaseOf(
    {
      names: namesIn(started.custom_data),
      email: started.user_email,
      customerId: started.customer_id ?? null,
      subscriptionId: startId,
      paymentIds: started.order_id ? [started.order_id, startId] : [startId],
      startedAt: started.created_at,
      settlesLead: true,
      sale: null,
    },
    hashEmail,
  )
}
