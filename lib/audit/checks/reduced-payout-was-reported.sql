-- a reduced payout was reported in full
-- The rows of an archive have no notifications and no audit log here.
select w.program_id, 'payout ' || w.id as subject, format('reported %s', coalesce(o.sum, 0)) as found,
  'reduced by ' || w.requested_cents - w.amount_cents as expected
from payouts w
join programs p on p.id = w.program_id
left join (
  select program_id, (payload->>'payout_id')::bigint as id, sum((payload->>'reduced_by_cents')::bigint) from outbox
  where kind = 'payout_reduced' and ($1::bigint is null or program_id = $1) group by 1, 2
) o on o.program_id = w.program_id and o.id = w.id
where ($1::bigint is null or w.program_id = $1) and w.created_at >= greatest(notifications_begin(), p.moved_in_at) and w.requested_cents - w.amount_cents <> coalesce(o.sum, 0)
