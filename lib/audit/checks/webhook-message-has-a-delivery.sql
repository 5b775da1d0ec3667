-- a webhook message has a delivery to an endpoint
select m.program_id, 'message ' || m.id as subject, 'no delivery' as found, 'a delivery' as expected
from webhook_messages m
left join (select distinct program_id, message_id from webhook_deliveries where $1::bigint is null or program_id = $1) d
  on d.program_id = m.program_id and d.message_id = m.id
where ($1::bigint is null or m.program_id = $1) and d.message_id is null
