import { type InferResult, type NotNull, sql } from 'kysely'
import { storeCreated, type Created } from '../idempotency.ts'
import { refuse } from '../constraints.ts'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type Filters, type Part, partOf, totalsOf } from '../keyset.ts'
import { hasWords, kysely } from '../kysely.ts'
import { formatMoney } from '../money.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'
import { debtsStatement } from './balances.ts'
import { type Transfer, type PayoutList, payoutsStatement } from './payouts.ts'

/** The reasons why a payout run excludes a partner with a payable amount. */
export type Excluded = 'below_minimum' | 'no_payout_address' | 'payout_address_changed' | 'no_tax_form'

export type PayoutDue = InferResult<ReturnType<typeof dueStatement>>[number]
export type PayoutRun = InferResult<ReturnType<typeof runsStatement>>[number]

/** The time for all payments of a run in one statement. A payment takes up to 5 ms on a busy machine, so thousands exceed the usual time. */
const wholeRunMilliseconds = 60_000

/**
 * Creates a payout run and returns its id: one payout for each partner and currency whose payable amount (balance minus open payouts)
 * reaches the program's minimum. Returns null and stores nothing if no payout is due. `requestId` (uuid) identifies the request. Repeating
 * the request doesn't create a second run. Adds the messages to send to `outbox`.
 */
export async function createPayoutRun(
  db: Database,
  programId: number,
  requestId: string,
  outbox: RelayMessage[] = [],
): Promise<number | null> {
  return (await openPayoutRun(db, programId, requestId, outbox))?.id ?? null
}

/** Creates a payout run like `createPayoutRun`, and returns the whole run. */
export async function openPayoutRun(
  db: Database,
  programId: number,
  requestId: string,
  outbox: RelayMessage[],
): Promise<Created<PayoutRun> | null> {
  const make = call('create_payout_run', { of_program_id: programId, request: requestId })
  const read = storeCreated(runsStatement(programId).where('r.request_id', '=', requestId))
  const [, [run], [written]] = await retryOnce(() =>
    db.waiting(wholeRunMilliseconds).batch([make, read, writtenMessages()]),
  ).catch(refuse)
  outbox.push(...messagesAbout({ program_id: programId, ...written }))
  return run?.created ?? null
}

/**
 * Marks a run and its open payouts as paid, posts their entries and notifies the partners. Paying it again changes nothing and keeps the
 * first reference. Returns the run's reference and the messages to send. Throws `conflict` if `transferredCents` is given and differs
 * from the sum of the open payouts, because one of them changed. Throws `not_found` if the program has no such run.
 */
export async function payPayoutRun(
  db: Database,
  programId: number,
  runId: number,
  transfer: Transfer,
  transferredCents: number | null = null,
): Promise<{ reference: string | null; outbox: RelayMessage[] }> {
  const statement = call('pay_payout_run', {
    of_program_id: programId,
    of_run_id: runId,
    transferred_cents: transferredCents,
    of_reference: transfer.reference,
    of_paid_on: transfer.paid_on,
  })
  const readReference = kysely
    .selectFrom('payout_runs')
    .select('reference')
    .where('program_id', '=', programId)
    .where('id', '=', runId)
  const [[row], [run], [written]] = await retryOnce(() =>
    db.waiting(wholeRunMilliseconds).batch([statement, readReference, writtenMessages()]),
  ).catch(refuse)
  if (!row?.run_id || !run) throw noRun()
  if (!row.was_paid && transferredCents !== null && row.open_cents !== transferredCents) {
    throw new ApiError(
      'conflict',
      'The amounts of this run have changed. Reload the page and pay the amounts that it shows.',
    )
  }
  return { reference: run.reference, outbox: messagesAbout({ program_id: programId, ...written }) }
}

/**
 * Undoes marking a run as paid: entries return its payments to the balances, and its payouts get the status `sent` again. This is possible
 * for 24 hours, and only until the next run. After that, throws `conflict`. Doesn't change an open run. Throws `not_found`.
 */
export async function reopenPayoutRun(db: Database, programId: number, runId: number): Promise<void> {
  const [row] = await retryOnce(() =>
    db.waiting(wholeRunMilliseconds).query(call('reopen_payout_run', { of_program_id: programId, of_run_id: runId })),
  )
  if (!row?.run_id) throw noRun()
  if (!row.is_open) {
    throw new ApiError(
      'conflict',
      'This run was paid more than 24 hours ago, or there is a later run. Mark individual payouts as returned instead.',
    )
  }
}

/**
 * Records a payment of a partner's whole payable amount in a currency without a run, for partners below the minimum or without a
 * payout address. Returns the messages to send. Throws `conflict` if the payable amount is not `amountCents`.
 */
export async function payByHand(
  db: Database,
  payment: { programId: number; partnerId: number; currency: string; amountCents: number; requestId: string },
  transfer: Transfer,
): Promise<RelayMessage[]> {
  const { programId, partnerId, currency, amountCents, requestId } = payment
  const statement = call('pay_by_hand', {
    of_program_id: programId,
    of_partner_id: partnerId,
    of_currency: currency,
    transferred_cents: amountCents,
    of_reference: transfer.reference,
    of_paid_on: transfer.paid_on,
    request: requestId,
  })
  const [[row], [written]] = await retryOnce(() => db.batch([statement, writtenMessages()])).catch(refuse)
  if (!row?.payout_id) {
    const payable = formatMoney(Math.max(row?.payable_cents ?? 0, 0), currency)
    throw new ApiError('conflict', `${payable} is payable to this partner now. Pay that amount, then record it.`)
  }
  return messagesAbout({ program_id: programId, ...written })
}

const noRun = () => new ApiError('not_found', 'This program has no such payout run.')

/** Lists all payouts and exclusions that a payout run would have if it were created now, by the partner's name. */
export async function listPayoutsDue(db: Database, programId: number): Promise<PayoutDue[]> {
  return await db.query(dueStatement(programId).orderBy('p.name').orderBy('p.id').orderBy('d.currency'))
}

/** The parts of a due amount: the part that the next run pays, the part without a usable payout address, and the part below the minimum. */
export const dueParts = ['ready', 'details', 'below_minimum'] as const
export type DuePart = (typeof dueParts)[number]

export const payoutDueSorts = ['name', 'amount'] as const

interface PayoutDueList extends Part<string> {
  /** By the partner's name, or largest amount first. */
  sort?: (typeof payoutDueSorts)[number] | undefined
  /** Searches the partner's name. */
  search?: string | undefined
}

/** Reads the partner from a cursor such as `7-usd`. */
const partnerOf = (cursor: string) => sql`split_part(${cursor}, '-', 1)::bigint`

export const payoutDueTotals = (programId: number, filters: Filters<PayoutDueList>) =>
  totalsOf(duePageStatement(programId, { ...filters, limit: 0 }), sql<number>`payable_cents`)

/**
 * Lists a page of the payouts and exclusions that a run would have if it were created now. A row's cursor is its partner's id and the
 * currency: `7-usd`.
 */
export function duePageStatement(programId: number, { search, sort = 'name', ...part }: PayoutDueList) {
  let due = dueStatement(programId)
  if (search !== undefined) due = due.where(hasWords(sql.ref('p.name'), search))
  const order = {
    name: {
      ascending: true,
      value: {
        by: sql.ref('p.name'),
        of: (cursor: string) =>
          sql`(select name from partners where program_id = ${programId} and id = ${partnerOf(cursor)})`,
      },
    },
    amount: {
      ascending: false,
      value: {
        by: sql.ref('d.payable_cents'),
        of: (cursor: string) =>
          sql`(select payable_cents from payable_balances where program_id = ${programId} and partner_id = ${partnerOf(cursor)}
            and currency = split_part(${cursor}, '-', 2))`,
      },
    },
  }[sort]
  return partOf(due, sql<string>`(d.partner_id || '-' || d.currency)`, part, order)
}

/**
 * Asks partners with an account and a due amount for their missing payout address, each only once a day. Returns how many partners
 * it asked, and the messages to send.
 */
export async function askForPayoutAddress(
  db: Database,
  programId: number,
): Promise<{ count: number; outbox: RelayMessage[] }> {
  const ask = call('ask_for_missing', { of_program_id: programId, of_exclusion_reason: 'no_payout_address' })
  const [[row], [written]] = await retryOnce(() => db.batch([ask, writtenMessages()]))
  return {
    count: row?.ask_for_missing ?? 0,
    outbox: messagesAbout({ program_id: programId, ...written }),
  }
}

/**
 * Reads the due amounts in each currency, with separate totals for excluded partners and debts, and the program's minimum payouts.
 * `missing` counts the partners without a payout address. `askable` counts those who also have an account.
 */
export async function readPayoutsDue(db: Database, programId: number) {
  const [sums, [missing], minimums, debts] = await db.batch([
    kysely
      .selectFrom(dueStatement(programId).as('d'))
      .select((eb) => [
        'd.currency',
        eb
          .case()
          .when('d.exclusion_reason', 'is', null)
          .then(sql.lit<DuePart>('ready'))
          .when('d.exclusion_reason', '=', 'below_minimum')
          .then(sql.lit<DuePart>('below_minimum'))
          .else(sql.lit<DuePart>('details'))
          .end()
          .as('part'),
        eb.cast<number>(eb.fn.countAll(), 'bigint').as('balances'),
        eb.cast<number>(eb.fn.sum('d.payable_cents'), 'bigint').as('payable_cents'),
      ])
      .groupBy(['d.currency', 'part'])
      .orderBy('d.currency'),
    kysely
      .selectFrom('payouts_due as d')
      .innerJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'd.program_id').onRef('p.id', '=', 'd.partner_id'),
      )
      .select([
        sql<number>`count(distinct p.id) filter (where p.user_id is not null)`.as('askable'),
        sql<number>`count(distinct p.id) filter (where p.user_id is null)`.as('unknown'),
      ])
      .where('d.program_id', '=', programId)
      .where('d.exclusion_reason', '=', 'no_payout_address'),
    minimumsStatement(programId),
    debtsStatement(programId),
  ])
  return { sums, missing: missing ?? { askable: 0, unknown: 0 }, minimums, debts }
}

function dueStatement(programId: number) {
  return (
    kysely
      .selectFrom('payouts_due as d')
      .innerJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'd.program_id').onRef('p.id', '=', 'd.partner_id'),
      )
      .select([
        'p.id as partner_id',
        'p.name as partner_name',
        'd.payout_address',
        'd.currency',
        'd.payable_cents',
        'd.minimum_payout_cents',
        'd.exclusion_reason',
      ])
      // The generated types declare every column of a view as nullable.
      .$narrowType<{
        currency: NotNull
        payable_cents: NotNull
        minimum_payout_cents: NotNull
        exclusion_reason: Excluded | null
      }>()
      .where('d.program_id', '=', programId)
  )
}

export const payoutRunSorts = ['newest', 'oldest', 'payments'] as const

interface PayoutRunList extends Part {
  /** Newest first by default. Other orders: oldest first, or most payments first. */
  sort?: (typeof payoutRunSorts)[number] | undefined
  /** Searches the names of the run's partners, or matches the whole reference. */
  search?: string | undefined
}

/** Lists the payout runs of a program. `list` selects, orders and limits them. */
export async function listPayoutRuns(db: Database, programId: number, list: PayoutRunList): Promise<PayoutRun[]> {
  return await db.query(runListStatement(programId, list))
}

/** Lists the payout runs like `listPayoutRuns`, with the sums of their payments by run, currency and state. */
export async function listPayoutRunsWithSums(
  db: Database,
  programId: number,
  list: PayoutRunList,
): Promise<{ runs: PayoutRun[]; sums: RunSum[] }> {
  const listed = kysely.selectFrom(runListStatement(programId, list).as('r')).select('r.id')
  const [runs, sums] = await db.batch([
    runListStatement(programId, list),
    runSums(programId).where('w.payout_run_id', 'in', listed),
  ])
  return { runs, sums }
}

/** Counts the runs of a whole list, and sums their payments by currency and state. */
export async function readPayoutRunTotals(db: Database, programId: number, filters: Filters<PayoutRunList>) {
  const list = () => runListStatement(programId, { ...filters, limit: 0 }).clearLimit()
  const [runs, sums] = await db.batch([
    totalsOf(list()),
    paymentSums(programId)
      .where('w.payout_run_id', 'in', kysely.selectFrom(list().clearOrderBy().as('r')).select('r.id'))
      .groupBy(['w.currency', 'w.status'])
      .orderBy('w.currency')
      .orderBy('w.status'),
  ])
  return { runs, sums }
}

function runListStatement(programId: number, { search, sort = 'newest', ...part }: PayoutRunList) {
  let query = runsStatement(programId)
  if (search !== undefined) {
    query = query.where((eb) =>
      eb.or([
        eb('r.reference', '=', search),
        eb.exists(
          eb
            .selectFrom('payouts as w')
            .innerJoin('partners as p', (join) =>
              join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
            )
            .whereRef('w.program_id', '=', 'r.program_id')
            .whereRef('w.payout_run_id', '=', 'r.id')
            .where(hasWords(sql.ref('p.name'), search)),
        ),
      ]),
    )
  }
  const of = (id: number) =>
    kysely
      .selectFrom('payout_runs as n')
      .select('n.payments')
      .where('n.program_id', '=', programId)
      .where('n.id', '=', id)
      .$asScalar()
      .$notNull()
  const value = { by: sql.ref<number>('r.payments'), of }
  const order = sort === 'payments' ? { ascending: false, value } : { ascending: sort === 'oldest' }
  return partOf(query, sql.ref<number>('r.id'), part, order)
}

export type RunSum = InferResult<ReturnType<typeof runSums>>[number]

function paymentSums(programId: number) {
  return kysely
    .selectFrom('payouts as w')
    .select((eb) => [
      'w.currency',
      'w.status',
      eb.cast<number>(eb.fn.countAll(), 'bigint').as('payments'),
      eb.cast<number>(eb.fn.sum('w.amount_cents'), 'bigint').as('payable_cents'),
    ])
    .where('w.program_id', '=', programId)
}

/** Counts and sums the payments of runs by run, currency and state. */
function runSums(programId: number) {
  return paymentSums(programId)
    .leftJoin('payout_items as i', (join) =>
      join.onRef('i.program_id', '=', 'w.program_id').onRef('i.payout_id', '=', 'w.id'),
    )
    .select((eb) => [
      eb.ref('w.payout_run_id').$notNull().as('payout_run_id'),
      /** The number of payments at a provider. */
      eb.fn.count<number>('i.payout_id').as('at_provider'),
    ])
    .groupBy(['w.payout_run_id', 'w.currency', 'w.status'])
    .orderBy('w.currency')
    .orderBy('w.status')
}

function runsStatement(programId: number) {
  return kysely
    .selectFrom('payout_runs as r')
    .select(['r.id', 'r.created_at', 'r.reference', 'r.paid_on', 'r.paid_at', 'r.payments as payment_count'])
    .where('r.program_id', '=', programId)
}

/** A page of a run's exclusions. The cursor of a row is the partner's id and the currency: `7-usd`. */
interface ExclusionList extends Part<string> {
  /** Searches the partner's name. */
  search?: string | undefined
}

export type ExcludedPartner = InferResult<ReturnType<typeof exclusionsStatement>>[number]

export const exclusionCursor = ({ partner_id: id, currency }: { partner_id: number; currency: string }) =>
  `${id}-${currency}`

/**
 * Reads a payout run with its totals by currency and state and the number of its exclusions. Also reads one page of its payouts, oldest
 * first, or of its exclusions, by name. Throws `not_found`.
 */
export async function readPayoutRunPart(
  db: Database,
  programId: number,
  runId: number,
  of: { payments: PayoutList } | { excluded: ExclusionList },
) {
  const payments: PayoutList = 'payments' in of ? of.payments : { limit: 0 }
  const { search, ...part }: ExclusionList = 'excluded' in of ? of.excluded : { limit: 0 }
  const exclusions = exclusionsStatement(programId, runId, search)
  const byName = {
    ascending: true,
    value: {
      by: sql.ref('p.name'),
      of: (cursor: string) =>
        sql`(select name from partners where program_id = ${programId} and id = ${partnerOf(cursor)})`,
    },
  }
  const [[run], sums, [excludedCount], shown, excluded] = await db.batch([
    runsStatement(programId)
      .where('r.id', '=', runId)
      .select(sql<boolean>`is_reopenable(r)`.as('is_reopenable')),
    runSums(programId).where('w.payout_run_id', '=', runId),
    kysely
      .selectFrom('payout_run_exclusions as e')
      .select((eb) => eb.cast<number>(eb.fn.countAll(), 'bigint').as('count'))
      .where('e.program_id', '=', programId)
      .where('e.payout_run_id', '=', runId),
    payoutsStatement({ programId }, { ...payments, payoutRunId: runId, sort: 'oldest' }),
    partOf(exclusions, sql<string>`(e.partner_id || '-' || e.currency)`, part, byName),
  ])
  if (!run) throw noRun()
  return { ...run, sums, excludedCount: excludedCount?.count ?? 0, payments: shown, excluded }
}

export const exclusionTotals = (programId: number, runId: number, search: string | undefined) =>
  totalsOf(exclusionsStatement(programId, runId, search), sql<number>`payable_cents`)

function exclusionsStatement(programId: number, runId: number, search?: string) {
  const exclusions = kysely
    .selectFrom('payout_run_exclusions as e')
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'e.program_id').onRef('p.id', '=', 'e.partner_id'),
    )
    .select(['e.partner_id', 'p.name as partner_name', 'e.currency', 'e.payable_cents', 'e.reason'])
    .where('e.program_id', '=', programId)
    .where('e.payout_run_id', '=', runId)
  return search === undefined ? exclusions : exclusions.where(hasWords(sql.ref('p.name'), search))
}

/** Reads a payout run with its payouts in the order of their ids, and its exclusions. Throws `not_found`. */
export async function readPayoutRun(db: Database, programId: number, runId: number) {
  const [[run], payouts, excluded] = await db.batch([
    runsStatement(programId).where('r.id', '=', runId),
    kysely
      .selectFrom('payouts as w')
      .innerJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
      )
      .select([
        'w.id',
        'w.partner_id',
        'p.name as partner_name',
        'w.payout_address',
        'w.amount_cents',
        /** The amount before reversals reduced it. */
        'w.requested_cents',
        'w.currency',
        'w.status',
      ])
      .where('w.program_id', '=', programId)
      .where('w.payout_run_id', '=', runId)
      .orderBy('w.id'),
    exclusionsStatement(programId, runId).orderBy('p.name').orderBy('e.partner_id').orderBy('e.currency'),
  ])
  if (!run) throw noRun()
  return { ...run, payouts, excluded }
}

/** Sets the smallest amount in a currency that a run pays. 0 allows any amount. */
export async function setMinimumPayout(
  db: Database,
  programId: number,
  currency: string,
  minimumPayoutCents: number,
): Promise<void> {
  if (minimumPayoutCents === 0) {
    await db.query(
      kysely.deleteFrom('minimum_payouts').where('program_id', '=', programId).where('currency', '=', currency),
    )
    return
  }
  await db.query(
    kysely
      .insertInto('minimum_payouts')
      .values({ program_id: programId, currency, minimum_payout_cents: minimumPayoutCents })
      .onConflict((oc) =>
        oc.columns(['program_id', 'currency']).doUpdateSet({ minimum_payout_cents: minimumPayoutCents }),
      ),
  )
}

/** Reads the program's minimum payouts by currency. */
function minimumsStatement(programId: number) {
  return kysely
    .selectFrom('minimum_payouts')
    .select(['currency', 'minimum_payout_cents'])
    .where('program_id', '=', programId)
    .orderBy('currency')
}
