-- Returns whether the operator is blocking a program. While it is blocked, its links, keys, join page and dashboard refuse
-- everything.
create or replace function is_blocked(of_program_id bigint) returns boolean language plpgsql stable as $$
begin
  return exists (select from blocks b where b.program_id = of_program_id and b.ends_at > now());
end $$;

-- Blocks a program or a network, and returns the block's id, or null if there is no such program. The program's audit log contains the
-- reason.
create or replace function add_block(of_program_id bigint, of_network text, hours integer, because text) returns bigint language plpgsql as $$
declare
  block blocks;
begin
  if of_program_id is not null and not exists (select from programs p where p.id = of_program_id and p.deleted_at is null) then
    return null;
  end if;
  insert into blocks (program_id, network, reason, ends_at)
  values (of_program_id, network(of_network::inet)::cidr, because, now() + make_interval(hours => hours))
  returning * into block;
  perform write_program_audit(of_program_id, 'program.blocked', because, jsonb_build_object('ends_at', block.ends_at));
  return block.id;
end $$;

-- Ends a block early. Returns false if there is none with this id.
create or replace function end_block(of_id bigint) returns boolean language plpgsql as $$
declare
  block blocks;
begin
  update blocks b set ends_at = now() where b.id = of_id and b.ends_at > now() returning b.* into block;
  if not found then
    return false;
  end if;
  perform write_program_audit(block.program_id, 'program.unblocked', block.reason, null);
  return true;
end $$;
