-- The comparison of a program's commissions with the former service's commissions, sale by sale. lib/moving/differences.ts has the
-- sentences for the reasons.

-- The former service's commissions in a range, with one row for each payment and partner, because a service can split a payment into
-- several commissions.
create or replace function former_commissions(of_program_id bigint, from_time timestamptz, until timestamptz) returns table (
  id bigint, external_id text, partner_id bigint, customer_id bigint, currency text, payment_id text, at timestamptz, sale_cents bigint,
  amount_cents bigint, pays_cents bigint
) language sql stable as $$
  select min(i.id), min(i.external_id), i.partner_id, max(i.customer_id), i.currency::text, max(i.payment_id), min(i.earned_at),
    max(i.sale_cents)::bigint, sum(i.amount_cents)::bigint, coalesce(sum(i.amount_cents) filter (where i.status <> 'rejected'), 0)::bigint
  from imported_commissions i
  where i.program_id = of_program_id and i.earned_at >= from_time and i.earned_at < until
  group by i.partner_id, i.currency, coalesce(i.payment_id, 'commission ' || i.id)
$$;

-- The state of a sale's commission for the comparison.
create or replace function compared_state(sale sales, commission commissions, first_date timestamptz) returns text language sql stable
return case
  when (sale).is_test then 'test'
  when (sale).id is not null and (sale).partner_id is null then case when (sale).resolution ? 'expired_click' then 'click_expired' else 'unattributed' end
  when (commission).id is null and is_after_duration((sale).sale_date, first_date, (sale).commission_months) or (commission).reason = 'after_duration'
    then 'after_duration'
  when (commission).id is null then case when (sale).commission_cap_cents is not null then 'capped' else 'no_commission' end
  when (commission).rejected_at is not null then 'rejected'
  when (commission).reversed_cents > 0 then 'refunded'
  when (commission).held_at is not null then 'held'
  else 'earned'
end;

-- The program's own sales in a range, with or without a commission, and its commissions for leads. `key` is unique among them. A held or
-- rejected commission counts as 0.
create or replace function computed_commissions(of_program_id bigint, from_time timestamptz, until timestamptz) returns table (
  key text, commission_id bigint, transaction_id text, payment_ids text[], partner_id bigint, customer_id bigint, currency text, at timestamptz,
  state text, sale_cents bigint, base_cents bigint, fee_cents bigint, amount_cents bigint, pays_cents bigint
) language sql stable as $$
  select x.key, x.commission_id, x.transaction_id, x.payment_ids, x.partner_id, x.customer_id, x.currency, x.at, x.state, x.sale_cents,
    x.base_cents, x.fee_cents, coalesce(x.amount_cents, 0)::bigint,
    case when x.state in ('earned', 'refunded') then x.amount_cents - x.reversed_cents else 0 end
  from (
    select 'sale:' || s.id as key, c.id as commission_id, s.transaction_id::text, array[s.transaction_id::text, s.processor_payment_intent_id,
        s.processor_charge_id, s.processor_invoice_id, s.processor_session_id] as payment_ids, s.partner_id, s.customer_id, s.currency::text,
      s.sale_date as at,
      -- Reads the customers only of sales without a commission.
      compared_state(s, c, (select u.first_purchase_date from customers u where u.program_id = s.program_id and u.id = s.customer_id)) as state,
      s.amount_cents::bigint as sale_cents, s.commission_base_cents::bigint as base_cents,
      coalesce(s.processor_fee_cents, 0)::bigint as fee_cents, c.amount_cents, c.reversed_cents
    from sales s
    left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where s.program_id = of_program_id and s.sale_date >= from_time and s.sale_date < until
    union all
    select 'lead:' || c.customer_id, c.id, null, '{}', c.partner_id, c.customer_id, c.currency::text, c.created_at, compared_state(null, c, null),
      null, null, null, c.amount_cents, c.reversed_cents
    from commissions c
    where c.program_id = of_program_id and c.kind = 'lead' and c.created_at >= from_time and c.created_at < until
  ) x
$$;

-- Pairs commissions of the two sides in one pass over a list that is sorted by group and time. Each commission takes the latest unpaired
-- commission on the other side in its group. They may be at most two days apart, because services date commissions differently.
create or replace function pair_by_time(waiting unpaired_commission[]) returns table (former_place bigint, computed_place bigint)
language plpgsql immutable as $$
declare
  given unpaired_commission;
  earlier unpaired_commission[];
  depth integer := 0;
  former_taken boolean[];
  computed_taken boolean[];
begin
  foreach given in array coalesce(waiting, '{}') loop
    continue when case when given.is_former then former_taken[given.place] else computed_taken[given.place] end;
    if depth > 0 and (earlier[depth].group_key <> given.group_key or earlier[depth].at < given.at - interval '2 days') then
      depth := 0;
    end if;
    if depth > 0 and earlier[depth].is_former <> given.is_former then
      former_place := case when given.is_former then given.place else earlier[depth].place end;
      computed_place := case when given.is_former then earlier[depth].place else given.place end;
      former_taken[former_place] := true;
      computed_taken[computed_place] := true;
      depth := depth - 1;
      return next;
    else
      depth := depth + 1;
      earlier[depth] := given;
    end if;
  end loop;
end $$;

-- The reasons why the two sides of a sale differ. A missing side is null.
create or replace function difference_reasons(
  former_partner_id bigint, former_currency text, former_sale_cents bigint, former_cents bigint, former_pays_cents bigint,
  partner_id bigint, currency text, state text, base_cents bigint, cents bigint, pays_cents bigint
) returns text[] language plpgsql immutable as $$
declare
  reasons text[];
  is_comparable constant boolean := former_currency = currency and cents > 0 and base_cents > 0 and former_cents <> cents;
begin
  if state is null or former_cents is null then
    return array[case when state is null then 'only_there' else 'only_here' end];
  end if;
  reasons := array_remove(array[
    case when state <> all ('{earned,refunded}') then state end,
    case when former_partner_id <> partner_id then 'other_partner' end,
    case when former_currency <> currency then 'other_currency' end,
    case when state = 'refunded' and former_pays_cents > pays_cents then 'refunded' end,
    case when former_pays_cents = 0 and former_cents > 0 and pays_cents > 0 then 'rejected_there' end,
    case when is_comparable and former_sale_cents <> base_cents then 'other_base' end,
    -- Services can round differently.
    case when is_comparable and abs(former_cents - former_sale_cents::numeric * cents / base_cents) > 1 then 'other_rate' end
  ], null);
  return case when reasons <> '{}' then reasons when abs(former_pays_cents - pays_cents) <= 1 then array['rounding'] else array['other_amount'] end;
end $$;

-- Compares the commissions of a period, pair by pair: by the id of the payment, or else by the customer, else by the partner and the amount.
-- Each commission has at most one counterpart. `at` is the time of the sale in the program, if the program has the sale. `differs` is
-- false if both sides pay the same to the same partner.
create or replace function compare_commissions(of_program_id bigint, from_time timestamptz, until timestamptz)
returns setof compared_commission language sql stable as $$
  with former as materialized (
    select f.*, row_number() over (order by f.id) as place
    from former_commissions(of_program_id, from_time - interval '3 days', until + interval '3 days') f
  ), computed as materialized (
    select c.*, row_number() over (order by c.key collate "C") as place
    from computed_commissions(of_program_id, from_time - interval '3 days', until + interval '3 days') c
  ), of_payment as (
    select distinct on (f.place) f.place as former_place, c.place as computed_place, c.partner_id = f.partner_id as same_partner
    from computed c cross join unnest(c.payment_ids) given (id) join former f on f.payment_id = given.id collate "C"
    where given.id is not null
    order by f.place, c.partner_id = f.partner_id desc nulls last, abs(extract(epoch from f.at - c.at)), c.place
  ), paid as materialized (
    select distinct on (p.computed_place) p.former_place, p.computed_place from of_payment p
    order by p.computed_place, p.same_partner desc nulls last, p.former_place
  ), unpaid as materialized (
    select f.place, true as is_former, f.at, f.customer_id, f.partner_id, f.currency,
      array[case when f.sale_cents is null then 'earned ' || f.amount_cents else 'sold ' || f.sale_cents end] as amounts
    from former f where not exists (select from paid p where p.former_place = f.place)
    union all
    select c.place, false, c.at, c.customer_id, c.partner_id, c.currency,
      array['earned ' || c.amount_cents, 'sold ' || c.base_cents, case when c.sale_cents <> c.base_cents then 'sold ' || c.sale_cents end]
    from computed c where not exists (select from paid p where p.computed_place = c.place)
  ), waiting as (
    select u.is_former, u.place, u.at, '1 ' || u.customer_id || ' ' || u.currency collate "C" as group_key
    from unpaid u where u.customer_id is not null
    union all
    -- Paired by the amount, if the former service doesn't know the customer (2), or if the program doesn't (3).
    select u.is_former, u.place, u.at, way.number || u.partner_id || ' ' || u.currency || ' ' || amount
    from unpaid u cross join unnest(u.amounts) amount cross join (values ('2 ', true), ('3 ', false)) way (number, lacks_former)
    where amount is not null and (u.customer_id is null or u.is_former <> way.lacks_former)
      and u.partner_id in (select o.partner_id from unpaid o where o.customer_id is null)
  ), pairs as (
    select p.former_place, p.computed_place from paid p
    union all
    select p.former_place, p.computed_place from pair_by_time((
      select array_agg((w.is_former, w.place, w.at, w.group_key)::unpaired_commission order by w.group_key, w.at, w.is_former, w.place)
      from waiting w
    )) p
  )
  select coalesce('former:' || f.id, c.key), coalesce(c.at, f.at), f.external_id, f.partner_id, f.currency, f.payment_id, f.sale_cents,
    f.amount_cents, f.pays_cents, c.commission_id, c.transaction_id, c.partner_id, c.currency, c.state, c.sale_cents, c.base_cents, c.fee_cents,
    c.amount_cents, c.pays_cents,
    (coalesce(f.pays_cents, 0) = coalesce(c.pays_cents, 0)
      and (f.pays_cents is null or c.pays_cents is null or f.pays_cents = 0 or (f.partner_id, f.currency) = (c.partner_id, c.currency))) is not true
  from former f
  left join pairs p on p.former_place = f.place
  full join computed c on c.place = p.computed_place
  where coalesce(c.at, f.at) >= from_time and coalesce(c.at, f.at) < until
$$;

-- Compares a period once, and returns a part of each of two lists: the sums by partner and currency, the largest difference first, and the
-- differences, newest first. Returns all differences, or only those with the given partner or reason, and their number. `at_us` is their time
-- in microseconds. `before_…` are the sort values of the previous part's last row. `compareSides` in lib/moving/comparison.ts is its only
-- caller.
create or replace function compare_with_former(
  of_program_id bigint, from_time timestamptz, until timestamptz,
  max_partners integer, before_gap_cents bigint, before_partner_id bigint, before_currency text,
  max_differences integer, before_us bigint, before_key text, of_partner_id bigint, of_reason text,
  out partners jsonb, out differences jsonb, out difference_count bigint
) language sql stable as $$
  with compared as materialized (select * from compare_commissions(of_program_id, from_time, until)), sides as (
    select k.former_partner_id as partner_id, k.former_currency as currency, 1 as former_commissions, k.former_pays_cents as former_cents,
      0 as commissions, 0 as cents, k.differs::integer as differences
    from compared k where k.former_partner_id is not null
    union all
    select k.partner_id, k.currency, 0, 0, 1, k.pays_cents,
      case when (k.former_partner_id, k.former_currency) = (k.partner_id, k.currency) then 0 else k.differs::integer end
    from compared k where k.commission_id is not null and k.state <> 'test'
  ), sums as (
    select s.partner_id, s.currency, sum(s.former_commissions) as former_commissions, sum(s.former_cents)::bigint as former_cents,
      sum(s.commissions) as commissions, sum(s.cents)::bigint as cents, sum(s.differences) as differences,
      abs(sum(s.former_cents) - sum(s.cents))::bigint as gap_cents
    from sides s group by 1, 2
  ), some_partners as (
    select s.* from sums s
    where before_partner_id is null or (s.gap_cents, s.partner_id, s.currency) < (before_gap_cents, before_partner_id, before_currency)
    order by s.gap_cents desc, s.partner_id desc, s.currency desc limit max_partners
  ), chosen as not materialized (
    select d.* from (
      select k.*, difference_reasons(k.former_partner_id, k.former_currency, k.former_sale_cents, k.former_cents, k.former_pays_cents,
        k.partner_id, k.currency, k.state, k.base_cents, k.cents, k.pays_cents) as reasons
      from compared k where k.differs and (of_partner_id is null or of_partner_id in (k.former_partner_id, k.partner_id))
    ) d
    where of_reason is null or of_reason = any (d.reasons)
  ), some_differences as (
    -- Postgres only computes the reasons of the returned rows, unless the caller filters by a reason.
    select c.* from chosen c
    where before_key is null or ((extract(epoch from c.at) * 1000000)::bigint, c.key) < (before_us, before_key)
    order by c.at desc, c.key desc limit max_differences
  )
  select
    (select coalesce(jsonb_agg(to_jsonb(p) - 'gap_cents' order by p.gap_cents desc, p.partner_id desc, p.currency desc), '[]') from (
      select s.*, r.name as partner_name from some_partners s join partners r on r.program_id = of_program_id and r.id = s.partner_id
    ) p),
    (select coalesce(jsonb_agg(to_jsonb(d) - 'differs' order by d.at desc, d.key desc), '[]') from (
      select s.*, (extract(epoch from s.at) * 1000000)::bigint as at_us, o.name as former_partner_name, r.name as partner_name
      from some_differences s
      left join partners o on o.program_id = of_program_id and o.id = s.former_partner_id
      left join partners r on r.program_id = of_program_id and r.id = s.partner_id
    ) d),
    (select count(*) from chosen)
$$;

-- Stores commissions of the former service that the API sends, or replaces those with the same id. Refuses all of them if a partner doesn't
-- exist in the program.
create or replace function store_former_commissions(of_program_id bigint, rows jsonb) returns void language plpgsql as $$
declare
  given record;
  of_partner_id bigint;
begin
  for given in
    select g.* from jsonb_to_recordset(rows) g (id text, partner text, partner_id bigint, customer_key text, amount_cents bigint,
      currency text, status text, sale_cents bigint, payment_id text, earned_at timestamptz)
  loop
    select r.id into of_partner_id from (
      select p.id from partners p where p.program_id = of_program_id and (p.id = given.partner_id or p.external_id = given.partner
        or lower(p.email) = lower(given.partner))
      union all
      select l.partner_id from referral_links l where l.program_id = of_program_id and lower(l.code) = lower(given.partner)
    ) r limit 1;
    if of_partner_id is null then
      raise foreign_key_violation using message = coalesce(given.partner, given.partner_id::text), constraint = 'former_commissions_partner';
    end if;
    insert into imported_commissions (program_id, partner_id, customer_id, external_id, amount_cents, currency, status, sale_cents, payment_id,
      earned_at)
    values (of_program_id, of_partner_id, (
        select c.id from customers c where c.program_id = of_program_id and c.customer_key = given.customer_key
      ), 'api:' || given.id, given.amount_cents, given.currency, given.status, given.sale_cents, given.payment_id, given.earned_at)
    on conflict on constraint imported_commissions_external_id_key do update set partner_id = excluded.partner_id,
      customer_id = excluded.customer_id, amount_cents = excluded.amount_cents, currency = excluded.currency, status = excluded.status,
      sale_cents = excluded.sale_cents, payment_id = excluded.payment_id, earned_at = excluded.earned_at;
  end loop;
end $$;
