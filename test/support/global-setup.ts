import { accessSync, constants, mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { isAlive } from '../../lib/commands/processes.ts'
import { startPostgres } from '../../lib/serve/embedded-postgres.ts'
import { builtFunctions, type WorkerModule } from '../../lib/local/workers.ts'
import { migrate } from '../../lib/commands/migrate.ts'
import { unpackChromium } from './chromium.ts'

/** This folder is kept between runs. An entry is identified by the hash of its source. */
const compileCache = fileURLToPath(new URL('../../node_modules/.cache/compiled/', import.meta.url))

declare module 'vitest' {
  interface ProvidedContext {
    /** The connection string of the test server's `postgres` database. */
    adminUrl: string
    /** The folder with the modules of the built functions. */
    scriptsFolder: string
    /** The files of each function by its name, with the entry file first. */
    modulesOf: Record<string, string[]>
    /** False if no test in the run starts a function, so that no function is built. */
    withFunctions?: boolean
  }
}

const memory = '/dev/shm'
const roomWanted = 6 * 2 ** 30

/**
 * The folder of the databases, which is in memory if the machine has enough. Each database has 800 files, and a file system on disk takes
 * five times as much CPU time for them.
 */
function placeOfDatabases(): string {
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    return Math.min(bavail * bsize, process.availableMemory()) > roomWanted ? memory : tmpdir()
  } catch {
    return tmpdir()
  }
}

/** Removes what killed runs left in memory. The folder's name contains the process id. */
function removeLeftovers(place: string): void {
  for (const name of readdirSync(place)) {
    const [, pid] = /^svc-test-(\d+)-/.exec(name) ?? []
    if (pid === undefined || isAlive(Number(pid))) continue
    try {
      rmSync(path.join(place, name), { recursive: true, force: true })
    } catch {
      // The folder belongs to another user.
    }
  }
}

/**
 * Starts one Postgres for all test files with the migrated database that they clone, builds the functions once, and
 * unpacks Chromium. The server doesn't wait for disks, because its data isn't needed after the run.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { withFunctions } = project.getProvidedContext()
  // The processes that tests start read the same files again and again.
  process.env['NODE_COMPILE_CACHE'] = compileCache
  const place = placeOfDatabases()
  removeLeftovers(place)
  const folder = mkdtempSync(path.join(place, `svc-test-${process.pid}-`))
  const bundling = withFunctions === false ? Promise.resolve(new Map<string, WorkerModule[]>()) : builtFunctions()
  // This runs once for a new checkout, because otherwise several test files would do it.
  const unpacking = unpackChromium()
  // The setup awaits this promise when the database is ready.
  bundling.catch(() => {})
  unpacking.catch(() => {})
  const postgres = await startPostgres({
    dataFolder: path.join(folder, 'postgres'),
    password: 'test',
    // Databases that exist for seconds don't need vacuuming.
    settings: ['fsync=off', 'full_page_writes=off', 'synchronous_commit=off', 'autovacuum=off'],
  })
  const cleanUp = async () => {
    await postgres.stop()
    rmSync(folder, { recursive: true })
  }
  try {
    await migrate(postgres.urlOf('template1'))
    const scriptsFolder = path.join(folder, 'functions')
    mkdirSync(scriptsFolder)
    const bundles = await bundling
    const written = new Map([...bundles.values()].flat().map((module) => [module.path, module.contents]))
    for (const [file, contents] of written) writeFileSync(path.join(scriptsFolder, file), contents)
    const modulesOf = Object.fromEntries(
      Array.from(bundles, ([name, modules]) => [name, modules.map((module) => module.path)]),
    )
    await unpacking
    project.provide('adminUrl', postgres.urlOf('postgres'))
    project.provide('scriptsFolder', scriptsFolder)
    project.provide('modulesOf', modulesOf)
    return cleanUp
  } catch (error) {
    await cleanUp()
    throw error
  }
}
