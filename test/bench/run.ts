import { styleText } from 'node:util'
import { readOptions } from '../../lib/commands/command.ts'
import { closeAll } from './environment.ts'
import { abuse } from './abuse.ts'
import { backfill } from './backfill.ts'
import { cost } from './cost.ts'
import { pages } from './pages.ts'
import { roundTrips } from './round-trips.ts'
import { groupings } from './groupings.ts'
import { growth } from './growth.ts'
import { hotRow } from './hot-row.ts'
import { latency } from './latency.ts'
import { limit } from './limit.ts'
import { moving } from './moving.ts'
import { script } from './script.ts'
import { serve } from './serve.ts'
import { review } from './review.ts'
import { retention } from './retention.ts'
import { scaling } from './scaling.ts'
import { worker } from './worker.ts'
import { isMet, type Options, type Result, round } from './result.ts'

/**
 * `npm run bench`: runs every benchmark, or the named ones (`npm run bench -- limit hot-row`). `--json` prints one JSON
 * object instead of tables. `--events` sets the number of clicks that `growth` and `groupings` seed, `--call` sets the
 * only call that `serve` measures, and `--source` sets the only service that `moving` moves from.
 */
const benches: Record<string, (options: Options) => Promise<Result>> = {
  limit,
  'hot-row': hotRow,
  'round-trips': roundTrips,
  growth,
  groupings,
  retention,
  pages,
  backfill,
  moving,
  cost,
  latency,
  serve,
  worker,
  script,
  review,
  abuse,
  scaling,
}

const usage = `npm run bench [-- NAME… --json --events 10000000 --call click --source tolt]    runs every benchmark, or the named ones: ${Object.keys(benches).join(', ')}`
const { values, positionals } = readOptions(usage, {
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    events: { type: 'string', default: '10000000' },
    call: { type: 'string' },
    source: { type: 'string' },
  },
})
const options: Options = { events: Number(values.events), call: values.call, source: values.source }
const unknown = positionals.filter((name) => !benches[name])
if (unknown.length > 0 || !(options.events >= 100_000)) {
  console.error(
    `Benches are ${Object.keys(benches).join(', ')}; --events must be 100000 or more.` +
      (unknown.length > 0 ? ` There is no ${unknown.join(', ')}.` : ''),
  )
  process.exit(2)
}

/** Splits figures into tables whose rows have the same columns. */
function tablesOf(figures: Result['figures']): Result['figures'][] {
  const tables: Result['figures'][] = []
  let columns = ''
  for (const row of figures) {
    const own = Object.keys(row).join()
    if (own !== columns) tables.push([])
    columns = own
    tables.at(-1)?.push(row)
  }
  return tables
}

const say = (text: string) => void (values.json || console.log(text))
const results: Record<string, Result & { seconds: number }> = {}
try {
  for (const [name, bench] of Object.entries(benches)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue
    say(styleText('bold', `\n${name}`))
    const started = performance.now()
    const result = await bench(options)
    await closeAll()
    results[name] = { ...result, seconds: round((performance.now() - started) / 1000) }
    if (!values.json) for (const rows of tablesOf(result.figures)) console.table(rows)
    for (const goal of result.goals) {
      const bound = goal.least === undefined ? `at most ${goal.most}` : `at least ${goal.least}`
      const met = isMet(goal)
      say(`${styleText(met ? 'green' : 'red', met ? '✓' : '✗')} ${goal.what}: ${round(goal.measured)} (${bound})`)
    }
    say(styleText('dim', `${results[name].seconds} s`))
  }
} finally {
  await closeAll()
}
const goals = Object.values(results).flatMap((result) => result.goals)
say(`\n${goals.filter(isMet).length} of ${goals.length} goals met`)
if (values.json) console.log(JSON.stringify(results, null, 2))
