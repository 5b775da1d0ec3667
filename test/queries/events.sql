-- newestEvents
select "e"."id", $1 as "event_type", "e"."click_timestamp" as "timestamp", (extract(epoch
    from "e"."click_timestamp") * 1000000)::bigint as "at_us", coalesce("c"."click_id", "e"."click_id") as "click_id", "e"."session_id", "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."geo_region", "e"."geo_city", "e"."device_type", "e"."device_os", "e"."browser_name", coalesce("c"."customer_status" = 'conversion', false) as "converted", "e"."created_at" as "createdAt"
from (
  select *
  from "affiliate_click_events"
  where "program_id" = $2 and not "is_test" and ("click_timestamp" >= $3 and "click_timestamp" < $4)
  order by "click_timestamp" desc, "id" desc
  limit $5) as "e"
left join "customers" as "c" on "c"."program_id" = "e"."program_id" and "c"."id" = "e"."customer_id";
select "e"."id", $1 as "event_type", "e"."lead_timestamp" as "timestamp", (extract(epoch
    from "e"."lead_timestamp") * 1000000)::bigint as "at_us", "c"."click_id", "e"."session_id", "e"."page_url", "e"."customer_key", "e"."provisional", "c"."customer_status" = 'conversion' as "converted", "e"."created_at" as "createdAt"
from (
  select *
  from "affiliate_lead_events"
  where "program_id" = $2 and not "is_test" and ("lead_timestamp" >= $3 and "lead_timestamp" < $4)
  order by "lead_timestamp" desc, "id" desc
  limit $5) as "e"
inner join "customers" as "c" on "c"."program_id" = "e"."program_id" and "c"."id" = "e"."customer_id";
select "e"."id", $1 as "event_type", "e"."sale_date" as "timestamp", (extract(epoch
    from "e"."sale_date") * 1000000)::bigint as "at_us", "c"."click_id", "e"."transaction_id", "e"."amount_cents", "e"."refunded_cents", "e"."currency", "e"."sale_type", "e"."payment_status", "e"."processor_event_id", "e"."is_recurring", "e"."created_at" as "createdAt"
from (
  select *
  from "sales"
  where "program_id" = $2 and not "is_test" and ("sale_date" >= $3 and "sale_date" < $4) and "customer_id" is not null
  order by "sale_date" desc, "id" desc
  limit $5) as "e"
inner join "customers" as "c" on "c"."program_id" = "e"."program_id" and "c"."id" = "e"."customer_id";
select "since" as "clicks_since"
from "clicks_kept";

-- newestTestEvents
select "e"."id", $1 as "event_type", "e"."click_timestamp" as "timestamp", "e"."session_id", "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."geo_city", "e"."device_type", "e"."device_os", "e"."browser_name"
from (
  select *
  from "affiliate_click_events"
  where "program_id" = $2 and "is_test" = true and ("click_timestamp" >= $3 and "click_timestamp" < $4)
  order by "click_timestamp" desc, "id" desc
  limit $5) as "e";
select "e"."id", $1 as "event_type", "e"."lead_timestamp" as "timestamp", "e"."session_id", "e"."page_url", "e"."customer_key"
from (
  select *
  from "affiliate_lead_events"
  where "program_id" = $2 and "is_test" = true and ("lead_timestamp" >= $3 and "lead_timestamp" < $4)
  order by "lead_timestamp" desc, "id" desc
  limit $5) as "e";
select "e"."id", $1 as "event_type", "e"."sale_date" as "timestamp", "e"."transaction_id", "e"."customer_key", "e"."amount_cents", "e"."refunded_cents", "e"."currency", "e"."sale_type", "e"."payment_status", "e"."is_recurring"
from (
  select *
  from "sales"
  where "program_id" = $2 and "is_test" = true and ("sale_date" >= $3 and "sale_date" < $4)
  order by "sale_date" desc, "id" desc
  limit $5) as "e";
select "since" as "clicks_since"
from "clicks_kept";
