-- Returns whether ClickHouse gets the clicks. The lock makes `start_click_sink` wait for writers that found no sink.
create or replace function has_click_sink() returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(hashtext('click_sink'));
  return exists (select from click_sink);
end $$;
