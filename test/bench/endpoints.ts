import { clickOn } from './calls.ts'
import type { BenchStack } from './environment.ts'
import { type HttpCall, httpCall } from './http.ts'
import { seedCounters, seedCustomers, seededClickId, seedPartners, seedSales } from './seed.ts'

export interface Endpoint {
  name: string
  next: () => HttpCall
}

/**
 * The busiest endpoints with their calls: clicks on `links` links, first leads by click id, sales to known customers,
 * and first partial refunds. Also includes both reads of a program with `seeded` customers of each kind, the script,
 * and an empty Worker.
 */
export async function seedEndpoints(stack: BenchStack, seeded: number, links = 1000): Promise<Endpoint[]> {
  const { sql, baseUrl, sandbox } = stack
  const { programId } = sandbox
  const first = await seedPartners(sql, programId, 1000)
  await seedCustomers(sql, programId, first, { from: 1, count: seeded, partners: 1000 })
  await seedCustomers(sql, programId, first, { from: seeded + 1, count: seeded, partners: 1000, key: 'buyer' })
  await seedCustomers(sql, programId, first, { from: 2 * seeded + 1, count: seeded, partners: 1000, key: 'refunded' })
  await seedSales(sql, programId, 'refunded', 'order')
  await seedCounters(sql, programId)
  const keyed = { authorization: `Bearer ${sandbox.apiKey}` }
  const reader = { authorization: `Bearer ${sandbox.dashboardToken}` }
  const post = (path: string, headers: Record<string, string>, body: (n: number) => object) =>
    posts(baseUrl + path, headers, body)
  const get = (path: string, headers: Record<string, string> = {}) => {
    const call = httpCall('GET', baseUrl + path, { headers })
    return () => call
  }
  return [
    { name: 'nothing', next: get('/empty') },
    {
      name: 'click',
      next: post('/api/v1/track/click', clickHeaders, (n) => clickBody(n % links)),
    },
    {
      name: 'lead',
      next: post('/api/v1/track/lead', keyed, (n) => ({
        customer_key: `lead${n}`,
        click_id: seededClickId(programId, n),
        email: `visitor${n}@example.com`,
      })),
    },
    {
      name: 'sale',
      next: post('/api/v1/track/sale', keyed, (n) => ({
        transaction_id: `buyer-order-${n}`,
        customer_key: `buyer${1 + (n % seeded)}`,
        amount_cents: 4900,
      })),
    },
    {
      name: 'refund',
      next: post('/api/v1/track/refund', keyed, (n) => ({
        transaction_id: `order${n}`,
        refund_amount_cents: 1000,
        refund_id: 'refund-1',
      })),
    },
    {
      name: 'performance',
      next: get(`/api/tracking/performance/${programId}?period=30d`, reader),
    },
    {
      name: 'events',
      next: get(`/api/tracking/events/${programId}`, reader),
    },
    { name: 'status', next: get('/api/v1/cli/status', keyed) },
    { name: 'script', next: get('/js/svc-tracker.js') },
  ]
}

/** The same clicks, sent to one of the benchmark's own Workers (process.ts). */
export const clicksTo = ({ baseUrl }: BenchStack, name: string): Endpoint => ({
  name,
  next: posts(baseUrl.replace('127.0.0.1', `${name}.localhost`), clickHeaders, clickBody),
})

function posts(url: string, headers: Record<string, string>, body: (n: number) => object) {
  let n = 0
  return () => httpCall('POST', url, { headers, body: body(++n) })
}

const clickHeaders = { 'user-agent': clickOn('').user_agent ?? '' }

/** The body of the tracker, without the fields that the function adds. */
function clickBody(n: number): object {
  const { affiliate_url, page_url, page_title, referrer_url, session_id } = clickOn(`code${1 + (n % 1000)}`)
  const { screen_resolution, viewport_size, language, timezone } = clickOn('')
  return {
    affiliate_url,
    page_url,
    page_title,
    referrer_url,
    session_id,
    screen_resolution,
    viewport_size,
    language,
    timezone,
  }
}

/** Creates the next `count` calls of an endpoint. */
export function take(endpoint: Endpoint, count: number): HttpCall[] {
  return Array.from({ length: count }, endpoint.next)
}
