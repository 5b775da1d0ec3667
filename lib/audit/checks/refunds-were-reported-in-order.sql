-- the refunds of a sale that endpoints received follow each other without a gap, up to the stored amount
select m.program_id, format('message %s of sale %s', m.id, m.sale_id) as subject,
  format('%s after %s', m.refunded, m.refunded - m.refunded_by) as found,
  case when m.is_last then format('%s after %s', s.refunded_cents, m.reported_before) else 'after ' || m.reported_before end as expected
from (
  select program_id, id, created_at, (data->>'sale_id')::bigint as sale_id, (data->>'refunded_cents')::bigint as refunded,
    (data->>'refunded_by_cents')::bigint as refunded_by,
    lag((data->>'refunded_cents')::bigint) over reports as reported_before, lag(created_at) over reports as before_at,
    lead(id) over reports is null as is_last
  from webhook_messages where type = 'sale.refunded' and ($1::bigint is null or program_id = $1)
  window reports as (partition by program_id, data->>'sale_id' order by id)
) m
join sales s on s.program_id = m.program_id and s.id = m.sale_id
join (
  select e.program_id, min(greatest(e.created_at, c.changed_at) + interval '1 minute') as since
  from webhook_endpoints e
  left join (
    select program_id, max(created_at) as changed_at from audit_log
    where action in ('webhook.changed', 'webhook.enabled') group by program_id
  ) c on c.program_id = e.program_id
  where 'sale.refunded' = any (e.types) and e.disabled_at is null and e.deleted_at is null
  group by e.program_id
) l on l.program_id = m.program_id
where m.before_at > l.since and m.refunded - m.refunded_by <> m.reported_before
  or m.is_last and m.created_at > l.since and m.refunded <> s.refunded_cents
