-- a paid payout run has no open payment
select w.program_id, format('payout run %s payout %s', r.id, w.id) as subject, w.status as found,
  'decided on' as expected
from payout_runs r join payouts w on w.program_id = r.program_id and w.payout_run_id = r.id
where ($1::bigint is null or w.program_id = $1) and r.paid_at is not null and w.decided_at is null
