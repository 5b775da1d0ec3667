import { Pool } from 'pg'
import color from 'picocolors'
import { readOptions } from '../../lib/commands/command.ts'
import { findDifferences } from '../../lib/commands/audit.ts'
import { migrate } from '../../lib/commands/migrate.ts'
import { Database } from '../../lib/database.ts'
import { startStand } from '../chaos/stand.ts'
import { checkMonth } from './check.ts'
import type { Step } from './plan.ts'

/**
 * `npm run months -- --months 100 --seed 1`: compares the runs of this many months on real Postgres with the books of test/months/books.ts.
 * The last line contains the result. The exit code is 1 if anything is wrong.
 */
const { values } = readOptions(
  'npm run months [-- --months 100 --seed N]    months of a program: payouts against a second implementation, to the cent',
  {
    options: {
      months: { type: 'string', default: '100' },
      seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    },
  },
)
/** The names of steps in the final counts. */
function kindOf(step: Step): string {
  if (step.do === 'adjust') return step.cents < 0 ? 'deduction' : 'manual commission'
  if (step.do === 'decide') return step.decision
  return step.do === 'sale' && step.code !== null ? 'sale by code' : step.do
}

const [months, firstSeed] = [Number(values.months), Number(values.seed)]
const stand = await startStand()

function open(databaseUrl: string) {
  const pool = new Pool({ connectionString: databaseUrl, max: 4 })
  // After an error, Postgres stops before its connections are closed.
  pool.on('error', () => {})
  return { pool, db: new Database({ DATABASE_URL: databaseUrl, NEON_ENDPOINT: stand.neon.url }) }
}

/** Two months at a time, each in its own database, because scheduled work covers all programs at once. */
const first = open(stand.databaseUrl)
await first.pool.query('create database other')
const otherUrl = new URL(stand.databaseUrl)
otherUrl.pathname = 'other'
await migrate(otherUrl.href)
const lanes = [first, open(otherUrl.href)]
const started = performance.now()
console.log(`${months} months from seed ${firstSeed}`)
try {
  let [next, wrongMonths, payments, previewed] = [0, 0, 0, 0]
  /** The number of months with at least one step of a kind. */
  const monthsWith = new Map<string, number>()
  await Promise.all(
    lanes.map(async ({ db, pool }) => {
      while (next < months) {
        const seed = firstSeed + next++
        const { wrong, paid, plan, previews } = await checkMonth(db, pool, seed)
        payments += paid
        previewed += previews
        for (const kind of new Set(plan.days.flat().map(kindOf))) monthsWith.set(kind, (monthsWith.get(kind) ?? 0) + 1)
        if (wrong.length === 0) continue
        wrongMonths++
        console.log(color.red(`seed ${seed}:`))
        for (const line of wrong.slice(0, 3)) console.log(`  ${line}`)
      }
    }),
  )
  // Time is moved only in the tables that payouts use, so figures by day and by group don't match.
  const differences: string[] = []
  const reviews = { held: 0, released: 0, rejected: 0 }
  for (const { pool } of lanes) {
    const client = await pool.connect()
    const found = await findDifferences(client)
    client.release()
    differences.push(...found.filter((line) => !/^(a day|what is grouped|grouped)/.test(line)))
    const { rows } = await pool.query<{ decision: 'released' | 'rejected' | null }>(
      'select decision from commission_reviews',
    )
    reviews.held += rows.length
    for (const { decision } of rows) if (decision !== null) reviews[decision]++
  }
  for (const difference of differences.slice(0, 10)) console.log(color.red(difference))
  const seconds = ((performance.now() - started) / 1000).toFixed(0)
  const kinds = [...monthsWith].toSorted(([, a], [, b]) => b - a).map(([kind, count]) => `${kind} in ${count}`)
  console.log(color.dim(kinds.join(', ')))
  console.log(
    `${months} months, ${payments} payments, ${previewed} previews, ${reviews.held} held (${reviews.released} released, ${reviews.rejected} rejected): ` +
      `${wrongMonths} wrong, ${differences.length} differences, ${seconds} s`,
  )
  process.exitCode = wrongMonths + differences.length === 0 ? 0 : 1
} finally {
  await Promise.all(lanes.map(({ pool }) => pool.end()))
  await stand.close()
}
