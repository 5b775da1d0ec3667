-- a payment was of money that was there: it left no balance below zero
select e.program_id, format('payout %s', e.payout_id) as subject, format('%s left %s', e.amount_cents, e.balance_after_cents) as found,
  'at least 0' as expected
from balance_entries e
where ($1::bigint is null or e.program_id = $1) and e.cause = 'payout_paid' and e.balance_after_cents < 0
