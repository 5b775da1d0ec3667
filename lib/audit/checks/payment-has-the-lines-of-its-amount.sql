-- the lines of a paid payout add up to its amount, and other payouts have none
select w.program_id, 'payout ' || w.id as subject, format('%s, lines %s', w.status, l.sum) as found,
  'lines ' || case w.status when 'paid' then w.amount_cents else 0 end as expected
from payouts w
left join (
  select program_id, payout_id, sum(amount_cents) from payout_lines
  where not is_returned and ($1::bigint is null or program_id = $1) group by program_id, payout_id
) l on l.program_id = w.program_id and l.payout_id = w.id
where ($1::bigint is null or w.program_id = $1)
  and coalesce(l.sum, 0) <> case w.status when 'paid' then w.amount_cents else 0 end
