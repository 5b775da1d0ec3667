-- a document has the partner, amount, lines, reference and day of its payment, and a payment that came back has a credit note
with payment as (
  select program_id, payout_id, amount_cents, cause = 'payout_returned' as is_return,
    row_number() over (partition by program_id, payout_id, cause order by entry_number) as payment_number
  from balance_entries where payout_id is not null and ($1::bigint is null or program_id = $1)
)
select d.program_id, format('document %s-%s', d.series, d.number) as subject,
  format('%s of %s with lines of %s, %s on %s%s', d.kind, d.amount_cents, l.cents, d.reference, d.paid_on, case when c.id is not null then ', with a credit note' end) as found,
  format('payment of %s, %s on %s%s', -p.amount_cents, w.reference, w.paid_on, case when r.payout_id is not null then ', came back' end) as expected
from documents d
join payouts w on w.program_id = d.program_id and w.id = d.payout_id
left join payment p on p.program_id = d.program_id and p.payout_id = d.payout_id and p.payment_number = d.payment_number and not p.is_return
left join payment r on r.program_id = d.program_id and r.payout_id = d.payout_id and r.payment_number = d.payment_number and r.is_return
left join payment later on later.program_id = d.program_id and later.payout_id = d.payout_id and later.payment_number = d.payment_number + 1
  and not later.is_return
left join documents c on c.program_id = d.program_id and c.corrects_id = d.id
left join documents i on i.program_id = d.program_id and i.id = d.corrects_id
cross join lateral (select sum((one->>'amount_cents')::bigint) as cents from jsonb_array_elements(d.lines) one) l
where ($1::bigint is null or d.program_id = $1) and (
  -p.amount_cents is distinct from d.amount_cents or l.cents is distinct from d.amount_cents or w.partner_id <> d.partner_id
  -- If a run is reopened, its reference and day are cleared, and its next payment has different ones.
  or w.paid_on is not null and later.payout_id is null and (d.reference, d.paid_on) <> (w.reference, w.paid_on)
  or case when d.kind = 'credit_note' then r.payout_id is null or (i.payout_id, i.payment_number, i.lines) is distinct from (d.payout_id, d.payment_number, d.lines)
    when d.voided_at is null then (r.payout_id is not null) <> (c.id is not null)
    else c.id is not null end
)
