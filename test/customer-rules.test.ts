import { Client } from 'pg'
import { describe, expect, test } from 'vitest'
import { seedPartners } from './bench/seed.ts'
import { createDatabase } from './support/stack.ts'

const { databaseUrl, sql } = await createDatabase()
const { rows } = await sql.query<{ id: string }>(
  `with workspace as (insert into workspaces (name) values ('Workspace') returning id)
  insert into programs (workspace_id, name, domain) select id, 'Program', 'example.com' from workspace returning id`,
)
const programId = Number(rows[0]?.id)
const first = await seedPartners(sql, programId, 1)

let created = 0
/** Inserts a customer with these columns (SQL expressions), or updates one that a click created. */
const write = {
  insert: (columns: Record<string, string>) =>
    sql.query(
      `insert into customers (program_id, click_id, link_id, partner_id, last_click_at, ${Object.keys(columns).join(', ')})
      values ($1, $2, $3, $4, now(), ${Object.values(columns).join(', ')})`,
      [programId, `cust_${++created}`, first.firstLink, first.firstPartner],
    ),
  async update(columns: Record<string, string>) {
    await write.insert({ created_at: 'now()' })
    const changes = Object.entries(columns).map(([column, value]) => `${column} = ${value}`)
    await sql.query(`update customers set ${changes.join(', ')} where click_id = $1`, [`cust_${created}`])
  },
}
const lead = { signup_date: 'now()', lead_event_id: '1', customer_status: "'lead'" }

describe.for(['insert', 'update'] as const)('a customer, %s', (how) => {
  test.for([
    ['a customer key is empty', { customer_key: "''" }],
    ['an e-mail hash is not 32 bytes', { email_hash: "'\\x00'" }],
    ['a lead has no event', { ...lead, lead_event_id: 'null' }],
    ['an event of a lead has no lead', { lead_event_id: '1' }],
    ['a provisional lead has no event', { provisional_lead_at: 'now()' }],
    ['an event of a provisional lead has no lead', { provisional_lead_event_id: '1' }],
    ['a missing key is unverified', { key_unverified_since: 'now()' }],
    ['a missing e-mail hash is unverified', { ...lead, email_unverified_since: 'now()' }],
    ['the status is lead without a lead', { customer_status: "'lead'" }],
    ['the status is click after a lead', { ...lead, customer_status: "'click'" }],
    ['the status is lead after a purchase', { ...lead, first_purchase_date: 'now()' }],
    ['the status is unknown', { customer_status: "'customer'" }],
    ['the status contradicts another column', { customer_key: "'u'", customer_status: "'conversion'" }],
  ] as const)('is refused if %s', async ([, columns]) => {
    await expect(write[how](columns)).rejects.toMatchObject({ code: '23514' })
  })

  test.for([
    ['only a click', { created_at: 'now()' }],
    ['a key', { customer_key: `'${how}'` }],
    ['a provisional lead', { provisional_lead_at: 'now()', provisional_lead_event_id: '1' }],
    ['a lead', lead],
    ['a purchase', { ...lead, first_purchase_date: 'now()', customer_status: "'conversion'" }],
  ] as const)('is accepted with %s', async ([, columns]) => {
    await write[how](columns)
  })
})

test.for([
  ['link_clicks.clicks is never below 0', `insert into link_clicks values ($1, ${first.firstLink}, -1, 0, now())`],
  [
    'daily_totals.clicks is never below 0',
    `insert into daily_totals (program_id, day, slot, clicks) values ($1, now(), 1, -1)`,
  ],
  [
    'daily_totals.leads is never below 0',
    `insert into daily_totals (program_id, day, slot, leads) values ($1, now(), 2, -1)`,
  ],
] as const)('%s', async ([, statement]) => {
  await expect(sql.query(statement, [programId])).rejects.toMatchObject({ code: '23514' })
})

const settle = (client: Client, leadId: number) =>
  client.query<{ lead_id: string }>(
    `select lead_id from settle_lead($1, 'twice', null, null, null, $2, null, null, null, null, null)`,
    [programId, leadId],
  )

test('a lead that waited for a concurrent one of the same customer sees its result', async () => {
  await write.insert({ customer_key: "'twice'" })
  const other = new Client({ connectionString: databaseUrl })
  await other.connect()
  await sql.query('begin')
  await settle(sql, 1)
  const second = settle(other, 2)
  const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  const watcher = new Client({ connectionString: databaseUrl })
  await watcher.connect()
  await expect.poll(async () => (await watcher.query(waits)).rowCount).toBeGreaterThan(0)
  await sql.query('commit')
  expect((await second).rows).toEqual([{ lead_id: '1' }])
  const events = await sql.query('select id from affiliate_lead_events where customer_key = $1', ['twice'])
  expect(events.rows).toEqual([{ id: '1' }])
  await other.end()
  await watcher.end()
})
