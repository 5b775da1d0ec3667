import { baseUrlOf } from './addresses.ts'
import { type Caller, checkKey, type Result, send, type SvcError } from './send.ts'
import type { ApiOperations } from './api-types.ts'
import type { WebhookEvent } from './webhook-types.ts'

export type { Result, SvcError }

type Operation = keyof ApiOperations
type Query<Id extends Operation> = ApiOperations[Id]['query']
type Body<Id extends Operation> = ApiOperations[Id]['body']
type Item<Id extends Operation> = ApiOperations[Id]['answer'] extends { data: (infer Row)[] } ? Row : never
/** The only response field other than `success`. */
type One<Id extends Operation> = Omit<ApiOperations[Id]['answer'], 'success'>[Exclude<
  keyof ApiOperations[Id]['answer'],
  'success'
>]

export type Partner = Item<'listPartners'>
export type CommissionRule = One<'listRules'>[number]
export type Program = One<'getProgram'>
export type RulePreview = One<'previewRules'>
export type PartnerGroup = Item<'listGroups'>
export type Application = Item<'listApplications'>
export type JoinPage = One<'getJoinPage'>
export type PartnerCode = Item<'listCodes'>
export type Link = Item<'listLinks'>
export type Customer = Item<'listCustomers'>
export type Sale = Item<'listSales'>
export type Explanation = One<'explainSale'>
export type TrackingEvent = Item<'listEvents'>
export type Commission = Item<'listCommissions'>
export type Review = Item<'listReviews'>
export type Adjustment = Item<'listAdjustments'>
export type Payout = Item<'listPayouts'>
export type PayoutRun = Item<'listPayoutRuns'>
export type WebhookEndpoint = Item<'listWebhookEndpoints'>
export type WebhookDelivery = Omit<Item<'listWebhookDeliveries'>, 'payload'> & { payload: WebhookEvent }

const hooks = 'webhook-endpoints'

type SearchValues = Record<string, string | number | boolean | undefined>

function searchOf(values: SearchValues): URLSearchParams {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) if (value !== undefined) search.set(name, String(value))
  return search
}

export interface SvcApiOptions extends Caller {
  /** Default: `SVC_BASE_URL` of the environment, or else the address that the package was built for. */
  baseUrl?: string | undefined
}

export interface CreateOptions {
  /** If a key is repeated within a day, nothing is created twice. Default: a new key for each call and its retries. */
  idempotencyKey?: string | undefined
}

/** Thrown by a list if one of its pages could not be read. */
export class SvcApiError extends Error implements SvcError {
  [name: string]: unknown
  readonly code: string
  /** The HTTP status, or 0 without a response. */
  readonly status: number

  constructor(status: number, error: SvcError) {
    super(error.message)
    Object.assign(this, error)
    this.name = 'SvcApiError'
    this.code = error.code
    this.status = status
  }
}

/** A list. `for await` reads it row by row over all its pages and throws `SvcApiError`. `page` reads one page. */
export interface List<Row> extends AsyncIterable<Row> {
  /** Returns the first page, or the page at the query's `cursor`. Never throws. */
  page(): Promise<Result<{ data: Row[]; next_cursor: string | null }>>
}

/**
 * Calls the program API from your server, with a key of the scopes `read` and `manage`. Calls about one resource never throw. Their
 * `Result` reports success or failure. Read lists with `for await` loops. A call is repeated if there is no response, or after 429
 * or 5xx.
 */
export class SvcApi {
  readonly #options: SvcApiOptions

  constructor(options: SvcApiOptions) {
    checkKey(options.apiKey)
    baseUrlOf(options.baseUrl)
    this.#options = options
  }

  readonly partners = {
    list: (query?: Query<'listPartners'>) => this.#list<Partner>('partners', query),
    get: (id: number) => this.#one<One<'getPartner'>>('GET', `partners/${id}`),
    create: (partner: Body<'createPartner'>, options?: CreateOptions) =>
      this.#create<One<'createPartner'>>('partners', partner, options),
    /** Changes the given fields. `status: 'inactive'` also disables all links of the partner. */
    update: (id: number, changes: Body<'updatePartner'>) =>
      this.#one<One<'updatePartner'>>('PATCH', `partners/${id}`, changes),
  }

  readonly groups = {
    list: (query?: Query<'listGroups'>) => this.#list<PartnerGroup>('groups', query),
    get: (id: number) => this.#one<PartnerGroup>('GET', `groups/${id}`),
    create: (group: Body<'createGroup'>, options?: CreateOptions) =>
      this.#create<PartnerGroup>('groups', group, options),
    /** Changes the given fields. `rules` replaces all rules from now on. */
    update: (id: number, changes: Body<'updateGroup'>) => this.#one<PartnerGroup>('PATCH', `groups/${id}`, changes),
    /** Returns its id. After that, its partners aren't in any group. */
    delete: (id: number) => this.#one<number>('DELETE', `groups/${id}`),
    /** Moves up to 100 partners into a group. Returns how many of them the program has. */
    move: (id: number, partnerIds: number[]) =>
      this.#one<number>('POST', `groups/${id}/partners`, { partner_ids: partnerIds }),
  }

  /** The key's program. */
  readonly program = {
    get: () => this.#one<Program>('GET', 'program'),
    update: (changes: Body<'updateProgram'>) => this.#one<Program>('PATCH', 'program', changes),
  }

  /** The rules of all partners by product or `sale_type`. Groups and partners have further rules. */
  readonly rules = {
    get: () => this.#one<CommissionRule[]>('GET', 'rules'),
    /** `rules` replaces all rules from now on. */
    update: (changes: Body<'updateRules'>) => this.#one<CommissionRule[]>('PATCH', 'rules', changes),
    /** Computes a past month with these rules of a group, a partner or everybody. Changes nothing. */
    preview: (change: Body<'previewRules'>) => this.#one<RulePreview>('POST', 'rules/preview', change),
  }

  readonly applications = {
    list: (query?: Query<'listApplications'>) => this.#list<Application>('applications', query),
    get: (id: number) => this.#one<Application>('GET', `applications/${id}`),
    /** Sends an application from your own form. The applicant gets a link by mail to confirm it. */
    create: (application: Body<'createApplication'>, options?: CreateOptions) =>
      this.#create<Application>('applications', application, options),
    approve: (id: number, into: { group_id?: number } = {}) =>
      this.#one<Application>('PATCH', `applications/${id}`, { status: 'approved', ...into }),
    reject: (id: number, how: { note?: string; notify?: boolean } = {}) =>
      this.#one<Application>('PATCH', `applications/${id}`, { status: 'rejected', ...how }),
    /** Deletes a rejected or unconfirmed application with all its data. Returns its id. */
    delete: (id: number) => this.#one<number>('DELETE', `applications/${id}`),
  }

  /** The public page on which people apply. */
  readonly joinPage = {
    get: () => this.#one<JoinPage>('GET', 'join-page'),
    update: (changes: Body<'updateJoinPage'>) => this.#one<JoinPage>('PATCH', 'join-page', changes),
  }

  readonly codes = {
    list: (query?: Query<'listCodes'>) => this.#list<PartnerCode>('codes', query),
    get: (id: number) => this.#one<PartnerCode>('GET', `codes/${id}`),
    create: (code: Body<'createCode'>, options?: CreateOptions) => this.#create<PartnerCode>('codes', code, options),
    /** Revokes a code. The partner keeps the sales that it attributed. */
    revoke: (id: number) => this.#one<PartnerCode>('DELETE', `codes/${id}`),
  }

  readonly links = {
    list: (query?: Query<'listLinks'>) => this.#list<Link>('links', query),
    get: (id: number) => this.#one<One<'getLink'>>('GET', `links/${id}`),
    create: (link: Body<'createLink'>, options?: CreateOptions) =>
      this.#create<One<'createLink'>>('links', link, options),
    update: (id: number, changes: Body<'updateLink'>) => this.#one<One<'updateLink'>>('PATCH', `links/${id}`, changes),
  }

  readonly customers = {
    list: (query?: Query<'listCustomers'>) => this.#list<Customer>('customers', query),
    /** Finds a customer by click id, or by your own user id. */
    get: (clickIdOrKey: string) =>
      this.#one<One<'getCustomer'>>('GET', `customers/${encodeURIComponent(clickIdOrKey)}`),
  }

  readonly sales = {
    list: (query?: Query<'listSales'>) => this.#list<Sale>('sales', query),
    get: (transactionId: string) => this.#one<One<'getSale'>>('GET', `sales/${encodeURIComponent(transactionId)}`),
    explanation: (transactionId: string) =>
      this.#one<Explanation>('GET', `sales/${encodeURIComponent(transactionId)}/explanation`),
  }

  /** Figures by group and interval. */
  performance(query: Query<'performanceByGroup'> = {}): Promise<Result<ApiOperations['performanceByGroup']['answer']>> {
    return send(this.#options, this.#url(`performance?${searchOf(query)}`), 'GET')
  }

  readonly events = {
    list: (query?: Query<'listEvents'>) => this.#list<TrackingEvent>('events', query),
  }

  readonly commissions = {
    list: (query?: Query<'listCommissions'>) => this.#list<Commission>('commissions', query),
    approve: (id: number) => this.#one<One<'decideCommission'>>('PATCH', `commissions/${id}`, { status: 'approved' }),
    reject: (id: number, reason: string) =>
      this.#one<One<'decideCommission'>>('PATCH', `commissions/${id}`, { status: 'rejected', reason }),
    /** Approves up to 100 at once. `data` contains all of them, `changed` is the number of changes, and `unknown_ids` lists unknown ids. */
    approveAll: (ids: number[]) => this.#decideAll({ ids, status: 'approved' }),
    rejectAll: (ids: number[], reason: string) => this.#decideAll({ ids, status: 'rejected', reason }),
  }

  /** Held commissions with the findings about each. */
  readonly reviews = {
    list: (query?: Query<'listReviews'>) => this.#list<Review>('reviews', query),
    release: (commissionIds: number[], note: string) => this.#review(commissionIds, 'released', note),
    reject: (commissionIds: number[], note: string) => this.#review(commissionIds, 'rejected', note),
  }

  /** Manual commissions, and deductions with a negative amount. */
  readonly adjustments = {
    list: (query?: Query<'listAdjustments'>) => this.#list<Adjustment>('adjustments', query),
    create: (adjustment: Body<'createAdjustment'>, options?: CreateOptions) =>
      this.#create<Adjustment>('adjustments', adjustment, options),
  }

  readonly payouts = {
    list: (query?: Query<'listPayouts'>) => this.#list<Payout>('payouts', query),
    get: (id: number) => this.#one<One<'getPayout'>>('GET', `payouts/${id}`),
    markPaid: (id: number, transfer: { amount_cents: number; reference: string; paid_on: string }) =>
      this.#one<One<'decidePayout'>>('PATCH', `payouts/${id}`, { status: 'paid', ...transfer }),
    refuse: (id: number, reason: string) =>
      this.#one<One<'decidePayout'>>('PATCH', `payouts/${id}`, { status: 'refused', reason }),
  }

  readonly payoutRuns = {
    list: (query?: Query<'listPayoutRuns'>) => this.#list<PayoutRun>('payout-runs', query),
    get: (id: number) => this.#one<One<'getPayoutRun'>>('GET', `payout-runs/${id}`),
    create: (options?: CreateOptions) => this.#create<One<'createPayoutRun'>>('payout-runs', {}, options),
  }

  readonly webhookEndpoints = {
    list: (query?: Query<'listWebhookEndpoints'>) => this.#list<WebhookEndpoint>(hooks, query),
    get: (id: number) => this.#one<WebhookEndpoint>('GET', `${hooks}/${id}`),
    /** Returns the endpoint with its secret, which later calls don't show. */
    create: (endpoint: Body<'createWebhookEndpoint'>, options?: CreateOptions) =>
      this.#create<One<'createWebhookEndpoint'>>(hooks, endpoint, options),
    update: (id: number, changes: Body<'updateWebhookEndpoint'>) =>
      this.#one<WebhookEndpoint>('PATCH', `${hooks}/${id}`, changes),
    /** Returns its id. */
    delete: (id: number) => this.#one<number>('DELETE', `${hooks}/${id}`),
    /** Returns the new secret. The previous secret also signs for a day. */
    rotateSecret: (id: number, options?: CreateOptions) =>
      this.#create<One<'rotateWebhookSecret'>>(`${hooks}/${id}/rotate-secret`, {}, options),
    /** Sends a test event and returns the id of its delivery. */
    test: (id: number) => this.#one<string>('POST', `${hooks}/${id}/test`),
    deliveries: (id: number, query?: Query<'listWebhookDeliveries'>) =>
      this.#list<WebhookDelivery>(`${hooks}/${id}/deliveries`, query),
    /** Returns one delivery with its attempts. */
    delivery: (id: number, deliveryId: string) =>
      this.#one<WebhookDelivery & One<'getWebhookDelivery'>>('GET', `${hooks}/${id}/deliveries/${deliveryId}`),
    /** Returns the number of deliveries that are sent again. */
    replay: (id: number, which: Body<'replayWebhooks'>) => this.#one<number>('POST', `${hooks}/${id}/replay`, which),
  }

  #review(
    commission_ids: number[],
    decision: 'released' | 'rejected',
    note: string,
  ): Promise<Result<Omit<ApiOperations['decideReviews']['answer'], 'success'>>> {
    return send(this.#options, this.#url('reviews'), 'PATCH', () => ({ commission_ids, decision, note }))
  }

  #decideAll(
    decision: Body<'decideCommissions'>,
  ): Promise<Result<Omit<ApiOperations['decideCommissions']['answer'], 'success'>>> {
    return send(this.#options, this.#url('commissions'), 'PATCH', () => decision)
  }

  #url(path: string): string {
    return `${baseUrlOf(this.#options.baseUrl)}/api/v1/${path}`
  }

  async #one<Data>(
    method: string,
    path: string,
    body?: object,
    headers?: Record<string, string>,
  ): Promise<Result<Data>> {
    const input = body && (() => body)
    const result = await send<Record<string, Data>>(this.#options, this.#url(path), method, input, headers)
    if (!result.ok) return result
    const { success: _, ...answer } = result.data
    // oxlint-disable-next-line no-unsafe-type-assertion -- an answer has one field beside `success`
    return { ...result, data: Object.values(answer)[0] as Data }
  }

  #create<Data>(path: string, body: object, { idempotencyKey = crypto.randomUUID() }: CreateOptions = {}) {
    return this.#one<Data>('POST', path, body, { 'idempotency-key': idempotencyKey })
  }

  #list<Row>(path: string, query: SearchValues = {}): List<Row> {
    const page = (cursor?: string | null) => {
      const url = this.#url(`${path}?${searchOf(cursor ? { ...query, cursor } : query)}`)
      return send<{ data: Row[]; next_cursor: string | null }>(this.#options, url, 'GET')
    }
    return {
      page: () => page(),
      async *[Symbol.asyncIterator]() {
        for (let cursor: string | null | undefined; cursor !== null;) {
          const result: Awaited<ReturnType<typeof page>> = await page(cursor)
          if (!result.ok) throw new SvcApiError(result.status, result.error)
          yield* result.data.data
          cursor = result.data.next_cursor
        }
      },
    }
  }
}
