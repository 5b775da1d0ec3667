-- An entry stays as it was written; a mistake is mended by another entry.
create or replace function refuse_ledger_change() returns trigger language plpgsql as $$
begin
  raise exception 'balance entries are append-only' using errcode = 'restrict_violation';
end $$;
create or replace trigger balance_entries_append_only before update or delete on balance_entries
  for each row execute function refuse_ledger_change();

-- At commit an entry must be counted by its balance row: whoever writes one must move the other.
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
