-- a sale has the partner of its code, or else its customer's
select s.program_id, 'sale ' || s.id as subject, 'partner ' || s.partner_id as found,
  'partner ' || coalesce(k.partner_id::text, case when s.code_id is null then u.partner_id::text end, 'of a code that exists') as expected
from sales s
join customers u on u.program_id = s.program_id and u.id = s.customer_id
left join partner_codes k on k.program_id = s.program_id and k.id = s.code_id
where ($1::bigint is null or s.program_id = $1) and not s.is_test
  and s.partner_id is distinct from case when s.code_id is null then u.partner_id else k.partner_id end
