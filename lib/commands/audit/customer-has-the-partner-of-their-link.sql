-- a customer has the partner of their link, which is of their program
select u.program_id, 'customer ' || u.id as subject, format('link %s, partner %s', u.link_id, u.partner_id) as found,
  format('partner %s', coalesce(l.partner_id::text, 'of a link that exists')) as expected
from customers u left join referral_links l on l.program_id = u.program_id and l.id = u.link_id
where ($1::bigint is null or u.program_id = $1) and l.partner_id is distinct from u.partner_id
