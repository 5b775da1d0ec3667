import { apiKeyHash } from '../../lib/access/api-keys.ts'
import { clickOn, clicks, leads, refunds, sales } from './calls.ts'
import { type Call, Connection, interleave, medianRate, rateRatio, type Side } from './driver.ts'
import { cpuMicroseconds, startDatabase } from './environment.ts'
import { type Result, round } from './result.ts'
import { seedCounters, seedCustomers, seededClickId, seedPartners, seedSales } from './seed.ts'

const clients = 16
const rounds = 6
const callsARound = 1000

/**
 * Measures the statements of `lib/` for a click, a lead, a sale and a refund, with sixteen clients. Commits wait for
 * the disk. Compares a click with two bare inserts of its customer and its event, into tables with only their keys.
 */
export async function limit(): Promise<Result> {
  const database = await startDatabase()
  const { sql, sandbox } = database
  const { programId } = sandbox
  const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
  const seeded = (rounds + 1) * callsARound
  const first = await seedPartners(sql, programId, 1000)
  await seedCustomers(sql, programId, first, { from: 1, count: seeded, partners: 1000 })
  await seedCustomers(sql, programId, first, { from: seeded + 1, count: 20_000, partners: 1000, key: 'buyer' })
  await seedCustomers(sql, programId, first, { from: 10_000_001, count: seeded, partners: 1000, key: 'refunded' })
  await seedSales(sql, programId, 'refunded', 'order')
  await sql.query(bareTables)
  await seedCounters(sql, programId)

  const carriers = await Promise.all(Array.from({ length: clients }, () => Connection.open(database.databaseUrl)))
  const cpu = { Postgres: () => cpuMicroseconds(database.postgresPid, true) }
  const measure = async (sides: Record<string, Side<Call>['calls']>) => {
    const all = Object.entries(sides).map(([name, calls]): Side<Call> => ({ name, carriers, calls }))
    return await interleave(all, { rounds, count: callsARound, cpu })
  }
  const result: Result = { figures: [], goals: [] }
  const groups: Record<string, Side<Call>['calls']>[] = [
    { click: clicks(programId, 1000), 'two bare inserts': bareClicks(programId) },
    { lead: leads(programId, keyHash) },
    { sale: sales(keyHash, 'buyer', 20_000) },
    { refund: refunds(keyHash, 'order') },
  ]
  for (const sides of groups) {
    const measured = await measure(sides)
    for (const [name, side] of measured)
      result.figures.push({
        call: name,
        'calls/s': round(medianRate(side)),
        'CPU us': round(side.cpu_us['Postgres'] ?? NaN),
      })
    if (measured.has('click'))
      result.goals.push({
        what: 'rate of clicks relative to two bare inserts',
        measured: rateRatio(measured.get('click'), measured.get('two bare inserts')),
        least: 0.9,
      })
  }
  await Promise.all(carriers.map((connection) => connection.close()))
  await database.close()
  return result
}

const bareTables = `
create schema bare;
create table bare.customers (program_id bigint not null, id bigint generated always as identity, click_id text not null,
  customer_key text, customer_status text not null default 'click', signup_date timestamptz, first_purchase_date timestamptz,
  link_id bigint not null, partner_id bigint not null, last_click_at timestamptz not null, created_at timestamptz not null default now(),
  primary key (program_id, id), unique (program_id, click_id));
create table bare.click_events (like affiliate_click_events including defaults,
  primary key (program_id, is_test, click_timestamp, id));
insert into bare.customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at)
  select program_id, click_id, customer_key, link_id, partner_id, last_click_at from customers order by id;
`

function bareClicks(programId: number): (count: number) => Call[] {
  const click = clickOn('code1')
  let n = 0
  const next = () => {
    n++
    return {
      query: `with customer as (
  insert into bare.customers (program_id, click_id, link_id, partner_id, last_click_at) values ($1, $2, $3, $4, $5) returning id
)
insert into bare.click_events (program_id, is_test, click_timestamp, id, customer_id, link_id, session_id, affiliate_url, page_url,
  page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city,
  device_type, device_os, browser_name)
select $1, false, $5::timestamptz, $6::bigint, id, $3, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22
from customer`,
      params: [
        String(programId),
        seededClickId(programId, 1e9 + n),
        String(1 + (n % 1000)),
        String(1 + (n % 1000)),
        new Date().toISOString(),
        String(1e9 + n),
        click.session_id,
        click.affiliate_url,
        click.page_url,
        click.page_title,
        click.referrer_url,
        click.user_agent,
        click.screen_resolution,
        click.viewport_size,
        click.language,
        click.timezone,
        click.geo_country,
        click.geo_region,
        click.geo_city,
        click.device_type,
        click.device_os,
        click.browser_name,
      ],
    }
  }
  return (count) => Array.from({ length: count }, next)
}
