-- a manual commission or deduction is in the audit log
select a.program_id, 'adjustment ' || a.id as subject, 'no entry in the audit log' as found, 'partner.adjusted' as expected
from adjustments a
left join (
  select program_id, (details->>'adjustment')::bigint as adjustment_id from audit_log where action = 'partner.adjusted'
) l on l.program_id = a.program_id and l.adjustment_id = a.id
where a.import_id is null and a.created_at > now() - money_kept() and l.adjustment_id is null and ($1::bigint is null or a.program_id = $1)
