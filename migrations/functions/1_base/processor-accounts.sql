-- Which accounts at the payment processor are a program's. From an account to its programs the two columns are compared each by itself, since
-- only so their indexes are found: in apply_customer and delete_unsold_payments.

-- The account that it is connected to, and the one before.
create or replace function accounts_of(program programs) returns text[] language sql immutable
return array[(program).processor_account_id, (program).processor_former_account_id];

-- The account that it was connected to last, also where it is not connected any more.
create or replace function last_account_of(program programs) returns text language sql immutable
return coalesce((program).processor_account_id, (program).processor_former_account_id);
