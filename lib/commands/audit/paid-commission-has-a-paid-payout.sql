-- a paid commission was paid when its payout was, after it was credited
select c.program_id, c.subject, format('paid at %s', c.paid_at) as found,
  format('payout %s %s at %s', w.id, w.status, w.decided_at) as expected
from (
  select program_id, 'commission ' || id as subject, paid_at, payout_id, partner_id, currency from commissions
  union all
  select program_id, 'adjustment ' || id, paid_at, payout_id, partner_id, currency from adjustments
) c left join payouts w on w.program_id = c.program_id and w.id = c.payout_id
where ($1::bigint is null or c.program_id = $1) and c.paid_at is not null
  and (w.status, w.decided_at, w.partner_id, w.currency::text) is distinct from ('paid', c.paid_at, c.partner_id, c.currency::text)
