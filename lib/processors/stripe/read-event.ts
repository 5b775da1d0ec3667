import { Stripe } from 'stripe'
import * as z from 'zod/mini'
// Using `z.core` would bundle all of zod.
import { $ZodError } from 'zod/v4/core'
import { ApiError } from '../../errors.ts'
import { ownAccount } from './client.ts'
import { readCheckout } from './read-checkout-session.ts'
import { readCreditNote } from './read-credit-note.ts'
import { readCustomer } from './read-customer.ts'
import { readDispute } from './read-dispute.ts'
import { type Fact, ignored, isTooLarge, type Unread, type WebhookEvent } from '../facts.ts'
import { type HashEmail, id, looseReference, unixTime } from '../payload.ts'
import { readInvoice, readInvoicePayment } from './read-invoice.ts'
import { readCapturedCharge, readIntent } from './read-payment.ts'
import { ownershipEventTypes, readOwnership } from './read-ownership.ts'
import { readRefund, readRefundedCharge } from './read-refund.ts'

/** The largest difference between a webhook event's time and now, in either direction. */
const toleranceSeconds = 300

/**
 * Checks that Stripe signed this body within the last five minutes, and returns it parsed. `secrets` is the endpoint's signing secret, or
 * several separated by commas during a rotation. Throws `invalid_signature`.
 */
export async function verifyWebhookEvent(
  body: string,
  signature: string | undefined,
  secrets: string,
  now = Date.now(),
): Promise<unknown> {
  const timestamp = Number(/(?:^|,)t=(\d+)/.exec(signature ?? '')?.[1])
  // Stripe's library refuses only old events. Somebody could store an event from the future and replay it later.
  if (timestamp > now / 1000 + toleranceSeconds) throw invalidSignature()
  for (const secret of secrets.split(',')) {
    try {
      return await Stripe.webhooks.constructEventAsync(
        body,
        signature ?? '',
        secret.trim(),
        toleranceSeconds,
        undefined,
        now,
      )
    } catch (error) {
      if (error instanceof SyntaxError) throw new ApiError('invalid_json', 'The body is not valid JSON.')
      if (!(error instanceof Stripe.errors.StripeSignatureVerificationError)) throw error
    }
  }
  throw invalidSignature()
}

function invalidSignature(): ApiError {
  return new ApiError(
    'invalid_signature',
    "The Stripe-Signature header does not match the body, the time or the endpoint's secret. Check STRIPE_WEBHOOK_SECRET.",
  )
}

const envelope = z.looseObject({
  id,
  type: id,
  account: z.nullish(z.union([id, z.literal('')])),
  livemode: z.boolean(),
  created: unixTime,
  data: z.looseObject({ object: z.unknown(), previous_attributes: z.optional(z.unknown()) }),
})

interface ReceivedObject {
  type: string
  account: string | null | undefined
  object: unknown
  /** The previous values of the fields that an update changed. */
  previous?: unknown
  created: string
}

type Reader = (event: ReceivedObject, hashEmail: HashEmail) => Fact | Promise<Fact>

const readers: Readonly<Record<string, Reader>> = {
  'checkout.session.completed': ({ type, object, created }, hash) => readCheckout(type, object, created, hash),
  'checkout.session.async_payment_succeeded': ({ type, object, created }, hash) =>
    readCheckout(type, object, created, hash),
  'checkout.session.async_payment_failed': () => ignored('The payment failed.'),
  'invoice.payment_succeeded': ({ object, created }, hash) => readInvoice(object, created, hash),
  'invoice.paid': ({ object, created }, hash) => readInvoice(object, created, hash),
  'payment_intent.succeeded': ({ object, created }, hash) => readIntent(object, created, hash),
  'charge.captured': ({ object, created }, hash) => readCapturedCharge(object, created, hash),
  'invoice_payment.paid': ({ object }) => readInvoicePayment(object),
  'refund.created': ({ object }) => readRefund(object),
  'refund.updated': ({ object }) => readRefund(object),
  'refund.failed': ({ object }) => readRefund(object),
  'charge.refund.updated': ({ object }) => readRefund(object),
  'charge.refunded': ({ object }) => readRefundedCharge(object),
  'charge.dispute.funds_withdrawn': ({ type, object }) => readDispute(type, object),
  'charge.dispute.funds_reinstated': ({ type, object }) => readDispute(type, object),
  'charge.dispute.closed': ({ type, object }) => readDispute(type, object),
  'credit_note.created': ({ object }) => readCreditNote(object),
  'customer.created': ({ type, object, created }) => readCustomer(type, object, null, created),
  'customer.updated': ({ type, object, previous, created }) => readCustomer(type, object, previous, created),
  'customer.deleted': ({ type, object, created }) => readCustomer(type, object, null, created),
  'account.application.deauthorized': ({ account }) =>
    account ? { kind: 'deauthorization' } : ignored('It contains no connected account.'),
  ...Object.fromEntries(
    ownershipEventTypes.map((type) => [type, ({ object }: ReceivedObject) => readOwnership(object)]),
  ),
}

/** The events that a webhook endpoint at Stripe must receive. */
export const handledEventTypes: readonly string[] = Object.keys(readers)

/**
 * Reads a verified webhook event. Unused events, and payloads that no known API version sends, become `ignored` with the reason,
 * because sending them again wouldn't help. Throws `invalid_request` only for bodies that aren't events.
 */
export async function readEvent(body: unknown, hashEmail: HashEmail): Promise<WebhookEvent> {
  const parsed = envelope.safeParse(body)
  if (!parsed.success)
    throw new ApiError(
      'invalid_request',
      'The body is not a Stripe event of a known version. Send the body as Stripe sent it.',
    )
  const { id: eventId, type, account, livemode, created, data } = parsed.data
  return {
    event_id: eventId,
    event_type: type,
    account_id: account || ownAccount,
    livemode,
    event_created_at: new Date(created),
    fact: await readFact(
      { type, account, object: data.object, previous: data.previous_attributes, created },
      hashEmail,
    ),
    payload: null,
  }
}

/** Reads the object of an event of this type. An object that no schema reads is `ignored`. */
export async function readFact(event: ReceivedObject, hashEmail: HashEmail): Promise<Fact> {
  const read = Object.hasOwn(readers, event.type) ? readers[event.type] : undefined
  if (!read) return ignored('Events of this type are not used.')
  try {
    const fact = await read(event, hashEmail)
    return isTooLarge(fact) ? ignored('Its amount is larger than the service can store.') : fact
  } catch (error) {
    if (!(error instanceof $ZodError)) throw error
    const fields = error.issues.map(({ path }) => path.join('.')).join(', ')
    const reason = `It could not be read: ${fields || 'the object'} has a format that no known API version sends.`
    return { ...ignored(reason), unread: aboutUnread(event.object) }
  }
}

const about = z.looseObject({
  id: looseReference,
  payment_intent: looseReference,
  charge: looseReference,
  latest_charge: looseReference,
  invoice: looseReference,
  customer: looseReference,
  subscription: looseReference,
})

const aboutParent = z.looseObject({
  parent: z.looseObject({ subscription_details: z.looseObject({ subscription: looseReference }) }),
})

/** Finds the ids in a payload that no schema reads. If they belong to a known payment or customer, the service notifies the advertiser. */
function aboutUnread(object: unknown): Unread {
  const found = about.safeParse(object).data
  const parent = aboutParent.safeParse(object).data?.parent
  const ids = [found?.id, found?.payment_intent, found?.charge, found?.latest_charge, found?.invoice]
  return {
    payment_ids: ids.filter((one) => typeof one === 'string'),
    processor_customer_id: found?.customer ?? null,
    subscription_id: parent?.subscription_details.subscription ?? found?.subscription ?? null,
  }
}
