-- Writes into the outbox that somebody is to be told something; `of_cause` is unique for what happened. The ids of the rows that a transaction
-- wrote are gathered in a setting that ends with it, so that no function between has to hand them on.
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

-- Messages from before this have been delivered and deleted.
create or replace function notifications_begin() returns timestamptz language sql stable as $$ select now() - interval '13 months' $$;

-- The ids of the outbox rows that this transaction wrote, to be sent once it is done; null where it wrote none.
create or replace function written_outbox_ids() returns bigint[] language sql stable
as $$ select string_to_array(nullif(current_setting('svc.outbox_ids', true), ''), ',')::bigint[] $$;
