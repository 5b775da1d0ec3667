/**
 * A provider that pays the payouts of a run. The provider's file in this folder calls its API, and lib/money/provider-batches.ts does the
 * rest.
 */
export interface PayoutProvider {
  /** The provider's public name. */
  title: string
  /** The keys that a program enters, with their labels. Those with `isAccount` identify the account. */
  keys: Readonly<Record<string, { label: string; hint?: string; isAccount?: true; isOptional?: true; rows?: number }>>
  /** The maximum number of payments in one batch. */
  most: number
  /** The maximum number of payments that one step reads. */
  readsAtOnce: number
  pays: (currency: string) => boolean
  /** The manual step after sending, if there is one. */
  remaining?: string
  /**
   * Sends the payments of a batch that the provider does not have yet, and returns whether it has all of them. A call that can move money
   * contains a stored key, so that a repeated call doesn't move money twice.
   */
  createBatch: (account: Account, batch: Batch, progress: Progress) => Promise<boolean>
  /** Reads the current states of these payments. */
  readItems: (account: Account, batch: Batch) => Promise<ItemReport[]>
  /** Returns whether the provider sent this webhook. A webhook only triggers a read. */
  isWebhook: (account: Account, webhook: Webhook) => Promise<boolean>
}

/** A program's account at a provider, and how to call it. */
export interface Account {
  livemode: boolean
  keys: Record<string, string>
  fetch: typeof fetch
}

export interface Webhook {
  body: string
  header: (name: string) => string | undefined
  now: number
}

export interface Batch {
  key: string
  /** The provider's id. */
  id: string | null
  currency: string
  programName: string
  /** When sending, these are the payments without an id. When reading, they are some of the payments whose state can still change. */
  items: BatchItem[]
}

export interface BatchItem {
  payoutId: number
  key: string
  /** The provider's id. */
  id: string | null
  recipient: string
  name: string
  amountCents: number
  /** True if an earlier call may have moved the payment's money. */
  isAttempted: boolean
}

/** Stores the progress before each call. */
export interface Progress {
  batchHasId: (id: string) => Promise<void>
  /** Marks these payments as attempted before the call, and returns them, except for payments that somebody has moved back to the run. */
  begin: (items: BatchItem[]) => Promise<BatchItem[]>
  /** Clears the mark after the provider refused the call, because in that case it has none of these payments. */
  undo: (items: BatchItem[]) => Promise<void>
  itemHasId: (item: BatchItem, id: string) => Promise<void>
  report: (reports: ItemReport[]) => Promise<void>
}

/**
 * The meaning of a provider's state. `sent` and `held` payments have no result yet. The provider is checking or repairing a `held` payment.
 */
export type Outcome = 'sent' | 'held' | 'unclaimed' | 'paid' | 'returned' | 'failed'

export interface ItemReport {
  payoutId: number
  outcome: Outcome
  /** The state in the provider's own term. */
  status: string
  reason: string | null
  /** The provider's id of the transfer. */
  reference: string
  /** The partner can claim the payment before this day (`2026-01-31`). */
  claimUntil?: string
}

/** Thrown if the provider refused a call and therefore did nothing. */
export class Refused extends Error {
  readonly status: number
  readonly body: string

  constructor(status: number, body: string) {
    super(`The provider answered ${status}: ${body.slice(0, 500)}`)
    this.status = status
    this.body = body
  }
}

interface Call {
  method?: 'GET' | 'POST' | 'PATCH'
  headers?: Record<string, string>
  /** An object is sent as JSON. */
  body?: string | object | undefined
}

const timeoutMilliseconds = 20_000
const longestAnswer = 20 * 1024 * 1024

/**
 * Statuses after which the effect of the call is unknown, and statuses for problems that a person can fix: keys, permissions, too many
 * calls.
 */
const isOpen = (status: number) => status >= 500 || [401, 403, 408, 409, 425, 429].includes(status)

/**
 * Calls a provider and returns its JSON. Throws `Refused` if the call certainly had no effect. Throws another error if that is unknown, or
 * if a retry can succeed.
 */
export async function call(account: Account, url: string, { method = 'GET', headers = {}, body }: Call = {}) {
  const isJson = typeof body === 'object'
  const response = await account.fetch(url, {
    method,
    headers: { accept: 'application/json', ...(isJson && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: isJson ? JSON.stringify(body) : body }),
    redirect: 'manual',
    signal: AbortSignal.timeout(timeoutMilliseconds),
  })
  const text = await response.text()
  if (text.length > longestAnswer) throw new Error('The provider sent a response that is too long.')
  if (isOpen(response.status)) throw new Error(`The provider answered ${response.status}: ${text.slice(0, 500)}`)
  if (!response.ok) throw new Refused(response.status, text)
  const json: unknown = text === '' ? {} : JSON.parse(text)
  return json
}
