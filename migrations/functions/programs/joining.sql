-- Applications to a program through its public page or its own form (lib/programs/join-page.ts, applications.ts).

-- How long a rejected person must wait before they can apply again.
create or replace function application_rests_after_rejection() returns interval language sql immutable return interval '30 days';

-- Changes the given settings of a program's page. A program permanently keeps up to five addresses. A new text of the terms is a new version,
-- up to 20 times a day.
create or replace function save_join_page(of_program_id bigint, changes jsonb) returns void language plpgsql as $$
declare
  page join_pages;
  before_change join_pages;
  new_slug text := changes ->> 'slug';
  terms program_terms;
  new_terms text;
  bills_itself boolean;
begin
  perform from programs p where p.id = of_program_id for no key update;
  select j.* into page from join_pages j where j.program_id = of_program_id;
  if page.slug is null and new_slug is null then
    select coalesce(nullif(trim('-' from left(regexp_replace(lower(p.name), '[^a-z0-9]+', '-', 'g'), 40)), ''), 'program') || '-' || p.id
    into new_slug from programs p where p.id = of_program_id;
  end if;
  if not exists (select from join_slugs s where s.program_id = of_program_id and s.slug = coalesce(new_slug, page.slug)) then
    if (select count(*) from join_slugs s where s.program_id = of_program_id) >= 5 then
      raise exception 'too many addresses' using errcode = 'check_violation', constraint = 'join_slugs_few';
    end if;
    insert into join_slugs (slug, program_id) values (new_slug, of_program_id);
  end if;
  insert into join_pages (program_id, slug) values (of_program_id, coalesce(new_slug, page.slug)) on conflict (program_id) do nothing;
  select j.* into before_change from join_pages j where j.program_id = of_program_id;
  page := before_change;
  page.slug := coalesce(new_slug, page.slug);
  page.is_open := coalesce((changes ->> 'is_open')::boolean, page.is_open);
  if page.is_open and not before_change.is_open
    and not has_verified_owner((select p.workspace_id from programs p where p.id = of_program_id)) then
    raise exception 'nobody confirmed an address' using errcode = 'check_violation', constraint = 'join_pages_verified';
  end if;
  page.approves_at_once := coalesce((changes ->> 'approves_at_once')::boolean, page.approves_at_once);
  page.shows_numbers := coalesce((changes ->> 'shows_numbers')::boolean, page.shows_numbers);
  page.intro := case when changes ? 'intro' then nullif(changes ->> 'intro', '') else page.intro end;
  page.headline := case when changes ? 'headline' then changes ->> 'headline' else page.headline end;
  page.shows_terms := coalesce((changes ->> 'shows_terms')::boolean, page.shows_terms);
  page.shows_calculator := coalesce((changes ->> 'shows_calculator')::boolean, page.shows_calculator);
  page.faq := coalesce(changes -> 'faq', page.faq);
  page.questions := coalesce(changes -> 'questions', page.questions);
  select t.* into terms from program_terms t where t.program_id = of_program_id and t.version = page.terms_version;
  new_terms := case when changes ? 'terms' then nullif(changes ->> 'terms', '') else terms.text end;
  bills_itself := coalesce((changes ->> 'self_billing')::boolean, terms.self_billing, false);
  if new_terms is null and (changes ->> 'self_billing')::boolean then
    raise exception 'nobody can accept missing terms' using errcode = 'check_violation', constraint = 'join_pages_self_billing';
  end if;
  if (new_terms, bills_itself) is distinct from (terms.text, coalesce(terms.self_billing, false)) then
    page.terms_version := null;
    if new_terms is not null then
      -- Versions are kept forever.
      if (
        select count(*) from program_terms t where t.program_id = of_program_id and t.created_at > now() - interval '1 day'
      ) >= 20 then
        raise exception 'too many versions' using errcode = 'check_violation', constraint = 'program_terms_few';
      end if;
      insert into program_terms (program_id, version, text, self_billing)
      select of_program_id, coalesce(max(t.version), 0) + 1, new_terms, bills_itself from program_terms t where t.program_id = of_program_id
      returning version into page.terms_version;
    end if;
  end if;
  if (page.questions, page.terms_version) is distinct from (before_change.questions, before_change.terms_version) then
    page.version := page.version + 1;
  end if;
  update join_pages j set slug = page.slug, is_open = page.is_open, approves_at_once = page.approves_at_once,
    shows_numbers = page.shows_numbers, shows_terms = page.shows_terms, shows_calculator = page.shows_calculator, headline = page.headline,
    intro = page.intro, faq = page.faq, questions = page.questions, terms_version = page.terms_version, version = page.version
  where j.program_id = of_program_id and j is distinct from page;
end $$;

-- The figures of a program for people who consider joining it. `days_to_payout` is the median time from a sale to its payout, among the
-- last 1,000 paid sales. `reversed_bp` is the share of sales whose commission was reversed completely or in part, in whole percent, among
-- the last 1,000 that are older than the hold period. Both only change at the start of a month (UTC), and are null below 30 commissions or 5
-- partners. Otherwise they would reveal single sales and reversals.
create or replace function program_numbers(of_program_id bigint, out days_to_payout integer, out reversed_bp integer) language sql stable as $$
  with month as (select date_trunc('month', now(), 'UTC') as began)
  select p.days, r.bp
  from (
    select case when count(*) >= 30 and count(distinct c.partner_id) >= 5 then
      greatest(1, round(percentile_cont(0.5) within group (order by extract(epoch from c.paid_at - c.created_at)) / 86400))::integer end as days
    from (
      select c.partner_id, c.paid_at, c.created_at from commissions c, month m
      where c.program_id = of_program_id and c.payout_id is not null and c.paid_at < m.began and c.sale_id is not null
      order by c.payout_id desc limit 1000
    ) c
  ) p, (
    select case when count(*) >= 30 and count(distinct c.partner_id) >= 5 then
      100 * round(100.0 * count(*) filter (where c.is_reversed) / count(*))::integer end as bp
    from (
      select c.partner_id, exists (
        select from refunds f where f.program_id = of_program_id and f.sale_id = c.sale_id and f.deduction_cents > 0 and f.created_at < m.began
          and (f.returned_at is null or f.returned_at >= m.began)
      ) as is_reversed
      from commissions c join programs g on g.id = c.program_id cross join month m
      where c.program_id = of_program_id and c.sale_id is not null and not c.is_shadow
        and c.created_at < least(m.began, now() - make_interval(days => g.hold_days))
      order by c.created_at desc limit 1000
    ) c
  ) r
$$;

-- Records an application. `of_user_id` is the applicant's account with the verified address `of_email`. Without an account, the application
-- counts once the link with the token is opened. The page sends the version that the applicant saw, and the program's own form sends the
-- version of the terms. `outcome` is `applied`, or `waiting` or `approved` for an account. Refusals are `closed`, `changed` since it was
-- seen, `answers` (of `wrong_question`), `partner`, `waiting`, `rejected` (until `again_at`), and the results of `count_mail`.
create or replace function apply_to_program(
  of_program_id bigint, of_source text, seen_version integer, seen_terms integer, of_user_id text, of_email text, of_name text, of_answers jsonb, of_token_hash bytea,
  code_digits text, of_network text, bounds jsonb, out outcome text, out application_id bigint, out again_at timestamptz, out wrong_question text
) language plpgsql as $$
declare
  page join_pages;
begin
  -- These locks serialize the applications of one person, and the counts of their mails.
  perform pg_advisory_xact_lock(hashtextextended('application of ' || mailbox_of(of_email), 0));
  select j.* into page from join_pages j join programs p on p.id = j.program_id and p.deleted_at is null where j.program_id = of_program_id;
  if page.program_id is null or (of_source = 'page' and not page.is_open) then
    outcome := 'closed';
    return;
  elsif (of_source = 'page' and page.version <> seen_version) or (of_source = 'api' and page.terms_version is distinct from seen_terms) then
    outcome := 'changed';
    return;
  elsif of_source = 'api' then
    wrong_question := question_not_answered(page.questions, of_answers);
    if wrong_question is not null then
      outcome := 'answers';
      return;
    end if;
  end if;
  if of_token_hash is not null then
    outcome := count_mail((select p.workspace_id from programs p where p.id = of_program_id), null, of_email, of_source, of_network, bounds);
    if outcome is not null then
      return;
    end if;
  end if;
  select s.outcome, s.again_at into outcome, again_at from standing_of_applicant(of_program_id, of_email, of_user_id) s;
  if outcome is not null then
    return;
  end if;
  insert into applications (program_id, source, user_id, name, email, answers, terms_version, token_hash)
  values (of_program_id, of_source, of_user_id, of_name, of_email, of_answers, page.terms_version, of_token_hash)
  returning id into application_id;
  outcome := 'applied';
  if of_user_id is not null then
    select c.outcome into outcome from confirm_application(of_program_id, application_id, null, code_digits, null) c;
  end if;
end $$;

-- Returns a question whose required answer is missing, whose answer is too long, or that isn't on the page. Null if the answers are
-- complete.
create or replace function question_not_answered(questions jsonb, answers jsonb) returns text language sql immutable as $$
  select coalesce(
    (
      select g ->> 'question' from jsonb_array_elements(answers) g where not exists (
        select from jsonb_array_elements(questions) q
        where q ->> 'label' = g ->> 'question' and length(g ->> 'answer') <= case q ->> 'type' when 'short' then 300 else 3000 end
      ) limit 1
    ),
    (
      select q ->> 'label' from jsonb_array_elements(questions) q where (q ->> 'required')::boolean and not exists (
        select from jsonb_array_elements(answers) g where g ->> 'question' = q ->> 'label'
      ) limit 1
    )
  )
$$;

-- Returns why a person can't apply now: they are a `partner`, their application is `waiting`, or it was `rejected` recently. Returns null
-- if they can apply.
create or replace function standing_of_applicant(
  of_program_id bigint, of_email text, of_user_id text, out outcome text, out again_at timestamptz
) language plpgsql as $$
begin
  if exists (
    select from partners r where r.program_id = of_program_id and r.ended_at is null
      and (r.user_id = of_user_id or (r.user_id is not null and mailbox_of(r.email) = mailbox_of(of_email)))
  ) then
    outcome := 'partner';
    return;
  end if;
  if exists (
    select from applications a where a.program_id = of_program_id and a.status = 'waiting' and (mailbox_of(a.email) = mailbox_of(of_email) or a.user_id = of_user_id)
  ) then
    outcome := 'waiting';
    return;
  end if;
  select a.decided_at + application_rests_after_rejection() into again_at from applications a
  where a.program_id = of_program_id and a.status = 'rejected' and (mailbox_of(a.email) = mailbox_of(of_email) or a.user_id = of_user_id)
    and a.decided_at > now() - application_rests_after_rejection()
  order by a.decided_at desc limit 1;
  if found then
    outcome := 'rejected';
  end if;
end $$;

-- Confirms that the sender owns the address of an application. From then on the application counts. If the program approves applications
-- at once, it is approved. A person decides on applicants whom the program rejected before or has as a partner, including ended ones.
-- `outcome` is `waiting`, `approved`, or the reason why the application no longer counts. `is_first` is true if this call confirmed it.
-- Null if there is no such application to confirm.
create or replace function confirm_application(
  of_program_id bigint, of_application_id bigint, unconfirmed_kept interval, code_digits text, invitation_hash bytea,
  out outcome text, out is_first boolean, out invited boolean
) language plpgsql as $$
declare
  application applications;
  page join_pages;
begin
  is_first := false;
  invited := false;
  perform pg_advisory_xact_lock(hashtextextended('application of ' || mailbox_of(a.email), 0)) from applications a
  where a.program_id = of_program_id and a.id = of_application_id;
  select a.* into application from applications a join programs p on p.id = a.program_id and p.deleted_at is null
  where a.program_id = of_program_id and a.id = of_application_id for update of a;
  if application.status <> 'unverified' then
    outcome := application.status;
    return;
  elsif application.id is null or application.applied_at < now() - unconfirmed_kept then
    return;
  end if;
  select s.outcome into outcome from standing_of_applicant(of_program_id, application.email, application.user_id) s;
  if outcome is not null then
    delete from applications a where a.program_id = of_program_id and a.id = of_application_id;
    return;
  end if;
  is_first := true;
  outcome := 'waiting';
  update applications a set status = 'waiting', verified_at = now() where a.program_id = of_program_id and a.id = of_application_id
  returning a.* into application;
  -- Other applications with this address no longer need to be confirmed.
  delete from applications a where a.program_id = of_program_id and mailbox_of(a.email) = mailbox_of(application.email) and a.status = 'unverified';
  if wants_webhook(of_program_id, 'partner.applied') then
    perform write_webhook(of_program_id, 'partner.applied', jsonb_build_object('application_id', application.id));
  end if;
  select j.* into page from join_pages j where j.program_id = of_program_id;
  if page.approves_at_once and (page.is_open or application.source = 'api')
    and not exists (select from partners r where r.program_id = of_program_id and (r.user_id = application.user_id or mailbox_of(r.email) = mailbox_of(application.email)))
    and not exists (
      select from applications a where a.program_id = of_program_id and a.status = 'rejected'
        and (mailbox_of(a.email) = mailbox_of(application.email) or a.user_id = application.user_id)
    )
  then
    invited := admit_applicant(application, null, code_digits, invitation_hash, true);
    outcome := 'approved';
  else
    perform write_outbox(of_program_id, 'application_received', 'advertiser', null, 'application:' || application.id,
      jsonb_build_object('application_id', application.id));
  end if;
end $$;

-- Creates the partner of a waiting, locked application with a link, or continues the partnership of the person's existing partner. An applicant
-- with an account becomes the partner at once. Other applicants get an invitation, and the function returns true.
create or replace function admit_applicant(application applications, in_group_id bigint, code_digits text, invitation_hash bytea, is_at_once boolean)
returns boolean
language plpgsql as $$
declare
  partner partners;
  profile partner_profiles;
begin
  if is_at_once then
    -- The service is the actor here, regardless of who opened the link.
    perform set_config('svc.actor', '', true);
  end if;
  select f.* into profile from partner_profiles f where f.user_id = application.user_id;
  select r.* into partner from partners r
  where r.program_id = application.program_id and (r.user_id = application.user_id or lower(r.email) = application.email)
  order by r.user_id = application.user_id desc nulls last limit 1 for update;
  if partner.id is null then
    insert into partners (program_id, user_id, group_id, name, email, payout_email)
    values (application.program_id, application.user_id, in_group_id, coalesce(profile.name, application.name), application.email, profile.payout_email)
    returning * into partner;
    -- An applicant with an account typed their own name.
    insert into partner_profiles as f (user_id, name) select application.user_id, application.name where application.user_id is not null
    on conflict (user_id) do update set name = excluded.name where f.name is null;
  elsif partner.closed_at is not null or partner.user_id <> application.user_id then
    raise exception 'the partner is another person' using errcode = 'unique_violation', constraint = 'partners_of_another_person';
  elsif application.user_id is not null then
    update partners r set user_id = application.user_id, group_id = coalesce(in_group_id, r.group_id),
      name = coalesce(profile.name, r.name), payout_email = coalesce(profile.payout_email, r.payout_email),
      is_active = r.is_active or r.ended_at is not null, ended_at = null, ended_by = null
    where r.program_id = partner.program_id and r.id = partner.id;
    update referral_links l set is_active = true
    where l.program_id = partner.program_id and l.partner_id = partner.id and partner.ended_at is not null;
    partner.user_id := application.user_id;
    partner.ended_at := null;
  elsif in_group_id is not null then
    update partners r set group_id = in_group_id where r.program_id = partner.program_id and r.id = partner.id;
  end if;
  if not exists (select from referral_links l where l.program_id = partner.program_id and l.partner_id = partner.id) then
    insert into referral_links (code, program_id, partner_id) values (
      coalesce(nullif(left(regexp_replace(lower(normalize(application.name, nfkd)), '[^a-z0-9]+', '', 'g'), 20), ''), 'partner') || code_digits,
      partner.program_id, partner.id);
  end if;
  update applications a set status = 'approved', partner_id = partner.id, decided_at = now(), decided_by_key = acting_key(),
    decided_by = acting_user()
  where a.program_id = application.program_id and a.id = application.id;
  if partner.user_id is not null and partner.ended_at is null then
    return false;
  end if;
  insert into partner_invitations (program_id, partner_id, email, token_hash, application_id, expires_at)
  values (partner.program_id, partner.id, application.email, invitation_hash, application.id, now() + interval '14 days')
  on conflict (program_id, partner_id) where accepted_at is null and declined_at is null and revoked_at is null
  do update set email = excluded.email, token_hash = excluded.token_hash, invited_by = null, application_id = excluded.application_id,
    created_at = now(), expires_at = excluded.expires_at;
  return true;
end $$;

-- Approves waiting applications from a list of {id, code_digits, invitation_hash}, with the hash in hexadecimal. Returns for each application of
-- the program whether this call approved it, and whether the invitation with that token is now open.
create or replace function approve_applications(of_program_id bigint, in_group_id bigint, given jsonb)
returns table (application_id bigint, is_first boolean, invited boolean) language plpgsql as $$
declare
  application applications;
  one record;
begin
  for one in
    select g.* from jsonb_to_recordset(given) g (id bigint, code_digits text, invitation_hash text) order by g.id
  loop
    select a.* into application from applications a where a.program_id = of_program_id and a.id = one.id for update;
    continue when not found;
    application_id := application.id;
    is_first := application.status = 'waiting';
    invited := is_first and admit_applicant(application, in_group_id, one.code_digits, decode(one.invitation_hash, 'hex'), false);
    if is_first then
      perform note_job_row(of_program_id, application.id, '{}');
    end if;
    return next;
  end loop;
end $$;

-- Rejects a waiting application. `outcome` is its status afterwards, or null if the program does not have it. `is_first` is true if this call
-- rejected it.
create or replace function reject_application(
  of_program_id bigint, of_application_id bigint, because text, out outcome text, out is_first boolean
) language plpgsql as $$
begin
  update applications a set status = 'rejected', decided_at = now(), decided_by = acting_user(), decided_by_key = acting_key(), note = because
  where a.program_id = of_program_id and a.id = of_application_id and a.status = 'waiting';
  is_first := found;
  if is_first then
    perform note_job_row(of_program_id, of_application_id, '{}');
  end if;
  outcome := (select a.status from applications a where a.program_id = of_program_id and a.id = of_application_id);
end $$;

-- Deletes a rejected or unconfirmed application and the stored response to the call that created it. Returns its previous status, or null
-- if the program does not have it. Waiting and approved applications stay.
create or replace function delete_application(of_program_id bigint, of_application_id bigint, out status_was text) language plpgsql as $$
begin
  select a.status into status_was from applications a where a.program_id = of_program_id and a.id = of_application_id for update;
  if status_was in ('unverified', 'rejected') then
    delete from applications a where a.program_id = of_program_id and a.id = of_application_id;
    delete from idempotency_keys k
    where k.program_id = of_program_id and k.answer ? 'applied_at' and (k.answer ->> 'id')::bigint = of_application_id;
    perform write_program_audit(of_program_id, 'application.deleted', of_application_id::text, null);
  end if;
end $$;

-- Deletes up to `max_rows` unconfirmed and rejected applications at the end of their retention periods. Returns their number.
create or replace function expire_applications(max_rows integer, unconfirmed_kept interval, rejected_kept interval) returns bigint language plpgsql as $$
declare
  deleted bigint;
begin
  delete from applications a where (a.program_id, a.id) in (
    select o.program_id, o.id from applications o
    where (o.status = 'unverified' and o.applied_at < now() - unconfirmed_kept)
      or (o.status = 'rejected' and o.decided_at < now() - rejected_kept)
    limit max_rows for update skip locked
  );
  get diagnostics deleted = row_count;
  return deleted;
end $$;

-- Records changes to the page. The entries don't repeat texts, because each version of the terms is kept.
create or replace function audit_join_page() returns trigger language plpgsql as $$
declare
  changed jsonb;
begin
  select jsonb_object_agg(n.key, case when n.key in ('intro', 'questions', 'faq') then '"changed"'::jsonb else jsonb_build_array(o.value, n.value) end)
  into changed
  from jsonb_each(to_jsonb(new)) n join jsonb_each(to_jsonb(old)) o using (key)
  where n.value is distinct from o.value and n.key <> 'version';
  if changed is not null then
    perform write_program_audit(new.program_id, 'join_page.changed', new.slug, changed);
  end if;
  return null;
end $$;
create or replace trigger join_pages_audit after update on join_pages for each row execute function audit_join_page();

-- Entries about decisions contain only the application's number, so that the person's name disappears with the application.
create or replace function audit_application() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, 'application.' || new.status, new.id::text,
    case when new.status = 'approved' then jsonb_strip_nulls(jsonb_build_object('partner', new.partner_id,
      'at_once', case when num_nonnulls(new.decided_by, new.decided_by_key) = 0 then true end)) end);
  return null;
end $$;
create or replace trigger applications_audit after update of status on applications
  for each row when (old.status = 'waiting' and new.status in ('approved', 'rejected')) execute function audit_application();
