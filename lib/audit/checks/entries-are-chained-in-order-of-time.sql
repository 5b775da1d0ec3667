-- an entry of a balance is not earlier than the previous one, and has the hash of both
select e.program_id, format('partner %s %s entry %s', e.partner_id, e.currency, e.entry_number) as subject,
  format('%s, hash %s', e.created_at, left(encode(e.entry_hash, 'hex'), 12)) as found,
  format('%s or later, hash %s', p.previous_at, left(encode(hash_of_entry(p.previous_hash, facts_of_entry(e)), 'hex'), 12)) as expected
from (
  select program_id, partner_id, currency, entry_number, lag(created_at) over entries as previous_at, lag(entry_hash) over entries as previous_hash
  from balance_entries where ($1::bigint is null or program_id = $1)
  window entries as (partition by program_id, partner_id, currency order by entry_number)
) p
join balance_entries e on e.program_id = p.program_id and e.partner_id = p.partner_id and e.currency = p.currency and e.entry_number = p.entry_number
where e.created_at < p.previous_at or e.entry_hash <> hash_of_entry(p.previous_hash, facts_of_entry(e))
