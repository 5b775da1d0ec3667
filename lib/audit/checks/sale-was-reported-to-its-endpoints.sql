-- every sale and commission was sent once to each endpoint that was subscribed to it at that time
select t.program_id, format('%s of %s for endpoint %s', t.type, t.id, l.id) as subject, coalesce(w.times, 0)::text as found, '1' as expected
from (
  select program_id, 'sale.created' as type, id, created_at from sales
  where customer_id is not null and not is_test and ($1::bigint is null or program_id = $1)
  union all
  select program_id, 'commission.created', id, created_at from commissions where $1::bigint is null or program_id = $1
) t
-- A transaction that ran while an endpoint was created or changed may not have seen the endpoint.
join (
  select e.program_id, e.id, e.types, greatest(e.created_at, c.changed_at, p.moved_in_at, now() - interval '29 days') + interval '1 minute' as since
  from webhook_endpoints e
  join programs p on p.id = e.program_id
  left join (
    select program_id, max(created_at) as changed_at from audit_log
    where action in ('webhook.changed', 'webhook.enabled') group by program_id
  ) c on c.program_id = e.program_id
  where e.disabled_at is null and e.deleted_at is null
) l on l.program_id = t.program_id and t.type = any (l.types) and t.created_at > l.since
left join (
  select m.program_id, d.endpoint_id, m.type, coalesce(m.data->>'commission_id', m.data->>'sale_id')::bigint as id, count(*) as times
  from webhook_messages m
  join webhook_deliveries d on d.program_id = m.program_id and d.message_id = m.id
  where m.type in ('sale.created', 'commission.created') and ($1::bigint is null or m.program_id = $1)
  group by 1, 2, 3, 4
) w on w.program_id = t.program_id and w.endpoint_id = l.id and w.type = t.type and w.id = t.id
where w.times is distinct from 1
