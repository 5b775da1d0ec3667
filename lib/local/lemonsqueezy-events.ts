import { customData, hmacOf, type ProcessorFixtures, type Story } from './processor-events.ts'

/** Derives a number from a text, because Lemon Squeezy's ids are numbers. */
function numberOf(text: string): number {
  return Number.parseInt(hmacOf('fixture', text).digest('hex').slice(0, 7), 16)
}

interface Body {
  type: string
  id: number
  attributes: object
}

export function lemonEvent(story: Story, name: string, { type, id, attributes }: Body, custom?: object | null): object {
  const custom_data = custom === undefined ? customData(story) : custom
  return {
    meta: { event_name: name, test_mode: story.isTest, ...(custom_data !== null && { custom_data }) },
    data: { type, id: String(id), attributes: { ...attributes, test_mode: story.isTest } },
  }
}

export const orderId = (story: Story) => numberOf(`order ${story.order}`)
export const subscriptionNumber = (story: Story) => numberOf(`subscription ${story.order}`)

/** The amounts of an order or an invoice. */
function amounts({ amount, tax, currency, now }: Story, refunded: number) {
  return {
    currency: currency.toUpperCase(),
    currency_rate: '1.0000',
    subtotal: amount - tax,
    discount_total: 0,
    tax,
    total: amount,
    refunded: refunded > 0 && refunded === amount,
    refunded_amount: refunded,
    refunded_at: refunded > 0 ? now.toISOString() : null,
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
  }
}

const buyer = (story: Story) => ({
  store_id: 1,
  customer_id: numberOf(`customer ${story.order}`),
  user_name: 'Buyer',
  user_email: story.email ?? '',
})

export function lemonOrder(story: Story, refunded = 0) {
  const id = orderId(story)
  return {
    type: 'orders',
    id,
    attributes: {
      ...buyer(story),
      identifier: `00000000-0000-4000-8000-${String(id).padStart(12, '0')}`,
      order_number: 1,
      status: refunded === 0 ? 'paid' : refunded === story.amount ? 'refunded' : 'partial_refund',
      first_order_item: { id: 1, order_id: id, product_id: 11, variant_id: 12, price_id: 13, quantity: 1 },
      ...amounts(story, refunded),
    },
  }
}

export function lemonInvoice(story: Story, id: number, billing_reason: string, refunded = 0) {
  return {
    type: 'subscription-invoices',
    id,
    attributes: {
      ...buyer(story),
      subscription_id: subscriptionNumber(story),
      billing_reason,
      card_brand: 'visa',
      card_last_four: '4242',
      status: refunded > 0 && refunded === story.amount ? 'refunded' : 'paid',
      ...amounts(story, refunded),
    },
  }
}

export function lemonSubscription(story: Story) {
  return {
    type: 'subscriptions',
    id: subscriptionNumber(story),
    attributes: {
      ...buyer(story),
      order_id: orderId(story),
      order_item_id: 1,
      product_id: 11,
      variant_id: 12,
      status: 'active',
      created_at: story.now.toISOString(),
      updated_at: story.now.toISOString(),
    },
  }
}

const initialId = (story: Story) => numberOf(`initial ${story.order}`)
const renewalId = (story: Story) => numberOf(`renewal ${story.order}`)

export const lemonsqueezyFixtures: ProcessorFixtures = {
  events: {
    order_created: (story) => lemonEvent(story, 'order_created', lemonOrder(story)),
    'order_created:free': (story) => lemonEvent(story, 'order_created', lemonOrder({ ...story, amount: 0, tax: 0 })),
    order_refunded: (story) => lemonEvent(story, 'order_refunded', lemonOrder(story, story.refunded)),
    'order_refunded:fraudulent': (story) => {
      const { attributes, ...order } = lemonOrder(story, story.amount)
      return lemonEvent(story, 'order_refunded', { ...order, attributes: { ...attributes, status: 'fraudulent' } })
    },
    subscription_created: (story) => lemonEvent(story, 'subscription_created', lemonSubscription(story)),
    'subscription_payment_success:initial': (story) =>
      lemonEvent(story, 'subscription_payment_success', lemonInvoice(story, initialId(story), 'initial')),
    subscription_payment_success: (story) =>
      lemonEvent(story, 'subscription_payment_success', lemonInvoice(story, renewalId(story), 'renewal')),
    'subscription_payment_success:without-data': (story) =>
      lemonEvent(story, 'subscription_payment_success', lemonInvoice(story, renewalId(story), 'renewal'), null),
    subscription_payment_recovered: (story) =>
      lemonEvent(story, 'subscription_payment_recovered', lemonInvoice(story, renewalId(story), 'renewal')),
    subscription_payment_refunded: (story) =>
      lemonEvent(
        story,
        'subscription_payment_refunded',
        lemonInvoice(story, renewalId(story), 'renewal', story.refunded),
      ),
    'subscription_payment_refunded:initial': (story) =>
      lemonEvent(
        story,
        'subscription_payment_refunded',
        lemonInvoice(story, initialId(story), 'initial', story.refunded),
      ),
  },

  headersOf: (body, secret) => ({ 'x-signature': hmacOf(secret, body).digest('hex') }),
}
