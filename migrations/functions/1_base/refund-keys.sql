-- A refund's id after its customer was erased: a digest with a salt of its own, which says nothing, but by which the same id told again is known.
create or replace function erased_refund_key(key text, salt text) returns text language sql immutable
return 'sha:' || salt || ':' || encode(sha256(convert_to(salt || key, 'UTF8')), 'hex');

-- Whether a stored refund key stands for this one.
create or replace function is_refund_key(stored text, key text) returns boolean language sql immutable
return stored = key or starts_with(stored, 'sha:') and stored = erased_refund_key(key, split_part(stored, ':', 2));
