import { createReadStream, createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { finished } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import pg from 'pg'
import { readState } from './local/state.ts'
import { migrate } from './migrate.ts'

/** The first line of a backup: the partitions that its rows are in, as statements. */
interface Header {
  partitions: string[]
}
/** Every other line: rows of a table as JSON, in an order in which they can be inserted. */
interface Rows {
  table: string
  columns: string
  rows: unknown[]
}

const rowsPerLine = 500

/** Tables before those that point at them. Foreign keys that are checked at the commit, and those within a table, do not count. */
const tablesInOrder = `
  with recursive tables as (
    select oid, relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      and relname <> 'schema_migrations'
  ),
  keys as (
    select conrelid as child, confrelid as parent from pg_constraint
    where contype = 'f' and not condeferrable and conparentid = 0 and conrelid <> confrelid
  ),
  depths as (
    select oid, 0 as depth from tables
    union all
    select k.child, d.depth + 1 from depths d join keys k on k.parent = d.oid where d.depth < 50
  )
  select t.relname as name,
    (select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute a
      where a.attrelid = t.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns,
    (select string_agg(quote_ident(attname), ', ' order by array_position(i.indkey::int2[], attnum)) from pg_index i
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = t.oid and i.indisprimary) as key
  from tables t join depths d using (oid) group by t.oid, t.relname order by max(d.depth), t.relname`

const partitionStatements = `
  select format('create table if not exists %I partition of %I %s', c.relname, p.relname, pg_get_expr(c.relpartbound, c.oid)) as statement
  from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
  where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' order by 1`

/**
 * Writes everything in a database to a file, as of one moment, while the service runs: gzipped JSON lines. It needs nothing but a
 * connection. Returns how many rows it wrote.
 */
export async function backUp(databaseUrl: string, file: string): Promise<number> {
  const client = await connect(databaseUrl)
  const lines = createGzip()
  const written = finished(lines.pipe(createWriteStream(file, { mode: 0o600 })))
  const write = async (line: Header | Rows) => {
    if (!lines.write(`${JSON.stringify(line)}\n`)) await new Promise((resolve) => lines.once('drain', resolve))
  }
  let count = 0
  try {
    await client.query('begin isolation level repeatable read read only')
    const partitions = await client.query<{ statement: string }>(partitionStatements)
    await write({ partitions: partitions.rows.map(({ statement }) => statement) })
    const tables = await client.query<{ name: string; columns: string; key: string }>(tablesInOrder)
    for (const { name, columns, key } of tables.rows) {
      await client.query(
        `declare page cursor for select to_json(t)::text as row from (select ${columns} from ${name} order by ${key}) t`,
      )
      for (;;) {
        const { rows } = await client.query<{ row: string }>(`fetch ${rowsPerLine} from page`)
        if (rows.length === 0) break
        count += rows.length
        // As text, because numbers can be larger than JavaScript's.
        await write({ table: name, columns, rows: rows.map(({ row }) => row) })
      }
      await client.query('close page')
    }
    return count
  } finally {
    await client.end()
    lines.end()
    await written
  }
}

/**
 * Restores a backup into a database without data, in one transaction: makes the schema, then the rows, then sets the counters of
 * the ids behind them. Returns how many rows it restored.
 *
 * @throws where the database holds data already.
 */
export async function restore(databaseUrl: string, file: string): Promise<number> {
  await migrate(databaseUrl)
  const client = await connect(databaseUrl)
  let count = 0
  try {
    await client.query('begin')
    const taken = await client.query('select from workspaces union all select from users limit 1')
    if (taken.rowCount !== 0)
      throw new Error('This database holds data. Restore into an empty one, then point the service at that.')
    await client.query('set constraints all deferred')
    for await (const line of createInterface({ input: createReadStream(file).pipe(createGunzip()) })) {
      // oxlint-disable-next-line no-unsafe-type-assertion -- the file is ours
      const part = JSON.parse(line) as Header | Rows
      if ('partitions' in part) {
        for (const statement of part.partitions) await client.query(statement)
        continue
      }
      await client.query(
        `insert into ${part.table} (${part.columns}) overriding system value
        select ${part.columns} from json_populate_recordset(null::${part.table}, $1::json)`,
        [`[${part.rows.join(',')}]`],
      )
      count += part.rows.length
    }
    const identities = await client.query<{ table: string; column: string; sequence: string }>(
      `select c.relname as table, a.attname as column, pg_get_serial_sequence(quote_ident(c.relname), a.attname) as sequence
      from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = 'public'::regnamespace and not c.relispartition and a.attidentity <> ''`,
    )
    for (const { table, column, sequence } of identities.rows) {
      await client.query(`select setval('${sequence}', coalesce((select max(${column}) from ${table}), 0) + 1, false)`)
    }
    await client.query('commit')
    return count
  } finally {
    await client.end()
  }
}

async function connect(databaseUrl: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: 'svc-backup' })
  await client.connect()
  return client
}

if (import.meta.main) {
  const [verb, file] = process.argv.slice(2)
  try {
    if (!file) throw new Error(`Say which file: npm run ${verb} -- backup.jsonl.gz`)
    if (verb === 'backup') {
      const databaseUrl = process.env['DATABASE_URL'] ?? readState().environment.DATABASE_URL
      console.log(`${await backUp(databaseUrl, file)} rows are in ${file}.`)
    } else {
      const databaseUrl = process.env['DATABASE_URL']
      if (!databaseUrl)
        throw new Error('DATABASE_URL is not set. Set it to the connection string of an empty database.')
      console.log(`${await restore(databaseUrl, file)} rows are restored. Run npm run audit on the database now.`)
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
