-- The changes by bulk jobs. `Database.inJob` (lib/database.ts) sets the job of a transaction.

-- Stores the previous values of a row that a bulk job changes. Does nothing outside of a job.
create or replace function note_job_row(of_program_id bigint, of_row_id bigint, before_change jsonb) returns void language plpgsql as $$
begin
  if current_setting('svc.job', true) <> '' then
    insert into bulk_job_rows (program_id, job_id, row_id, before)
    values (of_program_id, current_setting('svc.job')::bigint, of_row_id, before_change)
    on conflict on constraint bulk_job_rows_pkey do nothing;
  end if;
end $$;
