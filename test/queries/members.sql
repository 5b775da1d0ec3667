-- listMembers
select "m"."user_id", "u"."name", "u"."email", "m"."role", "m"."created_at", "m"."removed_at", "u"."two_factor_enabled"
from "workspace_members" as "m"
inner join "users" as "u" on "u"."id" = "m"."user_id"
where "m"."workspace_id" = $1
order by "m"."removed_at" is not null, "m"."created_at", "m"."user_id";
select "id", "email", "role", "expires_at"
from "workspace_invitations"
where "workspace_id" = $1 and "accepted_at" is null and "revoked_at" is null
order by "created_at", "id";

-- changeMember to another role
select
from "workspaces"
where "id" = $1
for update;
with "changed" as (
  update "workspace_members" as "m"
  set "role" = $1
  where "m"."workspace_id" = $2 and "m"."user_id" = $3 and "m"."removed_at" is null and (false or ("m"."role" <> $4 and true)) and ("m"."role" <> $5 or false or exists (
      select
      from "active_members" as "other"
      where "other"."workspace_id" = "m"."workspace_id" and "other"."user_id" <> "m"."user_id" and "other"."role" = $6))
  returning "m"."user_id"), "closed" as (
  delete from "program_members" as "p"
  using "changed"
  where "p"."workspace_id" = $7 and "p"."user_id" = "changed"."user_id" and false)
select "user_id"
from "changed";
update "workspace_invitations" as "i"
set "revoked_at" = now()
where "i"."workspace_id" = $1 and ("i"."accepted_at" is null and "i"."revoked_at" is null) and not (("i"."accepted_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and exists (
    select
    from "active_members" as "m"
    where "m"."workspace_id" = "i"."workspace_id" and "m"."user_id" = "i"."invited_by" and "m"."role" in ($2, $3) and ("i"."role" <> $4 or "m"."role" in ($5))));
update "partner_invitations" as "i"
set "revoked_at" = now()
where "i"."program_id" in (
  select "id"
  from "programs"
  where "workspace_id" = $1) and ("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and not (("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and ("i"."application_id" is not null or exists (
      select
      from "program_roles" as "m"
      where "m"."program_id" = "i"."program_id" and "m"."user_id" = "i"."invited_by" and "m"."roles" && $2::text[])));
select cast(count(*) as bigint) as "count"
from "api_keys" as "k"
inner join "programs" as "p" on "p"."id" = "k"."program_id"
where "p"."workspace_id" = $1 and "k"."created_by" = $2 and "k"."revoked_at" is null;

-- changeMember to no role
-- 6 lines as in changeMember to another role
  set "removed_at" = now()
  -- 7 lines as in changeMember to another role
  where "p"."workspace_id" = $6 and "p"."user_id" = "changed"."user_id" and true)
-- 21 lines as in changeMember to another role

-- openProgram
insert into "program_members" ("program_id", "workspace_id", "user_id", "role")
select "p"."id", "p"."workspace_id", $1 as "user_id", $2 as "role"
from "programs" as "p"
inner join "active_members" as "m" on "m"."workspace_id" = "p"."workspace_id"
where "p"."id" = $3 and "m"."user_id" = $4
on conflict ("program_id", "user_id") do
update
set "role" = $5;
update "partner_invitations" as "i"
set "revoked_at" = now()
where "i"."program_id" in (
  select "id"
  from "programs"
  where "workspace_id" = (
    select "workspace_id"
    from "programs"
    where "id" = $1)) and ("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and not (("i"."accepted_at" is null and "i"."declined_at" is null and "i"."revoked_at" is null) and "i"."expires_at" > now() and ("i"."application_id" is not null or exists (
      select
      from "program_roles" as "m"
      where "m"."program_id" = "i"."program_id" and "m"."user_id" = "i"."invited_by" and "m"."roles" && $2::text[])));

-- listOpenedPrograms
select "o"."program_id", "p"."name" as "program_name", "o"."user_id", "u"."name" as "user_name", "o"."role"
from "program_members" as "o"
inner join "programs" as "p" on "p"."id" = "o"."program_id"
inner join "users" as "u" on "u"."id" = "o"."user_id"
where "o"."workspace_id" = $1
order by "p"."name", "u"."name", "o"."user_id";
