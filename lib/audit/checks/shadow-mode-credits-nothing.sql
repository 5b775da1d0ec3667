-- no commission of shadow mode is credited, and a program in shadow mode credits nothing
select c.program_id, 'commission ' || c.id as subject, 'credited' as found, 'not credited' as expected
from commissions c
where c.is_shadow and c.credited_at is not null and ($1::bigint is null or c.program_id = $1)
union all
select e.program_id, format('entry %s of partner %s in %s', e.entry_number, e.partner_id, e.currency), e.cause, 'none in shadow mode'
from balance_entries e join programs p on p.id = e.program_id
where p.shadow_ended_at is null and e.created_at >= p.shadow_since
  and (e.cause in ('commission_credited', 'adjusted', 'payout_paid') or e.cause = 'opening_balance' and e.amount_cents > 0)
  and ($1::bigint is null or e.program_id = $1)
