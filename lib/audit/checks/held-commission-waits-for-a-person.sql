-- a held commission is in no balance and waits for a decision, and a decided one is not held
select v.program_id, 'commission ' || v.commission_id as subject,
  format('%s, decision %s', case when c.held_at is null then 'not held' else 'held' end, coalesce(v.decision, 'none')) as found,
  case when v.decision is null then 'held and in no balance' else 'not held' end as expected
from commission_reviews v join commissions c on c.program_id = v.program_id and c.id = v.commission_id
left join (
  select distinct program_id, commission_id from balance_entries
  where cause = 'commission_credited' and ($1::bigint is null or program_id = $1)
) e on e.program_id = c.program_id and e.commission_id = c.id
where ($1::bigint is null or v.program_id = $1)
  and (v.decision is null) <> (c.held_at is not null and c.credited_at is null and e.commission_id is null)
union all
select c.program_id, 'commission ' || c.id, 'held', 'a held commission keeps its findings' from commissions c
where c.held_at is not null and ($1::bigint is null or c.program_id = $1)
  and not exists (select from commission_reviews v where v.program_id = c.program_id and v.commission_id = c.id)
