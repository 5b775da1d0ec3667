-- Returns whether the month (UTC) of this moment is still running, so that its statements can still change.
create or replace function is_in_open_month(moment timestamptz) returns boolean language sql stable
return date_trunc('month', moment, 'UTC') >= date_trunc('month', now(), 'UTC');

-- Entries never change. Another entry corrects a mistake. There is one exception: the undo of an import deletes an opening balance of this
-- month if no entry followed it. With a reversing entry instead, the imported partner would have to stay forever, and the program wouldn't
-- return to its previous state. Only the last entry of the chain is deleted, so all other hashes stay valid. The audit log keeps the
-- deleted amounts.
create or replace function refuse_ledger_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and current_setting('svc.undoing_import', true) = 'on' and old.cause = 'opening_balance'
    and is_in_open_month(old.created_at) and not exists (
    select from balance_entries e where e.program_id = old.program_id and e.partner_id = old.partner_id and e.currency = old.currency
      and e.entry_number > old.entry_number
  ) then
    return old;
  end if;
  raise exception 'balance entries are append-only' using errcode = 'restrict_violation';
end $$;
create or replace trigger balance_entries_append_only before update or delete on balance_entries
  for each row execute function refuse_ledger_change();

-- The facts of an entry that its hash covers.
create or replace function facts_of_entry(entry balance_entries) returns jsonb language sql stable
return jsonb_build_array(entry.program_id, entry.partner_id, entry.currency, entry.entry_number, entry.amount_cents, entry.balance_before_cents,
  entry.balance_after_cents, entry.cause, entry.commission_id, entry.correction_number, entry.refund_id, entry.payout_id, entry.adjustment_id,
  entry.reference, extract(epoch from entry.created_at));

create or replace function hash_of_entry(previous_hash bytea, facts jsonb) returns bytea language sql immutable
return sha256(coalesce(previous_hash, '') || convert_to(facts::text, 'UTF8'));

-- Dates an entry after the previous one, and links it to that entry through its hash. A restored backup contains its own hashes.
create or replace function chain_entry() returns trigger language plpgsql as $$
declare
  previous balance_entries;
begin
  select e.* into previous from balance_entries e
  where e.program_id = new.program_id and e.partner_id = new.partner_id and e.currency = new.currency and e.entry_number = new.entry_number - 1;
  new.created_at := greatest(new.created_at, previous.created_at);
  new.entry_hash := hash_of_entry(previous.entry_hash, facts_of_entry(new));
  return new;
end $$;
create or replace trigger balance_entries_chain before insert on balance_entries
  for each row when (new.entry_hash is null) execute function chain_entry();

-- Checks at commit that the balance row includes the entry, so that neither can be written without the other.
create or replace function require_balance_of_entry() returns trigger language plpgsql as $$
begin
  if not exists (
    select from balances b
    where b.program_id = new.program_id and b.partner_id = new.partner_id and b.currency = new.currency
      and b.entry_count >= new.entry_number
  ) then
    raise exception 'a balance entry without its balance' using errcode = 'foreign_key_violation';
  end if;
  return null;
end $$;
-- Postgres has no `create or replace` for constraint triggers.
drop trigger if exists balance_entries_have_balance on balance_entries;
create constraint trigger balance_entries_have_balance after insert on balance_entries
  deferrable initially deferred for each row execute function require_balance_of_entry();

-- Locks the balance that a commission is credited to, after the commission itself. While the lock is held, nobody credits a commission.
-- Each lock is a separate statement, and reads under the lock must be in a later statement. A statement that waits continues with its old
-- snapshot, so sums in the same statement would be wrong.
create or replace function lock_balance(commission commissions) returns void language plpgsql as $$
begin
  if commission.credited_at is not null then
    perform from balances b
    where b.program_id = commission.program_id and b.partner_id = commission.partner_id and b.currency = commission.currency
    for no key update;
  end if;
end $$;

-- Posts an entry to a balance that the caller has locked, and returns the new balance.
create or replace function post_entry(
  of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint, of_cause text, of_commission_id bigint default null,
  of_correction_number integer default null, of_refund_id bigint default null, of_payout_id bigint default null,
  of_adjustment_id bigint default null, of_reference text default null
) returns bigint language plpgsql as $$
declare
  balance balances;
begin
  select b.* into strict balance from balances b
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency;
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id, correction_number, refund_id, payout_id, adjustment_id, reference)
  values (of_program_id, of_partner_id, of_currency, balance.entry_count + 1, of_cents, balance.balance_cents,
    balance.balance_cents + of_cents, of_cause, of_commission_id, of_correction_number, of_refund_id, of_payout_id, of_adjustment_id,
    of_reference);
  update balances b set balance_cents = b.balance_cents + of_cents, entry_count = b.entry_count + 1
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency;
  return balance.balance_cents + of_cents;
end $$;

-- Posts an entry that is neither a credit of a commission nor a payment. If the balance falls, it reduces unsent payouts to the amount that
-- the balance covers, and notifies the advertiser of a negative balance. The money of sent payouts has already left. `details` describe the
-- cause in these notifications. The caller has locked the balance.
create or replace function change_balance(
  of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint, of_cause text, by_cause text, details jsonb,
  of_commission_id bigint default null, of_correction_number integer default null, of_refund_id bigint default null,
  of_adjustment_id bigint default null
) returns void language plpgsql as $$
declare
  balance_cents bigint := post_entry(of_program_id, of_partner_id, of_currency, of_cents, of_cause, of_commission_id, of_correction_number,
    of_refund_id, null, of_adjustment_id);
  left_cents bigint;
begin
  if of_cents > 0 then
    return;
  end if;
  select balance_cents - coalesce(sum(w.amount_cents), 0) into left_cents from payouts w
  where w.program_id = of_program_id and w.partner_id = of_partner_id and w.currency = of_currency and w.status in ('sent', 'unclaimed');
  perform fit_payouts(of_program_id, of_partner_id, of_currency, left_cents, by_cause, details);
  if left_cents < 0 then
    perform write_outbox(of_program_id, 'balance_negative', 'advertiser', of_partner_id, by_cause,
      details || jsonb_build_object('amount_cents', -left_cents));
  end if;
end $$;

-- Reduces a partner's payouts that are not sent yet to `left_cents`, newest first, and notifies the partner. Payouts change only under the
-- lock of their balance, so they don't need locks.
create or replace function fit_payouts(
  of_program_id bigint, of_partner_id bigint, of_currency text, left_cents bigint, by_cause text, details jsonb
) returns void language plpgsql as $$
declare
  payout payouts;
  excess_cents bigint;
  cut_cents bigint;
begin
  select sum(w.amount_cents) - greatest(left_cents, 0) into excess_cents from payouts w
  where w.program_id = of_program_id and w.partner_id = of_partner_id and w.currency = of_currency and w.status in ('requested', 'in_run');
  if excess_cents is null or excess_cents <= 0 then
    return;
  end if;
  for payout in
    select w.* from payouts w
    where w.program_id = of_program_id and w.partner_id = of_partner_id and w.currency = of_currency and w.status in ('requested', 'in_run')
    order by w.id desc
  loop
    exit when excess_cents <= 0;
    cut_cents := least(payout.amount_cents, excess_cents);
    excess_cents := excess_cents - cut_cents;
    update payouts w set amount_cents = w.amount_cents - cut_cents,
      status = case when w.amount_cents = cut_cents then 'canceled' else w.status end,
      decided_at = case when w.amount_cents = cut_cents then now() else w.decided_at end
    where w.program_id = payout.program_id and w.id = payout.id;
    perform write_outbox(of_program_id, 'payout_reduced', 'partner', of_partner_id, by_cause || ':payout:' || payout.id,
      details - 'commission_id' || jsonb_build_object('payout_id', payout.id, 'amount_cents', payout.amount_cents - cut_cents,
        'reduced_by_cents', cut_cents));
  end loop;
end $$;

-- The lines of payments with their entries. With `limit`, Postgres looks up one entry by its whole key for each line, even if its
-- statistics don't include a program's many new rows yet. Otherwise it would read all entries of the program for each line.
create or replace view payout_line_entries as
select l.program_id, l.payout_id, l.payment_number, l.entry_number, l.amount_cents, l.is_returned, e.cause, e.commission_id, e.adjustment_id,
  e.created_at as posted_at
from payout_lines l
cross join lateral (
  select n.* from balance_entries n
  where n.program_id = l.program_id and n.partner_id = l.partner_id and n.currency = l.currency and n.entry_number = l.entry_number limit 1
) e;
