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

/** Kept between runs; what it holds is known by the hash of its source. */
const compileCache = fileURLToPath(new URL('../../node_modules/.cache/compiled/', import.meta.url))

declare module 'vitest' {
  interface ProvidedContext {
    /** Connection string of the test server's database `postgres`. */
    adminUrl: string
    /** Folder of the built functions' modules. */
    scriptsFolder: string
    /** The files there that each function has, by its name; the one that is called first. */
    modulesOf: Record<string, string[]>
    /** False where no test of the run starts a function, so that none is built. */
    withFunctions?: boolean
  }
}

const memory = '/dev/shm'
const roomWanted = 6 * 2 ** 30

/**
 * Where the databases lie: in memory where the machine has plenty. Each is 800 files, which a disk's file system makes and removes in five
 * times the processor time.
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

/** What runs that were killed left in memory, by the process that their folder names. */
function removeLeftovers(place: string): void {
  for (const name of readdirSync(place)) {
    const [, pid] = /^svc-test-(\d+)-/.exec(name) ?? []
    if (pid === undefined || isAlive(Number(pid))) continue
    try {
      rmSync(path.join(place, name), { recursive: true, force: true })
    } catch {
      // It is another user's.
    }
  }
}

/**
 * Starts one Postgres for all test files, with the migrated database that they clone, builds the functions once, and unpacks Chromium. The
 * server keeps its promises to nobody after the run, so it does not wait for disks.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { withFunctions } = project.getProvidedContext()
  // What tests start as a process of its own reads the same files again and again.
  process.env['NODE_COMPILE_CACHE'] = compileCache
  const place = placeOfDatabases()
  removeLeftovers(place)
  const folder = mkdtempSync(path.join(place, `svc-test-${process.pid}-`))
  const bundling = withFunctions === false ? Promise.resolve(new Map<string, WorkerModule[]>()) : builtFunctions()
  // Of a new checkout, once, where several test files would all find that it is missing.
  const unpacking = unpackChromium()
  // They are waited for when the database is there.
  bundling.catch(() => {})
  unpacking.catch(() => {})
  const postgres = await startPostgres({
    dataFolder: path.join(folder, 'postgres'),
    password: 'test',
    // Nobody vacuums databases that live for seconds.
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
