-- invitePartner
insert into "partner_invitations" ("program_id", "partner_id", "email", "token_hash", "invited_by", "expires_at")
select "program_id", "id", lower("email") as "email", $1 as "token_hash", $2 as "invited_by", now() + make_interval(days => $3) as "expires_at"
from "partners"
where "program_id" = $4 and "id" = $5 and "email" is not null and ("user_id" is null or "ended_at" is not null)
on conflict ("program_id", "partner_id")
where "accepted_at" is null and "declined_at" is null and "revoked_at" is null do
update
set "email" = "excluded"."email", "token_hash" = $6, "invited_by" = $7, "application_id" = $8, "created_at" = now(), "expires_at" = now() + make_interval(days => $9)
returning "email", (
  select "g"."language"
  from "programs" as "g"
  where "g"."id" = "partner_invitations"."program_id") as "language";

-- listPartnerInvitations
select "i"."program_id", "i"."id", "g"."name" as "program_name", "i"."expires_at"
from "partner_invitations" as "i"
inner join "programs" as "g" on "g"."id" = "i"."program_id"
where "i"."email" = $1 and (("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and ("i"."application_id" is not null or exists (
      select
      from "program_roles" as "m"
      where "m"."program_id" = "i"."program_id" and "m"."user_id" = "i"."invited_by" and "m"."roles" && $2::text[]))) and "i"."id" < $3
order by "i"."id" desc
limit $4;

-- findPartnerInvitation
select "g"."name" as "program_name", "g"."language", "i"."email", "p"."name" as "partner_name", (
  select to_json(obj)
  from (
    select coalesce("b"."portal_name", "o"."name") as "name", "b"."color", case when b.logo is not null then
  concat('/assets/logo-', b.program_id, '-', b.logo_hash, '.', b.logo_type) end as "logo"
    from "programs" as "o"
    left join "program_brands" as "b" on "b"."program_id" = "o"."id"
    where "o"."id" = "g"."id") as obj) as "brand"
from "partner_invitations" as "i"
inner join "programs" as "g" on "g"."id" = "i"."program_id"
inner join "partners" as "p" on "p"."program_id" = "i"."program_id" and "p"."id" = "i"."partner_id"
where "i"."token_hash" = $1 and (("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and ("i"."application_id" is not null or exists (
      select
      from "program_roles" as "m"
      where "m"."program_id" = "i"."program_id" and "m"."user_id" = "i"."invited_by" and "m"."roles" && $2::text[])));

-- acceptPartnerInvitation by the link
with "invitation" as (
  update "partner_invitations" as "i"
  set "accepted_at" = now()
  from "users" as "u", "partners" as "p"
  where (("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and ("i"."application_id" is not null or exists (
        select
        from "program_roles" as "m"
        where "m"."program_id" = "i"."program_id" and "m"."user_id" = "i"."invited_by" and "m"."roles" && $1::text[]))) and "i"."token_hash" = $2 and "u"."id" = $3 and "u"."email" = "i"."email" and (true or "u"."email_verified" = $4) and "p"."program_id" = "i"."program_id" and "p"."id" = "i"."partner_id" and ("p"."user_id" is null or "p"."user_id" = $5)
  returning "i"."program_id", "i"."partner_id", "p"."ended_at" is not null as "had_ended"), "switched" as (
  update "referral_links" as "l"
  set "is_active" = $6
  from "invitation"
  where "l"."program_id" = "invitation"."program_id" and "l"."partner_id" = "invitation"."partner_id" and "invitation"."had_ended" = $7), "proven" as (
  update "users"
  set "email_verified" = $8
  where "id" = $9 and "email_verified" = $10 and exists (
    select
    from "invitation"))
update "partners" as "p"
set "user_id" = $11, "is_active" = case when "p"."ended_at" is not null then true else "p"."is_active" end, "ended_at" = $12, "ended_by" = $13, "name" = coalesce((
    select "name"
    from "partner_profiles" as "f"
    where "f"."user_id" = $14), "p"."name"), "payout_email" = coalesce((
    select "payout_email"
    from "partner_profiles" as "f"
    where "f"."user_id" = $15), "p"."payout_email")
from "invitation"
where "p"."program_id" = "invitation"."program_id" and "p"."id" = "invitation"."partner_id"
returning "p"."program_id";
select *
from written_messages();

-- acceptPartnerInvitation in the list
-- 7 lines as in acceptPartnerInvitation by the link
        where "m"."program_id" = "i"."program_id" and "m"."user_id" = "i"."invited_by" and "m"."roles" && $1::text[]))) and ("i"."program_id" = $2 and "i"."id" = $3) and "u"."id" = $4 and "u"."email" = "i"."email" and (false or "u"."email_verified" = $5) and "p"."program_id" = "i"."program_id" and "p"."id" = "i"."partner_id" and ("p"."user_id" is null or "p"."user_id" = $6)
  -- 23 lines as in acceptPartnerInvitation by the link

-- declinePartnerInvitation
update "partner_invitations" as "i"
set "declined_at" = now()
from "users" as "u"
where "i"."program_id" = $1 and "i"."id" = $2 and ("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and "u"."id" = $3 and "u"."email_verified" = $4 and "u"."email" = "i"."email";
