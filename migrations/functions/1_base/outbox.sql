-- Writes a message into the outbox. `of_cause` is unique for the event behind it. Collects the row's id in a transaction setting, so that
-- the functions in between don't have to return it.
create or replace function write_outbox(
  of_program_id bigint, of_kind text, of_audience text, of_partner_id bigint, of_cause text, of_payload jsonb
) returns void language plpgsql as $$
declare
  written bigint;
begin
  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  values (of_program_id, of_kind, of_audience, of_partner_id, of_cause, of_payload)
  returning id into written;
  perform set_config('svc.outbox_ids', concat_ws(',', nullif(current_setting('svc.outbox_ids', true), ''), written), true);
end $$;

-- The start of the retention period of notifications. Older delivered messages are deleted.
create or replace function notifications_begin() returns timestamptz language sql stable as $$ select now() - interval '13 months' $$;

-- The ids of the outbox rows that this transaction wrote. The caller sends them after the commit. Null if there are none.
create or replace function written_outbox_ids() returns bigint[] language sql stable
as $$ select string_to_array(nullif(current_setting('svc.outbox_ids', true), ''), ',')::bigint[] $$;
