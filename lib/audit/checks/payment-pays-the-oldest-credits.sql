-- a payment pays the oldest credits first
-- A returned payment gives back its lines, so after that, an older credit can wait longer than a newer one. Such balances are not checked.
with newest as (
  select program_id, partner_id, currency, max(entry_number) filter (where amount_cents > 0) as entry_number
  from payout_lines where $1::bigint is null or program_id = $1
  group by 1, 2, 3 having not bool_or(is_returned)
),
paid as (
  select program_id, partner_id, currency, entry_number, sum(amount_cents) as cents
  from payout_lines where not is_returned and ($1::bigint is null or program_id = $1)
  group by 1, 2, 3, 4
),
unpaid as (
  select e.program_id, e.partner_id, e.currency, e.entry_number, e.amount_cents - coalesce(p.cents, 0) as unpaid_cents
  from balance_entries e left join paid p using (program_id, partner_id, currency, entry_number)
  where e.payout_id is null and ($1::bigint is null or e.program_id = $1)
)
select u.program_id, format('entry %s of partner %s in %s', u.entry_number, u.partner_id, u.currency) as subject,
  format('%s are unpaid', u.unpaid_cents) as found, format('paid before entry %s', n.entry_number) as expected
from unpaid u join newest n using (program_id, partner_id, currency)
where u.unpaid_cents > 0 and u.entry_number < n.entry_number
