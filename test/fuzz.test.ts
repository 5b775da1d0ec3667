import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { openStage, readForms, withIds } from './chaos/callers.ts'
import { type ApiDocument, compareSales, fuzz } from './chaos/fuzz.ts'
import { readRoutes } from './chaos/routes.ts'
import { startStack } from './support/stack.ts'

const seed = Number(process.env['SEED'] ?? 1)
const stack = await startStack()
const { AUTH_SECRET, EMAIL_HASH_KEY, STRIPE_WEBHOOK_SECRET } = stack.environment
const env = { ...stack.env, AUTH_SECRET, EMAIL_HASH_KEY, STRIPE_WEBHOOK_SECRET }
const sandbox = await createSandbox(stack.db, env)
const routes = await readRoutes()
const open = () => openStage(stack.baseUrl, stack.db, env)

/** Ids that are invalid, impossible in a header, too large, or unknown. */
const strangeIds = ['abc', '\r\nX-Injected: 1', '9'.repeat(30), '999999999']

// The API reports invalid ids. Two of its addresses and the embedded portal accept a token instead of a key.
const expectedStatuses = (route: string) =>
  route === 'GET /embed/:programId/portal'
    ? [401]
    : route.startsWith('GET /api/') || route.endsWith('.csv')
      ? [400, 401, 404]
      : [404]

const stage = await open()

test.each(strangeIds)("pages, resources and forms don't accept the id %j", async (strange) => {
  const { callers, ids, sandbox: own } = stage
  // A path parameter that isn't a database id can have any value.
  const names = Object.keys(ids).filter((name) => /id$/i.test(name))
  const calls = routes.flatMap((route) => {
    const [method = '', path = ''] = route.split(' ')
    return names
      .filter((name) => (method === 'GET' || method === 'POST') && path.split('/').includes(name))
      .map((name) => ({ route, method, path: withIds(path.replace(name, encodeURIComponent(strange)), ids) }))
  })
  expect(calls.length).toBeGreaterThan(150)
  const answers = await Promise.all(
    calls.map(async ({ route, method, path }) => {
      const caller = path.startsWith('/partner') ? callers['partner'] : callers['owner']
      const headers: Record<string, string> = path.startsWith('/api/')
        ? { authorization: `Bearer ${own.apiKey}` }
        : { cookie: caller ?? '', origin: stack.baseUrl }
      const body = method === 'POST' ? new URLSearchParams({ page: '1' }) : null
      const { status } = await fetch(stack.baseUrl + path, { method, headers, body, redirect: 'manual' })
      return { route, status }
    }),
  )
  const wrong = answers.filter(({ route, status }) =>
    route.startsWith('GET ') ? !expectedStatuses(route).includes(status) : status < 300 || status >= 500,
  )
  expect(wrong).toEqual([])
})

test(
  `400 hostile requests cause no error, reveal no internals and leave nothing half written (SEED=${seed})`,
  { timeout: 180_000 },
  async () => {
    const document = (await (await fetch(`${stack.baseUrl}/api/v1/openapi.json`)).json()) as ApiDocument
    const { baseUrl } = stack
    const forms = await readForms(baseUrl, routes, stage)
    // Most forms are found on the pages, and the requests begin with their fields.
    expect(forms.size).toBeGreaterThan(30)
    const { wrong, statuses, sales } = await fuzz({
      baseUrl,
      document,
      sandbox,
      requests: 400,
      seed,
      routes,
      openStage: open,
      forms,
    })
    expect(wrong).toEqual([])
    // Each kind of answer must occur. Otherwise, the requests aren't as intended.
    expect(statuses[200]).toBeGreaterThan(25)
    expect(statuses[303]).toBeGreaterThan(25)
    expect(statuses[400]).toBeGreaterThan(25)
    expect(sales.size).toBeGreaterThan(0)
    expect(await compareSales(stack.sql, sales)).toEqual([])
    expect(await findDifferences(stack.sql)).toEqual([])
  },
)
