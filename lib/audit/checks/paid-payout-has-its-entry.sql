-- a paid payout has its entry, and the entries of an unpaid payout add up to zero
select w.program_id, 'payout ' || w.id as subject, format('%s, entries %s', w.status, e.sum) as found,
  'entries ' || case w.status when 'paid' then -w.amount_cents else 0 end as expected
from payouts w
left join (
  select program_id, payout_id, sum(amount_cents) from balance_entries
  where payout_id is not null and ($1::bigint is null or program_id = $1) group by program_id, payout_id
) e on e.program_id = w.program_id and e.payout_id = w.id
where ($1::bigint is null or w.program_id = $1) 
  and coalesce(e.sum, 0) <> case w.status when 'paid' then -w.amount_cents else 0 end
