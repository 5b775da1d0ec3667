-- the payout lines of an entry pay its amount at most once
select e.program_id, format('entry %s of partner %s in %s', e.entry_number, e.partner_id, e.currency) as subject, l.sum::text as found,
  'at most ' || e.amount_cents as expected
from balance_entries e
join (
  select program_id, partner_id, currency, entry_number, sum(amount_cents), bool_or(amount_cents > 0) as has_credit,
    bool_or(amount_cents < 0) as has_debit
  from payout_lines where not is_returned and ($1::bigint is null or program_id = $1) group by 1, 2, 3, 4
) l using (program_id, partner_id, currency, entry_number)
where e.payout_id is not null or abs(l.sum) > abs(e.amount_cents) or case when e.amount_cents > 0 then l.has_debit else l.has_credit end
