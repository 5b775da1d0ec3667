-- Counts a mail from a workspace to a recipient today (UTC), or returns the exceeded bound of `bounds` (lib/mail-bounds.ts): `recipient`,
-- `workspace`, `source` or `network`. Returns `unverified` if no owner of the workspace has a confirmed address. The mails of an account
-- count too, because an account can leave, delete and create workspaces. `of_source` is `page` or `api` for an application, or else null.
-- The rows of the workspace and the account are locked first, so that concurrent mails are counted one after the other.
create or replace function count_mail(
  of_workspace_id text, of_user_id text, to_recipient text, of_source text, of_network text, bounds jsonb
) returns text language plpgsql as $$
declare
  today date := utc_day(now());
  mailbox text := mailbox_of(to_recipient);
  counters jsonb;
  over text;
begin
  perform from workspaces w where w.id = of_workspace_id for no key update;
  perform from users u where u.id = of_user_id for no key update;
  if not has_verified_owner(of_workspace_id) then
    return 'unverified';
  end if;
  select jsonb_agg(jsonb_build_object('counted', c.counted, 'most', c.most, 'bound', c.bound) order by c.counted) into counters from (
    select 'workspace ' || of_workspace_id || ' to ' || mailbox, 'per_recipient', 'recipient'
    union all select 'workspace ' || of_workspace_id, 'per_workspace', 'workspace'
    union all select 'account ' || of_user_id || ' to ' || mailbox, 'per_recipient', 'recipient' where of_user_id is not null
    union all select 'account ' || of_user_id, 'per_workspace', 'workspace' where of_user_id is not null
    union all select 'applications to ' || mailbox, 'applications_per_recipient', 'recipient' where of_source is not null
    union all select of_source || ' of workspace ' || of_workspace_id, 'per_source', 'source' where of_source is not null
    union all select of_network || ' at workspace ' || of_workspace_id, 'per_network', 'network' where of_network is not null
  ) c (counted, most, bound);
  select c.bound into over from jsonb_to_recordset(counters) c (counted text, most text, bound text)
  join mail_counts m on m.counted = c.counted and m.day = today
  where m.mails >= (bounds ->> c.most)::integer
  order by c.bound limit 1;
  if over is not null then
    return over;
  end if;
  insert into mail_counts as m (counted, day, mails)
  select c.counted, today, 1 from jsonb_to_recordset(counters) c (counted text) order by c.counted
  on conflict (counted, day) do update set mails = m.mails + 1;
  return null;
end $$;

-- Returns true if an owner of the workspace has a confirmed address. Without one, mails contain no text from the workspace.
create or replace function has_verified_owner(of_workspace_id text) returns boolean language sql stable as $$
  select exists (
    select from workspace_members m join users u on u.id = m.user_id
    where m.workspace_id = of_workspace_id and m.removed_at is null and m.role = 'owner' and u.email_verified
  )
$$;
