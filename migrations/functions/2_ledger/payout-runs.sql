-- A changed payout address waits for a day if payouts were paid to the previous one or are on their way. So the partner can read the
-- mail about the change before an intruder in the account gets any money.
create or replace function hold_changed_payout_address() returns trigger language plpgsql as $$
begin
  if exists (select from payouts w where w.program_id = new.program_id and w.partner_id = new.id and w.status in ('requested', 'in_run', 'sent', 'unclaimed', 'paid')) then
    new.payout_waits_until := now() + interval '24 hours';
  end if;
  return new;
end $$;
create or replace trigger partners_payout_address before update of payout_email, email on partners
  for each row when (coalesce(old.payout_email, old.email) is distinct from coalesce(new.payout_email, new.email))
  execute function hold_changed_payout_address();

-- Creates a payout run: one payout for each partner and currency whose payable amount reaches the program's minimum and who can be paid.
-- The others are stored with their exclusion reasons. A balance that is first credited in the meantime isn't locked, and waits for the
-- next run. An empty run is not stored. Repeating a request finds its run. `createPayoutRun` in lib/money/payout-runs.ts is its only
-- caller.
create or replace function create_payout_run(of_program_id bigint, request uuid) returns bigint language plpgsql as $$
declare
  run_id bigint;
  locked_partner_ids bigint[];
  locked_currencies text[];
  payout_count integer;
begin
  select array_agg(l.partner_id), array_agg(l.currency) into locked_partner_ids, locked_currencies
  from (
    select b.partner_id, b.currency from balances b where b.program_id = of_program_id and b.balance_cents > 0
    order by b.partner_id, b.currency for no key update
  ) l;
  select r.id into run_id from payout_runs r where r.program_id = of_program_id and r.request_id = request;
  if run_id is null then
    perform ask_for_missing(of_program_id, 'no_tax_form');
  end if;
  if run_id is not null or not exists (
    select from payouts_due d join unnest(locked_partner_ids, locked_currencies) l (partner_id, currency) using (partner_id, currency)
    where d.program_id = of_program_id and d.exclusion_reason is null
  ) then
    return run_id;
  end if;
  insert into payout_runs (program_id, request_id) values (of_program_id, request) returning id into run_id;
  insert into payout_run_exclusions (program_id, payout_run_id, partner_id, currency, payable_cents, reason)
  select d.program_id, run_id, d.partner_id, d.currency, d.payable_cents, d.exclusion_reason from payouts_due d
  where d.program_id = of_program_id and d.exclusion_reason is not null;
  insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, payout_run_id, payout_address)
  select d.program_id, d.partner_id, d.currency, d.payable_cents, d.payable_cents, 'in_run', run_id, d.payout_address
  from payouts_due d join unnest(locked_partner_ids, locked_currencies) l (partner_id, currency) using (partner_id, currency)
  where d.program_id = of_program_id and d.exclusion_reason is null
  order by d.partner_id, d.currency;
  get diagnostics payout_count = row_count;
  update payout_runs r set payments = payout_count where r.program_id = of_program_id and r.id = run_id;
  return run_id;
end $$;

-- Marks a run and all its open payouts as paid. `run_id` is null if the program has no such run, and `open_cents` is the sum of its open
-- payouts. If the caller passes a different sum, a payout has changed since then and nothing is paid. Paying a run again pays nothing.
create or replace function pay_payout_run(
  of_program_id bigint, of_run_id bigint, transferred_cents bigint, of_reference text, of_paid_on date,
  out run_id bigint, out was_paid boolean, out open_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  run payout_runs;
  payout payouts;
begin
  select r.* into run from payout_runs r where r.program_id = of_program_id and r.id = of_run_id for no key update;
  run_id := run.id;
  was_paid := run.paid_at is not null;
  perform lock_payout_payments(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = of_run_id
  ));
  select coalesce(sum(w.amount_cents), 0) into open_cents from payouts w
  where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.decided_at is null;
  if run_id is null or was_paid or open_cents <> coalesce(transferred_cents, open_cents) then
    return;
  end if;
  perform refuse_at_provider(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.decided_at is null
  ));
  for payout in
    select w.* from payouts w
    where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.decided_at is null order by w.id
  loop
    perform post_payout(payout, of_reference, of_paid_on);
  end loop;
  update payout_runs r set reference = of_reference, paid_on = of_paid_on, paid_at = now()
  where r.program_id = of_program_id and r.id = of_run_id;
end $$;

-- Returns whether a run is the latest, and was marked as paid by a person within the last 24 hours.
create or replace function is_reopenable(run payout_runs) returns boolean language sql stable
return coalesce((run).paid_at > now() - interval '24 hours', false) and not exists (
  select from payout_runs r where r.program_id = (run).program_id and r.id > (run).id
) and not exists (
  select from payout_batches b where b.program_id = (run).program_id and b.payout_run_id = (run).id and b.status <> 'stopped'
);

-- Undoes marking a run as paid, so that its paid payouts get the status `sent` again. This is possible for 24 hours, and only until the
-- next run. `run_id` is null if the program has no such run. If `is_open` is false, it was too late. An open run stays unchanged, and so
-- does a run that a provider paid. If erasing a partner's account cleared the payout's address, no file can pay it anymore. It is returned
-- instead, so that its amount is payable again.
create or replace function reopen_payout_run(of_program_id bigint, of_run_id bigint, out run_id bigint, out is_open boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  run payout_runs;
  payout payouts;
begin
  select r.* into run from payout_runs r where r.program_id = of_program_id and r.id = of_run_id for no key update;
  run_id := run.id;
  is_open := run.paid_at is null or is_reopenable(run);
  if run.paid_at is null or not is_open then
    return;
  end if;
  perform lock_payout_payments(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = of_run_id
  ));
  for payout in
    select w.* from payouts w
    where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.status = 'paid' and w.decided_at = run.paid_at order by w.id
  loop
    if payout.payout_address is null then
      perform end_payout(payout, 'returned', 'The run was reopened after the partner''s account was erased.');
      continue;
    end if;
    perform post_returned_payout(payout);
    update payouts w set status = 'sent', sent_at = coalesce(w.sent_at, now()), decided_at = null, reference = null, paid_on = null
    where w.program_id = of_program_id and w.id = payout.id;
  end loop;
  update payout_runs r set reference = null, paid_on = null, paid_at = null
  where r.program_id = of_program_id and r.id = of_run_id;
  perform write_program_audit(of_program_id, 'payout_run.reopened', of_run_id::text, jsonb_build_object('reference', run.reference));
end $$;

-- Records a manual payment to a partner without a run: a payout of the whole payable amount, created and paid at once. `payout_id` is null
-- if the payable amount is not the transferred amount.
create or replace function pay_by_hand(
  of_program_id bigint, of_partner_id bigint, of_currency text, transferred_cents bigint, of_reference text, of_paid_on date,
  request uuid, out payout_id bigint, out payable_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  payout payouts;
begin
  perform from commissions c
  where c.program_id = of_program_id and c.partner_id = of_partner_id and c.currency = of_currency and c.credited_at is not null
    and c.paid_at is null
  order by c.id for no key update;
  payable_cents := locked_payable_cents(of_program_id, of_partner_id, of_currency);
  select w.id into payout_id from payouts w
  where w.program_id = of_program_id and w.request_id = request and w.partner_id = of_partner_id;
  if payout_id is null and payable_cents > 0 and payable_cents = transferred_cents then
    insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, request_id)
    values (of_program_id, of_partner_id, of_currency, payable_cents, payable_cents, request)
    returning * into payout;
    payout_id := payout.id;
    perform post_payout(payout, of_reference, of_paid_on);
  end if;
end $$;
