import {
  continueImport,
  createImport,
  importFiles,
  readImport,
  applyImport,
  undoImport,
} from '../../lib/moving/imports.ts'
import { compareSides } from '../../lib/moving/comparison.ts'
import { createExport, writeArchive } from '../../lib/moving/exports.ts'
import { sources } from '../../lib/moving/sources.ts'
import { createProgram, programDefaults } from '../../lib/programs/programs.ts'
import { findDifferences } from '../../lib/commands/audit.ts'
import { digest } from '../support/moved.ts'
import { serviceFiles } from '../support/service-files.ts'
import { startServices } from '../support/services.ts'
import { createShop } from '../support/shops.ts'
import { type BenchDatabase, startDatabase } from './environment.ts'
import { type Options, type Result, round } from './result.ts'
import { seedCustomers, seedPartners, seedSales } from './seed.ts'

const size = { partners: 2000, customers: 20_000 }
const quarter = { partners: 500, customers: 5000 }
/** The time limit of a step. No step takes this long. */
const seconds = 900

const access = (source: string) => ({ key: source === 'partnerstack' ? 'public:secret' : 'key', account: 'main' })

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return (performance.now() - started) / 1000
}

/**
 * Moves a program with 2,000 partners, 20,000 customers and 20,000 commissions from each of the six services, from files and from fake
 * APIs. Plans, applies with an interruption, repeats and undoes each import. Moves a program through its archive, and compares 100,000
 * commissions.
 */
export async function moving({ source: only }: Options): Promise<Result> {
  const database = await startDatabase()
  const { db, sql } = database
  const services = await startServices(size)
  const env = { ...database.env, EMAIL_HASH_KEY: database.secrets.EMAIL_HASH_KEY, IMPORT_API_URL: services.url }

  const figures: Result['figures'] = []
  const differences: string[] = []
  const perRow: Record<string, number> = {}
  let slowest = 0
  for (const source of sources) {
    if (source === 'csv' || source === 'archive' || (only !== undefined && source !== only)) continue
    for (const by of source === 'rewardful' ? ['a quarter of the files', 'files', 'API'] : ['files', 'API']) {
      const files = by === 'API' ? undefined : serviceFiles(source, by === 'files' ? size : quarter)
      const { programId } = await createShop(sql)
      // Archives can't contain a visitor without a click.
      await sql.query('delete from customers where program_id = $1', [programId])
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
      differences.push(...(await findDifferences(sql, programId)))
      if (source === 'rewardful' && by === 'files') figures.push(await archived(database, env, programId))
      const undone = await timed(() => undoImport(db, env, programId, importId, seconds))
      if ((await digest(sql, programId)) !== before) differences.push(`${source} ${by}: the undo left something`)
      if (error > 0 || rows < 40) differences.push(`${source} ${by}: ${error} of ${rows} rows are errors`)
      perRow[by] ??= (planned + applied) / rows
      slowest = Math.max(slowest, planned + applied)
      console.error(`${source}, ${by}: planned and applied in ${round(planned + applied)} s`)
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
  const compared = await comparison(database)
  figures.push({ source: 'comparison', by: 'commissions', rows: comparedSales, 'read s': round(compared) })
  await database.close()
  for (const line of differences) console.error(line)
  return {
    figures,
    goals: [
      { what: 'seconds to compare 100,000 commissions', measured: compared, most: 5 },
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

/** Exports a program, imports its archive into an empty program, and compares the rows of both exports. */
async function archived({ db, sql }: BenchDatabase, env: { EMAIL_HASH_KEY: string }, programId: number) {
  const exported = async (ofProgramId: number) => {
    const created = await createExport(db, ofProgramId)
    const chunks: Uint8Array[] = []
    for await (const chunk of writeArchive(db, env.EMAIL_HASH_KEY, ofProgramId, created)) chunks.push(chunk)
    return { content: Buffer.concat(chunks), counts: JSON.stringify(created.row_counts) }
  }
  const { rows } = await sql.query<{ id: string }>(`insert into workspaces (name) values ('Other') returning id`)
  const details = { ...programDefaults, name: 'Other', domain: 'other.example.com' }
  const other = await createProgram(db, rows[0]?.id ?? '', details)
  let [archive, importId] = [await exported(programId), 0]
  const written = await timed(async () => (archive = await exported(programId)))
  const planned = await timed(async () => {
    importId = await createImport(db, env, other, 'archive')
    const files = [{ name: 'program.zip', content: archive.content }]
    await importFiles(db, env, other, importId, { source: 'archive', files, mappings: {}, seconds })
  })
  const applied = await timed(() => applyImport(db, env, other, importId, seconds))
  const { problem, rows: archivedRows } = await readImport(db, other, importId)
  if ((await exported(other)).counts !== archive.counts) throw new Error(problem ?? 'the moved program has other rows')
  return {
    source: 'archive',
    by: 'files',
    rows: archivedRows,
    'export s': round(written),
    'plan s': round(planned),
    'apply s': round(applied),
    'resident MB': round(process.memoryUsage().rss / 1e6),
  }
}

const comparedSales = 100_000

/**
 * Returns how many seconds a comparison takes in which a third of the commissions contain the payment's id, and the others only the
 * customer's id.
 */
async function comparison({ db, sql }: BenchDatabase): Promise<number> {
  const { programId } = await createShop(sql)
  const first = await seedPartners(sql, programId, 500, 'compared')
  await sql.query('set session_replication_role = replica')
  await seedCustomers(sql, programId, first, { from: 1, count: comparedSales, partners: 500, key: 'compared-' })
  await seedSales(sql, programId, 'compared-', 'compared-')
  await sql.query(
    `insert into imported_commissions (program_id, partner_id, customer_id, external_id, amount_cents, currency, status, sale_cents,
      payment_id, earned_at)
    select program_id, partner_id, customer_id, 'bench:' || id, 980 - (id % 50 = 0)::integer * 80, 'usd', 'approved', 4900,
      case when id % 3 = 0 then transaction_id end, sale_date + interval '1 minute'
    from sales where program_id = $1 and id % 97 <> 0`,
    [programId],
  )
  await sql.query('reset session_replication_role')
  await sql.query('vacuum analyze')
  const period = { from: new Date(Date.now() - 30 * 86_400_000), until: new Date() }
  const read = () => compareSides(db, programId, period, { partners: { limit: 50 }, differences: { limit: 50 } })
  return Math.min(await timed(read), await timed(read), await timed(read))
}
