-- every deduction of a paid commission warned the advertiser
-- The rows of an archive have no notifications and no audit log here. A payout that came back can be paid again, so its last payment
-- counts.
select e.program_id, format('commission %s entry %s', e.commission_id, e.entry_number) as subject, 'no notification' as found, 'a notification' as expected
from balance_entries e
join programs p on p.id = e.program_id
join commissions c on c.program_id = e.program_id and c.id = e.commission_id
join (
  select program_id, payout_id, max(entry_number) as entry_number from balance_entries
  where cause = 'payout_paid' and ($1::bigint is null or program_id = $1) group by program_id, payout_id
) payment on payment.program_id = c.program_id and payment.payout_id = c.payout_id
where ($1::bigint is null or e.program_id = $1) and e.created_at >= greatest(notifications_begin(), p.moved_in_at) and e.cause in ('commission_reversed', 'commission_corrected') and e.amount_cents < 0
  and e.entry_number > payment.entry_number
  and not exists (
    select from outbox o where o.program_id = e.program_id and o.kind = 'paid_commission_reversed' and o.audience = 'advertiser'
      and o.cause = case
        when e.refund_id is not null then 'refund:' || e.refund_id
        when e.correction_number is not null then format('correction:%s:%s', e.commission_id, e.correction_number)
        else 'rejection:' || e.commission_id
      end)
