-- Whether the API key of this hash was retired; null for an unknown one. For calls that are refused before they ask for more.
create or replace function check_api_key(hash bytea, out key_retired boolean) language sql stable as $$
  select k.retired_at is not null from api_keys k where k.key_hash = hash
$$;
