-- Counts a mail from a workspace to a recipient today (UTC), or returns the limit in `bounds` (lib/mail-bounds.ts) that it would exceed:
-- `recipient`, `workspace`, `source` or `network`. A bound that is missing there is not counted. Returns `unverified` if no owner of the workspace has a confirmed address. The mails
-- of an account count too, because an account can leave, delete and create workspaces. `of_source` is `page` or `api` for an application,
-- or else null. The rows of the workspace and the account are locked first, so that concurrent mails are counted one after the other.
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
  ) c (counted, most, bound)
  where bounds ? c.most;
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

-- Counts a mail about a payout today (UTC), or returns the limit in `bounds` (lib/mail-bounds.ts) that it would exceed: `recipient` over
-- all programs, or `workspace`. The counters are locked in the order of their names.
create or replace function count_payee_mail(of_workspace_id text, to_recipient text, bounds jsonb) returns text language plpgsql as $$
declare
  today date := utc_day(now());
  recipient text := 'payouts to ' || mailbox_of(to_recipient);
  workspace text := 'payouts of workspace ' || of_workspace_id;
  over text;
begin
  select case m.counted when recipient then 'recipient' else 'workspace' end into over from mail_counts m
  where m.day = today and (m.counted = recipient and m.mails >= (bounds ->> 'per_recipient')::integer
    or m.counted = workspace and m.mails >= (bounds ->> 'per_workspace')::integer)
  order by m.counted = workspace limit 1;
  if over is null then
    insert into mail_counts as m (counted, day, mails) select c.counted, today, 1 from unnest(array[workspace, recipient]) c (counted) order by 1
    on conflict (counted, day) do update set mails = m.mails + 1;
  end if;
  return over;
end $$;

-- Claims up to `max_mails` due mails to partners without an account, including those of failed attempts. The wait grows with each attempt,
-- and the tenth attempt is the last. Above a workspace's daily limit, its mails wait for the next day. Above a recipient's limit, mails are
-- dropped, and so are those of blocked programs. Reads more rows than it claims, so that the waiting mails of one workspace don't delay the
-- others. Calls run one at a time, so that the limits hold.
create or replace function claim_payee_mails(max_mails integer, bounds jsonb) returns table (
  mail_id uuid, program_id bigint, notification_id bigint, email text, partner_name text, language text, notification jsonb
) language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  over text;
  claimed integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('claim_payee_mails', 0));
  for one in
    select m.*, p.workspace_id, r.email, r.name::text as partner_name, p.language::text, n.kind, n.payload, p.name as program_name, b.sender_name, b.color,
      m.attempts < 10 and r.user_id is null and r.email is not null and r.closed_at is null and p.deleted_at is null and not is_blocked(p.id)
        and has_verified_owner(p.workspace_id) and not exists (select from refused_addresses a where a.email = lower(r.email)) as may_get
    from payee_mails m
    join notifications n on n.program_id = m.program_id and n.id = m.notification_id
    join programs p on p.id = m.program_id
    join partners r on r.program_id = n.program_id and r.id = n.partner_id
    left join program_brands b on b.program_id = m.program_id
    where m.due_at <= now() order by m.due_at, m.program_id, m.notification_id limit 50 * max_mails
  loop
    exit when claimed = max_mails;
    over := case when one.may_get and one.attempts = 0 then count_payee_mail(one.workspace_id, one.email, bounds) end;
    if not one.may_get or over = 'recipient' then
      delete from payee_mails m where m.program_id = one.program_id and m.notification_id = one.notification_id;
    else
      update payee_mails m set attempts = m.attempts + case when over is null then 1 else 0 end,
        due_at = case when over is null then now() + least(interval '2 minutes' * 2 ^ m.attempts, interval '12 hours') else next_daily_mail() end
      where m.program_id = one.program_id and m.notification_id = one.notification_id;
    end if;
    continue when not one.may_get or over is not null;
    claimed := claimed + 1;
    return query select one.mail_id, one.program_id, one.notification_id, one.email, one.partner_name, one.language,
      jsonb_build_object('program_id', one.program_id, 'program_name', one.program_name, 'sender', coalesce(one.sender_name, one.program_name),
        'color', one.color, 'audience', 'partner', 'partner_name', one.partner_name, 'kind', one.kind, 'payload', one.payload);
  end loop;
end $$;
