-- a payout run has the recorded number of payments
select r.program_id, format('payout run %s', r.id) as subject, count(w.id)::text as found, r.payments::text as expected
from payout_runs r left join payouts w on w.program_id = r.program_id and w.payout_run_id = r.id
where ($1::bigint is null or r.program_id = $1)
group by r.program_id, r.id, r.payments having count(w.id) <> r.payments
