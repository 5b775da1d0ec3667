import { address, type Addresses, type Headers, type Route } from './addresses.ts'
import { clickIdOf, cookieOf, keptOf } from './cookies.ts'
import { type Caller, checkKey, type Result, send, type SvcError } from './send.ts'
import { stripeAmount } from './stripe-amounts.ts'

export { stripeAmount }
export type { Result, SvcError }

export interface SvcClientOptions extends Addresses, Caller {
  /** The currency (ISO 4217) of sales without one. Default `usd`. Set it to your program's currency. */
  currency?: string | undefined
}

export interface LeadInput {
  /** Your own stable user id, which must be the same here and in every sale. */
  customerExternalId: string
  /** The visitor's `svc_click_id`, or null. See `getClickId`. */
  clickId: string | null
  email?: string | undefined
  additionalData?: { test_mode?: boolean; program_id?: number; [name: string]: unknown } | undefined
}

export interface SaleInput {
  customerExternalId: string
  /**
   * The paid amount, a positive integer in the currency's minor unit by ISO 4217 (cents, but whole yen). `stripeAmount` converts amounts
   * from Stripe.
   */
  amount: number
  /** The tax within `amount`, in the same unit. It doesn't earn a commission. Default 0. */
  tax?: number | undefined
  /** Identifies this sale permanently. A second call with this id returns 409, and a refund needs the id. */
  invoiceId: string
  /** ISO 4217. Default: the client's `currency`. */
  currency?: string | undefined
  isRecurring?: boolean | undefined
  saleType?: string | undefined
  subscriptionId?: string | undefined
  /** For a customer without a lead, such as a guest at checkout. */
  clickId?: string | null | undefined
  /** The code that the buyer typed. A partner's code attributes the sale to them, with or without a click. Any other code has no effect. */
  coupon?: string | null | undefined
  /** The sale's program. If the key belongs to another program, the service refuses the sale. */
  programId?: number | undefined
}

export interface RefundInput {
  /** The `invoiceId` of the sale. */
  invoiceId: string
  /** This refund's amount in cents, not a running total. Without it, the whole remaining amount is refunded. */
  amount?: number | undefined
  /** Your own id for this refund. It is required if two refunds of one sale can have the same amount. */
  refundId?: string | undefined
  reason?: 'refund' | 'chargeback' | undefined
  /** Free text for the partner, instead of `reason`. */
  refundReason?: string | undefined
}

export interface LeadData {
  success: true
  lead_id: number
  click_id: string
  customer_status: string
  provisional?: true
  duplicate?: true
}

export interface SaleData {
  success: true
  sale_id: number
  /** The other fields are absent if the first response was lost and a retry found that the sale was recorded. */
  transaction_id?: string
  attributed?: boolean
  commission_id?: number | null
  commission_cents?: number
  currency?: string
  /** Explains the consequence if the sale is not in the program's currency. */
  warning?: string
  /** Unknown fields, which had no effect. The client logs them once. */
  ignored_fields?: string[]
}

export type RefundData = { success: true; ignored_fields?: string[] } & (
  | {
      status: 'reversed' | 'refunded'
      /** The reversed commission, in the major unit of its currency. */
      deductionAmount: number
      /** The same amount in the minor unit. */
      deduction_cents: number
      currency: string
      commission_id: number
    }
  | { status: 'skipped'; reason: 'already_reversed' | 'refund_already_applied'; commission_id: number }
  | { status: 'no_commission'; message: string }
)

/**
 * Calls the service from your server. Methods never throw or reject. A failure is a result with `ok: false`. Only the constructor throws,
 * if the key is missing or malformed, or if the service's address isn't configured.
 *
 * A call is repeated if there is no response, or after 429 or 5xx. Each call is safe to repeat: the service recognizes a lead by its
 * customer, a sale by its invoice id, and a refund by its id or amount.
 */
export class SvcClient {
  readonly #options: SvcClientOptions

  constructor(options: SvcClientOptions) {
    checkKey(options.apiKey)
    for (const route of ['lead', 'sale', 'refund'] as const) address(options, route)
    this.#options = options
  }

  /** Records a signup. `error.code` `no_attribution` (400) is the normal response if no partner referred the visitor. */
  trackLead(lead: LeadInput): Promise<Result<LeadData>> {
    return this.#send('lead', () => ({
      customer_key: lead.customerExternalId,
      click_id: lead.clickId,
      email: lead.email,
      additional_data: lead.additionalData,
    }))
  }

  /**
   * Records a sale. Status 409 means that the sale is already recorded, so you don't have to do anything. `data.warning` reports a
   * currency that is not the program's.
   */
  trackSale(sale: SaleInput): Promise<Result<SaleData>> {
    return this.#send('sale', () => {
      if (!(Number.isSafeInteger(sale.amount) && sale.amount > 0))
        throw TypeError('amount must be a positive integer of cents')
      return {
        transaction_id: sale.invoiceId,
        customer_key: sale.customerExternalId,
        amount_cents: sale.amount,
        tax_cents: sale.tax,
        currency: sale.currency ?? this.#options.currency ?? 'usd',
        is_recurring: sale.isRecurring,
        sale_type: sale.saleType,
        subscription_id: sale.subscriptionId,
        click_id: sale.clickId,
        coupon: sale.coupon,
        additional_data: sale.programId ? { program_id: sale.programId } : undefined,
      }
    })
  }

  /** Reverses the commission of a sale, in full or in proportion. */
  trackRefund(refund: RefundInput): Promise<Result<RefundData>> {
    return this.#send('refund', () => ({
      transaction_id: refund.invoiceId,
      refund_amount_cents: refund.amount,
      refund_id: refund.refundId,
      reason: refund.reason,
      refund_reason: refund.refundReason,
    }))
  }

  #send<Data>(route: Route, input: () => object): Promise<Result<Data>> {
    return send(this.#options, address(this.#options, route), 'POST', input)
  }
}

/**
 * Returns the click id in a request's cookies, or null. Accepts a `Request`, a Node or Express request, or `{ headers: await headers()
 * }`. If the site has several programs, `name` is the tag's name (`data-svc-name`).
 */
export function getClickId(
  request: { headers: Headers | { cookie?: string | undefined } },
  name?: string,
): string | null {
  const { headers } = request
  const cookies = ('get' in headers ? headers.get('cookie') : headers.cookie) ?? ''
  return clickIdOf(cookies, cookieOf(name)) ?? clickIdOf(cookies, keptOf(name)) ?? null
}

/**
 * Returns the parameters of a Stripe checkout session that carry the attribution. Spread them into the session's own parameters. A
 * subscription needs them twice, because Stripe does not copy a session's metadata to its subscription, and renewals only have the
 * subscription's metadata.
 */
export function checkoutMetadata(input: {
  clickId: string | null
  customerExternalId: string
  programId: number | string
  mode: 'payment' | 'subscription'
}): { metadata: Record<string, string>; subscription_data?: { metadata: Record<string, string> } } {
  const metadata = {
    svc_click_id: input.clickId ?? '',
    svc_customer_key: input.customerExternalId,
    program_id: `${input.programId}`,
  }
  return input.mode === 'subscription' ? { metadata, subscription_data: { metadata } } : { metadata }
}
