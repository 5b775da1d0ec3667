import { gzipSync } from 'node:zlib'
import { sessionCookie } from '../../lib/access/sessions.ts'
import { readRoutes } from '../chaos/routes.ts'
import { type BenchStack, startStack } from './environment.ts'
import { type Seeded, seedPages } from './pages-seed.ts'
import { type Result, round } from './result.ts'

const reads = 6

/**
 * Measures every dashboard page of a program's members and partners, with 5,000 partners and a million events in 90 days. The figures are
 * the minimum server time through workerd and the Neon endpoint, the transferred bytes (gzip), and the number of database requests. New
 * pages are included automatically. The benchmark stops if a page address has an unknown parameter.
 */
export async function pages(): Promise<Result> {
  const routes = await pageRoutes()
  // Only reads are measured.
  const stack = await startStack({ counts: false, settings: ['fsync=off', 'max_wal_size=16GB'] })
  const begun = performance.now()
  const seeded = await seedPages(stack)
  const result: Result = {
    figures: [{ page: 'seeding, s', ms: round((performance.now() - begun) / 1000) }],
    goals: [],
  }
  await measureAll(stack, routes, seeded, ({ page, ms, bytes, requests }) => {
    result.figures.push({ page, ms: round(ms), 'KB gzip': round(bytes / 1000), requests })
    result.goals.push({ what: `${page}, ms`, measured: ms, most: 100 })
    result.goals.push({ what: `${page}, KB`, measured: bytes / 1000, most: 50 })
    // Most are sent at once. `latency` measures how many of them wait for each other.
    result.goals.push({ what: `${page}, database requests`, measured: requests, most: 5 })
  })
  await stack.close()
  return result
}

interface Measured {
  page: string
  ms: number
  bytes: number
  requests: number
}

async function measureAll(
  stack: BenchStack,
  routes: string[],
  seeded: Seeded,
  report: (page: Measured) => void,
): Promise<void> {
  for (const path of pathsOf(stack, routes, seeded)) {
    const isPartner = path === '/partner' || path.startsWith('/partner/')
    const token = isPartner ? stack.sandbox.partnerToken : stack.sandbox.dashboardToken
    const measured = await measure(stack, path, token)
    report({ page: path.replace(`/programs/${stack.sandbox.programId}`, '/programs/…'), ...measured })
  }
}

/** The ids of objects for the parameters in page addresses. */
const named: Record<string, keyof Seeded | undefined> = {
  customerId: 'customerId',
  partnerId: 'partnerId',
  groupId: 'groupId',
  transactionId: 'transactionId',
  runId: 'runId',
  payoutId: 'payoutId',
  endpointId: 'endpointId',
  postbackId: 'postbackId',
  postbackMessageId: 'postbackMessageId',
  messageId: 'messageId',
  applicationId: 'applicationId',
  jobId: 'jobId',
  kind: 'kind',
}

/** Reads the addresses of all pages from the routes, before seeding. */
async function pageRoutes(): Promise<string[]> {
  const pattern = /^\/(account|partner|programs\/:programId|workspaces\/:workspaceId)(\/|$)/
  const routes = (await readRoutes())
    .filter((route) => route.startsWith('GET '))
    .map((route) => route.slice('GET '.length))
    // Excludes files, pages that redirect until a process has started or if there is one program, and pages of one connection, provider,
    // import or export, which stay small.
    .filter(
      (path) =>
        pattern.test(path) && !/\.csv$|\/(confirm|postbacks)$|:(connectionId|provider|importId|exportId)/.test(path),
    )
  for (const route of routes) {
    for (const [, name = ''] of route.matchAll(/:(\w+)/g)) {
      if (name !== 'programId' && name !== 'workspaceId' && !named[name])
        throw new Error(`The bench has no ${name} for ${route}.`)
    }
  }
  return routes
}

/** Every page by its route. Lists are also sorted, searched, filtered and paged. */
function pathsOf({ sandbox }: BenchStack, routes: string[], seeded: Seeded): string[] {
  const valueOf = (name: string) => {
    if (name === 'programId') return String(sandbox.programId)
    return named[name] ? seeded[named[name]] : sandbox.workspaceId
  }
  const paths = routes.map((path) => path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(valueOf(name))))
  const past = new Date(Date.now() - 60 * 86_400_000).toISOString().slice(0, 10)
  const { partnerId, transactionId, rarePartner, longCustomer } = seeded
  const old = (Date.now() - 60 * 86_400_000) * 1000
  const lists: Record<string, string[]> = {
    '': [
      '?period=all',
      `?period=all&metric=clicks&partner=${rarePartner}`,
      '?sub1=page-3',
      '?utm_source=mail&metric=clicks',
    ],
    '/events': [
      '?eventType=click',
      '?eventType=lead',
      '?eventType=conversion',
      '?country=DE',
      '?code=code77',
      `?partner=${partnerId}`,
      `?partner=${rarePartner}`,
      `?partner=${rarePartner}&eventType=lead`,
      '?partner=Partner+4900',
      `?partner=${rarePartner}&eventType=conversion`,
      `?q=${transactionId}`,
      '?q=user-1',
      `?before=${old}.click.1`,
      '?after=1.click.1',
    ],
    [`/customers/${longCustomer}`]: [''],
    '/partners': ['?sort=name', '?sort=clicks', '?sort=sales', '?q=Partner+49', '?q=nobody'],
    [`/partners/${rarePartner}`]: [''],
    '/commissions': [
      '?status=pending',
      '?status=approved',
      '?sort=amount',
      `?dateTo=${past}`,
      '?q=Partner+49',
      '?q=nobody',
    ],
    '/payout-runs': ['?q=Partner+49'],
    '/payouts': ['?status=paid'],
    '/webhooks/deliveries': ['?status=failed'],
  }
  const base = `/programs/${sandbox.programId}`
  const ofPartner = ['?days=7', '?days=90', '?sub1=page-3', '?days=90&utm_source=mail'].map(
    (query) => `/partner/campaigns${query}`,
  )
  const more = Object.entries(lists).flatMap(([path, queries]) => queries.map((query) => base + path + query))
  return [...new Set([...paths, ...more, ...ofPartner])].toSorted()
}

async function measure({ baseUrl, neon }: BenchStack, path: string, token: string) {
  const headers = { cookie: `${sessionCookie}=${encodeURIComponent(token)}` }
  const control = new URL('/control', neon.url).href
  let ms = Infinity
  let bytes = 0
  let requests = Infinity
  for (let n = 0; n < reads; n++) {
    await fetch(control, { method: 'DELETE', headers: neon.control })
    const begun = performance.now()
    const response = await fetch(baseUrl + path, { headers, redirect: 'manual' })
    const body = Buffer.from(await response.arrayBuffer())
    ms = Math.min(ms, performance.now() - begun)
    if (response.status !== 200)
      throw new Error(`${path} is answered ${response.status}: ${body.toString().slice(0, 300)}`)
    bytes = gzipSync(body).length
    const seen = (await (await fetch(control, { headers: neon.control })).json()) as { requests: number }
    requests = Math.min(requests, seen.requests)
  }
  return { ms, bytes, requests }
}
