import { lemonsqueezyFixtures, orderId } from '../../lib/local/lemonsqueezy-events.ts'
import { paddleFixtures, paddleTransaction } from '../../lib/local/paddle-events.ts'
import { polarFixtures, polarOrder } from '../../lib/local/polar-events.ts'
import { type ProcessorFixtures, type Story, taxIn } from '../../lib/local/processor-events.ts'
import type { ProcessorName } from '../../lib/processors/processors.ts'
import type { Random } from '../chaos/random.ts'

/** A payment at a processor, with the received and the returned money. */
export interface PlayedPayment {
  id: string
  arrived: number
  gone: number
  /** The part of `gone` without tax, if the processor reports it. */
  goneUntaxed?: number
  /** The processor's figures for the whole payment, before credit. */
  total: number
  untaxed: number
}

/** The events of a purchase and its renewal. */
export interface Played {
  events: object[]
  payments: [first: PlayedPayment, renewal?: PlayedPayment]
  /** The successful refunds of the first payment, which the integrator can also report. */
  refunds: number[]
}

type Play = (story: Story, random: Random, isNamedByCustomer: boolean) => Played

/** Returns an event of a fixture, with other fields in its object if given. */
function eventOf({ events }: ProcessorFixtures, name: string, story: Story, data: object = {}): object {
  const event = events[name]?.(story)
  if (!event) throw new Error(`There is no event ${name}.`)
  return 'data' in event && typeof event.data === 'object' ? { ...event, data: { ...event.data, ...data } } : event
}

/** Returns the id of an event's object. */
const idIn = (event: object): string => Object(event).data.id

/** Refunds with their id, their amount, and whether they succeed in the end. */
const drawRefunds = (order: string, limit: number, random: Random) =>
  Array.from({ length: random.integer(0, 3) }, (_, at) => ({
    id: `${order}_refund_${at}`,
    amount: random.integer(1, limit),
    end: random.pick(['none', 'counts', 'undone', 'refused'] as const),
  }))

const countedIn = (refunds: ReturnType<typeof drawRefunds>) =>
  refunds.filter(({ end }) => end === 'counts').map(({ amount }) => amount)

const dayAfter = ({ now }: Story) => ({ now: new Date(now.getTime() + 86_400_000) })
const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0)
const times = (count: number, of: (at: number) => object) => Array.from({ length: count }, (_, at) => of(at))

const whole = (id: string, { amount, tax }: Story): PlayedPayment => ({
  id,
  arrived: amount,
  gone: 0,
  total: amount,
  untaxed: amount - tax,
})

/** Returns the amounts of an adjustment that refunds this much tax. */
function withTax(amount: number, tax: number) {
  const totals = { subtotal: String(amount - tax), tax: String(tax), total: String(amount) }
  return { totals, items: [{ type: tax === amount ? 'tax' : 'partial', totals }] }
}

/** Refunds of any part of an item, refunds of its tax alone, and refunds of the rest without tax. */
function drawAdjustments(order: string, arrived: number, tax: number, random: Random) {
  const refunds = drawRefunds(order, arrived, random).map((refund) => ({
    ...refund,
    tax: random.pick([0, refund.amount, Math.round((refund.amount * tax) / arrived)]) ?? 0,
  }))
  if (tax === 0 || !random.chance(0.3)) return refunds
  const end = 'counts' as const
  const both = [
    { id: `${order}_tax`, amount: tax, tax, end },
    { id: `${order}_rest`, amount: arrived - tax, tax: 0, end },
  ]
  return random.chance(0.7) ? both : [...both, ...refunds]
}

const paddle: Play = (story, random, isNamedByCustomer) => {
  const nobody = isNamedByCustomer ? { custom_data: null } : {}
  const of = (name: string, data?: object, more: Partial<Story> = {}) =>
    eventOf(paddleFixtures, name, { ...story, ...more }, data)
  // Some transactions are partly paid with credit.
  const credit = random.chance(0.2) ? random.integer(1, story.amount - 1) : 0
  const subscription = random.chance(0.5) ? { subscription_id: `sub_${story.order}` } : {}
  const { details, payments } = paddleTransaction(story, { credit })
  // In some invoices, the credit reduces only the payment and not the details.
  const { details: uncredited } = paddleTransaction(story)
  const isInvoice = random.chance(0.5)
  const figures = { details: isInvoice && random.chance(0.5) ? uncredited : details, payments }
  const first = of('transaction.completed', { ...figures, ...subscription, ...nobody })
  const arrived = story.amount - credit
  const tax = Number(details.totals.grand_total_tax)
  const refunds = drawAdjustments(story.order, arrived, tax, random)
  const counted = refunds.filter(({ end }) => end === 'counts')
  const chargebacks = random.integer(0, 3)
  // Paddle can report a returned chargeback with an adjustment, with a mark on the chargeback, or with both.
  const [reversals, marks] = [random.integer(0, chargebacks), random.integer(0, chargebacks)]
  const taken = random.chance(0.5) ? arrived : Math.ceil(arrived / 5)
  const takenTax = Math.round((taken * tax) / arrived)
  const lost = chargebacks - Math.max(reversals, marks)
  const chargeback = (name: string, data: object) =>
    of(`adjustment.created:${name}`, { ...data, ...withTax(taken, takenTax) })
  const chargebackId = (at: number) => `${story.order}_chargeback_${at}`
  const renewal = of('transaction.completed:renewal-without-data', {}, dayAfter(story))
  const renewalRefund = random.chance(0.3) ? random.integer(1, story.amount) : 0
  return {
    events: [
      first,
      of('subscription.created', nobody),
      ...(isNamedByCustomer
        ? [of('customer.created', { custom_data: null }), of('customer.updated', {}, dayAfter(story))]
        : []),
      renewal,
      of('adjustment.created:chargeback_warning'),
      of('adjustment.created:credit', { credit_applied_to_balance: !isInvoice }),
      ...refunds.flatMap(({ id, end, ...refund }) => {
        const adjusted = { id, ...withTax(refund.amount, refund.tax) }
        return [
          of('adjustment.created', adjusted),
          ...(end === 'none'
            ? []
            : [of(end === 'refused' ? 'adjustment.updated:rejected' : 'adjustment.updated', adjusted)]),
          ...(end === 'undone' ? [of('adjustment.updated:reversed', adjusted)] : []),
        ]
      }),
      ...times(chargebacks, (at) => chargeback('chargeback', { id: chargebackId(at) })),
      ...times(reversals, (at) => chargeback('chargeback_reverse', { id: `${story.order}_reverse_${at}` })),
      ...times(marks, (at) => chargeback('chargeback', { id: chargebackId(at), status: 'reversed' })),
      ...times(renewalRefund > 0 ? 1 : 0, () =>
        of(
          'adjustment.updated',
          { id: `${story.order}_renewal`, transaction_id: idIn(renewal) },
          { refunded: renewalRefund },
        ),
      ),
    ],
    payments: [
      {
        id: idIn(first),
        arrived,
        gone: sum(counted.map(({ amount }) => amount)) + lost * taken,
        goneUntaxed: sum(counted.map((refund) => refund.amount - refund.tax)) + lost * (taken - takenTax),
        total: arrived,
        untaxed: arrived - tax,
      },
      {
        ...whole(idIn(renewal), story),
        gone: renewalRefund,
        goneUntaxed: renewalRefund - taxIn(story, renewalRefund),
      },
    ],
    refunds: counted.map(({ amount }) => amount),
  }
}

const lemonsqueezy: Play = (story, random) => {
  const isSubscription = random.chance(0.5)
  const drawTotals = () => times(random.integer(0, 3), () => Object(random.integer(1, story.amount))).map(Number)
  const totals = drawTotals().toSorted((a, b) => a - b)
  const renewalTotals = drawTotals()
  const of = (name: string, more: Partial<Story> = {}) => eventOf(lemonsqueezyFixtures, name, { ...story, ...more })
  const reported = (name: string) => (refunded: number, at: number) =>
    of(name, { refunded, now: new Date(story.now.getTime() + 1000 * (at + 1)) })
  const renewal = of('subscription_payment_success:without-data', dayAfter(story))
  return {
    events: [
      of('order_created'),
      ...totals.map(reported('order_refunded')),
      ...(isSubscription
        ? [
            of('subscription_created'),
            of('subscription_payment_success:initial'),
            renewal,
            ...totals.map(reported('subscription_payment_refunded:initial')),
            ...renewalTotals.map(reported('subscription_payment_refunded')),
          ]
        : []),
    ],
    payments: [
      { ...whole(String(orderId(story)), story), gone: totals.at(-1) ?? 0 },
      ...(isSubscription
        ? ([{ ...whole(`invoice_${idIn(renewal)}`, story), gone: Math.max(0, ...renewalTotals) }] as const)
        : ([] as const)),
    ],
    refunds: totals.map((total, at) => total - (totals[at - 1] ?? 0)).filter((rise) => rise > 0),
  }
}

const polar: Play = (story, random) => {
  const of = (name: string, data?: object, more: Partial<Story> = {}) =>
    eventOf(polarFixtures, name, { ...story, ...more }, data)
  // Some orders are partly paid from the customer's balance.
  const balance = random.chance(0.2) ? random.integer(1, story.amount - 1) : 0
  const arrived = story.amount - balance
  const first = of(random.chance(0.5) ? 'order.paid' : 'order.paid:subscription', { applied_balance_amount: -balance })
  const renewal = of('order.paid:renewal-without-data', {}, dayAfter(story))
  const refunds = drawRefunds(story.order, arrived, random)
  const renewalRefund = random.chance(0.3) ? random.integer(1, story.amount) : 0
  return {
    events: [
      first,
      of('subscription.created'),
      renewal,
      of('order.updated'),
      of('order.updated', { id: idIn(renewal) }),
      ...refunds.flatMap(({ id, amount: refunded, end }) => [
        of('refund.created', { id }, { refunded }),
        ...(end === 'counts' || end === 'undone' ? [of('refund.updated', { id }, { refunded })] : []),
        ...(end === 'undone' || end === 'refused' ? [of('refund.updated:failed', { id }, { refunded })] : []),
      ]),
      ...times(renewalRefund > 0 ? 1 : 0, () =>
        of('refund.updated', { id: `${story.order}_renewal`, order_id: idIn(renewal) }, { refunded: renewalRefund }),
      ),
    ],
    payments: [
      { ...whole(polarOrder(story).id, story), arrived, gone: sum(countedIn(refunds)) },
      { ...whole(idIn(renewal), story), gone: renewalRefund },
    ],
    refunds: countedIn(refunds),
  }
}

export const plays: Record<ProcessorName, Play> = { paddle, lemonsqueezy, polar }
