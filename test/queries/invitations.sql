-- inviteMember
insert into "workspace_invitations" ("workspace_id", "email", "role", "token_hash", "invited_by", "expires_at")
select $1 as "workspace_id", $2 as "email", $3 as "role", $4 as "token_hash", $5 as "invited_by", now() + make_interval(days => $6) as "expires_at"
where not exists (
  select
  from "workspace_members" as "m"
  inner join "users" as "u" on "u"."id" = "m"."user_id"
  where "m"."workspace_id" = $7 and "u"."email" = $8 and "m"."removed_at" is null)
on conflict ("workspace_id", "email")
where "accepted_at" is null and "revoked_at" is null do
update
set "role" = $9, "token_hash" = $10, "invited_by" = $11, "expires_at" = now() + make_interval(days => $12)
returning "id";

-- findInvitation
select "w"."name" as "workspace_name", "i"."email", "i"."role"
from "workspace_invitations" as "i"
inner join "workspaces" as "w" on "w"."id" = "i"."workspace_id"
where "i"."token_hash" = $1 and "i"."accepted_at" is null and "i"."revoked_at" is null and "i"."expires_at" > now();

-- acceptInvitation
with "invitation" as (
  update "workspace_invitations" as "i"
  set "accepted_at" = now()
  from "users" as "u"
  where "i"."token_hash" = $1 and "i"."accepted_at" is null and "i"."revoked_at" is null and "i"."expires_at" > now() and "u"."id" = $2 and "u"."email" = "i"."email"
  returning "i"."workspace_id", "i"."role"), "proven" as (
  update "users"
  set "email_verified" = $3
  where "id" = $4 and exists (
    select
    from "invitation"))
insert into "workspace_members" ("workspace_id", "user_id", "role")
select "workspace_id", $5 as "user_id", "role"
from "invitation"
on conflict ("workspace_id", "user_id") do
update
set "role" = case when "workspace_members"."removed_at" is null then "workspace_members"."role" else "excluded"."role" end, "removed_at" = $6
returning "workspace_id";

-- invitePartner
with "partner" as (
  select "id", "email" as "email"
  from "partners"
  where "id" = $1 and "user_id" is null and "email" is not null), "invitation" as (
  insert into "partner_invitations" ("partner_id", "token_hash", "expires_at")
  select "id", $2 as "token_hash", now() + make_interval(days => $3) as "expires_at"
  from "partner")
select "email"
from "partner";

-- findPartnerInvitation
select "p"."name", "p"."email" as "email"
from "partner_invitations" as "i"
inner join "partners" as "p" on "p"."id" = "i"."partner_id"
where "i"."token_hash" = $1 and "i"."accepted_at" is null and "i"."expires_at" > now() and "p"."user_id" is null;

-- acceptPartnerInvitation
with "invitation" as (
  update "partner_invitations" as "i"
  set "accepted_at" = now()
  from "partners" as "p"
  where "i"."token_hash" = $1 and "i"."accepted_at" is null and "i"."expires_at" > now() and "p"."id" = "i"."partner_id" and "p"."user_id" is null
  returning "i"."partner_id")
update "partners"
set "user_id" = $2
from "invitation"
where "partners"."id" = "invitation"."partner_id"
returning "partners"."id";
