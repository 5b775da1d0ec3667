import { readOptions } from '../../lib/commands/command.ts'
import color from 'picocolors'
import { Client } from 'pg'
import { findDifferences } from '../../lib/commands/audit.ts'
import { Database } from '../../lib/database.ts'
import { createSandbox } from '../../lib/local/sandbox.ts'
import { openStage, readForms } from './callers.ts'
import { type ApiDocument, compareSales, fuzz } from './fuzz.ts'
import { readRoutes } from './routes.ts'
import { startStand } from './stand.ts'

/**
 * `npm run fuzz -- --requests 100000 --seed 1`: sends hostile requests through workerd, to every operation of the OpenAPI document and
 * every page, form and sign-in route. Every kind of caller sends some of them. The last line contains the result. `--only deliveries`
 * sends only signed events from payment processors, with odd values. The exit code is 1 if anything is wrong.
 */
const usage =
  'npm run fuzz [-- --requests 100000 --seed N --only deliveries]    sends hostile requests to every address, page and form,\n                 or only signed deliveries of processors'
const { values } = readOptions(usage, {
  options: {
    requests: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    only: { type: 'string' },
  },
})
const requests = Number(values.requests)
const seed = Number(values.seed)

const stand = await startStand()
const functions = await stand.startFunctions(stand.queue.endpoint, 'all')
const { baseUrl, environment } = functions
const db = new Database({ DATABASE_URL: stand.databaseUrl, NEON_ENDPOINT: stand.neon.url })
const sandbox = await createSandbox(db, environment)
const document = (await (await fetch(`${baseUrl}/api/v1/openapi.json`)).json()) as ApiDocument
const started = performance.now()
const routes = await readRoutes()
const open = () => openStage(baseUrl, db, environment)
const forms = await readForms(baseUrl, routes, await open())
const { wrong, statuses, sales, slowest_ms } = await fuzz({
  baseUrl,
  document,
  sandbox,
  requests,
  seed,
  routes,
  openStage: open,
  forms,
  ...(values.only === 'deliveries' && { shares: { deliveries: 1, signedIn: 0 } }),
})
const seconds = ((performance.now() - started) / 1000).toFixed(0)

const sql = new Client({ connectionString: stand.databaseUrl })
await sql.connect()
wrong.push(...(await compareSales(sql, sales)))
// Without sales, the comparison above would prove nothing. About 60 of 10,000 requests record a sale.
if (values.only !== 'deliveries' && sales.size <= requests / 1000) wrong.push('Too few requests recorded a sale')
wrong.push(...(await findDifferences(sql)))
await sql.end()
await functions.close()
await stand.close()

for (const line of wrong.slice(0, 20)) console.log(color.red(line))
console.log(
  `Statuses: ${Object.entries(statuses)
    .map(([status, count]) => `${status} × ${count}`)
    .join(', ')}; slowest ${Math.round(slowest_ms)} ms`,
)
console.log(
  `${requests} hostile requests from seed ${seed}, ${sales.size} recorded sales: ${wrong.length} violations in ${seconds} s`,
)
process.exitCode = wrong.length === 0 ? 0 : 1
