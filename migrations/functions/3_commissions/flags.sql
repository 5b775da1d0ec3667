-- Reviews. Commissions that look unearned are held with their flags. They don't become due and can't be paid until a person decides. None
-- of this runs in a click, lead or sale: credit_commissions checks the commissions that it is about to credit.

-- A changed address invalidates the hashes of the old address. hash_partner_emails writes the new ones.
create or replace function forget_email_hashes() returns trigger language plpgsql as $$
begin
  if (new.email, new.payout_email, new.user_id) is distinct from (old.email, old.payout_email, old.user_id) then
    new.email_hashes := null;
  end if;
  return new;
end $$;
create or replace trigger partners_forget_email_hashes before update of email, payout_email, user_id on partners
  for each row execute function forget_email_hashes();

create or replace function forget_email_hashes_of_user() returns trigger language plpgsql as $$
begin
  update partners r set email_hashes = null where r.user_id = new.id and r.email_hashes is not null;
  return null;
end $$;
create or replace trigger users_forget_email_hashes after update of email on users
  for each row when (old.email <> new.email) execute function forget_email_hashes_of_user();

-- The addresses that identify the partner as a customer: their account's address, their payout address, and the address that the program typed.
create or replace function addresses_of_partner(partner partners) returns text[] language sql stable
return array(
  select distinct a.address from (
    values (partner.email), (partner.payout_email), ((select u.email from users u where u.id = partner.user_id))
  ) a (address)
  where a.address is not null order by 1
);

-- Returns the hashes of a buyer's known addresses: the address of the signup, and any addresses of the sale from the processor. For a lead
-- (null `of_sale_id`), these are the addresses of the customer's first sales. Each address also has the hash of its mailbox if that is
-- spelled differently.
create or replace function hashes_of_buyer(of_program_id bigint, of_customer_id bigint, of_sale_id bigint) returns table (hashes bytea[])
language sql stable rows 1 as $$
  select array_remove(array[u.email_hash, u.mailbox_hash] || of_sales.hashes, null)
  from customers u
  cross join lateral (
    select array_agg(h.hash) as hashes
    from (
      select s.processor_event_id from sales s where s.program_id = u.program_id and s.id = of_sale_id
      union all (
        select s.processor_event_id from sales s
        where of_sale_id is null and s.program_id = u.program_id and s.customer_id = u.id order by s.id limit 20
      )
    ) s
    join programs p on p.id = u.program_id
    join processor_events e on e.account_id = any (accounts_of(p)) and e.event_id = s.processor_event_id
    cross join lateral unnest(array[decode(e.fact->>'email_hash', 'hex'), decode(e.fact->>'mailbox_hash', 'hex')]) h (hash)
  ) of_sales
  where u.program_id = of_program_id and u.id = of_customer_id
$$;

-- Returns whether a commission's buyer cannot be compared with its partner yet, because the partner's addresses are not hashed.
create or replace function awaits_comparison(commission commissions) returns boolean language sql stable
return exists (
  select from partners r cross join lateral hashes_of_buyer(commission.program_id, commission.customer_id, commission.sale_id) b
  where r.program_id = commission.program_id and r.id = commission.partner_id and r.email_hashes is null and b.hashes <> '{}'
);

-- Partners without hashes, of one program or of all programs: all of them, or those of some commissions. It doesn't look for commissions that
-- wait for a comparison, because any number of commissions can be waiting.
create or replace function partners_to_hash(at_most integer, of_program_id bigint, commission_ids bigint[])
returns table (program_id bigint, partner_id bigint, addresses text[]) language sql stable as $$
  select r.program_id, r.id, addresses_of_partner(r) from partners r
  where r.email_hashes is null and r.program_id = coalesce(of_program_id, r.program_id) and (
    commission_ids is null
    or r.id in (select c.partner_id from commissions c where c.program_id = of_program_id and c.id = any (commission_ids))
  )
  order by r.program_id, r.id limit at_most
$$;

-- Stores the hashes of a partner's addresses, if the addresses are unchanged.
create or replace function keep_email_hashes(of_program_id bigint, of_partner_id bigint, addresses text[], hashes text[]) returns void
language sql as $$
  update partners r set email_hashes = array(select decode(h, 'hex') from unnest(hashes) h)
  where r.program_id = of_program_id and r.id = of_partner_id and addresses_of_partner(r) = addresses
$$;

-- The number of signups of one partner from one address, within a day before and after, that is suspicious.
create or replace function signups_of_one_address() returns integer language sql immutable return 5;

-- Returns the facts for review rules, one JSON object for each commission, with the click that referred the customer. The caller passes
-- each commission once, and only commissions in programs with enabled rules. Tables join in the written order (`offset 0` keeps a lookup by
-- key), so planning is cheap.
create or replace function reviewed_commissions(program_ids bigint[], commission_ids bigint[]) returns jsonb[]
language sql stable as $$
  select coalesce(array_agg(to_jsonb(seen)), '{}') from (
    select c.program_id, c.id as commission_id, c.partner_id, c.customer_id, c.sale_id, p.review_rules, r.email_hashes <> '{}' as has_hashes,
      u.signed_up_at, e.click_timestamp as clicked_at, e.device_type, left(e.user_agent, 200) as user_agent, e.visitor,
      substring(e.affiliate_url from '[?&](gclid|gbraid|wbraid|msclkid)=') as ad,
      e.id is not null and num_nonnulls(e.page_url, e.screen_resolution, e.viewport_size, e.session_id) = 0 as is_bare
    from unnest(program_ids, commission_ids) n (program_id, id)
    cross join lateral (select c.* from commissions c where c.program_id = n.program_id and c.id = n.id offset 0) c
    cross join lateral (select p.review_rules from programs p where p.id = c.program_id and p.review_rules <> '{}' offset 0) p
    cross join lateral (
      select coalesce(u.signup_date, u.first_purchase_date) as signed_up_at, u.last_click_at from customers u
      where u.program_id = c.program_id and u.id = c.customer_id offset 0
    ) u
    cross join lateral (select r.email_hashes from partners r where r.program_id = c.program_id and r.id = c.partner_id offset 0) r
    left join lateral (
      select time_or_null(s.resolution->>'clicked_at') as clicked_at from sales s where s.program_id = c.program_id and s.id = c.sale_id offset 0
    ) s on true
    left join lateral (
      select e.* from click_events e
      where e.program_id = c.program_id and not e.is_test
        and e.click_timestamp = coalesce(s.clicked_at, u.last_click_at) and e.customer_id = c.customer_id
      limit 1
    ) e on true
  ) seen
$$;

-- Returns the facts of commissions whose program has enabled a rule.
create or replace function under_rule(reviewed jsonb[], rule text) returns jsonb[] language sql immutable
return array(select n from unnest(reviewed) n where n->'review_rules' ? rule);

-- Each of the functions below finds the commissions that break one rule, and returns them with the evidence.

create or replace function flags_of_bots(reviewed jsonb[]) returns table (flagged jsonb, evidence jsonb) language sql stable as $$
  select n, jsonb_build_object('user_agent', n->'user_agent', 'clicked_at', n->'clicked_at')
  from unnest(under_rule(reviewed, 'bot')) n where n->>'device_type' = 'bot'
$$;

create or replace function flags_of_paid_ads(reviewed jsonb[]) returns table (flagged jsonb, evidence jsonb) language sql stable as $$
  select n, jsonb_build_object('parameter', n->'ad', 'clicked_at', n->'clicked_at')
  from unnest(under_rule(reviewed, 'paid_ads')) n where n->>'ad' is not null
$$;

create or replace function flags_of_self_referrals(reviewed jsonb[]) returns table (flagged jsonb, evidence jsonb) language sql stable as $$
  select n, '{"matched": "email_hash"}'::jsonb
  from unnest(under_rule(reviewed, 'self_referral')) n
  cross join lateral jsonb_to_record(n) s (program_id bigint, partner_id bigint, customer_id bigint, sale_id bigint)
  cross join lateral (select r.email_hashes from partners r where r.program_id = s.program_id and r.id = s.partner_id offset 0) r
  cross join lateral (select b.hashes from hashes_of_buyer(s.program_id, s.customer_id, s.sale_id) b offset 0) b
  where n->'has_hashes' = 'true' and b.hashes && r.email_hashes
$$;

-- If a program's pages carry the tag, nearly every click contains its page. The first 100 clicks of each of the last 30 days are the
-- sample, and each visitor counts once a day. So a flood of empty clicks can't outweigh other visitors or other days.
create or replace function flags_of_clicks_without_page(reviewed jsonb[]) returns table (flagged jsonb, evidence jsonb) language sql stable as $$
  with bare as materialized (
    select n, (n->>'program_id')::bigint as program_id from unnest(under_rule(reviewed, 'no_page_view')) n where n->'is_bare' = 'true'
  )
  select b.n, jsonb_build_object('clicked_at', b.n->'clicked_at', 'visitors', t.visitors, 'with_page', t.with_page)
  from (select distinct program_id from bare) p
  cross join lateral (
    select sum(v.clicks) as clicks, count(*) as visitors, count(*) filter (where v.names_page) as with_page
    from generate_series(0, 29) ago
    cross join lateral (
      select count(*) as clicks, bool_or(l.page_url is not null) as names_page
      from (
        select e.id, e.visitor, e.page_url from click_events e
        where e.program_id = p.program_id and not e.is_test
          and e.click_timestamp >= day_start(utc_day(now()) - ago) and e.click_timestamp < day_start(utc_day(now()) - ago + 1)
        order by e.click_timestamp, e.id limit 100
      ) l
      group by coalesce(l.visitor, -l.id)
    ) v
  ) t
  join bare b on b.program_id = p.program_id
  where t.clicks >= 20 and t.with_page * 10 >= t.visitors * 8
$$;

create or replace function flags_of_one_address(reviewed jsonb[]) returns table (flagged jsonb, evidence jsonb) language sql stable as $$
  with seen as materialized (
    select n, s.*
    from unnest(under_rule(reviewed, 'one_address')) n
    cross join lateral jsonb_to_record(n) s (program_id bigint, partner_id bigint, visitor bigint, signed_up_at timestamptz)
    where s.visitor is not null
  ),
  spans as (
    select s.program_id, s.partner_id, min(s.signed_up_at) - interval '24 hours' as since, max(s.signed_up_at) + interval '24 hours' as until
    from seen s group by 1, 2
  ),
  -- Read once instead of for each commission.
  signups as materialized (
    select n.program_id, n.partner_id, u.at, e.visitor
    from spans n
    cross join lateral (
      select u.id, coalesce(u.signup_date, u.first_purchase_date) as at, u.last_click_at from customers u
      where u.program_id = n.program_id and u.partner_id = n.partner_id and (u.customer_status <> 'click' or u.provisional_lead_at is not null)
        and coalesce(u.signup_date, u.first_purchase_date) between n.since and n.until
      offset 0
    ) u
    cross join lateral (
      select e.visitor from affiliate_click_events e
      where e.program_id = n.program_id and not e.is_test and e.click_timestamp = u.last_click_at and e.customer_id = u.id limit 1
    ) e
    where e.visitor is not null
  )
  select s.n, jsonb_build_object('signups', count(*), 'first_at', min(g.at), 'last_at', max(g.at))
  from seen s
  join signups g on g.program_id = s.program_id and g.partner_id = s.partner_id and g.visitor = s.visitor
    and g.at between s.signed_up_at - interval '24 hours' and s.signed_up_at + interval '24 hours'
  group by s.n having count(*) >= signups_of_one_address()
$$;

-- Returns the flags that the enabled rules of their programs put on commissions. The caller passes each commission once. The evidence says
-- what matched, how often and when. A rule doesn't flag a commission if a person has released one of the same partner and customer before.
-- Postgres plans each call for its arguments. With a plan that was made when the tables were empty, 500 commissions took over a minute,
-- and their refunds waited for the locks.
create or replace function flags_of(program_ids bigint[], commission_ids bigint[])
returns table (program_id bigint, commission_id bigint, rule text, evidence jsonb)
language plpgsql stable set plan_cache_mode = force_custom_plan set join_collapse_limit = 1 as $$
#variable_conflict use_column
declare
  reviewed jsonb[] := reviewed_commissions(program_ids, commission_ids);
begin
  if reviewed = '{}' then
    return;
  end if;
  return query
  select c.program_id, c.commission_id, f.rule, f.evidence
  from (
    select 'bot' as rule, b.* from flags_of_bots(reviewed) b
    union all select 'paid_ads', a.* from flags_of_paid_ads(reviewed) a
    union all select 'self_referral', s.* from flags_of_self_referrals(reviewed) s
    union all select 'no_page_view', w.* from flags_of_clicks_without_page(reviewed) w
    union all select 'one_address', o.* from flags_of_one_address(reviewed) o
  ) f
  cross join lateral jsonb_to_record(f.flagged) c (program_id bigint, commission_id bigint, partner_id bigint, customer_id bigint)
  where not exists (
    select from commissions o
    cross join lateral (
      select from commission_reviews v
      where v.program_id = o.program_id and v.commission_id = o.id and v.decision = 'released'
        and v.flags @> jsonb_build_array(jsonb_build_object('rule', f.rule))
      offset 0
    ) v
    where o.program_id = c.program_id and o.customer_id = c.customer_id and o.partner_id = c.partner_id
    offset 0
  );
end $$;

-- Holds the given commissions that are flagged, unless a person decided on them before, and notifies the advertiser. Returns the number of
-- held commissions. The commissions stay locked, in the order of their keys.
create or replace function flag_commissions(program_ids bigint[], commission_ids bigint[]) returns integer language plpgsql as $$
#variable_conflict use_column
declare
  open_programs bigint[];
  open_ids bigint[];
  flagged record;
  held integer := 0;
begin
  select array_agg(locked.program_id), array_agg(locked.id) into open_programs, open_ids
  from (
    select c.program_id, c.id from commissions c
    where (c.program_id, c.id) in (select * from unnest(program_ids, commission_ids))
      and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
    order by c.program_id, c.id for no key update of c
  ) locked;
  if open_ids is null then return 0; end if;
  for flagged in
    insert into commission_reviews (program_id, commission_id, flags)
    select f.program_id, f.commission_id, jsonb_agg(jsonb_build_object('rule', f.rule, 'evidence', f.evidence) order by f.rule)
    from flags_of(open_programs, open_ids) f
    group by 1, 2 order by 1, 2
    on conflict do nothing
    returning program_id, commission_id, flags
  loop
    held := held + 1;
    update commissions c set held_at = now() where c.program_id = flagged.program_id and c.id = flagged.commission_id;
    perform write_outbox(c.program_id, 'commission_flagged', 'advertiser', c.partner_id, concat_ws(':', 'flagged', c.id, extract(epoch from c.moved_at)), jsonb_build_object(
      'commission_id', c.id, 'transaction_id', s.transaction_id, 'amount_cents', c.amount_cents - c.reversed_cents, 'currency', c.currency))
    from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
    where c.program_id = flagged.program_id and c.id = flagged.commission_id and not c.is_shadow;
    if wants_webhook(flagged.program_id, 'commission.flagged') then
      perform write_webhook(c.program_id, 'commission.flagged', webhook_commission(c, s.transaction_id)
        || jsonb_build_object('flags', (select string_agg(f->>'rule', ',') from jsonb_array_elements(flagged.flags) f)))
      from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
      where c.program_id = flagged.program_id and c.id = flagged.commission_id;
    end if;
  end loop;
  update commissions c set flags_checked_at = now()
  where (c.program_id, c.id) in (select * from unnest(open_programs, open_ids)) and c.flags_checked_at is null;
  return held;
end $$;

-- Checks up to `at_most` unchecked commissions of one program or of all programs, oldest first, so that flags appear before the hold ends. If a partner's addresses are not
-- hashed yet, the service compares the customer's address later, before it credits the commission.
create or replace function flag_new_commissions(
  at_most integer, of_program_id bigint default null, out flagged integer, out more boolean
) language plpgsql as $$
declare
  program_ids bigint[];
  commission_ids bigint[];
begin
  select array_agg(n.program_id), array_agg(n.id), count(*) = at_most into program_ids, commission_ids, more
  from (
    select c.program_id, c.id from commissions c
    where c.flags_checked_at is null and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full'
      and (c.program_id = of_program_id or of_program_id is null)
    order by c.program_id, c.id limit at_most
  ) n;
  flagged := flag_commissions(program_ids, commission_ids);
end $$;

