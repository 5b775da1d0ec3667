import { customData, hmacOf, type ProcessorFixtures, type Story, taxIn } from './processor-events.ts'

/** Derives a UUID from a text, because Polar's ids are UUIDs. */
export function uuidOf(text: string): string {
  const hex = hmacOf('fixture', text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

const event = (story: Story, type: string, data: object) => ({ type, timestamp: story.now.toISOString(), data })

const customerOf = (story: Story) => ({
  id: uuidOf(`customer ${story.order}`),
  external_id: null,
  email: story.email,
  name: null,
  metadata: {},
})

export const polarOrderId = (story: Story) => uuidOf(`order ${story.order}`)

export function polarOrder(
  story: Story,
  more: { id?: string; billing_reason?: string; subscription_id?: string | null; metadata?: object } = {},
) {
  const { amount, tax, now } = story
  const { id = polarOrderId(story), billing_reason = 'purchase', subscription_id = null } = more
  return {
    id,
    created_at: now.toISOString(),
    modified_at: null,
    status: 'paid',
    paid: true,
    subtotal_amount: amount - tax,
    discount_amount: 0,
    net_amount: amount - tax,
    tax_amount: tax,
    total_amount: amount,
    applied_balance_amount: 0,
    due_amount: amount,
    refunded_amount: 0,
    refunded_tax_amount: 0,
    platform_fee_amount: 0,
    platform_fee_currency: null,
    currency: story.currency,
    billing_reason,
    customer_id: uuidOf(`customer ${story.order}`),
    product_id: uuidOf('product'),
    discount_id: null,
    subscription_id,
    checkout_id: uuidOf(`checkout ${story.order}`),
    metadata: more.metadata ?? customData(story),
    custom_field_data: {},
    customer: customerOf(story),
    subscription:
      subscription_id === null ? null : { id: subscription_id, metadata: more.metadata ?? customData(story) },
    items: [
      {
        id: uuidOf('item'),
        label: 'Plan',
        amount: amount - tax,
        tax_amount: tax,
        proration: false,
        product_price_id: uuidOf('price'),
      },
    ],
  }
}

export function polarRefund(story: Story, refunded: { id: string; status: string; amount: number; order_id?: string }) {
  const tax = taxIn(story, refunded.amount)
  return {
    id: refunded.id,
    created_at: story.now.toISOString(),
    modified_at: null,
    status: refunded.status,
    reason: 'customer_request',
    amount: refunded.amount - tax,
    tax_amount: tax,
    currency: story.currency,
    order_id: refunded.order_id ?? polarOrderId(story),
    subscription_id: null,
    customer_id: uuidOf(`customer ${story.order}`),
    revoke_benefits: false,
    dispute: null,
    metadata: {},
  }
}

/** A refund that Polar issues to prevent a chargeback. */
function disputed(story: Story): object {
  const returned = { id: uuidOf(`dispute ${story.order}`), status: 'succeeded', amount: story.amount }
  const dispute = {
    id: uuidOf(`dispute of ${story.order}`),
    created_at: story.now.toISOString(),
    modified_at: null,
    status: 'prevented',
    resolved: true,
    closed: true,
    amount: story.amount - story.tax,
    tax_amount: story.tax,
    currency: story.currency,
    order_id: polarOrderId(story),
    payment_id: uuidOf(`payment ${story.order}`),
  }
  return { ...polarRefund(story, returned), reason: 'dispute_prevention', dispute }
}

const subscriptionOf = (story: Story) => uuidOf(`subscription ${story.order}`)

function renewal(story: Story, metadata?: object): object {
  return polarOrder(story, {
    id: uuidOf(`renewal ${story.order} ${story.now.getTime()}`),
    billing_reason: 'subscription_cycle',
    subscription_id: subscriptionOf(story),
    ...(metadata && { metadata }),
  })
}

function refund(story: Story, type: string, status: string): object {
  return event(story, type, polarRefund(story, { id: uuidOf(`refund ${story.order}`), status, amount: story.refunded }))
}

export const polarFixtures: ProcessorFixtures = {
  events: {
    'order.paid': (story) => event(story, 'order.paid', polarOrder(story)),
    'order.paid:subscription': (story) =>
      event(
        story,
        'order.paid',
        polarOrder(story, { billing_reason: 'subscription_create', subscription_id: subscriptionOf(story) }),
      ),
    'order.paid:renewal': (story) => event(story, 'order.paid', renewal(story)),
    'order.paid:renewal-without-data': (story) => event(story, 'order.paid', renewal(story, {})),
    'order.paid:checkout-link': (story) =>
      event(story, 'order.paid', polarOrder(story, { metadata: { reference_id: story.clickId } })),
    'order.paid:free': (story) => event(story, 'order.paid', polarOrder({ ...story, amount: 0, tax: 0 })),
    'order.updated': (story) =>
      event(story, 'order.updated', {
        ...polarOrder(story),
        platform_fee_amount: story.fee,
        platform_fee_currency: story.currency,
      }),
    'refund.created': (story) => refund(story, 'refund.created', 'pending'),
    'refund.updated': (story) => refund(story, 'refund.updated', 'succeeded'),
    'refund.created:dispute': (story) => event(story, 'refund.created', disputed(story)),
    'refund.updated:failed': (story) => refund(story, 'refund.updated', 'failed'),
    'subscription.created': (story) =>
      event(story, 'subscription.created', {
        id: subscriptionOf(story),
        created_at: story.now.toISOString(),
        status: 'active',
        customer_id: uuidOf(`customer ${story.order}`),
        metadata: customData(story),
        customer: customerOf(story),
      }),
  },

  headersOf(body, secret, now) {
    const id = crypto.randomUUID()
    const timestamp = Math.floor(now.getTime() / 1000)
    const signature = hmacOf(secret, `${id}.${timestamp}.${body}`).digest('base64')
    return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': `v1,${signature}` }
  },
}
