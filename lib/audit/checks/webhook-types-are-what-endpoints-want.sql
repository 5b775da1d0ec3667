-- a program's webhook types are the types that its endpoints subscribe to
select p.id as program_id, 'types of webhooks' as subject, p.webhook_types::text as found, w.types::text as expected
from programs p
left join (
  select e.program_id, array_agg(distinct t.type::text order by t.type::text) as types
  from webhook_endpoints e cross join unnest(e.types) t (type)
  where e.disabled_at is null and e.deleted_at is null
  group by e.program_id
) w on w.program_id = p.id
where ($1::bigint is null or p.id = $1) and p.webhook_types is distinct from w.types
