-- a click event has its customer and link, in its own program
-- Customers who only clicked are deleted once their window is over. The event keeps the click id, and an archive contains only that.
select e.program_id, 'click event ' || e.id as subject, format('customer %s, link %s', e.customer_id, e.link_id) as found,
  'both exist' as expected
from affiliate_click_events e
left join customers u on u.program_id = e.program_id and u.id = e.customer_id
left join referral_links l on l.program_id = e.program_id and l.id = e.link_id
left join customers_expired x on x.program_id = e.program_id and x.up_to >= e.click_timestamp
where not e.is_test and ($1::bigint is null or e.program_id = $1)
  and (l.id is null or u.id is null and (x.program_id is null or num_nonnulls(e.click_id, e.click_random) = 0))
