-- readStatus
select "p"."id", "p"."name", "p"."domain", "p"."currency", "p"."commission_bp", "p"."cookie_window_days", "p"."lead_auth_policy", "p"."processor_account_id", "p"."proxy_key_number", array(
  select distinct c.processor
  from processor_connections c
  where c.program_id = p.id and c.secret is not null and c.disconnected_at is null
  order by 1
    ) as "connected_processors", exists (
  select
  from "referral_links" as "l"
  where "l"."program_id" = "p"."id" and "l"."partner_id" is not null and "l"."is_active" = $1) as "has_link", (
  select max("e"."click_timestamp") as "at"
  from "affiliate_click_events" as "e"
  where "e"."program_id" = "p"."id" and "e"."is_test" = false) as "live_click", (
  select max("e"."click_timestamp") as "at"
  from "affiliate_click_events" as "e"
  where "e"."program_id" = "p"."id" and "e"."is_test" = true) as "test_click", (
  select max("t"."lead_timestamp") as "at"
  from (
    select "e"."lead_timestamp", "e"."provisional"
    from "affiliate_lead_events" as "e"
    where "e"."program_id" = "p"."id" and "e"."is_test" = false
    order by "e"."lead_timestamp" desc
    limit $2) as "t"
  where "t"."provisional" = false) as "live_lead", (
  select max("t"."lead_timestamp") as "at"
  from (
    select "e"."lead_timestamp", "e"."provisional"
    from "affiliate_lead_events" as "e"
    where "e"."program_id" = "p"."id" and "e"."is_test" = true
    order by "e"."lead_timestamp" desc
    limit $3) as "t"
  where "t"."provisional" = false) as "test_lead", (
  select max("t"."lead_timestamp") as "at"
  from (
    select "e"."lead_timestamp", "e"."provisional"
    from "affiliate_lead_events" as "e"
    where "e"."program_id" = "p"."id" and "e"."is_test" = false
    order by "e"."lead_timestamp" desc
    limit $4) as "t"
  where "t"."provisional" = true) as "provisional_lead", (
  select "s"."created_at"
  from "sales" as "s"
  where "s"."program_id" = "p"."id" and "s"."is_test" = false
  order by "s"."id" desc
  limit $5) as "live_sale", (
  select json_agg("t"."currency") as "currencies"
  from (
    select "s"."currency"
    from "sales" as "s"
    where "s"."program_id" = "p"."id" and "s"."is_test" = false
    order by "s"."id" desc
    limit $6) as "t") as "live_currencies", (
  select "s"."created_at"
  from "sales" as "s"
  where "s"."program_id" = "p"."id" and "s"."is_test" = true
  order by "s"."id" desc
  limit $7) as "test_sale", (
  select max("e"."received_at") as "at"
  from "processor_events" as "e"
  where "e"."program_id" = "p"."id" and "e"."livemode" = $8) as "live_webhook", (
  select max("e"."received_at") as "at"
  from "processor_events" as "e"
  where "e"."program_id" = "p"."id" and "e"."livemode" = $9) as "test_webhook", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "r"."call", "r"."code", "r"."detail", "r"."refused_at"
    from "refused_calls" as "r"
    where "r"."program_id" = "p"."id"
    order by "r"."refused_at" desc) as agg) as "refused", use_key(k, null) as "key_refusal", "k"."scopes"
from "api_keys" as "k"
inner join "programs" as "p" on "p"."id" = "k"."program_id"
where "k"."key_hash" = $10;

-- eraseCustomer
select lock_exports($1);
select
from "customers"
where "program_id" = $1 and ("customer_key" = $2 or "click_id" = $3)
for update;
select *
from erase_events($1, $2, $3, $4);
update "affiliate_lead_events"
set "customer_key" = $1, "session_id" = $2, "page_url" = $3, "additional_data" = $4
where "program_id" = $5 and ("customer_id" in (
    select "id"
    from "customers"
    where "program_id" = $6 and ("customer_key" = $7 or "click_id" = $8)) or "customer_key" in (
    select "customer_key" as "key"
    from "customers"
    where "program_id" = $9 and ("customer_key" = $10 or "click_id" = $11)
    union all
    select cast($12 as text) as "key"));
update "processor_events" as "e"
set "fact" = "e"."fact" || $1::jsonb, "payload" = $2, "awaits" = $3
from (
  select "id", "customer_key", "click_id", "email_hash"
  from "customers"
  where "program_id" = $4 and ("customer_key" = $5 or "click_id" = $6)) as "k"
where "e"."program_id" = $7 and ("e"."fact"->>'customer_key' = "k"."customer_key" or "e"."fact"->>'click_id' = "k"."click_id" or "e"."fact"->>'email_hash' = encode("k"."email_hash", 'hex') or coalesce("e"."fact"->>'processor_customer_id', "e"."fact"#>>'{unread,processor_customer_id}') in (
    select "p"."processor_customer_id"
    from "processor_customers" as "p"
    where "p"."program_id" = $8 and "p"."customer_id" = "k"."id"));
delete from "processor_customer_metadata" as "m"
where "m"."account_id" in (
  select unnest(last_accounts_of(p)) as "id"
  from "programs" as "p"
  where "p"."id" = $1) and ("m"."program_id" = $2 or "m"."program_id" is null) and ("m"."customer_key" in (
    select "customer_key"
    from "customers"
    where "program_id" = $3 and ("customer_key" = $4 or "click_id" = $5)) or "m"."click_id" in (
    select "click_id"
    from "customers"
    where "program_id" = $6 and ("customer_key" = $7 or "click_id" = $8)) or "m"."customer_key" = $9 or "m"."processor_customer_id" in (
    select "p"."processor_customer_id"
    from "processor_customers" as "p"
    where "p"."program_id" = $10 and "p"."customer_id" in (
      select "id"
      from "customers"
      where "program_id" = $11 and ("customer_key" = $12 or "click_id" = $13))))
returning "processor_customer_id";
update "customer_origins"
set "origin" = jsonb_strip_nulls(jsonb_build_object('country', origin->'country', 'device', origin->'device', 'browser', origin->'browser'))
where "program_id" = $1 and "customer_id" in (
  select "id"
  from "customers"
  where "program_id" = $2 and ("customer_key" = $3 or "click_id" = $4));
delete from "export_rows"
where "program_id" = $1;
delete from "processor_customers"
where "program_id" = $1 and "customer_id" in (
  select "id"
  from "customers"
  where "program_id" = $2 and ("customer_key" = $3 or "click_id" = $4));
delete from "processor_sessions"
where "program_id" = $1 and "customer_id" in (
  select "id"
  from "customers"
  where "program_id" = $2 and ("customer_key" = $3 or "click_id" = $4));
update "customers"
set "customer_key" = $1, "key_unverified_since" = $2, "email_hash" = $3, "mailbox_hash" = $4, "email_unverified_since" = $5, "click_id" = $6, "updated_at" = now()
where "program_id" = $7 and "id" in (
  select "id"
  from "customers"
  where "program_id" = $8 and ("customer_key" = $9 or "click_id" = $10))
returning "id";
