-- a manual commission or deduction is in the audit log
-- The rows of an archive have no notifications and no audit log here.
select a.program_id, 'adjustment ' || a.id as subject, 'no entry in the audit log' as found, 'partner.adjusted' as expected
from adjustments a
join programs p on p.id = a.program_id
left join (
  select program_id, (details->>'adjustment')::bigint as adjustment_id from audit_log where action = 'partner.adjusted'
) l on l.program_id = a.program_id and l.adjustment_id = a.id
where a.import_id is null and a.created_at > greatest(now() - money_kept(), p.moved_in_at) and l.adjustment_id is null and ($1::bigint is null or a.program_id = $1)
