-- a reduced payout was reported in full
select w.program_id, 'payout ' || w.id as subject, format('reported %s', coalesce(o.sum, 0)) as found,
  'reduced by ' || w.requested_cents - w.amount_cents as expected
from payouts w
left join (
  select program_id, (payload->>'payout_id')::bigint as id, sum((payload->>'reduced_by_cents')::bigint) from outbox
  where kind = 'payout_reduced' and ($1::bigint is null or program_id = $1) group by 1, 2
) o on o.program_id = w.program_id and o.id = w.id
where ($1::bigint is null or w.program_id = $1) and w.created_at >= notifications_begin() and w.requested_cents - w.amount_cents <> coalesce(o.sum, 0)
