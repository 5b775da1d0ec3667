-- listEndpoints
select "webhook_endpoints"."id", "url", "method", "description", types::text[] as "types", "webhook_endpoints"."created_at", "failing_since", "disabled_at", "disabled_because", "secret_number", "previous_secret_until"
from "webhook_endpoints"
where "webhook_endpoints"."program_id" = $1 and partner_id is not distinct
from $2 and "deleted_at" is null and "webhook_endpoints"."id" < $3
order by "webhook_endpoints"."id" desc
limit $4;

-- listEndpointsWithLatest
select "webhook_endpoints"."id", "url", "method", "description", types::text[] as "types", "webhook_endpoints"."created_at", "failing_since", "disabled_at", "disabled_because", "secret_number", "previous_secret_until", "latest_message_id", "latest_status", "latest_at"
from "webhook_endpoints"
left join lateral (
  select "d"."message_id" as "latest_message_id", "d"."status" as "latest_status", "m"."created_at" as "latest_at"
  from "webhook_deliveries" as "d"
  inner join "webhook_messages" as "m" on "m"."program_id" = "d"."program_id" and "m"."id" = "d"."message_id"
  where "d"."program_id" = "webhook_endpoints"."program_id" and "d"."endpoint_id" = "webhook_endpoints"."id"
  order by "d"."message_id" desc
  limit $1) as "latest" on true
where "webhook_endpoints"."program_id" = $2 and partner_id is not distinct
from $3 and "deleted_at" is null
order by "webhook_endpoints"."id" desc;

-- listDeliveries
select "id"
from "webhook_endpoints"
where "program_id" = $1 and partner_id is not distinct
from $2 and "id" = $3 and "deleted_at" is null;
select "d"."message_id", "m"."type", "m"."data", "m"."created_at", "d"."status", "d"."attempt_count", "d"."next_attempt_at", "d"."finished_at"
from "webhook_deliveries" as "d"
inner join "webhook_messages" as "m" on "m"."program_id" = "d"."program_id" and "m"."id" = "d"."message_id"
inner join "webhook_endpoints" as "e" on "e"."program_id" = "d"."program_id" and "e"."id" = "d"."endpoint_id" and "e"."deleted_at" is null
where "d"."program_id" = $1 and partner_id is not distinct
from $2 and "d"."endpoint_id" = $3 and "d"."status" = $4 and "d"."message_id" < $5
order by "d"."message_id" desc
limit $6;

-- listProgramDeliveries, oldest first
select "d"."message_id", "m"."type", "m"."data", "m"."created_at", "d"."status", "d"."attempt_count", "d"."next_attempt_at", "d"."finished_at", "d"."endpoint_id", "e"."url", "e"."description"
from "webhook_deliveries" as "d"
inner join "webhook_messages" as "m" on "m"."program_id" = "d"."program_id" and "m"."id" = "d"."message_id"
inner join "webhook_endpoints" as "e" on "e"."program_id" = "d"."program_id" and "e"."id" = "d"."endpoint_id" and "e"."deleted_at" is null
where "d"."program_id" = $1 and partner_id is not distinct
from $2 and "d"."endpoint_id" = $3 and "m"."type" = $4 and "d"."status" = $5 and ("d"."message_id", "d"."endpoint_id") > ($6, $7)
order by "d"."message_id" asc, "d"."endpoint_id" asc
limit $8;

-- findDelivery
select "d"."message_id", "m"."type", "m"."data", "m"."created_at", "d"."status", "d"."attempt_count", "d"."next_attempt_at", "d"."finished_at", coalesce((
    select jsonb_agg(jsonb_build_object('attempted_at', a.attempted_at, 'duration_ms', a.duration_ms, 'status', a.status,
            'error', a.error, 'answer', a.answer)
      order by a.id)
    from webhook_attempts a
    where a.program_id = d.program_id and a.endpoint_id = d.endpoint_id and a.message_id = d.message_id
        ), '[]') as "attempts"
from "webhook_deliveries" as "d"
inner join "webhook_messages" as "m" on "m"."program_id" = "d"."program_id" and "m"."id" = "d"."message_id"
inner join "webhook_endpoints" as "e" on "e"."program_id" = "d"."program_id" and "e"."id" = "d"."endpoint_id" and "e"."deleted_at" is null
where "d"."program_id" = $1 and partner_id is not distinct
from $2 and "d"."endpoint_id" = $3 and "d"."message_id" = $4;
