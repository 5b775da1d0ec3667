-- Writes the daily and weekly notifications: the earnings of the last UTC day for partners who don't get a mail for each commission, and
-- once a week the due payouts. A commission that was released from review counts on the day of its release, unless it was already
-- reported before the review. Also reports last month's statements to partners who chose to get mail about them. Writes those of one program
-- or of all programs. Repeated calls write each notification once. Returns the outbox rows.
create or replace function write_daily_notifications(moment timestamptz, of_program_id bigint default null)
returns table (program_id bigint, outbox_id bigint) language sql as $$
  with yesterday as (
    select utc_day(moment) - 1 as day, date_trunc('day', moment, 'UTC') - interval '24 hours' as began, date_trunc('day', moment, 'UTC') as ended
  )
  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  select r.program_id, 'commission_earned', 'partner', r.id, concat_ws(':', 'day', r.id, y.day, e.currency),
    jsonb_build_object('day', y.day, 'commissions', e.commissions, 'amount_cents', e.amount_cents, 'currency', e.currency)
  from yesterday y cross join programs p
  cross join lateral (
    select c.partner_id, c.currency, count(*) as commissions, sum(c.amount_cents) as amount_cents
    from (
      select c.id from commissions c where c.program_id = p.id and c.created_at >= y.began and c.created_at < y.ended
        and not exists (select from commission_reviews v where v.program_id = c.program_id and v.commission_id = c.id)
      union all
      select v.commission_id from commission_reviews v join commissions c on c.program_id = v.program_id and c.id = v.commission_id
      where v.program_id = p.id and v.decision = 'released' and v.decided_at >= y.began and v.decided_at < y.ended and not exists (
        select from outbox o where o.program_id = c.program_id and o.kind = 'commission_earned' and o.audience = 'partner'
          and o.cause = concat_ws(':', 'day', c.partner_id, utc_day(c.created_at), c.currency) and o.created_at < v.flagged_at
      )
    ) earned
    join commissions c on c.program_id = p.id and c.id = earned.id
    where c.reversal <> 'full' and c.rejected_at is null and not c.is_shadow
    group by 1, 2
  ) e
  join partners r on r.program_id = p.id and r.id = e.partner_id
  where p.deleted_at is null and r.closed_at is null and r.user_id is not null and mail_frequency_of(r.user_id, 'earned') = 'daily'
    and (p.id = of_program_id or of_program_id is null)
  union all
  select d.program_id, 'payout_due', 'advertiser', null, 'payout_due:' || to_char(moment at time zone 'UTC', 'IYYY-IW'),
    jsonb_build_object('partners', count(distinct d.partner_id))
  from payouts_due d join programs p on p.id = d.program_id
  where d.exclusion_reason is null and p.deleted_at is null and (d.program_id = of_program_id or of_program_id is null) group by d.program_id
  union all
  select r.program_id, 'statement_ready', 'partner', r.id, concat_ws(':', 'statement', r.id, m.month), jsonb_build_object('month', m.month)
  from (
    select to_char(a.began, 'YYYY-MM') as month, a.began at time zone 'UTC' as began, (a.began + interval '1 month') at time zone 'UTC' as ended
    from (select date_trunc('month', moment at time zone 'UTC') - interval '1 month' as began) a
  ) m
  cross join mail_choices c
  join partners r on r.user_id = c.user_id and r.closed_at is null
  join programs p on p.id = r.program_id and p.deleted_at is null
  where c.topic = 'statement' and c.frequency <> 'never' and (r.program_id = of_program_id or of_program_id is null) and exists (
    select from balance_entries e
    where e.program_id = r.program_id and e.partner_id = r.id and e.created_at >= m.began and e.created_at < m.ended
  )
  on conflict on constraint outbox_cause_key do nothing
  returning program_id, id
$$;
