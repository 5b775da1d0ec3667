-- every rejection was reported to the partner
select c.program_id, 'commission ' || c.id as subject, 'no notification' as found, 'a notification' as expected
from commissions c
where ($1::bigint is null or c.program_id = $1) and c.rejected_at >= notifications_begin() and not exists (
  select from outbox o where o.program_id = c.program_id and o.kind = 'commission_reversed' and o.audience = 'partner'
    and o.cause = 'rejection:' || c.id and o.partner_id = c.partner_id)
