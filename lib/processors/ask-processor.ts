import type { Stripe } from 'stripe'
import type { Ask } from './apply-event.ts'
import { askNobody } from './receive-delivery.ts'
import { askStripe } from './stripe/ask.ts'

/** Returns the function that asks an event's processor. */
export function askProcessor(stripe: Stripe): Ask {
  const ofStripe = askStripe(stripe)
  return async (event, question, answer) =>
    await (event.account_id.startsWith('conn_') ? askNobody : ofStripe)(event, question, answer)
}
