import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'

const migrationsFolder = new URL('../../migrations/', import.meta.url)

/** Holds back a second runner. The number is this project's own and means nothing. */
const advisoryLockKey = '7350163984021'

interface Migration {
  name: string
  sql: string
  checksum: string
}

/** The files `migrations/NNNN_name.sql` in order. */
export function readMigrations(folder = migrationsFolder): Migration[] {
  const names = readdirSync(folder).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name))
  return names.toSorted().map((name) => {
    const sql = readFileSync(new URL(name, folder), 'utf8')
    return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
  })
}

/**
 * Brings a database to the newest schema and returns the names of the files it applied. Each file runs in a transaction of
 * its own that also records it, under a transaction-level advisory lock: two runners at once wait for each other, also
 * through a pooler that shares sessions, and running it again does nothing. Forward only.
 *
 * @throws where a file was changed or removed after it was applied, or is older than one applied already.
 */
export async function migrate(databaseUrl: string, migrations = readMigrations()): Promise<string[]> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: 'svc-migrate' })
  await client.connect()
  try {
    const applied: string[] = []
    for (const migration of migrations) {
      await client.query('begin')
      try {
        if (await apply(client, migration, migrations)) applied.push(migration.name)
        await client.query('commit')
      } catch (error) {
        await client.query('rollback')
        throw error
      }
    }
    return applied
  } finally {
    await client.end()
  }
}

async function apply(client: pg.Client, migration: Migration, migrations: Migration[]): Promise<boolean> {
  await client.query('select pg_advisory_xact_lock($1)', [advisoryLockKey])
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
    throw new Error(`${migration.name} is not applied, but ${newer.name} is. Give the file the next free number.`)
  }
  try {
    await client.query(migration.sql)
  } catch (error) {
    throw new Error(`${migration.name} failed and was rolled back: ${describe(error, migration.sql)}`, { cause: error })
  }
  await client.query('insert into schema_migrations (name, checksum) values ($1, $2)', [
    migration.name,
    migration.checksum,
  ])
  return true
}

function refuseChanged(applied: { name: string; checksum: string }[], migrations: Migration[]): void {
  for (const { name, checksum } of applied) {
    const file = migrations.find((migration) => migration.name === name)
    if (!file) {
      throw new Error(`The database has ${name}, which this checkout has not. Check out the version that has it.`)
    }
    if (file.checksum !== checksum) {
      throw new Error(`${name} was changed after it was applied. Undo the change and put it into a new migration.`)
    }
  }
}

/** The server's message with the line of the file it points at. */
function describe(error: unknown, sql: string): string {
  if (!(error instanceof pg.DatabaseError)) return String(error)
  const line = error.position && ` (line ${sql.slice(0, Number(error.position)).split('\n').length})`
  return [`${error.message}${line ?? ''}`, error.detail, error.where].filter(Boolean).join('\n')
}

if (import.meta.main) {
  const databaseUrl = process.env['DATABASE_URL']
  if (!databaseUrl) {
    console.error('DATABASE_URL is not set. Set it to the connection string of the database that is to be migrated.')
    process.exit(1)
  }
  try {
    const applied = await migrate(databaseUrl)
    console.log(
      applied.length === 0 ? 'The schema is up to date.' : applied.map((name) => `applied ${name}`).join('\n'),
    )
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exit(1)
  }
}
