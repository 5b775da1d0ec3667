import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { apiKeyHash } from '../../lib/access/api-keys.ts'
import { createSandbox } from '../../lib/local/sandbox.ts'
import { sales } from './calls.ts'
import { type Call, Connection, interleave, medianRate, quantile, rateRatio, type Side } from './driver.ts'
import { type BenchDatabase, type BenchStack, cpuMicroseconds, startDatabase, startStack } from './environment.ts'
import { type Result, round } from './result.ts'
import { seedCounters, seedCustomers, seedPartners } from './seed.ts'

const endpoints = 1000
const hanging = 10
const eventsEach = 3
const drains = 3

const rounds = 4
const callsARound = 300
const clients = 16
const buyers = 20_000
/** What is told of a sale: by itself, and with its commission. */
const told = { 'sale.created': ['sale.created'], 'and commission.created': ['sale.created', 'commission.created'] }

/**
 * Webhooks that the consumer in workerd takes to their servers in a second, of 1,000 programs with an endpoint each: with all of them well, and
 * while ten never answer; and what a sale costs in the database with an endpoint, against one without.
 */
export async function webhooks(): Promise<Result> {
  const database = await startDatabase()
  const cost = await costOfSale(database)
  await database.close()
  const stack = await startStack()
  const drained = await drain(stack)
  await stack.close()
  return { figures: [...drained.figures, ...cost.figures], goals: [...drained.goals, ...cost.goals] }
}

async function drain(stack: BenchStack): Promise<Result> {
  const { sql } = stack
  const held = new Set<() => void>()
  let mostHeld = 0
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.url !== '/hang') return response.end('ok')
      const answer = () => void response.end()
      held.add(answer)
      mostHeld = Math.max(mostHeld, held.size)
      return response.once('close', () => held.delete(answer))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await sql.query(
    `with program as (
      insert into programs (workspace_id, name, domain)
      select workspace_id, 'Told ' || n, 'shop.example.com' from programs, generate_series(1, $2::int) n where id = $1 returning id
    )
    insert into webhook_endpoints (program_id, url, types) select id, $3, '{sale.created}' from program`,
    [stack.sandbox.programId, endpoints, `${origin}/ok`],
  )
  const processes = {
    workerd: () => cpuMicroseconds(stack.workerdPid),
    'Neon endpoint': () => cpuMicroseconds(stack.neon.pid),
    Postgres: () => cpuMicroseconds(stack.postgresPid, true),
  }
  const measured: Record<string, Drained[]> = { well: [], hanging: [] }
  // The first one starts workerd's lanes and is not counted.
  for (let turn = 0; turn <= 2 * drains; turn++) {
    const kind = turn % 2 === 0 ? 'well' : 'hanging'
    await sql.query(
      `update webhook_endpoints set url = case when id % ($1::int / $2::int) = 0 and $3 then $4 else $5 end`,
      [endpoints, hanging, kind === 'hanging', `${origin}/hang`, `${origin}/ok`],
    )
    const { rows } = await sql.query<{ expected: string }>(
      `with written as (
        select write_webhook(e.program_id, 'sale.created', jsonb_build_object('sale_id', n, 'transaction_id', 'order-' || n, 'amount_cents', 4900,
          'currency', 'usd')), e.url from webhook_endpoints e, generate_series(1, $1::int) n
      ) select count(*) filter (where url = $2) as expected from written`,
      [turn === 0 ? 1 : eventsEach, `${origin}/ok`],
    )
    const expected = Number(rows[0]?.expected)
    await sql.query('analyze webhook_deliveries, webhook_endpoints, webhook_messages')
    await stack.scheduled('relay-outbox')
    const before = Object.entries(processes).map(([name, read]) => [name, read()] as const)
    const { rows: begun } = await sql.query<{ at: string }>('select now()::text as at')
    const run = stack.scheduled('deliver-webhooks')
    const { delivered, seconds } = await untilDelivered(sql, expected, `${origin}/ok`, begun[0]?.at ?? '')
    const cpu_us = before.map(([name, used]) => [
      name,
      (processes[name as keyof typeof processes]() - used) / delivered,
    ])
    // Whoever still waits for those that hang has nothing left to wait for.
    await sql.query(`update webhook_endpoints set disabled_at = now(), disabled_because = 'owner' where url <> $1`, [
      `${origin}/ok`,
    ])
    for (const answer of held) answer()
    held.clear()
    await run
    await sql.query('delete from webhook_messages')
    await sql.query(
      `update webhook_endpoints set disabled_at = null, disabled_because = null, failing_since = null, failures = 0, rests_until = null`,
    )
    if (delivered !== expected) throw new Error(`Of ${expected} webhooks ${delivered} were delivered in ${seconds} s.`)
    if (turn > 0) measured[kind]?.push({ perSecond: delivered / seconds, cpu_us: Object.fromEntries(cpu_us) })
  }
  server.close()
  server.closeAllConnections()
  const rateOf = (kind: string) => quantile(measured[kind]?.map(({ perSecond }) => perSecond) ?? [], 0.5)
  const ratio = rateOf('hanging') / rateOf('well')
  const figuresOf = (kind: string) => ({
    'webhooks/s': round(rateOf(kind)),
    ...Object.fromEntries(
      Object.keys(processes).map((name) => [
        `${name} us`,
        round(quantile(measured[kind]?.map(({ cpu_us }) => cpu_us[name] ?? NaN) ?? [], 0.5)),
      ]),
    ),
  })
  return {
    figures: [
      { what: `${endpoints} endpoints that answer`, ...figuresOf('well') },
      { what: `of these ${hanging} that hang`, ...figuresOf('hanging'), ratio: round(ratio), 'most at once': mostHeld },
    ],
    goals: [
      { what: `webhooks/s with ${hanging} of ${endpoints} hanging, of those with none`, measured: ratio, least: 0.5 },
    ],
  }
}

interface Drained {
  perSecond: number
  /** CPU time of each process for one webhook. */
  cpu_us: Record<string, number>
}

/** Waits until so many deliveries to an address are done, two minutes at most; `seconds` is when the last one was, since `begun`. */
async function untilDelivered(sql: pg.Client, expected: number, url: string, begun: string) {
  const patience = Date.now() + 120_000
  for (;;) {
    const { rows } = await sql.query<{ delivered: string; seconds: string }>(
      `select count(*) as delivered, extract(epoch from max(d.finished_at) - $2::timestamptz) as seconds
      from webhook_deliveries d join webhook_endpoints e on e.program_id = d.program_id and e.id = d.endpoint_id
      where d.status = 'delivered' and e.url = $1`,
      [url, begun],
    )
    const [delivered, seconds] = [Number(rows[0]?.delivered), Number(rows[0]?.seconds)]
    if (delivered >= expected || Date.now() > patience) return { delivered, seconds }
    await sleep(500)
  }
}

async function costOfSale(database: BenchDatabase): Promise<Result> {
  const { sql, db, env } = database
  async function seller(types: string[]) {
    const { programId, apiKey } = await createSandbox(db, env)
    const key = `buyer${programId}-`
    const first = await seedPartners(sql, programId, 1000, `code${programId}-`)
    const { rows } = await sql.query<{ last: string }>('select coalesce(max(lead_event_id), 0) as last from customers')
    await seedCustomers(sql, programId, first, { from: Number(rows[0]?.last) + 1, count: buyers, partners: 1000, key })
    await seedCounters(sql, programId)
    if (types.length > 0)
      await sql.query(
        `insert into webhook_endpoints (program_id, url, types) values ($1, 'https://example.com/', $2::text[]::webhook_type[])`,
        [programId, types],
      )
    return sales(await apiKeyHash(`Bearer ${apiKey}`), key, buyers)
  }
  const sellers = new Map([['without an endpoint', await seller([])]])
  for (const [name, types] of Object.entries(told)) sellers.set(name, await seller(types))
  await sql.query('analyze')
  const result: Result = { figures: [], goals: [] }
  for (const protocol of [
    { name: "as Neon's proxy sends it", named: false },
    { name: 'prepared', named: true },
  ]) {
    const carriers = await Promise.all(
      Array.from({ length: clients }, () => Connection.open(database.databaseUrl, protocol.named)),
    )
    const sides: Side<Call>[] = [...sellers].map(([name, calls]) => ({ name, carriers, calls }))
    const cpu = { Postgres: () => cpuMicroseconds(database.postgresPid, true) }
    const measured = await interleave(sides, { rounds, count: callsARound, cpu })
    const base = measured.get('without an endpoint')
    for (const { name } of sides) {
      const side = measured.get(name)
      const ratio = (side?.cpu_us['Postgres'] ?? NaN) / (base?.cpu_us['Postgres'] ?? NaN)
      result.figures.push({
        what: `a sale, ${side === base ? name : `told: ${name}`}, ${protocol.name}`,
        'CPU us': round(side?.cpu_us['Postgres'] ?? NaN),
        ratio: round(ratio),
        'calls/s': round(medianRate(side)),
        'rate ratio': round(rateRatio(side, base)),
      })
    }
    await Promise.all(carriers.map((connection) => connection.close()))
  }
  return result
}
