import { apiKeyHash } from '../../lib/access/api-keys.ts'
import { clickOn, clicks, leads, refunds, sales } from './calls.ts'
import { type Call, Connection, interleave, medianRate, rateRatio, type Side } from './driver.ts'
import { cpuMicroseconds, startDatabase } from './environment.ts'
import { type Result, round } from './result.ts'
import { seedCounters, seedCustomers, seededClickId, seedPartners, seedSales } from './seed.ts'

const clients = 16
const rounds = 6
const callsARound = 1000
const protocols = [
  { name: "as Neon's proxy sends it", named: false },
  { name: 'prepared', named: true },
]

/**
 * The statements that `lib/` sends for a click, a lead, a sale and a refund, against a minimum that inserts or changes
 * nothing but the rows that the specification names, in tables that have their keys and nothing else: no check, no foreign key, no other
 * index. A click is compared twice: with the customer's and the event's insert alone, and with the link's own counter too, which the
 * specification has updated. Sixteen clients, every commit waits for the disk. Neon's proxy has each statement parsed and planned in
 * each call, and the goals are for that; the local endpoint prepares them.
 */
export async function limit(): Promise<Result> {
  const database = await startDatabase()
  const { sql, sandbox } = database
  const { programId } = sandbox
  const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
  const seeded = (rounds + 1) * callsARound * protocols.length
  const first = await seedPartners(sql, programId, 1000)
  await seedCustomers(sql, programId, first, { from: 1, count: seeded, partners: 1000 })
  await seedCustomers(sql, programId, first, { from: seeded + 1, count: 20_000, partners: 1000, key: 'buyer' })
  await seedCustomers(sql, programId, first, { from: 10_000_001, count: seeded, partners: 1000, key: 'refunded' })
  await seedSales(sql, programId, 'refunded', 'order')
  await sql.query(minimumTables)
  await seedCounters(sql, programId)

  const sides = [
    { name: 'click, two inserts', real: clicks(1000), minimum: minimumClicks(programId) },
    { name: 'click, its link counted', real: clicks(1000), minimum: minimumClicks(programId, countLink) },
    { name: 'lead', real: leads(programId, keyHash), minimum: minimumLeads(programId) },
    { name: 'sale', real: sales(keyHash, 'buyer', 20_000), minimum: minimumSales(programId) },
    {
      name: 'refund',
      real: refunds(keyHash, 'order'),
      minimum: minimumRefunds(programId),
    },
  ]
  const result: Result = { figures: [], goals: [] }
  for (const protocol of protocols) {
    const carriers = await Promise.all(
      Array.from({ length: clients }, () => Connection.open(database.databaseUrl, protocol.named)),
    )
    for (const { name, real, minimum } of sides) {
      const both: Side<Call>[] = [
        { name: 'minimum', carriers, calls: minimum },
        { name: 'real', carriers, calls: real },
      ]
      const cpu = { Postgres: () => cpuMicroseconds(database.postgresPid, true) }
      const measured = await interleave(both, { rounds, count: callsARound, cpu })
      const ratio = rateRatio(measured.get('real'), measured.get('minimum'))
      result.figures.push({
        call: name,
        protocol: protocol.name,
        'calls/s': round(medianRate(measured.get('real'))),
        'minimum/s': round(medianRate(measured.get('minimum'))),
        ratio: round(ratio),
        'CPU us': round(measured.get('real')?.cpu_us['Postgres'] ?? NaN),
        'minimum us': round(measured.get('minimum')?.cpu_us['Postgres'] ?? NaN),
      })
      if (name.startsWith('click') && !protocol.named)
        result.goals.push({ what: `${name}, of its minimum`, measured: ratio, least: 0.8 })
    }
    await Promise.all(carriers.map((connection) => connection.close()))
  }
  await database.close()
  return result
}

const minimumTables = `
create schema minimum;
create table minimum.customers (program_id bigint not null, id bigint generated always as identity, click_id text not null,
  customer_key text, customer_status text not null default 'click', signup_date timestamptz, first_purchase_date timestamptz,
  link_id bigint not null, partner_id bigint not null, last_click_at timestamptz not null, created_at timestamptz not null default now(),
  primary key (program_id, id), unique (program_id, click_id));
create table minimum.click_events (like affiliate_click_events including defaults,
  primary key (program_id, is_test, click_timestamp, id));
create table minimum.lead_events (like affiliate_lead_events including defaults, primary key (program_id, is_test, lead_timestamp, id));
create table minimum.sales (like sales including defaults including identity, primary key (program_id, id),
  unique (program_id, is_test, transaction_id));
create table minimum.commissions (program_id bigint not null, id bigint generated always as identity, partner_id bigint not null,
  customer_id bigint not null, sale_id bigint not null, currency text not null, amount_cents bigint not null,
  reversed_cents bigint not null default 0, status text not null default 'pending', hold_until timestamptz not null,
  created_at timestamptz not null default now(), primary key (program_id, id), unique (program_id, sale_id));
create table minimum.refunds (like refunds including defaults including identity, primary key (program_id, id),
  unique (program_id, sale_id, refund_key));
insert into minimum.customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at)
  select program_id, click_id, customer_key, link_id, partner_id, last_click_at from customers order by id;
insert into minimum.sales (program_id, transaction_id, customer_id, partner_id, customer_key, amount_cents, commission_base_cents, currency)
  select program_id, transaction_id, customer_id, partner_id, customer_key, amount_cents, commission_base_cents, currency
  from sales order by id;
insert into minimum.commissions (program_id, partner_id, customer_id, sale_id, currency, amount_cents, hold_until)
  select program_id, partner_id, customer_id, id, currency, 980, now() from minimum.sales order by id;
create table minimum.links (program_id bigint not null, id bigint not null, clicks bigint not null, last_clicked_at timestamptz not null,
  primary key (program_id, id)) with (fillfactor = 50);
insert into minimum.links select p.id, link, 0, now() from programs p, generate_series(1, 1000) link;
`

/** What the specification has changed beside the two rows it has inserted: the link's own counter. */
const countLink = `, link as (
  update minimum.links set clicks = clicks + 1, last_clicked_at = $5 where program_id = $1 and id = $3
)`

/** A maker of calls numbered from 1 up. */
function numbered(make: (n: number) => Call): (count: number) => Call[] {
  let n = 0
  return (count) => Array.from({ length: count }, () => make(++n))
}

function minimumClicks(programId: number, alsoChanged = '') {
  const click = clickOn('code1')
  const start = alsoChanged ? 2e9 : 1e9
  return numbered((n) => ({
    query: `with customer as (
  insert into minimum.customers (program_id, click_id, link_id, partner_id, last_click_at) values ($1, $2, $3, $4, $5) returning id
)${alsoChanged}
insert into minimum.click_events (program_id, is_test, click_timestamp, id, customer_id, link_id, session_id, affiliate_url, page_url,
  page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city,
  device_type, device_os, browser_name)
select $1, false, $5::timestamptz, $6::bigint, id, $3, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22
from customer`,
    params: [
      String(programId),
      seededClickId(programId, start + n),
      String(1 + (n % 1000)),
      String(1 + (n % 1000)),
      new Date().toISOString(),
      String(start + n),
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
  }))
}

function minimumLeads(programId: number) {
  return numbered((n) => ({
    query: `with customer as (
  update minimum.customers set customer_key = $3, customer_status = 'lead', signup_date = now()
  where program_id = $1 and click_id = $2 returning id
)
insert into minimum.lead_events (program_id, id, customer_id, customer_key) select $1, $4::bigint, id, $3 from customer`,
    params: [String(programId), seededClickId(programId, n), `lead${n}`, String(n)],
  }))
}

function minimumSales(programId: number) {
  return numbered((n) => ({
    query: `with sale as (
  insert into minimum.sales (program_id, transaction_id, customer_id, partner_id, customer_key, amount_cents, commission_base_cents, currency)
  values ($1, $2, $3, $4, $5, 4900, 4900, 'usd') returning id
)
insert into minimum.commissions (program_id, partner_id, customer_id, sale_id, currency, amount_cents, hold_until)
select $1, $4, $3, id, 'usd', 980, now() + interval '30 days' from sale`,
    params: [String(programId), `buyer-order-${n}`, String(1 + (n % 20_000)), String(1 + (n % 1000)), `buyer${n}`],
  }))
}

function minimumRefunds(programId: number) {
  return numbered((n) => ({
    query: `with sale as (
  update minimum.sales set refunded_cents = refunded_cents + 1000 where program_id = $1 and not is_test and transaction_id = $2 returning id
), commission as (
  update minimum.commissions c set reversed_cents = 200, status = 'refunded' from sale where c.program_id = $1 and c.sale_id = sale.id
)
insert into minimum.refunds (program_id, sale_id, refund_key, requested_cents, applied_cents, deduction_cents)
select $1, id, 'id:refund-1', 1000, 1000, 200 from sale`,
    params: [String(programId), `order${n}`],
  }))
}
