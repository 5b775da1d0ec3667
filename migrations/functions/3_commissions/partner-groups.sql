-- Groups of partners.

-- Creates a group with its rules and returns its id.
create or replace function make_group(of_program_id bigint, group_name text, rules jsonb) returns bigint language plpgsql as $$
declare
  created_id bigint;
begin
  insert into partner_groups (program_id, name) values (of_program_id, group_name) returning id into created_id;
  perform save_rules(of_program_id, created_id, null, rules);
  return created_id;
end $$;

-- Changes the given fields of a group, and returns whether it exists.
create or replace function change_group(of_program_id bigint, of_group_id bigint, group_name text, rules jsonb) returns boolean
language plpgsql as $$
begin
  update partner_groups g set name = coalesce(group_name, g.name)
  where g.program_id = of_program_id and g.id = of_group_id and g.removed_at is null;
  if not found then
    return false;
  end if;
  if rules is not null then
    perform save_rules(of_program_id, of_group_id, null, rules);
  end if;
  return true;
end $$;

-- Ends a group's rules and removes its partners from it. Returns how many partners it had, or null if there is no such group.
create or replace function remove_group(of_program_id bigint, of_group_id bigint) returns integer language plpgsql as $$
declare
  members integer;
begin
  -- Locks partners before groups, like `move_partners`.
  perform from partners r where r.program_id = of_program_id and r.group_id = of_group_id order by r.id for no key update;
  update partner_groups g set removed_at = now() where g.program_id = of_program_id and g.id = of_group_id and g.removed_at is null;
  if not found then
    return null;
  end if;
  update partners r set group_id = null where r.program_id = of_program_id and r.group_id = of_group_id;
  get diagnostics members = row_count;
  perform save_rules(of_program_id, of_group_id, null, '[]');
  return members;
end $$;

-- Moves partners into a group, or out of their groups if it is null. Returns how many of them the program has.
create or replace function move_partners(of_program_id bigint, partner_ids bigint[], to_group_id bigint) returns integer language plpgsql as $$
declare
  known integer;
begin
  perform from partners r where r.program_id = of_program_id and r.id = any (partner_ids) order by r.id for no key update;
  get diagnostics known = row_count;
  if to_group_id is not null then
    perform refuse_unknown_holder(of_program_id, to_group_id, null);
  end if;
  perform note_job_row(r.program_id, r.id, jsonb_build_object('group_id', r.group_id)) from partners r
  where r.program_id = of_program_id and r.id = any (partner_ids) and r.group_id is distinct from to_group_id;
  update partners r set group_id = to_group_id
  where r.program_id = of_program_id and r.id = any (partner_ids) and r.group_id is distinct from to_group_id;
  return known;
end $$;

-- A foreign key accepts a removed group. The lock keeps the group until the partner is in it.
create or replace function refuse_removed_group() returns trigger language plpgsql as $$
begin
  perform from partner_groups g where g.program_id = new.program_id and g.id = new.group_id and g.removed_at is null for share;
  if not found then
    raise foreign_key_violation using message = 'The program has no such group.', constraint = 'partners_group_id_fkey';
  end if;
  return new;
end $$;
create or replace trigger partners_added_to_group before insert on partners
  for each row when (new.group_id is not null) execute function refuse_removed_group();
create or replace trigger partners_moved_to_group before update of group_id on partners
  for each row when (new.group_id is not null and new.group_id is distinct from old.group_id) execute function refuse_removed_group();
