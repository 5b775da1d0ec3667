import { Decrypter, Encrypter } from 'age-encryption'
import { createReadStream, createWriteStream, renameSync, rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { createGunzip, createGzip } from 'node:zlib'
import { type Client, DatabaseError } from 'pg'
import copyStreams from 'pg-copy-streams'
import color from 'picocolors'
import { archivedUntil } from './archive.ts'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'
import { readFingerprints, refuseOthers } from './secrets.ts'
import { runCommand } from './command.ts'
import { inTransaction, migrate, withClient } from './migrate.ts'

/**
 * The first line of a backup. A backup is gzipped SQL with `copy … from stdin` blocks like in pg_dump, from one snapshot of all rows. The
 * migrations create the schema, so this line lists the migrations that match the rows.
 */
const header = '-- svc backup of migrations: '

/** Tables with their stored columns. Each table comes after the tables that it references. */
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

/** Creates the partitions of old months. */
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

/** The file extension of encrypted backups (age-encryption.org). */
const encrypted = '.age'

// oxlint-disable-next-line no-unsafe-type-assertion -- the types of Node's streams and the web's differ
const asWeb = (bytes: Readable) => Readable.toWeb(bytes) as ReadableStream<Uint8Array>

function encrypterFor(recipient: string | undefined): Encrypter {
  const encrypter = new Encrypter()
  try {
    encrypter.addRecipient(recipient ?? '')
  } catch {
    throw new OperatorError('Set BACKUP_RECIPIENT to an age recipient. age-keygen prints one, which begins with age1.')
  }
  return encrypter
}

/**
 * Writes all rows of one snapshot to `file` and returns the number of tables. Skips the clicks of months in `archive`. A file that
 * ends in .age is encrypted for `recipient`.
 */
export async function backup(databaseUrl: string, file: string, recipient?: string, archive?: string): Promise<number> {
  if (recipient && !file.endsWith(encrypted))
    throw new OperatorError(
      `BACKUP_RECIPIENT is set, so the backup is encrypted. Choose a file name that ends in ${encrypted}.`,
    )
  const encrypter = file.endsWith(encrypted) ? encrypterFor(recipient) : undefined
  const since = archivedUntil(archive)
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
        // A plain COPY reads only the empty parent of a partitioned table, so this copies the result of a query.
        yield* client.query(
          copyStreams.to(`copy (select ${columns} from ${name}${since ? archivedRows(name, since) : ''}) to stdout`),
        )
        yield '\\.\n'
      }
      const { rows: sequences } = await client.query<{ statement: string }>(sequencesQuery)
      for (const { statement } of sequences) yield `${statement};\n`
    }
    // The file is renamed only when it is complete, so that an interrupted backup never replaces an earlier one.
    const part = `${file}.part`
    try {
      await pipeline(
        Readable.from(lines()),
        createGzip(),
        async function* (bytes) {
          yield* encrypter ? await encrypter.encrypt(asWeb(Readable.from(bytes))) : bytes
        },
        createWriteStream(part, { mode: 0o600, flush: true }),
      )
      renameSync(part, file)
    } finally {
      // This frees the space if the disk is full.
      rmSync(part, { force: true })
    }
    return tables.length
  })
}

/** Limits the tables of an archive to the months since `since`. */
function archivedRows(table: string, since: string): string {
  if (table === 'affiliate_click_events') return ` where click_timestamp >= '${since} 00:00+00'`
  return table === 'click_parts' || table === 'rewritten_months' ? ` where month >= '${since}'` : ''
}

function damagedText(file: string, code: string): string {
  return `${file} is damaged or not a backup (${code}). Nothing was loaded. Use another backup.`
}

/** Reads a backup's file, and decrypts it with `identity` if it is encrypted. */
async function* bytesOf(file: string, identity: string | undefined): AsyncGenerator<Uint8Array, undefined> {
  const bytes = createReadStream(file)
  if (!file.endsWith(encrypted)) {
    yield* bytes
    return
  }
  const decrypter = new Decrypter()
  try {
    decrypter.addIdentity(identity?.trim() ?? '')
  } catch {
    throw new OperatorError('Set BACKUP_IDENTITY to the age identity of the backup, which begins with AGE-SECRET-KEY-.')
  }
  try {
    yield* await decrypter.decrypt(asWeb(bytes))
  } catch (error) {
    if (!(error instanceof Error) || 'code' in error) throw error
    if (error.message.includes('no identity matched'))
      throw new OperatorError(`BACKUP_IDENTITY does not belong to the recipient of ${file}.`)
    throw new OperatorError(damagedText(file, error.message))
  }
}

/**
 * Reads the lines of a backup. Only a line feed ends a line, because rows can contain the other characters at which Node's readline splits.
 */
async function* linesOf(file: string, identity: string | undefined): AsyncGenerator<string, undefined> {
  let rest = ''
  // The file is opened here, so that this loop throws the error if it can't be opened.
  const source = Readable.from(bytesOf(file, identity))
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
        `${file} is incomplete: its end is missing. Nothing was loaded. Use the original copy or another backup.`,
      )
    }
    if (code.startsWith('Z_')) {
      throw new OperatorError(damagedText(file, code))
    }
    throw error
  }
}

/**
 * Creates the schema and loads a backup into an empty database in one transaction. Refuses a database with rows, and a backup with other
 * migrations. Also refuses secrets that differ from the secrets of this database's service, unless `replacedSecrets` lists them. Statements
 * of a running service have to wait, so the service returns 503 and its callers retry.
 */
export async function restore(
  databaseUrl: string,
  file: string,
  replacedSecrets?: string,
  identity?: string,
): Promise<void> {
  await migrate(databaseUrl)
  try {
    await withClient(databaseUrl, 'svc-restore', (client) => load(client, linesOf(file, identity), replacedSecrets))
  } catch (error) {
    // A damaged file can yield an invalid row or statement before gunzip finds the wrong checksum.
    if (error instanceof DatabaseError && /^(22|23|42)/.test(error.code ?? '')) {
      throw new OperatorError(damagedText(file, String(error.code)))
    }
    throw error
  }
}

async function load(
  client: Client,
  source: AsyncGenerator<string, undefined>,
  replacedSecrets: string | undefined,
): Promise<void> {
  const { rows } = await client.query('select from users union all (select from programs) limit 1')
  if (rows.length > 0) throw new OperatorError('This database has rows. Restore into an empty database.')
  // A running service holds locks in another order, so this can take several attempts. After that, nothing waits.
  await inTransaction(client, async () => {
    const { rows: tables } = await client.query<{ name: string }>(tablesQuery)
    await client.query(`lock table ${tables.map(({ name }) => name).join(', ')} in access exclusive mode`)
    await fill(client, source, replacedSecrets)
  })
  // Without statistics, the planner would choose nested loops over whole tables, and an audit would take hours.
  await client.query('analyze')
}

/** Loads the rows of a backup into locked, empty tables. */
async function fill(
  client: Client,
  source: AsyncGenerator<string, undefined>,
  replacedSecrets: string | undefined,
): Promise<void> {
  const first = String((await source.next()).value)
  const migrations = await appliedMigrations(client)
  if (first !== header + migrations) {
    throw new OperatorError('The backup was created by another version. Restore it with that version, then migrate.')
  }
  async function* blockRows() {
    for (let line = await source.next(); !line.done && line.value !== '\\.'; line = await source.next())
      yield `${line.value}\n`
  }
  // The backup contains the audit log of its own rows.
  await client.query("select set_config('svc.restoring', 'on', true)")
  const running = await readFingerprints(client)
  await client.query('delete from secret_fingerprints')
  // A running service has already audited the empty database.
  await client.query('delete from audits; delete from audit_findings')
  for (let line = await source.next(); !line.done; line = await source.next()) {
    const statement = line.value.replace(/;$/, '')
    if (statement.endsWith('from stdin'))
      await pipeline(Readable.from(blockRows()), client.query(copyStreams.from(statement)))
    else await client.query(statement)
  }
  refuseOthers(await readFingerprints(client), running, replacedSecrets)
}

const usage = `npm run backup -- FILE     writes all rows of DATABASE_URL, or of the running local stack, to FILE (gzip)
npm run restore -- FILE    loads FILE into the empty database of DATABASE_URL, all or nothing

With ARCHIVE_FOLDER, a backup skips the clicks of months that are archived there (npm run archive).
A FILE that ends in .age is encrypted for the age recipient BACKUP_RECIPIENT, and restored with the identity BACKUP_IDENTITY.`

async function main(): Promise<void> {
  const [command, file] = parseArgs({ allowPositionals: true }).positionals
  const { DATABASE_URL, REPLACED_SECRETS, BACKUP_RECIPIENT, BACKUP_IDENTITY, ARCHIVE_FOLDER } = process.env
  if (!file) throw new OperatorError(`Name the file:\n\n${usage}`)
  if (command === 'restore') {
    if (!DATABASE_URL) throw new OperatorError('Set DATABASE_URL to the empty database for the backup.')
    await restore(DATABASE_URL, file, REPLACED_SECRETS, BACKUP_IDENTITY)
    console.log(`${color.green('✓')} ${file} is restored. Check it now: npm run audit`)
  } else {
    const tables = await backup(commandDatabase().DATABASE_URL, file, BACKUP_RECIPIENT, ARCHIVE_FOLDER)
    console.log(`${color.green('✓')} ${tables} tables are in ${file}`)
  }
}

if (import.meta.main) await runCommand(usage, main)
