-- a sale has its customer's partner
select s.program_id, 'sale ' || s.id as subject, 'partner ' || s.partner_id as found, 'partner ' || u.partner_id as expected
from sales s join customers u on u.program_id = s.program_id and u.id = s.customer_id
where ($1::bigint is null or s.program_id = $1) and not s.is_test and s.partner_id <> u.partner_id
