import { customData, hmacOf, type ProcessorFixtures, type Story, taxIn } from './processor-events.ts'

const never = '0001-01-01T00:00:00Z'

function event(story: Story, type: string, data: object): object {
  return {
    event_id: `evt_${crypto.randomUUID().replaceAll('-', '')}`,
    event_type: type,
    occurred_at: story.now.toISOString().replace('Z', '000Z'),
    notification_id: `ntf_${crypto.randomUUID().replaceAll('-', '')}`,
    data,
  }
}

/** Paddle writes amounts as text. */
const text = (amount: number) => String(amount)

function priceOf({ amount, tax, currency }: Story) {
  return {
    id: 'pri_1',
    product_id: 'pro_1',
    description: 'Plan',
    billing_cycle: null,
    trial_period: null,
    tax_mode: 'account_setting',
    unit_price: { amount: text(amount - tax), currency_code: currency.toUpperCase() },
    unit_price_overrides: [],
    quantity: { minimum: 1, maximum: 1 },
    status: 'active',
  }
}

export function paddleTransaction(
  story: Story,
  more: { origin?: string; subscription_id?: string | null; custom_data?: object | null; credit?: number } = {},
) {
  const { amount, tax, fee, order, now } = story
  const { credit = 0, origin = 'web', subscription_id = null, custom_data = customData(story) } = more
  const due = amount - credit
  const subtotal = text(amount - tax)
  const currency_code = story.currency.toUpperCase()
  return {
    id: `txn_${order}`,
    status: 'completed',
    customer_id: `ctm_${order}`,
    address_id: `add_${order}`,
    business_id: null,
    custom_data,
    currency_code,
    origin,
    subscription_id,
    invoice_id: `inv_${order}`,
    invoice_number: '123-45678',
    collection_mode: 'automatic',
    discount_id: null,
    billing_period: null,
    items: [{ price: priceOf(story), quantity: 1, proration: null }],
    details: {
      tax_rates_used: [],
      totals: {
        subtotal,
        discount: '0',
        tax: text(tax),
        total: text(amount),
        credit: text(credit),
        credit_to_balance: '0',
        balance: '0',
        grand_total: text(due),
        grand_total_tax: text(taxIn(story, due)),
        fee: text(fee),
        earnings: text(due - taxIn(story, due) - fee),
        currency_code,
      },
      line_items: [
        {
          id: `txnitm_${order}`,
          price_id: 'pri_1',
          product: { id: 'pro_1', name: 'Plan' },
          quantity: 1,
          tax_rate: '0',
          totals: { subtotal, discount: '0', tax: text(tax), total: text(amount) },
        },
      ],
    },
    payments: [{ payment_attempt_id: crypto.randomUUID(), amount: text(due), status: 'captured' }],
    checkout: { url: null },
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
    billed_at: now.toISOString(),
    revised_at: null,
  }
}

export function paddleAdjustment(
  story: Story,
  adjusted: { id: string; action: string; status?: string; amount: number; items?: object[] },
) {
  const { order, now } = story
  const currency_code = story.currency.toUpperCase()
  const tax = taxIn(story, adjusted.amount)
  const totals = { subtotal: text(adjusted.amount - tax), tax: text(tax), total: text(adjusted.amount) }
  return {
    id: adjusted.id,
    action: adjusted.action,
    type: adjusted.amount === story.amount ? 'full' : 'partial',
    transaction_id: `txn_${order}`,
    subscription_id: null,
    customer_id: `ctm_${order}`,
    reason: 'requested_by_customer',
    credit_applied_to_balance: adjusted.action === 'credit',
    currency_code,
    status: adjusted.status ?? 'approved',
    items: adjusted.items ?? [
      {
        id: `adjitm_${order}`,
        item_id: `txnitm_${order}`,
        type: 'partial',
        amount: totals.total,
        proration: null,
        totals,
      },
    ],
    totals: { ...totals, fee: '0', earnings: totals.subtotal, retained_fee: '0', currency_code },
    payout_totals: null,
    created_at: now.toISOString(),
    updated_at: never,
  }
}

const subscriptionOf = (story: Story) => `sub_${story.order}`

function transaction(story: Story, more: Parameters<typeof paddleTransaction>[1] = {}): object {
  return event(story, 'transaction.completed', paddleTransaction(story, more))
}

function adjustment(story: Story, type: string, action: string, status: string, id = `adj_${story.order}`): object {
  const amount = action === 'refund' || action === 'credit' ? story.refunded : story.amount
  return event(story, type, paddleAdjustment(story, { id, action, status, amount }))
}

/** Renewals of a subscription with the same --order. */
function renewal(story: Story, custom_data: object | null): object {
  const data = paddleTransaction(story, {
    origin: 'subscription_recurring',
    subscription_id: subscriptionOf(story),
    custom_data,
  })
  return event(story, 'transaction.completed', { ...data, id: `txn_${story.order}_${story.now.getTime()}` })
}

/** An invoice that a credit paid in part before the buyer paid the rest. */
function creditedInvoice(story: Story): object {
  const invoice = paddleTransaction(story, { origin: 'api', credit: story.refunded })
  return event(story, 'transaction.completed', { ...invoice, collection_mode: 'manual' })
}

export const paddleFixtures: ProcessorFixtures = {
  events: {
    'transaction.completed': (story) => transaction(story),
    'transaction.completed:subscription': (story) => transaction(story, { subscription_id: subscriptionOf(story) }),
    'transaction.completed:renewal': (story) => renewal(story, customData(story)),
    'transaction.completed:renewal-without-data': (story) => renewal(story, null),
    'transaction.completed:credited-invoice': (story) => creditedInvoice(story),
    'transaction.completed:free': (story) => transaction({ ...story, amount: 0, tax: 0, fee: 0 }),
    'adjustment.created': (story) => adjustment(story, 'adjustment.created', 'refund', 'pending_approval'),
    'adjustment.updated': (story) => adjustment(story, 'adjustment.updated', 'refund', 'approved'),
    'adjustment.updated:rejected': (story) => adjustment(story, 'adjustment.updated', 'refund', 'rejected'),
    'adjustment.updated:reversed': (story) => adjustment(story, 'adjustment.updated', 'refund', 'reversed'),
    'adjustment.created:credit': (story) => adjustment(story, 'adjustment.created', 'credit', 'approved'),
    'adjustment.created:chargeback': (story) =>
      adjustment(story, 'adjustment.created', 'chargeback', 'approved', `adj_${story.order}_chargeback`),
    'adjustment.created:chargeback_warning': (story) =>
      adjustment(story, 'adjustment.created', 'chargeback_warning', 'approved', `adj_${story.order}_warning`),
    'adjustment.created:chargeback_reverse': (story) =>
      adjustment(story, 'adjustment.created', 'chargeback_reverse', 'approved', `adj_${story.order}_reverse`),
    'subscription.created': (story) =>
      event(story, 'subscription.created', {
        id: subscriptionOf(story),
        status: 'active',
        customer_id: `ctm_${story.order}`,
        transaction_id: `txn_${story.order}`,
        custom_data: customData(story),
        currency_code: story.currency.toUpperCase(),
        address_id: `add_${story.order}`,
        collection_mode: 'automatic',
        billing_cycle: { interval: 'month', frequency: 1 },
        items: [],
        created_at: story.now.toISOString(),
        updated_at: story.now.toISOString(),
      }),
    'customer.created': (story) => customer(story, 'customer.created'),
    'customer.updated': (story) => customer(story, 'customer.updated'),
  },

  headersOf(body, secret, now) {
    const ts = Math.floor(now.getTime() / 1000)
    return { 'paddle-signature': `ts=${ts};h1=${hmacOf(secret, `${ts}:${body}`).digest('hex')}` }
  },
}

function customer(story: Story, type: string): object {
  return event(story, type, {
    id: `ctm_${story.order}`,
    email: story.email,
    custom_data: customData(story),
    created_at: story.now.toISOString(),
  })
}
