import { readOptions } from '../../lib/commands/command.ts'
import { Client } from 'pg'
import color from 'picocolors'
import { loadService } from '../chaos/bundle.ts'
import { startStand } from '../chaos/stand.ts'
import { findDifferences } from '../../lib/commands/audit.ts'
import { startNeonEndpoint } from '../../lib/local/neon.ts'
import { isProcessor } from '../../lib/processors/connections.ts'
import { type ProcessorName, processors } from '../../lib/processors/processors.ts'
import { checkPlan } from './check.ts'
import { checkConnection } from './connections.ts'
import { openDesk } from './desk.ts'
import { allWays, drawPlan, type Way, ways } from './plan.ts'

/**
 * `npm run cash -- --seeds 300 --seed 1`: compares histories of accounts at each processor with the accounts' money.
 * Each history is delivered to the webhooks in two random orders. `--processors paddle,polar` runs only theirs. `--ways
 * refund,dispute` enables only these kinds of Stripe's histories, and `--each 20` runs this many seeds of each way
 * separately. The last line is the figure. The exit code is 1 if anything is wrong.
 */
const usage =
  'npm run cash [-- --seeds 300 --seed N --processors name,name --ways name,name --each N]    compares the events of\n                 processors in random orders with the money of a model'
const { values } = readOptions(usage, {
  options: {
    seeds: { type: 'string', default: '300' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    processors: { type: 'string' },
    ways: { type: 'string' },
    each: { type: 'string' },
  },
})
const firstSeed = Number(values.seed)
const on = values.ways?.split(',').map(asWay) ?? allWays
const seeds = Number(values.each ?? values.seeds)

function asWay(name: string): Way {
  const way = allWays.find((one) => one === name)
  if (!way) throw new Error(`The way "${name}" does not exist. The ways are: ${allWays.join(', ')}.`)
  return way
}

const names: string[] = values.processors?.split(',') ?? ['stripe', ...Object.keys(processors)]
const unknown = names.find((name) => name !== 'stripe' && !isProcessor(name))
if (unknown !== undefined) throw new Error(`The processor "${unknown}" does not exist.`)

const [stand, service] = await Promise.all([startStand(), loadService()])
const desks = await Promise.all(
  Array.from({ length: 2 }, async () => {
    const sql = new Client({ connectionString: stand.databaseUrl })
    // Faults hit only the requests of one desk.
    const [neon] = await Promise.all([startNeonEndpoint(), sql.connect()])
    const environment = { DATABASE_URL: stand.databaseUrl, NEON_ENDPOINT: neon.url }
    return { ...openDesk(service, sql, stand.stripe, environment), neon }
  }),
)

const started = performance.now()
console.log(`${seeds} seeds from ${firstSeed}, of ${names.join(', ')}; at Stripe of ${on.join(', ')}`)

interface Run {
  seed: number
  /** The way of a history at Stripe, or another processor. */
  kind: Way | ProcessorName
  check: (desk: (typeof desks)[number]) => Promise<string[]>
}
const plans = (values.each === undefined ? [on] : on.map((way) => [way])).flatMap((of) =>
  Array.from({ length: seeds }, (_, at) => drawPlan(firstSeed + at, of)),
)
const runs: Run[] = names.flatMap((name) =>
  isProcessor(name)
    ? Array.from({ length: seeds }, (_, at) => ({
        seed: firstSeed + at,
        kind: name,
        check: async (desk) => await checkConnection(desk, desk.neon, name, firstSeed + at),
      }))
    : plans.map((plan): Run => ({
        seed: plan.seed,
        kind: plan.way,
        check: async (desk) => await checkPlan(desk, plan),
      })),
)
const wrongOf = new Map<Run['kind'], number[]>()
let done = 0
let next = 0
await Promise.all(
  desks.map(async (desk) => {
    for (let run = runs[next++]; run; run = runs[next++]) {
      const wrong = await run.check(desk)
      done += 1
      if (wrong.length === 0) continue
      const seedsOfKind = wrongOf.get(run.kind) ?? []
      wrongOf.set(run.kind, [...seedsOfKind, run.seed])
      if (seedsOfKind.length >= 3) continue
      console.log(color.red(`seed ${run.seed}, ${run.kind}:`))
      for (const line of wrong.slice(0, 5)) console.log(`  ${line}`)
    }
  }),
)
for (const [kind, found] of wrongOf) {
  const what = isProcessor(kind) ? kind : `${kind} (${ways[kind]})`
  console.log(`${what}: ${found.length} of ${runs.filter((run) => run.kind === kind).length} wrong`)
}
const books = new Client({ connectionString: stand.databaseUrl })
await books.connect()
const differences = await findDifferences(books)
await books.end()
for (const line of differences.slice(0, 20)) console.log(color.red(line))
await Promise.all(desks.flatMap(({ sql, neon }) => [sql.end(), neon.close()]))
await stand.close()
const wrong = [...wrongOf.values()].flat().length + differences.length
const seconds = ((performance.now() - started) / 1000).toFixed(0)
console.log(`${done} histories in two orders each: ${wrong} wrong, in ${seconds} s`)
process.exitCode = wrong === 0 ? 0 : 1
