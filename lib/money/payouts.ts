import { type InferResult, type Selectable, sql } from 'kysely'
import { refuse } from '../constraints.ts'
import { call, type Database, retryOnce, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type Filters, type Order, type Part, partOf, totalsOf } from '../keyset.ts'
import { containing, hasWords, kysely } from '../kysely.ts'
import { formatMoney } from '../money.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'
import type { DB } from '../schema.ts'
import { createTexts, type Texts } from '../texts/texts.ts'

export type PayoutStatus = Selectable<DB['payouts']>['status']

/** The states of a payout, by their names in the API. */
export const payoutStatuses = [
  'requested',
  'in_run',
  'sent',
  'unclaimed',
  'paid',
  'returned',
  'failed',
  'refused',
  'canceled',
] as const satisfies PayoutStatus[]

/** Returns whether a payout still reserves its money, because it is neither paid nor released. */
export const isOpenStatus = (status: string) =>
  status === 'requested' || status === 'in_run' || status === 'sent' || status === 'unclaimed'

export type Payout = InferResult<ReturnType<typeof payoutsStatement>>[number]

/** A payout after a decision, and the messages to send. */
interface Decided {
  payout: Payout
  outbox: RelayMessage[]
}

/** A transfer: its reference at the bank or PayPal (1 to 200 characters), and its day. */
export interface Transfer {
  reference: string
  paid_on: Date
}

/**
 * Parses the day on which money left. Returns null if the text isn't a date, or if the day hasn't begun anywhere. The first time zone
 * begins a day 14 hours before UTC. Also returns null for days before 2000, because browsers turn the two-digit year 26 into 0026.
 */
export function transferDay(text: string): Date | null {
  const day = new Date(`${text}T00:00:00Z`)
  const isDay = !Number.isNaN(day.getTime()) && day.toISOString().startsWith(`${text}T`)
  return isDay && text >= '2000' && day.getTime() <= Date.now() + 14 * 60 * 60 * 1000 ? day : null
}

/**
 * Requests a payout of `amountCents` from a partner's balance, up to the payable amount, and returns its id. `requestId` (uuid) identifies
 * the request. Repeating the request changes nothing. Adds the messages to send to `outbox`. Throws `conflict` if less is payable, or
 * if the amount is below the program's minimum.
 */
export async function askPayout(
  db: Database,
  ask: { programId: number; partnerId: number; currency: string; amountCents: number; requestId: string },
  outbox: RelayMessage[] = [],
  { fixed, money }: Pick<Texts, 'fixed' | 'money'> = createTexts({}, 'en'),
): Promise<number> {
  const { programId, partnerId, currency, amountCents, requestId } = ask
  if (!Number.isSafeInteger(amountCents) || amountCents <= 0) {
    throw new ApiError('invalid_request', 'Request an amount above zero.')
  }
  const statement = call('ask_payout', {
    of_program_id: programId,
    of_partner_id: partnerId,
    of_currency: currency,
    asked_cents: amountCents,
    request: requestId,
  })
  const [[row], [written]] = await retryOnce(() => db.batch([statement, writtenMessages()])).catch((error: unknown) => {
    // The partner is not notified in shadow mode.
    if (violatedConstraint(error) !== 'programs_not_in_shadow_mode') throw error
    throw new ApiError('conflict', 'This program pays nothing at the moment. Request the payout later.')
  })
  outbox.push(...messagesAbout({ program_id: programId, ...written }))
  if (row?.payout_id) return row.payout_id
  if (row?.needs_tax_form) {
    throw new ApiError('conflict', 'This program pays this amount once you have filed a tax form under Documents.')
  }
  const minimumCents = row?.minimum_cents ?? 0
  if (amountCents < minimumCents) {
    const amount = money(minimumCents, currency)
    throw new ApiError('conflict', fixed('This program only pays amounts of {amount} or more.', { amount }))
  }
  const amount = money(Math.max(row?.payable_cents ?? 0, 0), currency)
  throw new ApiError('conflict', fixed('Only {amount} is available now. Request that or less.', { amount }))
}

/**
 * Cancels a requested payout for its partner: the amount is payable again. Repeating it changes nothing. Throws `conflict` if the
 * payout is in a run, sent or decided, and `not_found` if the partner has no such payout.
 */
export async function cancelPayout(
  db: Database,
  programId: number,
  partnerId: number,
  payoutId: number,
): Promise<void> {
  const statement = call('cancel_payout', {
    of_program_id: programId,
    of_partner_id: partnerId,
    of_payout_id: payoutId,
  })
  const [row] = await retryOnce(() => db.query(statement))
  if (!row?.status) throw new ApiError('not_found', 'You have no such payout.')
  if (row.status === 'in_run') {
    throw new ApiError('conflict', 'This payout is in a payout run. Ask the program to exclude it.')
  }
  if (row.status === 'sent' || row.status === 'unclaimed') {
    throw new ApiError('conflict', "This payout is on its way and can't be canceled. Ask the program about it.")
  }
  if (row.status !== 'requested' && row.status !== 'canceled') {
    throw new ApiError(
      'conflict',
      "This payout was decided, so it can't be canceled. Reload the page to see its state.",
    )
  }
}

/**
 * Marks an open payout as paid, deducts it from the balance, marks the commissions that it pays (mark_paid in
 * migrations/functions/2_ledger/payout-lines.sql) and notifies the partner.
 *
 * `amountCents` is the transferred amount. Throws `conflict` if a reversal has reduced the payout since then, or if the payout is
 * refused or canceled. Throws `invalid_request` if the day is in a month before the payout's, and `not_found` if the program has
 * no such payout. Paying it again changes nothing.
 */
export async function payPayout(
  db: Database,
  programId: number,
  payoutId: number,
  amountCents: number,
  transfer: Transfer,
): Promise<Decided> {
  const statement = call('pay_payout', {
    of_program_id: programId,
    of_payout_id: payoutId,
    transferred_cents: amountCents,
    of_reference: transfer.reference,
    of_paid_on: transfer.paid_on,
  })
  const [[row], [payout], [written]] = await retryOnce(() =>
    db.batch([statement, one(programId, payoutId), writtenMessages()]),
  ).catch(refuse)
  if (!row?.status || !payout) throw notFound()
  const isOpen = isOpenStatus(row.status)
  if (!isOpen && row.status !== 'paid') {
    throw new ApiError('conflict', `This payout is ${row.status}. It cannot be paid.`)
  }
  if (isOpen && row.amount_cents !== amountCents) {
    const amount = formatMoney(row.amount_cents ?? 0, row.currency ?? '')
    throw new ApiError('conflict', `The amount of this payout is ${amount}. Pay that amount, then record it.`)
  }
  return { payout, outbox: messagesAbout({ program_id: programId, ...written }) }
}

/**
 * Refuses a payout, or excludes it from its run, before it is sent: the amount is payable again, and the partner gets the reason. Refusing
 * it again changes nothing. Throws `conflict` if the payout is sent, paid or canceled, and `not_found` if the program has no
 * such payout.
 */
export async function refusePayout(
  db: Database,
  programId: number,
  payoutId: number,
  reason: string,
): Promise<Decided> {
  const statement = call('refuse_payout', {
    of_program_id: programId,
    of_payout_id: payoutId,
    because: reason,
  })
  const [[row], [payout], [written]] = await retryOnce(() =>
    db.batch([statement, one(programId, payoutId), writtenMessages()]),
  )
  if (!row?.status || !payout) throw notFound()
  if (row.status === 'sent' || row.status === 'unclaimed') {
    throw new ApiError('conflict', 'This payout was sent. Mark it as failed if it does not arrive.')
  }
  if (row.status !== 'requested' && row.status !== 'in_run' && row.status !== 'refused') {
    throw new ApiError('conflict', `This payout is ${row.status}. It cannot be refused.`)
  }
  return { payout, outbox: messagesAbout({ program_id: programId, ...written }) }
}

/**
 * Records that a sent, unclaimed or paid payout did not arrive, because the transfer came back or failed. The amount is payable again: if
 * it was paid, an entry returns it to the balance. The partner gets the reason. Repeating it changes nothing. Throws `conflict` if
 * the payout is not sent yet or decided otherwise, and `not_found` if the program has no such payout.
 */
export async function returnPayout(
  db: Database,
  programId: number,
  payoutId: number,
  status: 'returned' | 'failed',
  reason: string,
): Promise<Decided> {
  const statement = call('return_payout', {
    of_program_id: programId,
    of_payout_id: payoutId,
    as_status: status,
    because: reason,
  })
  const [[row], [payout], [written]] = await retryOnce(() =>
    db.batch([statement, one(programId, payoutId), writtenMessages()]),
  ).catch(refuse)
  if (!row?.status || !payout) throw notFound()
  if (row.status === 'requested' || row.status === 'in_run') {
    throw new ApiError('conflict', 'This payout has not been sent yet. Refuse it, or mark it as paid first.')
  }
  if (!isOpenStatus(row.status) && row.status !== 'paid' && row.status !== status) {
    throw new ApiError('conflict', `This payout is ${row.status}. It cannot be marked as ${status}.`)
  }
  return { payout, outbox: messagesAbout({ program_id: programId, ...written }) }
}

const notFound = () => new ApiError('not_found', 'This program has no such payout.')

const one = (programId: number, payoutId: number) => payoutsStatement({ programId }, { limit: 1, payoutId })

export const payoutSorts = ['newest', 'oldest', 'amount'] as const

export interface PayoutList extends Part {
  /** Newest first by default. Other order: largest amount first. */
  sort?: (typeof payoutSorts)[number] | undefined
  /** Searches the partner's name and the transfer's reference. */
  search?: string | undefined
  status?: PayoutStatus | undefined
  partner_id?: number | undefined
  payoutRunId?: number | undefined
  payoutId?: number | undefined
  /** Created in this range, which excludes `to`. */
  from?: Date | undefined
  to?: Date | undefined
  updated_since?: Date | undefined
}

/** Lists payouts of a program, or of a person in all their programs as a partner. `list` selects, orders and limits them. */
export async function listPayouts(
  db: Database,
  of: { programId: number } | { userId: string },
  list: PayoutList,
): Promise<Payout[]> {
  return await db.query(payoutsStatement(of, list))
}

export const payoutTotals = (of: { programId: number } | { userId: string }, filters: Filters<PayoutList>) =>
  totalsOf(payoutsStatement(of, { ...filters, limit: 0 }), sql<number>`amount_cents`)

/** Reads one payout of a program. Throws `not_found`. */
export async function readPayout(db: Database, programId: number, payoutId: number): Promise<Payout> {
  const [payout] = await db.query(one(programId, payoutId))
  if (!payout) throw notFound()
  return payout
}

export function payoutsStatement(of: { programId: number } | { userId: string }, list: PayoutList) {
  const { status, partner_id, payoutRunId, payoutId, search, from, to, updated_since, sort = 'newest', ...part } = list
  let query = kysely
    .selectFrom('payouts as w')
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
    )
    .innerJoin('programs as g', 'g.id', 'w.program_id')
    .leftJoin('payout_items as i', (join) =>
      join.onRef('i.program_id', '=', 'w.program_id').onRef('i.payout_id', '=', 'w.id'),
    )
    .select((eb) => [
      'w.program_id',
      'g.name as program_name',
      'w.id',
      'w.partner_id',
      'p.name as partner_name',
      /** The partner's payout address, or else their e-mail address. */
      eb.fn.coalesce('p.payout_email', 'p.email').as('payout_email'),
      'p.payout_waits_until',
      /** The address that its run pays. Null without a run. */
      'w.payout_address',
      'w.currency',
      'w.requested_cents',
      /** The amount after reversals reduced it. */
      'w.amount_cents',
      'w.status',
      /** The reason for the refusal. */
      'w.reason',
      /** The run that contains the payout. Null if the partner requested it. */
      'w.payout_run_id',
      'w.reference',
      'w.paid_on',
      'w.created_at',
      'w.updated_at',
      'w.decided_at',
      /** The payment's state at its provider. Null without a provider. */
      'i.outcome as provider_outcome',
      'i.provider_reason',
      'i.claim_until',
    ])
  query = 'programId' in of ? query.where('w.program_id', '=', of.programId) : query.where('p.user_id', '=', of.userId)
  if (payoutRunId !== undefined) query = query.where('w.payout_run_id', '=', payoutRunId)
  if (status !== undefined) query = query.where('w.status', '=', status)
  if (partner_id !== undefined) query = query.where('w.partner_id', '=', partner_id)
  if (payoutId !== undefined) query = query.where('w.id', '=', payoutId)
  if (from !== undefined) query = query.where('w.created_at', '>=', from)
  if (to !== undefined) query = query.where('w.created_at', '<', to)
  if (updated_since !== undefined) query = query.where('w.updated_at', '>=', updated_since)
  if (search !== undefined) {
    query = query.where((eb) =>
      eb.or([hasWords(eb.ref('p.name'), search), eb('w.reference', 'ilike', containing(search))]),
    )
  }
  return partOf(query, sql.ref<number>('w.id'), part, orders[sort])
}

const amountOf = (id: number) =>
  kysely
    .selectFrom('payouts as n')
    .select('n.amount_cents')
    .where('n.program_id', '=', sql.ref<number>('w.program_id'))
    .where('n.id', '=', id)

const orders: Record<(typeof payoutSorts)[number], Order> = {
  newest: { ascending: false },
  oldest: { ascending: true },
  amount: { ascending: false, value: { by: sql.ref('w.amount_cents'), of: amountOf } },
}
