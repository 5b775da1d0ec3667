import * as z from 'zod/mini'
import { answered, type Operation, refused } from './operation.ts'
import { success, text } from '../response-fields.ts'

const webhookResponse = () =>
  z.object({
    success: success(),
    outcome: z.enum(['recorded', 'duplicate', 'ignored', 'parked']),
    reason: text(),
  })

const balanceAvailable = {
  id: 'evt_1',
  object: 'event',
  type: 'balance.available',
  account: 'acct_1',
  livemode: false,
  created: 1767225600,
  data: { object: { object: 'balance', available: [], pending: [] } },
}

/** Describes POST /api/v1/webhooks/stripe for the reference. lib/processors/stripe reads the events. */
export const processorWebhook = (): Operation => ({
  id: 'stripeWebhook',
  method: 'post',
  path: '/api/v1/webhooks/stripe',
  summary: 'Receive an event of the payment processor',
  description:
    'Called by Stripe for connected accounts. Attach `svc_click_id`, `svc_customer_key` and `program_id` to the metadata of the checkout session, and for subscriptions to `subscription_data.metadata` too.',
  auth: 'signature',
  success: {
    schemas: [webhookResponse()],
    description: 'The outcome of the event. Each is final: Stripe does not need to deliver it again.',
  },
  errors: [
    'invalid_request',
    'invalid_json',
    'invalid_signature',
    'payload_too_large',
    'internal_error',
    'unavailable',
  ],
  examples: [
    answered(
      'ignored',
      'An event that no program uses',
      { outcome: 'ignored', reason: 'Events of this type are not used.' },
      balanceAvailable,
    ),
    {
      ...refused(
        'invalid_signature',
        'A delivery without the processor’s signature',
        {
          code: 'invalid_signature',
          message:
            "The Stripe-Signature header does not match the body, the time or the endpoint's secret. Check STRIPE_WEBHOOK_SECRET.",
        },
        balanceAvailable,
      ),
      unsigned: true,
    },
  ],
})
