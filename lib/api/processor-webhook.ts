import * as z from 'zod/mini'
import { answered, type Operation, refused } from './operation.ts'
import { processors, processorTitles } from '../processors/processors.ts'
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
  summary: 'Receive an event from the payment processor',
  description:
    'Called by Stripe for connected accounts. Attach `svc_click_id`, `svc_customer_key` and `program_id` to the metadata of the checkout session, and for subscriptions to `subscription_data.metadata` too.',
  auth: 'signature',
  success: {
    schemas: [webhookResponse()],
    description: 'The result of the event. Results are final, so Stripe does not need to send the event again.',
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

export const exampleConnectionId = `conn_${'a'.repeat(43)}`
const connectionPath = z.object({ processor: z.enum(Object.keys(processors)), connection: z.string() })

const businessCreated = {
  event_id: 'evt_01k000000000000000000000000',
  event_type: 'business.created',
  occurred_at: '2026-01-01T00:00:00.000000Z',
  notification_id: 'ntf_01k000000000000000000000000',
  data: { id: 'biz_1' },
}

/** Describes POST /api/v1/webhooks/<processor>/<connection> for the API reference. lib/processors reads the events. */
export const connectionWebhook = (): Operation => ({
  id: 'connectionWebhook',
  method: 'post',
  path: '/api/v1/webhooks/{processor}/{connection}',
  summary: `Receive an event from ${processorTitles('disjunction')}`,
  description:
    "The processor calls this endpoint and signs each delivery with the connection's secret. The program's settings show the URL. Attach `svc_click_id`, `svc_customer_key` and `program_id` to the custom data of the checkout, which Polar calls metadata.",
  auth: 'signature',
  parameters: [
    {
      in: 'path',
      schema: connectionPath,
      fields: {
        processor: { description: 'The processor.', example: 'paddle' },
        connection: { description: 'The id of the connection.', example: exampleConnectionId },
      },
    },
  ],
  success: {
    schemas: [webhookResponse()],
    description: 'The result of the event. Results are final, so the processor does not need to send the event again.',
  },
  errors: [
    'invalid_request',
    'invalid_json',
    'invalid_signature',
    'not_found',
    'payload_too_large',
    'internal_error',
    'unavailable',
  ],
  examples: [
    answered(
      'ignored',
      'An event that no program uses',
      { outcome: 'ignored', reason: 'Events of this type are not used.' },
      businessCreated,
    ),
    {
      ...refused(
        'invalid_signature',
        'A delivery without the processor’s signature',
        {
          code: 'invalid_signature',
          message:
            'The signature does not match the body, the time or the secret. Check the secret of this connection in the settings.',
        },
        businessCreated,
      ),
      unsigned: true,
    },
  ],
})
