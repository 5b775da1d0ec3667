import { createReadStream, createWriteStream, renameSync, rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { createGunzip, createGzip } from 'node:zlib'
import { type Client, DatabaseError } from 'pg'
import copyStreams from 'pg-copy-streams'
import color from 'picocolors'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'
import { readFingerprints, refuseOthers } from './secrets.ts'
import { runCommand } from './command.ts'
import { migrate, withClient } from './migrate.ts'

/**
 * A backup is gzipped SQL, `copy … from stdin` blocks as pg_dump writes them, of one snapshot of all rows. The schema is not in
 * it: the migrations make it, and the first line names those that the rows fit.
 */
const header = '-- svc backup of migrations: '

/** Tables with the columns that hold facts, so that each comes after those that it refers to. */
const tablesQuery = `with recursive relation as (
  select c.oid, c.oid::regclass::text as name from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname not in ('schema_migrations', 'schema_functions')
), depth as (
  select oid, 0 as level from relation
  union
  select k.conrelid, d.level + 1 from depth d join pg_constraint k on k.confrelid = d.oid
  where k.contype = 'f' and k.conrelid <> k.confrelid and k.conparentid = 0 and d.level < 20
)
select r.name, (select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute a
    where a.attrelid = r.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns
from relation r join depth d on d.oid = r.oid group by r.oid, r.name order by max(d.level), r.name`

/** What makes the rows of old months land in a partition of their own again. */
const partitionsQuery = `select format('create table if not exists %s partition of %s %s', i.inhrelid::regclass, i.inhparent::regclass,
  pg_get_expr(c.relpartbound, c.oid)) as statement
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname !~ '_default$' order by 1`

const sequencesQuery = `select format('select setval(%L, %s, %L)', s.schemaname || '.' || s.sequencename, coalesce(s.last_value, s.start_value),
  s.last_value is not null) as statement
from pg_sequences s where s.schemaname = 'public' order by 1`

async function appliedMigrations(client: Client): Promise<string> {
  const { rows } = await client.query<{ name: string }>('select name from schema_migrations order by name')
  return rows.map(({ name }) => name).join(' ')
}

/** Writes all rows of a database, of one moment, to `file`, and returns how many tables that were. */
export async function backup(databaseUrl: string, file: string): Promise<number> {
  return await withClient(databaseUrl, 'svc-backup', async (client) => {
    await client.query('begin isolation level repeatable read read only')
    const { rows: tables } = await client.query<{ name: string; columns: string }>(tablesQuery)
    const { rows: partitions } = await client.query<{ statement: string }>(partitionsQuery)
    const migrations = await appliedMigrations(client)
    async function* lines() {
      yield `${header}${migrations}\n`
      for (const { statement } of partitions) yield `${statement};\n`
      for (const { name, columns } of tables) {
        yield `copy ${name} (${columns}) from stdin;\n`
        // A partitioned table is read through a query, because a plain COPY reads the empty parent.
        yield* client.query(copyStreams.to(`copy (select ${columns} from ${name}) to stdout`))
        yield '\\.\n'
      }
      const { rows: sequences } = await client.query<{ statement: string }>(sequencesQuery)
      for (const { statement } of sequences) yield `${statement};\n`
    }
    // Under another name until it is whole, so that a backup that broke off takes no other's place.
    const part = `${file}.part`
    try {
      await pipeline(Readable.from(lines()), createGzip(), createWriteStream(part, { mode: 0o600, flush: true }))
      renameSync(part, file)
    } finally {
      // Also no room, where the disk was full.
      rmSync(part, { force: true })
    }
    return tables.length
  })
}

function damagedText(file: string, code: string): string {
  return `${file} is no backup, or was damaged (${code}). Nothing of it was loaded. Take another.`
}

/** The lines of a backup. They end at a line feed alone: text can hold the other characters that Node's readline takes for an end. */
async function* linesOf(file: string): AsyncGenerator<string, undefined> {
  let rest = ''
  // Opened here, so that an error of it is one of the reading.
  const source = createReadStream(file)
  const text = source.pipe(createGunzip()).setEncoding('utf8')
  source.once('error', (error) => text.destroy(error))
  try {
    for await (const chunk of text) {
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (code === 'Z_BUF_ERROR') {
      throw new OperatorError(
        `${file} is cut off: its end is missing, so nothing of it was loaded. Take the copy that was made first, or another backup.`,
      )
    }
    if (code.startsWith('Z_')) {
      throw new OperatorError(damagedText(file, code))
    }
    throw error
  }
}

/**
 * Loads a backup into an empty database, as one transaction: it is there whole or not at all. Makes the schema first. Refuses a
 * database that has rows, a backup that other migrations were applied to, and one made with other secrets than those of the service
 * that runs on the database, unless `replacedSecrets` names them.
 */
export async function restore(databaseUrl: string, file: string, replacedSecrets?: string): Promise<void> {
  await migrate(databaseUrl)
  try {
    await withClient(databaseUrl, 'svc-restore', (client) => load(client, file, replacedSecrets))
  } catch (error) {
    // What a damaged file unpacks to can be no row, or one that is not allowed, or no statement, before its checksum is read.
    if (error instanceof DatabaseError && /^(22|23|42)/.test(error.code ?? '')) {
      throw new OperatorError(damagedText(file, String(error.code)))
    }
    throw error
  }
}

async function load(client: Client, file: string, replacedSecrets: string | undefined): Promise<void> {
  const { rows } = await client.query('select from users union all (select from programs) limit 1')
  if (rows.length > 0) throw new OperatorError('This database has rows. Restore into an empty one.')
  const source = linesOf(file)
  const first = String((await source.next()).value)
  const migrations = await appliedMigrations(client)
  if (first !== header + migrations) {
    throw new OperatorError(
      'The backup was made with other migrations. Restore it with the version that made it, then migrate.',
    )
  }
  async function* blockRows() {
    for (let line = await source.next(); !line.done && line.value !== '\\.'; line = await source.next())
      yield `${line.value}\n`
  }
  await client.query('begin')
  // The backup holds the audit log of its own rows.
  await client.query("select set_config('svc.restoring', 'on', true)")
  const running = await readFingerprints(client)
  await client.query('delete from secret_fingerprints')
  for (let line = await source.next(); !line.done; line = await source.next()) {
    const statement = line.value.replace(/;$/, '')
    if (statement.endsWith('from stdin'))
      await pipeline(Readable.from(blockRows()), client.query(copyStreams.from(statement)))
    else await client.query(statement)
  }
  refuseOthers(await readFingerprints(client), running, replacedSecrets)
  await client.query('commit')
  // Without statistics an audit of it plans joins of whole tables as nested loops, and takes hours where it takes seconds.
  await client.query('analyze')
}

const usage = `npm run backup -- FILE     writes all rows of DATABASE_URL, or of the running local stack, to FILE (gzip)
npm run restore -- FILE    loads FILE into the empty database of DATABASE_URL, all or nothing`

async function main(): Promise<void> {
  const [command, file] = parseArgs({ allowPositionals: true }).positionals
  const { DATABASE_URL, REPLACED_SECRETS } = process.env
  if (!file) throw new OperatorError(`Name the file:\n\n${usage}`)
  if (command === 'restore') {
    if (!DATABASE_URL) throw new OperatorError('Set DATABASE_URL to the empty database that takes the backup.')
    await restore(DATABASE_URL, file, REPLACED_SECRETS)
    console.log(`${color.green('✓')} ${file} is restored. Now prove it: npm run audit`)
  } else {
    const tables = await backup(commandDatabase().DATABASE_URL, file)
    console.log(`${color.green('✓')} ${tables} tables are in ${file}`)
  }
}

if (import.meta.main) await runCommand(usage, main)
