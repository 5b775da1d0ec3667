import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Client, DatabaseError, escapeIdentifier } from 'pg'
import { OperatorError } from './operator-error.ts'
import { runCommand } from './command.ts'

const migrationsFolder = new URL('../../migrations/', import.meta.url)

/** The lock that makes a second runner wait. The number is arbitrary. */
const advisoryLockKey = '7350163984021'

/** The first PostgreSQL version with `update … returning old`. */
const oldestPostgres = 18

export interface SqlFile {
  /** For example `0001_identity.sql` or `functions/4_attribution/leads.sql`. */
  name: string
  sql: string
  checksum: string
}

/**
 * Reads `migrations/NNNN_name.sql`, then everything below `migrations/functions/`, in the order of application. The numbered
 * folders of functions are layers, and each comes after the layers that it calls.
 */
export function readSqlFiles(folder = migrationsFolder): SqlFile[] {
  const names = readdirSync(folder, { encoding: 'utf8', recursive: true }).toSorted()
  const numbered = names.filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name))
  const functions = names.filter((name) => /^functions\/.*\.sql$/.test(name))
  return [...numbered, ...functions].map((name) => {
    const sql = readFileSync(new URL(name, folder), 'utf8')
    return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
  })
}

const isOfFunctions = ({ name }: SqlFile) => name.startsWith('functions/')

/** The first line of a numbered file whose statements can't run in a transaction, such as `create index concurrently`. */
const outsideMark = '-- outside a transaction\n'

export const isOutsideTransaction = ({ sql }: SqlFile): boolean => sql.startsWith(outsideMark)

/**
 * Brings a database to the newest schema and returns the names of the applied files. A second run changes nothing, and two
 * runners wait for each other. There are no down migrations.
 *
 * - Numbered files hold tables, constraints, indexes and data, and call no function of the project. Each is applied once, in its own
 *   transaction, and never changes afterwards. If its first line is `-- outside a transaction`, its statements run one by one, and a
 *   failure leaves the earlier ones in place. So make them repeatable: `create index concurrently if not exists`.
 * - Files of `functions/` hold the current text of the database functions, their triggers, and views. All changed files are applied in one transaction after the numbered ones. That transaction also drops functions that no file defines anymore. If a signature
 *   changes, the function gets a new name, and the old one stays in its file until no running version calls it. A numbered
 *   file drops an obsolete trigger or view.
 *
 * A statement waits up to three seconds for a lock, so that a migration behind a long query can't block all other queries. After that, the
 * file is rolled back and runs again a second later.
 *
 * If a newer version migrated the database, this prints a warning and changes nothing, because each version also runs on the schema of the
 * next one.
 *
 * @throws if the server is too old or a file fails. The error names the file and the line.
 * @throws if a numbered file was changed after it was applied, if it is older than an applied one, or if a function has two signatures.
 */
export async function migrate(databaseUrl: string, files = readSqlFiles()): Promise<string[]> {
  return await withClient(directUrl(databaseUrl), 'svc-migrate', async (client) => {
    const numbered = files.filter((file) => !isOfFunctions(file))
    const applied: string[] = []
    for (const migration of numbered) {
      if (await applyOnce(client, migration, numbered)) applied.push(migration.name)
    }
    const newer = newerThan(numbered, await appliedFiles(client))
    if (newer) {
      console.warn(newerText(newer))
      return applied
    }
    return [...applied, ...(await inTransaction(client, () => applyFunctions(client, files.filter(isOfFunctions))))]
  })
}

/** Neon's pooler shares sessions, and a migration outside a transaction holds a lock of its session. */
const directUrl = (databaseUrl: string) => databaseUrl.replace(/-pooler(?=\.[\w.-]*neon\.tech\b)/, '')

interface AppliedFile {
  name: string
  checksum: string
}

async function appliedFiles(client: Client): Promise<AppliedFile[]> {
  const { rows: tables } = await client.query<{ is_there: boolean }>(
    `select to_regclass('schema_migrations') is not null as is_there`,
  )
  if (!tables[0]?.is_there) return []
  const { rows } = await client.query<AppliedFile>('select name, checksum from schema_migrations order by name')
  return rows
}

/** Returns the newest applied file if it is newer than all of `numbered`. */
function newerThan(numbered: SqlFile[], applied: AppliedFile[]): string | undefined {
  const newest = numbered.at(-1)?.name
  return newest === undefined ? undefined : applied.findLast(({ name }) => name > newest)?.name
}

const newerText = (name: string) =>
  `The database has ${name} from a newer version. This version runs on it and leaves its schema unchanged. Deploy the newer version again, or restore a backup of this one.`

/**
 * Checks that a database has the schema of this version or a newer one. Changes nothing.
 * @throws if the server is too old, or a numbered file is not applied.
 */
export async function requireSchema(databaseUrl: string): Promise<void> {
  await withClient(databaseUrl, 'svc-migrate', async (client) => {
    const applied = await appliedFiles(client)
    const numbered = readSqlFiles().filter((file) => !isOfFunctions(file))
    const missing = numbered.find(({ name }) => !applied.some((known) => known.name === name))
    if (missing)
      throw new OperatorError(
        `The database does not have the schema of this version: ${missing.name} is not applied. Run \`npm run migrate\` with this DATABASE_URL.`,
      )
    const newer = newerThan(numbered, applied)
    if (newer) console.warn(newerText(newer))
  })
}

/**
 * Opens a connection, and checks that the server is new enough. `applicationName` is the name of the connection on the server. If the
 * connection breaks, the current statement and all later ones fail.
 */
export async function withClient<Result>(
  databaseUrl: string,
  applicationName: string,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = new Client({
    connectionString: databaseUrl,
    application_name: applicationName,
    connectionTimeoutMillis: 20_000,
  })
  // Without a listener, this event would end the process.
  client.on('error', () => {})
  await client.connect()
  try {
    await refuseOldServer(client)
    return await work(client)
  } finally {
    await client.end()
  }
}

async function refuseOldServer(client: Client): Promise<void> {
  const { rows } = await client.query<{ server_version_num: string }>('show server_version_num')
  const version = Math.floor(Number(rows[0]?.server_version_num) / 10_000)
  if (version < oldestPostgres) {
    throw new OperatorError(
      `The database runs PostgreSQL ${version}, but the service needs ${oldestPostgres} or newer. Nothing was changed. Upgrade the server, or create the database on a newer one.`,
    )
  }
}

/**
 * Runs `work` in a transaction that holds the runners' lock. The lock ends with the transaction, so it also works through a pooler that
 * shares sessions. A runner polls for the lock, because a waiting statement would block another runner's `create index concurrently`. After
 * a deadlock or a lock timeout, the transaction runs again.
 */
export async function inTransaction<Result>(
  client: Client,
  work: () => Promise<Result>,
  attemptsLeft = 60,
): Promise<Result> {
  for (;;) {
    await client.query('begin')
    if (await isTrue(client, 'select pg_try_advisory_xact_lock($1) as yes')) break
    await client.query('rollback')
    await pause(100)
  }
  try {
    await client.query(`set local lock_timeout = '3s'`)
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    // If the connection broke, that error is reported instead of this one.
    await client.query('rollback').catch(() => {})
    const cause = error instanceof OperatorError ? error.cause : error
    const code = cause instanceof DatabaseError ? cause.code : undefined
    if (attemptsLeft <= 1 || (code !== deadlock && code !== lockTimeout)) throw error
    // Gives queries that wait behind the lock time to run.
    if (code === lockTimeout) await pause(1000)
    return await inTransaction(client, work, attemptsLeft - 1)
  }
}

const deadlock = '40P01'
const lockTimeout = '55P03'

async function isTrue(client: Client, query: string): Promise<boolean> {
  const { rows } = await client.query<{ yes: boolean }>(query, [advisoryLockKey])
  return rows[0]?.yes ?? false
}

async function applyOnce(client: Client, migration: SqlFile, migrations: SqlFile[]): Promise<boolean> {
  if (!isOutsideTransaction(migration)) return await inTransaction(client, () => apply(client, migration, migrations))
  while (!(await isTrue(client, 'select pg_try_advisory_lock($1) as yes'))) await pause(100)
  try {
    return await apply(client, migration, migrations)
  } finally {
    await client.query('select pg_advisory_unlock($1)', [advisoryLockKey]).catch(() => {})
  }
}

async function apply(client: Client, migration: SqlFile, migrations: SqlFile[]): Promise<boolean> {
  await client.query(`create table if not exists schema_migrations (
    name text primary key,
    checksum text not null,
    applied_at timestamptz not null default now()
  )`)
  const applied = await appliedFiles(client)
  refuseChanged(applied, migrations)
  if (applied.some(({ name }) => name === migration.name)) return false
  const newer = applied.findLast(({ name }) => name > migration.name)
  if (newer) {
    throw new OperatorError(
      `${migration.name} is not applied, but ${newer.name} is. Give the file the next free number.`,
    )
  }
  await run(client, migration)
  await client.query('insert into schema_migrations (name, checksum) values ($1, $2)', [
    migration.name,
    migration.checksum,
  ])
  return true
}

function refuseChanged(applied: AppliedFile[], migrations: SqlFile[]): void {
  const newer = newerThan(migrations, applied)
  for (const { name, checksum } of applied) {
    const file = migrations.find((migration) => migration.name === name)
    if (!file) {
      if (newer) continue
      throw new OperatorError(
        `The database has ${name}, but this checkout does not. Check out the version that has it.`,
      )
    }
    if (file.checksum !== checksum) {
      throw new OperatorError(
        `${name} was changed after it was applied. Undo the change and put it into a new migration.`,
      )
    }
  }
}

/** Applies the changed files and returns their names. */
async function applyFunctions(client: Client, files: SqlFile[]): Promise<string[]> {
  await client.query(`create table if not exists schema_functions (
    file text primary key,
    checksum text not null,
    functions text[] not null,
    applied_at timestamptz not null default now()
  )`)
  const { rows: known } = await client.query<{ file: string; checksum: string; functions: string[] }>(
    'select file, checksum, functions from schema_functions',
  )
  const changed = files.filter(({ name, checksum }) => known.find(({ file }) => file === name)?.checksum !== checksum)
  for (const file of changed) {
    await run(client, file)
    await client.query(
      `insert into schema_functions (file, checksum, functions) values ($1, $2, $3)
      on conflict (file) do update set checksum = excluded.checksum, functions = excluded.functions, applied_at = now()`,
      [file.name, file.checksum, functionsOf(file)],
    )
  }
  const kept = new Set(files.flatMap(functionsOf))
  for (const { file, functions } of known) {
    for (const name of functions.filter((created) => !kept.has(created))) await drop(client, name, file)
  }
  await client.query('delete from schema_functions where file <> all ($1)', [files.map(({ name }) => name)])
  const { rows: twice } = await client.query<{ name: string }>(
    `select proname as name from pg_proc where pronamespace = current_schema()::regnamespace and proname = any ($1)
    group by proname having count(*) > 1`,
    [[...kept]],
  )
  if (twice[0]) {
    throw new OperatorError(
      `${twice[0].name} has two signatures now. Give the new one a new name, because the running version still calls the old one.`,
    )
  }
  return changed.map(({ name }) => name)
}

function functionsOf({ sql }: SqlFile): string[] {
  return [...sql.matchAll(/^create\s+or\s+replace\s+(?:function|aggregate)\s+(\w+)/gim)].map(([, name = '']) => name)
}

async function drop(client: Client, name: string, file: string): Promise<void> {
  try {
    await client.query(`drop routine if exists ${escapeIdentifier(name)}`)
  } catch (error) {
    throw new OperatorError(
      `${name} is no longer in ${file} and could not be dropped: ${describe(error)}\nDrop its users in a numbered migration.`,
      { cause: error },
    )
  }
}

/** Runs the statements of a file one by one, so that every error has its line. */
async function run(client: Client, file: SqlFile): Promise<void> {
  const { name, sql } = file
  for (const { start, text } of statementsOf(sql)) {
    try {
      await client.query(text)
    } catch (error) {
      const position = error instanceof DatabaseError && error.position ? Number(error.position) - 1 : 0
      const line = sql.slice(0, start + position).split('\n').length
      const undone = isOutsideTransaction(file) ? '' : ' and was rolled back'
      throw new OperatorError(`${name} failed at line ${line}${undone}: ${describe(error)}`, { cause: error })
    }
  }
}

/** Splits a text into statements with their offsets. Understands line comments, quotes and dollar quotes. */
export function statementsOf(sql: string): { start: number; text: string }[] {
  const statements: { start: number; text: string }[] = []
  let end = 0
  for (const token of sql.matchAll(/--.*|'[^']*'|"[^"]*"|(\$\w*\$)[^]*?\1|;|$/g)) {
    if (token[0] !== ';' && token[0] !== '') continue
    const [blank = ''] = /^(?:\s|--.*)*/.exec(sql.slice(end, token.index)) ?? []
    const start = end + blank.length
    if (start < token.index) statements.push({ start, text: sql.slice(start, token.index) })
    end = token.index + 1
  }
  return statements
}

function describe(error: unknown): string {
  if (!(error instanceof DatabaseError)) return String(error)
  const advice =
    error.code === lockTimeout ? 'A long query or a backup holds the lock. Run this again later.' : undefined
  return [error.message, error.detail, error.where, advice].filter(Boolean).join('\n')
}

const usage = 'npm run migrate    brings the database of DATABASE_URL to this version. Running it again changes nothing'

async function main(databaseUrl: string | undefined): Promise<void> {
  parseArgs({})
  if (!databaseUrl) {
    throw new OperatorError('DATABASE_URL is not set. Set it to the connection string of the database to migrate.')
  }
  const applied = await migrate(databaseUrl)
  console.log(applied.length === 0 ? 'The schema is up to date.' : applied.map((name) => `applied ${name}`).join('\n'))
}

if (import.meta.main) await runCommand(usage, () => main(process.env['DATABASE_URL']))
