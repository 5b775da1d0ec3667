-- a payment of the processor is one sale, even if it has several ids
select s.program_id, 'payment ' || s.payment_id as subject, string_agg(s.id::text, ', ' order by s.id) as found, 'one sale' as expected
from (
  select s.program_id, s.is_test, s.id, coalesce(i.transaction_id, s.transaction_id) as payment_id
  from sales s
  left join (
    select p.id as program_id, i.payment_id, i.transaction_id
    from programs p cross join lateral unnest(accounts_of(p)) a (account_id)
    join processor_payments i on i.account_id = a.account_id
  ) i on i.program_id = s.program_id and i.payment_id = s.transaction_id
  where s.amount_cents > 0 and ($1::bigint is null or s.program_id = $1)
) s
group by s.program_id, s.is_test, s.payment_id having count(*) > 1
