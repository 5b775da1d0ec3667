-- addPartner
with "found" as (
  select "id"
  from "partners"
  where lower("email") = lower(cast($1 as text))), "made" as (
  insert into "partners" ("name", "email")
  select $2 as "name", $3 as "email"
  where not exists (
    select
    from "found")
  returning "id"), "joined" as (
  insert into "partner_programs" ("program_id", "partner_id")
  select $4 as "program_id", "partner"."id"
  from (
    select "id"
    from "found"
    union all
    select "id"
    from "made") as "partner"
  on conflict ("program_id", "partner_id") do
  update
  set "is_active" = $5
  returning "program_id", "partner_id")
insert into "referral_links" ("code", "program_id", "partner_id")
select $6 as "code", "program_id", "partner_id"
from "joined"
returning "partner_id" as "partner_id";

-- addLink
insert into "referral_links" ("code", "program_id", "partner_id", "page_url")
select $1 as "code", "program_id", "partner_id", $2 as "page_url"
from "partner_programs"
where "program_id" = $3 and "partner_id" = $4 and "is_active" = $5;

-- setPartnerActive
update "partner_programs"
set "is_active" = $1
where "program_id" = $2 and "partner_id" = $3;
update "referral_links"
set "is_active" = $1
where "program_id" = $2 and "partner_id" = $3;

-- listPartners
select "p"."id", "p"."name", "p"."email", "m"."is_active", "p"."user_id" is not null as "has_account", "m"."created_at", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "l"."id", "l"."code", "l"."page_url", "l"."is_active", coalesce((
        select cast("k"."clicks" as bigint) as "clicks"
        from "link_click_counts" as "k"
        where "k"."program_id" = "l"."program_id" and "k"."link_id" = "l"."id"), 0) as "clicks"
    from "referral_links" as "l"
    where "l"."program_id" = "m"."program_id" and "l"."partner_id" = "m"."partner_id"
    order by "l"."id") as agg) as "links", (
  select count(*) as "sales"
  from "commissions" as "c"
  where "c"."program_id" = "m"."program_id" and "c"."partner_id" = "p"."id" and "c"."kind" = $1 and "c"."amount_cents" > $2) as "sales", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "b"."currency", "b"."balance_cents"
    from "balances" as "b"
    where "b"."program_id" = "m"."program_id" and "b"."partner_id" = "p"."id"
    order by "b"."currency") as agg) as "balances"
from "partner_programs" as "m"
inner join "partners" as "p" on "p"."id" = "m"."partner_id"
where "m"."program_id" = $3 and "p"."id" < $4
order by "p"."id" desc
limit $5;

-- listProgramsOfPartner
select "g"."id", "g"."name", "g"."domain", "g"."currency", "g"."commission_bp", "m"."is_active", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "l"."id", "l"."code", "l"."page_url", "l"."is_active", coalesce((
        select cast("k"."clicks" as bigint) as "clicks"
        from "link_click_counts" as "k"
        where "k"."program_id" = "l"."program_id" and "k"."link_id" = "l"."id"), 0) as "clicks"
    from "referral_links" as "l"
    where "l"."program_id" = "m"."program_id" and "l"."partner_id" = "m"."partner_id"
    order by "l"."id") as agg) as "links"
from "partner_programs" as "m"
inner join "programs" as "g" on "g"."id" = "m"."program_id"
where "m"."partner_id" = $1
order by "g"."name", "g"."id";

-- topPartners
with "made" as not materialized (
  select "partner_id", "sale_id", "amount_cents" - "reversed_cents" as "commission_cents"
  from "commissions"
  where "program_id" = $1 and "currency" = $2 and "amount_cents" > $3 and "created_at" >= $4 and "created_at" < $5), "top" as (
  select "partner_id", cast(sum("commission_cents") as bigint) as "commission_cents"
  from "made"
  group by "partner_id"
  order by "commission_cents" desc, "partner_id"
  limit $6), "sold" as (
  select "top"."partner_id", count(*) as "sales", cast(sum("s"."amount_cents") as bigint) as "revenue_cents"
  from "top"
  inner join "made" on "made"."partner_id" = "top"."partner_id"
  inner join "sales" as "s" on "s"."program_id" = $7 and "s"."id" = "made"."sale_id"
  group by "top"."partner_id")
select "p"."id", "p"."name", coalesce("sold"."sales", 0) as "sales", coalesce("sold"."revenue_cents", 0) as "revenue_cents", "top"."commission_cents"
from "top"
inner join "partners" as "p" on "p"."id" = "top"."partner_id"
left join "sold" on "sold"."partner_id" = "top"."partner_id"
order by "top"."commission_cents" desc, "p"."id";
