import * as z from 'zod/mini'
import { id, time } from '../payload.ts'
import { hexBytesOf, isHmac, isRecent, type Processor } from '../processor.ts'
import { readAdjustment } from './read-adjustment.ts'
import { readCustomer } from './read-customer.ts'
import { readSubscription } from './read-subscription.ts'
import { readTransaction } from './read-transaction.ts'

const envelope = z.looseObject({
  event_id: id,
  event_type: id,
  occurred_at: time,
  data: z.record(z.string(), z.unknown()),
})

/**
 * Paddle Billing. `Paddle-Signature: ts=…;h1=…` signs the time and the raw body. It can have several `h1` while a secret is rotated.
 *
 * @see https://developer.paddle.com/webhooks/signature-verification
 */
export const paddle: Processor = {
  title: 'Paddle',
  hasInventedSecret: false,

  async isSigned({ body, header, now }, secret) {
    const parts = (header('paddle-signature') ?? '').slice(0, 2000).split(';')
    const valuesOf = (name: string) =>
      parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1))
    const [ts = ''] = valuesOf('ts')
    if (!/^\d{1,12}$/.test(ts) || !isRecent(Number(ts), now)) return false
    for (const signature of valuesOf('h1')) {
      if (await isHmac(secret, `${ts}:${body}`, hexBytesOf(signature))) return true
    }
    return false
  },

  eventOf(body) {
    const { data } = envelope.safeParse(body)
    return (
      data && {
        id: data.event_id.startsWith('evt_') ? data.event_id : `evt_${data.event_id}`,
        type: data.event_type,
        createdAt: new Date(data.occurred_at),
        // Events of Paddle's simulator, which can also send to live destinations.
        isTest: data.event_id.startsWith('ntfsimevt_'),
        object: data.data,
      }
    )
  },

  paymentIdFields: ['id', 'transaction_id'],

  readers: {
    'transaction.completed': readTransaction,
    'adjustment.created': readAdjustment,
    'adjustment.updated': readAdjustment,
    'subscription.created': readSubscription,
    'customer.created': readCustomer,
    'customer.updated': readCustomer,
  },
}
