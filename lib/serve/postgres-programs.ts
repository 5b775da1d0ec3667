import { execFileSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { OperatorError } from '../commands/operator-error.ts'

/** The oldest major version of PostgreSQL that the service runs on. */
const oldestMajor = 18

/** Returns the folders of PostgreSQL in Debian, Red Hat, Alpine and Homebrew, and those of `PATH`. */
const systemFolders = (): string[] => [
  ...globSync(['/usr/lib/postgresql/*/bin', '/usr/pgsql-*/bin', '/usr/libexec/postgresql*']),
  ...globSync(['/opt/homebrew/opt/postgresql@*/bin', '/usr/local/opt/postgresql@*/bin']),
  ...(process.env['PATH'] ?? '').split(path.delimiter),
]

/**
 * Returns the folder with the programs of the operating system's PostgreSQL: in the version that created the data, or else in the newest
 * one. Returns undefined if there is none.
 */
export function findSystemPrograms(dataFolder: string, folders = systemFolders()): string | undefined {
  const wanted = majorOfData(dataFolder)
  const found = folders
    .filter((folder) => path.isAbsolute(folder) && existsSync(path.join(folder, 'initdb')))
    .map((folder) => ({ folder, major: majorOf(folder) }))
    .filter(({ major }) => major >= oldestMajor && (wanted === undefined || major === wanted))
  return found.toSorted((a, b) => b.major - a.major)[0]?.folder
}

/** Refuses data from another major version. Postgres itself reports this only in its log. */
export function requireSameMajor(dataFolder: string, programs: string): void {
  const [created, major] = [majorOfData(dataFolder), majorOf(programs)]
  if (created === major) return
  throw new OperatorError(
    `PostgreSQL ${created} created the data in ${dataFolder}, but this is PostgreSQL ${major}. Install PostgreSQL ${created}, or move the data to ${major} as described in lib/serve/README.md.`,
  )
}

/** Returns the major version of the programs in a folder, or 0 if they don't run. */
function majorOf(folder: string): number {
  try {
    const version = execFileSync(path.join(folder, 'postgres'), ['--version'], { encoding: 'utf8', stdio: 'pipe' })
    return Number(/\(PostgreSQL\) (\d+)/.exec(version)?.[1] ?? 0)
  } catch {
    return 0
  }
}

/** Returns the major version that created the data, or undefined if there is no data yet. */
function majorOfData(dataFolder: string): number | undefined {
  const file = path.join(dataFolder, 'PG_VERSION')
  return existsSync(file) ? Number.parseInt(readFileSync(file, 'utf8')) : undefined
}
