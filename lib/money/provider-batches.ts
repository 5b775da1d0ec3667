import { type InferResult, sql } from 'kysely'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { isCurrency } from '../money.ts'
import type { SecretsEnv } from '../processors/connections.ts'
import { readAccount } from './payout-connections.ts'
import type { BatchItem, ItemReport, Progress } from './providers/provider.ts'
import { isProvider, providers } from './providers/providers.ts'

const currencies = Intl.supportedValuesOf('currency').map((code) => code.toLowerCase())

/**
 * Puts the unsent payments of a run into batches for a provider, and returns their sum in minor units over all currencies. The scheduled
 * function sends them. From then on, their amounts and recipients can't change. Repeating the call sends nothing twice. Throws
 * `conflict` if the sum is not `confirmedCents`, and `not_found` if the program has no such run or connection.
 */
export async function sendRunToProvider(
  db: Database,
  programId: number,
  runId: number,
  connection: { id: string; provider: string },
  confirmedCents: number,
): Promise<void> {
  if (!isProvider(connection.provider)) throw noBatch()
  const { pays, most } = providers[connection.provider]
  const [row] = await retryOnce(() =>
    db.query(
      call('create_payout_batches', {
        of_program_id: programId,
        of_run_id: runId,
        of_connection_id: connection.id,
        currencies: currencies.filter((currency) => isCurrency(currency) && pays(currency)),
        most,
        confirmed_cents: confirmedCents,
      }),
    ),
  )
  if (!row?.run_id) throw noBatch()
  if (row.sum_cents !== confirmedCents) {
    throw new ApiError(
      'conflict',
      'The amounts of this run have changed. Reload the page, check the new amounts and send the run again.',
    )
  }
}

const noBatch = () => new ApiError('not_found', 'This program has no such payout run or provider.')

/** Sums the unsent payments of a run that a provider can pay, by currency. */
export async function readSendable(db: Database, programId: number, runId: number, provider: string) {
  if (!isProvider(provider)) return []
  const paid = currencies.filter((currency) => providers[provider].pays(currency))
  return await db.query(
    kysely
      .selectFrom(
        sql<{
          currency: string
          amount_cents: number
        }>`payments_for_provider(${programId}, ${runId}, ${provider}, ${paid})`.as('p'),
      )
      .select((eb) => [
        'p.currency',
        eb.cast<number>(eb.fn.countAll(), 'bigint').as('payments'),
        eb.cast<number>(eb.fn.sum('p.amount_cents'), 'bigint').as('payable_cents'),
      ])
      .groupBy('p.currency')
      .orderBy('p.currency'),
  )
}

export type RunBatch = InferResult<ReturnType<typeof batchesOf>>[number]

/** Lists the batches of a run, each with its number of payments and of unattempted payments. */
export async function listRunBatches(db: Database, programId: number, runId: number): Promise<RunBatch[]> {
  return await db.query(batchesOf(programId, runId))
}

function batchesOf(programId: number, runId: number) {
  return kysely
    .selectFrom('payout_batches as b')
    .innerJoin('payout_connections as c', 'c.id', 'b.connection_id')
    .leftJoin('payout_items as i', (join) =>
      join.onRef('i.program_id', '=', 'b.program_id').onRef('i.batch_id', '=', 'b.id'),
    )
    .select(['b.id', 'c.provider', 'b.currency', 'b.status', 'b.provider_batch_id', 'b.problem', 'b.created_at'])
    .select([
      sql<number>`count(i.payout_id)`.as('payments'),
      sql<number>`count(i.payout_id) filter (where i.attempted_at is null and i.outcome is null)`.as('unsent'),
    ])
    .where('b.program_id', '=', programId)
    .where('b.payout_run_id', '=', runId)
    .groupBy(['b.program_id', 'b.id', 'c.id'])
    .orderBy('b.id')
}

/** Moves payments that didn't reach the provider from a batch back to their run. Returns their number. */
export async function stopBatch(db: Database, programId: number, batchId: number): Promise<number> {
  const [row] = await retryOnce(() =>
    db.query(call('stop_payout_batch', { of_program_id: programId, of_batch_id: batchId })),
  )
  return row?.stop_payout_batch ?? 0
}

interface Continuing {
  /** Only batches of this connection. */
  connectionId?: string
  /** The time to stop, in milliseconds since 1970. */
  until: number
  fetch?: typeof fetch
}

/** Continues all due batches: sends their unsent payments, then reads the states of the payments. Returns their number. */
export async function continueBatches(
  db: Database,
  env: SecretsEnv,
  { connectionId, until, fetch: fetcher = (url, init) => fetch(url, init) }: Continuing,
): Promise<number> {
  for (let steps = 0; ; steps++) {
    const [batch] = Date.now() < until ? await db.query(claim(connectionId)) : []
    if (!batch) return steps
    await step(db, env, batch, fetcher)
  }
}

type ClaimedBatch = InferResult<ReturnType<typeof claim>>[number]

/** Claims a due batch for ten minutes or until its step ends, so that no two workers continue one batch. */
function claim(connectionId: string | undefined) {
  let due = kysely
    .selectFrom('payout_batches')
    .select('id')
    .where('next_step_at', '<=', now)
    .where('status', 'in', ['sending', 'sent'])
  if (connectionId !== undefined) due = due.where('connection_id', '=', connectionId)
  return kysely
    .updateTable('payout_batches')
    .set({ next_step_at: sql<Date>`now() + interval '10 minutes'` })
    .where('id', 'in', due.orderBy('next_step_at').limit(1).forNoKeyUpdate().skipLocked())
    .returning([
      'program_id',
      'id',
      'connection_id',
      'currency',
      'batch_key',
      'provider_batch_id',
      'status',
      'created_at',
    ])
}

const minute = 60_000
const day = 86_400_000
/** Providers forget idempotency keys after 30 days. */
const repeatableDays = 25
/** Money can come back for weeks after it was paid. After that, only open payments are read. */
const watchedDays = 60
/** A webhook doesn't reopen older batches. Otherwise it could cause hundreds of reads. */
const reopenedDays = 180

/** Continues one batch, stores the problem if the provider can't be reached or refuses, and plans the next step. */
async function step(db: Database, env: SecretsEnv, batch: ClaimedBatch, fetcher: typeof fetch): Promise<void> {
  const plan = async (set: {
    status?: 'sending' | 'sent' | 'done'
    problem: string | null
    inMilliseconds: number
  }) => {
    await db.query(
      kysely
        .updateTable('payout_batches')
        .set({
          ...(set.status && { status: set.status }),
          problem: set.problem?.slice(0, 1000).toWellFormed() ?? null,
          next_step_at: new Date(Date.now() + set.inMilliseconds),
        })
        .where('program_id', '=', batch.program_id)
        .where('id', '=', batch.id)
        .where('status', 'in', ['sending', 'sent']),
    )
  }
  const age = Date.now() - batch.created_at.getTime()
  const isOld = age > watchedDays * day
  let hasOpen = true
  if (batch.status === 'sending' && age > repeatableDays * day) {
    const problem = `This batch is too old to be repeated safely. Look for ${batch.batch_key} at the provider, and disconnect it to decide yourself.`
    return await plan({ problem, inMilliseconds: day })
  }
  try {
    const found = await readAccount(db, env, batch.connection_id, fetcher)
    if (!found) return await plan({ status: 'done', problem: 'The provider is disconnected.', inMilliseconds: 0 })
    const { account, provider } = found
    const isSending = batch.status === 'sending'
    const items = await readItems(
      db,
      batch,
      isSending ? 'unsent' : 'undecided',
      isSending ? provider.most : provider.readsAtOnce,
    )
    hasOpen = isSending || items.some(({ openInBatch }) => openInBatch > 0)
    const [program] = await db.query(kysely.selectFrom('programs').select('name').where('id', '=', batch.program_id))
    const known = {
      key: batch.batch_key,
      id: batch.provider_batch_id,
      currency: batch.currency,
      programName: program?.name ?? '',
      items,
    }
    if (isSending) {
      const isComplete = await provider.createBatch(account, known, progressOf(db, batch))
      return await plan({
        ...(isComplete && { status: 'sent' }),
        problem: null,
        inMilliseconds: isComplete ? minute : 0,
      })
    }
    const paidAnyway = await report(db, batch, await provider.readItems(account, known))
    const problem =
      paidAnyway.length === 0
        ? null
        : `${provider.title} paid payout ${paidAnyway.join(', ')} although it is marked as failed. Deduct the amount from the partner's balance.`
    const isOver = items.length === 0 || (isOld && !hasOpen)
    const pause = !hasOpen || isOld ? day : age < day ? 5 * minute : 60 * minute
    return await plan({ ...(isOver && { status: 'done' }), problem, inMilliseconds: pause })
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    const isOver = isOld && !hasOpen
    await plan({ ...(isOver && { status: 'done' }), problem, inMilliseconds: isOld ? day : 10 * minute })
  }
}

/**
 * Selects the payments of a batch that are unsent or whose state can still change. Payments that were read least recently come first.
 */
async function readItems(db: Database, batch: ClaimedBatch, which: 'unsent' | 'undecided', limit: number) {
  let query = kysely
    .selectFrom('payout_items as i')
    .innerJoin('payouts as w', (join) =>
      join.onRef('w.program_id', '=', 'i.program_id').onRef('w.id', '=', 'i.payout_id'),
    )
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
    )
    .select(['w.id as payoutId', 'i.item_key as key', 'i.provider_item_id as id', 'i.recipient', 'p.name'])
    .select((eb) => [
      'w.amount_cents as amountCents',
      eb('i.attempted_at', 'is not', null).$castTo<boolean>().as('isAttempted'),
      // Of the whole batch, because a step reads only some payments. A person decided on a payment that was never attempted.
      sql<number>`count(*) filter (where i.attempted_at is not null and i.outcome is distinct from 'paid') over ()`.as(
        'openInBatch',
      ),
    ])
    .where('i.program_id', '=', batch.program_id)
    .where('i.batch_id', '=', batch.id)
  query =
    which === 'unsent'
      ? query.where('i.provider_item_id', 'is', null).where('i.outcome', 'is', null)
      : query.where((eb) => eb(eb.fn.coalesce('i.outcome', sql.lit('sent')), 'not in', ['returned', 'failed']))
  return await db.query(
    query
      .orderBy(sql`i.read_at nulls first`)
      .orderBy('w.id')
      .limit(limit),
  )
}

/** Stores reports. Returns the payouts that a person had marked as failed, but that the provider paid. */
async function report(db: Database, { program_id, id }: ClaimedBatch, reports: ItemReport[]): Promise<number[]> {
  if (reports.length === 0) return []
  const rows = reports.map(({ payoutId, claimUntil, reason, reference, ...rest }) => ({
    payout_id: payoutId,
    claim_until: claimUntil ?? null,
    reason: reason?.slice(0, 900).toWellFormed() ?? null,
    reference: reference.slice(0, 200),
    ...rest,
  }))
  const statement = call('report_payout_items', {
    of_program_id: program_id,
    of_batch_id: id,
    reports: JSON.stringify(rows),
  })
  const [row] = await retryOnce(() => db.query(statement))
  return row?.report_payout_items ?? []
}

function progressOf(db: Database, batch: ClaimedBatch): Progress {
  const itemsOf = (items: BatchItem[]) =>
    kysely
      .updateTable('payout_items')
      .where('program_id', '=', batch.program_id)
      .where('batch_id', '=', batch.id)
      .where(
        'payout_id',
        'in',
        items.map(({ payoutId }) => payoutId),
      )
  return {
    async batchHasId(id) {
      await db.query(
        kysely
          .updateTable('payout_batches')
          .set({ provider_batch_id: id })
          .where('program_id', '=', batch.program_id)
          .where('id', '=', batch.id),
      )
    },
    async begin(items) {
      if (items.length === 0) return []
      const begun = await db.query(
        itemsOf(items)
          // A person may have decided on the payment after the provider was disconnected.
          .where((eb) =>
            eb.exists(
              eb
                .selectFrom('payouts as w')
                .whereRef('w.program_id', '=', 'payout_items.program_id')
                .whereRef('w.id', '=', 'payout_items.payout_id')
                .where('w.status', '=', 'sent'),
            ),
          )
          .set({ attempted_at: sql<Date>`coalesce(attempted_at, ${now})` })
          .returning('payout_id'),
      )
      const ids = new Set(begun.map(({ payout_id: id }) => id))
      return items.filter(({ payoutId }) => ids.has(payoutId))
    },
    async undo(items) {
      const first = items.filter(({ isAttempted }) => !isAttempted)
      if (first.length > 0)
        await db.query(itemsOf(first).set({ attempted_at: null }).where('provider_item_id', 'is', null))
    },
    async itemHasId(item, id) {
      await db.query(itemsOf([item]).set({ provider_item_id: id }))
    },
    async report(reports) {
      await report(db, batch, reports)
    },
  }
}

/**
 * Checks a webhook of a provider, and makes the batches of its connection due. It also reopens finished batches, at most once a day, because
 * money can come back after months. Throws `not_found` and `invalid_signature`.
 */
export async function receiveProviderWebhook(
  db: Database,
  env: SecretsEnv,
  connectionId: string,
  webhook: { body: string; header: (name: string) => string | undefined; now: number },
  fetcher: typeof fetch = (url, init) => fetch(url, init),
): Promise<void> {
  const found = /^pay_[\w-]{43}$/.test(connectionId) ? await readAccount(db, env, connectionId, fetcher) : undefined
  if (!found) throw new ApiError('not_found', 'There is no such connection. Copy the address from the payout settings.')
  if (!(await found.provider.isWebhook(found.account, webhook)))
    throw new ApiError('invalid_signature', 'The signature does not match. Check the webhook key of this connection.')
  await db.query(
    kysely
      .updateTable('payout_batches')
      .set({ status: 'sent', next_step_at: now })
      .where('connection_id', '=', connectionId)
      .where((eb) =>
        eb.or([
          eb('status', '=', 'sent'),
          eb.and([
            eb('status', '=', 'done'),
            eb('next_step_at', '<=', now),
            eb('created_at', '>', new Date(Date.now() - reopenedDays * day)),
          ]),
        ]),
      ),
  )
}
