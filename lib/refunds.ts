import { type RawBuilder, sql } from 'kysely'
import { keyRetiredColumn, type KeyState, programOfKeyCte, requireActiveKey } from './api-keys.ts'
import { outboxColumn, reversalEffectCtes } from './commissions.ts'
import { type Database, retryOnce } from './database.ts'
import { ApiError } from './errors.ts'
import { majorUnits } from './money.ts'
import type { OutboxMessage } from './outbox.ts'

/** One refund or chargeback. `amount_cents` null takes all that is left of the sale. */
export interface Refund {
  amount_cents: number | null
  /** The caller's or processor's id of this refund; a repeated one is ignored. Without it the amount is the key. */
  refund_id: string | null
  reason: 'refund' | 'chargeback'
  reason_text: string | null
}

export type AppliedRefund =
  | {
      status: 'reversed' | 'refunded'
      /** Commission reversed by this call, in the currency's major unit. */
      deductionAmount: number
      /** The same in minor units. */
      deduction_cents: number
      currency: string
      commission_id: number
    }
  | { status: 'skipped'; reason: 'already_reversed' | 'refund_already_applied'; commission_id: number }
  | { status: 'no_commission'; message: string }

export interface RefundRow extends KeyState {
  sale_id: string | null
  /** Null where nothing was left to refund. */
  refund_id: string | null
  /** Whether this request made that refund, now or in a try whose answer was lost. */
  applied: boolean | null
  known_key: boolean
  deduction_cents: string | null
  currency: string | null
  commission_id: string | null
  commission_was_reversed: boolean | null
  fully_refunded: boolean | null
  outbox: OutboxMessage[] | null
}

/** Locks the sale, its commission and the partner's balance, in this order and each in a statement of its own. */
function lockStatements(target: RawBuilder<unknown>) {
  return [
    sql`${target}
select from sales s where (s.program_id, s.id) in (select program_id, id from sale) for no key update`,
    sql`${target}
select from commissions c where (c.program_id, c.sale_id) in (select program_id, id from sale) for no key update`,
    sql`${target}
select from balances b where (b.program_id, b.partner_id, b.currency) in (
  select c.program_id, c.partner_id, c.currency from commissions c join sale s on c.program_id = s.program_id and c.sale_id = s.id
) for no key update`,
  ] as const
}

/**
 * The batch that applies a refund to one sale: it locks the sale, its commission and the partner's balance, and then writes. The write must be a later statement than the locks: a statement that waits
 * for a lock goes on reading its old snapshot, and sums read there over-refund.
 *
 * `sale` is the SELECT of the sale's row (all columns of `sales`), preceded by the CTEs in `scope`, which end without a comma.
 */
export function refundStatements(
  scope: RawBuilder<unknown>,
  sale: RawBuilder<unknown>,
  answer: RawBuilder<unknown>,
  refund: Refund,
  requestId: string,
) {
  const key =
    refund.amount_cents === null
      ? sql`'rest:' || s.refunded_cents`
      : sql`${refund.refund_id === null ? `amount:${refund.amount_cents}` : `id:${refund.refund_id}`}`
  const target = sql`with ${scope}, sale as (${sale})`
  return [
    ...lockStatements(target),
    sql<RefundRow>`${target},
prior as (select * from commissions c where (c.program_id, c.sale_id) in (select program_id, id from sale)),
known as (select r.* from refunds r join sale s on r.program_id = s.program_id and r.sale_id = s.id where r.refund_key = ${key} or r.request_id = ${requestId}::uuid limit 1),
asked as (
  select s.*, least(coalesce(${refund.amount_cents}::bigint, s.amount_cents), s.amount_cents - s.refunded_cents) as applied_cents
  from sale s where not exists (select from known) and s.refunded_cents < s.amount_cents
),
total as (
  select a.program_id, a.id as sale_id, a.applied_cents, a.transaction_id, a.refunded_cents + a.applied_cents as refunded_cents,
    a.amount_cents
  from asked a
),
change as (
  select t.program_id, t.sale_id, c.id as commission_id, c.partner_id, c.currency, c.credited_at, c.paid_at, c.created_at,
    div(c.amount_cents::numeric * t.refunded_cents, t.amount_cents)::bigint as reversed_cents,
    div(c.amount_cents::numeric * t.refunded_cents, t.amount_cents)::bigint - c.reversed_cents as delta_cents,
    case when t.refunded_cents = t.amount_cents then 'full' else 'partial' end as reversal, null::timestamptz as rejected_at,
    coalesce(${refund.reason_text}::text, ${refund.reason}::text) as reason,
    t.transaction_id, 'reversal' as notice
  from total t join prior c on c.sale_id = t.sale_id
  where c.status <> 'reversed'
),
refund as (
  insert into refunds (program_id, sale_id, refund_key, requested_cents, applied_cents, deduction_cents, reason, reason_text, request_id)
  select t.program_id, t.sale_id, ${refund.amount_cents === null ? sql`'rest:' || (t.refunded_cents - t.applied_cents)` : key},
    ${refund.amount_cents}::bigint, t.applied_cents, coalesce(c.delta_cents, 0), ${refund.reason}, ${refund.reason_text}, ${requestId}::uuid
  from total t left join change c on true
  returning program_id, id
),
refunded_sale as (
  update sales s set refunded_cents = t.refunded_cents from total t where s.program_id = t.program_id and s.id = t.sale_id
),
effect as (
  select c.*, r.id as refund_id, 'refund:' || r.id as cause from change c join refund r on r.program_id = c.program_id
),
${reversalEffectCtes}
select ${answer}, s.id as sale_id, coalesce(r.id, k.id) as refund_id, r.id is not null or k.request_id = ${requestId}::uuid as applied,
  k.id is not null as known_key, coalesce(e.delta_cents, k.deduction_cents) as deduction_cents, p.currency, p.id as commission_id,
  p.status = 'reversed' as commission_was_reversed,
  coalesce(t.refunded_cents, s.refunded_cents) = s.amount_cents as fully_refunded, ${outboxColumn}
from (select) answer
  left join sale s on true
  left join prior p on true
  left join known k on true
  left join total t on true
  left join refund r on true
  left join effect e on true`,
  ] as const
}

export interface ReturnRow {
  /** Null where there is no such sale. */
  sale_id: string | null
  refund_id: string | null
  /** Whether this batch put something back: false where the refund was put back before, or is not known yet. */
  returned: boolean | null
  outbox: OutboxMessage[] | null
}

/**
 * The batch that puts back a refund which failed or a dispute which was won: the sale's refunded total goes down by what the
 * refund moved, the commission to what then follows from it, and the difference returns to the balance it was taken from. A
 * rejected commission stays rejected. A refund that is not known yet is noted as put back, so that it is never applied,
 * whichever of the two is told first. `refundId` is the id the refund was applied with, `notice` whether the advertiser is
 * asked to look. `scope` and `sale` as for `refundStatements`.
 */
export function returnRefundStatements(
  scope: RawBuilder<unknown>,
  sale: RawBuilder<unknown>,
  refundId: string,
  notice: 'dispute_reinstated' | null,
) {
  const target = sql`with ${scope}, sale as (${sale})`
  return [
    ...lockStatements(target),
    sql<ReturnRow>`${target},
refund as (
  insert into refunds as stored (program_id, sale_id, refund_key, applied_cents, returned_at)
  select s.program_id, s.id, ${`id:${refundId}`}, 0, now() from sale s
  on conflict on constraint refunds_sale_key do update set returned_at = coalesce(stored.returned_at, excluded.returned_at)
  returning stored.*, old.id is not null and old.returned_at is null as returned
),
total as (
  select s.program_id, s.id as sale_id, s.transaction_id, s.amount_cents, r.id as refund_id, s.refunded_cents - r.applied_cents as refunded_cents
  from sale s join refund r on r.returned
),
refunded_sale as (
  update sales s set refunded_cents = t.refunded_cents from total t where s.program_id = t.program_id and s.id = t.sale_id
),
effect as (
  select t.program_id, t.refund_id, 'return:' || t.refund_id as cause, c.id as commission_id, c.partner_id, c.currency,
    div(c.amount_cents::numeric * t.refunded_cents, t.amount_cents)::bigint as reversed_cents,
    div(c.amount_cents::numeric * t.refunded_cents, t.amount_cents)::bigint - c.reversed_cents as delta_cents,
    case t.refunded_cents when 0 then 'none' else 'partial' end as reversal, null::timestamptz as rejected_at,
    case t.refunded_cents when 0 then null else c.reason end as reason,
    c.credited_at, c.paid_at, c.created_at, t.transaction_id, ${notice}::text as notice
  from total t join commissions c on c.program_id = t.program_id and c.sale_id = t.sale_id
  where c.rejected_at is null
),
${reversalEffectCtes}
select s.id as sale_id, r.id as refund_id, r.returned, ${outboxColumn}
from (select) answer left join sale s on true left join refund r on true`,
  ] as const
}

/**
 * Applies a refund to the sale with this transaction id in the key's program: one request, one transaction. The commission is
 * reversed in proportion to all that was refunded of the sale, and this call deducts the difference:
 * `reversed = floor(commission * refunded_total / sale_amount)`. A live sale comes before a test sale with the same id.
 * `onReversal` gets the messages to send; `requestId` (uuid) lets a try whose answer was lost be answered as it was applied.
 * Refuses with `not_found`.
 */
export async function refundSale(
  db: Database,
  keyHash: string,
  transactionId: string,
  refund: Refund,
  requestId: string,
): Promise<{ applied: AppliedRefund; outbox: OutboxMessage[] }> {
  const sale = sql`select s.* from sales s join program p on s.program_id = p.id where s.transaction_id = ${transactionId}
  order by s.is_test limit 1`
  const statements = refundStatements(programOfKeyCte(keyHash), sale, keyRetiredColumn, refund, requestId)
  const [, , , [row]] = await retryOnce(() => db.batch(statements))
  requireActiveKey(row)
  if (!row || row.sale_id === null) {
    throw new ApiError('not_found', `This program has no sale with the transaction_id "${transactionId}".`)
  }
  return { applied: asApplied(row), outbox: row.outbox ?? [] }
}

/** What became of a refund, from the row that its batch answered. */
export function asApplied(row: RefundRow): AppliedRefund {
  if (row.commission_id === null || row.currency === null) {
    return { status: 'no_commission', message: 'The sale earned no commission, so none was reversed.' }
  }
  const commissionId = Number(row.commission_id)
  if (!row.applied) {
    const reason = row.known_key ? 'refund_already_applied' : 'already_reversed'
    return { status: 'skipped', reason, commission_id: commissionId }
  }
  if (row.commission_was_reversed && !row.known_key) {
    return { status: 'skipped', reason: 'already_reversed', commission_id: commissionId }
  }
  const deductionCents = Number(row.deduction_cents)
  return {
    status: row.fully_refunded ? 'reversed' : 'refunded',
    deductionAmount: majorUnits(deductionCents, row.currency),
    deduction_cents: deductionCents,
    currency: row.currency,
    commission_id: commissionId,
  }
}

/**
 * Statements that bring a sale, its commission and the partner's balance to what its rows in `refunds` amount to, where this
 * transaction has added rows or marked them as returned (or has attributed a sale that was refunded before). `sale` is the SELECT
 * of the sale, whose row the transaction has locked. The last statement has column `outbox`.
 *
 * Refunds count in the order of their ids, each up to what those before it left of the sale, so their sum never exceeds what was paid;
 * one that was returned counts nothing and leaves its place to the others: a refund capped by a dispute counts in full again
 * when the dispute is won. The outcome therefore does not depend on the order in which they were told. The sum of `applied_cents` is
 * the sale's `refunded_cents`, that of `deduction_cents` what they reversed of the commission, by the same formula as in
 * `refundSale`. A commission that the advertiser rejected stays as it is.
 */
export function restateStatements(sale: RawBuilder<unknown>) {
  const touched = sql`with sale as (${sale}),
touched as (
  select s.* from sale s
  where exists (
    select from refunds r where r.program_id = s.program_id and r.sale_id = s.id and (r.created_at = now() or r.returned_at = now())
  ) or (s.refunded_cents > 0 and exists (
    select from commissions c where c.program_id = s.program_id and c.sale_id = s.id and c.created_at = now()
  ))
)`
  return [
    sql`${touched}
select from commissions c where (c.program_id, c.sale_id) in (select program_id, id from touched) for update`,
    sql`${touched}
select from balances b where (b.program_id, b.partner_id, b.currency) in (
  select c.program_id, c.partner_id, c.currency from commissions c join touched t on c.program_id = t.program_id and c.sale_id = t.id
) for update`,
    sql<{ outbox: OutboxMessage[] | null }>`${touched},
prior as (
  select c.* from commissions c join touched t on c.program_id = t.program_id and c.sale_id = t.id where c.rejected_at is null
),
line as (
  select r.*, t.amount_cents as sale_cents, r.returned_at = now() and r.created_at < now() as returned_now,
    least(t.amount_cents, sum(case when r.returned_at is null then coalesce(r.requested_cents, r.applied_cents) else 0 end)
      over (order by r.id))::bigint as total_cents
  from touched t join refunds r on r.program_id = t.program_id and r.sale_id = t.id
),
stated as (
  select l.*, l.total_cents - lag(l.total_cents, 1, 0::bigint) over w as new_applied_cents,
    (div(c.amount_cents::numeric * l.total_cents, l.sale_cents)
      - div(c.amount_cents::numeric * lag(l.total_cents, 1, 0::bigint) over w, l.sale_cents))::bigint as new_deduction_cents
  from line l left join prior c on true
  window w as (order by l.id)
),
restated_refund as (
  update refunds r set applied_cents = s.new_applied_cents, deduction_cents = coalesce(s.new_deduction_cents, r.deduction_cents)
  from stated s
  where r.program_id = s.program_id and r.id = s.id
    and (r.applied_cents <> s.new_applied_cents or r.deduction_cents <> s.new_deduction_cents)
),
total as (select coalesce(max(total_cents), 0) as refunded_cents from line),
restated_sale as (
  update sales s set refunded_cents = total.refunded_cents from touched t, total where s.program_id = t.program_id and s.id = t.id
),
change as (
  select t.program_id, t.id as sale_id, c.id as commission_id, c.partner_id, c.currency, c.credited_at, c.paid_at, c.created_at,
    c.reversal as prior_reversal, t.transaction_id, total.refunded_cents - t.refunded_cents as sale_refunded_cents,
    div(c.amount_cents::numeric * total.refunded_cents, t.amount_cents)::bigint as reversed_cents,
    div(c.amount_cents::numeric * total.refunded_cents, t.amount_cents)::bigint - c.reversed_cents as delta_cents,
    case total.refunded_cents when 0 then 'none' when t.amount_cents then 'full' else 'partial' end as reversal,
    (select coalesce(l.reason_text, l.reason) from line l where l.returned_at is null order by l.id desc limit 1) as reason
  from touched t, total, prior c
),
-- A change has one entry in the ledger, under the refund that made it: the newest where several did.
effect as (
  select c.*, cause.id as refund_id, case when c.delta_cents < 0 then 'return:' else 'refund:' end || cause.id as cause
  from change c cross join lateral (
    select l.id from line l
    order by case when c.delta_cents < 0 then l.returned_now else l.returned_at is null end desc nulls last, l.id desc limit 1
  ) cause
  where c.delta_cents <> 0 or (c.reversal <> c.prior_reversal and c.sale_refunded_cents > 0)
),
-- So little came back that the commission stays the same to the cent: nothing to tell.
unreversed_commission as (
  update commissions m set reversal = c.reversal, reason = c.reason from change c
  where m.program_id = c.program_id and m.id = c.commission_id and c.delta_cents = 0 and c.reversal <> c.prior_reversal
    and c.sale_refunded_cents < 0
),
${reversalEffectCtes},
reinstated as (
  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  select c.program_id, 'dispute_reinstated', 'advertiser', c.partner_id, 'return:' || l.id, jsonb_build_object(
    'commission_id', c.commission_id, 'transaction_id', c.transaction_id, 'amount_cents', -c.delta_cents, 'currency', c.currency,
    'reason', l.reason)
  from line l join change c on c.program_id = l.program_id and c.sale_id = l.sale_id
  where l.returned_now and l.reason = 'chargeback'
  returning program_id, id
)
select json_agg(json_build_object('program_id', program_id, 'outbox_id', id)) as outbox
from (select * from outbox_rows union all select * from reinstated) rows`,
  ] as const
}
