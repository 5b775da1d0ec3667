-- a commission that was credited before its hold ended is in the audit log
-- The rows of an archive have no notifications and no audit log here.
select c.program_id, 'commission ' || c.id as subject, 'credited at ' || c.credited_at as found, 'not before ' || c.hold_until as expected
from commissions c
join programs p on p.id = c.program_id
left join (
  select program_id, subject from audit_log where action = 'commission.approved'
) l on l.program_id = c.program_id and l.subject = c.id::text
where c.credited_at < c.hold_until and c.credited_at > greatest(now() - money_kept(), p.moved_in_at) and l.subject is null and ($1::bigint is null or c.program_id = $1)
