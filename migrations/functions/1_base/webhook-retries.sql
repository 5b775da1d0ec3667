-- The retry schedule of webhooks and postbacks.

-- The wait before the next attempt of a delivery, by the number of failed attempts. Null after the last attempt.
create or replace function webhook_delay(attempt_count integer) returns interval language sql immutable
return (array['5 s', '5 min', '30 min', '2 h', '5 h', '10 h', '14 h', '20 h', '24 h']::interval[])[attempt_count];

-- The pause of an endpoint after a failure, by the number of failures in a row.
create or replace function webhook_rest(failures integer) returns interval language sql immutable
return case when failures < 3 then interval '5 s' else interval '1 min' end;
