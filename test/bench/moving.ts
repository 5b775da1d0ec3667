import {
  continueImport,
  createImport,
  importFiles,
  readImport,
  applyImport,
  undoImport,
} from '../../lib/moving/imports.ts'
import { sources } from '../../lib/moving/sources.ts'
import { findDifferences } from '../../lib/commands/audit.ts'
import { digest } from '../support/moved.ts'
import { serviceFiles } from '../support/service-files.ts'
import { startServices } from '../support/services.ts'
import { createShop } from '../support/shops.ts'
import { startDatabase } from './environment.ts'
import { type Result, round } from './result.ts'

const size = { partners: 2000, customers: 20_000 }
const quarter = { partners: 500, customers: 5000 }
/** No step takes this long. */
const seconds = 900

const access = (source: string) => ({ key: source === 'partnerstack' ? 'public:secret' : 'key', account: 'main' })

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return (performance.now() - started) / 1000
}

/**
 * Moves a program with 2,000 partners, 20,000 customers and 20,000 commissions from each of the six services, from files and from fake
 * APIs. Plans, applies with an interruption, repeats and undoes each import.
 */
export async function moving(): Promise<Result> {
  const database = await startDatabase()
  const { db, sql } = database
  const services = await startServices(size)
  const env = { ...database.env, EMAIL_HASH_KEY: database.secrets.EMAIL_HASH_KEY, IMPORT_API_URL: services.url }

  const figures: Result['figures'] = []
  const differences: string[] = []
  const perRow: Record<string, number> = {}
  let slowest = 0
  for (const source of sources) {
    if (source === 'csv' || source === 'archive') continue
    for (const by of source === 'rewardful' ? ['a quarter of the files', 'files', 'API'] : ['files', 'API']) {
      const files = by === 'API' ? undefined : serviceFiles(source, by === 'files' ? size : quarter)
      const { programId } = await createShop(sql)
      const plan = async () => {
        const importId = await createImport(db, env, programId, source, files ? undefined : access(source))
        if (files) await importFiles(db, env, programId, importId, { source, files, mappings: {}, seconds })
        else await continueImport(db, env, { programId, importId, seconds })
        return importId
      }
      const before = await digest(sql, programId)
      let importId = 0
      const planned = await timed(async () => (importId = await plan()))
      const { rows, error } = await readImport(db, programId, importId)
      const applied = await timed(async () => {
        await applyImport(db, env, programId, importId, 1)
        await continueImport(db, env, { programId, importId, seconds })
      })
      const once = await digest(sql, programId)
      const repeated = await timed(async () => applyImport(db, env, programId, await plan(), seconds))
      if ((await digest(sql, programId)) !== once) differences.push(`${source} ${by}: the repeat changed something`)
      const found = await findDifferences(sql, programId)
      differences.push(...found.filter((line) => !line.startsWith('a customer came by a click')))
      const undone = await timed(() => undoImport(db, env, programId, importId, seconds))
      if ((await digest(sql, programId)) !== before) differences.push(`${source} ${by}: the undo left something`)
      if (error > 0 || rows < 40) differences.push(`${source} ${by}: ${error} of ${rows} rows are errors`)
      perRow[by] ??= (planned + applied) / rows
      slowest = Math.max(slowest, planned + applied)
      figures.push({
        source,
        by,
        rows,
        'plan s': round(planned),
        'apply s': round(applied),
        'repeat s': round(repeated),
        'undo s': round(undone),
        'resident MB': round(process.memoryUsage().rss / 1e6),
      })
    }
  }
  await services.close()
  await database.close()
  for (const line of differences) console.error(line)
  return {
    figures,
    goals: [
      { what: 'seconds of the slowest plan and apply', measured: slowest, most: 120 },
      {
        what: 'time of a row with 20,000 customers by 5,000',
        measured: (perRow['files'] ?? NaN) / (perRow['a quarter of the files'] ?? NaN),
        most: 1.5,
      },
      { what: 'differences after a repeat, in the audit and after the undo', measured: differences.length, most: 0 },
    ],
  }
}
