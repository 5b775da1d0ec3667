import type { ClientBase } from 'pg'
import { isOutsideTransaction, type SqlFile, statementsOf } from '../../lib/commands/migrate.ts'

/** The parts of the catalog that a statement can change. Names identify tables, columns, constraints and indexes. */
interface Catalog {
  tables: Record<string, { file: string }>
  columns: Record<string, { table: string; type: string; is_required: boolean; has_default: boolean }>
  constraints: Record<string, { table: string; kind: string; is_valid: boolean }>
  indexes: Record<string, { table: string }>
}

const readCatalog = `select
  (select json_object_agg(c.oid::regclass, json_build_object('file', c.relfilenode))
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')) as tables,
  (select json_object_agg(c.oid::regclass || '.' || a.attname, json_build_object('table', c.oid::regclass,
      'type', format_type(a.atttypid, a.atttypmod), 'is_required', a.attnotnull, 'has_default', a.atthasdef or a.attidentity <> ''))
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')) as columns,
  (select json_object_agg(k.conrelid::regclass || '.' || k.conname, json_build_object('table', k.conrelid::regclass,
      'kind', k.contype, 'is_valid', k.convalidated))
    from pg_constraint k where k.connamespace = 'public'::regnamespace and k.conrelid <> 0 and k.contype in ('c', 'f', 'p', 'u', 'x')) as constraints,
  (select json_object_agg(i.indexrelid::regclass, json_build_object('table', i.indrelid::regclass))
    from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace = 'public'::regnamespace) as indexes`

/**
 * Applies a migration to a database in the state before the migration. Returns a sentence for each hazard that would block or break the
 * running version. It compares the catalog before and after each statement, so Postgres itself decides what a statement does. A table that
 * the same file creates is exempt. The changes are rolled back unless the file runs outside a transaction.
 */
export async function hazardsOf(sql: ClientBase, file: SqlFile): Promise<string[]> {
  const isOutside = isOutsideTransaction(file)
  const catalog = async () => (await sql.query<Catalog>(readCatalog)).rows[0] as Catalog
  const start = await catalog()
  const hazards: string[] = []
  if (!isOutside) await sql.query('begin')
  try {
    let before = start
    for (const { text } of statementsOf(file.sql)) {
      await sql.query(text)
      const after = await catalog()
      hazards.push(...differences(before, after, start, /\bconcurrently\b/i.test(text)))
      before = after
    }
    if (!isOutside) hazards.push(...(await changedRows(sql, start)))
  } finally {
    if (!isOutside) await sql.query('rollback')
  }
  return hazards
}

function differences(before: Catalog, after: Catalog, start: Catalog, isConcurrent: boolean): string[] {
  const isOld = (table: string) => table in start.tables
  const found: string[] = []
  for (const [table, { file }] of Object.entries(before.tables)) {
    const now = after.tables[table]
    if (!isOld(table)) continue
    if (!now) found.push(`${table} is gone, but the running version uses it. Drop or rename it a release later.`)
    else if (now.file !== file) found.push(`${table} is rewritten or emptied, and nobody can read it meanwhile.`)
  }
  for (const [name, { table, type, is_required }] of Object.entries(before.columns)) {
    const now = after.columns[name]
    if (!isOld(table) || !(table in after.tables)) continue
    if (!now) found.push(`${name} is gone, but the running version uses it. Drop or rename it a release later.`)
    else if (now.type !== type) found.push(`${name} gets another type. Add a new column instead.`)
    else if (now.is_required && !is_required)
      found.push(`${name} becomes required, which checks all rows. Add a check constraint that is not valid first.`)
  }
  for (const [name, { table, is_required, has_default }] of Object.entries(after.columns))
    if (isOld(table) && !(name in before.columns) && is_required && !has_default)
      found.push(`${name} is required, but the running version doesn't set it. Give it a default.`)
  for (const [name, { table, kind, is_valid }] of Object.entries(after.constraints))
    if (isOld(table) && !(name in before.constraints) && is_valid && 'cf'.includes(kind))
      found.push(`${name} checks all rows under a lock. Add it as not valid, and validate it in the next file.`)
  const [built, dropped] = [added(after.indexes, before.indexes), added(before.indexes, after.indexes)]
  for (const [name, { table }] of isConcurrent ? [] : built)
    if (isOld(table)) found.push(`${name} is built under a lock. Use "create index concurrently".`)
  for (const [name, { table }] of isConcurrent ? [] : dropped)
    if (isOld(table) && table in after.tables)
      found.push(`${name} is dropped under a lock. Use "drop index concurrently".`)
  return found
}

const added = <Entry>(entries: Record<string, Entry>, than: Record<string, Entry>) =>
  Object.entries(entries).filter(([name]) => !(name in than))

/** Returns existing tables whose rows a transaction changes. */
async function changedRows(sql: ClientBase, start: Catalog): Promise<string[]> {
  const { rows } = await sql.query<{ name: string }>(
    `select distinct relation::regclass::text as name from pg_locks where pid = pg_backend_pid() and mode = 'RowExclusiveLock' and relation is not null`,
  )
  const changed = rows.filter(({ name }) => name in start.tables)
  return changed.map(
    ({ name }) => `${name}: its rows are locked until the end of the file. Change them in small batches.`,
  )
}
