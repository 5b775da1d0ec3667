import { Stripe } from 'stripe'
import { ApiError } from '../../errors.ts'
import { type Conversion, conversionsOf } from './conversions.ts'
import { discountsOf } from './read-discounts.ts'

/** The variables for calls to Stripe's API. */
export interface StripeEnv {
  /** The platform's secret key. Calls for a connected account also pass that account. */
  STRIPE_SECRET_KEY: string
  /** The origin of an API that isn't Stripe's own. Set by tests and by the local stack. */
  STRIPE_API_URL?: string
}

const timeoutMilliseconds = 5000
const retries = 2

/** The last opened client. Creating a client sets up about a hundred resources, and most events don't ask Stripe anything. */
let opened: { key: string; url: string | undefined; client: Stripe } | undefined

/** Opens a client that gives up after three attempts of five seconds each. */
export function openStripe(env: StripeEnv): Stripe {
  const { STRIPE_SECRET_KEY: key, STRIPE_API_URL: url } = env
  if (opened?.key !== key || opened.url !== url) opened = { key, url, client: newClient(env) }
  return opened.client
}

function newClient(env: StripeEnv): Stripe {
  const address = env.STRIPE_API_URL ? new URL(env.STRIPE_API_URL) : undefined
  return new Stripe(env.STRIPE_SECRET_KEY, {
    timeout: timeoutMilliseconds,
    maxNetworkRetries: retries,
    telemetry: false,
    httpClient: Stripe.createFetchHttpClient((input, init) => fetch(input, init)),
    ...(address && {
      host: address.hostname,
      port: address.port,
      protocol: address.protocol === 'http:' ? ('http' as const) : ('https' as const),
    }),
  })
}

/**
 * The account whose key this deployment has. Its events contain no account. An owner connects their program to it after proving that they
 * own the account (own-account.ts). `npm run own-account` does the same.
 */
export const ownAccount = 'platform'

/** Returns the request options with the account for a call. */
export const onAccount = (accountId: string) => (accountId === ownAccount ? {} : { stripeAccount: accountId })

/** Returns the invoice that a payment intent paid, or null if it didn't pay an invoice. */
export async function invoiceOfPaymentIntent(
  stripe: Stripe,
  accountId: string,
  paymentIntentId: string,
): Promise<string | null> {
  const payments = await answered(() =>
    stripe.invoicePayments.list(
      { payment: { type: 'payment_intent', payment_intent: paymentIntentId }, limit: 1 },
      onAccount(accountId),
    ),
  )
  const invoice = payments?.data[0]?.invoice
  return typeof invoice === 'string' ? invoice : (invoice?.id ?? null)
}

/** Returns the promotion codes that discounted a checkout session or an invoice. */
export async function discountedBy(stripe: Stripe, accountId: string, objectId: string): Promise<string[]> {
  const options = onAccount(accountId)
  const object = await answered<unknown>(() =>
    objectId.startsWith('cs_')
      ? stripe.checkout.sessions.retrieve(objectId, { expand: ['total_details.breakdown'] }, options)
      : stripe.invoices.retrieve(objectId, { expand: ['discounts'] }, options),
  )
  return object === undefined ? [] : discountsOf(object).promotion_code_ids
}

/** Returns the refunds of a charge in their current state at Stripe. */
export async function refundsOfCharge(stripe: Stripe, accountId: string, chargeId: string): Promise<unknown[]> {
  const refunds = await answered(() =>
    stripe.refunds.list({ charge: chargeId, limit: 100 }, onAccount(accountId)).autoPagingToArray({ limit: 1000 }),
  )
  return refunds ?? []
}

/** Returns Stripe's conversions for a refund and its charge, or for the charge of a dispute. Returns an empty list if there are none. */
export async function askConversions(
  stripe: Stripe,
  accountId: string,
  { refundId, chargeId }: { refundId: string | null; chargeId: string | null },
): Promise<Conversion[]> {
  const options = onAccount(accountId)
  if (refundId !== null) {
    const expand = ['balance_transaction', 'charge.balance_transaction']
    return conversionsOf(await answered(() => stripe.refunds.retrieve(refundId, { expand }, options)))
  }
  if (chargeId === null) return []
  return conversionsOf(
    await answered(() => stripe.charges.retrieve(chargeId, { expand: ['balance_transaction'] }, options)),
  )
}

/**
 * Returns Stripe's response, or undefined if the object doesn't exist for us, because it belongs to the other mode or to a disconnected
 * account. If Stripe doesn't respond, throws `unavailable`, so that Stripe delivers the event again.
 */
async function answered<Result>(call: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await call()
  } catch (error) {
    const { errors } = Stripe
    if (error instanceof errors.StripeInvalidRequestError || error instanceof errors.StripePermissionError)
      return undefined
    if (!(error instanceof errors.StripeError)) throw error
    console.error(JSON.stringify({ error: 'stripe_unavailable', type: error.type, status: error.statusCode }))
    throw new ApiError('unavailable', "Stripe's API did not respond. Deliver the event again.", {
      headers: { 'Retry-After': '60' },
    })
  }
}
