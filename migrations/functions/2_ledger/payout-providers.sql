-- Payments of a run through a provider. The calls to the providers are in lib/money/providers/.

-- The unsent payments of a run that a connection can pay, with their recipients. Stripe pays only partners with a recipient there.
create or replace function payments_for_provider(of_program_id bigint, of_run_id bigint, of_provider text, currencies text[])
returns table (payout_id bigint, currency text, amount_cents bigint, recipient text) language sql stable as $$
  select w.id, w.currency, w.amount_cents, r.recipient
  from payouts w
  left join payout_recipients p on p.program_id = w.program_id and p.partner_id = w.partner_id
  cross join lateral (select case of_provider when 'stripe' then p.recipient_id else w.payout_address end as recipient) r
  where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.status = 'in_run' and w.currency = any (currencies)
    and r.recipient is not null
$$;

-- Puts these payments into batches of at most `most` payments in one currency, for the scheduled function that sends them. This fixes
-- their amounts and recipients. `sum_cents` is their sum. If the caller passes another sum, a payment has changed and nothing is sent.
-- `run_id` is null if the program has no such run or connection. A repeated call finds nothing to send.
create or replace function create_payout_batches(
  of_program_id bigint, of_run_id bigint, of_connection_id text, currencies text[], most integer, confirmed_cents bigint,
  out run_id bigint, out sum_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  of_provider text;
  part record;
  batch_id bigint;
begin
  select r.id into run_id from payout_runs r where r.program_id = of_program_id and r.id = of_run_id for no key update;
  select c.provider into of_provider from payout_connections c
  where c.program_id = of_program_id and c.id = of_connection_id and c.keys is not null for key share;
  if of_provider is null then
    run_id := null;
  end if;
  perform lock_payout_balances(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = run_id and w.status = 'in_run'
  ));
  select coalesce(sum(p.amount_cents), 0) into sum_cents from payments_for_provider(of_program_id, run_id, of_provider, currencies) p;
  if run_id is null or sum_cents <> confirmed_cents then
    return;
  end if;
  for part in
    select p.currency, array_agg(p.payout_id) as ids, sum(p.amount_cents)::bigint as amount_cents from (
      select p.*, (row_number() over (partition by p.currency order by p.payout_id) - 1) / most as number
      from payments_for_provider(of_program_id, run_id, of_provider, currencies) p
    ) p
    group by p.currency, p.number order by p.currency, p.number
  loop
    insert into payout_batches (program_id, payout_run_id, connection_id, currency)
    values (of_program_id, run_id, of_connection_id, part.currency) returning id into batch_id;
    insert into payout_items (program_id, payout_id, batch_id, recipient)
    select of_program_id, p.payout_id, batch_id, p.recipient from payments_for_provider(of_program_id, run_id, of_provider, currencies) p
    where p.payout_id = any (part.ids) order by p.payout_id;
    update payouts w set status = 'sent', sent_at = now() where w.program_id = of_program_id and w.id = any (part.ids);
    perform write_program_audit(of_program_id, 'payout_run.sent', run_id::text, jsonb_build_object('provider', of_provider,
      'payments', cardinality(part.ids), 'amount_cents', part.amount_cents, 'currency', part.currency));
  end loop;
end $$;

-- Moves the unattempted payments of a batch back to their run. If the balance no longer covers them, it reduces them. Returns their number.
create or replace function stop_payout_batch(of_program_id bigint, of_batch_id bigint) returns integer language plpgsql as $$
declare
  stopped_ids bigint[];
  run_id bigint;
  balance record;
begin
  select b.payout_run_id into run_id from payout_batches b where b.program_id = of_program_id and b.id = of_batch_id for no key update;
  perform lock_payout_balances(of_program_id, array(
    select i.payout_id from payout_items i where i.program_id = of_program_id and i.batch_id = of_batch_id and i.attempted_at is null
  ));
  with stopped as (
    delete from payout_items i where i.program_id = of_program_id and i.batch_id = of_batch_id and i.attempted_at is null
      and i.outcome is null
    returning i.payout_id
  )
  select coalesce(array_agg(s.payout_id), '{}') into stopped_ids from stopped s;
  update payouts w set status = 'in_run', sent_at = null
  where w.program_id = of_program_id and w.id = any (stopped_ids) and w.status = 'sent';
  for balance in
    select distinct p.* from payable_balances p join payouts w
      on w.program_id = p.program_id and w.partner_id = p.partner_id and w.currency = p.currency
    where w.program_id = of_program_id and w.id = any (stopped_ids) and p.payable_cents < 0 order by p.partner_id
  loop
    perform fit_stopped_payouts(of_program_id, balance.partner_id, balance.currency, 'payout_batch:' || of_batch_id);
  end loop;
  update payout_batches b set status = 'stopped'
  where b.program_id = of_program_id and b.id = of_batch_id and not exists (
    select from payout_items i where i.program_id = b.program_id and i.batch_id = b.id
  );
  if cardinality(stopped_ids) > 0 then
    perform write_program_audit(of_program_id, 'payout_run.stopped', run_id::text, jsonb_build_object('payments', cardinality(stopped_ids)));
  end if;
  return cardinality(stopped_ids);
end $$;

-- Reduces the unsent payouts of a partner to the amount that the balance covers, because it fell while they were in a batch. The
-- notification names the last deduction, if it was one.
create or replace function fit_stopped_payouts(of_program_id bigint, of_partner_id bigint, of_currency text, by_cause text) returns void
language sql as $$
  select fit_payouts(of_program_id, of_partner_id, of_currency, (
    select b.balance_cents - coalesce(sum(w.amount_cents), 0)::bigint from balances b
    left join payouts w on w.program_id = b.program_id and w.partner_id = b.partner_id and w.currency = b.currency
      and w.status in ('sent', 'unclaimed')
    where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency group by b.balance_cents
  ), by_cause, jsonb_strip_nulls(jsonb_build_object('currency', of_currency, 'adjustment_id', (
    select e.adjustment_id from balance_entries e
    where e.program_id = of_program_id and e.partner_id = of_partner_id and e.currency = of_currency and e.amount_cents < 0
      and e.payout_id is null order by e.entry_number desc limit 1
  ))))
$$;

-- Applies a provider's report on the payments of a batch: `[{payout_id, outcome, status, reason, reference, claim_until}]`. Outcomes only
-- move forward, so a late report changes nothing. After that, a run without open payments is paid. Returns the payouts of the batch that
-- a person had marked as failed, but that the provider paid.
create or replace function report_payout_items(of_program_id bigint, of_batch_id bigint, reports jsonb) returns bigint[] language plpgsql as $$
declare
  report record;
  payout payouts;
begin
  perform lock_payout_payments(of_program_id, array(
    select i.payout_id from payout_items i join jsonb_array_elements(reports) r on (r->>'payout_id')::bigint = i.payout_id
    where i.program_id = of_program_id and i.batch_id = of_batch_id
  ));
  for report in
    select r.* from jsonb_to_recordset(reports) r (payout_id bigint, outcome text, status text, reason text, reference text, claim_until date)
    join payout_items i on i.program_id = of_program_id and i.batch_id = of_batch_id and i.payout_id = r.payout_id
    where rank_of_outcome(r.outcome) >= rank_of_outcome(i.outcome) order by r.payout_id
  loop
    if report.outcome = 'held' then
      perform notify_held_payout(of_program_id, report.payout_id, report.status, report.reason);
    end if;
    update payout_items i set outcome = report.outcome, provider_status = report.status, provider_reason = report.reason,
      claim_until = coalesce(report.claim_until, i.claim_until), read_at = now()
    where i.program_id = of_program_id and i.payout_id = report.payout_id;
    select w.* into payout from payouts w where w.program_id = of_program_id and w.id = report.payout_id;
    perform apply_outcome(payout, report.outcome, report.reason, report.reference, report.claim_until);
  end loop;
  update payout_items i set read_at = now() from jsonb_array_elements(reports) r
  where i.program_id = of_program_id and i.batch_id = of_batch_id and i.payout_id = (r->>'payout_id')::bigint;
  update payout_runs r set reference = b.provider, paid_on = (now() at time zone 'UTC')::date, paid_at = now()
  from (
    select b.payout_run_id, case c.provider when 'paypal' then 'PayPal' when 'wise' then 'Wise' else 'Stripe' end as provider
    from payout_batches b join payout_connections c on c.id = b.connection_id where b.program_id = of_program_id and b.id = of_batch_id
  ) b
  where r.program_id = of_program_id and r.id = b.payout_run_id and r.paid_at is null and not exists (
    select from payouts w where w.program_id = r.program_id and w.payout_run_id = r.id and w.decided_at is null
  );
  return array(
    select w.id from payout_items i join payouts w on w.program_id = i.program_id and w.id = i.payout_id
    where i.program_id = of_program_id and i.batch_id = of_batch_id and i.outcome = 'paid' and w.paid_on is null order by 1
  );
end $$;

-- Notifies the partner once of each state in which the provider holds a payment.
create or replace function notify_held_payout(of_program_id bigint, of_payout_id bigint, of_status text, because text) returns void
language plpgsql as $$
declare
  held_cause text := 'payout:' || of_payout_id || ':' || lower(of_status);
  payout payouts;
begin
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  if payout.status = 'sent' and not exists (
    select from outbox o where o.program_id = of_program_id and o.kind = 'payout_held' and o.audience = 'partner' and o.cause = held_cause
  ) then
    perform write_outbox(of_program_id, 'payout_held', 'partner', payout.partner_id, held_cause, jsonb_build_object(
      'payout_id', payout.id, 'amount_cents', payout.amount_cents, 'currency', payout.currency, 'reason', because));
  end if;
end $$;

create or replace function rank_of_outcome(outcome text) returns integer language sql immutable
return case outcome when 'unclaimed' then 1 when 'paid' then 2 when 'returned' then 3 when 'failed' then 3 else 0 end;

-- Moves a payout to the outcome of its payment at the provider. The caller has locked it.
create or replace function apply_outcome(payout payouts, outcome text, reason text, reference text, claim_until date) returns void
language plpgsql as $$
begin
  if outcome = 'paid' and payout.decided_at is null then
    perform post_payout(payout, reference, (now() at time zone 'UTC')::date);
  elsif outcome = 'unclaimed' and payout.status = 'sent' then
    update payouts w set status = 'unclaimed' where w.program_id = payout.program_id and w.id = payout.id;
    perform write_outbox(payout.program_id, 'payout_unclaimed', 'partner', payout.partner_id, 'payout:' || payout.id, jsonb_build_object(
      'payout_id', payout.id, 'amount_cents', payout.amount_cents, 'currency', payout.currency, 'day', claim_until));
  elsif outcome in ('returned', 'failed') then
    perform end_payout(payout, outcome, reason);
  end if;
end $$;
