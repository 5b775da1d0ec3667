-- an outbox row is delivered if and only if its notification exists, and both have the same content
select coalesce(o.program_id, n.program_id) as program_id, 'outbox ' || coalesce(o.id, n.id) as subject,
  case when n.id is null then 'no notification' else 'a notification' end as found,
  case
    when o.id is null then 'an outbox row'
    when o.delivered_at is null then 'none yet'
    else 'a notification with the same content'
  end as expected
from (select * from outbox where ($1::bigint is null or program_id = $1)) o
full join (select * from notifications where ($1::bigint is null or program_id = $1)) n on n.program_id = o.program_id and n.id = o.id
where (o.delivered_at is null) <> (n.id is null)
  or (n.kind, n.audience, n.partner_id, n.payload) is distinct from (o.kind, o.audience, o.partner_id, o.payload)
    and o.delivered_at is not null
