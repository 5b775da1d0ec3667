-- Undoes an import, newest rows first. It deletes all unused objects, so that the program is in its previous state. Objects that clicks,
-- sales or people already use are kept, and their rows have the reason `in_use`. A change is only reverted if nobody has changed the value
-- since.

-- Returns whether a payout contains money of an opening balance: a later payout that was not returned.
create or replace function is_paid_out(adjustment adjustments) returns boolean language sql stable
return exists (
  select from balance_entries e
  join payouts w on w.program_id = e.program_id and w.partner_id = e.partner_id and w.currency = e.currency
    and w.created_at_entry_number >= e.entry_number and w.status in ('requested', 'in_run', 'sent', 'unclaimed', 'paid')
  where e.program_id = (adjustment).program_id and e.adjustment_id = (adjustment).id
);

-- Starts the undo. Returns the previous state, or `paid_out`, or null if there is no such import.
create or replace function begin_undo(of_program_id bigint, of_import_id bigint, out was text) language plpgsql as $$
declare
  import imports;
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id for update;
  was := import.state;
  if was is null or was not in ('applying', 'applied') then
    return;
  elsif import.source = 'archive' then
    was := 'archive';
    return;
  elsif exists (
    select from adjustments a where a.program_id = of_program_id and a.import_id = of_import_id and is_paid_out(a)
  ) then
    was := 'paid_out';
    return;
  end if;
  perform write_program_audit(of_program_id, 'import.undone', of_import_id::text, jsonb_build_object('source', import.source) || (
    select coalesce(jsonb_object_agg('opening_balances_cents ' || o.currency, o.cents), '{}') from (
      select a.currency, sum(a.amount_cents) as cents from adjustments a
      where a.program_id = of_program_id and a.import_id = of_import_id group by a.currency
    ) o));
  perform set_config('svc.importing', 'on', true);
  update imports i set state = 'undoing' where i.program_id = of_program_id and i.id = of_import_id;
  update programs p set link_params = array(
    select n from unnest(p.link_params) n where n <> all (import.added_params) or is_param_of_other_import(import, n)
  )
  where p.id = of_program_id and cardinality(import.added_params) > 0;
end $$;

-- Undoes an opening balance: deletes its entry if it is the last one and its month is open, or else posts the opposite amount. Returns false
-- if a payout contains it.
create or replace function undo_balance_row(undone import_rows) returns boolean language plpgsql as $$
declare
  adjustment adjustments;
  balance balances;
  entry balance_entries;
begin
  select a.* into adjustment from adjustments a where a.program_id = undone.program_id and a.id = undone.target_id;
  select b.* into balance from balances b
  where b.program_id = adjustment.program_id and b.partner_id = adjustment.partner_id and b.currency = adjustment.currency
  for no key update;
  if is_paid_out(adjustment) then
    return false;
  end if;
  select e.* into entry from balance_entries e where e.program_id = adjustment.program_id and e.adjustment_id = adjustment.id;
  if entry.entry_number = balance.entry_count and is_in_open_month(entry.created_at) then
    update balances b set entry_count = b.entry_count - 1, balance_cents = entry.balance_before_cents
    where b.program_id = balance.program_id and b.partner_id = balance.partner_id and b.currency = balance.currency;
    delete from balance_entries e where e.program_id = entry.program_id and e.partner_id = entry.partner_id
      and e.currency = entry.currency and e.entry_number = entry.entry_number;
    delete from balances b where b.program_id = balance.program_id and b.partner_id = balance.partner_id
      and b.currency = balance.currency and b.entry_count = 0;
    delete from adjustments a where a.program_id = adjustment.program_id and a.id = adjustment.id;
    return true;
  end if;
  update adjustments a set external_id = null where a.program_id = adjustment.program_id and a.id = adjustment.id;
  insert into adjustments (program_id, partner_id, currency, amount_cents, note, request_id, import_id)
  values (adjustment.program_id, adjustment.partner_id, adjustment.currency, -adjustment.amount_cents, adjustment.note, gen_random_uuid(),
    adjustment.import_id)
  returning * into adjustment;
  perform change_balance(adjustment.program_id, adjustment.partner_id, adjustment.currency, adjustment.amount_cents, 'opening_balance',
    'adjustment:' || adjustment.id, jsonb_build_object('adjustment_id', adjustment.id, 'currency', adjustment.currency),
    of_adjustment_id => adjustment.id);
  return true;
end $$;

-- Returns the old value of a column if the import changed it and nothing has changed it since. Otherwise returns the current value.
create or replace function restored(replaced jsonb, column_name text, current_value text) returns text language sql immutable
return case when replaced->column_name->>1 = current_value then replaced->column_name->>0 else current_value end;

-- Returns whether a lead, a purchase or a person has used a customer since an import added names to them. The next call may only contain
-- these names. A sale can begin a moment before the import and wait for it.
create or replace function is_used_since(customer customers, added_at timestamptz) returns boolean language sql stable
return (customer).updated_at not in (added_at, now()) or exists (
  select from sales s
  where s.program_id = (customer).program_id and s.customer_id = (customer).id and s.created_at > added_at - interval '1 minute'
);

-- Deletes a customer if nothing refers to them. Or removes the added names, unless somebody has used the customer since.
create or replace function undo_customer_row(undone import_rows) returns boolean language plpgsql as $$
begin
  if undone.outcome = 'create' and exists (
    select from customers c where c.program_id = undone.program_id and c.id = undone.target_id and (c.last_click_at is not null
      or exists (select from sales s where s.program_id = c.program_id and s.customer_id = c.id)
      or exists (select from commissions m where m.program_id = c.program_id and m.customer_id = c.id))
  ) or undone.outcome = 'update' and exists (
    select from customers c where c.program_id = undone.program_id and c.id = undone.target_id
      and is_used_since(c, (undone.replaced->>'updated_at')::timestamptz)
  ) then
    return false;
  end if;
  if undone.replaced ? 'added_processor_customer' then
    delete from processor_customers p where p.program_id = undone.program_id and p.customer_id = undone.target_id
      and p.processor_customer_id = undone.fields->>'processor_customer_id';
  end if;
  if undone.outcome = 'create' then
    delete from customers c where c.program_id = undone.program_id and c.id = undone.target_id;
  else
    update customers c set updated_at = now(), customer_key = restored(undone.replaced, 'customer_key', c.customer_key),
      email_hash = restored(undone.replaced, 'email_hash', c.email_hash::text)::bytea,
      mailbox_hash = restored(undone.replaced, 'mailbox_hash', c.mailbox_hash::text)::bytea
    where c.program_id = undone.program_id and c.id = undone.target_id;
  end if;
  return true;
end $$;

-- Deletes a link or a code that referred nobody.
create or replace function undo_code_row(undone import_rows) returns boolean language plpgsql as $$
begin
  if undone.kind = 'code' then
    delete from partner_codes k where k.program_id = undone.program_id and k.id = undone.target_id
      and not exists (
        select from sales s where s.program_id = k.program_id and s.partner_id = k.partner_id and not s.is_test and s.code_id = k.id
      );
    return found;
  end if;
  delete from referral_links l where l.program_id = undone.program_id and l.id = undone.target_id
    and not exists (
      select from customers c where c.program_id = l.program_id and c.partner_id = l.partner_id and c.link_id = l.id
        and c.customer_status <> 'click'
    )
    and not exists (select from link_clicks k where k.program_id = l.program_id and k.link_id = l.id)
    and not exists (select from uncounted_clicks k where k.program_id = l.program_id and k.link_id = l.id);
  return found;
end $$;

-- Deletes a partner without an account who referred nobody, or restores the changed columns. People with an account keep their address.
create or replace function undo_partner_row(undone import_rows) returns boolean language plpgsql as $$
declare
  is_undone boolean;
begin
  if undone.outcome = 'update' then
    update partners p set external_id = restored(undone.replaced, 'external_id', p.external_id),
      group_id = restored(undone.replaced, 'group_id', p.group_id::text)::bigint,
      payout_email = case when p.user_id is null then restored(undone.replaced, 'payout_email', p.payout_email) else p.payout_email end
    where p.program_id = undone.program_id and p.id = undone.target_id
    returning p.user_id is null or p.payout_email <> undone.replaced->'payout_email'->>1 into is_undone;
    return coalesce(is_undone, true);
  end if;
  delete from partners p where p.program_id = undone.program_id and p.id = undone.target_id and p.user_id is null
    and not exists (
      select from customers c where c.program_id = p.program_id and c.partner_id = p.id and c.customer_status <> 'click'
    )
    and not exists (select from sales s where s.program_id = p.program_id and s.partner_id = p.id and not s.is_test);
  return found;
end $$;

-- Deletes a group without partners, and its rules if no sale earned a commission under them.
create or replace function undo_group_row(undone import_rows) returns boolean language plpgsql as $$
begin
  if exists (select from partners p where p.program_id = undone.program_id and p.group_id = undone.target_id)
    or exists (
      select from commission_rules r join sales s on s.program_id = r.program_id and s.commission_rule_id = r.id
      where r.program_id = undone.program_id and r.group_id = undone.target_id
    ) or exists (
      select from commission_rules r join commissions c on c.program_id = r.program_id and c.lead_rule_id = r.id
      where r.program_id = undone.program_id and r.group_id = undone.target_id
    ) then
    return false;
  end if;
  delete from commission_rules r where r.program_id = undone.program_id and r.group_id = undone.target_id;
  delete from partner_groups g where g.program_id = undone.program_id and g.id = undone.target_id;
  return true;
end $$;

-- Undoes a row. Returns false if something refers to it now.
create or replace function undo_row(undone import_rows) returns boolean language plpgsql as $$
begin
  if undone.kind = 'commission' and undone.outcome = 'update' then
    update imported_commissions c set amount_cents = restored(undone.replaced, 'amount_cents', c.amount_cents::text)::bigint,
      status = restored(undone.replaced, 'status', c.status)
    where c.program_id = undone.program_id and c.id = undone.target_id;
    return true;
  elsif undone.kind = 'commission' then
    delete from imported_commissions c where c.program_id = undone.program_id and c.id = undone.target_id;
    return true;
  end if;
  return case undone.kind
    when 'group' then undo_group_row(undone)
    when 'partner' then undo_partner_row(undone)
    when 'customer' then undo_customer_row(undone)
    when 'balance' then undo_balance_row(undone)
    else undo_code_row(undone)
  end;
exception when foreign_key_violation or restrict_violation or check_violation then
  return false;
end $$;

-- Undoes the next rows of an import, the last kinds first. Returns their number. After the last row, the import is undone.
create or replace function undo_import_rows(of_program_id bigint, of_import_id bigint, max_rows integer) returns integer
language plpgsql as $$
declare
  next_rows import_rows[];
  undone import_rows;
  undone_now integer := 0;
  is_undone boolean;
begin
  perform from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'undoing' for update;
  if not found then
    return 0;
  end if;
  perform set_config('svc.importing', 'on', true), set_config('svc.undoing_import', 'on', true);
  next_rows := array(
    select r from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id and r.is_applied
    order by r.kind desc, r.id desc limit max_rows
  );
  perform lock_objects_of_rows(next_rows);
  foreach undone in array next_rows loop
    is_undone := undo_row(undone);
    update import_rows r set is_applied = false, reason = case when is_undone then r.reason else 'in_use' end,
      target_id = case when not is_undone or r.outcome = 'update' then r.target_id end
    where r.program_id = of_program_id and r.import_id = of_import_id and r.id = undone.id;
    undone_now := undone_now + 1;
  end loop;
  perform count_import_rows(of_program_id, of_import_id, '{}', '{}', 0, -undone_now);
  if undone_now = 0 then
    update imports i set state = 'undone', undone_at = now() where i.program_id = of_program_id and i.id = of_import_id;
  end if;
  return undone_now;
end $$;
