import * as z from 'zod/mini'
import { id, numericId, time } from '../payload.ts'
import { hexBytesOf, isHmac, type Processor } from '../processor.ts'
import { readInvoice, readInvoiceRefund } from './read-invoice.ts'
import { readOrder, readOrderRefund } from './read-order.ts'
import { readSubscription } from './read-subscription.ts'

const envelope = z.looseObject({
  meta: z.looseObject({
    event_name: id,
    test_mode: z.nullish(z.boolean()),
    custom_data: z.optional(z.unknown()),
  }),
  data: z.looseObject({
    id: numericId,
    attributes: z.looseObject({
      updated_at: z.nullish(time),
      created_at: z.nullish(time),
      test_mode: z.nullish(z.boolean()),
    }),
  }),
})

/**
 * Lemon Squeezy. `X-Signature` is the HMAC of the raw body. The signature doesn't cover a time, and deliveries don't have ids. So
 * each state of an object is one event, and a repeated delivery changes nothing. Two refunds within a second differ only in their
 * total.
 *
 * @see https://docs.lemonsqueezy.com/help/webhooks/signing-requests
 */
export const lemonsqueezy: Processor = {
  title: 'Lemon Squeezy',
  hasInventedSecret: true,

  async isSigned({ body, header }, secret) {
    return await isHmac(secret, body, hexBytesOf((header('x-signature') ?? '').slice(0, 200)))
  },

  eventOf(body) {
    const { data: read } = envelope.safeParse(body)
    if (!read) return undefined
    const { meta, data } = read
    const { attributes } = data
    const changedAt = new Date(attributes.updated_at ?? attributes.created_at ?? 0)
    const sum = Number(attributes['refunded_amount'])
    const refunded = sum > 0 ? `_${sum}` : ''
    return {
      id: `evt_${meta.event_name}_${data.id}_${changedAt.toISOString()}${refunded}`.slice(0, 255),
      type: meta.event_name,
      createdAt: changedAt,
      isTest: meta.test_mode === true || attributes.test_mode === true,
      object: { ...attributes, id: data.id, custom_data: meta.custom_data },
    }
  },

  paymentIdFields: ['id', 'order_id'],

  readers: {
    order_created: readOrder,
    order_refunded: readOrderRefund,
    subscription_created: readSubscription,
    subscription_payment_success: readInvoice,
    subscription_payment_recovered: readInvoice,
    subscription_payment_refunded: readInvoiceRefund,
  },
}
