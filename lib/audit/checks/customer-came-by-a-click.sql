-- a customer came by a click
-- The second person on one click has a key but no click. After an erasure, only the data from the key is left. Events are deleted with
-- their month.
select u.program_id, 'customer ' || u.id as subject, 'no click event' as found, 'one at the least, or a customer key' as expected
from customers u
where ($1::bigint is null or u.program_id = $1)
  and u.link_id is not null and u.last_click_at >= (select coalesce(max(since), '-infinity') from clicks_kept)
  and coalesce(u.customer_key, u.signup_date::text, u.first_purchase_date::text) is null
  and not exists (
    select from affiliate_click_events e where e.program_id = u.program_id and not e.is_test and e.customer_id = u.id)
