import { address, type Addresses, type Headers, type Route } from './addresses.ts'
import { clickIdOf, cookieOf, keptOf } from './cookies.ts'
import { stripeAmount } from './stripe-amounts.ts'

export { stripeAmount }

export interface SvcClientOptions extends Addresses {
  /** The program's API key. Keep it on the server. */
  apiKey: string | undefined
  /** The currency (ISO 4217) of sales that name none. Default `usd`: name your program's. */
  currency?: string | undefined
  /** How long one attempt may take, in milliseconds. Default 10,000. */
  timeoutMs?: number | undefined
  /** How often a call is tried again after no answer, 429 or 5xx. Default 2. */
  retries?: number | undefined
}

export interface LeadInput {
  /** Your own stable id of the user: the same here and at every sale. */
  customerExternalId: string
  /** The visitor's `svc_click_id`; see `getClickId`. Null where there is none. */
  clickId: string | null
  email?: string | undefined
  additionalData?: { test_mode?: boolean; program_id?: number; [name: string]: unknown } | undefined
}

export interface SaleInput {
  customerExternalId: string
  /** What was paid, in the currency's minor unit by ISO 4217 (cents; whole yen): a positive integer. `stripeAmount` makes it of Stripe's. */
  amount: number
  /** What of `amount` is tax, in the same unit: no commission is earned on it. Default 0. */
  tax?: number | undefined
  /** Names this sale for ever: a second call with it is refused with 409, and a refund needs it. */
  invoiceId: string
  /** ISO 4217. Default: the client's `currency`. */
  currency?: string | undefined
  isRecurring?: boolean | undefined
  saleType?: string | undefined
  subscriptionId?: string | undefined
  /** For a customer who never was a lead, such as a guest at the checkout. */
  clickId?: string | null | undefined
  /** The program that the sale is meant for: where the key is another's, the sale is refused. */
  programId?: number | undefined
}

export interface RefundInput {
  /** The `invoiceId` of the sale. */
  invoiceId: string
  /** This refund's amount in cents, not a running total. Without it, all that is left is refunded. */
  amount?: number | undefined
  /** Your id of this refund: needed when two refunds of one sale can have the same amount. */
  refundId?: string | undefined
  reason?: 'refund' | 'chargeback' | undefined
  /** Free text for the partner, in place of `reason`. */
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
  /** The rest is absent where the answer to the call that recorded the sale was lost and a retry found it recorded. */
  transaction_id?: string
  attributed?: boolean
  commission_id?: number | null
  commission_cents?: number
  currency?: string
  /** Where the sale is in another currency than the program's: what that means. */
  warning?: string
}

export interface RefundData {
  success: true
  status: 'reversed' | 'refunded' | 'no_commission' | 'skipped'
  deductionAmount?: number
  commission_id?: number
  message?: string
  reason?: string
}

export interface SvcError {
  /** The service's stable code; without an answer from it `network_error`, `timeout`, `invalid_response`, `invalid_request`. */
  code: string
  message: string
  details?: { field: string; message: string }[]
  /** Of a sale that was recorded before (409): its id there, and whether it is the one that was sent. */
  sale_id?: number
  same_payload?: boolean
  /** Whether a partner brought that sale's customer, now that this call named one, and its commission. */
  attributed?: boolean
  commission_id?: number | null
  [name: string]: unknown
}

/** What every call resolves to. `status` is the HTTP status, or 0 where there was no answer. */
export type Result<Data> =
  { ok: true; status: number; error: null; data: Data } | { ok: false; status: number; error: SvcError; data: null }

const failed = (status: number, error: SvcError): Result<never> => ({ ok: false, status, error, data: null })

/** A wait that the service asks for beyond this is left to the caller. */
const longestWaitMs = 10_000

/**
 * Calls the service from your server. No method throws or rejects: a failure is a result with `ok: false`.
 *
 * A call without an answer, or answered 429 or 5xx, is sent again: each is safe to repeat, because the service knows a lead by its
 * customer, a sale by its invoice id and a refund by its id or amount.
 */
export class SvcClient {
  readonly #options: SvcClientOptions

  constructor(options: SvcClientOptions) {
    this.#options = options
  }

  /** Records a signup. `error.code` `no_attribution` (400) is the normal answer for a visitor who came through no partner. */
  trackLead(lead: LeadInput): Promise<Result<LeadData>> {
    return this.#send('lead', () => ({
      customer_key: lead.customerExternalId,
      click_id: lead.clickId,
      email: lead.email,
      additional_data: lead.additionalData,
    }))
  }

  /**
   * Records a sale. Status 409 means that it was recorded before: nothing is left to do. `data.warning` says where it is in another
   * currency than the program's.
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
        additional_data: sale.programId ? { program_id: sale.programId } : undefined,
      }
    })
  }

  /** Takes back the commission of a sale, in full or in proportion. */
  trackRefund(refund: RefundInput): Promise<Result<RefundData>> {
    return this.#send('refund', () => ({
      transaction_id: refund.invoiceId,
      refund_amount_cents: refund.amount,
      refund_id: refund.refundId,
      reason: refund.reason,
      refund_reason: refund.refundReason,
    }))
  }

  async #send<Data>(route: Route, input: () => object): Promise<Result<Data>> {
    const { apiKey, timeoutMs = 10_000, retries = 2 } = this.#options
    let body: string
    try {
      body = JSON.stringify(input())
    } catch (error) {
      return failed(400, { code: 'invalid_request', message: String(error) })
    }
    let outcomeUnknown = false
    for (let attempt = 0; ; attempt++) {
      let status = 0
      let error: SvcError
      let waitMs = 200 * 2 ** attempt * (1 + Math.random())
      try {
        const response = await fetch(address(this.#options, route), {
          method: 'POST',
          headers: { authorization: `Bearer ${apiKey?.trim()}`, 'content-type': 'application/json' },
          body,
          // Followed, a redirect would turn the call into a GET.
          redirect: 'manual',
          signal: AbortSignal.timeout(timeoutMs),
        })
        status = response.status
        waitMs = Math.max(waitMs, Number(response.headers.get('retry-after')) * 1000 || 0)
        const answer = await response.json()
        if (answer.success) return { ok: true, status, error: null, data: answer }
        error = answer.error
        if (!error) throw SyntaxError()
        // The answer to an earlier attempt was lost, and that attempt recorded exactly this sale.
        if (outcomeUnknown && error['same_payload'])
          // oxlint-disable-next-line no-unsafe-type-assertion -- only a sale is answered so, and these are its fields
          return { ok: true, status, error: null, data: { success: true, sale_id: error['sale_id'] } as Data }
      } catch (cause) {
        // Only the name of the error: its text can quote the Authorization header.
        const name = cause instanceof Error ? cause.name : ''
        const code = { SyntaxError: 'invalid_response', TimeoutError: 'timeout' }[name] ?? 'network_error'
        if (name !== 'SyntaxError') status = 0
        error = { code, message: `${name}. Is baseUrl right?` }
      }
      if (status === 0 || status >= 500) outcomeUnknown = true
      else if (status !== 429) attempt = retries
      if (attempt >= retries || waitMs > longestWaitMs) return failed(status, error)
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }
}

/**
 * The click id in a request's cookies, or null. Takes a `Request`, a Node or Express request, or `{ headers: await headers() }`. `name` is
 * that of the tag (`data-svc-name`) where the site has several programs.
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
 * The parameters of a Stripe checkout session that carry the attribution, to be spread into the session's own. A subscription needs
 * them twice, because Stripe does not copy a session's metadata to the subscription whose renewals are to be attributed.
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
