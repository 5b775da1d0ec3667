-- inviteMember
insert into "workspace_invitations" ("workspace_id", "email", "role", "token_hash", "invited_by", "expires_at")
select $1 as "workspace_id", $2 as "email", $3 as "role", $4 as "token_hash", $5 as "invited_by", now() + make_interval(days => 7) as "expires_at"
where not exists (
  select
  from "active_members" as "m"
  inner join "users" as "u" on "u"."id" = "m"."user_id"
  where "m"."workspace_id" = $6 and "u"."email" = $7)
on conflict ("workspace_id", "email")
where "accepted_at" is null and "revoked_at" is null do
update
set "role" = $8, "token_hash" = $9, "invited_by" = $10, "expires_at" = now() + make_interval(days => 7)
where (false or "workspace_invitations"."role" <> $11)
returning "id";

-- findInvitation
select "w"."name" as "workspace_name", "i"."email", "i"."role"
from "workspace_invitations" as "i"
inner join "workspaces" as "w" on "w"."id" = "i"."workspace_id"
where "i"."token_hash" = $1 and (("i"."accepted_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and exists (
    select
    from "active_members" as "m"
    where "m"."workspace_id" = "i"."workspace_id" and "m"."user_id" = "i"."invited_by" and "m"."role" in ($2, $3) and ("i"."role" <> $4 or "m"."role" in ($5))));

-- acceptInvitation
with "invitation" as (
  update "workspace_invitations" as "i"
  set "accepted_at" = now()
  from "users" as "u"
  where "i"."token_hash" = $1 and (("i"."accepted_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and exists (
      select
      from "active_members" as "m"
      where "m"."workspace_id" = "i"."workspace_id" and "m"."user_id" = "i"."invited_by" and "m"."role" in ($2, $3) and ("i"."role" <> $4 or "m"."role" in ($5)))) and "u"."id" = $6 and "u"."email" = "i"."email"
  returning "i"."workspace_id", "i"."role"), "proven" as (
  update "users"
  set "email_verified" = $7
  where "id" = $8 and exists (
    select
    from "invitation"))
insert into "workspace_members" ("workspace_id", "user_id", "role")
select "workspace_id", $9 as "user_id", "role"
from "invitation"
on conflict ("workspace_id", "user_id") do
update
set "role" = case when "workspace_members"."removed_at" is null then "workspace_members"."role" else "excluded"."role" end, "removed_at" = $10
returning "workspace_id";

-- revokeInvitation
update "workspace_invitations" as "i"
set "revoked_at" = now()
where "i"."id" = $1 and "i"."workspace_id" = $2 and ("i"."accepted_at" is null and "i"."revoked_at" is null) and (false or "i"."role" <> $3)
returning "i"."id";
