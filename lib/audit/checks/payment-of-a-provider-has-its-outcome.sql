-- a payout has the outcome that its provider reported
-- People can record that a paid payout came back.
select i.program_id, 'payout ' || i.payout_id as subject, w.status as found, i.outcome || ' at ' || c.provider as expected
from payout_items i
join payouts w on w.program_id = i.program_id and w.id = i.payout_id
join payout_batches b on b.program_id = i.program_id and b.id = i.batch_id
join payout_connections c on c.id = b.connection_id
where ($1::bigint is null or i.program_id = $1) and case i.outcome
  when 'paid' then w.paid_on is null
  when 'returned' then w.status not in ('returned', 'failed')
  when 'failed' then w.status not in ('returned', 'failed')
  else w.status in ('requested', 'in_run')
end
