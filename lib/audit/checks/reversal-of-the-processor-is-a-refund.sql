-- a refund or dispute that the processor reported is a refund of its sale, and is undone if the processor undid it
with account as (
  select p.id as program_id, a.account_id from programs p cross join lateral unnest(accounts_of(p)) a (account_id)
  where a.account_id is not null and ($1::bigint is null or p.id = $1)
),
reversal as (
  select k.program_id, v.livemode, v.reversal_id, v.amount_cents, v.currency,
    -- Several connections can report one account, and each can miss the return.
    max(v.returned_at) over (partition by k.program_id, v.livemode, v.reversal_id) is not null as is_returned,
    coalesce(i.transaction_id, coalesce(v.invoice_id, v.payment_intent_id, v.charge_id)) as payment_id
  from account k
  join processor_reversals v on v.account_id = k.account_id
  left join processor_payments i on i.account_id = v.account_id and i.payment_id = coalesce(v.invoice_id, v.payment_intent_id, v.charge_id)
),
sold as (
  select s.program_id, s.id, s.is_test, s.currency, coalesce(i.transaction_id, s.transaction_id) as payment_id
  from sales s
  left join (
    select k.program_id, i.payment_id, i.transaction_id from account k join processor_payments i on i.account_id = k.account_id
  ) i on i.program_id = s.program_id and i.payment_id = s.transaction_id
  where s.amount_cents > 0 and ($1::bigint is null or s.program_id = $1)
)
select s.program_id, 'sale ' || s.id as subject,
  case when f.id is null then 'no refund' when f.returned_at is null then 'a refund' else 'a returned refund' end as found,
  format('%s of %s%s', v.reversal_id, v.amount_cents, case when v.is_returned then ', returned' else '' end) as expected
from reversal v
join sold s on s.program_id = v.program_id and s.payment_id = v.payment_id and s.is_test <> v.livemode and s.currency = v.currency
left join refunds f on f.program_id = s.program_id and f.sale_id = s.id and f.processor_reversal_id = v.reversal_id
where f.id is null or (f.returned_at is not null) <> v.is_returned
