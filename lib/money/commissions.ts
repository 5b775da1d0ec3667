import { sql } from 'kysely'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { messagesAbout, type OutboxMessage } from '../notifications/outbox.ts'

/**
 * Credits commissions whose hold has ended to their partners' balances, the longest waiting `limit` of them, and returns how
 * many it credited and whether more may wait. What a refund took before is not credited. It can be stopped anywhere, and run
 * twice at once: a run waits for the other's batch and passes over what that one credited.
 */
export async function approveDueCommissions(db: Database, limit: number): Promise<{ credited: number; more: boolean }> {
  const due = await retryOnce(() =>
    db.query(sql<{ program_id: string; id: string }>`select program_id, id from commissions
  where hold_until <= now() and credited_at is null and rejected_at is null and reversal <> 'full'
  order by hold_until, program_id, id limit ${limit}`),
  )
  return { credited: due.length === 0 ? 0 : await creditCommissions(db, due), more: due.length === limit }
}

/**
 * Credits commissions of a program before their hold ends, and returns how many. Those that are credited, rejected or fully
 * reversed already, or are not the program's, stay as they are.
 */
export async function approveCommissions(db: Database, programId: number, commissionIds: number[]): Promise<number> {
  return await creditCommissions(
    db,
    commissionIds.map((id) => ({ program_id: String(programId), id: String(id) })),
  )
}

/**
 * One batch: locks the commissions and then their balances, each in key order so that two batches cannot wait for each other in
 * a circle, and then credits what still is to be credited.
 */
async function creditCommissions(db: Database, commissions: { program_id: string; id: string }[]): Promise<number> {
  const chosen = sql`select c.* from commissions c
where (c.program_id, c.id) in (
    select * from unnest(${commissions.map((c) => c.program_id)}::bigint[], ${commissions.map((c) => c.id)}::bigint[])
  )
  and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full'`
  const [, , , [credited]] = await retryOnce(() =>
    db.batch([
      sql`${chosen} order by c.program_id, c.id for no key update of c`,
      sql`insert into balances (program_id, partner_id, currency)
select distinct program_id, partner_id, currency from (${chosen}) c order by 1, 2, 3
on conflict do nothing`,
      sql`select from balances b where (b.program_id, b.partner_id, b.currency) in (
  select program_id, partner_id, currency from (${chosen}) c
) order by b.program_id, b.partner_id, b.currency for no key update`,
      sql<{ count: string }>`with credit as (
  select c.program_id, c.partner_id, c.currency, c.id as commission_id, c.amount_cents - c.reversed_cents as amount_cents,
    b.entry_count + row_number() over w as entry_number,
    b.balance_cents + sum(c.amount_cents - c.reversed_cents) over w as balance_after_cents
  from (${chosen}) c
  join balances b on b.program_id = c.program_id and b.partner_id = c.partner_id and b.currency = c.currency
  window w as (partition by c.program_id, c.partner_id, c.currency order by c.id)
),
credited as (
  update commissions c set credited_at = now() from credit
  where c.program_id = credit.program_id and c.id = credit.commission_id
),
entry as (
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id)
  select program_id, partner_id, currency, entry_number, amount_cents, balance_after_cents - amount_cents, balance_after_cents,
    'commission_credited', commission_id
  from credit
),
moved as (
  update balances b set balance_cents = b.balance_cents + t.amount_cents, entry_count = b.entry_count + t.entries
  from (select program_id, partner_id, currency, sum(amount_cents) as amount_cents, count(*) as entries from credit group by 1, 2, 3) t
  where b.program_id = t.program_id and b.partner_id = t.partner_id and b.currency = t.currency
)
select count(*) as count from credit`,
    ]),
  )
  return Number(credited?.count ?? 0)
}

/**
 * Rejects a commission of a program for good, at any time: what is left of it is reversed, deducted from the balance where it
 * was credited, and the partner is told the reason. A rejected commission stays rejected whatever happens to its sale.
 * Returns what was deducted and the messages to send; rejecting it again changes nothing and deducts 0. Refuses with
 * `not_found`, and with `conflict` where refunds reversed it fully already.
 */
export async function rejectCommission(
  db: Database,
  programId: number,
  commissionId: number,
  reason: string,
): Promise<{ deduction_cents: number; currency: string; outbox: OutboxMessage[] }> {
  const statement = call('reject_commission', {
    of_program_id: programId,
    of_commission_id: commissionId,
    because: reason,
  })
  const [row] = await retryOnce(() => db.query(statement))
  if (!row?.outcome || row.currency === null) throw new ApiError('not_found', 'This program has no such commission.')
  if (row.outcome === 'reversed') {
    throw new ApiError('conflict', 'Refunds reversed this commission fully already, so there is nothing to reject.')
  }
  const outbox = messagesAbout({ program_id: programId, outbox_ids: row.outbox_ids })
  return { deduction_cents: row.deduction_cents ?? 0, currency: row.currency, outbox }
}
