import { type Selectable, sql } from 'kysely'
import { type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { formatMoney } from '../money.ts'
import type { DB } from '../schema.ts'

export type WithdrawalStatus = Selectable<DB['withdrawals']>['status']

export type Withdrawal = Awaited<ReturnType<typeof listWithdrawals>>[number]

/**
 * Every change of a withdrawal happens under the lock of its partner's balance, reductions by reversals included, and in a
 * statement after the one that takes the lock.
 */
function lockBalance(balance: ReturnType<typeof sql>) {
  return sql`select from balances b where (b.program_id, b.partner_id, b.currency) in (${balance}) for no key update`
}

/**
 * Asks for a withdrawal of `amountCents` from a partner's balance, up to what no open withdrawal holds already, and returns its
 * id. `requestId` (uuid) names the request: one that is sent twice asks once. Refuses with `conflict` where less is available.
 */
export async function askWithdrawal(
  db: Database,
  ask: { programId: number; partnerId: number; currency: string; amountCents: number; requestId: string },
): Promise<number> {
  const { programId, partnerId, currency, amountCents, requestId } = ask
  if (!Number.isSafeInteger(amountCents) || amountCents <= 0) {
    throw new ApiError('invalid_request', 'Ask for an amount above zero.')
  }
  const [, [row]] = await retryOnce(() =>
    db.batch([
      lockBalance(sql`values (${programId}::bigint, ${partnerId}::bigint, ${currency})`),
      sql<{ id: string | null; available_cents: string }>`with known as (
  select id from withdrawals where program_id = ${programId} and request_id = ${requestId}::uuid and partner_id = ${partnerId}
),
available as (
  select coalesce((select balance_cents from balances
      where program_id = ${programId} and partner_id = ${partnerId} and currency = ${currency}), 0)
    - coalesce((select sum(amount_cents) from withdrawals
      where program_id = ${programId} and partner_id = ${partnerId} and currency = ${currency} and status = 'requested'), 0) as cents
),
asked as (
  insert into withdrawals (program_id, partner_id, currency, requested_cents, amount_cents, request_id)
  select ${programId}, ${partnerId}, ${currency}, ${amountCents}, ${amountCents}, ${requestId}::uuid
  from available where cents >= ${amountCents}::bigint and not exists (select from known)
  returning id
)
select coalesce((select id from asked), (select id from known)) as id, greatest(cents, 0) as available_cents from available`,
    ]),
  )
  if (row?.id) return Number(row.id)
  throw new ApiError(
    'conflict',
    `Only ${formatMoney(Number(row?.available_cents ?? 0), currency)} can be withdrawn now. Ask for that or less.`,
  )
}

/**
 * Marks an open withdrawal as paid, deducts it from the balance, and marks the commissions that it pays.
 *
 * What a balance holds after a payment is taken to be the newest of what was credited and not paid before; every older
 * commission is paid by this withdrawal. So a commission is marked where the commissions credited after it, not paid and with
 * what refunds left of them, hold at least what the balance still has. One that only a part of was paid waits for the next
 * payment, and once marked it stays marked, also where a refund reverses it later.
 *
 * `amountCents` is what was transferred: a withdrawal that a reversal has reduced meanwhile is refused with `conflict`. So are
 * refused and cancelled ones; `not_found` where the program has no such withdrawal. Paying it again changes nothing.
 */
export async function payWithdrawal(
  db: Database,
  programId: number,
  withdrawalId: number,
  amountCents: number,
): Promise<void> {
  const withdrawal = sql`select * from withdrawals where program_id = ${programId} and id = ${withdrawalId}`
  const unpaid = sql`from commissions c
  join (${withdrawal}) w on w.program_id = c.program_id and w.partner_id = c.partner_id and w.currency = c.currency
  join balance_entries e on e.program_id = c.program_id and e.cause = 'commission_credited' and e.commission_id = c.id
  where c.credited_at is not null and c.paid_at is null and c.amount_cents > c.reversed_cents`
  const [, , [row]] = await retryOnce(() =>
    db.batch([
      sql`select ${unpaid} order by c.id for no key update of c`,
      lockBalance(sql`select program_id, partner_id, currency from (${withdrawal}) w`),
      // A commission credited since the first statement is not locked. That it is also marked here and refunded at this moment is
      // one deadlock in a great many payments, which Postgres breaks and retryOnce repeats.
      sql<{
        status: WithdrawalStatus
        amount_cents: string
        currency: string
      }>`with prior as (${withdrawal}),
paid as (
  update withdrawals w set status = 'paid', decided_at = now() from prior
  where w.program_id = prior.program_id and w.id = prior.id and w.status = 'requested' and w.amount_cents = ${amountCents}
  returning w.*
),
payment as (
  select p.*, b.balance_cents, b.entry_count from paid p
  join balances b on b.program_id = p.program_id and b.partner_id = p.partner_id and b.currency = p.currency
),
entry as (
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, withdrawal_id)
  select program_id, partner_id, currency, entry_count + 1, -amount_cents, balance_cents, balance_cents - amount_cents,
    'withdrawal_paid', id
  from payment
),
moved as (
  update balances b set balance_cents = p.balance_cents - p.amount_cents, entry_count = p.entry_count + 1
  from payment p where b.program_id = p.program_id and b.partner_id = p.partner_id and b.currency = p.currency
),
unpaid as (
  select c.program_id, c.id, coalesce(sum(c.amount_cents - c.reversed_cents) over (
    order by e.entry_number desc rows between unbounded preceding and 1 preceding), 0) as newer_cents
  ${unpaid}
),
marked as (
  update commissions c set paid_at = now(), withdrawal_id = p.id
  from unpaid u, payment p
  where c.program_id = u.program_id and c.id = u.id and u.newer_cents >= p.balance_cents - p.amount_cents
)
select prior.status, prior.amount_cents, prior.currency from prior`,
    ]),
  )
  if (!row) throw notFound()
  if (row.status === 'paid') return
  if (row.status !== 'requested') throw new ApiError('conflict', `This withdrawal is ${row.status}. It cannot be paid.`)
  if (Number(row.amount_cents) !== amountCents) {
    const stands = formatMoney(Number(row.amount_cents), row.currency)
    throw new ApiError('conflict', `A reversal has reduced this withdrawal to ${stands}. Pay that amount.`)
  }
}

/**
 * Refuses an open withdrawal: its amount is available to the partner again, with the reason. Refusing it again changes nothing;
 * `conflict` where it is paid or cancelled, `not_found` where the program has none.
 */
export async function refuseWithdrawal(
  db: Database,
  programId: number,
  withdrawalId: number,
  reason: string,
): Promise<void> {
  const withdrawal = sql`from withdrawals where program_id = ${programId} and id = ${withdrawalId}`
  const [, [row]] = await retryOnce(() =>
    db.batch([
      lockBalance(sql`select program_id, partner_id, currency ${withdrawal}`),
      sql<{ status: WithdrawalStatus }>`with prior as (select * ${withdrawal}),
refused as (
  update withdrawals w set status = 'refused', reason = ${reason}, decided_at = now() from prior
  where w.program_id = prior.program_id and w.id = prior.id and w.status = 'requested'
)
select status from prior`,
    ]),
  )
  if (!row) throw notFound()
  if (row.status !== 'requested' && row.status !== 'refused') {
    throw new ApiError('conflict', `This withdrawal is ${row.status}. It cannot be refused.`)
  }
}

const notFound = () => new ApiError('not_found', 'This program has no such withdrawal.')

/**
 * Withdrawals of a program, the newest first: `limit` of them at most, below the id `before` where one is given; of one partner,
 * or with one status, where these are given.
 */
export async function listWithdrawals(
  db: Database,
  programId: number,
  options: { limit: number; before?: number | undefined; partnerId?: number; status?: WithdrawalStatus },
) {
  const { limit, before, partnerId, status } = options
  let query = kysely
    .selectFrom('withdrawals as w')
    .innerJoin('partners as p', 'p.id', 'w.partner_id')
    .select((eb) => [
      'w.id',
      'w.partner_id',
      'p.name as partner_name',
      /** Where it is to be paid: the partner's payout address, else their e-mail address. */
      eb.fn.coalesce('p.payout_email', 'p.email').as('payout_email'),
      'w.currency',
      'w.requested_cents',
      /** What it stands at, after reversals reduced it. */
      'w.amount_cents',
      'w.status',
      /** Why it was refused. */
      'w.reason',
      'w.created_at',
      'w.decided_at',
    ])
    .where('w.program_id', '=', programId)
    .orderBy('w.id', 'desc')
    .limit(limit)
  if (before !== undefined) query = query.where('w.id', '<', before)
  if (partnerId !== undefined) query = query.where('w.partner_id', '=', partnerId)
  if (status !== undefined) query = query.where('w.status', '=', status)
  return await db.query(query)
}
