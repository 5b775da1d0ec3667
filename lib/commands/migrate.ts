import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { Client, DatabaseError, escapeIdentifier } from 'pg'
import { OperatorError } from './operator-error.ts'
import { runCommand } from './command.ts'

const migrationsFolder = new URL('../../migrations/', import.meta.url)

/** Holds back a second runner. The number is this project's own and means nothing. */
const advisoryLockKey = '7350163984021'

/** `update … returning old` is of this version. */
const oldestPostgres = 18

export interface SqlFile {
  /** `0001_identity.sql`, or `functions/4_attribution/leads.sql`. */
  name: string
  sql: string
  checksum: string
}

/**
 * Reads `migrations/NNNN_name.sql`, then everything below `migrations/functions/`, in the order in which they are applied. The numbered
 * folders of functions are layers: each is applied after the ones it calls.
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

/**
 * Brings a database to the newest schema and returns the names of the files it applied. Running it again does nothing, and two
 * runners at once wait for each other. Forward only.
 *
 * - Numbered files hold tables, constraints, indexes, views and data, and call no function of the project. Each is applied once, in a
 *   transaction of its own. It never changes after a database has it.
 * - Files of `functions/` are the living text of the database's functions and of the triggers that call them. They are applied after
 *   the numbered ones, all that changed in one transaction, and a function that no file has any more is dropped. So that a version
 *   can run on while the next one is deployed, a changed signature takes a new name, and the old function stays in its file
 *   until no running version calls it. A trigger that goes is dropped in a numbered file.
 *
 * @throws where the server is too old; where a file fails, with its name and the line; where a numbered file was changed or removed
 * after it was applied, or is older than one applied already; where a function has two signatures.
 */
export async function migrate(databaseUrl: string, files = readSqlFiles()): Promise<string[]> {
  return await withClient(databaseUrl, 'svc-migrate', async (client) => {
    const numbered = files.filter((file) => !isOfFunctions(file))
    const applied: string[] = []
    for (const migration of numbered) {
      if (await inTransaction(client, () => apply(client, migration, numbered))) applied.push(migration.name)
    }
    return [...applied, ...(await inTransaction(client, () => applyFunctions(client, files.filter(isOfFunctions))))]
  })
}

/**
 * Sees that a database has the schema of this version, or one after it, and changes nothing.
 * @throws where the server is too old, or a numbered file is not applied.
 */
export async function requireSchema(databaseUrl: string): Promise<void> {
  await withClient(databaseUrl, 'svc-migrate', async (client) => {
    const { rows } = await client.query<{ is_there: boolean }>(
      `select to_regclass('schema_migrations') is not null as is_there`,
    )
    const applied = rows[0]?.is_there
      ? await client.query<{ name: string }>('select name from schema_migrations')
      : undefined
    const names = new Set(applied?.rows.map(({ name }) => name))
    const missing = readSqlFiles().find((file) => !isOfFunctions(file) && !names.has(file.name))
    if (missing)
      throw new OperatorError(
        `The database has not the schema of this version: ${missing.name} is not applied. Run \`npm run migrate\` with this DATABASE_URL.`,
      )
  })
}

/** A connection to a server that is new enough, under a name that the server shows. One that breaks fails the statement under way, and each after it. */
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
  // Without a listener this event would end the process.
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
      `The database runs PostgreSQL ${version}, and the service needs ${oldestPostgres} or newer. Nothing was changed. Upgrade the server, or make the database on a newer one.`,
    )
  }
}

/**
 * The lock ends with the transaction, so it also works through a pooler that shares sessions. A transaction that the calls of a running
 * version deadlocked with was rolled back whole, and is tried again.
 */
async function inTransaction<Result>(client: Client, work: () => Promise<Result>, attemptsLeft = 20): Promise<Result> {
  await client.query('begin')
  try {
    await client.query('select pg_advisory_xact_lock($1)', [advisoryLockKey])
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    // Where the connection broke, why it did is what is told.
    await client.query('rollback').catch(() => {})
    if (attemptsLeft > 1 && isDeadlock(error)) return await inTransaction(client, work, attemptsLeft - 1)
    throw error
  }
}

const isDeadlock = (error: unknown) =>
  error instanceof Error && error.cause instanceof DatabaseError && error.cause.code === '40P01'

async function apply(client: Client, migration: SqlFile, migrations: SqlFile[]): Promise<boolean> {
  await client.query(`create table if not exists schema_migrations (
    name text primary key,
    checksum text not null,
    applied_at timestamptz not null default now()
  )`)
  const { rows } = await client.query<{ name: string; checksum: string }>(
    'select name, checksum from schema_migrations order by name',
  )
  refuseChanged(rows, migrations)
  if (rows.some(({ name }) => name === migration.name)) return false
  const newer = rows.findLast(({ name }) => name > migration.name)
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

function refuseChanged(applied: { name: string; checksum: string }[], migrations: SqlFile[]): void {
  for (const { name, checksum } of applied) {
    const file = migrations.find((migration) => migration.name === name)
    if (!file) {
      throw new OperatorError(
        `The database has ${name}, which this checkout has not. Check out the version that has it.`,
      )
    }
    if (file.checksum !== checksum) {
      throw new OperatorError(
        `${name} was changed after it was applied. Undo the change and put it into a new migration.`,
      )
    }
  }
}

/** Applies the files whose text is another than what the database has, and returns their names. */
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
    for (const name of functions.filter((made) => !kept.has(made))) await drop(client, name, file)
  }
  await client.query('delete from schema_functions where file <> all ($1)', [files.map(({ name }) => name)])
  const { rows: twice } = await client.query<{ name: string }>(
    `select proname as name from pg_proc where pronamespace = current_schema()::regnamespace and proname = any ($1)
    group by proname having count(*) > 1`,
    [[...kept]],
  )
  if (twice[0]) {
    throw new OperatorError(
      `${twice[0].name} has two signatures now. Give the new one a new name: a version that runs still calls the old one.`,
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
      `${name} stands in ${file} no more and could not be dropped: ${describe(error)}\nDrop what uses it in a numbered migration.`,
      { cause: error },
    )
  }
}

/** Runs the statements of a file one by one, so that every failure has its line. */
async function run(client: Client, { name, sql }: SqlFile): Promise<void> {
  for (const { start, text } of statementsOf(sql)) {
    try {
      await client.query(text)
    } catch (error) {
      const position = error instanceof DatabaseError && error.position ? Number(error.position) - 1 : 0
      const line = sql.slice(0, start + position).split('\n').length
      throw new OperatorError(`${name} failed in line ${line} and was rolled back: ${describe(error)}`, {
        cause: error,
      })
    }
  }
}

/** The statements of a text with their places in it. Knows comments of a line, quotes and dollar quotes. */
function statementsOf(sql: string): { start: number; text: string }[] {
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
  return [error.message, error.detail, error.where].filter(Boolean).join('\n')
}

const usage = 'npm run migrate    brings the database of DATABASE_URL to this version; running it again does nothing'

async function main(databaseUrl: string | undefined): Promise<void> {
  parseArgs({})
  if (!databaseUrl) {
    throw new OperatorError(
      'DATABASE_URL is not set. Set it to the connection string of the database that is to be migrated.',
    )
  }
  const applied = await migrate(databaseUrl)
  console.log(applied.length === 0 ? 'The schema is up to date.' : applied.map((name) => `applied ${name}`).join('\n'))
}

if (import.meta.main) await runCommand(usage, () => main(process.env['DATABASE_URL']))
