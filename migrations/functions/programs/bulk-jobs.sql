-- Bulk jobs: their start, their changes of partners, and their undo (lib/programs/bulk-jobs.ts).

-- How long a job can be undone.
create or replace function bulk_jobs_undone_within() returns interval language sql immutable return interval '7 days';

-- The action of a job in the audit log.
create or replace function bulk_job_action(kind text, is_undo boolean) returns text language sql immutable
return case kind
  when 'approve' then 'application.approved_in_bulk' when 'reject' then 'application.rejected_in_bulk'
  when 'deactivate' then 'partner.deactivated_in_bulk' when 'move' then 'partner.moved_in_bulk' when 'rate' then 'partner.rated_in_bulk'
  when 'invite' then 'partner.invited_in_bulk' when 'message' then 'partner.messaged_in_bulk'
end || case when is_undo then '_undone' else '' end;

-- Starts a job on the rows below `from_position` and returns its id. Writes the job's entry in the audit log, without texts. Returns null
-- if the program has already sent `most_messages` messages within a day.
create or replace function start_bulk_job(
  of_program_id bigint, of_kind text, of_settings jsonb, matching integer, from_position bigint, most_messages integer
) returns bigint language plpgsql as $$
declare
  job_id bigint;
begin
  if of_kind = 'message' then
    perform pg_advisory_xact_lock(hashtextextended('messages of ' || of_program_id, 0));
    if (
      select count(*) >= most_messages from bulk_jobs j
      where j.program_id = of_program_id and j.kind = 'message' and j.started_at > now() - interval '1 day'
    ) then
      return null;
    end if;
  end if;
  insert into bulk_jobs (program_id, kind, settings, row_count, position, started_by)
  values (of_program_id, of_kind, of_settings, matching, from_position, acting_user())
  returning id into job_id;
  perform write_program_audit(of_program_id, bulk_job_action(of_kind, false), matching || case matching when 1 then ' row' else ' rows' end,
    jsonb_build_object('job', job_id) || of_settings - array['q', 'note']);
  return job_id;
end $$;

-- Deactivates active partners with their links, and returns their number.
create or replace function deactivate_partners(of_program_id bigint, partner_ids bigint[]) returns integer language plpgsql as $$
declare
  active_ids bigint[] := array(
    select r.id from partners r
    where r.program_id = of_program_id and r.id = any (partner_ids) and r.is_active and r.ended_at is null
    order by r.id for no key update
  );
begin
  perform note_job_row(of_program_id, active.id, jsonb_build_object('link_ids', array(
    select l.id from referral_links l where l.program_id = of_program_id and l.partner_id = active.id and l.is_active
  ))) from unnest(active_ids) active(id);
  update partners r set is_active = false where r.program_id = of_program_id and r.id = any (active_ids);
  update referral_links l set is_active = false where l.program_id = of_program_id and l.partner_id = any (active_ids);
  return cardinality(active_ids);
end $$;

-- Sets the commission rate of partners. Keeps their other terms, from their own rule or else from their group or program.
create or replace function rate_partners(of_program_id bigint, partner_ids bigint[], to_bp integer) returns integer language plpgsql as $$
declare
  partner record;
  own jsonb;
  changed integer := 0;
begin
  for partner in
    select r.id, r.group_id, p.commission_duration_months from partners r join programs p on p.id = r.program_id
    where r.program_id = of_program_id and r.id = any (partner_ids) order by r.id for no key update of r
  loop
    own := general_rule_of(of_program_id, null, partner.id);
    if change_rule(of_program_id, null, partner.id, null, coalesce(own, general_rule_of(of_program_id, partner.group_id, null),
      jsonb_build_object('commission_duration_months', partner.commission_duration_months)) || jsonb_build_object('commission_bp', to_bp)) then
      perform note_job_row(of_program_id, partner.id, jsonb_build_object('rule', own));
      changed := changed + 1;
    end if;
  end loop;
  return changed;
end $$;

-- Returns the rule of a group or of a partner for all products, in the format of `change_rule`, or null if there is none.
create or replace function general_rule_of(of_program_id bigint, of_group_id bigint, of_partner_id bigint) returns jsonb language sql stable as $$
  select to_jsonb(r) - array['program_id', 'id', 'group_id', 'partner_id', 'created_at', 'since_version'] from commission_rules r
  where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
    and num_nonnulls(of_group_id, of_partner_id) = 1 and num_nonnulls(r.product_id, r.sale_type) = 0
$$;

-- Sets an approved application back to waiting, and deletes the partner that the approval created. Returns false if the partner
-- existed before or already referred somebody.
create or replace function undo_approval(of_program_id bigint, of_application_id bigint) returns boolean language plpgsql as $$
declare
  partner partners;
begin
  select r.* into partner from applications a join partners r on r.program_id = a.program_id and r.id = a.partner_id
  where a.program_id = of_program_id and a.id = of_application_id and a.status = 'approved' and r.created_at = a.decided_at
  for update;
  -- `customers` has an index by partner for leads and buyers only. The counters know the clicks of all other customers.
  if partner.id is null or exists (
      select from customers c
      where c.program_id = of_program_id and c.partner_id = partner.id and (c.customer_status <> 'click' or c.provisional_lead_at is not null)
    ) or exists (
      select from referral_links l left join link_clicks k on k.program_id = l.program_id and k.link_id = l.id
      left join uncounted_clicks u on u.program_id = l.program_id and u.link_id = l.id
      where l.program_id = of_program_id and l.partner_id = partner.id and coalesce(k.link_id, u.link_id) is not null
    )
  then
    return false;
  end if;
  update applications a set status = 'waiting', partner_id = null, decided_at = null, decided_by = null, decided_by_key = null
  where a.program_id = of_program_id and a.id = of_application_id;
  delete from referral_links l where l.program_id = of_program_id and l.partner_id = partner.id;
  delete from partners r where r.program_id = of_program_id and r.id = partner.id;
  return true;
exception
  -- The partner has an amount, a code, a message or a custom rule, or the person has applied again.
  when foreign_key_violation or unique_violation then
    return false;
end $$;

-- Restores the row of a job. Returns false if somebody changed the row after the job, or if it can't be restored.
create or replace function undo_job_row(job bulk_jobs, changed bulk_job_rows) returns boolean language plpgsql as $$
declare
  own jsonb;
begin
  case job.kind
    when 'approve' then
      return undo_approval(job.program_id, changed.row_id);
    when 'reject' then
      update applications a set status = 'waiting', decided_at = null, decided_by = null, decided_by_key = null, note = null
      where a.program_id = job.program_id and a.id = changed.row_id and a.status = 'rejected';
    when 'deactivate' then
      update partners r set is_active = true
      where r.program_id = job.program_id and r.id = changed.row_id and not r.is_active and r.ended_at is null;
      if found then
        -- Links that were disabled before the job stay disabled.
        update referral_links l set is_active = true
        where l.program_id = job.program_id and l.partner_id = changed.row_id and changed.before->'link_ids' @> to_jsonb(l.id);
        return true;
      end if;
    when 'move' then
      update partners r set group_id = (changed.before->>'group_id')::bigint
      where r.program_id = job.program_id and r.id = changed.row_id and r.group_id is not distinct from nullif(job.settings->>'to', '')::bigint;
    when 'rate' then
      own := general_rule_of(job.program_id, null, changed.row_id);
      if (own->>'commission_bp')::integer is distinct from (job.settings->>'rate_bp')::integer then
        return false;
      end if;
      return change_rule(job.program_id, null, changed.row_id, (
        select r.id from commission_rules r where r.program_id = job.program_id and r.partner_id = changed.row_id and r.ended_at is null
          and num_nonnulls(r.product_id, r.sale_type) = 0
      ), nullif(changed.before->'rule', 'null'));
    when 'invite' then
      delete from queued_invitations q where q.program_id = job.program_id and q.partner_id = changed.row_id and q.job_id = job.id;
  end case;
  return found;
exception
  -- The previous group was removed, or the person has applied again.
  when foreign_key_violation or unique_violation then
    return false;
end $$;

-- Tries to undo up to `max_rows` changes of a job, and returns their number. Returns null if the program has no such job, or if the job
-- is too old. The undo has one entry in the audit log.
create or replace function undo_bulk_job(of_program_id bigint, of_job_id bigint, max_rows integer) returns integer language plpgsql as $$
declare
  job bulk_jobs;
  changed bulk_job_rows;
  tried integer := 0;
begin
  select j.* into job from bulk_jobs j
  where j.program_id = of_program_id and j.id = of_job_id and j.started_at > now() - bulk_jobs_undone_within() for update;
  if job.id is null then
    return null;
  end if;
  if job.undone_at is null then
    update bulk_jobs j set undone_at = now(), finished_at = coalesce(j.finished_at, now()) where j.program_id = of_program_id and j.id = of_job_id;
    perform write_program_audit(of_program_id, bulk_job_action(job.kind, true), null, jsonb_build_object('job', of_job_id));
  end if;
  perform set_config('svc.job', of_job_id::text, true);
  for changed in
    select r.* from bulk_job_rows r where r.program_id = of_program_id and r.job_id = of_job_id and r.is_undone is null
    order by r.row_id limit max_rows
  loop
    update bulk_job_rows r set is_undone = undo_job_row(job, changed)
    where r.program_id = of_program_id and r.job_id = of_job_id and r.row_id = changed.row_id;
    tried := tried + 1;
  end loop;
  return tried;
end $$;

-- Sends a message of the current job to partners who have an account, once to each, and returns their number.
create or replace function message_partners(of_program_id bigint, partner_ids bigint[], of_text text) returns integer language plpgsql as $$
declare
  current_job bigint := current_setting('svc.job')::bigint;
  recipient_ids bigint[] := array(
    select r.id from partners r
    where r.program_id = of_program_id and r.id = any (partner_ids) and r.user_id is not null and r.ended_at is null
      and not exists (select from bulk_job_rows j where j.program_id = r.program_id and j.job_id = current_job and j.row_id = r.id)
    order by r.id for no key update
  );
begin
  perform note_job_row(of_program_id, id, '{}'),
    write_outbox(of_program_id, 'program_message', 'partner', id, concat_ws(':', 'message', current_job, id), jsonb_build_object('text', of_text))
  from unnest(recipient_ids) id;
  return cardinality(recipient_ids);
end $$;

-- Queues invitations of the current job to partners who have an address but no account. Returns their number.
create or replace function queue_invitations(of_program_id bigint, partner_ids bigint[]) returns integer language plpgsql as $$
declare
  queued bigint[];
begin
  with row as (
    insert into queued_invitations (program_id, partner_id, job_id, invited_by)
    select r.program_id, r.id, current_setting('svc.job')::bigint, acting_user() from partners r
    where r.program_id = of_program_id and r.id = any (partner_ids) and r.email is not null and r.user_id is null and r.ended_at is null
    order by r.id
    on conflict on constraint queued_invitations_pkey do nothing
    returning partner_id
  )
  select coalesce(array_agg(partner_id), '{}') into queued from row;
  perform note_job_row(of_program_id, id, '{}') from unnest(queued) id;
  return cardinality(queued);
end $$;

-- Claims queued invitations whose workspace and sender may send more mail today, oldest first. A claim lasts ten minutes.
create or replace function claim_queued_invitations(max_rows integer, per_day integer)
returns table (of_program_id bigint, of_partner_id bigint, of_job_id bigint, sender_id text) language sql as $$
  update queued_invitations i set attempted_at = now()
  where (i.program_id, i.partner_id) in (
    select q.program_id, q.partner_id from queued_invitations q join programs p on p.id = q.program_id
    where (q.attempted_at is null or q.attempted_at < now() - interval '10 minutes') and not exists (
      select from mail_counts m where m.counted in ('workspace ' || p.workspace_id, 'account ' || q.invited_by)
        and m.day = utc_day(now()) and m.mails >= per_day
    )
    order by q.queued_at, q.program_id, q.partner_id limit max_rows for update of q skip locked
  )
  returning i.program_id, i.partner_id, i.job_id, i.invited_by
$$;
