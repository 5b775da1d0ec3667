-- a payment leaves no balance below zero, unless a reversal came after it was sent
select e.program_id, format('payout %s', e.payout_id) as subject, format('%s left %s', e.amount_cents, e.balance_after_cents) as found,
  'at least 0' as expected
from balance_entries e join payouts w on w.program_id = e.program_id and w.id = e.payout_id and w.sent_at is null
where ($1::bigint is null or e.program_id = $1) and e.cause = 'payout_paid' and e.balance_after_cents < 0
