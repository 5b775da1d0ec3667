-- Returns why this key's call is refused: `revoked`, `expired`, `blocked` if the operator blocks the program, or `scope` if the key lacks
-- `scope` (null: any key will do). Returns an empty text for a valid key. Records the key's use at most once an hour, without waiting for other
-- calls.
create or replace function use_key(key api_keys, scope text) returns text language plpgsql as $$
begin
  if key.revoked_at is not null then
    perform note_refusal(key.program_id, 'key', 'api_key_retired', key.hint);
    return 'revoked';
  elsif key.expires_at <= now() then
    perform note_refusal(key.program_id, 'key', 'api_key_expired', key.hint);
    return 'expired';
  elsif is_blocked(key.program_id) then
    return 'blocked';
  elsif scope <> all (key.scopes) then
    perform note_refusal(key.program_id, 'key', 'insufficient_scope', key.hint || ' ' || scope);
    return 'scope';
  elsif key.last_used_at is null or key.last_used_at < now() - interval '1 hour' then
    update api_keys k set last_used_at = now()
    where k.id = (select u.id from api_keys u where u.id = key.id for no key update skip locked);
  end if;
  return '';
end $$;

-- Finds the API key with this hash. Returns its id, its program, the program's domain and its scopes. All are null for
-- an unknown key. Used by calls that read the rest in another request.
create or replace function check_api_key(hash bytea, scope text, out key_refusal text, out key_id bigint, out program_id bigint, out domain text, out scopes text[])
language sql as $$
  select use_key(k, scope), k.id, p.id, p.domain, k.scopes from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash
$$;

-- Counts bytes that a request may store for a workspace, through its API keys (`counter` is `bytes`) or its forms (`form bytes`). A day begins
-- with the first request. Above the limit, the request fails. The limit is smaller until an owner has confirmed their address, because
-- anybody can create such accounts.
create or replace function count_workspace_bytes(counter text, of_workspace_id text, bytes integer) returns void language plpgsql as $$
declare
  megabytes numeric;
begin
  insert into sign_in_attempts as a (key, attempts)
  select counter || ' of workspace ' || of_workspace_id, bytes where of_workspace_id is not null
  on conflict (key) do update set
    attempts = excluded.attempts + case when a.window_started_at > now() - interval '1 day' then a.attempts else 0 end,
    window_started_at = case when a.window_started_at > now() - interval '1 day' then a.window_started_at else now() end
  returning a.attempts / 1024.0 / 1024 into megabytes;
  if megabytes > 2 and megabytes > (case when has_verified_owner(of_workspace_id) then 100 else 2 end) then
    raise exception 'too many bytes' using errcode = 'check_violation', constraint = 'workspace_bytes';
  end if;
end $$;

-- Counts bytes that a call with this API key may store.
create or replace function count_written_bytes(hash bytea, bytes integer) returns void language sql as $$
  select count_workspace_bytes('bytes', (select p.workspace_id from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash), bytes)
$$;

-- Finds the partner of a partner's API key. Returns no row for an unknown key, after the partnership ended, or after somebody else took
-- over the partner. Records the key's use at most once an hour.
create or replace function check_partner_key(hash bytea) returns table (program_id bigint, partner_id bigint, currency text) language sql
rows 1 as $$
  with key as (
    select k.program_id, k.id, k.partner_id, g.currency, k.last_used_at
    from partner_keys k
    join partners p on p.program_id = k.program_id and p.id = k.partner_id and p.user_id = k.user_id and p.ended_at is null
    join programs g on g.id = k.program_id and g.deleted_at is null
    where k.key_hash = hash
  ), used as (
    update partner_keys u set last_used_at = now() from key k
    where u.program_id = k.program_id and u.id = k.id and (k.last_used_at is null or k.last_used_at < now() - interval '1 hour')
  )
  select k.program_id, k.partner_id, k.currency from key k
$$;

-- Returns the numbers of a program's valid proxy keys: the current one and, during a rotation, the previous one.
create or replace function proxy_key_numbers(of_program_id bigint) returns integer[] language sql stable as $$
  select array[p.proxy_key_number] || case when p.previous_proxy_key_until > now() then array[p.proxy_key_number - 1] end
  from programs p where p.id = of_program_id and p.deleted_at is null
$$;

-- Checks the key of a tracking call that the Worker refused, and records the refusal if the key is valid.
create or replace function check_key_of_refused(hash bytea, refused_call text, code text, detail text, out key_refusal text)
language plpgsql as $$
declare
  key api_keys;
begin
  select k.* into key from api_keys k where k.key_hash = hash;
  if found then
    key_refusal := use_key(key, 'track');
    if key_refusal = '' then
      perform note_refusal(key.program_id, refused_call, code, detail);
    end if;
  end if;
end $$;

-- Records that a program's call was refused, so that integrators can see it. Writes at most once every five seconds per code, and never
-- waits, so that thousands of refusals cost little. Does nothing for an unknown program.
create or replace function note_refusal(of_program_id bigint, refused_call text, of_code text, of_detail text) returns void language plpgsql as $$
begin
  if exists (
    select from refused_calls r where r.program_id = of_program_id and r.call = refused_call and r.code = of_code
      and r.refused_at > now() - interval '5 seconds'
  ) or not pg_try_advisory_xact_lock(hashtextextended('refused ' || refused_call || ' ' || of_code, of_program_id)) then
    return;
  end if;
  insert into refused_calls as r (program_id, call, code, detail)
  select p.id, refused_call, of_code, of_detail from programs p where p.id = of_program_id and p.deleted_at is null
  on conflict (program_id, call, code) do update set detail = excluded.detail, refused_at = excluded.refused_at;
end $$;
