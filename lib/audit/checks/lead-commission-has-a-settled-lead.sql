-- a lead commission belongs to a settled lead
select c.program_id, 'commission ' || c.id as subject, 'customer ' || c.customer_id as found, 'its lead settled' as expected
from commissions c join customers u on u.program_id = c.program_id and u.id = c.customer_id
where ($1::bigint is null or c.program_id = $1) and c.kind = 'lead' and (u.signup_date is null or u.partner_id <> c.partner_id)
