import { cursorOf } from '../../lib/api/lists.ts'
import { drive } from './driver.ts'
import { startStack } from './environment.ts'
import { type HttpCall, HttpConnection, httpCall } from './http.ts'
import { type Result, round } from './result.ts'
import { seedCounters, seedCustomers, seedPartners, seedSales } from './seed.ts'

const partners = 1000
const seeded = 20_000
const calls = 200

/**
 * Each route of the program API over one connection, with 1,000 partners and 20,000 customers who bought: its time and its requests to the
 * database. `deep` is a page of a hundred from the middle of a list, whose time is that of the first.
 */
export async function api(): Promise<Result> {
  const stack = await startStack()
  const { sql, baseUrl, sandbox } = stack
  const { programId, apiKey } = sandbox
  const seeds = await seedPartners(sql, programId, partners)
  await seedCustomers(sql, programId, seeds, { from: 1, count: seeded, partners, key: 'buyer' })
  await seedSales(sql, programId, 'buyer', 'order')
  await seedCounters(sql, programId)
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
  const routes: [name: string, next: () => HttpCall][] = [
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
  ]
  const control = new URL('/control', stack.neon.url).href
  const connection = new HttpConnection(baseUrl)
  const result: Result = { figures: [], goals: [] }
  for (const [call, next] of routes) {
    await drive([connection], [next()])
    await fetch(control, { method: 'DELETE', headers: stack.neon.control })
    const { p50_ms, p99_ms } = await drive([connection], Array.from({ length: calls }, next))
    const { requests } = (await (await fetch(control, { headers: stack.neon.control })).json()) as { requests: number }
    result.figures.push({ call, 'p50 ms': round(p50_ms), 'p99 ms': round(p99_ms), 'requests a call': requests / calls })
    result.goals.push({ what: `database requests of ${call}`, measured: requests / calls, most: 2 })
  }
  connection.close()
  await stack.close()
  return result
}
