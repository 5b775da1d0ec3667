-- createProgram
insert into "programs" ("workspace_id", "currency", "commission_bp", "lead_commission_cents", "cookie_window_days", "hold_days", "commission_duration_months", "lead_auth_policy", "attribution_model", "attribute_known_customers", "name", "domain")
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
returning "id";

-- readProgram
select "name", "domain", "currency", "commission_bp", "lead_commission_cents", "cookie_window_days", "hold_days", "commission_duration_months", "lead_auth_policy", "attribution_model", "attribute_known_customers", "processor_account_id"
from "programs"
where "id" = $1;

-- hasClicks
select "id"
from "affiliate_click_events"
where "program_id" = $1 and not "is_test"
limit $2;

-- readTestFigures
select (
  select count(*) as "count"
  from "affiliate_click_events" as "e"
  where "e"."program_id" = "p"."id" and "e"."is_test" = true) as "clicks", (
  select count(*) as "count"
  from "affiliate_lead_events" as "e"
  where "e"."program_id" = "p"."id" and "e"."is_test" = true) as "leads", (
  select count(distinct e.customer_key) * p.lead_commission_cents as "cents"
  from "affiliate_lead_events" as "e"
  where "e"."program_id" = "p"."id" and "e"."is_test" = true and "e"."provisional" = false) as "lead_commission_cents", (
  select max("e"."received_at") as "at"
  from "processor_events" as "e"
  where "e"."livemode" = false and ("e"."program_id" = "p"."id" or ("e"."program_id" is null and "e"."account_id" = "p"."processor_account_id"))) as "last_webhook_at"
from "programs" as "p"
where "p"."id" = $1;
select "t"."currency", count(*) filter(
  where "t"."payment_status" = $1) as "sales", coalesce(sum(t.amount_cents) filter (
    where t.payment_status = 'paid'), 0)::bigint as "revenue_cents", coalesce(sum(t.refunded_cents) filter (
    where t.payment_status = 'paid'), 0)::bigint as "refunded_cents", coalesce(sum(t.earned_cents - reversed_share(t.earned_cents, t.refunded_cents, t.amount_cents)) filter (
    where t.payment_status = 'paid'), 0)::bigint as "commission_cents"
from (
  select "s"."currency", "s"."amount_cents", "s"."refunded_cents", "s"."payment_status", commission_of(s.commission_base_cents, coalesce(s.commission_bp, p.commission_bp),
        case when s.customer_id is null then p.commission_duration_months else s.commission_months end, s.sale_date,
        min(s.sale_date) over (partition by coalesce(s.customer_key, s.processor_customer_id, s.id::text))) as "earned_cents"
  from "sales" as "s"
  inner join "programs" as "p" on "p"."id" = "s"."program_id"
  where "s"."program_id" = $2 and "s"."is_test" = true) as "t"
group by "t"."currency"
order by "t"."currency";
