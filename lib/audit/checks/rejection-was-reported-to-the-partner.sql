-- every rejection was reported to the partner
-- The rows of an archive have no notifications and no audit log here.
select c.program_id, 'commission ' || c.id as subject, 'no notification' as found, 'a notification' as expected
from commissions c
join programs p on p.id = c.program_id
where ($1::bigint is null or c.program_id = $1) and c.rejected_at >= greatest(notifications_begin(), p.moved_in_at) and not c.is_shadow and not exists (
  select from outbox o where o.program_id = c.program_id and o.kind = 'commission_reversed' and o.audience = 'partner'
    and o.cause = 'rejection:' || c.id and o.partner_id = c.partner_id)
