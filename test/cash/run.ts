import { readOptions } from '../../lib/commands/command.ts'
import { Client } from 'pg'
import color from 'picocolors'
import { loadService } from '../chaos/bundle.ts'
import { startStand } from '../chaos/stand.ts'
import { findDifferences } from '../../lib/commands/audit.ts'
import { isProcessor } from '../../lib/processors/connections.ts'
import { type ProcessorName, processors } from '../../lib/processors/processors.ts'
import { checkPlan } from './check.ts'
import { checkConnection } from './connections.ts'
import { type Desk, openDesk } from './desk.ts'
import { allWays, drawPlan, type Way, ways } from './plan.ts'

/**
 * `npm run cash -- --seeds 300 --seed 1`: compares the service's results for histories of accounts at each processor with the accounts'
 * money. Each history is delivered to the webhooks in two random orders. `--processors paddle,polar` runs only the histories of these
 * processors. `--ways refund,dispute` enables only these kinds of Stripe histories, and `--each 20` runs this many seeds of each way
 * separately. The last line contains the result. The exit code is 1 if anything is wrong.
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
const environment = { DATABASE_URL: stand.databaseUrl, NEON_ENDPOINT: stand.neon.url }
const desks = await Promise.all(
  Array.from({ length: 2 }, async () => {
    const sql = new Client({ connectionString: stand.databaseUrl })
    await sql.connect()
    return openDesk(service, sql, stand.stripe, environment)
  }),
)

const started = performance.now()
const secondsSoFar = () => ((performance.now() - started) / 1000).toFixed(0)
console.log(`${seeds} seeds from ${firstSeed}, of ${names.join(', ')}`)

interface Run {
  seed: number
  /** The way that a Stripe history tests, or the name of another processor. */
  kind: Way | ProcessorName
  check: (desk: Desk) => Promise<string[]>
}
const plans = (values.each === undefined ? [on] : on.map((way) => [way])).flatMap((of) =>
  Array.from({ length: seeds }, (_, at) => drawPlan(firstSeed + at, of)),
)
const ofStripe = plans.map((plan) => ({
  seed: plan.seed,
  kind: plan.way,
  check: async (desk: Desk) => await checkPlan(desk, plan),
}))
const ofConnections = names.filter(isProcessor).flatMap((kind) =>
  Array.from({ length: seeds }, (_, at) => ({
    seed: firstSeed + at,
    kind,
    check: async (desk: Desk) => await checkConnection(desk, stand.neon, kind, firstSeed + at),
  })),
)
const runs: Run[] = [...(names.includes('stripe') ? ofStripe : []), ...ofConnections]
const wrongOf = new Map<Run['kind'], number[]>()
let done = 0
async function play(desk: Desk, waiting: Run[]): Promise<void> {
  for (let run = waiting.shift(); run; run = waiting.shift()) {
    // A history that ends with an error is wrong, too. The others still run.
    const wrong = await run.check(desk).catch((error: unknown) => [String(error)])
    done += 1
    if (done % 100 === 0) console.log(`${done} of ${runs.length} histories after ${secondsSoFar()} s`)
    if (wrong.length === 0) continue
    const seedsOfKind = wrongOf.get(run.kind) ?? []
    wrongOf.set(run.kind, [...seedsOfKind, run.seed])
    if (seedsOfKind.length >= 3) continue
    console.log(color.red(`seed ${run.seed}, ${run.kind}:`))
    for (const line of wrong.slice(0, 5)) console.log(`  ${line}`)
  }
}
const [calm, injected] = [runs.filter(({ kind }) => !isProcessor(kind)), runs.filter(({ kind }) => isProcessor(kind))]
await Promise.all(desks.map(async (desk) => await play(desk, calm)))
// These runs inject faults, which would also affect the requests of another desk.
for (const desk of desks) await play(desk, injected)
for (const [kind, found] of wrongOf) {
  const what = isProcessor(kind) ? kind : `${kind} (${ways[kind]})`
  console.log(`${what}: ${found.length} of ${runs.filter((run) => run.kind === kind).length} wrong`)
}
const books = new Client({ connectionString: stand.databaseUrl })
await books.connect()
const differences = await findDifferences(books)
await books.end()
for (const line of differences.slice(0, 20)) console.log(color.red(line))
await Promise.all(desks.map(({ sql }) => sql.end()))
await stand.close()
const wrong = [...wrongOf.values()].flat().length + differences.length
console.log(`${done} histories in two orders each: ${wrong} wrong, in ${secondsSoFar()} s`)
process.exitCode = wrong === 0 ? 0 : 1
