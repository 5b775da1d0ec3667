import { type StripeEvent, stripeEvent } from '../../lib/local/stripe-events.ts'
import { currencyOf } from './currencies.ts'
import {
  type Buyer,
  type Charge,
  chargeObject,
  creditNoteObject,
  customerObject,
  type Dispute,
  discountsOfSession,
  disputeObject,
  type Intent,
  type Line,
  intentObject,
  type Invoice,
  invoiceObject,
  invoicePaymentObject,
  type Payment,
  type Price,
  type Refund,
  refundObject,
  type Session,
  sessionObject,
  type Subscription,
  type Transaction,
  type Version,
} from './objects.ts'

export interface AccountSettings extends Version {
  /** `acct_…` */
  id: string
  /** The suffix of every id, so that no two accounts share an id. */
  tag: string
  /** The start of the history, in Unix seconds. */
  start: number
  /** The events that report refunds: refund events (since 2024-10-28), the older charge events, or both. */
  refundEvents: 'refund' | 'charge' | 'both'
  /** The currency of the account's balance, if it isn't the charges' currency, and the exchange rate. */
  settlement: { currency: string; rate: number } | null
}

/** A movement of money: in a balance transaction, or outside Stripe. */
export type Entry =
  | { payment: Payment; transaction: Transaction }
  /** The amount in the payment's currency. */
  | { payment: Payment; outside: number }

/** How an invoice is paid. Amounts are in Stripe's unit. */
export type Paying =
  | { by: 'card' }
  /** Several payments share the invoice (since 2025-03-31). */
  | { by: 'several'; parts: number }
  /** A transfer of more than the due amount (since 2025-03-31). */
  | { by: 'overpaying'; more: number }
  | { by: 'outside' }
  /** A card pays everything except `outside` (since 2025-03-31). */
  | { by: 'card_and_outside'; outside: number }

/** Computes a price: subtracts the discount, then adds tax or includes it. Rounds tax to multiples of `step`. */
export function priceOf(
  subtotal: number,
  options: { discount?: number; taxBp?: number; inclusive?: boolean; step?: number } = {},
): Price {
  const { discount = 0, taxBp = 0, inclusive = false, step = 1 } = options
  const taxable = subtotal - discount
  const whole = inclusive ? 10_000 + taxBp : 10_000
  const tax = Math.round((taxable * taxBp) / whole / step) * step
  return inclusive
    ? { subtotal, discount, tax, inclusive, total: taxable, untaxed: taxable - tax }
    : { subtotal, discount, tax, inclusive, total: taxable + tax, untaxed: taxable }
}

/**
 * A Stripe account without Stripe. Each act moves money in `ledger` and adds to `events`, with the objects at that
 * moment. There is no clock and no randomness, so the same acts always have the same result.
 */
export class StripeAccount {
  readonly settings: AccountSettings
  readonly events: StripeEvent[] = []
  readonly payments: Payment[] = []
  readonly ledger: Entry[] = []
  /** The responses from Stripe's API: the invoice of an intent, the refunds of a charge, and the discounts of a session. */
  readonly askedSessions = new Map<string, ReturnType<typeof discountsOfSession>>()
  readonly invoiceOfIntent = new Map<string, string>()
  readonly refundsOfCharge = new Map<string, Refund[]>()
  now: number
  /** The products of the next invoices, with their shares. Null without products. */
  products: { product: string; share: number }[] | null = null
  readonly #balances = new Map<string, number>()
  #ids = 0

  constructor(settings: AccountSettings) {
    this.settings = settings
    this.now = settings.start
  }

  #id(prefix: string): string {
    this.#ids += 1
    return `${prefix}_${this.settings.tag}${this.#ids}`
  }

  #report(type: string, object: Record<string, unknown> & { id: string }, livemode: boolean): void {
    const { id: account, generation } = this.settings
    const shop = { account, generation, livemode, now: this.now }
    const event = stripeEvent(shop, this.#id('evt'), type, structuredClone(object))
    this.events.push(event)
    this.now += 1
  }

  /** Reports a customer's metadata, or their deletion. */
  reportCustomer(what: 'created' | 'updated' | 'deleted', buyer: Buyer, metadata: Record<string, string>): void {
    this.#report(`customer.${what}`, customerObject(buyer, metadata, this.settings.start), buyer.livemode)
  }

  #reportSession(type: string, session: Session): void {
    if (session.promotion !== null) this.askedSessions.set(session.id, discountsOfSession(session))
    this.#report(type, sessionObject(this.settings, session), session.buyer.livemode)
  }

  #reportInvoice(type: string, invoice: Invoice): void {
    this.#report(type, invoiceObject(this.settings, invoice), invoice.buyer.livemode)
  }

  #reportIntent(type: string, intent: Intent): void {
    this.#report(type, intentObject(this.settings, intent), intent.payment.buyer.livemode)
  }

  #reportCharge(type: string, charge: Charge): void {
    this.#report(type, chargeObject(this.settings, charge), charge.payment.buyer.livemode)
  }

  #reportRefund(type: string, refund: Refund): void {
    this.#report(type, refundObject(refund), refund.charge.payment.buyer.livemode)
  }

  #reportDispute(type: string, dispute: Dispute): void {
    this.#report(type, disputeObject(dispute), dispute.charge.payment.buyer.livemode)
  }

  /** Moves money into or out of Stripe's balance. `amount` is in the payment's currency, and positive if the money comes in. */
  #move(
    payment: Payment,
    amount: number,
    source: string,
    type: Transaction['type'],
    category: Transaction['reporting_category'],
  ): Transaction {
    const { settlement } = this.settings
    const moved = amount * (settlement?.rate ?? 1)
    const transaction: Transaction = {
      id: this.#id('txn'),
      object: 'balance_transaction',
      amount: moved,
      available_on: this.now + 172_800,
      created: this.now,
      currency: settlement?.currency ?? payment.currency,
      description: null,
      exchange_rate: settlement?.rate ?? null,
      fee: 0,
      fee_details: [],
      net: moved,
      reporting_category: category,
      source,
      status: 'pending',
      type,
    }
    this.ledger.push({ payment, transaction })
    return transaction
  }

  /** Advances time by this many seconds. */
  wait(seconds: number): void {
    this.now += seconds
  }

  /** Adds credit to the customer, or a debt if negative. The next invoices charge less, or more for a debt. */
  giveCredit(buyer: Buyer, amount: number): void {
    this.#balances.set(buyer.customer, (this.#balances.get(buyer.customer) ?? 0) - amount)
  }

  #payment(buyer: Buyer, currency: string, price: Price, label: string, renewal = false): Payment {
    const payment = { label, buyer, currency, price, ids: [], charges: [], at: this.now, renewal, lines: null }
    this.payments.push(payment)
    return payment
  }

  #authorize(
    payment: Payment,
    amount: number,
    options: { metadata?: Record<string, string>; tax?: number | null; invoice?: string | null } = {},
  ): Intent {
    const { metadata = {}, tax = null, invoice = null } = options
    const id = this.#id('pi')
    const charge: Charge = {
      id: this.#id('ch'),
      intent: id,
      payment,
      amount,
      captured: 0,
      refunded: 0,
      disputed: false,
      invoice,
      transaction: null,
      created: this.now,
    }
    payment.ids.push(id, charge.id)
    payment.charges.push(charge)
    if (invoice !== null) this.invoiceOfIntent.set(id, invoice)
    return {
      id,
      payment,
      amount,
      received: 0,
      status: 'requires_capture',
      metadata,
      tax,
      charge,
      invoice,
      created: this.now,
    }
  }

  /** Completes a charge. */
  #capture(intent: Intent, amount: number): void {
    const { charge, payment } = intent
    if (!charge) throw new Error('An intent without a charge cannot be captured.')
    intent.status = 'succeeded'
    intent.received = amount
    charge.captured = amount
    charge.transaction = this.#move(payment, amount, charge.id, 'charge', 'charge').id
  }

  #charge(
    payment: Payment,
    amount: number,
    options: { invoice?: string; metadata?: Record<string, string>; tax?: number | null } = {},
  ): Intent {
    const intent = this.#authorize(payment, amount, options)
    this.#capture(intent, amount)
    this.#reportCharge('charge.succeeded', intent.charge as Charge)
    this.#reportIntent('payment_intent.succeeded', intent)
    return intent
  }

  #session(buyer: Buyer, currency: string, price: Price, session: Partial<Session>): Session {
    return {
      id: this.#id('cs'),
      mode: 'payment',
      status: 'paid',
      buyer,
      currency,
      price,
      created: this.now,
      invoice: null,
      intent: null,
      subscription: null,
      fromLink: false,
      promotion: null,
      ...session,
    }
  }

  /** Completes a session that saves a card without a sale. */
  saveCard(buyer: Buyer, currency: string): void {
    const session = this.#session(buyer, currency, priceOf(0), { mode: 'setup', status: 'no_payment_required' })
    this.#reportSession('checkout.session.completed', session)
  }

  /**
   * Completes a checkout with a single payment. `invoiced` creates an invoice afterward. `intentMetadata` also attaches the metadata to
   * the payment intent. `paid: later` completes with a pending payment, which arrives or fails later. A price of 0 doesn't need a payment.
   */
  checkout(
    buyer: Buyer,
    currency: string,
    price: Price,
    label: string,
    options: {
      invoiced?: boolean
      fromLink?: boolean
      intentMetadata?: boolean
      paid?: 'now' | 'later' | 'never'
      promotion?: string | null
    } = {},
  ): Payment {
    const { invoiced = false, fromLink = false, intentMetadata = false, paid = 'now', promotion = null } = options
    const payment = this.#payment(buyer, currency, price, label)
    const session = this.#session(buyer, currency, price, { fromLink, promotion })
    payment.ids.push(session.id)
    if (price.total === 0) {
      session.status = 'no_payment_required'
      this.#reportSession('checkout.session.completed', session)
      return payment
    }
    const invoice = invoiced ? this.#id('in') : null
    const metadata = intentMetadata ? buyer.metadata : {}
    const intent = this.#authorize(payment, price.total, { metadata, invoice })
    session.intent = intent.id
    session.invoice = invoice
    if (invoice !== null) payment.ids.push(invoice)
    if (paid !== 'now') {
      session.status = 'unpaid'
      this.#reportSession('checkout.session.completed', session)
      this.wait(3 * 86_400)
      if (paid === 'never') {
        this.#reportSession('checkout.session.async_payment_failed', session)
        return payment
      }
      session.status = 'paid'
      payment.at = this.now
    }
    this.#capture(intent, price.total)
    this.#reportCharge('charge.succeeded', intent.charge as Charge)
    this.#reportIntent('payment_intent.succeeded', intent)
    this.#reportSession(
      paid === 'later' ? 'checkout.session.async_payment_succeeded' : 'checkout.session.completed',
      session,
    )
    if (invoice !== null) {
      const issued = this.#invoice(buyer, currency, price, { id: invoice, reason: 'manual', balance: false })
      issued.paid = price.total
      issued.intent = intent.id
      issued.charge = intent.charge?.id ?? null
      payment.lines = issued.lines
      this.#reportPaid(issued, [{ intent: intent.id, amount: price.total }], true)
    }
    return payment
  }

  /**
   * Makes a payment with the Payment Element, whose metadata is on the intent. `captured` is the part of the
   * authorization that is captured later. `bySession` authorizes it in a checkout session, which then has the metadata.
   */
  payDirectly(
    buyer: Buyer,
    currency: string,
    price: Price,
    label: string,
    options: { captured?: number | null; bySession?: boolean } = {},
  ): Payment {
    const { captured = null, bySession = false } = options
    const payment = this.#payment(buyer, currency, price, label)
    const own = bySession ? {} : { metadata: buyer.metadata, tax: price.tax || null }
    if (captured === null) {
      this.#charge(payment, price.total, own)
      return payment
    }
    const intent = this.#authorize(payment, price.total, own)
    this.#reportCharge('charge.succeeded', intent.charge as Charge)
    this.#reportIntent('payment_intent.amount_capturable_updated', intent)
    if (bySession) {
      const session = this.#session(buyer, currency, price, { status: 'unpaid', intent: intent.id })
      payment.ids.push(session.id)
      this.#reportSession('checkout.session.completed', session)
    }
    this.wait(86_400)
    payment.at = this.now
    this.#capture(intent, captured)
    this.#reportCharge('charge.captured', intent.charge as Charge)
    this.#reportIntent('payment_intent.succeeded', intent)
    return payment
  }

  #invoice(
    buyer: Buyer,
    currency: string,
    price: Price,
    options: {
      id?: string
      reason: Invoice['reason']
      subscription?: Subscription | null
      metadata?: Record<string, string>
      /** False if the customer's balance isn't used. */
      balance?: boolean
      /** A credit note before the payment. */
      credited?: number
    },
  ): Invoice {
    const { balance = true, credited = 0, subscription = null, metadata = {}, reason } = options
    const startingBalance = balance ? (this.#balances.get(buyer.customer) ?? 0) : 0
    const owed = price.total + startingBalance
    // Stripe writes this currency with two decimals, although it has none. Invoices charge whole units, and the rest stays in the
    // customer's balance.
    const { step } = currencyOf(currency)
    const charged = Math.max(0, Math.round(owed / step) * step)
    const endingBalance = balance ? owed - charged : 0
    if (balance) this.#balances.set(buyer.customer, endingBalance)
    return {
      id: options.id ?? this.#id('in'),
      buyer,
      currency,
      price,
      reason,
      subscription,
      metadata,
      startingBalance,
      endingBalance,
      due: Math.max(0, charged - credited),
      paid: 0,
      outside: 0,
      overpaid: 0,
      creditedBefore: credited,
      creditedAfter: 0,
      lines: this.#lines(price.subtotal, reason === 'subscription_update'),
      intent: null,
      charge: null,
      created: this.now,
    }
  }

  /** A changed subscription first credits a quarter of the amount for the old price, which has its own product. */
  #lines(subtotal: number, isChange: boolean): Line[] {
    const credited = isChange ? Math.floor(subtotal / 4) : 0
    const products = this.products ?? [{ product: null, share: 1 }]
    const all = products.reduce((sum, { share }) => sum + share, 0)
    let left = subtotal + credited
    const lines = products.map(({ product, share }, at): Line => {
      const amount = at === products.length - 1 ? left : Math.floor(((subtotal + credited) * share) / all)
      left -= amount
      return { product, amount }
    })
    return isChange ? [{ product: this.products && 'old', amount: -credited }, ...lines] : lines
  }

  /** Emits the events of a paid invoice. Only `invoice.paid` reports a full or partial payment outside Stripe. */
  #reportPaid(invoice: Invoice, parts: { intent: string | null; amount: number }[], byStripe: boolean): void {
    if (this.settings.generation === 'new') {
      for (const { intent, amount } of parts) {
        const paid = { id: this.#id('inpay'), intent, amount, created: this.now }
        this.#report('invoice_payment.paid', invoicePaymentObject(invoice, paid), invoice.buyer.livemode)
      }
    }
    if (byStripe) this.#reportInvoice('invoice.payment_succeeded', invoice)
    this.#reportInvoice('invoice.paid', invoice)
  }

  #pay(invoice: Invoice, payment: Payment, paying: Paying): void {
    const { due } = invoice
    payment.ids.push(invoice.id)
    payment.lines = invoice.lines
    const { step } = currencyOf(invoice.currency)
    const outside = paying.by === 'outside' ? due : paying.by === 'card_and_outside' ? Math.min(paying.outside, due) : 0
    const byCard = due - outside
    const part = paying.by === 'several' ? Math.max(step, Math.floor(byCard / paying.parts / step) * step) : byCard
    const parts: { intent: string | null; amount: number }[] = []
    for (let left = byCard; left > 0;) {
      const isLast = left < 2 * part || (paying.by === 'several' && parts.length === paying.parts - 1)
      const more = isLast && paying.by === 'overpaying' ? paying.more : 0
      const amount = (isLast ? left : part) + more
      const intent = this.#charge(payment, amount, { invoice: invoice.id })
      invoice.intent ??= intent.id
      invoice.charge ??= intent.charge?.id ?? null
      invoice.paid += amount
      invoice.overpaid += more
      parts.push({ intent: intent.id, amount })
      left -= amount - more
    }
    if (invoice.overpaid > 0) this.giveCredit(invoice.buyer, invoice.overpaid)
    if (outside > 0) {
      invoice.outside = outside
      this.ledger.push({ payment, outside })
      parts.push({ intent: null, amount: outside })
    }
    this.#reportPaid(invoice, parts, outside === 0)
  }

  /** Emits the event of a credit note that reduced an unpaid invoice. */
  #reportCredited(invoice: Invoice): void {
    if (invoice.creditedBefore === 0) return
    const amount = invoice.creditedBefore
    const note = { id: this.#id('cn'), invoice, amount, before: true, refund: null, outside: 0, created: this.now }
    this.#report('credit_note.created', creditNoteObject(this.settings, note), invoice.buyer.livemode)
  }

  /**
   * Issues a credit note for a paid invoice: refunded, paid outside Stripe, or (neither) added to the customer's
   * balance.
   */
  credit(invoice: Invoice, payment: Payment, amount: number, how: 'refund' | 'outside' | 'balance'): void {
    const charge = payment.charges.at(-1)
    const refund = how === 'refund' && charge ? this.refund(charge, amount) : null
    if (how === 'balance') this.giveCredit(invoice.buyer, amount)
    if (how === 'outside') this.ledger.push({ payment, outside: -amount })
    invoice.creditedAfter += amount
    const outside = how === 'outside' ? amount : 0
    const note = { id: this.#id('cn'), invoice, amount, before: false, refund, outside, created: this.now }
    this.#report('credit_note.created', creditNoteObject(this.settings, note), invoice.buyer.livemode)
  }

  /** Refunds the rest of a payment outside Stripe, without an event. Returns false if nothing is left. */
  returnRest(payment: Payment): boolean {
    const moved = this.ledger.map((entry) =>
      entry.payment !== payment ? 0 : 'outside' in entry ? entry.outside : entry.transaction.amount,
    )
    const left = moved.reduce((sum, amount) => sum + amount, 0)
    if (left <= 0) return false
    this.ledger.push({ payment, outside: -left })
    return true
  }

  /**
   * Starts a subscription whose first payment is by card. The session and an invoice report it in their events. With `trial`, no payment is
   * due yet. With `onSessionAlone`, only the session has metadata. `fullyCovered` is the session's status if the customer's balance pays
   * everything.
   */
  subscribe(
    buyer: Buyer,
    currency: string,
    price: Price,
    label: string,
    options: {
      trial?: boolean
      onSessionAlone?: boolean
      fullyCovered?: 'paid' | 'no_payment_required'
      promotion?: string | null
    } = {},
  ): { subscription: Subscription; payment: Payment; invoice: Invoice } {
    const { trial = false, onSessionAlone = false, fullyCovered = 'paid', promotion = null } = options
    const subscription = { id: this.#id('sub'), buyer, metadata: onSessionAlone ? {} : buyer.metadata }
    const charged = trial ? priceOf(0) : price
    const payment = this.#payment(buyer, currency, charged, label)
    const session = this.#session(buyer, currency, charged, {
      mode: 'subscription',
      subscription: subscription.id,
      promotion,
    })
    payment.ids.push(session.id)
    const invoice = this.#invoice(buyer, currency, charged, { reason: 'subscription_create', subscription })
    session.invoice = invoice.id
    if (charged.total === 0) session.status = 'no_payment_required'
    else if (invoice.due === 0) session.status = fullyCovered
    this.#pay(invoice, payment, { by: 'card' })
    this.#reportSession('checkout.session.completed', session)
    return { subscription, payment, invoice }
  }

  /** Emits a subscription's next invoice: a renewal, or the cost of a change. */
  bill(
    subscription: Subscription,
    currency: string,
    price: Price,
    label: string,
    options: { reason?: 'subscription_cycle' | 'subscription_update'; paying?: Paying; credited?: number } = {},
  ): { payment: Payment; invoice: Invoice } {
    const { reason = 'subscription_cycle', paying = { by: 'card' }, credited = 0 } = options
    const payment = this.#payment(subscription.buyer, currency, price, label, reason === 'subscription_cycle')
    const invoice = this.#invoice(subscription.buyer, currency, price, { reason, subscription, credited })
    this.#reportCredited(invoice)
    this.#pay(invoice, payment, paying)
    return { payment, invoice }
  }

  /** Emits a manual invoice with its own metadata. */
  sendInvoice(
    buyer: Buyer,
    currency: string,
    price: Price,
    label: string,
    options: { paying?: Paying; credited?: number } = {},
  ): { payment: Payment; invoice: Invoice } {
    const { paying = { by: 'card' }, credited = 0 } = options
    const payment = this.#payment(buyer, currency, price, label)
    const invoice = this.#invoice(buyer, currency, price, { reason: 'manual', metadata: buyer.metadata, credited })
    this.#reportCredited(invoice)
    this.#pay(invoice, payment, paying)
    return { payment, invoice }
  }

  /** Refunds part of a charge. A refund that waits for the buyer (`requires_action`) has moved no money yet. */
  refund(charge: Charge, amount: number, status: 'requires_action' | 'pending' | 'succeeded' = 'succeeded'): Refund {
    const refund: Refund = {
      id: this.#id('re'),
      charge,
      amount,
      status,
      transaction: null,
      failureTransaction: null,
      created: this.now,
    }
    this.refundsOfCharge.set(charge.id, [refund, ...(this.refundsOfCharge.get(charge.id) ?? [])])
    if (status !== 'requires_action') this.#takeRefund(refund)
    if (this.settings.refundEvents !== 'refund') this.#reportCharge('charge.refunded', charge)
    if (this.settings.refundEvents !== 'charge') this.#reportRefund('refund.created', refund)
    return refund
  }

  #takeRefund(refund: Refund): void {
    const { charge, amount } = refund
    charge.refunded += amount
    refund.transaction = this.#move(charge.payment, -amount, refund.id, 'refund', 'refund').id
  }

  /** Ends a pending refund. If it fails or is canceled, the money comes back. */
  settleRefund(refund: Refund, status: 'succeeded' | 'failed' | 'canceled'): void {
    const { charge, amount } = refund
    refund.status = status
    if (status === 'succeeded') {
      if (refund.transaction === null) this.#takeRefund(refund)
    } else if (refund.transaction !== null) {
      charge.refunded -= amount
      const returned = this.#move(charge.payment, amount, refund.id, 'refund_failure', 'refund_failure')
      refund.failureTransaction = returned.id
    }
    if (this.settings.refundEvents !== 'refund') this.#reportRefund('charge.refund.updated', refund)
    if (this.settings.refundEvents !== 'charge') {
      this.#reportRefund('refund.updated', refund)
      if (status === 'failed') this.#reportRefund('refund.failed', refund)
    }
  }

  /** Opens an inquiry, which doesn't move money. */
  inquire(charge: Charge): void {
    const dispute = this.#dispute(charge, charge.captured, 'warning_needs_response')
    this.#reportDispute('charge.dispute.created', dispute)
    dispute.status = 'warning_closed'
    this.#reportDispute('charge.dispute.closed', dispute)
  }

  #dispute(charge: Charge, amount: number, status: Dispute['status']): Dispute {
    const { currency } = charge.payment
    return { id: this.#id('dp'), charge, amount, currency, status, transactions: [], created: this.now }
  }

  /** Opens a dispute about all or part of a charge. `shown` is the amount in the bank's own currency if that differs. */
  dispute(charge: Charge, amount: number, shown?: { amount: number; currency: string }): Dispute {
    const dispute = { ...this.#dispute(charge, amount, 'needs_response'), ...shown }
    charge.disputed = true
    dispute.transactions.push(this.#move(charge.payment, -amount, dispute.id, 'adjustment', 'dispute'))
    this.#reportDispute('charge.dispute.created', dispute)
    this.#reportDispute('charge.dispute.funds_withdrawn', dispute)
    return dispute
  }

  /**
   * Closes a dispute. `returned` is the amount in the charge's currency that comes back: everything if it is won, a
   * part if it is lost.
   */
  closeDispute(dispute: Dispute, status: 'won' | 'lost', returned: number): void {
    dispute.status = status
    if (returned > 0) {
      const { payment } = dispute.charge
      dispute.transactions.push(this.#move(payment, returned, dispute.id, 'adjustment', 'dispute_reversal'))
      this.#reportDispute('charge.dispute.funds_reinstated', dispute)
    }
    this.#reportDispute('charge.dispute.closed', dispute)
  }
}
