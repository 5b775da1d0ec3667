-- Counts a mailed invitation for its workspace and its sender's account, or returns the exceeded bound: 3 a day to one recipient, 100 a day in all.
-- The account counts too, because it can leave, delete and create workspaces. The rows of both are locked first, so that concurrent invitations
-- count one after the other.
create or replace function count_invitation_mail(of_workspace_id text, of_user_id text, to_recipient text) returns text language plpgsql as $$
declare
  today date := utc_day(now());
  senders text[] := array[of_workspace_id, of_user_id];
begin
  perform from workspaces w where w.id = of_workspace_id for no key update;
  perform from users u where u.id = of_user_id for no key update;
  if exists (select from invitation_mails m
    where m.sender_id = any (senders) and m.day = today and m.recipient = to_recipient and m.mails >= 3) then
    return 'recipient';
  elsif exists (select from invitation_mails m
    where m.sender_id = any (senders) and m.day = today and m.recipient = '' and m.mails >= 100) then
    return 'all';
  end if;
  insert into invitation_mails as m (sender_id, day, recipient, mails)
  select sender_id, today, recipient, 1 from unnest(senders) sender_id, unnest(array['', to_recipient]) recipient
  on conflict (sender_id, day, recipient) do update set mails = m.mails + 1;
  return null;
end $$;
