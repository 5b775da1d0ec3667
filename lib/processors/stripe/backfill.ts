import { type InferResult, sql } from 'kysely'
import { Stripe } from 'stripe'
import * as z from 'zod/mini'
import { call, type Database } from '../../database.ts'
import { ApiError, isTransient } from '../../errors.ts'
import { kysely } from '../../kysely.ts'
import type { RelayMessage } from '../../notifications/outbox.ts'
import { emailHash } from '../../tracking/customers.ts'
import { applyEvent } from '../apply-event.ts'
import { askStripe } from './ask.ts'
import { onAccount } from './client.ts'
import type { Fact, Purchase, WebhookEvent } from '../facts.ts'
import { id, type HashEmail, unixTime } from '../payload.ts'
import { readFact } from './read-event.ts'
import { readSubscription } from './read-subscription.ts'

const pageSize = 100
/** The number of objects that are applied at the same time. */
const together = 5

export type Backfill = InferResult<ReturnType<typeof backfillOf>>[number]
type Kind = Backfill['kind']

/** The lists in the order in which an import reads them. Objects with a customer come before payments, and payments come before refunds. */
const kinds: readonly Kind[] = ['customers', 'sessions', 'subscriptions', 'invoices', 'intents', 'refunds', 'disputes']

interface Page {
  data: { id: string }[]
  has_more: boolean
}

interface PageAsked {
  limit: number
  starting_after?: string
}

type List = (stripe: Stripe, page: PageAsked, created: { gte: number }, options: Stripe.RequestOptions) => Promise<Page>

/** The lists of an account, newest first, in the API version of the library. */
const lists: Record<Kind, List> = {
  // Includes customers and subscriptions of any age, because their invoices may be newer.
  customers: (stripe, page, _created, options) => stripe.customers.list(page, options),
  sessions: (stripe, page, created, options) =>
    stripe.checkout.sessions.list({ ...page, created, status: 'complete' }, options),
  subscriptions: (stripe, page, _created, options) => stripe.subscriptions.list({ ...page, status: 'all' }, options),
  invoices: (stripe, page, created, options) =>
    stripe.invoices.list({ ...page, created, status: 'paid', expand: ['data.payments'] }, options),
  intents: (stripe, page, created, options) => stripe.paymentIntents.list({ ...page, created }, options),
  refunds: (stripe, page, created, options) => stripe.refunds.list({ ...page, created }, options),
  disputes: (stripe, page, created, options) => stripe.disputes.list({ ...page, created }, options),
}

async function listPage(stripe: Stripe, { kind, account_id: accountId, last_id: lastId, reads_from: from }: Backfill) {
  const page = { limit: pageSize, ...(lastId !== null && { starting_after: lastId }) }
  return await lists[kind](stripe, page, { gte: Math.floor(from.getTime() / 1000) }, onAccount(accountId))
}

/** The event type that reports an object of each kind. The event type of subscriptions exists only here. */
const eventTypes: Record<Kind, string> = {
  customers: 'customer.updated',
  sessions: 'checkout.session.completed',
  subscriptions: 'customer.subscription.created',
  invoices: 'invoice.paid',
  intents: 'payment_intent.succeeded',
  refunds: 'refund.created',
  disputes: 'charge.dispute.funds_withdrawn',
}

const listed = z.looseObject({
  id,
  created: unixTime,
  /** Refunds have no metadata, but their payments do. */
  livemode: z.optional(z.boolean()),
  status: z.nullish(z.string()),
  /** The amount that a dispute moved. */
  balance_transactions: z.nullish(z.array(z.looseObject({ amount: z.int() }))),
})

/** If a dispute returned money, its event has a different type. */
function eventTypeOf(kind: Kind, { status, balance_transactions: moves }: z.output<typeof listed>): string {
  const gaveBack = kind === 'disputes' && (status === 'won' || moves?.some(({ amount }) => amount > 0))
  return gaveBack ? 'charge.dispute.funds_reinstated' : eventTypes[kind]
}

/** Returns a past object as an event, which has the same id in every backfill. */
async function eventOf(backfill: Backfill, object: unknown, hash: HashEmail): Promise<WebhookEvent | undefined> {
  const { account_id: account, kind } = backfill
  const about = listed.safeParse(object).data
  if (about === undefined || (kind === 'intents' && about.status !== 'succeeded')) return undefined
  const { id: objectId, livemode = true } = about
  // This is the customer's current metadata, not the metadata from the customer's creation.
  const created = kind === 'customers' ? new Date().toISOString() : about.created
  const type = eventTypeOf(kind, about)
  const fact =
    kind === 'subscriptions' ? readSubscription(object) : await readFact({ type, account, object, created }, hash)
  if (fact.kind === 'ignored') return undefined
  return {
    event_id: eventIdOf(objectId),
    event_type: type,
    account_id: account,
    livemode,
    event_created_at: new Date(created),
    fact,
    payload: null,
  }
}

const eventIdOf = (objectId: string) => `backfill_${objectId}`

/** Returns whether the fact itself contains a program or a click. */
const isNamed = (fact: Fact) =>
  (fact.kind === 'purchase' || fact.kind === 'customer') && (fact.program_id !== null || fact.click_id !== null)

/** Returns the ids under which the database may know an object. */
function namesOf(fact: Fact) {
  if (fact.kind === 'reversals')
    return { payment_ids: [fact.payment_intent_id, fact.charge_id, fact.invoice_id].filter((one) => one !== null) }
  if (fact.kind !== 'purchase') return { payment_ids: [] }
  const { payment_ids, processor_customer_id, started_at } = fact
  return { payment_ids, processor_customer_id, started_at, subscription_id: fact.sale?.subscription_id ?? null }
}

/**
 * Returns the relevant events of a page. A relevant event contains a program or a click, or belongs to a sale or a buyer of the account's
 * programs. Other payments of the account are not stored. Sends one request, and another one for the subscriptions of invoices.
 */
async function eventsThatCount(db: Database, accountId: string, events: WebhookEvent[]): Promise<WebhookEvent[]> {
  const past_objects = JSON.stringify(events.map(({ fact }) => namesOf(fact)))
  const modes = new Map<number | null, boolean | null>()
  for (const { place, is_test: isTest } of await db.query(
    call('known_of_past', { of_account_id: accountId, past_objects }),
  )) {
    if (modes.get(place) !== false) modes.set(place, isTest)
  }
  return events.flatMap((event, place) => {
    const isTest = modes.get(place)
    if (event.fact.kind === 'reversals') return typeof isTest === 'boolean' ? [{ ...event, livemode: !isTest }] : []
    const isPaid = event.fact.kind === 'purchase' && event.fact.sale !== null
    return isNamed(event.fact) || (isPaid && isTest === !event.livemode) ? [event] : []
  })
}

/** Returns the ids of the events that an earlier backfill recorded. */
async function recordedBefore(
  db: Database,
  { account_id, started_at }: Backfill,
  events: WebhookEvent[],
): Promise<string[]> {
  if (events.length === 0) return []
  const rows = await db.query(
    kysely
      .selectFrom('processor_events as e')
      .where('e.account_id', '=', account_id)
      .where(
        'e.event_id',
        'in',
        events.map(({ event_id: eventId }) => eventId),
      )
      .where('e.outcome', '=', 'recorded')
      .where('e.received_at', '<', started_at)
      .select('e.event_id'),
  )
  return rows.map(({ event_id: eventId }) => eventId)
}

const subscriptionOf = ({ fact }: WebhookEvent) =>
  fact.kind === 'purchase' && !isNamed(fact) ? (fact.sale?.subscription_id ?? null) : null

/** Adds the subscription's metadata, which was read earlier, to invoices without metadata. That metadata can be newer than the invoice. */
async function withSubscriptions(db: Database, accountId: string, events: WebhookEvent[]): Promise<WebhookEvent[]> {
  const wanted = events.map(subscriptionOf).filter((one) => one !== null)
  if (wanted.length === 0) return events
  const rows = await db.query(
    kysely
      .selectFrom('processor_events as e')
      .where('e.account_id', '=', accountId)
      .where('e.event_id', 'in', wanted.map(eventIdOf))
      .select(['e.event_id', 'e.fact'])
      .$castTo<{ event_id: string; fact: Purchase }>(),
  )
  const recorded = new Map(rows.map(({ event_id: eventId, fact }) => [eventId, fact]))
  return events.map((event) => {
    const subscription = recorded.get(eventIdOf(subscriptionOf(event) ?? ''))
    if (!subscription || event.fact.kind !== 'purchase') return event
    const { program_id, click_id, customer_key } = subscription
    return { ...event, fact: { ...event.fact, program_id, click_id, customer_key } }
  })
}

/** The result of a step. If `waits` is true, Stripe or the database didn't respond, and a later step does the work. */
export interface BackfillStep {
  status: Backfill['status'] | 'waits'
  outbox: RelayMessage[]
}

/**
 * Reads one page of a program's account and applies it like webhooks. It uses the same keys as webhooks, so repeated and concurrent runs
 * are safe. The progress is stored only after the whole page is applied. `secret` is EMAIL_HASH_KEY. Stripe's library itself retries if
 * Stripe asks for it.
 */
export async function stepBackfill(
  db: Database,
  stripe: Stripe,
  secret: string,
  programId: number,
): Promise<BackfillStep> {
  const [backfill] = await db.query(backfillOf(programId))
  if (backfill?.status !== 'running') return { status: backfill?.status ?? 'stopped', outbox: [] }
  const { account_id: accountId } = backfill
  if (!backfill.is_connected) {
    await advance(db, backfill, { status: 'stopped', problem: 'Stripe was disconnected.' })
    return { status: 'stopped', outbox: [] }
  }
  const outbox: RelayMessage[] = []
  try {
    const page = await listPage(stripe, backfill)
    const hash: HashEmail = (email) => emailHash(secret, email)
    const read = await Promise.all(page.data.map((object) => eventOf(backfill, object, hash)))
    const events = await withSubscriptions(
      db,
      accountId,
      read.filter((event) => event !== undefined),
    )
    const counted = events.length === 0 ? [] : await eventsThatCount(db, accountId, events)
    const before = new Set(await recordedBefore(db, backfill, counted))
    let recorded = 0
    for (let start = 0; start < counted.length; start += together) {
      const some = counted.slice(start, start + together)
      const applied = await Promise.all(some.map((event) => applyEvent(db, askStripe(stripe), event)))
      recorded += some.filter(
        (event, place) => applied[place]?.outcome === 'recorded' && !before.has(event.event_id),
      ).length
      outbox.push(...applied.flatMap((event) => event.outbox))
    }
    const last = page.data.at(-1)
    const next = kinds[kinds.indexOf(backfill.kind) + 1]
    const status = page.has_more || next ? 'running' : 'done'
    await advance(db, backfill, {
      status,
      problem: null,
      ...(page.has_more && last ? { last_id: last.id } : { last_id: null, kind: next ?? backfill.kind }),
      objects_read: backfill.objects_read + page.data.length,
      events_recorded: backfill.events_recorded + recorded,
    })
    return { status, outbox }
  } catch (error) {
    const { errors } = Stripe
    if (error instanceof errors.StripeInvalidRequestError || error instanceof errors.StripePermissionError) {
      await advance(db, backfill, { status: 'stopped', problem: `Stripe refused: ${error.message}` })
      return { status: 'stopped', outbox }
    }
    const name = error instanceof Error ? error.name : typeof error
    console.error(JSON.stringify({ error: 'backfill_waits', program_id: programId, kind: backfill.kind, name }))
    if (!(error instanceof errors.StripeError || error instanceof ApiError || isTransient(error))) throw error
    const isLimit = error instanceof errors.StripeRateLimitError
    await advance(db, backfill, {
      problem: isLimit
        ? 'Stripe is limiting calls. Reading continues later.'
        : 'Stripe or the database did not respond. Reading continues later.',
    })
    return { status: 'waits', outbox }
  }
}

type Change = Partial<Pick<Backfill, 'status' | 'problem' | 'kind' | 'last_id' | 'objects_read' | 'events_recorded'>>

/** Updates an import unless another step has advanced it or somebody stopped it. */
async function advance(db: Database, backfill: Backfill, change: Change): Promise<void> {
  await db.query(
    kysely
      .updateTable('processor_backfills')
      .set(change)
      .where('program_id', '=', backfill.program_id)
      .where('started_at', '=', backfill.started_at)
      .where('status', '=', 'running')
      .where('kind', '=', backfill.kind)
      .where('last_id', 'is not distinct from', backfill.last_id),
  )
}

export function backfillOf(programId: number) {
  return kysely
    .selectFrom('processor_backfills as b')
    .innerJoin('programs as p', 'p.id', 'b.program_id')
    .where('b.program_id', '=', programId)
    .select((eb) => [
      'b.program_id',
      'b.account_id',
      'b.reads_from',
      'b.status',
      'b.kind',
      'b.last_id',
      'b.objects_read',
      'b.events_recorded',
      'b.problem',
      // Compares milliseconds, because JavaScript dates aren't more precise.
      sql<Date>`date_trunc('milliseconds', ${eb.ref('b.started_at')})`.as('started_at'),
      eb.fn.coalesce(eb('p.processor_account_id', '=', eb.ref('b.account_id')), eb.lit(false)).as('is_connected'),
    ])
}

/** Returns the progress of a program's backfill. Returns undefined if there is none. */
export async function readBackfill(db: Database, programId: number): Promise<Backfill | undefined> {
  return (await db.query(backfillOf(programId)))[0]
}

/** Starts a backfill of the last `months` of a program's account. Throws `conflict` if no account is connected. */
export async function startBackfill(db: Database, programId: number, months: number): Promise<void> {
  const begun = await db.query(
    kysely
      .insertInto('processor_backfills')
      .columns(['program_id', 'account_id', 'reads_from', 'started_at'])
      .expression((eb) =>
        eb
          .selectFrom('programs as p')
          .where('p.id', '=', programId)
          .where('p.processor_account_id', 'is not', null)
          .select((inner) => [
            'p.id',
            inner.ref('p.processor_account_id').$notNull().as('account_id'),
            sql<Date>`now() - make_interval(months => ${months}::integer)`.as('reads_from'),
            sql<Date>`date_trunc('milliseconds', now())`.as('started_at'),
          ]),
      )
      .onConflict((conflict) =>
        conflict.column('program_id').doUpdateSet({
          account_id: sql.ref('excluded.account_id'),
          reads_from: sql.ref('excluded.reads_from'),
          started_at: sql.ref('excluded.started_at'),
          status: 'running',
          kind: 'customers',
          last_id: null,
          objects_read: 0,
          events_recorded: 0,
          problem: null,
        }),
      )
      .returning('program_id'),
  )
  if (begun.length === 0) throw new ApiError('conflict', 'Connect Stripe first.')
}

/** Stops a program's backfill. Events that it has applied are kept. */
export async function stopBackfill(db: Database, programId: number): Promise<void> {
  await turn(db, programId, 'running', 'stopped')
}

/** Resumes a stopped backfill. */
export async function resumeBackfill(db: Database, programId: number): Promise<void> {
  await turn(db, programId, 'stopped', 'running')
}

async function turn(db: Database, programId: number, from: Backfill['status'], to: Backfill['status']): Promise<void> {
  await db.query(
    kysely
      .updateTable('processor_backfills')
      .set({ status: to, problem: null })
      .where('program_id', '=', programId)
      .where('status', '=', from),
  )
}

/**
 * Continues a program's backfill page by page until it ends, waits, or `seconds` have passed. After that, a scheduled function continues.
 */
export async function continueBackfill(
  db: Database,
  stripe: Stripe,
  secret: string,
  { programId, seconds }: { programId: number; seconds: number },
): Promise<RelayMessage[]> {
  const until = Date.now() + seconds * 1000
  const outbox: RelayMessage[] = []
  let step: BackfillStep
  do {
    step = await stepBackfill(db, stripe, secret, programId)
    outbox.push(...step.outbox)
  } while (step.status === 'running' && Date.now() < until)
  return outbox
}

/** Returns the programs with a running backfill. */
export async function listRunningBackfills(db: Database): Promise<number[]> {
  const rows = await db.query(
    kysely.selectFrom('processor_backfills').where('status', '=', 'running').orderBy('started_at').select('program_id'),
  )
  return rows.map(({ program_id: programId }) => programId)
}
