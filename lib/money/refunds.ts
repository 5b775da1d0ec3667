import { type RawBuilder, sql } from 'kysely'
import { type KeyState, requireActiveKey } from '../access/api-keys.ts'
import { reverseCommissions } from './commissions.ts'
import { type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { majorUnits } from '../money.ts'
import type { OutboxMessage } from '../notifications/outbox.ts'

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

interface RefundRow extends KeyState {
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

/**
 * What makes a refund the same one when it is told again. "All that is left" needs no such name, since told again it finds
 * nothing left; it takes its request's.
 */
function refundKey({ amount_cents, refund_id }: Refund, requestId: string): string {
  if (amount_cents === null) return `rest:${requestId}`
  return refund_id === null ? `amount:${amount_cents}` : `id:${refund_id}`
}

/**
 * Applies a refund to the sale with this transaction id in the key's program: one request, one transaction. The commission is
 * reversed in proportion to all that was refunded of the sale, and this call deducts the difference:
 * `reversed = floor(commission * refunded_total / sale_amount)`. A live sale comes before a test sale with the same id.
 * `outbox` are the messages to send; `requestId` (uuid) lets a try whose answer was lost be answered as it was applied.
 * Refuses with `not_found`.
 */
export async function refundSale(
  db: Database,
  keyHash: string,
  transactionId: string,
  refund: Refund,
  requestId: string,
): Promise<{ applied: AppliedRefund; outbox: OutboxMessage[] }> {
  const { amount_cents, reason, reason_text } = refund
  const statement = sql<RefundRow>`select * from refund_sale(decode(${keyHash}, 'hex'), ${transactionId}, ${refundKey(refund, requestId)},
    ${amount_cents}, ${reason}, ${reason_text}, ${requestId})`
  const [row] = await retryOnce(() => db.query(statement))
  requireActiveKey(row)
  if (!row || row.sale_id === null) {
    throw new ApiError('not_found', `This program has no sale with the transaction_id "${transactionId}".`)
  }
  return { applied: asApplied(row), outbox: row.outbox ?? [] }
}

/** What became of a refund, from the row that `refund_sale` answered. */
function asApplied(row: RefundRow): AppliedRefund {
  if (row.commission_id === null || row.currency === null) {
    return { status: 'no_commission', message: 'The sale earned no commission, so none was reversed.' }
  }
  const commissionId = Number(row.commission_id)
  if (!row.applied) {
    const reason = row.known_key ? 'refund_already_applied' : 'already_reversed'
    return { status: 'skipped', reason, commission_id: commissionId }
  }
  const deductionCents = Number(row.deduction_cents)
  // The refund that reverses a commission deducts something, so one that deducted nothing came after the reversal.
  if (row.commission_was_reversed && deductionCents === 0) {
    return { status: 'skipped', reason: 'already_reversed', commission_id: commissionId }
  }
  return {
    status: row.fully_refunded ? 'reversed' : 'refunded',
    deductionAmount: majorUnits(deductionCents, row.currency),
    deduction_cents: deductionCents,
    currency: row.currency,
    commission_id: commissionId,
  }
}

/**
 * Statements that carry what the payment processor told of a sale's refunds and disputes into the sale, its commission and the
 * partner's balance. `sale` is the SELECT of the sale, `told` a SELECT from CTE `sale` of everything told of it so far: refund_id,
 * amount_cents, reason, reason_text, is_returned (it failed, or the dispute was won), told_at. What was carried over before is
 * left out, so they can be run after anything that may have brought something new. The last statement has column `outbox`.
 *
 * Where refunds and disputes come to more than was paid, what finds no room is capped; when something is returned, the others
 * take the room. So the outcome does not depend on the order in which they were told. Each step is told and entered in the
 * ledger by itself, in order: what is returned, then what was capped before, then what is new. A sale that was refunded before it
 * was attributed has its commission reduced now, refund by refund. A rejected commission stays as it is.
 */
export function settleRefundsStatements(sale: RawBuilder<unknown>, told: RawBuilder<unknown>) {
  const touched = sql`with sale as (${sale}),
refund_told as (select 'id:' || refund_id as refund_key, t.* from (${told}) t),
touched as (
  select s.*, s.refunded_cents > 0 and exists (
    select from commissions c where c.program_id = s.program_id and c.sale_id = s.id and c.created_at = now()
  ) as is_attributed_late
  from sale s
  where s.refunded_cents > 0 and exists (
    select from commissions c where c.program_id = s.program_id and c.sale_id = s.id and c.created_at = now()
  ) or exists (
    select from refund_told t left join refunds r on r.program_id = s.program_id and r.sale_id = s.id and r.refund_key = t.refund_key
    where r.id is null or (t.is_returned and r.returned_at is null)
  )
)`
  return [
    sql`with sale as (${sale})
select from sales s where (s.program_id, s.id) in (select program_id, id from sale) for no key update`,
    sql`${touched},
commission as (
  select c.* from commissions c where (c.program_id, c.sale_id) in (select program_id, id from touched) for no key update
)
select from balances b where (b.program_id, b.partner_id, b.currency) in (select program_id, partner_id, currency from commission)
for no key update`,
    sql<{ outbox: OutboxMessage[] | null }>`${touched},
prior as (
  select c.* from commissions c join touched s on c.program_id = s.program_id and c.sale_id = s.id where c.rejected_at is null
),
active as (
  select r.*, root.id as root_id, root.refund_key as root_key, root.requested_cents as asked_cents,
    exists (select from refund_told t where t.refund_key = root.refund_key and t.is_returned) as is_returned
  from touched s
  join refunds r on r.program_id = s.program_id and r.sale_id = s.id
  join refunds root on root.program_id = r.program_id and root.id = coalesce(r.continues_refund_id, r.id)
  where r.returned_at is null
),
candidate as (
  select 1 as phase, root_id as place, 'more:' || root_id || ':' || count(*) as refund_key, root_id as continues_refund_id,
    asked_cents as requested_cents, asked_cents - sum(applied_cents) as wanted_cents, min(reason) as reason,
    min(reason_text) as reason_text, null::timestamptz as returned_at
  from active where not is_returned group by root_id, asked_cents having asked_cents > sum(applied_cents)
  union all
  select 2, row_number() over (order by t.told_at, t.refund_key), t.refund_key, null, t.amount_cents,
    case when t.is_returned then 0 else t.amount_cents end, t.reason, t.reason_text, case when t.is_returned then now() end
  from refund_told t cross join touched s
  where not exists (
    select from refunds r where r.program_id = s.program_id and r.sale_id = s.id and r.refund_key = t.refund_key
  )
),
placed as (
  select c.*, s.program_id, s.id as sale_id, (
    least(s.amount_cents, kept.cents + sum(c.wanted_cents) over w)
    - least(s.amount_cents, kept.cents + sum(c.wanted_cents) over w - c.wanted_cents))::bigint as applied_cents
  from candidate c cross join touched s
  cross join (
    select s.refunded_cents - coalesce(sum(a.applied_cents) filter (where a.is_returned), 0) as cents
    from touched s left join active a on true group by s.refunded_cents
  ) kept
  window w as (order by c.phase, c.place)
),
move as (
  select row_number() over (order by phase, place) as step, m.* from (
    select -1 as phase, a.id as place, a.id as refund_id, null as refund_key, a.applied_cents as cents, a.reason, a.reason_text
    from active a join touched s on s.is_attributed_late where a.applied_cents > 0
    union all
    select 0, id, id, null, -applied_cents, reason, reason_text from active where is_returned and applied_cents > 0
    union all
    select phase, place, null, refund_key, applied_cents, reason, reason_text from placed where applied_cents > 0
  ) m
),
total as (
  select m.*, s.amount_cents as sale_cents,
    (case when s.is_attributed_late then 0 else s.refunded_cents end + sum(m.cents) over (order by m.step))::bigint as refunded_cents
  from move m cross join touched s
),
change as (
  select t.step, t.refund_id, t.refund_key, t.cents, t.reason, t.reason_text, t.refunded_cents, t.sale_cents, c.program_id,
    c.id as commission_id,
    (div(c.amount_cents::numeric * t.refunded_cents, t.sale_cents)
      - div(c.amount_cents::numeric * (t.refunded_cents - t.cents), t.sale_cents))::bigint as delta_cents
  from total t cross join prior c
),
added as (
  insert into refunds (program_id, sale_id, refund_key, continues_refund_id, requested_cents, applied_cents, deduction_cents, reason,
    reason_text, returned_at)
  select p.program_id, p.sale_id, p.refund_key, p.continues_refund_id, p.requested_cents, p.applied_cents, coalesce(c.delta_cents, 0),
    p.reason, p.reason_text, p.returned_at
  from placed p left join change c on c.refund_key = p.refund_key
  where p.applied_cents > 0 or p.phase = 2
  order by p.phase, p.place
  returning id, refund_key
),
changed as (
  update refunds r set
    returned_at = case when a.is_returned then now() end,
    deduction_cents = coalesce((select c.delta_cents from change c where c.refund_id = r.id and c.cents >= 0), r.deduction_cents)
  from active a cross join touched s
  where r.program_id = a.program_id and r.id = a.id and (a.is_returned or s.is_attributed_late)
),
refunded_sale as (
  update sales s set refunded_cents = s.refunded_cents
    + coalesce((select sum(applied_cents) from placed), 0) - coalesce((select sum(applied_cents) from active where is_returned), 0)
  from touched t where s.program_id = t.program_id and s.id = t.id
),
effect as (
  select c.program_id, c.step, c.commission_id, coalesce(c.refund_id, added.id) as refund_id,
    case when c.cents < 0 then 'return:' else 'refund:' end || coalesce(c.refund_id, added.id) as cause, c.delta_cents,
    case c.refunded_cents when 0 then 'none' when c.sale_cents then 'full' else 'partial' end as reversal,
    null::timestamptz as rejected_at, s.transaction_id,
    case when c.cents >= 0 then coalesce(c.reason_text, c.reason) when c.refunded_cents > 0 then (
      select coalesce(a.reason_text, a.reason) from active a where not a.is_returned order by a.id desc limit 1
    ) end as reason,
    case when c.cents > 0 then 'reversal' when c.cents < 0 and c.reason = 'chargeback' then 'dispute_reinstated' end as notice
  from change c cross join touched s left join added on added.refund_key = c.refund_key
)
${reverseCommissions}`,
  ] as const
}
