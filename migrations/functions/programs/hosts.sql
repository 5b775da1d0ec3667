-- Records a program's new, changed or removed host, and whether it is verified.
create or replace function audit_program_host() returns trigger language plpgsql as $$
begin
  perform write_program_audit(coalesce(new.program_id, old.program_id), 'join_page.changed', coalesce(new.host, old.host), jsonb_build_object(
    'host', jsonb_build_array(old.host, new.host), 'verified', jsonb_build_array(old.verified_at is not null, new.verified_at is not null)));
  return null;
end $$;
create or replace trigger program_hosts_audit after insert or delete on program_hosts for each row execute function audit_program_host();
create or replace trigger program_hosts_audit_update after update on program_hosts for each row
when ((old.host, old.verified_at) is distinct from (new.host, new.verified_at)) execute function audit_program_host();

-- Stores the results of the daily check of verified hosts: the programs whose DNS record was found, and those whose
-- record was missing. If four checks in a row missed the record, disables the host and notifies the program. Returns
-- the programs whose hosts it disabled.
create or replace function record_host_checks(found_programs bigint[], missing_programs bigint[]) returns setof bigint language plpgsql as $$
declare
  checked program_hosts;
begin
  for checked in
    select h.* from program_hosts h
    where h.program_id = any (found_programs || missing_programs) and h.verified_at is not null
    order by h.program_id for update
  loop
    if checked.program_id = any (found_programs) then
      update program_hosts h set checked_at = now(), missing_since = null where h.program_id = checked.program_id;
    elsif checked.missing_since <= now() - interval '60 hours' then
      update program_hosts h set checked_at = now(), missing_since = null, verified_at = null where h.program_id = checked.program_id;
      perform write_outbox(checked.program_id, 'host_disabled', 'advertiser', null, concat_ws(':', 'host', checked.host, checked.missing_since),
        jsonb_build_object('host', checked.host));
      return next checked.program_id;
    else
      update program_hosts h set checked_at = now(), missing_since = coalesce(h.missing_since, now()) where h.program_id = checked.program_id;
    end if;
  end loop;
end $$;
