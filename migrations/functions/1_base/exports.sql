-- Waits for the running exports of these programs, and lets new ones wait until the end of the transaction. An export that waited copies
-- what this transaction left. Whoever erases personal data deletes the copies of finished exports after this.
create or replace function lock_exports(program_ids bigint[]) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('export', x.id))
  from (select distinct i.id from unnest(program_ids) i (id) order by i.id) x
$$;
