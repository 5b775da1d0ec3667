import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { refusePages } from './pages.ts'

export interface LocalStripe {
  /** The value of `STRIPE_API_URL`. */
  url: string
  /** The method, path and connected account of every call, in order. */
  calls: string[]
  /** Maps payment intents to invoices, for `GET /v1/invoice_payments`. */
  invoices: Map<string, string>
  /** Maps charges to their refunds, for `GET /v1/refunds`. */
  refunds: Map<string, object[]>
  /** Refunds, charges, sessions and invoices by id, for requests that read a single object. */
  objects: Map<string, object>
  /** Coupons and promotion codes that were created here, by id. */
  promotions: Map<string, Promotion>
  /** The lists of an account, oldest first, by account and path: `acct_1 /v1/invoices`. The emulator lists them newest first, like Stripe. */
  lists: Map<string, Record<string, unknown>[]>
  /** Maps codes to accounts, for `POST /oauth/token`. A code works once. */
  accounts: Map<string, string>
  /** Fails the next `times` calls with this status. Status 0 breaks the connection. */
  fail(status: number, times: number): void
  /** The status that the emulator returns for each path in the map. */
  failing: Map<string, number>
  close(): Promise<void>
}

/** A coupon or promotion code as Stripe returns it, with its account. */
interface Promotion {
  account: string
  body: Record<string, unknown>
}

/** The objects that `POST /control` accepts. */
interface Known {
  invoices?: Record<string, string>
  refunds?: Record<string, object[]>
  accounts?: Record<string, string>
  lists?: Record<string, Record<string, unknown>[]>
}

/**
 * Emulates the few Stripe API calls that the service makes, in Stripe's own HTTP format, on this machine. Fill its maps or send it objects:
 * `POST /control` `{invoices, refunds, accounts, lists}`, each an object. Each page of refunds has only one refund.
 */
export async function startLocalStripe(port = 0): Promise<LocalStripe> {
  const failures: number[] = []

  function answer(request: IncomingMessage, accountId: string, body: string): { status: number; body: object } {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
    if (pathname === '/v1/invoice_payments') {
      const paymentIntent = searchParams.get('payment[payment_intent]') ?? ''
      const invoice = stripe.invoices.get(paymentIntent)
      const payment = { type: 'payment_intent', payment_intent: paymentIntent }
      const data = invoice
        ? [{ id: `inpay_${paymentIntent}`, object: 'invoice_payment', invoice, payment, status: 'paid' }]
        : []
      return list(pathname, data, false)
    }
    if (listPaths.has(pathname) && !searchParams.has('charge')) {
      return pageOf(pathname, stripe.lists.get(`${accountId} ${pathname}`) ?? [], searchParams)
    }
    if (pathname === '/v1/refunds') {
      const refunds = stripe.refunds.get(searchParams.get('charge') ?? '') ?? []
      const after = searchParams.get('starting_after')
      const start = after === null ? 0 : refunds.findIndex((refund) => 'id' in refund && refund.id === after) + 1
      return list(pathname, refunds.slice(start, start + 1), start + 1 < refunds.length)
    }
    const [, objectId = ''] = /^\/v1\/(?:refunds|charges|invoices|checkout\/sessions)\/(.+)$/.exec(pathname) ?? []
    const object = stripe.objects.get(objectId)
    if (object) return { status: 200, body: object }
    if (pathname === '/oauth/token') {
      const code = new URLSearchParams(body).get('code') ?? ''
      const account = stripe.accounts.get(code)
      if (!account) {
        return {
          status: 400,
          body: { error: 'invalid_grant', error_description: 'Authorization code does not exist.' },
        }
      }
      stripe.accounts.delete(code)
      return {
        status: 200,
        body: { stripe_user_id: account, livemode: true, scope: 'read_only', token_type: 'bearer' },
      }
    }
    if (pathname === '/oauth/deauthorize') {
      return { status: 200, body: { stripe_user_id: new URLSearchParams(body).get('stripe_user_id') } }
    }
    const address = new URL(request.url ?? '/', 'http://localhost')
    const promotion = promotionOf(request.method ?? '', address, accountId, new URLSearchParams(body))
    if (promotion) return promotion
    const message = `Unrecognized request URL (${request.method}: ${pathname}).`
    return { status: 404, body: { error: { type: 'invalid_request_error', message } } }
  }

  /** Creates, reads, lists, disables and enables coupons and promotion codes. */
  function promotionOf(method: string, address: URL, account: string, sent: URLSearchParams) {
    const { pathname, searchParams: query } = address
    const [, kind, objectId] = /^\/v1\/(coupons|promotion_codes)(?:\/(\w+))?$/.exec(pathname) ?? []
    if (kind === undefined) return undefined
    const ofAccount = [...stripe.promotions.values()].filter((one) => one.account === account).map(({ body }) => body)
    if (objectId !== undefined) {
      const found = ofAccount.find(({ id }) => id === objectId)
      if (!found) return refused(404, `No such ${kind}: '${objectId}'`)
      if (method === 'POST' && sent.has('active')) found['active'] = sent.get('active') === 'true'
      return { status: 200, body: found }
    }
    if (method === 'GET') return list(pathname, ofAccount.filter(hasText(query.get('code'))), false)
    const coupon = sent.get('promotion[coupon]')
    if (kind === 'promotion_codes') {
      if (!ofAccount.some(({ id }) => id === coupon)) return refused(400, `No such coupon: '${coupon}'`)
      const code = sent.get('code')
      if (ofAccount.some(hasText(code))) {
        return refused(400, `An active promotion code with \`code: ${code}\` already exists.`)
      }
    }
    const body = {
      id: `${kind === 'coupons' ? 'cou' : 'promo'}_${stripe.promotions.size + 1}`,
      object: kind === 'coupons' ? 'coupon' : 'promotion_code',
      active: true,
      ...Object.fromEntries([...sent].filter(([name]) => !name.includes('['))),
      metadata: Object.fromEntries(
        [...sent].flatMap(([name, value]) => (name.startsWith('metadata[') ? [[name.slice(9, -1), value]] : [])),
      ),
      ...(coupon && { promotion: { type: 'coupon', coupon } }),
    }
    stripe.promotions.set(body.id, { account, body })
    return { status: 200, body }
  }

  const server = createServer((request, response) => {
    if (refusePages(request, response)) return
    void (async () => {
      const body = await text(request)
      if (request.url === '/control') {
        const { invoices = {}, refunds = {}, accounts = {}, lists = {} }: Known = JSON.parse(body)
        for (const [from, to] of Object.entries(lists)) stripe.lists.set(from, to)
        for (const [from, to] of Object.entries(invoices)) stripe.invoices.set(from, to)
        for (const [from, to] of Object.entries(refunds)) stripe.refunds.set(from, to)
        for (const [from, to] of Object.entries(accounts)) stripe.accounts.set(from, to)
        response.end('{}')
        return
      }
      const account = String(request.headers['stripe-account'] ?? '')
      stripe.calls.push(`${request.method} ${decodeURIComponent(request.url ?? '')} ${account}`.trim())
      const failure = stripe.failing.get(request.url?.split('?')[0] ?? '') ?? failures.shift()
      if (failure === 0) {
        request.socket.destroy()
        return
      }
      const answered = failure
        ? { status: failure, body: { error: { type: 'api_error', message: 'Something is wrong on our end.' } } }
        : answer(request, account, body)
      response.writeHead(answered.status, { 'content-type': 'application/json', 'request-id': 'req_local' })
      response.end(JSON.stringify(answered.body))
    })()
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The Stripe emulator has no port.')
  const stripe: LocalStripe = {
    url: `http://127.0.0.1:${address.port}`,
    calls: [],
    invoices: new Map(),
    refunds: new Map(),
    objects: new Map(),
    promotions: new Map(),
    lists: new Map(),
    accounts: new Map(),
    failing: new Map(),
    fail: (status, times) => void failures.push(...Array.from({ length: times }, () => status)),
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
  return stripe
}

const hasText = (code: string | null) => (body: Promotion['body']) =>
  body['active'] === true && String(body['code']).toLowerCase() === code?.toLowerCase()

const refused = (status: number, message: string) => ({
  status,
  body: { error: { type: 'invalid_request_error', message } },
})

const listPaths: ReadonlySet<string> = new Set([
  '/v1/customers',
  '/v1/checkout/sessions',
  '/v1/subscriptions',
  '/v1/invoices',
  '/v1/payment_intents',
  '/v1/refunds',
  '/v1/disputes',
])

/** Returns a page of an account's list by Stripe's parameters: `created[gte]`, `status`, `starting_after`, `limit`. */
function pageOf(pathname: string, objects: Record<string, unknown>[], query: URLSearchParams) {
  const since = Number(query.get('created[gte]') ?? 0)
  const status = query.get('status')
  const newestFirst = objects
    .filter((object) => Number(object['created']) >= since)
    .filter((object) => status === null || status === 'all' || object['status'] === status)
    .toReversed()
  const after = query.get('starting_after')
  const start = after === null ? 0 : newestFirst.findIndex((object) => object['id'] === after) + 1
  const end = start + Number(query.get('limit') ?? 10)
  return list(pathname, newestFirst.slice(start, end), end < newestFirst.length)
}

function list(url: string, data: object[], hasMore: boolean) {
  return { status: 200, body: { object: 'list', url, data, has_more: hasMore } }
}
