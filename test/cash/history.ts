import { monthsAfter } from '../support/commission-oracle.ts'
import { type Paying, priceOf, StripeAccount } from './account.ts'
import { currencyOf, minorUnits } from './currencies.ts'
import type { Buyer, Charge, Invoice, Payment } from './objects.ts'
import type { After, Plan, PurchasePlan, RulePlan } from './plan.ts'

const day = 86_400

/** The environment of a plan: a program with its own Stripe account. */
export interface Place {
  account: string
  /** The suffix of every id. */
  tag: string
  programId: number
  /** The click of each buyer of {@link buyersOf} from before `start`, or null if no partner referred them. */
  clickIds: (string | null)[]
  /** Unix seconds. */
  start: number
}

/** A call from the integrator's server in addition to the webhook. */
export type Call =
  | { kind: 'sale'; transaction_id: string; customer_key: string; amount_cents: number; currency: string }
  | { kind: 'lead'; customer_key: string; click_id: string }
  | { kind: 'refund'; transaction_id: string; refund_amount_cents?: number; refund_id?: string }

export interface History {
  plan: Plan
  account: StripeAccount
  calls: Call[]
  /** The clicks of customer keys that must be known as leads before a call contains them. */
  leads: { customer_key: string; click_id: string }[]
  /** The number of events and calls in the first part. */
  firstPart: { events: number; calls: number }
  /** The partner, 0 or 1. Null means unattributed. */
  partnerOf: (payment: Payment) => 0 | 1 | null
  /** The parts of a partner's payment with their rules, or null for the program's own terms. */
  partsOf: (payment: Payment, partner: 0 | 1) => { rule: RulePlan | null; weight: number }[]
  purchaseOf: (payment: Payment) => PurchasePlan
}

/** The partner's promotion code in Stripe. The suffix of every code. */
export const promotionOf = (tag: string, partner: 0 | 1): string => `promo_${tag}${partner}`

/**
 * Returns the buyers in a plan, by name and partner. If the metadata of a purchase doesn't fully identify the
 * buyer, the purchase gets its own buyer, so that no other purchase identifies them.
 */
export function buyersOf(plan: Plan): { name: string; partner: 0 | 1 | null; purchases: PurchasePlan[] }[] {
  const buyers = new Map<string, { name: string; partner: 0 | 1 | null; purchases: PurchasePlan[] }>()
  for (const [at, purchase] of plan.purchases.entries()) {
    const isApart =
      purchase.api_attribution ||
      purchase.late_lead ||
      purchase.test_mode ||
      purchase.kind === 'link' ||
      purchase.on_session_alone ||
      purchase.code !== null ||
      purchase.held !== null ||
      purchase.on_customer !== null
    const name = isApart ? `${purchase.buyer}-${at}` : String(purchase.buyer)
    const buyer = buyers.get(name) ?? { name, partner: purchase.buyer === 2 ? null : purchase.buyer, purchases: [] }
    buyer.purchases.push(purchase)
    buyers.set(name, buyer)
  }
  return [...buyers.values()]
}

/** Plays a plan. Returns the account's final content and the integrator's calls. */
export function playPlan(plan: Plan, place: Place): History {
  const settlement = plan.settlement ? { currency: plan.currency === 'mxn' ? 'php' : 'mxn', rate: 20 } : null
  const account = new StripeAccount({
    generation: plan.generation,
    oldest: plan.oldest,
    refundEvents: plan.refundEvents,
    id: place.account,
    tag: place.tag,
    start: place.start,
    settlement,
  })
  const history: History = {
    plan,
    account,
    calls: [],
    leads: [],
    firstPart: { events: 0, calls: 0 },
    partnerOf(payment) {
      const { clickId, customer } = payment.buyer
      const byClick = clickId === null ? null : (partners.get(customer) ?? null)
      const { code } = history.purchaseOf(payment)
      return code === null || (plan.priority === 'click' && byClick !== null) ? byClick : code
    },
    partsOf(payment, partner) {
      const isFirst = plan.purchases.indexOf(history.purchaseOf(payment)) < plan.first
      const general = (isFirst ? plan.rules?.before[partner] : plan.rules?.after[partner]) ?? null
      const sold = payment.lines?.filter(({ amount }) => amount > 0) ?? []
      if (sold.length === 0) return [{ rule: general, weight: 1 }]
      return sold.map(({ product, amount }) => {
        const ids = [`price_${product}`, `prod_${product}`]
        const own = ids.flatMap((id) => plan.productRules?.[partner]?.find((rule) => rule.product_id === id) ?? [])
        return { rule: own[0]?.rule ?? general, weight: amount }
      })
    },
    purchaseOf(payment) {
      const found = purchaseOf.get(payment)
      if (!found) throw new Error('The payment belongs to no purchase.')
      return found
    },
  }
  const purchaseOf = new Map<Payment, PurchasePlan>()
  const partners = new Map<string, 0 | 1 | null>()
  const buyers = buyersOf(plan).map((buyer, at) => ({ ...buyer, clickId: place.clickIds[at] ?? null }))
  for (const [at, purchase] of plan.purchases.entries()) {
    const bought = buyers.find(({ purchases }) => purchases.includes(purchase))
    if (!bought) throw new Error('The purchase has no buyer.')
    const { name, partner } = bought
    const clickId = purchase.before_click ? null : bought.clickId
    const key = `user-${name}`
    const named = {
      program_id: String(place.programId),
      ...(!purchase.api_attribution && {
        svc_customer_key: key,
        ...(clickId !== null && !purchase.late_lead && { svc_click_id: clickId }),
      }),
    }
    const buyer: Buyer = {
      customer: `cus_${place.tag}${name}`,
      email: `buyer-${name}@example.com`,
      metadata: purchase.on_customer === null ? named : {},
      clickId,
      livemode: !purchase.test_mode,
    }
    partners.set(buyer.customer, partner)
    const before = account.payments.length
    const { on_customer: onCustomer } = purchase
    // At first, the events belong to another program, and then to an unknown buyer.
    if (onCustomer !== null) {
      account.reportCustomer('created', buyer, { program_id: '900000000000000', svc_customer_key: key })
      account.reportCustomer('updated', buyer, {
        program_id: String(place.programId),
        svc_customer_key: `guest-${key}`,
      })
    }
    if (onCustomer === 'before') account.reportCustomer('updated', buyer, named)
    account.products = purchase.products?.length ? purchase.products : null
    buy(account, plan, purchase, buyer, `purchase ${at + 1}`)
    if (onCustomer === 'after') account.reportCustomer('updated', buyer, named)
    if (onCustomer !== null && purchase.discount > 0) account.reportCustomer('deleted', buyer, named)
    const created = account.payments.slice(before)
    for (const payment of created) purchaseOf.set(payment, purchase)
    afterwards(history, created, purchase)
    if (purchase.after.some(({ kind }) => kind === 'rest'))
      for (const payment of created) giveBackRest(history, payment, purchase)
    if ((purchase.api_sale !== null || purchase.api_attribution) && clickId !== null && buyer.livemode) {
      history.leads.push({ customer_key: key, click_id: clickId })
      for (const payment of created) reportSale(history, payment, purchase, key)
    }
    if (purchase.late_lead && clickId !== null && buyer.livemode)
      history.calls.push({ kind: 'lead', customer_key: key, click_id: clickId })
    account.wait(purchase.before_click ? 30 * day : 3600)
    if (at + 1 === plan.first) history.firstPart = { events: account.events.length, calls: history.calls.length }
  }
  return history
}

function buy(account: StripeAccount, plan: Plan, purchase: PurchasePlan, buyer: Buyer, label: string): void {
  const { currency } = plan
  const { step } = currencyOf(currency)
  const price = priceOf(purchase.amount, {
    discount: purchase.discount,
    taxBp: purchase.tax_bp,
    inclusive: purchase.inclusive,
    step: purchase.fractions ? 1 : step,
  })
  const more = Math.max(step, Math.floor(price.total / 5 / step) * step)
  const paying: Paying =
    purchase.paying === 'several'
      ? { by: 'several', parts: 2 }
      : purchase.paying === 'overpaying'
        ? { by: 'overpaying', more }
        : purchase.paying === 'card_and_outside'
          ? { by: 'card_and_outside', outside: more }
          : { by: purchase.paying }
  const credited = purchase.credited_before ? more : 0
  const promotion = purchase.code === null ? null : promotionOf(account.settings.tag, purchase.code)
  switch (purchase.kind) {
    case 'card':
      return account.saveCard(buyer, currency)
    case 'nothing':
      return void account.checkout(buyer, currency, priceOf(purchase.amount, { discount: purchase.amount }), label)
    case 'session':
    case 'invoiced':
    case 'link':
    case 'later':
    case 'never':
      return void account.checkout(buyer, currency, price, label, {
        invoiced: purchase.kind === 'invoiced',
        fromLink: purchase.kind === 'link',
        intentMetadata: purchase.kind !== 'link' && purchase.intent_metadata,
        paid: purchase.kind === 'later' || purchase.kind === 'never' ? purchase.kind : 'now',
        promotion,
      })
    case 'intent':
      return void account.payDirectly(buyer, currency, price, label)
    case 'captured':
      return void account.payDirectly(buyer, currency, price, label, {
        captured: Math.max(step, Math.floor((price.total * purchase.captured) / 100 / step) * step),
        bySession: purchase.captured_by_session,
      })
    case 'manual': {
      account.giveCredit(buyer, purchase.credit)
      const { invoice, payment } = account.sendInvoice(buyer, currency, price, label, { paying, credited })
      return credit(account, invoice, payment, purchase)
    }
    case 'trial':
    case 'subscription': {
      account.giveCredit(buyer, purchase.credit)
      const { subscription, payment, invoice } = account.subscribe(buyer, currency, price, label, {
        trial: purchase.kind === 'trial',
        onSessionAlone: purchase.on_session_alone,
        fullyCovered: purchase.fully_covered,
        promotion,
      })
      credit(account, invoice, payment, purchase)
      if (purchase.update) {
        account.wait(day)
        account.bill(subscription, currency, price, `${label}, changed`, { reason: 'subscription_update' })
      }
      account.giveCredit(buyer, purchase.later_credit)
      for (let renewal = 1; renewal <= purchase.renewals; renewal++) {
        account.wait(
          purchase.after_month === null
            ? purchase.days_between * day
            : monthsAfter(new Date(payment.at * 1000), renewal).getTime() / 1000 + purchase.after_month - account.now,
        )
        account.bill(subscription, currency, price, `${label}, renewal ${renewal}`, { paying, credited })
      }
      return
    }
  }
}

function credit(account: StripeAccount, invoice: Invoice, payment: Payment, purchase: PurchasePlan): void {
  const { step } = currencyOf(payment.currency)
  for (const after of purchase.after) {
    if (after.kind !== 'credit') continue
    const charge = payment.charges.at(-1)
    const most = after.how === 'refund' && charge ? charge.captured - charge.refunded : invoice.paid + invoice.outside
    const amount = Math.floor((most * after.share) / 100 / step) * step
    if (amount > 0) account.credit(invoice, payment, amount, after.how)
  }
}

/** The charges are refunded and disputed in turn. */
function afterwards(history: History, payments: Payment[], purchase: PurchasePlan): void {
  const { account } = history
  const charges = payments.flatMap((payment) => payment.charges.filter(({ captured }) => captured > 0))
  if (charges.length === 0) return
  for (const [at, after] of purchase.after.entries()) {
    // A dispute that returns a refunded amount is about the charge of the previous refund.
    const place = after.kind === 'dispute' && after.returns_refunded ? at - 1 : at
    const charge = charges[(place < 0 ? 0 : place) % charges.length]
    account.wait(600)
    if (charge) change(history, charge, after)
  }
}

function change(history: History, charge: Charge, after: After): void {
  const { account } = history
  const { currency } = charge.payment
  const { step } = currencyOf(currency)
  const share = (of: number, hundredths: number) => Math.floor((of * hundredths) / 100 / step) * step
  if (after.kind === 'inquiry') return account.inquire(charge)
  if (after.kind === 'credit' || after.kind === 'rest') return
  if (after.kind === 'dispute') {
    if (charge.disputed) return
    const amount = share(charge.captured, after.share)
    if (amount === 0) return
    const shown = after.bank_currency
      ? { amount: amount * 3 + 1, currency: currency === 'php' ? 'mxn' : 'php' }
      : undefined
    const dispute = account.dispute(charge, amount, shown)
    account.wait(day)
    if (after.ends !== null) {
      const returned = after.ends === 'won' ? amount : after.returns_refunded ? Math.min(charge.refunded, amount) : 0
      account.closeDispute(dispute, after.ends, returned)
    }
    return
  }
  // A disputed charge cannot be refunded.
  const amount = share(charge.captured - charge.refunded, after.share)
  if (charge.disputed || amount === 0) return
  const refund = account.refund(charge, amount, after.begins)
  // The service may not have a record of an unattributed sale, or of a test payment, whose buyer it doesn't store.
  if (after.by_api && history.partnerOf(charge.payment) !== null && !history.purchaseOf(charge.payment).test_mode) {
    history.calls.push({
      kind: 'refund',
      transaction_id: transactionOf(charge.payment),
      refund_amount_cents: Number(minorUnits(BigInt(amount), currency)),
      // Half of the refund calls have the integrator's own id.
      ...(after.share % 2 === 0 && { refund_id: `shop-${refund.id}` }),
    })
  }
  account.wait(60)
  if (after.ends !== null && !(after.ends === 'succeeded' && after.begins === 'succeeded'))
    account.settleRefund(refund, after.ends)
  if (after.again && charge.captured - charge.refunded >= amount) account.refund(charge, amount, 'succeeded')
}

/** Refunds the rest of a payment outside Stripe. The integrator's call reports it without an amount. */
function giveBackRest({ account, calls, partnerOf }: History, payment: Payment, purchase: PurchasePlan): void {
  // The service may not have a record of an unattributed sale, a sale of 0 or a test payment.
  if (partnerOf(payment) === null || purchase.test_mode || !account.returnRest(payment)) return
  calls.push({ kind: 'refund', transaction_id: idForCalls(payment, purchase) })
}

/** The id of a payment's sale: the invoice, or else the intent, else the session. */
export function transactionOf({ ids }: Payment): string {
  const of = (prefix: string) => ids.find((id) => id.startsWith(prefix))
  return of('in_') ?? of('pi_') ?? of('cs_') ?? ''
}

/** The id of a payment that the integrator's calls use. */
function idForCalls(payment: Payment, { api_sale: at }: PurchasePlan): string {
  const ids = payment.ids.filter((id) => /^(in|pi|ch|cs)_/.test(id))
  return (at === null ? undefined : ids[at % ids.length]) ?? transactionOf(payment)
}

/** The integrator also reports a payment, with the invoice's amount and one of its ids. */
function reportSale(history: History, payment: Payment, purchase: PurchasePlan, key: string): void {
  if (!history.account.ledger.some((entry) => entry.payment === payment)) return
  const { total } = payment.price
  history.calls.push({
    kind: 'sale',
    transaction_id: idForCalls(payment, purchase),
    customer_key: key,
    amount_cents: Number(minorUnits(BigInt(total - (total % currencyOf(payment.currency).step)), payment.currency)),
    currency: payment.currency,
  })
}
