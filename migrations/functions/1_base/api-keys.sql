-- Why a call with this key is refused: `retired`, `expired`, or `scope` where it may not do what `scope` names (null: any key may); empty where it
-- is not. A key that is used is noted as used once an hour, by whichever call comes first; the others wait for nothing.
create or replace function use_key(key api_keys, scope text) returns text language plpgsql as $$
begin
  if key.revoked_at is not null then
    perform note_refusal(key.program_id, 'key', 'api_key_retired', key.hint);
    return 'retired';
  elsif key.expires_at <= now() then
    perform note_refusal(key.program_id, 'key', 'api_key_expired', key.hint);
    return 'expired';
  elsif scope <> all (key.scopes) then
    perform note_refusal(key.program_id, 'key', 'insufficient_scope', key.hint);
    return 'scope';
  elsif key.last_used_at is null or key.last_used_at < now() - interval '1 hour' then
    update api_keys k set last_used_at = now()
    where k.id = (select u.id from api_keys u where u.id = key.id for no key update skip locked);
  end if;
  return '';
end $$;

-- The same of the API key of this hash, with its id, program and the program's domain; null for an unknown one. For calls that ask for the rest in another request, and for
-- those that are refused before they ask for more.
create or replace function check_api_key(hash bytea, scope text, out key_refusal text, out key_id bigint, out program_id bigint, out domain text)
language sql as $$
  select use_key(k, scope), k.id, p.id, p.domain from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash
$$;

-- The same for a tracking call that is refused before it asks for more, for what is said here.
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

-- Keeps that a call of a program was refused, for who integrates it. At most every five seconds for each code, so that refusals which come by the
-- thousand wait for nothing and write little: two at the same moment are kept as one. A program that is not there has none.
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
