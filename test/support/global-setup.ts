import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '../../lib/local/postgres.ts'
import { readFunctions } from '../../lib/local/functions.ts'
import { bundleFunctions } from '../../lib/local/workers.ts'
import { migrate } from '../../lib/commands/migrate.ts'

/** Kept between runs; what it holds is known by the hash of its source. */
const compileCache = fileURLToPath(new URL('../../node_modules/.cache/compiled/', import.meta.url))

declare module 'vitest' {
  interface ProvidedContext {
    /** Connection string of the test server's database `postgres`. */
    adminUrl: string
    /** Folder of the built functions, `<name>.js`. */
    scriptsFolder: string
    /** False where no test of the run starts a function, so that none is built. */
    withFunctions?: boolean
  }
}

/**
 * Starts one Postgres for all test files, with the migrated database that they clone, and builds the functions once. The
 * server keeps its promises to nobody after the run, so it does not wait for disks.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { withFunctions } = project.getProvidedContext()
  // What tests start as a process of its own reads the same files again and again.
  process.env['NODE_COMPILE_CACHE'] = compileCache
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-test-'))
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
    for (const [name, script] of await bundleFunctions(withFunctions === false ? [] : readFunctions())) {
      writeFileSync(path.join(scriptsFolder, `${name}.js`), script)
    }
    project.provide('adminUrl', postgres.urlOf('postgres'))
    project.provide('scriptsFolder', scriptsFolder)
    return cleanUp
  } catch (error) {
    await cleanUp()
    throw error
  }
}
