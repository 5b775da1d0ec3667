-- Stores when a row changed, for lists with `updated_since`. An update that changes nothing doesn't change the time. Customers have no such
-- trigger: their updates use `returning old` (functions/4_attribution/customers.sql) and set the time themselves, except after another
-- click.
create or replace function note_change() returns trigger language plpgsql as $$
begin
  new.updated_at := now();
  return new;
end $$;

create or replace trigger sales_changed before update on sales
  for each row when (old.* is distinct from new.*) execute function note_change();
create or replace trigger commissions_changed before update on commissions
  for each row when (old.* is distinct from new.*) execute function note_change();
create or replace trigger payouts_changed before update on payouts
  for each row when (old.* is distinct from new.*) execute function note_change();
