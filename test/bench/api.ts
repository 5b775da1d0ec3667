import { cursorOf } from '../../lib/api/lists.ts'
import type pg from 'pg'
import { drive } from './driver.ts'
import { startStack } from './environment.ts'
import { type HttpCall, HttpConnection, httpCall } from './http.ts'
import { type Result, round } from './result.ts'
import { seedCounters, seedCustomers, seedPartners, seedSales } from './seed.ts'

const partners = 1000
const seeded = 20_000
const calls = 200

/** A program has 20 endpoints at most. */
const endpointsMade = 16
const newEndpoint = (n: number) => ({ url: `https://example.com/${n}`, types: ['sale.created'] })

/**
 * Each route of the program API over one connection, with 1,000 partners and 20,000 customers who bought: its time and its requests to the
 * database. `deep` is a page of a hundred from the middle of a list, whose time is that of the first.
 */
export async function api(): Promise<Result> {
  const stack = await startStack({ counts: false })
  const { sql, baseUrl, sandbox } = stack
  const { programId, apiKey } = sandbox
  const seeds = await seedPartners(sql, programId, partners)
  await seedCustomers(sql, programId, seeds, { from: 1, count: seeded, partners, key: 'buyer' })
  await seedSales(sql, programId, 'buyer', 'order')
  await seedCounters(sql, programId)
  const endpoint = await seedEndpoint(sql, programId)
  await sql.query('analyze')
  const { firstPartner: first } = seeds
  const headers = { authorization: `Bearer ${apiKey}` }
  const get = (path: string) => {
    const call = httpCall('GET', `${baseUrl}/api/v1/${path}`, { headers })
    return () => call
  }
  const send = (method: string, path: string, body: (n: number) => object) => {
    let n = 0
    return () => httpCall(method, `${baseUrl}/api/v1/${path}`, { headers, body: body(++n) })
  }
  const deep = (path: string, id: number) => get(`${path}?limit=100&cursor=${cursorOf(id)}`)
  const hooks = `webhook-endpoints/${endpoint.id}`
  const routes: [name: string, next: () => HttpCall, calls?: number][] = [
    ['partners', get('partners')],
    ['partners, deep', deep('partners', first + partners / 2)],
    ['a partner', get(`partners/${first}`)],
    ['links', get('links')],
    ['customers', get('customers')],
    ['customers, deep', deep('customers', seeded / 2)],
    ['a customer', get('customers/buyer7')],
    ['sales', get('sales')],
    ['sales, deep', deep('sales', seeded / 2)],
    ['a sale', get('sales/order7')],
    ['events', get('events')],
    ['commissions', get('commissions')],
    ['commissions, deep', deep('commissions', seeded / 2)],
    ['payouts', get('payouts')],
    ['payout runs', get('payout-runs')],
    ['add a partner', send('POST', 'partners', (n) => ({ name: `Partner ${n}`, code: `made-${n}` }))],
    ['change a partner', send('PATCH', `partners/${first}`, (n) => ({ metadata: { n: String(n) } }))],
    ['add a link', send('POST', 'links', (n) => ({ partner_id: first, code: `link-${n}` }))],
    ['approve a commission', send('PATCH', 'commissions/1', () => ({ status: 'approved' }))],
    ['webhook endpoints', get('webhook-endpoints')],
    ['a webhook endpoint', get(hooks)],
    ['deliveries', get(`${hooks}/deliveries`)],
    ['deliveries, deep', deep(`${hooks}/deliveries`, endpoint.middle)],
    ['a delivery', get(`${hooks}/deliveries/evt_${endpoint.middle}`)],
    ['add a webhook endpoint', send('POST', 'webhook-endpoints', newEndpoint), endpointsMade],
    ['change a webhook endpoint', send('PATCH', hooks, (n) => ({ description: `Server ${n}` }))],
    ['give it a new secret', send('POST', `${hooks}/rotate-secret`, () => ({}))],
    ['send a test event', send('POST', `${hooks}/test`, () => ({}))],
    ['send one again', send('POST', `${hooks}/replay`, (n) => ({ delivery_id: `evt_${endpoint.middle - n}` }))],
    ['delete a webhook endpoint', send('DELETE', `webhook-endpoints/${endpoint.other}`, () => ({}))],
  ]
  const control = new URL('/control', stack.neon.url).href
  const connection = new HttpConnection(baseUrl)
  const result: Result = { figures: [], goals: [] }
  for (const [call, next, count = calls] of routes) {
    await drive([connection], [next()])
    await fetch(control, { method: 'DELETE', headers: stack.neon.control })
    const { p50_ms, p99_ms } = await drive([connection], Array.from({ length: count }, next))
    const { requests } = (await (await fetch(control, { headers: stack.neon.control })).json()) as { requests: number }
    result.figures.push({ call, 'p50 ms': round(p50_ms), 'p99 ms': round(p99_ms), 'requests a call': requests / count })
    result.goals.push({ what: `database requests of ${call}`, measured: requests / count, most: 2 })
  }
  connection.close()
  await stack.close()
  return result
}

/** Two endpoints of a program, the first with 20,000 deliveries, each taken at the first try; `middle` is one in their midst. */
async function seedEndpoint(sql: pg.Client, programId: number) {
  const { rows: made } = await sql.query<{ id: string }>(
    `insert into webhook_endpoints (program_id, url, types)
    select $1, 'https://example.com/', '{sale.created}' from generate_series(1, 2) returning id`,
    [programId],
  )
  const [id, other] = made.map((row) => Number(row.id))
  const { rows } = await sql.query<{ middle: string }>(
    `with message as (
      insert into webhook_messages (program_id, type, data)
      select program_id, 'sale.created', webhook_sale(s) from sales s where program_id = $1 limit $3 returning program_id, id
    ), delivery as (
      insert into webhook_deliveries (program_id, endpoint_id, message_id, status, tries, finished_at)
      select program_id, $2, id, 'delivered', 1, now() from message returning *
    ), attempt as (
      insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, answer)
      select program_id, endpoint_id, message_id, now(), 40, 200, 'ok' from delivery
    )
    select max(id) - $3 / 2 as middle from message`,
    [programId, id, seeded],
  )
  return { id, other, middle: Number(rows[0]?.middle) }
}
