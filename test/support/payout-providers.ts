import { randomUUID } from 'node:crypto'

/** The state of a payment at a provider's stand-in, in the provider's own terms. */
interface Payment {
  id: string
  key: string
  recipient: string
  amount: number
  currency: string
  status: string
}

type Answer = [status: number, body: unknown]

/** Stand-ins of the APIs of PayPal Payouts, Wise and Stripe. They execute each payment only once, as the real services promise. */
export class ProviderStandIns {
  /** The payments of all providers, by key. */
  readonly payments = new Map<string, Payment>()
  /** The recipients that the stand-ins refuse. */
  readonly refused = new Set<string>()
  /** The answer to every call while the stand-ins are down. */
  outage: Answer | undefined
  readonly #batches = new Map<string, { id: string; keys: string[] }>()
  readonly #groups = new Map<string, { id: string; version: number; status: string; transferIds: string[] }>()
  readonly #quotes = new Map<string, number>()
  readonly #recipients = new Map<number, string>()

  /** A `fetch` that reaches only the stand-ins. */
  readonly fetch = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(input instanceof Request ? input.url : input)
    const text = typeof init.body === 'string' ? init.body : ''
    const headers = new Headers(init.headers)
    const isForm = headers.get('content-type') === 'application/x-www-form-urlencoded'
    const body = text === '' || isForm ? {} : JSON.parse(text)
    const method = init.method ?? 'GET'
    const [status, answer] = this.outage ?? this.#answer(`${method} ${url.pathname}`, url.hostname, body, headers)
    return Response.json(answer, { status })
  }

  /** The sum of the payments to a recipient, and their number. */
  paidTo(recipient: string): [cents: number, payments: number] {
    const own = [...this.payments.values()].filter((payment) => payment.recipient === recipient)
    return [own.reduce((sum, { amount }) => sum + amount, 0), own.length]
  }

  setStatus(recipient: string, status: string): void {
    for (const payment of this.payments.values()) if (payment.recipient === recipient) payment.status = status
  }

  // oxlint-disable-next-line no-explicit-any -- the bodies of three APIs
  #answer(call: string, host: string, body: any, headers: Headers): Answer {
    if (host.endsWith('sandbox.paypal.com')) return this.#paypal(call, body)
    if (host === 'api.wise-sandbox.com') return this.#wise(call, body)
    if (host === 'api.stripe.com') return this.#stripe(call, body, headers.get('idempotency-key') ?? '')
    throw new Error(`nobody answers at ${host}`)
  }

  // oxlint-disable-next-line no-explicit-any -- as above
  #paypal(call: string, body: any): Answer {
    if (call === 'POST /v1/oauth2/token') return [200, { access_token: 'token', expires_in: 3600 }]
    if (call === 'POST /v1/notifications/verify-webhook-signature')
      return [200, { verification_status: body.transmission_sig === 'good' ? 'SUCCESS' : 'FAILURE' }]
    if (call === 'POST /v1/payments/payouts') {
      const key: string = body.sender_batch_header.sender_batch_id
      const first = this.#batches.get(key)
      if (first) {
        const href = `https://api-m.sandbox.paypal.com/v1/payments/payouts/${first.id}`
        const details = [
          { field: 'SENDER_BATCH_ID', issue: 'Batch with given sender_batch_id already exists', link: [{ href }] },
        ]
        return [400, { name: 'USER_BUSINESS_ERROR', details }]
      }
      if (body.items.some((one: { receiver: string }) => this.refused.has(one.receiver)))
        return [400, { name: 'VALIDATION_ERROR', details: [{ field: '/items/0/receiver' }] }]
      const id = `BATCH${this.#batches.size + 1}`
      for (const one of body.items) {
        this.#pay(
          one.sender_item_id,
          one.receiver,
          Math.round(Number(one.amount.value) * 100),
          one.amount.currency,
          'PENDING',
        )
      }
      this.#batches.set(key, { id, keys: body.items.map((one: { sender_item_id: string }) => one.sender_item_id) })
      return [201, { batch_header: { payout_batch_id: id, batch_status: 'PENDING' } }]
    }
    const [key, batch] = [...this.#batches].find(([, { id }]) => call === `GET /v1/payments/payouts/${id}`) ?? []
    if (!batch) return [404, { name: 'RESOURCE_NOT_FOUND' }]
    const items = batch.keys.map((one) => {
      const { id, amount, currency, status } = this.#known(one)
      const payout_item = { sender_item_id: one, amount: { value: (amount / 100).toFixed(2), currency } }
      const errors = status === 'UNCLAIMED' ? { errors: { name: 'RECEIVER_UNREGISTERED', message: 'No account' } } : {}
      return {
        payout_item_id: id,
        transaction_status: status,
        time_processed: '2026-11-20T10:00:00Z',
        payout_item,
        ...errors,
      }
    })
    return [
      200,
      {
        batch_header: { batch_status: 'SUCCESS', sender_batch_header: { sender_batch_id: key } },
        total_pages: 1,
        items,
      },
    ]
  }

  // oxlint-disable-next-line no-explicit-any -- as above
  #wise(call: string, body: any): Answer {
    if (call === 'POST /v3/profiles/7/batch-groups') {
      const group = { id: randomUUID(), version: -5, status: 'NEW', transferIds: [] }
      this.#groups.set(group.id, group)
      return [200, group]
    }
    if (call === 'POST /v1/accounts') {
      if (this.refused.has(body.details.email)) return [422, { errors: [{ path: 'details.email' }] }]
      const id = this.#recipients.size + 1
      this.#recipients.set(id, body.details.email)
      return [200, { id }]
    }
    if (call === 'POST /v3/profiles/7/quotes') {
      const id = randomUUID()
      this.#quotes.set(id, body.targetAmount)
      return [200, { id }]
    }
    const [, id = '', rest = ''] = / \/v3\/profiles\/7\/batch-groups\/([^/]+)(.*)$/.exec(call) ?? []
    const group = this.#groups.get(id)
    if (group && rest === '/transfers') {
      const key: string = body.customerTransactionId
      if (!this.payments.has(key)) {
        const amount = Math.round((this.#quotes.get(body.quoteUuid) ?? 0) * 100)
        const { id: transferId } = this.#pay(
          key,
          this.#recipients.get(body.targetAccount) ?? '',
          amount,
          'USD',
          'incoming_payment_waiting',
        )
        group.transferIds.push(transferId)
        group.version *= -3
      }
      return [200, { id: Number(this.#known(key).id) }]
    }
    if (group && call.startsWith('PATCH')) {
      if (body.version !== group.version) return [409, { error: 'version' }]
      group.status = body.status
    }
    if (group) return [200, group]
    const transfer = [...this.payments.values()].find((one) => call === `GET /v1/transfers/${one.id}`)
    if (!transfer) return [404, {}]
    const { key, status, amount } = transfer
    return [200, { id: Number(transfer.id), status, targetValue: amount / 100, customerTransactionId: key }]
  }

  // oxlint-disable-next-line no-explicit-any -- as above
  #stripe(call: string, body: any, key: string): Answer {
    if (call === 'POST /v2/money_management/outbound_payments') {
      if (this.refused.has(body.to.recipient)) return [400, { error: { code: 'recipient_not_found' } }]
      if (!this.payments.has(key))
        this.#pay(key, body.to.recipient, body.amount.value, body.amount.currency, 'processing')
      return [200, this.#outbound(this.#known(key))]
    }
    const payment = [...this.payments.values()].find((one) => call.endsWith(`/outbound_payments/${one.id}`))
    return payment ? [200, this.#outbound(payment)] : [404, {}]
  }

  #outbound({ id, key, amount: value, currency, status }: Payment) {
    return { id, status, amount: { value, currency }, metadata: { payout_key: key } }
  }

  #known(key: string): Payment {
    const payment = this.payments.get(key)
    if (!payment) throw new Error(`no payment ${key}`)
    return payment
  }

  #pay(key: string, recipient: string, amount: number, currency: string, status: string): Payment {
    if (this.payments.has(key)) throw new Error('money was sent twice')
    const payment = { id: String(1000 + this.payments.size), key, recipient, amount, currency, status }
    this.payments.set(key, payment)
    return payment
  }
}
