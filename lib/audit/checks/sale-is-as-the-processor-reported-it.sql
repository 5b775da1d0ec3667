-- a sale has the amount, the untaxed part, the currency and the time of an event of its source, and a sale that only the API reported has its own time
with account as (
  select p.id as program_id, a.account_id from programs p cross join lateral unnest(accounts_of(p)) a (account_id)
  where a.account_id is not null and ($1::bigint is null or p.id = $1)
),
fee as (
  select k.program_id, e.livemode, i.payment_id, max((e.fact->>'fee_cents')::bigint) as cents
  from account k
  join processor_events e on e.account_id = k.account_id
  cross join lateral jsonb_array_elements_text(e.fact->'payment_ids') i (payment_id)
  where e.fact->>'kind' = 'payment_fee' and e.outcome in ('recorded', 'duplicate')
  group by k.program_id, e.livemode, i.payment_id
),
event as (
  select k.program_id, e.livemode, coalesce(i.transaction_id, e.fact#>>'{sale,transaction_id}') as payment_id, e.fact#>>'{sale,amount_source}' as source,
    (e.fact#>>'{sale,amount_cents}')::bigint as amount_cents, (e.fact#>>'{sale,commission_base_cents}')::bigint as base_cents,
    greatest((e.fact#>>'{sale,processor_fee_cents}')::bigint, f.cents, 0) as fee_cents, e.fact#>>'{sale,currency}' as currency,
    (e.fact#>>'{sale,sale_date}')::timestamptz as sale_date
  from account k
  join processor_events e on e.account_id = k.account_id
  left join processor_payments i on i.account_id = e.account_id and i.payment_id = e.fact#>>'{sale,transaction_id}'
  left join fee f on f.program_id = k.program_id and f.livemode = e.livemode and f.payment_id = e.fact#>>'{sale,transaction_id}'
  where e.fact#>>'{sale,transaction_id}' is not null and e.outcome in ('recorded', 'duplicate')
),
sold as (
  select s.*, coalesce(i.transaction_id, s.transaction_id) as payment_id
  from sales s
  left join (
    select k.program_id, i.payment_id, i.transaction_id from account k join processor_payments i on i.account_id = k.account_id
  ) i on i.program_id = s.program_id and i.payment_id = s.transaction_id
  where s.amount_cents > 0 and ($1::bigint is null or s.program_id = $1)
)
select s.program_id, 'sale ' || s.id as subject,
  format('%s of it %s %s on %s', s.amount_cents, s.commission_base_cents, s.currency, s.sale_date) as found,
  string_agg(distinct format('%s of it %s %s on %s', e.amount_cents, b.base_cents, e.currency, e.sale_date), ' or ') as expected
from sold s
join event e on e.program_id = s.program_id and e.payment_id = s.payment_id and e.source = s.amount_source::text and e.livemode <> s.is_test
-- A sale stores a fee if the program's commission base excludes fees.
cross join lateral (select case when s.processor_fee_cents is null then e.base_cents else greatest(0, e.base_cents - e.fee_cents) end as base_cents) b
group by s.program_id, s.id, s.amount_cents, s.commission_base_cents, s.currency, s.sale_date
-- The events of one payment are some seconds apart.
having not bool_or((e.amount_cents, b.base_cents, e.currency) = (s.amount_cents, s.commission_base_cents, s.currency::text)
  and s.sale_date between e.sale_date - interval '1 hour' and e.sale_date + interval '1 hour')
union all
select s.program_id, 'sale ' || s.id, 'sold on ' || s.sale_date, 'sold on ' || s.created_at
from sales s
where s.request_id is not null and s.amount_source = 'api' and s.sale_date <> s.created_at and ($1::bigint is null or s.program_id = $1)
