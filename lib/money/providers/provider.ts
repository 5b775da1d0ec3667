/** A provider that pays the payouts of a run. Its file in this folder calls its API; lib/money/provider-batches.ts does the rest. */
export interface PayoutProvider {
  /** As people know it. */
  title: string
  /** The keys that a program enters, with their labels. */
  keys: Readonly<Record<string, { label: string; hint?: string; isOptional?: true; rows?: number }>>
  /** The most payments in one batch. */
  most: number
  /** The most payments that one step reads. */
  readsAtOnce: number
  pays: (currency: string) => boolean
  /** The step after sending that remains for a person, if there is one. */
  remaining?: string
  /**
   * Sends the payments of a batch that the provider does not have yet, and returns whether it has all of them. A call that can move money
   * carries a key that was stored before, so that repeating it moves nothing twice.
   */
  createBatch: (account: Account, batch: Batch, progress: Progress) => Promise<boolean>
  /** Reads the current states of these payments. */
  readItems: (account: Account, batch: Batch) => Promise<ItemReport[]>
  /** Whether the provider sent this webhook. A webhook only causes a reading. */
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
  /** For sending: the payments that have no id yet. For reading: some of those whose state can change. */
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
  /** Whether an earlier call can have moved its money. */
  isAttempted: boolean
}

/** Stores each step of sending before the next call. */
export interface Progress {
  batchHasId: (id: string) => Promise<void>
  /** Stores that a call that can move their money follows, and returns those that nobody took back in the meantime. */
  begin: (items: BatchItem[]) => Promise<BatchItem[]>
  /** The provider refused that call, so it has none of them. */
  undo: (items: BatchItem[]) => Promise<void>
  itemHasId: (item: BatchItem, id: string) => Promise<void>
  report: (reports: ItemReport[]) => Promise<void>
}

/** The meaning of a provider's state. `sent` is every state without a result. */
export type Outcome = 'sent' | 'unclaimed' | 'paid' | 'returned' | 'failed'

export interface ItemReport {
  payoutId: number
  outcome: Outcome
  /** The provider's own word. */
  status: string
  reason: string | null
  /** The provider's id of the transfer. */
  reference: string
  /** The day (`2026-01-31`) before which the partner can claim it. */
  claimUntil?: string
}

/** The provider refused a call, so it did nothing. */
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

/** Statuses that say nothing about whether the call had an effect, or that a person can fix: keys, rights, too many calls. */
const isOpen = (status: number) => status >= 500 || [401, 403, 408, 409, 425, 429].includes(status)

/**
 * Calls a provider and returns its JSON. Throws `Refused` if it certainly did nothing, and another error if that is unknown or a repeat can
 * succeed.
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
  if (text.length > longestAnswer) throw new Error('The provider sent too long an answer.')
  if (isOpen(response.status)) throw new Error(`The provider answered ${response.status}: ${text.slice(0, 500)}`)
  if (!response.ok) throw new Refused(response.status, text)
  const json: unknown = text === '' ? {} : JSON.parse(text)
  return json
}
