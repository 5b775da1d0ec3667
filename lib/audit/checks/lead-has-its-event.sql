-- a settled or provisional lead has exactly one event, and that event has its customer
select coalesce(u.program_id, e.program_id) as program_id,
  format('customer %s, event %s', coalesce(u.id, e.customer_id), coalesce(u.event_id, e.id)) as subject,
  case when e.id is null then 'no event' else format('event of customer %s at %s', e.customer_id, e.lead_timestamp) end as found,
  case when u.id is null then 'a customer with this event' else format('event at %s', u.at) end as expected
from (
  select program_id, id, lead_event_id as event_id, signup_date as at, false as provisional from customers
  where lead_event_id is not null and (imported_at is null or signup_date > imported_at) and ($1::bigint is null or program_id = $1)
  union all
  select program_id, id, provisional_lead_event_id, provisional_lead_at, true from customers
  where provisional_lead_event_id is not null and ($1::bigint is null or program_id = $1)
) u
full join (select * from affiliate_lead_events where not is_test and ($1::bigint is null or program_id = $1)) e
  on e.program_id = u.program_id and e.id = u.event_id and e.provisional = u.provisional
where (u.id, u.at) is distinct from (e.customer_id, e.lead_timestamp)
