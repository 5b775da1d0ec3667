-- a payout was payable at its creation: the balance covered it in addition to older payouts that were paid later or are still open
with payout as (
  select w.program_id, w.partner_id, w.currency, w.id, w.requested_cents, w.amount_cents, w.decided_at, w.created_at_entry_number,
    (
      select max(e.entry_number) from balance_entries e
      where e.program_id = w.program_id and e.payout_id = w.id and e.cause = 'payout_paid'
    ) as paid_at_entry_number
  from payouts w
  where ($1::bigint is null or w.program_id = $1)
)
select w.program_id, 'payout ' || w.id as subject, format('%s beside %s', w.requested_cents, coalesce(sum(o.amount_cents), 0)) as found,
  'up to ' || coalesce(max(e.balance_after_cents), 0) as expected
from payout w
left join balance_entries e on e.program_id = w.program_id and e.partner_id = w.partner_id and e.currency = w.currency
  and e.entry_number = w.created_at_entry_number
left join payout o on o.program_id = w.program_id and o.partner_id = w.partner_id and o.currency = w.currency and o.id < w.id
  and (o.decided_at is null or o.paid_at_entry_number > w.created_at_entry_number) and not exists (
    select from balance_entries p where p.program_id = o.program_id and p.payout_id = o.id and p.entry_number <= w.created_at_entry_number
    having sum(p.amount_cents) < 0
  )
group by w.program_id, w.id, w.requested_cents
having w.requested_cents + coalesce(sum(o.amount_cents), 0) > coalesce(max(e.balance_after_cents), 0)
