-- The stored key of a refund whose customer was erased. The digest has its own salt and reveals nothing, but the service can still
-- recognize the same refund id.
create or replace function erased_refund_key(key text, salt text) returns text language sql immutable
return 'sha:' || salt || ':' || encode(sha256(convert_to(salt || key, 'UTF8')), 'hex');

-- Returns whether a stored refund key matches this key.
create or replace function is_refund_key(stored text, key text) returns boolean language sql immutable
return stored = key or starts_with(stored, 'sha:') and stored = erased_refund_key(key, split_part(stored, ':', 2));
