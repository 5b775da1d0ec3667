-- Returns whether a program runs next to its former service, and therefore computes commissions but credits nothing.
create or replace function in_shadow_mode(of_program_id bigint) returns boolean language sql stable
return exists (select from programs p where p.id = of_program_id and p.shadow_since is not null and p.shadow_ended_at is null);

-- Returns whether a program was in shadow mode at a time.
create or replace function was_in_shadow_mode(p programs, at timestamptz) returns boolean language sql immutable
return coalesce(at >= (p).shadow_since and at < coalesce((p).shadow_ended_at, 'infinity'), false) or at <@ (p).earlier_shadow_times;
