import { sessionCookie } from '../../lib/access/sessions.ts'
import { drive } from './driver.ts'
import { type Endpoint, seedEndpoints, take } from './endpoints.ts'
import { type BenchStack, startStack } from './environment.ts'
import { httpCall, HttpConnection } from './http.ts'
import { type Result, round } from './result.ts'

const delays = [0, 20, 80] as const
const turns = 6
const calls = ['click', 'lead', 'sale', 'refund', 'performance', 'events']

/**
 * Measures how long calls and pages take if each request to the database takes longer, as it does for functions in another region. The
 * additional time divided by the delay is the number of round trips that wait for each other.
 */
export async function latency(): Promise<Result> {
  const stack = await startStack({ counts: false })
  const endpoints = (await seedEndpoints(stack, 200)).filter(({ name }) => calls.includes(name))
  const pages = pagesOf(stack)
  const measured = [
    ...endpoints.map((endpoint) => ({ endpoint, mostTrips: 1, fastest: delays.map(() => Infinity) })),
    // A page first finds its reader.
    ...pages.map((endpoint) => ({ endpoint, mostTrips: 2, fastest: delays.map(() => Infinity) })),
  ]
  const connection = new HttpConnection(stack.baseUrl)
  for (const { endpoint } of measured) await drive([connection], take(endpoint, 2))
  // The delays take turns and only the fastest call counts, so that a busy machine changes little.
  for (let turn = 0; turn < turns; turn++) {
    for (const [index, delay] of delays.entries()) {
      await delayEach(stack, delay)
      for (const { endpoint, fastest } of measured) {
        const { p50_ms } = await drive([connection], take(endpoint, 1))
        fastest[index] = Math.min(fastest[index] ?? Infinity, p50_ms)
      }
    }
  }
  connection.close()
  await stack.close()
  const result: Result = { figures: [], goals: [] }
  for (const { endpoint, mostTrips, fastest } of measured) {
    const [none = NaN, near = NaN, far = NaN] = fastest
    const trips = (far - none) / delays[2]
    result.figures.push({
      call: endpoint.name,
      'ms without delay': round(none),
      [`ms with ${delays[1]} ms per round trip`]: round(near),
      [`ms with ${delays[2]} ms per round trip`]: round(far),
      'round trips in series': round(trips),
    })
    result.goals.push({
      what: `round trips in series of ${endpoint.name}`,
      measured: trips,
      most: mostTrips + 0.3,
    })
  }
  return result
}

/** The pages that advertisers and partners open most. */
function pagesOf({ baseUrl, sandbox }: BenchStack): Endpoint[] {
  const program = `/programs/${sandbox.programId}`
  const pages: [name: string, path: string, token: string][] = [
    ['overview page', program, sandbox.dashboardToken],
    ['events page', `${program}/events`, sandbox.dashboardToken],
    ['partners page', `${program}/partners`, sandbox.dashboardToken],
    ['commissions page', `${program}/commissions`, sandbox.dashboardToken],
    ['payout runs page', `${program}/payout-runs`, sandbox.dashboardToken],
    ['links page of a partner', '/partner/links', sandbox.partnerToken],
    ['commissions page of a partner', '/partner/commissions', sandbox.partnerToken],
  ]
  return pages.map(([name, path, token]) => {
    const call = httpCall('GET', baseUrl + path, {
      headers: { cookie: `${sessionCookie}=${encodeURIComponent(token)}` },
    })
    return { name, next: () => call }
  })
}

/** Delays each later request to the database. */
async function delayEach({ neon }: BenchStack, delay_ms: number): Promise<void> {
  const control = new URL('/control', neon.url).href
  await fetch(control, { method: 'DELETE', headers: neon.control })
  if (delay_ms === 0) return
  const body = JSON.stringify({ action: 'delay', times: 1_000_000, delay_ms })
  await fetch(`${control}/faults`, { method: 'POST', headers: neon.control, body })
}
