import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { openStage, readForms, stagedSale } from './chaos/callers.ts'
import { type ApiDocument, fuzz } from './chaos/fuzz.ts'
import { readRoutes } from './chaos/routes.ts'
import { startStack } from './support/stack.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const stack = await startStack()
const env = { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET }
const sandbox = await createSandbox(stack.db, env)

test(
  `1,200 hostile requests break nothing, show nothing of the inside and leave nothing half written (SEED=${seed})`,
  { timeout: 180_000 },
  async () => {
    const document = (await (await fetch(`${stack.baseUrl}/api/v1/openapi.json`)).json()) as ApiDocument
    const { baseUrl } = stack
    const routes = await readRoutes()
    const open = () => openStage(baseUrl, stack.db, env)
    const forms = await readForms(baseUrl, routes, await open())
    // Most forms are found on the pages; what each is tried with begins with that.
    expect(forms.size).toBeGreaterThan(30)
    const { wrong, statuses, saleIds } = await fuzz({
      baseUrl,
      document,
      sandbox,
      requests: 1200,
      seed,
      routes,
      openStage: open,
      forms,
    })
    expect(wrong).toEqual([])
    // Both kinds were among them, or the requests are not what they are meant to be.
    expect(statuses[200]).toBeGreaterThan(100)
    expect(statuses[303]).toBeGreaterThan(100)
    expect(statuses[400]).toBeGreaterThan(100)
    const { rows } = await stack.sql.query<{ id: string }>(
      `select id from sales where transaction_id not like '${stagedSale}%' order by id`,
    )
    expect(rows.map(({ id }) => Number(id))).toEqual([...saleIds].toSorted((a, b) => a - b))
    expect(await findDifferences(stack.sql)).toEqual([])
  },
)
