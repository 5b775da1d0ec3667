import { sql } from 'kysely'
import type { Database } from '../database.ts'

export const commissionStatuses = ['pending', 'approved', 'paid', 'refunded', 'reversed'] as const
export type CommissionStatus = (typeof commissionStatuses)[number]

export interface ListedCommission {
  program_id: number
  id: number
  kind: 'sale' | 'lead'
  partner_id: number
  partner_name: string
  status: CommissionStatus
  currency: string
  amount_cents: number
  reversed_cents: number
  /** Why it was reversed or rejected. */
  reason: string | null
  /** The sale it is of; null for a lead's. */
  transaction_id: string | null
  sale_cents: number | null
  hold_until: Date
  credited_at: Date | null
  rejected_at: Date | null
  created_at: Date
  /** What reversed it: refunds and chargebacks, the oldest first. `returned` ones were put back. */
  refunds: {
    amount_cents: number
    reason: 'refund' | 'chargeback'
    reason_text: string | null
    at: string
    returned: boolean
  }[]
}

/**
 * Commissions, the newest first: `limit` of them at most, below the id `before` where one is given; of one program, or of one
 * partner in all their programs, with one status where it is given.
 */
export async function listCommissions(
  db: Database,
  of: { programId: number } | { partnerId: number },
  options: { limit: number; before?: number | undefined; status?: CommissionStatus | undefined },
): Promise<ListedCommission[]> {
  const { limit, before = null, status = null } = options
  const bigints = ['program_id', 'id', 'partner_id', 'amount_cents', 'reversed_cents'] as const
  const rows = await db.query(sql<
    Omit<ListedCommission, (typeof bigints)[number] | 'sale_cents'> &
      Record<(typeof bigints)[number], string> & { sale_cents: string | null }
  >`
    select c.program_id, c.id, c.kind, c.partner_id, p.name as partner_name, c.status, c.currency, c.amount_cents, c.reversed_cents,
      c.reason, s.transaction_id, s.amount_cents as sale_cents, c.hold_until, c.credited_at, c.rejected_at, c.created_at,
      (
        select coalesce(json_agg(json_build_object('amount_cents', r.applied_cents, 'reason', r.reason, 'reason_text', r.reason_text,
          'at', r.created_at, 'returned', r.returned_at is not null) order by r.id), '[]')
        from refunds r where r.program_id = c.program_id and r.sale_id = c.sale_id
      ) as refunds
    from commissions c
    join partners p on p.id = c.partner_id
    left join sales s on s.program_id = c.program_id and s.id = c.sale_id
    where ${'programId' in of ? sql`c.program_id = ${of.programId}` : sql`c.partner_id = ${of.partnerId} and c.program_id in (select program_id from partner_programs where partner_id = ${of.partnerId})`}
      and c.id < coalesce(${before}::bigint, 9223372036854775807)
      and c.status = coalesce(${status}::text, c.status)
    order by c.id desc limit ${limit}`)
  return rows.map((row) => ({
    ...row,
    program_id: Number(row.program_id),
    id: Number(row.id),
    partner_id: Number(row.partner_id),
    amount_cents: Number(row.amount_cents),
    reversed_cents: Number(row.reversed_cents),
    sale_cents: row.sale_cents === null ? null : Number(row.sale_cents),
  }))
}

/** What a partner earned on each of the last `days` days (UTC) in one currency, the oldest first, after reversals. */
export async function earningsByDay(
  db: Database,
  partnerId: number,
  currency: string,
  days: number,
): Promise<{ date: string; amount_cents: number }[]> {
  const rows = await db.query(sql<{ date: string; amount_cents: string }>`
    select day.day::text as date, coalesce(sum(c.amount_cents - c.reversed_cents), 0) as amount_cents
    from (select (utc_day(now()) - n) as day from generate_series(0, ${days - 1}::int) n) day
    left join commissions c on utc_day(c.created_at) = day.day and c.currency = ${currency} and c.partner_id = ${partnerId}
      and c.created_at >= now() - make_interval(days => ${days})
      and c.program_id in (select program_id from partner_programs where partner_id = ${partnerId})
    group by day.day order by day.day`)
  return rows.map((row) => ({ date: row.date, amount_cents: Number(row.amount_cents) }))
}
