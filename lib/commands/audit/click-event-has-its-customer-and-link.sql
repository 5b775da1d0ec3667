-- a click event has its customer and link, and these are of its program
select e.program_id, 'click event ' || e.id as subject, format('customer %s, link %s', e.customer_id, e.link_id) as found,
  'both exist' as expected
from affiliate_click_events e
left join customers u on u.program_id = e.program_id and u.id = e.customer_id
left join referral_links l on l.program_id = e.program_id and l.id = e.link_id
where not e.is_test and ($1::bigint is null or e.program_id = $1) and (u.id is null or l.id is null)
