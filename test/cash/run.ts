import { readOptions } from '../../lib/commands/command.ts'
import { Client } from 'pg'
import color from 'picocolors'
import { loadService } from '../chaos/bundle.ts'
import { startStand } from '../chaos/stand.ts'
import { checkPlan } from './check.ts'
import { openDesk } from './desk.ts'
import { allWays, drawPlan, type Way, ways } from './plan.ts'

/**
 * `npm run cash -- --seeds 300 --seed 1`: compares histories of a Stripe account with the account's money. Each history
 * is delivered to the webhook in two random orders. `--ways refund,dispute` enables only these kinds of history.
 * `--each 20` runs this many seeds of each way separately. The last line is the figure. The exit code is 1 if anything
 * is wrong.
 */
const usage =
  'npm run cash [-- --seeds 300 --seed N --ways name,name --each N]    compares the events of Stripe in random orders\n                 with the money of a model'
const { values } = readOptions(usage, {
  options: {
    seeds: { type: 'string', default: '300' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
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
console.log(`${seeds} seeds from ${firstSeed}, of ${on.join(', ')}`)
/** The histories, each with its enabled ways. */
const histories = (values.each === undefined ? [on] : on.map((way) => [way])).flatMap((of) =>
  Array.from({ length: seeds }, (_, at) => drawPlan(firstSeed + at, of)),
)
const wrongOf = new Map<Way, number[]>()
let done = 0
let next = 0
await Promise.all(
  desks.map(async (desk) => {
    for (let plan = histories[next++]; plan; plan = histories[next++]) {
      const wrong = await checkPlan(desk, plan)
      done += 1
      if (wrong.length === 0) continue
      const seedsOfWay = wrongOf.get(plan.way) ?? []
      wrongOf.set(plan.way, [...seedsOfWay, plan.seed])
      if (seedsOfWay.length >= 3) continue
      console.log(color.red(`seed ${plan.seed}, ${plan.way}:`))
      for (const line of wrong.slice(0, 5)) console.log(`  ${line}`)
    }
  }),
)
for (const [way, found] of wrongOf) {
  console.log(`${way} (${ways[way]}): ${found.length} of ${histories.filter((plan) => plan.way === way).length} wrong`)
}
await Promise.all(desks.map(({ sql }) => sql.end()))
await stand.close()
const wrong = [...wrongOf.values()].flat().length
const seconds = ((performance.now() - started) / 1000).toFixed(0)
console.log(`${done} histories in two orders each: ${wrong} wrong, in ${seconds} s`)
process.exitCode = wrong === 0 ? 0 : 1
