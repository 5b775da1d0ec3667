-- Counts a mailed invitation of a workspace, or says which bound it is over: 3 a day to one recipient, 100 a day in all. The workspace's row is
-- locked first, so that no two count at once.
create or replace function count_invitation_mail(of_workspace_id text, to_recipient text) returns text language plpgsql as $$
declare
  today date := utc_day(now());
begin
  perform from workspaces w where w.id = of_workspace_id for no key update;
  if exists (select from invitation_mails m
    where m.workspace_id = of_workspace_id and m.day = today and m.recipient = to_recipient and m.mails >= 3) then
    return 'recipient';
  elsif exists (select from invitation_mails m
    where m.workspace_id = of_workspace_id and m.day = today and m.recipient = '' and m.mails >= 100) then
    return 'workspace';
  end if;
  insert into invitation_mails as m (workspace_id, day, recipient, mails)
  values (of_workspace_id, today, '', 1), (of_workspace_id, today, to_recipient, 1)
  on conflict (workspace_id, day, recipient) do update set mails = m.mails + 1;
  return null;
end $$;
