-- addPartner
with "created" as (
  insert into "partners" ("program_id", "name", "email", "metadata")
  values ($1, $2, $3, $4)
  returning "program_id", "id")
insert into "referral_links" ("code", "program_id", "partner_id")
select $5 as "code", "program_id", "id"
from "created";
select keep_answer((
    select to_jsonb(m)
    from ((
        select "p"."id", "p"."name", "p"."email", "p"."is_active", "p"."ended_at", "p"."ended_by", "p"."user_id" is not null as "has_account", exists (
          select
          from "partner_invitations" as "i"
          where "i"."program_id" = "p"."program_id" and "i"."partner_id" = "p"."id" and (("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and ("i"."application_id" is not null or exists (
                select
                from "program_roles" as "m"
                where "m"."program_id" = "i"."program_id" and "m"."user_id" = "i"."invited_by" and "m"."roles" && $1::text[])))) as "invited", "p"."external_id", "p"."group_id", (
          select "g"."name"
          from "partner_groups" as "g"
          where "g"."program_id" = "p"."program_id" and "g"."id" = "p"."group_id") as "group_name", (
          select coalesce(json_agg(agg), '[]')
          from (
            select "c"."id", "c"."product_id", "c"."sale_type", "c"."commission_bp", "c"."commission_fixed_cents", "c"."lifetime_cap_cents", "c"."commission_duration_months", "c"."lead_commission_cents", "c"."created_at", "programs"."currency"
            from "commission_rules" as "c"
            inner join "programs" on "programs"."id" = "c"."program_id"
            where "c"."program_id" = $2 and "c"."ended_at" is null and "c"."partner_id" = "p"."id"
            order by num_nonnulls(c.product_id, c.sale_type), "c"."product_id", "c"."sale_type", "c"."id") as agg) as "rules", "p"."metadata" as "metadata", "p"."created_at", (
          select coalesce(json_agg(agg), '[]')
          from (
            select "l"."id", "l"."code", "l"."page_url", "l"."is_active", coalesce("k"."clicks", 0) as "clicks", coalesce("k"."bot_clicks", 0) as "bot_clicks"
            from "referral_links" as "l"
            left join lateral (
              select cast("c"."clicks" as bigint) as "clicks", cast("c"."bot_clicks" as bigint) as "bot_clicks", "c"."last_clicked_at"
              from "link_click_counts" as "c"
              where "c"."program_id" = "l"."program_id" and "c"."link_id" = "l"."id"
              limit 1) as "k" on true
            where "l"."program_id" = "p"."program_id" and "l"."partner_id" = "p"."id"
            order by "l"."id"
            limit 11) as agg) as "links", (
          select count(*) as "sales"
          from "sales" as "s"
          where "s"."program_id" = "p"."program_id" and "s"."partner_id" = "p"."id" and not "s"."is_test" and "s"."payment_status" = 'paid') as "sales", (
          select coalesce(json_agg(agg), '[]')
          from (
            select "b"."currency", "b"."balance_cents"
            from "balances" as "b"
            where "b"."program_id" = "p"."program_id" and "b"."partner_id" = "p"."id"
            order by "b"."currency") as agg) as "balances"
        from "partners" as "p"
        where "p"."program_id" = $3 and "p"."id" = (
          select "l"."partner_id"
          from "referral_links" as "l"
          where "l"."program_id" = $4 and lower("l"."code") = lower($5::text))
        order by "p"."id" desc
        limit $6)) m)) as "created";

-- addLink
insert into "referral_links" ("program_id", "partner_id", "code", "page_url", "external_id", "metadata")
select "program_id", "id", $1 as "code", $2 as "page_url", $3 as "external_id", $4::jsonb as "metadata"
from "partners"
where "program_id" = $5 and "id" = $6 and "is_active" = $7 and (
  select count(*) as "links"
  from "referral_links"
  where "program_id" = $8 and "partner_id" = $9) < $10;
select keep_answer((
    select to_jsonb(m)
    from ((
        select "l"."id", "l"."code", "l"."partner_id", "g"."domain", "l"."page_url", "l"."is_active", "l"."external_id", "l"."metadata" as "metadata", coalesce("k"."clicks", 0) as "clicks", coalesce("k"."bot_clicks", 0) as "bot_clicks", "k"."last_clicked_at", "l"."created_at"
        from "referral_links" as "l"
        inner join "programs" as "g" on "g"."id" = "l"."program_id"
        left join lateral (
          select cast("c"."clicks" as bigint) as "clicks", cast("c"."bot_clicks" as bigint) as "bot_clicks", "c"."last_clicked_at"
          from "link_click_counts" as "c"
          where "c"."program_id" = "l"."program_id" and "c"."link_id" = "l"."id"
          limit 1) as "k" on true
        where "l"."program_id" = $1 and lower("l"."code") = lower($2::text) and "l"."created_at" = now()
        order by "l"."id" desc
        limit $3)) m)) as "created";
select "id", (
  select count(*) as "links"
  from "referral_links"
  where "program_id" = $1 and "partner_id" = $2) as "links"
from "partners"
where "program_id" = $3 and "id" = $4;

-- updatePartner
with "changed" as (
  update "partners"
  set "is_active" = $1, "metadata" = jsonb_strip_nulls("metadata" || $2::jsonb)
  where "program_id" = $3 and "id" = $4 and ("closed_at" is null or true) and ("ended_at" is null or "user_id" is null or true) and ("user_id" is null or true)
  returning "program_id", "id")
select "id"
from "changed";
update "referral_links" as "l"
set "is_active" = "p"."is_active"
from "partners" as "p"
where "l"."program_id" = $1 and "p"."program_id" = "l"."program_id" and "p"."id" = "l"."partner_id" and p.id = any ($2::bigint[]);
update "partner_invitations" as "i"
set "revoked_at" = now()
from "partners" as "p"
where "i"."program_id" = $1 and "i"."partner_id" = $2 and "p"."program_id" = "i"."program_id" and "p"."id" = "i"."partner_id" and lower("p"."email") is distinct
from "i"."email" and "i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null;
-- 39 lines as in addPartner
where "p"."program_id" = $3 and "p"."id" = $4
order by "p"."id" desc
limit $5;

-- listPartners
-- 39 lines as in addPartner
where "p"."program_id" = $3 and "p"."id" < $4
order by "p"."id" desc
limit $5;

-- listPartnersWithCodes
-- 37 lines as in addPartner
    order by "b"."currency") as agg) as "balances", (
  select to_json(obj)
  from (
    select cast(coalesce(sum("k"."clicks"), 0) as bigint) as "clicks", cast(coalesce(sum("k"."bot_clicks"), 0) as bigint) as "bot_clicks"
    from "referral_links" as "l"
    inner join lateral (
      select cast("c"."clicks" as bigint) as "clicks", cast("c"."bot_clicks" as bigint) as "bot_clicks", "c"."last_clicked_at"
      from "link_click_counts" as "c"
      where "c"."program_id" = "l"."program_id" and "c"."link_id" = "l"."id"
      limit 1) as "k" on true
    where "l"."program_id" = "p"."program_id" and "l"."partner_id" = "p"."id") as obj) as "all_links", (
  select string_agg(l.code, ' '
    order by l.id) as "codes"
  from "referral_links" as "l"
  where "l"."program_id" = "p"."program_id" and "l"."partner_id" = "p"."id") as "codes", (
  select coalesce(sum(t."revenue_cents"), 0)::bigint
  from grouped_totals t
  where t.program_id = p.program_id and t.grouping_name = 'partner' and t.value = p.id::text
  and t.currency = (
    select g.currency
    from programs g
    where g.id = p.program_id) and t.span = 'month') as "revenue_cents", (
  select coalesce(sum(t."commission_cents"), 0)::bigint
  from grouped_totals t
  where t.program_id = p.program_id and t.grouping_name = 'partner' and t.value = p.id::text
  and t.currency = (
    select g.currency
    from programs g
    where g.id = p.program_id) and t.span = 'month') as "commission_cents", array(
  select coalesce((
      select t.revenue_cents
      from grouped_totals t
      where t.program_id = p.program_id and t.grouping_name = 'partner' and t.value = p.id::text
  and t.currency = (
        select g.currency
        from programs g
        where g.id = p.program_id) and t.span = 'day' and t.starts = d.day), 0)
  from (
    select utc_day(now()) - n as day
    from generate_series(29, 0, -1) n) d
  ) as "revenue_by_day", (
  select max("s"."sale_date") as "last_sale_at"
  from "sales" as "s"
  where "s"."program_id" = "p"."program_id" and "s"."partner_id" = "p"."id" and not "s"."is_test") as "last_sale_at"
from "partners" as "p"
where "p"."program_id" = $3 and "p"."id" < $4
order by "p"."id" desc
limit $5;

-- listProgramsOfPartner
select "g"."id", "g"."name", "g"."domain", "g"."currency", "g"."commission_bp", "g"."commission_duration_months", "g"."lead_commission_cents", "g"."hold_days", "g"."cookie_window_days", "p"."id" as "partner_id", "p"."is_active", "p"."ended_at", "p"."ended_by", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "l"."id", "l"."code", "l"."page_url", "l"."is_active", coalesce("k"."clicks", 0) as "clicks", coalesce("k"."bot_clicks", 0) as "bot_clicks", (
      select coalesce(sum(t."leads"), 0)::bigint
      from grouped_totals t
      where t.program_id = l.program_id and t.grouping_name = 'link' and t.span = 'month' and t.value = l.id::text
  ) as "leads", (
      select coalesce(sum(t."sales"), 0)::bigint
      from grouped_totals t
      where t.program_id = l.program_id and t.grouping_name = 'link' and t.span = 'month' and t.value = l.id::text
  ) as "sales", (
      select coalesce(sum(t."commission_cents"), 0)::bigint
      from grouped_totals t
      where t.program_id = l.program_id and t.grouping_name = 'link' and t.span = 'month' and t.value = l.id::text and t.currency = (
        select g.currency
        from programs g
        where g.id = l.program_id)
  ) as "commission_cents"
    -- 7 lines as in addPartner
    order by "l"."id") as agg) as "links", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "k"."id", "k"."code", (
      select coalesce(sum(t."sales"), 0)::bigint
      from grouped_totals t
      where t.program_id = k.program_id and t.grouping_name = 'code' and t.span = 'month' and t.value = k.id::text
  ) as "sales", (
      select coalesce(sum(t."commission_cents"), 0)::bigint
      from grouped_totals t
      where t.program_id = k.program_id and t.grouping_name = 'code' and t.span = 'month' and t.value = k.id::text and t.currency = (
        select p.currency
        from programs p
        where p.id = k.program_id)
  ) as "commission_cents"
    from "partner_codes" as "k"
    where "k"."program_id" = "p"."program_id" and "k"."partner_id" = "p"."id" and "k"."revoked_at" is null
    order by "k"."id"
    limit 100) as agg) as "codes", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "c"."id", "c"."product_id", "c"."sale_type", "c"."commission_bp", "c"."commission_fixed_cents", "c"."lifetime_cap_cents", "c"."commission_duration_months", "c"."lead_commission_cents", "c"."created_at"
    from "commission_rules" as "c"
    where "c"."program_id" = "p"."program_id" and "c"."ended_at" is null and ("c"."partner_id" is null or "c"."partner_id" = "p"."id") and ("c"."group_id" is null or "c"."group_id" = "p"."group_id")
    order by "c"."partner_id", "c"."group_id", "c"."product_id", "c"."sale_type") as agg) as "rules", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "currency", cast(sum("pending_cents") as bigint) as "pending_cents", cast(sum("balance_cents") as bigint) as "balance_cents", cast(sum("requested_cents") as bigint) as "requested_cents", cast(sum("paid_cents") as bigint) as "paid_cents", cast(greatest(sum("balance_cents") - sum("requested_cents"), 0) as bigint) as "available_cents"
    from (
      select "currency", "amount_cents" - "reversed_cents" as "pending_cents", 0 as "balance_cents", 0 as "requested_cents", 0 as "paid_cents"
      from "commissions"
      where "program_id" = "p"."program_id" and "partner_id" = "p"."id" and "credited_at" is null and "rejected_at" is null and "is_shadow" = false
      union all
      select "currency", 0 as "pending_cents", "balance_cents", 0 as "requested_cents", 0 as "paid_cents"
      from "balances"
      where "program_id" = "p"."program_id" and "partner_id" = "p"."id"
      union all
      select "currency", 0 as "pending_cents", 0 as "balance_cents", case when "decided_at" is null then "amount_cents" else 0 end as "requested_cents", case when "status" = $1 then "amount_cents" else 0 end as "paid_cents"
      from "payouts"
      where "program_id" = "p"."program_id" and "partner_id" = "p"."id") as "part"
    group by "currency"
    order by "currency") as agg) as "balances", (
  select to_json(obj)
  from (
    select utc_day(hold_until) as "day", sum(amount_cents - reversed_cents)::bigint as "amount_cents"
    from "commissions"
    where "program_id" = "p"."program_id" and "partner_id" = "p"."id" and "currency" = "g"."currency" and "credited_at" is null and "rejected_at" is null and "held_at" is null and "is_shadow" = false and "hold_until" > now() and "amount_cents" > "reversed_cents"
    group by 1
    order by 1
    limit 1) as obj) as "next_credit", (
  select to_json(obj)
  from (
    select "w"."amount_cents", "w"."status", w.created_at as "since"
    from "payouts" as "w"
    where "w"."program_id" = "p"."program_id" and "w"."partner_id" = "p"."id" and "w"."currency" = "g"."currency" and "w"."decided_at" is null and "w"."amount_cents" > $2
    order by "w"."id"
    limit 1) as obj) as "open_payout", (
  select to_json(obj)
  from (
    select "w"."amount_cents", w.paid_on as "day"
    from "payouts" as "w"
    where "w"."program_id" = "p"."program_id" and "w"."partner_id" = "p"."id" and "w"."currency" = "g"."currency" and "w"."status" = $3
    order by "w"."paid_on" desc
    limit 1) as obj) as "last_payout", coalesce((
    select "m"."minimum_payout_cents"
    from "minimum_payouts" as "m"
    where "m"."program_id" = "g"."id" and "m"."currency" = "g"."currency"), 0) as "minimum_payout_cents"
from "partners" as "p"
inner join "programs" as "g" on "g"."id" = "p"."program_id"
where "p"."user_id" = $4 and "p"."id" < $5
order by "p"."id" desc
limit $6;

-- endPartnership by the program
update "partners"
set "is_active" = $1, "ended_at" = now(), "ended_by" = $2
where "program_id" = $3 and "id" in (
  select "id"
  from "partners"
  where "program_id" = $4 and "id" = $5) and "ended_at" is null;
update "referral_links" as "l"
set "is_active" = "p"."is_active"
from "partners" as "p"
where "l"."program_id" = $1 and "p"."program_id" = "l"."program_id" and "p"."id" = "l"."partner_id" and p.id = any ($2::bigint[]);
update "partner_codes"
set "revoked_at" = now()
where "program_id" = $1 and "partner_id" in (
  select "id"
  from "partners"
  where "program_id" = $2 and "id" = $3) and "revoked_at" is null;
update "partner_invitations"
set "revoked_at" = now()
where "program_id" = $1 and "partner_id" in (
  select "id"
  from "partners"
  where "program_id" = $2 and "id" = $3) and "accepted_at" is null and "declined_at" is null and "revoked_at" is null;

-- endPartnership by the partner
update "partners"
set "is_active" = $1, "ended_at" = now(), "ended_by" = $2
where "program_id" = $3 and "id" in (
  select "id"
  from "partners"
  where "program_id" = $4 and "user_id" = $5) and "ended_at" is null;
update "referral_links" as "l"
set "is_active" = "p"."is_active"
from "partners" as "p"
where "l"."program_id" = $1 and "p"."program_id" = "l"."program_id" and "p"."id" = "l"."partner_id" and "p"."user_id" = $2;
update "partner_codes"
set "revoked_at" = now()
where "program_id" = $1 and "partner_id" in (
  select "id"
  from "partners"
  where "program_id" = $2 and "user_id" = $3) and "revoked_at" is null;
update "partner_invitations"
set "revoked_at" = now()
where "program_id" = $1 and "partner_id" in (
  select "id"
  from "partners"
  where "program_id" = $2 and "user_id" = $3) and "accepted_at" is null and "declined_at" is null and "revoked_at" is null;

-- setPartnerName
insert into "partner_profiles" ("user_id", "name")
values ($1, $2)
on conflict ("user_id") do
update
set "name" = $3;
update "partners"
set "name" = $1
where "user_id" = $2 and "ended_at" is null;

-- setPayoutAddress
select coalesce("payout_email", "email") as "address"
from "partners"
where "user_id" = $1
order by "program_id", "id" for no key
update;
insert into "partner_profiles" ("user_id", "payout_email")
values ($1, $2)
on conflict ("user_id") do
update
set "payout_email" = $3;
update "partners"
set "payout_email" = $1
where "user_id" = $2
returning "payout_waits_until";
