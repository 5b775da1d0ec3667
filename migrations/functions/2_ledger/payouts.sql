-- Every change to a payout happens under the lock of the partner's balance, including reductions by reversals (fit_payouts). Reads under a
-- lock must be in a later statement than the lock itself.

create or replace function note_balance_of_payout() returns trigger language plpgsql as $$
begin
  -- A restored payout keeps its number.
  if current_setting('svc.restoring', true) = 'on' then
    return new;
  end if;
  select coalesce(max(b.entry_count), 0) into new.created_at_entry_number from balances b
  where b.program_id = new.program_id and b.partner_id = new.partner_id and b.currency = new.currency;
  return new;
end $$;
create or replace trigger payouts_note_balance before insert on payouts
  for each row execute function note_balance_of_payout();

-- Prevents changes to a payout's partner, currency and request, and to its amount, address, file, reference and day once it is sent or paid.
-- Erasing its partner's account clears the address.
create or replace function keep_payout() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' or (new.program_id, new.id, new.partner_id, new.currency, new.requested_cents, new.created_at, new.created_at_entry_number,
      new.payout_run_id, new.request_id) is distinct from (old.program_id, old.id, old.partner_id, old.currency, old.requested_cents,
      old.created_at, old.created_at_entry_number, old.payout_run_id, old.request_id)
    or old.status not in ('requested', 'in_run') and (new.amount_cents <> old.amount_cents or new.payout_address is distinct from old.payout_address and new.payout_address is not null)
    or new.payment_file_number is distinct from old.payment_file_number and old.payment_file_number is not null
    or new.paid_on is not null and old.paid_on is not null and (new.reference, new.paid_on) <> (old.reference, old.paid_on) then
    raise exception 'payouts stay as they were sent and paid' using errcode = 'restrict_violation';
  end if;
  return new;
end $$;
create or replace trigger payouts_stay before update or delete on payouts for each row execute function keep_payout();

-- Locks a balance and returns its payable amount. Nothing is payable if there was no balance to lock, because a credit at this moment can
-- be reversed again before the caller commits.
create or replace function locked_payable_cents(of_program_id bigint, of_partner_id bigint, of_currency text) returns bigint
language plpgsql as $$
begin
  perform from balances b
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency for no key update;
  if not found then
    return 0;
  end if;
  return (
    select p.payable_cents from payable_balances p
    where p.program_id = of_program_id and p.partner_id = of_partner_id and p.currency = of_currency
  );
end $$;

-- Requests a payout for a partner, up to the payable amount. `askPayout` in lib/money/payouts.ts is its only caller. Repeating a request
-- finds its first payout. If `payout_id` is null, the payable amount, the program's minimum or a missing tax form did
-- not allow the payout.
create or replace function ask_payout(
  of_program_id bigint, of_partner_id bigint, of_currency text, asked_cents bigint, request uuid,
  out payout_id bigint, out payable_cents bigint, out minimum_cents bigint, out needs_tax_form boolean
) language plpgsql as $$
#variable_conflict use_column
begin
  payable_cents := locked_payable_cents(of_program_id, of_partner_id, of_currency);
  select w.id into payout_id from payouts w
  where w.program_id = of_program_id and w.request_id = request and w.partner_id = of_partner_id;
  select coalesce(max(m.minimum_payout_cents), 0) into minimum_cents from minimum_payouts m
  where m.program_id = of_program_id and m.currency = of_currency;
  needs_tax_form := is_held_for_tax_form(of_program_id, of_partner_id, of_currency, asked_cents);
  if payout_id is null and not needs_tax_form and asked_cents between greatest(minimum_cents, 1) and payable_cents then
    insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, request_id)
    values (of_program_id, of_partner_id, of_currency, asked_cents, asked_cents, request)
    returning id into payout_id;
  end if;
end $$;

-- Locks the balance of a payout, and then returns the payout.
create or replace function lock_payout(of_program_id bigint, of_payout_id bigint) returns payouts
language plpgsql as $$
declare
  payout payouts;
begin
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) = (
    select w.program_id, w.partner_id, w.currency from payouts w where w.program_id = of_program_id and w.id = of_payout_id
  )
  for no key update;
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  return payout;
end $$;

create or replace function notify_payout(of_kind text, payout payouts) returns void language plpgsql as $$
begin
  perform write_outbox(payout.program_id, of_kind, 'partner', payout.partner_id,
    'payout:' || payout.id || coalesce(':' || nullif(earlier_payments(payout), 1), ''), jsonb_build_object(
    'payout_id', payout.id, 'amount_cents', payout.amount_cents, 'currency', payout.currency,
    'reason', payout.reason, 'reference', payout.reference));
end $$;

-- Cancels a requested payout for its partner. The advertiser decides on the payouts of a run. `status` is its previous status, or null if the partner has no such payout.
create or replace function cancel_payout(of_program_id bigint, of_partner_id bigint, of_payout_id bigint, out status text)
language plpgsql as $$
#variable_conflict use_column
declare
  payout payouts := lock_payout(of_program_id, of_payout_id);
begin
  if payout.partner_id = of_partner_id then
    status := payout.status;
  end if;
  if status = 'requested' then
    update payouts w set status = 'canceled', decided_at = now()
    where w.program_id = of_program_id and w.id = of_payout_id;
  end if;
end $$;

-- Refuses a payout for the advertiser, or excludes it from its run, before it is sent. `status` is its previous status, or null if the program has no such payout.
create or replace function refuse_payout(
  of_program_id bigint, of_payout_id bigint, because text, out status text
) language plpgsql as $$
#variable_conflict use_column
declare
  payout payouts := lock_payout(of_program_id, of_payout_id);
begin
  status := payout.status;
  if status in ('requested', 'in_run') then
    update payouts w set status = 'refused', reason = because, decided_at = now()
    where w.program_id = of_program_id and w.id = of_payout_id
    returning w.* into payout;
    perform notify_payout('payout_refused', payout);
  end if;
end $$;

-- Freezes the amounts and addresses of payouts in a payment file. From then on, they count as sent. Requested payouts get the number of
-- their file. `of_file_number` is that number if the file is downloaded again, and null for a new file or a run. Returns false and changes
-- nothing if one of them has another amount or address now, is no longer payable, is in another file, or is at a provider.
create or replace function send_payouts(
  of_program_id bigint, payout_ids bigint[], amounts bigint[], addresses text[], of_file_number bigint
) returns boolean language plpgsql as $$
declare
  new_number bigint;
begin
  -- Two new files at the same time get different numbers.
  perform pg_advisory_xact_lock(hashtextextended('payment files of ' || of_program_id, 0));
  perform lock_payout_balances(of_program_id, payout_ids);
  if exists (
    select from unnest(payout_ids, amounts, addresses) f (id, amount_cents, address)
    left join payouts w on w.program_id = of_program_id and w.id = f.id and w.status in ('requested', 'in_run', 'sent', 'paid')
    left join partners p on p.program_id = w.program_id and p.id = w.partner_id
    left join payout_items i on i.program_id = w.program_id and i.payout_id = w.id
    where i.payout_id is not null or w.payment_file_number is distinct from of_file_number
      or (w.amount_cents, coalesce(w.payout_address, p.payout_email, p.email)) is distinct from (f.amount_cents, f.address)
  ) then
    return false;
  end if;
  select coalesce(max(w.payment_file_number), 0) + 1 into new_number from payouts w where w.program_id = of_program_id;
  update payouts w set status = 'sent', sent_at = now(), payout_address = f.address,
    payment_file_number = case w.status when 'requested' then new_number end
  from unnest(payout_ids, addresses) f (id, address)
  where w.program_id = of_program_id and w.id = f.id and w.status in ('requested', 'in_run');
  return true;
end $$;

-- Posts the payment of an open payout. The caller has locked its balance.
create or replace function post_payout(payout payouts, of_reference text, of_paid_on date) returns void
language plpgsql as $$
begin
  update payouts w set status = 'paid', decided_at = now(), reference = of_reference, paid_on = of_paid_on
  where w.program_id = payout.program_id and w.id = payout.id
  returning w.* into payout;
  perform post_entry(payout.program_id, payout.partner_id, payout.currency, -payout.amount_cents, 'payout_paid',
    of_correction_number => earlier_payments(payout), of_payout_id => payout.id, of_reference => payout.reference);
  perform write_payout_lines(payout, coalesce(earlier_payments(payout), 1));
  perform issue_document(payout, coalesce(earlier_payments(payout), 1));
  perform notify_payout('payout_paid', payout);
end $$;

-- The number of earlier payments of a payout, for its next entry. Null if it was never paid.
create or replace function earlier_payments(payout payouts) returns integer language sql stable
return (
  select nullif(count(*), 0) from balance_entries e
  where e.program_id = (payout).program_id and e.partner_id = (payout).partner_id and e.currency = (payout).currency
    and e.payout_id = (payout).id and e.cause = 'payout_paid'
);

-- Posts the return of a paid payout. Its entries wait for another payment. The caller holds the locks of lock_payout_payments.
create or replace function post_returned_payout(payout payouts) returns void language plpgsql as $$
begin
  perform return_payout_lines(payout);
  perform credit_document(payout, earlier_payments(payout));
  perform post_entry(payout.program_id, payout.partner_id, payout.currency, payout.amount_cents, 'payout_returned',
    of_correction_number => nullif(earlier_payments(payout), 1), of_payout_id => payout.id, of_reference => payout.reference);
end $$;

-- Refuses manual decisions on payments that a provider is executing. If the connection has ended or the provider blocked the payment, a
-- person decides. But a person can only mark blocked payments as failed (`as_failed`), because the provider can still pay them.
create or replace function refuse_at_provider(of_program_id bigint, payout_ids bigint[], as_failed boolean default false) returns void
language plpgsql as $$
begin
  if exists (
    select from payout_items i
    join payout_batches b on b.program_id = i.program_id and b.id = i.batch_id
    join payout_connections c on c.id = b.connection_id and c.keys is not null
    where i.program_id = of_program_id and i.payout_id = any (payout_ids) and coalesce(i.outcome, 'sent') in ('sent', 'held', 'unclaimed')
      and not (as_failed and i.provider_status is not distinct from 'BLOCKED')
  ) then
    raise exception 'the payment is at its provider' using errcode = 'restrict_violation', constraint = 'payouts_not_at_provider';
  end if;
end $$;

-- Ends a sent, unclaimed or paid payout that did not arrive, as `returned` or `failed`. Its amount becomes payable again. The caller
-- holds the locks of lock_payout_payments.
create or replace function end_payout(payout payouts, as_status text, because text) returns void language plpgsql as $$
begin
  if payout.status is null or payout.status not in ('sent', 'unclaimed', 'paid') then
    return;
  end if;
  if payout.status = 'paid' then
    perform post_returned_payout(payout);
  end if;
  update payouts w set status = as_status, reason = because, decided_at = now()
  where w.program_id = payout.program_id and w.id = payout.id
  returning w.* into payout;
  perform notify_payout('payout_returned', payout);
end $$;

-- Records a person's report that a payout did not arrive. `status` is its previous status, or null if the program has no such payout.
create or replace function return_payout(of_program_id bigint, of_payout_id bigint, as_status text, because text, out status text)
language plpgsql as $$
#variable_conflict use_column
declare
  payout payouts;
begin
  perform lock_payout_payments(of_program_id, array[of_payout_id]);
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  status := payout.status;
  if payout.status <> as_status then
    perform refuse_at_provider(of_program_id, array[of_payout_id], as_failed => true);
  end if;
  perform end_payout(payout, as_status, because);
end $$;

-- Locks everything that a payment of these payouts or its return touches, in the usual order: commissions by id, then balances. It doesn't
-- lock a commission that is credited between these two steps. If that commission is also marked as paid and refunded at the same moment,
-- there is a deadlock. Postgres breaks it and the caller retries. This is very rare.
create or replace function lock_payout_payments(of_program_id bigint, payout_ids bigint[]) returns void language plpgsql as $$
begin
  -- With `offset`, Postgres looks up each partner's commissions, even if its statistics don't include a program's many new ones yet.
  perform from commissions c
  where c.program_id = of_program_id and c.id = any (array(
    select u.id from payouts w
    cross join lateral (
      select n.id from commissions n
      where n.program_id = w.program_id and n.partner_id = w.partner_id and n.currency = w.currency and n.credited_at is not null
        and n.paid_at is null
      offset 0
    ) u
    where w.program_id = of_program_id and w.id = any (payout_ids) and w.decided_at is null
    union all
    select l.commission_id from payout_line_entries l
    where l.program_id = of_program_id and l.payout_id = any (payout_ids) and not l.is_returned
  ))
  order by c.id for no key update;
  perform lock_payout_balances(of_program_id, payout_ids);
end $$;

-- Locks the balances of these payouts, in the order of their keys.
create or replace function lock_payout_balances(of_program_id bigint, payout_ids bigint[]) returns void language plpgsql as $$
begin
  perform from balances b
  where exists (
    select from payouts w where w.program_id = of_program_id and w.id = any (payout_ids)
      and w.program_id = b.program_id and w.partner_id = b.partner_id and w.currency = b.currency
  )
  order by b.program_id, b.partner_id, b.currency for no key update;
end $$;

-- Marks an open payout as paid, for `payPayout` in lib/money/payouts.ts. `status` and `amount_cents` are the previous values. The payout
-- becomes paid if it was open and its amount equals the transferred amount.
create or replace function pay_payout(
  of_program_id bigint, of_payout_id bigint, transferred_cents bigint, of_reference text, of_paid_on date,
  out status text, out amount_cents bigint, out currency text
) language plpgsql as $$
#variable_conflict use_column
declare
  payout payouts;
begin
  perform lock_payout_payments(of_program_id, array[of_payout_id]);
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  status := payout.status;
  amount_cents := payout.amount_cents;
  currency := payout.currency;
  if payout.decided_at is null and amount_cents = transferred_cents then
    perform refuse_at_provider(of_program_id, array[of_payout_id]);
    perform post_payout(payout, of_reference, of_paid_on);
    -- The trigger on payouts skips the payments of a run, because the run has its own entry.
    if payout.payout_run_id is not null then
      perform write_program_audit(of_program_id, 'payout.paid', payout.id::text, jsonb_build_object(
        'amount_cents', payout.amount_cents, 'currency', payout.currency, 'reference', of_reference));
    end if;
  end if;
end $$;
