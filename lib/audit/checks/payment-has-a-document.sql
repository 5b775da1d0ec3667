-- a payment to a partner who had a document before has one too, unless they withdrew their agreement
with first as (
  select d.program_id, d.partner_id, min(d.issued_at) as issued_at from documents d
  join partners r on r.program_id = d.program_id and r.id = d.partner_id
  join payee_details y on y.user_id = r.user_id
  where ($1::bigint is null or d.program_id = $1) and self_billing_terms(d.program_id, d.partner_id) is not null
  group by 1, 2
)
select e.program_id, format('payout %s', e.payout_id) as subject, 'no document' as found, 'a document' as expected
from first f
join balance_entries e on e.program_id = f.program_id and e.partner_id = f.partner_id and e.cause = 'payout_paid' and e.created_at > f.issued_at
left join documents d on d.program_id = e.program_id and d.payout_id = e.payout_id and d.kind = 'invoice'
  and d.payment_number = coalesce(e.correction_number, 0) + 1
left join lateral (
  select max(a.accepted_at) as accepted_at from accepted_terms a where a.program_id = f.program_id and a.partner_id = f.partner_id
) a on true
where d.id is null and e.created_at > coalesce(a.accepted_at, '-infinity')
