-- The active members of workspaces. A locked member can't see the workspace, because it requires two-factor codes and
-- the member has none.
create or replace view active_members as
select m.workspace_id, m.user_id, m.role, w.requires_two_factor and not u.two_factor_enabled as is_locked
from workspace_members m
join workspaces w on w.id = m.workspace_id and w.deleted_at is null
join users u on u.id = m.user_id
where m.removed_at is null;

-- The roles of active members on each program: the role in its workspace, and the role granted on this program.
create or replace view program_roles as
select p.id as program_id, m.workspace_id, m.user_id, m.is_locked, array_remove(array[m.role, o.role], null) as roles
from active_members m
join programs p on p.workspace_id = m.workspace_id and p.deleted_at is null
left join program_members o on o.program_id = p.id and o.user_id = m.user_id;

-- Returns true if an owner of the workspace has a confirmed address. Without one, mails contain no text from the workspace.
create or replace function has_verified_owner(of_workspace_id text) returns boolean language sql stable as $$
  select exists (
    select from active_members m join users u on u.id = m.user_id
    where m.workspace_id = of_workspace_id and m.role = 'owner' and u.email_verified
  )
$$;
