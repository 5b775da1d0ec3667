-- The topic of a notification kind. People choose how often they get mail for each topic.
create or replace function mail_topic_of(kind text) returns mail_topic language sql immutable
return (case kind
  when 'commission_earned' then 'earned'
  when 'adjustment_added' then 'earned'
  when 'adjustment_deducted' then 'reversed'
  when 'commission_reversed' then 'reversed'
  when 'commission_refunded' then 'reversed'
  when 'commission_corrected' then 'reversed'
  when 'payout_reduced' then 'reversed'
  when 'payout_paid' then 'paid'
  when 'payout_refused' then 'paid'
  when 'payout_returned' then 'paid'
  when 'payout_unclaimed' then 'paid'
  when 'payout_held' then 'paid'
  when 'payout_address_needed' then 'paid'
  when 'tax_form_needed' then 'paid'
  when 'statement_ready' then 'statement'
  when 'program_message' then 'message'
  when 'payout_due' then 'payout_due'
  when 'application_received' then 'application'
  when 'processor_disconnected' then 'trouble'
  when 'webhook_disabled' then 'trouble'
  when 'host_disabled' then 'trouble'
  when 'postback_disabled' then 'postback'
  else 'review'
end)::mail_topic;

-- How soon a person gets mail about a topic: their own choice, or else the topic's usual frequency.
create or replace function mail_frequency_of(of_user_id text, of_topic mail_topic) returns mail_frequency language sql stable
return coalesce(
  (select c.frequency from mail_choices c where c.user_id = of_user_id and c.topic = of_topic),
  case when of_topic in ('earned', 'reversed', 'review') then 'daily'::mail_frequency when of_topic = 'statement' then 'never' else 'at_once' end
);

create or replace function mail_choices_of(of_user_id text) returns table (topic text, frequency text) language sql stable as $$
  select t::text, mail_frequency_of(of_user_id, t)::text from unnest(enum_range(null::mail_topic)) t
$$;

-- Stores a person's choices. Does nothing for a deleted user. Drops waiting mails of the topics that they no longer
-- want.
create or replace function save_mail_choices(of_user_id text, topics text[], frequencies text[]) returns void language sql as $$
  insert into mail_choices (user_id, topic, frequency)
  select u.id, g.topic::mail_topic, g.frequency::mail_frequency from users u, unnest(topics, frequencies) g (topic, frequency) where u.id = of_user_id
  on conflict on constraint mail_choices_pkey do update set frequency = excluded.frequency;
  delete from notification_mails m
  where m.user_id = of_user_id and m.topic in (select c.topic from mail_choices c where c.user_id = of_user_id and c.frequency = 'never')
$$;

-- The people who get a notification by mail: the partner's user, or the members whose role may read notifications.
-- Skips unconfirmed addresses, addresses that refused mail, and members who lack the two-factor codes that their
-- workspace requires.
create or replace function mail_recipients(
  of_program_id bigint, of_audience text, of_partner_id bigint, reading_roles text[]
) returns table (user_id text, email text, user_name text) language sql stable as $$
  select u.id, u.email, u.name::text
  from programs p
  cross join lateral (
    select r.user_id from partners r
    where of_audience = 'partner' and r.program_id = p.id and r.id = of_partner_id and r.closed_at is null
    union all
    select m.user_id from program_roles m
    where of_audience = 'advertiser' and m.program_id = p.id and not m.is_locked and m.roles && reading_roles
  ) recipient
  join users u on u.id = recipient.user_id
  where p.id = of_program_id and p.deleted_at is null and u.email_verified
    and not exists (select from refused_addresses a where a.email = u.email)
$$;

create or replace function next_daily_mail() returns timestamptz language sql stable
return date_trunc('day', now() - interval '7 hours', 'UTC') + interval '31 hours';

-- Writes the notifications of outbox rows and schedules their mails: at once, or in the daily mail at 7:00 (UTC). A
-- notification has the outbox row's key, so repeated and concurrent calls write it once. Returns the keys of the
-- existing rows.
create or replace function write_notifications(program_ids bigint[], outbox_ids bigint[], reading_roles text[])
returns table (program_id bigint, outbox_id bigint) language sql as $$
  with row as (
    select o.* from outbox o
    join (select distinct m.program_id, m.id from unnest(program_ids, outbox_ids) m (program_id, id)) named using (program_id, id)
    order by o.program_id, o.id
  ), notification as (
    insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at)
    select r.program_id, r.id, r.kind, r.audience, r.partner_id, r.payload, r.created_at from row r
    on conflict on constraint notifications_pkey do nothing
    returning *
  ), mail as (
    insert into notification_mails (program_id, notification_id, user_id, topic, frequency, due_at)
    select n.program_id, n.id, t.user_id, mail_topic_of(n.kind), f.frequency,
      case f.frequency when 'daily' then next_daily_mail() else now() end
    from notification n
    cross join lateral mail_recipients(n.program_id, n.audience, n.partner_id, reading_roles) t
    cross join lateral mail_frequency_of(t.user_id, mail_topic_of(n.kind)) f (frequency)
    where f.frequency <> 'never'
  ), payee_mail as (
    -- Partners without an account get mail about their payouts.
    insert into payee_mails (program_id, notification_id)
    select n.program_id, n.id from notification n join partners r on r.program_id = n.program_id and r.id = n.partner_id
    where n.kind in ('payout_paid', 'payout_returned', 'payout_unclaimed') and r.user_id is null and r.email is not null
  ), delivered as (
    update outbox o set delivered_at = now() from row r
    where o.program_id = r.program_id and o.id = r.id and o.delivered_at is null
  )
  select r.program_id, r.id from row r
$$;

-- Returns whether somebody has already made the decision that a notification requests.
create or replace function is_decided(n notifications) returns boolean language sql stable
return case n.kind
  when 'application_received' then exists (
    select from applications a
    where a.program_id = n.program_id and a.id = (n.payload->>'application_id')::bigint and a.status in ('approved', 'rejected'))
  when 'commission_flagged' then exists (
    select from commission_reviews v
    where v.program_id = n.program_id and v.commission_id = (n.payload->>'commission_id')::bigint and v.decision is not null)
  else false
end;

-- Counts the immediate mails that are due, for each mailbox and UTC day. After `most` mails, further notifications go into the daily mail.
create or replace function count_immediate_mails(most integer) returns void language sql as $$
  with due as (
    select distinct m.user_id, m.topic, 'notifications to ' || mailbox_of(u.email) as counted
    from notification_mails m join users u on u.id = m.user_id
    where m.due_at <= now() and m.mail_id is null and m.frequency = 'at_once'
  ), placed as (
    select d.*, coalesce(c.mails, 0) + row_number() over (partition by d.counted order by d.user_id, d.topic) as place
    from due d left join mail_counts c on c.counted = d.counted and c.day = utc_day(now())
  ), counting as (
    insert into mail_counts as c (counted, day, mails)
    select p.counted, utc_day(now()), count(*) from placed p where p.place <= most group by p.counted
    on conflict (counted, day) do update set mails = c.mails + excluded.mails
  )
  update notification_mails m set frequency = 'daily', due_at = next_daily_mail()
  from placed p
  where p.place > most and m.user_id = p.user_id and m.topic = p.topic
    and m.due_at <= now() and m.mail_id is null and m.frequency = 'at_once'
$$;

-- Claims up to `max_mails` due mails, including those of failed attempts. All notifications that wait for one person go
-- into one mail, except that immediate topics get a separate mail, up to `most_immediate` mails a day. Skips notifications that the person may no
-- longer read or that are already decided. The wait grows with each attempt, and the tenth attempt is the last.
-- Calls run one at a time, so that two never split one mail.
create or replace function claim_mails(max_mails integer, most_immediate integer, reading_roles text[]) returns table (
  mail_id uuid, user_id text, email text, user_name text, language text, frequency text, topics text[], notifications jsonb
) language plpgsql as $$
#variable_conflict use_column
declare
  claimed uuid[];
begin
  perform pg_advisory_xact_lock(hashtextextended('claim_mails', 0));
  delete from notification_mails m where m.due_at <= now() and (m.attempts >= 10 or not exists (
    select from notifications n, mail_recipients(n.program_id, n.audience, n.partner_id, reading_roles) t
    where n.program_id = m.program_id and n.id = m.notification_id and t.user_id = m.user_id and (m.mail_id is not null or not is_decided(n))
  ));
  perform count_immediate_mails(most_immediate);
  with due as (
    select m.user_id, m.frequency, case when m.frequency = 'at_once' then m.topic end as topic, gen_random_uuid() as id
    from notification_mails m where m.due_at <= now() and m.mail_id is null group by 1, 2, 3
  )
  update notification_mails m set mail_id = due.id from due
  where m.due_at <= now() and m.mail_id is null and m.user_id = due.user_id and m.frequency = due.frequency
    and (due.topic is null or m.topic = due.topic);
  select array_agg(id) into claimed from (
    select m.mail_id as id from notification_mails m where m.due_at <= now() group by 1 order by min(m.due_at) limit max_mails
  ) oldest;
  update notification_mails m set attempts = m.attempts + 1, due_at = now() + least(interval '2 minutes' * 2 ^ m.attempts, interval '12 hours')
  where m.mail_id = any (claimed);
  return query
    -- Members of programs get mail in English.
    select m.mail_id, u.id, u.email, u.name::text,
      case when bool_and(n.audience = 'partner') then coalesce(f.language::text, (array_agg(p.language::text order by n.id))[1]) end,
      m.frequency::text, array_agg(distinct m.topic::text),
      jsonb_agg(jsonb_build_object('program_id', n.program_id, 'program_name', p.name, 'sender', coalesce(b.sender_name, p.name), 'color', b.color, 'audience', n.audience, 'partner_name', r.name,
        'kind', n.kind, 'payload', n.payload) order by p.name, n.program_id, n.created_at, n.id)
    from notification_mails m
    join users u on u.id = m.user_id
    join notifications n on n.program_id = m.program_id and n.id = m.notification_id
    join programs p on p.id = m.program_id
    left join program_brands b on b.program_id = m.program_id
    left join partners r on r.program_id = n.program_id and r.id = n.partner_id
    left join partner_profiles f on f.user_id = m.user_id
    where m.mail_id = any (claimed)
    group by m.mail_id, u.id, u.email, u.name, f.language, m.frequency;
end $$;

-- Notifies a partner of a commission immediately, if the partner chose immediate notifications.
create or replace function notify_earned(of_program_id bigint, of_user_id text, of_commission_id bigint) returns void
language plpgsql as $$
begin
  if exists (select from mail_choices c where c.user_id = of_user_id and c.topic = 'earned' and c.frequency = 'at_once') then
    perform write_outbox(c.program_id, 'commission_earned', 'partner', c.partner_id, 'commission:' || c.id, jsonb_build_object(
        'commission_id', c.id, 'transaction_id', s.transaction_id, 'amount_cents', c.amount_cents, 'currency', c.currency))
    from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
    where c.program_id = of_program_id and c.id = of_commission_id and not c.is_shadow;
  end if;
end $$;
