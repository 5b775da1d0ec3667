-- every refund of a sale with a commission was reported to the partner, with the reversed amount
-- Refunds of tax alone reverse nothing, so they aren't reported. Refunds that were undone before the sale had a commission aren't reported
-- either. The refund's transaction may have begun a moment after the one that created the commission. A commission can move to another
-- partner after the report.
select r.program_id, 'refund ' || r.id as subject, format('%s %s', o.kind, o.payload->>'amount_cents') as found,
  'reported ' || r.deduction_cents as expected
from refunds r
join programs p on p.id = r.program_id
join commissions c on c.program_id = r.program_id and c.sale_id = r.sale_id and not c.is_shadow
left join outbox o on o.program_id = r.program_id and o.cause = 'refund:' || r.id and o.audience = 'partner'
  and o.kind in ('commission_reversed', 'commission_refunded')
where ($1::bigint is null or r.program_id = $1) and r.created_at >= greatest(notifications_begin(), p.moved_in_at) and case
  when o.id is null then r.deduction_cents > 0 or (c.rejected_at is null and r.applied_cents > 0 and r.untaxed_cents is distinct from 0
    and (r.returned_at is null or r.returned_at > c.created_at + interval '1 minute'))
  else (o.payload->>'amount_cents')::bigint <> r.deduction_cents or o.partner_id <> c.partner_id and (c.moved_at is null or c.moved_at < o.created_at) end
