-- Records changes to a program's brand. The entry doesn't contain the image itself.
create or replace function audit_brand() returns trigger language plpgsql as $$
declare
  before_change program_brands := case when tg_op = 'UPDATE' then old end;
  changed jsonb;
begin
  select jsonb_object_agg(n.key, jsonb_build_array(o.value, n.value)) into changed
  from jsonb_each(to_jsonb(new) - 'logo') n
  left join jsonb_each(coalesce(to_jsonb(before_change), '{}') - 'logo') o using (key)
  where nullif(n.value, 'null') is distinct from nullif(o.value, 'null') and n.key <> 'program_id';
  if changed is not null then
    perform write_program_audit(new.program_id, 'brand.changed', null, changed);
  end if;
  return null;
end $$;
create or replace trigger program_brands_audit after insert or update on program_brands for each row execute function audit_brand();
