-- Manual changes to a partner's balance by the program, and opening balances of imports. An adjustment never changes. Another adjustment
-- corrects a mistake.

-- The amount, the partner and the note never change, except that erasing the customer of its sale clears the note. The payout that paid it
-- is stored until that payment comes back.
create or replace function refuse_adjustment_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and current_setting('svc.undoing_import', true) = 'on' and old.import_id is not null then
    return old;
  end if;
  if tg_op = 'DELETE' or (new.program_id, new.id, new.partner_id, new.currency, new.amount_cents, new.created_at)
      <> (old.program_id, old.id, old.partner_id, old.currency, old.amount_cents, old.created_at)
    or old.payout_id is not null and new.payout_id is distinct from old.payout_id and new.payout_id is not null
    or new.note is distinct from old.note and new.note is not null then
    raise exception 'adjustments never change' using errcode = 'restrict_violation';
  end if;
  return new;
end $$;
create or replace trigger adjustments_stay before update or delete on adjustments
  for each row execute function refuse_adjustment_change();

-- Adds `of_cents` to a partner's balance, or deducts them if negative, and notifies the partner. A null `of_currency` means the program's
-- currency. `outcome` is `created`. If nothing changed, it is `known` if the same request created it before, `no_partner`, `closed` if
-- the partner's account or the workspace is gone, or `no_sale`. `createAdjustment` in lib/money/adjustments.ts is its only caller.
create or replace function create_adjustment(
  of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint, of_note text, of_transaction_id text, of_external_id text,
  request uuid, out outcome text
) language plpgsql as $$
#variable_conflict use_column
declare
  partner partners;
  of_sale_id bigint;
  adjustment adjustments;
begin
  select r.* into partner from partners r where r.program_id = of_program_id and r.id = of_partner_id for key share;
  if not found or partner.closed_at is not null then
    outcome := case when found then 'closed' else 'no_partner' end;
    return;
  end if;
  if of_transaction_id is not null then
    select s.id into of_sale_id from sales s
    where s.program_id = of_program_id and not s.is_test and s.transaction_id = of_transaction_id;
    if not found then
      outcome := 'no_sale';
      return;
    end if;
  end if;
  insert into adjustments (program_id, partner_id, currency, amount_cents, note, sale_id, external_id, request_id)
  select p.id, of_partner_id, coalesce(of_currency, p.currency), of_cents, of_note, of_sale_id, of_external_id, request
  from programs p where p.id = of_program_id
  on conflict on constraint adjustments_request_key do nothing
  returning * into adjustment;
  if not found then
    outcome := 'known';
    return;
  end if;
  outcome := 'created';
  insert into balances (program_id, partner_id, currency) values (of_program_id, of_partner_id, adjustment.currency) on conflict do nothing;
  perform from balances b
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = adjustment.currency for no key update;
  perform post_adjustment(adjustment, of_transaction_id);
end $$;

-- Posts an adjustment to its balance, which the caller has locked, and notifies the partner and the endpoints.
create or replace function post_adjustment(adjustment adjustments, of_transaction_id text) returns void language plpgsql as $$
declare
  by_cause text := 'adjustment:' || adjustment.id;
  details jsonb := jsonb_build_object('adjustment_id', adjustment.id, 'transaction_id', of_transaction_id, 'currency', adjustment.currency,
    'reason', adjustment.note);
begin
  perform write_outbox(adjustment.program_id, case when adjustment.amount_cents < 0 then 'adjustment_deducted' else 'adjustment_added' end,
    'partner', adjustment.partner_id, by_cause, details || jsonb_build_object('amount_cents', abs(adjustment.amount_cents)));
  perform change_balance(adjustment.program_id, adjustment.partner_id, adjustment.currency, adjustment.amount_cents, 'adjusted', by_cause,
    details, of_adjustment_id => adjustment.id);
  if wants_webhook(adjustment.program_id, 'adjustment.created') then
    perform write_webhook(adjustment.program_id, 'adjustment.created', webhook_adjustment(adjustment, of_transaction_id));
  end if;
  -- The audit log doesn't keep the note, because the note is erased with the sale's customer and the log stays.
  perform write_program_audit(adjustment.program_id, 'partner.adjusted', adjustment.partner_id::text, jsonb_strip_nulls(jsonb_build_object(
    'adjustment', adjustment.id, 'amount_cents', adjustment.amount_cents, 'currency', adjustment.currency,
    'transaction_id', of_transaction_id)));
end $$;
