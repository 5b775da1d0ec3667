-- a balance is the sum of its entries, and its last entry has the same balance
select program_id, format('partner %s %s', partner_id, currency) as subject,
  format('balance %s, %s entries', b.balance_cents, b.entry_count) as found,
  format('balance %s, %s entries, last %s after %s', e.sum, e.count, e.last, e.after) as expected
from (select * from balances where ($1::bigint is null or program_id = $1)) b
full join (
  select program_id, partner_id, currency, sum(amount_cents), count(*), max(entry_number) as last,
    (array_agg(balance_after_cents order by entry_number desc))[1] as after
  from balance_entries where ($1::bigint is null or program_id = $1) group by program_id, partner_id, currency
) e using (program_id, partner_id, currency)
where (b.balance_cents, b.entry_count) is distinct from (coalesce(e.sum, 0), coalesce(e.count, 0))
  or e.last <> e.count or e.after <> e.sum
