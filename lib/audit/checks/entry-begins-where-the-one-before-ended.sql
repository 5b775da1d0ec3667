-- each entry begins with the balance after the previous one
select program_id, format('partner %s %s entry %s', partner_id, currency, entry_number) as subject,
  format('%s %s = %s', balance_before_cents, amount_cents, balance_after_cents) as found, 'begins with ' || ended as expected
from (
  select *, coalesce(lag(balance_after_cents) over (partition by program_id, partner_id, currency order by entry_number), 0) as ended
  from balance_entries where ($1::bigint is null or program_id = $1)
) e
where balance_before_cents <> ended or balance_before_cents + amount_cents <> balance_after_cents
