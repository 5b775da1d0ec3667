import * as z from 'zod/mini'
import { id, time } from '../payload.ts'
import { isHmac, isRecent, type Processor } from '../processor.ts'
import { readOrder, readOrderFee } from './read-order.ts'
import { readRefund } from './read-refund.ts'
import { readSubscription } from './read-subscription.ts'

const envelope = z.looseObject({ type: id, timestamp: time, data: z.looseObject({ id: z.nullish(id) }) })

/**
 * Polar. The headers follow Standard Webhooks, but the key is the whole secret that Polar shows, including `whsec_`. Polar's SDK also accepts
 * the usual key, the decoded part after the prefix.
 *
 * @see https://polar.sh/docs/integrate/webhooks/delivery
 */
export const polar: Processor = {
  title: 'Polar',
  hasInventedSecret: false,

  async isSigned({ body, header, now }, secret) {
    const deliveryId = header('webhook-id') ?? ''
    const timestamp = header('webhook-timestamp') ?? ''
    if (!/^\d{1,12}$/.test(timestamp) || !isRecent(Number(timestamp), now)) return false
    const signatures = (header('webhook-signature') ?? '').slice(0, 2000).split(' ')
    const text = `${deliveryId}.${timestamp}.${body}`
    for (const [version, signature = ''] of signatures.map((one) => one.split(','))) {
      if (version !== 'v1') continue
      const signed = base64BytesOf(signature)
      if (await isHmac(secret, text, signed)) return true
      if (await isHmac(base64BytesOf(secret.replace(/^whsec_/, '')), text, signed)) return true
    }
    return false
  },

  eventOf(body, deliveryId) {
    const { data: read } = envelope.safeParse(body)
    if (!read) return undefined
    const named =
      deliveryId && /^[\w.-]{1,200}$/.test(deliveryId) ? deliveryId : `${read.type}_${read.data.id}_${read.timestamp}`
    return {
      id: `evt_${named}`.slice(0, 255),
      type: read.type,
      createdAt: new Date(read.timestamp),
      isTest: false,
      object: read.data,
    }
  },

  paymentIdFields: ['id', 'order_id'],

  readers: {
    'order.paid': readOrder,
    'order.updated': readOrderFee,
    'refund.created': readRefund,
    'refund.updated': readRefund,
    'subscription.created': readSubscription,
  },
}

/** Returns the bytes of a base64 text. Returns no bytes if the text isn't valid base64. */
function base64BytesOf(text: string): Uint8Array<ArrayBuffer> {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4 !== 0) return new Uint8Array()
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}
