-- every manual commission and deduction was reported to the partner
-- The rows of an archive have no notifications and no audit log here.
select a.program_id, 'adjustment ' || a.id as subject, 'no notification' as found, 'a notification' as expected
from adjustments a
join programs p on p.id = a.program_id
where ($1::bigint is null or a.program_id = $1) and a.import_id is null and a.created_at >= greatest(notifications_begin(), p.moved_in_at) and not exists (
  select from outbox o where o.program_id = a.program_id and o.kind in ('adjustment_added', 'adjustment_deducted') and o.audience = 'partner'
    and o.cause = 'adjustment:' || a.id and o.partner_id = a.partner_id)
