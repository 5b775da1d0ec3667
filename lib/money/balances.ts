import { sql } from 'kysely'
import type { Database } from '../database.ts'

/** What stands between a program and a partner in one currency, in minor units. */
export interface PartnerBalance {
  currency: string
  /** Commissions that wait for the end of their hold. */
  pending_cents: number
  /** What was credited and neither reversed nor paid. Below zero where more was reversed than was left. */
  balance_cents: number
  /** Held by open withdrawals. */
  requested_cents: number
  /** What can be withdrawn now: the balance without that, zero at the least. */
  available_cents: number
  /** Withdrawals paid to date. */
  paid_cents: number
}

/** A partner's money in a program, one entry for each currency, in the order of their codes. */
export async function readBalances(db: Database, programId: number, partnerId: number): Promise<PartnerBalance[]> {
  const rows = await db.query(sql<Record<keyof PartnerBalance, string>>`
    select currency, sum(pending_cents) as pending_cents, sum(balance_cents) as balance_cents,
      sum(requested_cents) as requested_cents, sum(paid_cents) as paid_cents
    from (
      select currency, amount_cents - reversed_cents as pending_cents, 0 as balance_cents, 0 as requested_cents, 0 as paid_cents
      from commissions
      where program_id = ${programId} and partner_id = ${partnerId} and credited_at is null and rejected_at is null
      union all
      select currency, 0, balance_cents, 0, 0 from balances where program_id = ${programId} and partner_id = ${partnerId}
      union all
      select currency, 0, 0, case status when 'requested' then amount_cents else 0 end,
        case status when 'paid' then amount_cents else 0 end
      from withdrawals where program_id = ${programId} and partner_id = ${partnerId}
    ) part
    group by currency order by currency`)
  return rows.map((row) => {
    const [pending_cents, balance_cents, requested_cents, paid_cents] = [
      Number(row.pending_cents),
      Number(row.balance_cents),
      Number(row.requested_cents),
      Number(row.paid_cents),
    ]
    const available_cents = Math.max(balance_cents - requested_cents, 0)
    return { currency: row.currency, pending_cents, balance_cents, requested_cents, available_cents, paid_cents }
  })
}
