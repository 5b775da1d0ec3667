-- events
select 'click' as "event_type", "e"."id", "e"."click_timestamp" as "timestamp", (extract(epoch
    from "e"."click_timestamp") * 1000000)::bigint as "at_us", "p"."id" as "partner_id", "p"."name" as "partner_name", "l"."code" as "link_code", coalesce("c"."click_id", "e"."click_id") as "click_id", "c"."id" as "customer_id", null as "provisional", "c"."customer_key", "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."geo_city", "e"."device_type", "e"."device_os", "e"."browser_name", "e"."campaign", null as "transaction_id", null as "amount_cents", null as "refunded_cents", null as "currency", null as "sale_type", null as "payment_status", null as "is_recurring"
from (
  select "e".*
  from "click_events" as "e"
  where "e"."program_id" = $1 and not "e"."is_test" and ("e"."click_timestamp" >= $2 and "e"."click_timestamp" < $3)
  order by "e"."click_timestamp" desc, "e"."id" desc
  limit $4) as "e"
left join "referral_links" as "l" on "l"."program_id" = "e"."program_id" and "l"."id" = "e"."link_id"
left join "partners" as "p" on "p"."program_id" = "l"."program_id" and "p"."id" = "l"."partner_id"
left join "customers" as "c" on "c"."program_id" = "e"."program_id" and "c"."id" = "e"."customer_id";
select 'lead' as "event_type", "e"."id", "e"."lead_timestamp" as "timestamp", (extract(epoch
    from "e"."lead_timestamp") * 1000000)::bigint as "at_us", "p"."id" as "partner_id", "p"."name" as "partner_name", "l"."code" as "link_code", "c"."click_id", "c"."id" as "customer_id", "e"."provisional", "e"."customer_key", "e"."page_url", null as "referrer_url", o.origin->>'country' as "geo_country", null as "geo_city", o.origin->>'device' as "device_type", null as "device_os", o.origin->>'browser' as "browser_name", null as "campaign", null as "transaction_id", null as "amount_cents", null as "refunded_cents", null as "currency", null as "sale_type", null as "payment_status", null as "is_recurring"
from "affiliate_lead_events" as "e"
left join "customers" as "c" on "c"."program_id" = "e"."program_id" and "c"."id" = "e"."customer_id"
left join "referral_links" as "l" on "l"."program_id" = "c"."program_id" and "l"."id" = "c"."link_id"
left join "partners" as "p" on "p"."program_id" = "c"."program_id" and "p"."id" = "c"."partner_id"
left join "customer_origins" as "o" on "o"."program_id" = "c"."program_id" and "o"."customer_id" = "c"."id"
where "e"."program_id" = $1 and not "e"."is_test" and ("e"."lead_timestamp" >= $2 and "e"."lead_timestamp" < $3)
order by "e"."lead_timestamp" desc, "e"."id" desc
limit $4;
select 'conversion' as "event_type", "e"."id", "e"."sale_date" as "timestamp", (extract(epoch
    from "e"."sale_date") * 1000000)::bigint as "at_us", "p"."id" as "partner_id", "p"."name" as "partner_name", "l"."code" as "link_code", "c"."click_id", "c"."id" as "customer_id", null as "provisional", "e"."customer_key", null as "page_url", null as "referrer_url", o.origin->>'country' as "geo_country", null as "geo_city", o.origin->>'device' as "device_type", null as "device_os", o.origin->>'browser' as "browser_name", null as "campaign", "e"."transaction_id", "e"."amount_cents", "e"."refunded_cents", "e"."currency", "e"."sale_type", "e"."payment_status", "e"."is_recurring"
from "sales" as "e"
left join "customers" as "c" on "c"."program_id" = "e"."program_id" and "c"."id" = "e"."customer_id"
left join "referral_links" as "l" on "l"."program_id" = "c"."program_id" and "l"."id" = "c"."link_id"
left join "partners" as "p" on "p"."program_id" = "e"."program_id" and "p"."id" = "e"."partner_id"
left join "customer_origins" as "o" on "o"."program_id" = "c"."program_id" and "o"."customer_id" = "c"."id"
where "e"."program_id" = $1 and not "e"."is_test" and ("e"."sale_date" >= $2 and "e"."sale_date" < $3) and "e"."customer_id" is not null
order by "e"."sale_date" desc, "e"."id" desc
limit $4;
select "since" as "clicks_since"
from "clicks_kept";

-- events of a partner
select 'click' as "event_type", "e"."id", "e"."click_timestamp" as "timestamp", (extract(epoch
    from "e"."click_timestamp") * 1000000)::bigint as "at_us", "p"."id" as "partner_id", "p"."name" as "partner_name", "l"."code" as "link_code", coalesce("c"."click_id", "e"."click_id") as "click_id", "c"."id" as "customer_id", null as "provisional", "c"."customer_key", "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."geo_city", "e"."device_type", "e"."device_os", "e"."browser_name", "e"."campaign", null as "transaction_id", null as "amount_cents", null as "refunded_cents", null as "currency", null as "sale_type", null as "payment_status", null as "is_recurring"
from (
  select *
  from list_clicks($1, $2, $3, $4, $5, $6,
    null, $7, $8, $9) as "e") as "e"
-- 10 lines as in events
where "e"."program_id" = $1 and not "e"."is_test" and 1 = 1 and "c"."partner_id" = $2 and (c.customer_status <> 'click' or c.provisional_lead_at is not null)
-- 9 lines as in events
where "e"."program_id" = $1 and not "e"."is_test" and 1 = 1 and "e"."customer_id" is not null and "e"."partner_id" = $2
order by "e"."sale_date" desc, "e"."id" desc
limit $3;
select "since" as "clicks_since"
from "clicks_kept";

-- events of a link and a country, oldest first
select "id"
from "partners"
where "program_id" = $1 and false
order by length("name"), "id"
limit $2;
select "id", "partner_id"
from "referral_links"
where "program_id" = $1 and lower("code") = lower($2::text);
select 'click' as "event_type", "e"."id", "e"."click_timestamp" as "timestamp", (extract(epoch
    from "e"."click_timestamp") * 1000000)::bigint as "at_us", "p"."id" as "partner_id", "p"."name" as "partner_name", "l"."code" as "link_code", coalesce("c"."click_id", "e"."click_id") as "click_id", "c"."id" as "customer_id", null as "provisional", "c"."customer_key", "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."geo_city", "e"."device_type", "e"."device_os", "e"."browser_name", "e"."campaign", null as "transaction_id", null as "amount_cents", null as "refunded_cents", null as "currency", null as "sale_type", null as "payment_status", null as "is_recurring"
from (
  select *
  from list_clicks($1, $2, $3, $4, $5, $6,
    (timestamptz 'epoch' + $7::bigint * interval '1 microsecond'), $8, $9, $10) as "e") as "e"
-- 10 lines as in events
where "e"."program_id" = $1 and not "e"."is_test" and ("e"."lead_timestamp", "e"."id") > ((timestamptz 'epoch' + $2::bigint * interval '1 microsecond'), $3::bigint) and "c"."partner_id" = $4 and (c.customer_status <> 'click' or c.provisional_lead_at is not null) and "c"."link_id" = $5 and o.origin->>'country' = $6
order by "e"."lead_timestamp" asc, "e"."id" asc
-- 8 lines as in events
where "e"."program_id" = $1 and not "e"."is_test" and ("e"."sale_date", "e"."id") > ((timestamptz 'epoch' + $2::bigint * interval '1 microsecond'), $3::bigint) and "e"."customer_id" is not null and "e"."partner_id" = $4 and "c"."link_id" = $5 and o.origin->>'country' = $6
order by "e"."sale_date" asc, "e"."id" asc
limit $7;
select "since" as "clicks_since"
from "clicks_kept";

-- events of a search
select 'click' as "event_type", "e"."id", "e"."click_timestamp" as "timestamp", (extract(epoch
    from "e"."click_timestamp") * 1000000)::bigint as "at_us", "p"."id" as "partner_id", "p"."name" as "partner_name", "l"."code" as "link_code", coalesce("c"."click_id", "e"."click_id") as "click_id", "c"."id" as "customer_id", null as "provisional", "c"."customer_key", "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."geo_city", "e"."device_type", "e"."device_os", "e"."browser_name", "e"."campaign", null as "transaction_id", null as "amount_cents", null as "refunded_cents", null as "currency", null as "sale_type", null as "payment_status", null as "is_recurring"
from (
  select *
  from list_clicks_of_customers($1, array((
        select "id"
        from "customers"
        where "program_id" = $2 and ("customer_key" = $3 or "click_id" = $4))), $5, $6, $7, $8, $9,
    -- 11 lines as in events of a partner
where "e"."program_id" = $1 and not "e"."is_test" and 1 = 1 and "e"."customer_id" in (
  select "id"
  from "customers"
  where "program_id" = $2 and ("customer_key" = $3 or "click_id" = $4))
-- 9 lines as in events
where "e"."program_id" = $1 and not "e"."is_test" and 1 = 1 and "e"."customer_id" is not null and "e"."id" in (
  select "s"."id"
  from "sales" as "s"
  where "s"."program_id" = $2 and not "s"."is_test" and "s"."transaction_id" = $3
  union all
  select "s"."id"
  from "sales" as "s"
  where "s"."program_id" = $4 and not "s"."is_test" and "s"."customer_id" in (
    select "id"
    from "customers"
    where "program_id" = $5 and ("customer_key" = $6 or "click_id" = $7)))
order by "e"."sale_date" desc, "e"."id" desc
limit $8;
select "since" as "clicks_since"
from "clicks_kept";

-- test events
select 'click' as "event_type", "e"."id", "e"."click_timestamp" as "timestamp", (extract(epoch
    from "e"."click_timestamp") * 1000000)::bigint as "at_us", "p"."id" as "partner_id", "p"."name" as "partner_name", "l"."code" as "link_code", null as "click_id", "c"."id" as "customer_id", null as "provisional", "c"."customer_key", "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."geo_city", "e"."device_type", "e"."device_os", "e"."browser_name", "e"."campaign", null as "transaction_id", null as "amount_cents", null as "refunded_cents", null as "currency", null as "sale_type", null as "payment_status", null as "is_recurring"
from (
  select "e".*
  from "click_events" as "e"
  where "e"."program_id" = $1 and "e"."is_test" = true and false and 1 = 1
  -- 12 lines as in events
where "e"."program_id" = $1 and "e"."is_test" = true and 1 = 1 and "e"."customer_key" = $2
-- 9 lines as in events
where "e"."program_id" = $1 and "e"."is_test" = true and 1 = 1 and "e"."id" in (
  select "s"."id"
  from "sales" as "s"
  where "s"."program_id" = $2 and "s"."is_test" = true and "s"."transaction_id" = $3
  union all
  select "s"."id"
  from "sales" as "s"
  where "s"."program_id" = $4 and "s"."is_test" = true and "s"."customer_key" = $5)
order by "e"."sale_date" desc, "e"."id" desc
limit $6;
select "since" as "clicks_since"
from "clicks_kept";

-- timeline
select "c"."id", "c"."click_id", "c"."customer_key", "c"."customer_status", "c"."created_at", "c"."last_click_at", "c"."partner_id", "p"."name" as "partner_name", "l"."code" as "link_code"
from "customers" as "c"
left join "partners" as "p" on "p"."program_id" = "c"."program_id" and "p"."id" = "c"."partner_id"
left join "referral_links" as "l" on "l"."program_id" = "c"."program_id" and "l"."id" = "c"."link_id"
where "c"."program_id" = $1 and "c"."id" = $2;
-- 7 lines as in events of a search
        where "program_id" = $2 and "id" = (
          select "c"."id"
          from "customers" as "c"
          where "c"."program_id" = $3 and "c"."id" = $4))), $5, $6, $7, $8, $9,
    -- 14 lines as in events of a search
  where "program_id" = $2 and "id" = (
    select "c"."id"
    from "customers" as "c"
    where "c"."program_id" = $3 and "c"."id" = $4))
order by "e"."lead_timestamp" desc, "e"."id" desc
limit $5;
select "s"."code_id", "a"."code", "s"."commission_rule_id", "s"."commission_fixed_cents", "s"."commission_cap_cents", "o"."name" as "group_name", "k"."partner_id" as "rule_partner_id", "k"."product_id" as "rule_product_id", "k"."sale_type" as "rule_sale_type", "k"."commission_fixed_cents" as "rule_fixed_cents", "k"."lifetime_cap_cents" as "rule_cap_cents", left_under_cap(s) as "left_cents", (
  select json_agg(json_build_object('rule_id', (l.part).rule_id, 'product_id', k.product_id, 'commission_bp', (l.part).commission_bp,
    'fixed_cents', coalesce((l.part).fixed_cents, 0), 'base_cents', l.part_cents, 'commission_cents', l.commission_cents)
    order by l.place)
  from commissions_of_lines(s.commission_base_cents, s.terms_by_line, s.sale_date, c.first_purchase_date, earlier_commissions(s))
  with ordinality l (part, part_cents, commission_cents, place)
  left join commission_rules k on k.program_id = s.program_id and k.id = (l.part).rule_id
  where s.terms_by_line is not null
) as "lines", "s"."transaction_id", "s"."is_test", "s"."sale_date", "s"."created_at", "s"."amount_cents", "s"."amount_source", "s"."commission_base_cents", "s"."processor_fee_cents", "s"."commission_bp", "s"."commission_months", "s"."refunded_cents", "s"."currency", commission_of(s.commission_base_cents, s.commission_bp, 0, null, s.sale_date, null, null) as "share_cents", trim_scale(s.commission_base_cents::numeric * s.commission_bp / 10000)::text as "exact_share", "s"."payment_status", "s"."resolution", "s"."customer_id", "s"."customer_key", "s"."partner_id", "r"."name" as "partner_name", "l"."id" as "link_id", "l"."code" as "link_code", "p"."name" as "program_name", "c"."click_id", "c"."first_purchase_date", "c"."signup_date", "c"."provisional_lead_at", "m"."id" as "commission_id", "m"."status", "m"."amount_cents" as "commission_cents", "m"."reversed_cents", "m"."reason", "m"."corrections", "m"."review_reason", "m"."hold_until", "m"."credited_at", "m"."paid_at", "m"."rejected_at", "m"."is_shadow", "m"."created_at" as "commission_created_at", "w"."id" as "payout_id", "w"."payout_run_id", "w"."reference", "w"."paid_on", "v"."flagged_at", "v"."decision", "v"."decided_at", jsonb_path_query_array(v.flags, '$[*].rule') as "flags", (
  select to_json(obj)
  from (
    select "e"."page_url", "e"."referrer_url", "e"."geo_country", "e"."device_type", "e"."campaign", "k"."code"
    from "click_events" as "e"
    left join "referral_links" as "k" on "k"."program_id" = "e"."program_id" and "k"."id" = "e"."link_id"
    where "e"."program_id" = "s"."program_id" and not "e"."is_test" and "e"."click_timestamp" = ("s"."resolution"->>'clicked_at')::timestamptz and "e"."customer_id" = "s"."customer_id"
    limit $1) as obj) as "click", (
  select to_json(obj)
  from (
    select "x"."id", "x"."amount_cents", "x"."reversed_cents", "x"."currency", "x"."status", "x"."created_at", "x"."partner_id", "y"."name" as "partner_name", "x"."held_at", "x"."rejected_at", "x"."hold_until", "x"."credited_at", "x"."paid_at", "x"."is_shadow"
    from "commissions" as "x"
    inner join "partners" as "y" on "y"."program_id" = "x"."program_id" and "y"."id" = "x"."partner_id"
    where "x"."program_id" = "s"."program_id" and "x"."customer_id" = "s"."customer_id" and "x"."kind" = $2) as obj) as "lead_commission", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "f"."id", "f"."requested_cents", "f"."applied_cents", "f"."deduction_cents", "f"."returned_cents", "f"."reason", "f"."reason_text", "f"."continues_refund_id", "f"."created_at", "f"."returned_at"
    from "refunds" as "f"
    where "f"."program_id" = "s"."program_id" and "f"."sale_id" = "s"."id"
    order by "f"."id") as agg) as "refunds", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "b"."entry_number", "b"."cause", "b"."amount_cents", "b"."balance_after_cents", "b"."correction_number", "b"."refund_id", "b"."created_at"
    from "balance_entries" as "b"
    where "b"."program_id" = "m"."program_id" and "b"."commission_id" = "m"."id" and "b"."cause" in ($3, $4, $5, $6)
    order by "b"."entry_number") as agg) as "entries", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "j"."amount_cents", "j"."currency", "j"."note", "j"."created_at", "h"."name"
    from "adjustments" as "j"
    inner join "partners" as "h" on "h"."program_id" = "j"."program_id" and "h"."id" = "j"."partner_id"
    where "j"."program_id" = "s"."program_id" and "j"."sale_id" = "s"."id" and "j"."partner_id" = coalesce("s"."partner_id", "j"."partner_id")
    order by "j"."id") as agg) as "adjustments"
from "sales" as "s"
inner join "programs" as "p" on "p"."id" = "s"."program_id"
left join "partners" as "r" on "r"."program_id" = "s"."program_id" and "r"."id" = "s"."partner_id"
left join "customers" as "c" on "c"."program_id" = "s"."program_id" and "c"."id" = "s"."customer_id"
left join "referral_links" as "l" on "l"."program_id" = "s"."program_id" and "l"."id" = ("s"."resolution"->>'link_id')::bigint
left join "commissions" as "m" on "m"."program_id" = "s"."program_id" and "m"."sale_id" = "s"."id"
left join "commission_reviews" as "v" on "v"."program_id" = "m"."program_id" and "v"."commission_id" = "m"."id"
left join "payouts" as "w" on "w"."program_id" = "m"."program_id" and "w"."id" = "m"."payout_id"
left join "commission_rules" as "k" on "k"."program_id" = "s"."program_id" and "k"."id" = "s"."commission_rule_id"
left join "partner_groups" as "o" on "o"."program_id" = "k"."program_id" and "o"."id" = "k"."group_id"
left join "partner_codes" as "a" on "a"."program_id" = "s"."program_id" and "a"."id" = "s"."code_id"
where "s"."program_id" = $7 and "s"."customer_id" = (
  select "c"."id"
  from "customers" as "c"
  where "c"."program_id" = $8 and "c"."id" = $9) and "s"."is_test" = false
order by "s"."id" desc
limit $10;
select "m"."currency", "m"."amount_cents" as "commission_cents", "m"."reversed_cents", "m"."reason", "m"."corrections", "m"."review_reason", "m"."hold_until", "m"."credited_at", "m"."paid_at", "m"."rejected_at", "m"."is_shadow", "m"."created_at" as "commission_created_at", "w"."id" as "payout_id", "w"."reference", "w"."paid_on", "v"."flagged_at", "v"."decision", "v"."decided_at", jsonb_path_query_array(v.flags, '$[*].rule') as "flags", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "b"."entry_number", "b"."cause", "b"."amount_cents", "b"."balance_after_cents", "b"."correction_number", "b"."refund_id", "b"."created_at"
    from "balance_entries" as "b"
    where "b"."program_id" = "m"."program_id" and "b"."commission_id" = "m"."id" and "b"."cause" in ($1, $2, $3, $4)
    order by "b"."entry_number") as agg) as "entries"
from "commissions" as "m"
left join "commission_reviews" as "v" on "v"."program_id" = "m"."program_id" and "v"."commission_id" = "m"."id"
left join "payouts" as "w" on "w"."program_id" = "m"."program_id" and "w"."id" = "m"."payout_id"
where "m"."program_id" = $5 and "m"."kind" = $6 and "m"."customer_id" = (
  select "c"."id"
  from "customers" as "c"
  where "c"."program_id" = $7 and "c"."id" = $8);
