-- unsent and sent payouts together fit into the balance
select w.program_id, format('partner %s %s', w.partner_id, w.currency) as subject, sum(w.amount_cents) || ' asked' as found,
  'up to ' || greatest(max(b.balance_cents), 0) as expected
from payouts w left join balances b using (program_id, partner_id, currency)
where w.decided_at is null and ($1::bigint is null or w.program_id = $1)
group by w.program_id, w.partner_id, w.currency
having sum(w.amount_cents) filter (where w.status in ('requested', 'in_run'))
  > greatest(coalesce(max(b.balance_cents), 0) - coalesce(sum(w.amount_cents) filter (where w.status in ('sent', 'unclaimed')), 0), 0)
