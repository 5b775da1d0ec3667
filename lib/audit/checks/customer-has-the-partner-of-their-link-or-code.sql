-- a customer has the partner of their link, or of the code that referred them, and that partner is of their program
select u.program_id, 'customer ' || u.id as subject, format('link %s, code %s, partner %s', u.link_id, u.code_id, u.partner_id) as found,
  format('partner %s', coalesce(l.partner_id, k.partner_id)::text) as expected
from customers u
left join referral_links l on l.program_id = u.program_id and l.id = u.link_id
left join partner_codes k on k.program_id = u.program_id and k.id = u.code_id
where ($1::bigint is null or u.program_id = $1) and (u.imported_at is null or num_nonnulls(u.link_id, u.code_id) > 0)
  and (case when u.link_id is null then k.partner_id else l.partner_id end is distinct from u.partner_id or u.code_id is not null and k.id is null)
