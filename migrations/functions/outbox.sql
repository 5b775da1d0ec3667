-- Marks the place in the outbox from which on a transaction writes; the number itself is given to no row.
create or replace function mark_outbox() returns bigint language sql volatile as $$ select nextval('outbox_id_seq') $$;

-- The outbox rows that this transaction wrote for a program after the mark, to be sent once it is done.
create or replace function outbox_since(of_program_id bigint, mark bigint) returns bigint[] language plpgsql as $$
begin
  return array(
    select o.id from outbox o where o.program_id = of_program_id and o.id > mark and o.created_at = now() order by o.id
  );
end $$;
