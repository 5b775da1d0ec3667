/** Checks the rows of each foreign key, because the foreign keys of a database may have been disabled for some time. */
export const foreignKeys = `
  select format('%s points at rows of %s that exist', c.conrelid::regclass, c.confrelid::regclass) as name,
    format(
      $f$select child.program_id, %L as subject, concat_ws(', ', %s) as found, %L as expected from %s child
      where %s and not exists (select from %s parent where %s) and ($1::bigint is null or child.program_id = $1)$f$,
      c.conrelid::regclass || ' ' || c.conname, k.columns, 'a row of ' || c.confrelid::regclass, c.conrelid::regclass, k.not_null,
      c.confrelid::regclass, k.equal
    ) as query
  from pg_constraint c
  cross join lateral (
    select string_agg(format('child.%I', a.attname), ', ' order by key.n) as columns,
      string_agg(format('child.%I is not null', a.attname), ' and ' order by key.n) as not_null,
      string_agg(format('parent.%I = child.%I', b.attname, a.attname), ' and ' order by key.n) as equal
    from unnest(c.conkey, c.confkey) with ordinality as key (child, parent, n)
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = key.child
    join pg_attribute b on b.attrelid = c.confrelid and b.attnum = key.parent
  ) k
  where c.contype = 'f' and c.connamespace = 'public'::regnamespace
    and exists (select from pg_attribute p where p.attrelid = c.conrelid and p.attname = 'program_id')
  order by 1, c.conname`
