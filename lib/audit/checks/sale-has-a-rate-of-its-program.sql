-- a sale that no rule decides has a rate that its program had since the sale
select s.program_id, 'sale ' || s.id as subject, s.bp || ' basis points' as found, 'a rate that the program had' as expected
from (
  select s.program_id, s.id, s.created_at, coalesce((s.terms_among).commission_bp, s.commission_bp) as bp from sales s
  join programs p on p.id = s.program_id
  where s.partner_id is not null and s.created_at > greatest(audit_log_begins(), p.moved_in_at) and not coalesce(s.resolution ? 'partner_left', false)
    and ($1::bigint is null or s.program_id = $1)
) s
join programs p on p.id = s.program_id
left join (
  select a.program_id, a.created_at, v.value from audit_log a cross join jsonb_array_elements_text(a.details->'commission_bp') v (value)
  where a.action = 'program.changed' and a.details ? 'commission_bp'
) c on c.program_id = s.program_id and c.value = s.bp::text and c.created_at >= s.created_at
where s.bp <> p.commission_bp and c.program_id is null
