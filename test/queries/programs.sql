-- createProgram
insert into "programs" ("workspace_id", "currency", "commission_bp", "lead_commission_cents", "cookie_window_days", "hold_days", "commission_duration_months", "lead_auth_policy", "attribution_model", "attribution_priority", "commission_base", "attribute_known_customers", "language", "review_rules", "name", "domain")
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
returning "id";

-- readProgram
select "name", "domain", "currency", "commission_bp", "lead_commission_cents", "cookie_window_days", "hold_days", "commission_duration_months", "lead_auth_policy", "attribution_model", "attribution_priority", "commission_base", "attribute_known_customers", "language", "review_rules", "processor_account_id", "link_params", "embed_origins", "embed_hides_money", "proxy_key_number", "previous_proxy_key_until", "domain_verified_at", "domain_proven_at"
from "programs"
where "id" = $1;

-- readOverview
select *
from read_performance($1, $2, $3, $4, $5);
select *
from read_series($1, $2, $3, $4, $5, $6, $7, $8);
select *
from read_breakdowns($1, $2, $3, $4, $5, $6, $7, $8);
select (
  select count(*) as "n"
  from "payouts_due" as "d"
  where "d"."program_id" = "p"."id" and "d"."exclusion_reason" is null) as "payouts_due", (
  select count(*) as "n"
  from "payout_runs" as "r"
  where "r"."program_id" = "p"."id" and "r"."paid_at" is null and exists (
    select
    from "payouts" as "w"
    where "w"."program_id" = "r"."program_id" and "w"."payout_run_id" = "r"."id" and "w"."decided_at" is null)) as "runs_open", (
  select count(*) as "n"
  from "payouts" as "w"
  where "w"."program_id" = "p"."id" and "w"."decided_at" is null and "w"."payout_run_id" is null) as "payouts_asked", (
  select count(*) as "n"
  from "commissions" as "n"
  where "n"."is_shadow" = false and "n"."review_reason" is not null and "n"."held_at" is null and not (num_nonnulls(n.credited_at, n.rejected_at) > 0 or n.reversal = 'full') and not exists (
    select "r"."commission_id"
    from "commission_reviews" as "r"
    where "r"."program_id" = "n"."program_id" and "r"."commission_id" = "n"."id" and "r"."decision" is not null) and "n"."program_id" = "p"."id") as "commissions_unverified", (
  select count(*) as "n"
  from "applications" as "a"
  where "a"."program_id" = "p"."id" and "a"."status" = $1) as "applications_waiting", (
  select count(*) as "n"
  from "commissions" as "n"
  where "n"."is_shadow" = false and "n"."held_at" is not null and "n"."reversal" <> $2 and "n"."program_id" = "p"."id") as "commissions_held", (
  select count(distinct "b"."partner_id") as "n"
  from "balances" as "b"
  where "b"."program_id" = "p"."id" and "b"."balance_cents" < $3) as "partners_owing", (
  select "b"."partner_id"
  from "balances" as "b"
  where "b"."program_id" = "p"."id" and "b"."balance_cents" < $4
  order by "b"."balance_cents"
  limit $5) as "owing_partner_id", ("p"."processor_account_id" is null and "p"."processor_former_account_id" is not null) as "is_disconnected", (
  select count(*) as "n"
  from "notifications" as "n"
  where "n"."program_id" = $6 and "n"."audience" = $7 and "n"."kind" = $8 and "n"."created_at" > now() - make_interval(days => 30)) - (
  select count(distinct "n"."id") as "n"
  from "notifications" as "n"
  inner join "notification_reads" as "s" on "s"."program_id" = "n"."program_id" and "s"."notification_id" = "n"."id"
  where "n"."program_id" = $9 and "n"."audience" = $10 and "n"."kind" = $11 and "n"."created_at" > now() - make_interval(days => 30)) as "events_ignored", (
  select count(*) as "n"
  from "webhook_endpoints" as "w"
  where "w"."program_id" = "p"."id" and "w"."disabled_because" = $12 and "w"."partner_id" is null and "w"."deleted_at" is null) as "endpoints_off", (
  select count(distinct "f"."rule") as "n"
  from "audit_findings" as "f"
  where "f"."program_id" = "p"."id") as "rules_broken", not exists (
  select
  from "sales" as "s"
  where "s"."program_id" = "p"."id") as "has_no_sale"
from "programs" as "p"
where "p"."id" = $13;
select "id"
from "affiliate_click_events"
where "program_id" = $1 and not "is_test"
limit $2;
select "since" as "clicks_since"
from "clicks_kept";
select "k"."taken", "k"."sent", "k"."is_complete", "k"."up_to", exists (
  select
  from unsent_clicks) or exists (
  select
  from unsent_counts) as "is_waiting"
from "click_sink" as "k";

-- readTestFigures
select (
  select count(*)
  from affiliate_click_events e
  where e.program_id = p.id and e.is_test = true) as "clicks", (
  select count(*)
  from affiliate_lead_events e
  where e.program_id = p.id and e.is_test = true) as "leads", (
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
    where t.payment_status = 'paid'), 0)::bigint as "refunded_cents", coalesce(sum(t.earned_cents - reversed_share(t.earned_cents, (t.part).refunded, (t.part).whole)) filter (
    where t.payment_status = 'paid'), 0)::bigint as "commission_cents"
from (
  select "s"."currency", "s"."amount_cents", "s"."refunded_cents", "s"."payment_status", commission_of(s.commission_base_cents, coalesce(s.commission_bp, p.commission_bp), s.commission_fixed_cents,
        case when s.customer_id is null then p.commission_duration_months else s.commission_months end, s.sale_date,
        min(s.sale_date) over (partition by coalesce(s.customer_key, s.processor_customer_id, s.id::text)), null) as "earned_cents", refunded_part(s, null) as "part"
  from "sales" as "s"
  inner join "programs" as "p" on "p"."id" = "s"."program_id"
  where "s"."program_id" = $2 and "s"."is_test" = true) as "t"
group by "t"."currency"
order by "t"."currency";
