-- Why a call with this key is refused: `retired`, `expired`, or `scope` where it may not do what `scope` names (null: any key may); empty where it
-- is not. A key that is used is noted as used once an hour, by whichever call comes first; the others wait for nothing.
create or replace function use_key(key api_keys, scope text) returns text language plpgsql as $$
begin
  if key.retired_at is not null then
    return 'retired';
  elsif key.expires_at <= now() then
    return 'expired';
  elsif scope <> all (key.scopes) then
    return 'scope';
  elsif key.last_used_at is null or key.last_used_at < now() - interval '1 hour' then
    update api_keys k set last_used_at = now()
    where k.id = (select u.id from api_keys u where u.id = key.id for no key update skip locked);
  end if;
  return '';
end $$;

-- The same of the API key of this hash, with its id and program; null for an unknown one. For calls that ask for the rest in another request, and for
-- those that are refused before they ask for more.
create or replace function check_api_key(hash bytea, scope text, out key_refusal text, out key_id bigint, out program_id bigint)
language sql as $$
  select use_key(k, scope), k.id, k.program_id from api_keys k where k.key_hash = hash
$$;
