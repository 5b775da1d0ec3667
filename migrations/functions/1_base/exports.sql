-- Waits for the running exports of these programs, and makes new ones wait until the end of the transaction. After the wait, an export
-- copies the data without the rows that this transaction erased. After this call, an erasure of personal data deletes the copies of
-- finished exports.
create or replace function lock_exports(program_ids bigint[]) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('export', x.id))
  from (select distinct i.id from unnest(program_ids) i (id) order by i.id) x
$$;
