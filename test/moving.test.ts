import { spawn } from 'node:child_process'
import { once as nextEvent } from 'node:events'
import { afterAll, expect, test } from 'vitest'
import imports from '../functions/imports.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { audit } from '../lib/commands/audit.ts'
import { statementOf } from '../lib/database.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { createPayoutRun } from '../lib/money/payout-runs.ts'
import { askPayout, refusePayout } from '../lib/money/payouts.ts'
import { continueImports, createImport, deleteOldImports, importFiles, readImport } from '../lib/moving/imports.ts'
import { type ImportFile, openFiles, readFiles } from '../lib/moving/read-files.ts'
import { services } from '../lib/moving/sources.ts'
import { decodeTable, readTable, type TableRecord } from '../lib/moving/table.ts'
import { codeOfLink, currencyOfAmount, readAmount, readDate, readEmail, readMonths } from '../lib/moving/values.ts'
import { contents } from './support/moved.ts'
import { enterShadowMode } from '../lib/programs/shadow-mode.ts'
import { readPartnerDetails } from '../lib/programs/partner-details.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { addOwner } from './support/joined-partner.ts'
import { bill } from './support/payments.ts'
import { bareEnvironment } from './support/spawned.ts'
import { serviceFiles } from './support/service-files.ts'
import { startServices } from './support/services.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env: webhookEnv, send, salesOf } = await openWebhook(endpoint)
const size = { partners: 102, customers: 102 }
const standIns = await startServices(size)
afterAll(() => standIns.close())
const env = { ...webhookEnv, IMPORT_API_URL: standIns.url }

interface Caller {
  shop: TestShop
  // oxlint-disable-next-line no-explicit-any -- each test knows its answers
  call: (method: string, path: string, body?: unknown, headers?: object) => Promise<{ status: number; body: any }>
}

async function startCaller(settings: Parameters<typeof createShop>[1] = {}): Promise<Caller> {
  const shop = await createShop(sql, settings)
  await addOwner(sql, shop.programId)
  const key = await createApiKey(db, shop.programId, 'test', { scopes: ['manage', 'read'] })
  const waiting: Promise<unknown>[] = []
  const context = {
    waitUntil: (work: Promise<unknown>) => waiting.push(work),
    passThroughOnException: () => {},
    props: {},
  }
  return {
    shop,
    call: async (method, path, body, headers = {}) => {
      const sent = {
        method,
        headers: {
          authorization: `Bearer ${key}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      }
      const response = await imports.request(`/api/v1/imports${path}`, sent, env, context)
      const answer = { status: response.status, body: await response.json() }
      await Promise.all(waiting)
      return answer
    },
  }
}

/** The findings of the audit, without the shop's visitor, who has no click event. */
const audits = async ({ programId }: TestShop) =>
  (await audit(sql, programId)).filter(({ check, total }) => total > 0 && check !== 'a customer came by a click')

/** Partners in the format of a German spreadsheet: semicolons, decimal commas, extra spaces, UTF-16. */
const partners = [
  'Partner ID;Name;E-Mail;Campaign;Token;Coupon;Balance;Currency;Status',
  '1; Ada Lovelace ;ADA@example.com;Gold;ada;ADA10;"1.234,50";USD;active',
  '2;Grace Hopper;grace@example.com;Gold;grace, grace-2;;;;active',
  '3;Idle Partner;idle@example.com;;idle;;0;USD;active',
  '4;Ada Again;ada@example.com;;ada-old;;10,00;USD;active',
  '5;Rival;rival@example.com;;ada;;;;active',
  '6;Broken;not an address;;john doe!;;zwölf;USD;rejected',
  ';;;;;;;;;',
].join('\r\n')
const customers = [
  'stripe_customer_id,user id,customer email,affiliate id,token,signup date,first purchase date',
  'cus_moved,user-1,buyer@example.com,1,ada,03/02/2024,25/02/2024',
  'cus_other,,,grace@example.com,grace,2025-01-31,',
  ',,,1,,,',
  'cus_lost,user-3,,nobody,,,',
].join('\n')
const commissions = [
  'Commission ID,Affiliate email,Customer ID,Amount,Currency,Status,Sale amount,Stripe charge ID,Created at',
  'c1,ada@example.com,user-1,12.00,USD,paid,60.00,ch_1,2024-02-25',
  'c2,ada@example.com,user-1,"1,200.00",JPY,voided,,,2024-03-25',
  'c3,nobody@example.com,,1.00,USD,due,,,2024-03-25',
].join('\n')

const utf16 = (text: string) => Buffer.from(`\uFEFF${text}`, 'utf16le').toString('base64')
const files = [
  { name: 'partners.csv', content_base64: utf16(partners) },
  { name: 'customers.csv', content: customers },
  { name: 'commissions.csv', content: `\uFEFF${commissions}` },
]

test.for(['=cmd|calc!a0@example.com', '+hyperlink(a1)@example.com', 'a\u202eb@example.com', 'a\0@example.com'])(
  'an import refuses addresses like %j',
  (text) => {
    expect(readEmail(text)).toBeUndefined()
    expect(readEmail(' mailto:Zoë.O’Neil+a@example.co.uk ')).toBe('zoë.o’neil+a@example.co.uk')
  },
)

test('an import is planned and applied row by row, has no effect when repeated, and can be undone completely', async () => {
  const { shop, call } = await startCaller()
  const before = await contents(sql, shop.programId)
  const planned = await call('POST', '', { source: 'rewardful', files })
  expect(planned).toMatchObject({ status: 201, body: { state: 'planned', import_id: expect.any(Number) } })
  const id = planned.body.import_id
  expect(await contents(sql, shop.programId)).toBe(before)
  expect(planned.body.files[2]).toEqual({
    name: 'commissions.csv',
    table: 'commissions',
    columns: {
      id: 'Commission ID',
      partner: 'Affiliate email',
      customer: 'Customer ID',
      amount: 'Amount',
      currency: 'Currency',
      status: 'Status',
      sale_amount: 'Sale amount',
      payment_id: 'Stripe charge ID',
      earned_at: 'Created at',
    },
    unused: [],
  })

  const rows = (await call('GET', `/${id}/rows?limit=100`)).body.data
  const shown = rows.map((row: Record<string, unknown>) =>
    [row['kind'], row['source_id'], row['outcome'], row['reason']].join(' '),
  )
  expect(shown).toMatchInlineSnapshot(`
    [
      "group Gold create terms_not_imported",
      "partner 1 create new",
      "link ada create new",
      "code ada10 create new",
      "balance 1:usd create new",
      "partner 2 create new",
      "link grace create new",
      "link grace-2 create new",
      "partner 3 create new",
      "link idle create new",
      "partner 4 skip same_email_as_another_row",
      "link ada-old create new",
      "balance 4:usd skip added_to_another_row",
      "partner 5 create new",
      "link ada error code_taken",
      "partner 6 create email_not_accepted",
      "link john doe! error code_not_accepted",
      "balance 6:usd error amount_not_accepted",
      "customer cus_moved create new",
      "customer cus_other create no_first_purchase_date",
      "customer none error no_customer_id",
      "customer cus_lost error partner_not_found",
      "commission c1 create history_only",
      "commission c2 create history_only",
      "commission c3 error partner_not_found",
    ]
  `)
  expect(JSON.stringify(rows)).not.toMatch(/buyer@|email_hash/)
  const errors = (await call('GET', `/${id}/rows?outcome=error&limit=2`)).body
  expect(errors.data.map((row: { outcome: string }) => row.outcome)).toEqual(['error', 'error'])
  expect(
    (await call('GET', `/${id}/rows?outcome=error&cursor=${errors.next_cursor}`)).body.data[0].row_id,
  ).toBeGreaterThan(errors.data[1].row_id)

  const applied = await call('POST', `/${id}/apply`)
  expect(applied).toMatchObject({ status: 200, body: { state: 'applied', counts: planned.body.counts } })
  expect(applied.body.applied_rows).toBe(applied.body.counts.create)
  const ada = await sql.query(
    `select p.external_id, g.name as group_name, b.balance_cents::integer, e.cause, array(select l.code from referral_links l where l.partner_id = p.id order by 1) as links
    from partners p join partner_groups g on g.id = p.group_id join balances b on b.partner_id = p.id join balance_entries e on e.partner_id = p.id
    where p.program_id = $1 and p.email = 'ada@example.com'`,
    [shop.programId],
  )
  expect(ada.rows).toEqual([
    {
      external_id: 'rewardful:1',
      group_name: 'Gold',
      balance_cents: 124_450,
      cause: 'opening_balance',
      links: ['ada', 'ada-old'],
    },
  ])
  const moved = await sql.query(
    `select c.customer_key, c.first_purchase_date, c.signup_date, l.code from customers c
    join processor_customers p on p.customer_id = c.id left join referral_links l on l.id = c.link_id
    where c.program_id = $1 and p.processor_customer_id = 'cus_moved'`,
    [shop.programId],
  )
  expect(moved.rows).toEqual([
    {
      customer_key: 'user-1',
      signup_date: new Date('2024-02-03T00:00:00Z'),
      first_purchase_date: new Date('2024-02-25T00:00:00Z'),
      code: 'ada',
    },
  ])
  expect(await audits(shop)).toEqual([])
  const log = await sql.query(`select action from audit_log where program_id = $1 and api_key_id is not null`, [
    shop.programId,
  ])
  expect(log.rows).toEqual([{ action: 'import.applied' }])
  expect((await sql.query('select link_params from programs where id = $1', [shop.programId])).rows).toEqual([
    { link_params: ['via'] },
  ])

  const once = await contents(sql, shop.programId)
  expect((await call('POST', `/${id}/apply`)).body.state).toBe('applied')
  const again = await call('POST', '', { source: 'rewardful', files })
  expect(again.body.counts).toMatchObject({ create: 0, update: 0 })
  expect((await call('POST', `/${again.body.import_id}/apply`)).body.state).toBe('applied')
  expect(await contents(sql, shop.programId)).toBe(once)

  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
  expect(await contents(sql, shop.programId)).toBe(before)
  expect((await call('POST', `/${id}/undo`)).status).toBe(200)
  expect((await call('POST', `/${id}/apply`)).status).toBe(409)
  expect(await audits(shop)).toEqual([])
})

test('the renewal of an imported customer is attributed without metadata, and an undo keeps that customer', async () => {
  const { shop, call } = await startCaller()
  const { import_id: id } = (await call('POST', '', { source: 'rewardful', files })).body
  await call('POST', `/${id}/apply`)
  const renewal = { id: 'in_9', payment_intent: 'pi_9', charge: 'ch_9', subscription: 'sub_9', metadata: {} }
  expect(
    (await send({ ...shop, customer: 'cus_moved' }, 'invoice.paid', bill({ ...shop, customer: 'cus_moved' }, renewal)))
      .body,
  ).toMatchObject({
    outcome: 'recorded',
    reason: null,
  })
  expect(await salesOf(shop)).toMatchObject([{ transaction_id: 'in_9', commission: 2000 }])
  expect(await audits(shop)).toEqual([])
  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
  const remaining = await sql.query(
    `select kind::text, count(*)::integer as rows from import_rows where program_id = $1 and reason = 'in_use' group by import_rows.kind order by import_rows.kind`,
    [shop.programId],
  )
  expect(remaining.rows).toEqual([
    { kind: 'group', rows: 1 },
    { kind: 'partner', rows: 1 },
    { kind: 'link', rows: 1 },
    { kind: 'customer', rows: 1 },
  ])
  expect(await salesOf(shop)).toHaveLength(1)
  expect(await audits(shop)).toEqual([])
})

test('a second import changes the history, and undoing it restores the amount and the state of each commission', async () => {
  const { shop, call } = await startCaller()
  const apply = async (content: string) => {
    const sent = [files[0], files[1], { name: 'commissions.csv', content }]
    const { import_id: id, counts } = (await call('POST', '', { source: 'rewardful', files: sent })).body
    await call('POST', `/${id}/apply`)
    return { id, counts }
  }
  await apply(commissions)
  const once = await contents(sql, shop.programId)
  const { id, counts } = await apply(commissions.replace('12.00,USD,paid', '11.00,USD,voided'))
  expect(counts).toMatchObject({ create: 0, update: 1 })
  const history = `select amount_cents::int, status from imported_commissions where program_id = $1 and external_id = 'rewardful:c1'`
  expect((await sql.query(history, [shop.programId])).rows).toEqual([{ amount_cents: 1100, status: 'rejected' }])
  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
  expect((await sql.query(history, [shop.programId])).rows).toEqual([{ amount_cents: 1200, status: 'paid' }])
  expect(await contents(sql, shop.programId)).toBe(once)
})

test('an undo keeps addresses, groups and names of customers that changed or were used after the import', async () => {
  const { shop, call } = await startCaller()
  const { programId, partnerId, otherPartnerId } = shop
  await sql.query(
    `update partners set email = case id when $2 then 'ada@example.com' else 'bob@example.com' end,
      payout_email = case id when $2 then 'old@example.com' end where program_id = $1`,
    [programId, partnerId],
  )
  // Customers who are known by the processor's id only.
  const ids = Array.from({ length: 5 }, (_, n) => `cus_${n}`)
  const added = await sql.query<{ id: string }>(
    `insert into customers (program_id, click_id, link_id, partner_id, last_click_at)
    select $1, 'cust_' || gen_random_uuid(), $4, $2, now() from unnest($3::text[])
    returning id`,
    [programId, partnerId, ids, shop.linkId],
  )
  await sql.query(
    `insert into processor_customers (program_id, processor_customer_id, customer_id) select $1, * from unnest($2::text[], $3::bigint[])`,
    [programId, ids, added.rows.map(({ id }) => id)],
  )
  const sent = {
    source: 'csv',
    files: [
      {
        name: 'partners.csv',
        content:
          'id,name,email,payout email,group\n1,Ada,ada@example.com,csv@example.com,Gold\n2,Bob,bob@example.com,csv@example.com,Gold',
      },
      {
        name: 'customers.csv',
        content: `stripe customer id,user id,email,partner\n${ids.map((id, n) => `${id},${n < 2 ? '' : `u${n}`},${id}@example.com,1`).join('\n')}`,
      },
    ],
  }
  const { import_id: id, counts } = (await call('POST', '', sent)).body
  expect(counts).toMatchObject({ create: 1, update: 7, error: 0 })
  expect((await call('POST', `/${id}/apply`)).body.state).toBe('applied')

  await sql.query(`update partners set payout_email = 'new@example.com' where id = $1`, [partnerId])
  const other = await sql.query(`insert into partner_groups (program_id, name) values ($1, 'Silver') returning id`, [
    programId,
  ])
  await sql.query('update partners set group_id = $2 where id = $1', [partnerId, other.rows[0].id])
  const keyed =
    'update customers set updated_at = clock_timestamp(), customer_key = $2, key_unverified_since = $3 where id = $1'
  await sql.query(keyed, [added.rows[0]?.id, 'u0', null])
  await sql.query(keyed, [added.rows[1]?.id, 'u1', new Date()])
  await endpoint.db.query(
    // A lead with an imported key, and then a purchase.
    statementOf('select settle_lead($1, $2, null, $3, now(), 1, null, null, null, null, null)', [
      programId,
      'u2',
      'cust_1_',
    ]),
  )
  const metadata = { program_id: String(programId), svc_customer_key: 'u3' }
  const paid = { ...shop, customer: 'cus_x' }
  expect((await send(paid, 'invoice.paid', bill(paid, { metadata }))).body).toMatchObject({
    outcome: 'recorded',
    reason: null,
  })
  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')

  const partnersNow = await sql.query(
    `select p.payout_email, g.name, p.external_id from partners p left join partner_groups g on g.id = p.group_id
    where p.id = any ($1) order by p.id`,
    [[partnerId, otherPartnerId]],
  )
  expect(partnersNow.rows).toEqual([
    { payout_email: 'new@example.com', name: 'Silver', external_id: null },
    { payout_email: null, name: null, external_id: null },
  ])
  const customersNow = await sql.query(
    `select c.customer_key, r.reason, c.email_hash is not null as has_email from customers c
    join import_rows r on r.program_id = c.program_id and r.target_id = c.id and r.kind = 'customer' where c.program_id = $1 order by c.id`,
    [programId],
  )
  expect(customersNow.rows).toEqual([
    { customer_key: 'u0', reason: 'in_use', has_email: true },
    { customer_key: 'u1', reason: 'in_use', has_email: true },
    { customer_key: 'u2', reason: 'in_use', has_email: true },
    { customer_key: 'u3', reason: 'in_use', has_email: true },
    { customer_key: null, reason: 'adds_names', has_email: false },
  ])
  expect(await audits(shop)).toEqual([])
})

test('an import whose money is in a payout cannot be undone', async () => {
  const { shop, call } = await startCaller()
  const { import_id: id } = (await call('POST', '', { source: 'rewardful', files })).body
  await call('POST', `/${id}/apply`)
  const partner = await sql.query(`select id from partners where program_id = $1 and email = 'ada@example.com'`, [
    shop.programId,
  ])
  const of = { programId: shop.programId, partnerId: partner.rows[0].id }
  const payout = await askPayout(db, { ...of, currency: 'usd', amountCents: 5000, requestId: crypto.randomUUID() })
  expect(await call('POST', `/${id}/undo`)).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
  await refusePayout(db, of.programId, payout, 'no')
  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
})

test('if several people undo an import during payout requests and a run, each opening balance is either undone or in a payout', async () => {
  for (const isUndoFirst of [true, false]) {
    const { shop, call } = await startCaller()
    const { programId } = shop
    const lines = Array.from({ length: 12 }, (_, n) => `${n},Partner ${n},p${n}@example.com,5.00,USD`)
    const content = ['id,name,email,balance,currency', ...lines].join('\n')
    const sent = { source: 'csv', files: [{ name: 'partners.csv', content }] }
    const { import_id: id } = (await call('POST', '', sent)).body
    await call('POST', `/${id}/apply`)
    const { rows: imported } = await sql.query<{ id: number }>(
      'select id::int from partners where program_id = $1 and external_id is not null order by id',
      [programId],
    )
    const ask = async (partnerId: number) =>
      await askPayout(db, { programId, partnerId, currency: 'usd', amountCents: 500, requestId: crypto.randomUUID() })
    const undo = async () => expect([200, 409]).toContain((await call('POST', `/${id}/undo`)).status)
    const steps: (() => Promise<unknown>)[] = [
      ...Array.from({ length: 4 }, () => undo),
      ...imported.slice(0, 3).map((partner) => () => ask(partner.id)),
      () => createPayoutRun(db, programId, crypto.randomUUID()),
    ]
    const outcomes = await Promise.allSettled((isUndoFirst ? steps : steps.toReversed()).map((step) => step()))
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'conflict' })
    await continueImports(db, env, 60)
    const { rows } = await sql.query(
      `select i.state, (select coalesce(sum(b.balance_cents), 0)::int from balances b where b.program_id = i.program_id) as left_cents,
        (select coalesce(sum(w.amount_cents), 0)::int from payouts w where w.program_id = i.program_id) as payout_cents,
        (select count(*)::int from audit_log l where l.program_id = i.program_id and l.action = 'import.undone') as undone
      from imports i where i.id = $1`,
      [id],
    )
    const { state, left_cents: left, payout_cents: inPayouts, undone } = rows[0]
    expect([left, undone]).toEqual(state === 'undone' ? [inPayouts, 1] : [12 * 500, 0])
    expect(await audits(shop)).toEqual([])
  }
})

test('an undo locks balances in the order of the partners, as a run does', async () => {
  const { shop, call } = await startCaller()
  const content = 'id,name,email,balance,currency\n1,Ada,ada@example.com,5,USD\n2,Bob,bob@example.com,5,USD'
  const sent = { source: 'csv', files: [{ name: 'partners.csv', content }] }
  const { import_id: id } = (await call('POST', '', sent)).body
  await call('POST', `/${id}/apply`)
  const lock = async (end: 'min' | 'max') =>
    await sql.query(
      `select from balances where program_id = $1 and partner_id = (select ${end}(partner_id) from balances where program_id = $1)
      for no key update nowait`,
      [shop.programId],
    )
  await sql.query('begin')
  await lock('min')
  const undone = call('POST', `/${id}/undo`)
  const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  await expect.poll(async () => (await sql.query(waiting)).rowCount).toBe(1)
  expect((await lock('max')).rowCount).toBe(1)
  await sql.query('rollback')
  expect((await undone).body.state).toBe('undone')
})

test('an undo locks customers before balances, as a sale does', async () => {
  const { shop, call } = await startCaller()
  const { import_id: id } = (await call('POST', '', { source: 'rewardful', files })).body
  await call('POST', `/${id}/apply`)
  await sql.query('begin')
  const customer = `select from customers where program_id = $1 and customer_key = 'user-1' for no key update`
  expect((await sql.query(customer, [shop.programId])).rowCount).toBe(1)
  const undone = call('POST', `/${id}/undo`)
  const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  await expect.poll(async () => (await sql.query(waiting)).rowCount).toBe(1)
  const balances = 'select from balances where program_id = $1 for no key update nowait'
  expect((await sql.query(balances, [shop.programId])).rowCount).toBeGreaterThan(0)
  await sql.query('rollback')
  expect((await undone).body.state).toBe('undone')
})

test('an interrupted import is continued by its request or by the schedule', async () => {
  const { shop, call } = await startCaller()
  const twice = { 'idempotency-key': 'move' }
  endpoint.neon.inject({ action: 'drop-before', matching: 'store_import_rows', times: 2 })
  expect((await call('POST', '', { source: 'csv', files }, twice)).status).toBe(503)
  const first = await call('POST', '', { source: 'csv', files }, twice)
  expect((await call('POST', '', { source: 'csv', files }, twice)).body).toMatchObject({
    import_id: first.body.import_id,
    state: 'planned',
  })
  const id = first.body.import_id
  await sql.query(`select begin_import($1, $2, '{via}')`, [shop.programId, id])
  await sql.query('select apply_import_rows($1, $2, 3)', [shop.programId, id])
  expect((await call('GET', `/${id}`)).body).toMatchObject({ state: 'applying', applied_rows: 3 })
  await continueImports(db, env, 60)
  expect((await call('GET', `/${id}`)).body).toMatchObject({ state: 'applied', counts: first.body.counts })
  expect(await audits(shop)).toEqual([])
})

const applyInChild = `
  import { Database } from './lib/database.ts'
  import { applyImport } from './lib/moving/imports.ts'
  const [programId, importId] = process.argv.slice(1).map(Number)
  await applyImport(new Database(process.env), { EMAIL_HASH_KEY: 'test' }, programId, importId, 600)`

test('an import whose process is killed is continued, with the same result as an uninterrupted one', async () => {
  const lines = Array.from({ length: 600 }, (_, n) => `${n},Partner ${n},p${n}@example.com,token-${n},1.50,USD`)
  const content = ['id,name,email,token,balance,currency', ...lines].join('\n')
  const [killed, whole] = [await startCaller(), await startCaller()]
  const ids = await Promise.all(
    [killed, whole].map(async ({ call }) => {
      const { body } = await call('POST', '', { source: 'csv', files: [{ name: 'partners.csv', content }] })
      expect(body).toMatchObject({ state: 'planned', counts: { create: 1800 } })
      return Number(body.import_id)
    }),
  )
  const { DATABASE_URL, NEON_ENDPOINT } = endpoint.env
  const child = spawn(
    process.execPath,
    ['--input-type=module', '-e', applyInChild, String(killed.shop.programId), String(ids[0])],
    { env: { ...bareEnvironment, DATABASE_URL, NEON_ENDPOINT }, stdio: 'ignore' },
  )
  const ended = nextEvent(child, 'exit')
  await expect.poll(async () => (await killed.call('GET', `/${ids[0]}`)).body.applied_rows).toBeGreaterThan(0)
  child.kill('SIGKILL')
  expect(await ended).toEqual([null, 'SIGKILL'])
  const { state, applied_rows: applied } = (await killed.call('GET', `/${ids[0]}`)).body
  expect(state).toBe('applying')
  expect(applied).toBeLessThan(1800)
  await continueImports(db, env, 60)
  await whole.call('POST', `/${ids[1]}/apply`)
  const results = [killed, whole].map(async ({ shop: { programId } }) => {
    const { rows } = await sql.query(
      `select r.name, r.email, r.external_id, l.code, b.balance_cents from partners r
      join referral_links l on l.program_id = r.program_id and l.partner_id = r.id
      join balances b on b.program_id = r.program_id and b.partner_id = r.id where r.program_id = $1 order by r.id`,
      [programId],
    )
    return rows
  })
  const [resumed, expected] = await Promise.all(results)
  expect(resumed).toEqual(expected)
  expect(resumed).toHaveLength(600)
  expect(await audits(killed.shop)).toEqual([])
})

test('an undo in shadow mode keeps an opening debt that has later entries, because its return would be a credit', async () => {
  const { shop, call } = await startCaller()
  const content = 'Partner ID,Name,E-Mail,Balance,Currency\n1,Ada,ada@example.com,-5.00,USD'
  const { import_id: id } = (await call('POST', '', { source: 'csv', files: [{ name: 'partners.csv', content }] })).body
  await call('POST', `/${id}/apply`)
  const partner = await sql.query(
    'select min(id)::int as id from partners where program_id = $1 and external_id is not null',
    [shop.programId],
  )
  const bonus = { partnerId: partner.rows[0].id, amountCents: 100, note: 'Bonus' }
  await createAdjustment(db, shop.programId, bonus, crypto.randomUUID(), [])
  await enterShadowMode(db, shop.programId)
  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
  expect(
    (await call('GET', `/${id}/rows?outcome=create`)).body.data.map(({ reason }: { reason: string }) => reason),
  ).toEqual(['in_use', 'in_use'])
  expect(await audits(shop)).toEqual([])
})

test("an undo reverses an opening balance that has later entries, and doesn't delete other entries", async () => {
  const { shop, call } = await startCaller()
  const { import_id: id } = (await call('POST', '', { source: 'rewardful', files })).body
  await call('POST', `/${id}/apply`)
  const partner = await sql.query(`select id from partners where program_id = $1 and email = 'ada@example.com'`, [
    shop.programId,
  ])
  const partnerId = Number(partner.rows[0].id)
  await createAdjustment(db, shop.programId, { partnerId, amountCents: 100, note: 'Bonus' }, crypto.randomUUID(), [])
  const program = { id: shop.programId, workspaceId: crypto.randomUUID(), currency: 'usd' }
  expect((await readPartnerDetails(db, program, partnerId)).imported).toMatchObject([
    { external_id: 'rewardful:c2', amount_cents: 1200, currency: 'jpy', status: 'rejected' },
    { external_id: 'rewardful:c1', amount_cents: 1200, currency: 'usd', status: 'paid' },
  ])
  const remove = `begin; set local svc.undoing_import = 'on'; delete from balance_entries where partner_id = ${partnerId}`
  await expect(sql.query(remove)).rejects.toThrow('append-only')
  await sql.query('rollback')
  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
  const entries = await sql.query(
    'select cause, amount_cents::integer as cents from balance_entries where partner_id = $1 order by entry_number',
    [partnerId],
  )
  expect(entries.rows).toEqual([
    { cause: 'opening_balance', cents: 124_450 },
    { cause: 'adjusted', cents: 100 },
    { cause: 'opening_balance', cents: -124_450 },
  ])
  const log = await sql.query(`select details from audit_log where program_id = $1 and action = 'import.undone'`, [
    shop.programId,
  ])
  expect(log.rows).toEqual([{ details: { source: 'rewardful', 'opening_balances_cents usd': 124_450 } }])
  expect(await audits(shop)).toEqual([])
})

test('an undo keeps an opening balance of a closed month, and posts the opposite amount in the open month', async () => {
  const { shop, call } = await startCaller()
  const content = 'Partner ID,Name,E-Mail,Balance,Currency\n1,Ada,ada@example.com,5.00,USD'
  const { import_id: id } = (await call('POST', '', { source: 'csv', files: [{ name: 'partners.csv', content }] })).body
  await call('POST', `/${id}/apply`)
  await sql.query('begin')
  await sql.query('set local session_replication_role = replica')
  await sql.query(
    `with moved as (select e.*, date_trunc('month', now(), 'UTC') - interval '1 second' as earlier from balance_entries e where program_id = $1)
    update balance_entries e set created_at = m.earlier,
      entry_hash = hash_of_entry(null, jsonb_set(facts_of_entry(e), '{14}', to_jsonb(extract(epoch from m.earlier))))
    from moved m where e.program_id = m.program_id and e.partner_id = m.partner_id`,
    [shop.programId],
  )
  await sql.query('commit')
  expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
  const { rows } = await sql.query(
    'select amount_cents::int as cents, is_in_open_month(created_at) as open from balance_entries where program_id = $1 order by entry_number',
    [shop.programId],
  )
  expect(rows).toEqual([
    { cents: 500, open: false },
    { cents: -500, open: true },
  ])
  expect(await audits(shop)).toEqual([])
})

test('deleting an old import keeps the imported data, and erasing a customer empties their row', async () => {
  const { shop, call } = await startCaller()
  const { import_id: id } = (await call('POST', '', { source: 'rewardful', files })).body
  await call('POST', `/${id}/apply`)
  const imported = await contents(sql, shop.programId)
  await sql.query(`update imports set created_at = now() - interval '731 days' where id = $1`, [id])
  expect(await deleteOldImports(db)).toBe(1)
  expect((await call('GET', `/${id}`)).status).toBe(404)
  expect(await contents(sql, shop.programId)).toBe(imported)

  const { import_id: next } = (await call('POST', '', { source: 'rewardful', files })).body
  const rowsOfCustomer = `select from import_rows r where r.import_id = $1 and r::text ~ 'user-1|cus_moved'`
  expect((await sql.query(rowsOfCustomer, [next])).rowCount).toBe(3)
  await eraseCustomer(db, shop.programId, { customer_key: 'user-1' })
  expect((await sql.query(rowsOfCustomer, [next])).rowCount).toBe(0)
  expect(await audits(shop)).toEqual([])
})

test.each<[text: string, currency: string, cents: number | undefined]>([
  ['1.234,50', 'usd', 123_450],
  ['1,234.50', 'usd', 123_450],
  ['1,234', 'usd', 123_400],
  ['1.234.567', 'usd', 123_456_700],
  ['12,5', 'eur', 1250],
  ['$ 12.00', 'usd', 1200],
  ['-3.10 USD', 'usd', -310],
  ['1.234', 'kwd', 1234],
  ['1,200.00', 'jpy', 1200],
  ["1'000.05", 'chf', 100_005],
  ['twelve', 'usd', undefined],
  ['', 'usd', undefined],
  ['1.2.3,4,5', 'usd', 123_450],
  ['0.980', 'usd', 98],
  ['-€0,375', 'eur', -38],
  ['Fr. 12.50-', 'chf', -1250],
  ['(12.50)', 'usd', -1250],
  ['−3', 'usd', -300],
  ['12x34', 'usd', undefined],
  ['1e5', 'usd', undefined],
  ['12.5.0', 'usd', undefined],
  ['99999999999999', 'usd', undefined],
])('the amount %s in %s is %s', (text, currency, cents) => {
  expect(readAmount(text, currency)).toBe(cents)
})

test.each<[column: string, amount: string, currency: string | undefined]>([
  ['', '12.00', 'usd'],
  ['', '€12.00', 'eur'],
  ['', '12,00 EUR', 'eur'],
  ['', 'CA$12', 'cad'],
  ['cad', '$12', 'cad'],
  ['€', '12', 'eur'],
  ['eur', '$12', undefined],
  ['euro', '12', undefined],
  ['', '₿12', undefined],
])('in a program in usd, the column %j and the amount %j mean the currency %s', (column, amount, currency) => {
  expect(currencyOfAmount(column, amount, 'usd')).toBe(currency)
})

test.each([
  ['12', 12],
  ['12 months', 12],
  ['Lifetime', 0],
  ['', 0],
  ['1 year', undefined],
  ['-3', undefined],
])('the limit %j is %s months', (text, months) => {
  expect(readMonths(text)).toBe(months)
})

test.each<[text: string, order: 'day first' | 'month first', day: string | undefined]>([
  ['2024-02-03', 'day first', '2024-02-03T00:00:00.000Z'],
  ['2024-02-03 04:05:06', 'day first', '2024-02-03T04:05:06.000Z'],
  ['2024-02-03T04:05:06+02:00', 'day first', '2024-02-03T02:05:06.000Z'],
  ['2024-02-03 04:05:06 +0200', 'day first', '2024-02-03T02:05:06.000Z'],
  ['2024-02-30', 'day first', undefined],
  ['03/02/2024', 'day first', '2024-02-03T00:00:00.000Z'],
  ['03/02/2024', 'month first', '2024-03-02T00:00:00.000Z'],
  ['3.2.24 14:30', 'day first', '2024-02-03T14:30:00.000Z'],
  ['Feb 3, 2024', 'day first', '2024-02-03T00:00:00.000Z'],
  ['3 February 2024', 'day first', '2024-02-03T00:00:00.000Z'],
  ['1706918400', 'day first', '2024-02-03T00:00:00.000Z'],
  ['1706918400000', 'day first', '2024-02-03T00:00:00.000Z'],
  ['31/02/2024', 'day first', undefined],
  ['soon', 'day first', undefined],
])('the date %s with the %s is %s', (text, order, day) => {
  expect(readDate(text, order)).toBe(day)
})

test.each([
  ['ada', 'ada'],
  ['https://shop.example.com/?via=ada&x=1', 'ada'],
  ['shop.example.com/pricing?via=ada', 'ada'],
  ['https://dub.sh/ada', 'ada'],
  ['https://ada.partnerlinks.io/x1y2', 'x1y2'],
])('the code of the link %s is %s', (link, code) => {
  expect(codeOfLink(link, ['via'])).toBe(code)
})

async function recordsOf(text: string) {
  const records: TableRecord[] = []
  for await (const record of readTable(text)) records.push(record)
  return records
}
const cellsOf = async (text: string) => (await recordsOf(text)).map(({ line, cells }) => [line, ...cells])

test.each([
  ['an unclosed quote', 'a\n"', 'x', 1],
  ['empty lines', 'a\n', '\n', 0],
  ['separators', 'a,b\n', ',', 0],
])('other requests get their turn while a file with %s is read', async (_what, start, repeated, records) => {
  let turns = 0
  const counting = setInterval(() => turns++)
  const found = await recordsOf(start + repeated.repeat(2 * 1024 ** 2))
  clearInterval(counting)
  expect(found).toHaveLength(1 + records)
  expect(turns).toBeGreaterThan(3)
})

test('tables may have quotes, line breaks in cells, and any separator', async () => {
  expect(await cellsOf('a,b\r\n"1 ""x"", y","2\nz"\r\n\r\n3')).toEqual([
    [1, 'a', 'b'],
    [2, '1 "x", y', '2\nz'],
    [5, '3'],
  ])
  expect(await cellsOf('\uFEFFa\tb\n1\t2,5\n')).toEqual([
    [1, 'a', 'b'],
    [2, '1', '2,5'],
  ])
  expect(await cellsOf('sep=;\na;b\n1,5;2')).toEqual([
    [2, 'a', 'b'],
    [3, '1,5', '2'],
  ])
  expect((await recordsOf('a\n"b,1\nc,2\n')).at(-1)).toEqual({ line: 2, cells: ['b,1\nc,2'], isUnclosed: true })
  expect(decodeTable(new TextEncoder().encode('ö,ë').subarray(0, -1))).toBe('ö,')
  expect(await cellsOf('')).toEqual([])
  const long = 'a'.repeat(20_000)
  expect(await cellsOf(`${long},"${long}"`)).toEqual([[1, 'a'.repeat(10_000), 'a'.repeat(10_000)]])
})

test.each<[source: string, access: object, groups: number, balances: number]>([
  ['rewardful', { api_key: 'key' }, 1, 51],
  ['tolt', { api_key: 'key', account: 'main' }, 0, 51],
  ['firstpromoter', { api_key: 'key', account: 'main' }, 1, 51],
  ['partnerstack', { api_key: 'public:secret' }, 1, 51],
  ['tapfiliate', { api_key: 'key', account: 'main' }, 1, 0],
  ['dub', { api_key: 'key' }, 0, 51],
])(
  '%s is read by its API, applied, repeated without a change, and undone',
  async (source, access, groups, balances) => {
    const { shop, call } = await startCaller()
    const before = await contents(sql, shop.programId)
    const planned = await call('POST', '', { source, ...access })
    expect(planned.body).toMatchObject({ state: 'planned', problem: null, counts: { error: 0, update: 0 } })
    const id = planned.body.import_id
    expect((await sql.query('select sealed_key from imports where id = $1', [id])).rows).toEqual([{ sealed_key: null }])
    expect((await call('POST', `/${id}/apply`)).body.state).toBe('applied')
    const [found] = (
      await sql.query(
        `select (select count(*)::integer from partners where program_id = $1 and external_id like $2 || ':%') as partners,
        (select count(*)::integer from referral_links where program_id = $1 and code like 'token-%') as links,
        (select count(*)::integer from customers where program_id = $1 and imported_at is not null and email_hash is not null or program_id = $1 and customer_key like 'user-%') as customers,
        (select count(*)::integer from imported_commissions where program_id = $1 and customer_id is not null) as commissions,
        (select count(*)::integer from partner_groups where program_id = $1) as groups,
        (select coalesce(sum(balance_cents), 0)::integer from balances where program_id = $1) as balance_cents`,
        [shop.programId, source],
      )
    ).rows
    expect(found).toEqual({
      partners: size.partners,
      links: size.partners,
      customers: size.customers,
      commissions: size.customers,
      groups,
      balance_cents: balances * 1000,
    })
    expect(await audits(shop)).toEqual([])
    const once = await contents(sql, shop.programId)
    const again = await call('POST', '', { source, ...access })
    expect(again.body).toMatchObject({ state: 'planned', counts: { create: 0, update: 0, error: 0 } })
    await call('POST', `/${again.body.import_id}/apply`)
    expect(await contents(sql, shop.programId)).toBe(once)
    expect((await call('POST', `/${id}/undo`)).body.state).toBe('undone')
    expect(await contents(sql, shop.programId)).toBe(before)
  },
)

const asIs = async (email: string) => await Promise.resolve({ email_hash: email })

test.each(['rewardful', 'tolt', 'firstpromoter', 'partnerstack', 'tapfiliate', 'dub'] as const)(
  'files from %s are read without a mapping',
  async (source) => {
    const found: Record<string, number> = {}
    const context = { service: services[source], currency: 'usd', hash: asIs }
    const named = new Set<unknown>()
    for await (const row of readFiles(await openFiles(serviceFiles(source, size), {}), context)) {
      expect(row.problem).toBeUndefined()
      found[row.kind] = (found[row.kind] ?? 0) + 1
      if (row.kind === 'customer') named.add(row.source_id)
      // Rewardful's template doesn't contain dates.
      if (row.kind === 'customer' && source !== 'rewardful')
        expect(row.fields).toMatchObject({ signup_date: expect.stringContaining('2025-03-04') })
      if (row.kind === 'commission') expect(row.fields).toMatchObject({ amount_cents: 1000, currency: 'usd' })
      if (row.kind === 'link') expect(row.fields['code']).toMatch(/^token-\d+$/)
    }
    expect(named.size).toBe(size.customers)
    expect(found).toMatchObject({ partner: 102, link: 102, customer: 102, commission: 102 })
  },
)

test('a mapping corrects the headings of a file', async () => {
  const { call } = await startCaller()
  const file = { name: 'partners.csv', content: 'Who,Name,Address\nAda,A. L.,ada@example.com' }
  const mapping = { partners: { name: 'who', email: 'Address' } }
  const { body } = await call('POST', '', { source: 'csv', files: [file], mapping })
  expect(body.files).toMatchObject([{ columns: { name: 'Who', email: 'Address' }, unused: ['Name'] }])
  const { data } = (await call('GET', `/${body.import_id}/rows`)).body
  expect(data).toMatchObject([{ kind: 'partner', fields: { name: 'Ada', email: 'ada@example.com' } }])
})

const shown = (rows: Record<string, string>[]) =>
  rows.map(({ origin, kind, outcome, reason }) => `${origin}: ${kind} ${outcome} ${reason}`)

test('a sloppy export loses neither terms nor money, and the plan shows each conflict', async () => {
  const { shop, call } = await startCaller()
  const sloppy = {
    'affiliates.csv':
      'Id,Name,Email,Campaign,Token,Unpaid\n1E+15,Zoë,z@example.com,Gold,zoe,"€12,00"\n2,Bob,b@example.com,c2,bob,0.980\n1E+15,Eve,e@example.com,,eve,5.00',
    'balances.csv': 'Partner,Amount\n2,7.00',
    'campaigns.csv': 'id,Name,Percent,Months\nc1,Gold,30,12 months\nc2,Silver,20,1 year',
    'commissions.csv': `Partner,Amount,Status,Date\n${'z@example.com,9.80,due,2026-10-01\n'.repeat(2)}b@example.com,"3`,
    'customers.csv': 'Stripe Customer ID,Affiliate Email\ncus_a,z@example.com\ncus_a,b@example.com',
  }
  const { import_id: id } = (await call('POST', '', { source: 'csv', files: sloppy })).body
  const planned = (await call('GET', `/${id}/rows?limit=100`)).body.data
  await call('POST', `/${id}/apply`)
  const applied = (await call('GET', `/${id}/rows?limit=100`)).body.data
  expect(shown(applied)).toEqual(shown(planned))
  expect(shown(applied).filter((one) => !one.endsWith(' new'))).toMatchInlineSnapshot(`
    [
      "campaigns.csv line 3: group create terms_not_accepted",
      "affiliates.csv line 4: partner error same_id",
      "affiliates.csv line 4: link error same_id",
      "affiliates.csv line 4: balance error same_id",
      "balances.csv line 2: balance error same_id",
      "commissions.csv line 2: commission create history_only",
      "commissions.csv line 3: commission create history_only",
      "commissions.csv line 4: commission error quote_not_closed",
      "customers.csv line 2: customer create no_first_purchase_date",
      "customers.csv line 3: customer error same_id",
    ]
  `)
  const { rows } = await sql.query(
    `select (select json_agg(json_build_array(g.name, r.commission_bp, r.commission_duration_months) order by g.name)
        from partner_groups g left join commission_rules r on r.group_id = g.id where g.program_id = $1) as groups,
      (select json_agg(json_build_array(currency, balance_cents) order by 1) from balances where program_id = $1) as balances,
      (select array_agg(amount_cents::int) from imported_commissions where program_id = $1) as history`,
    [shop.programId],
  )
  expect(rows).toEqual([
    {
      groups: [
        ['Gold', 3000, 12],
        ['Silver', null, null],
      ],
      balances: [
        ['eur', 1200],
        ['usd', 98],
      ],
      history: [980, 980],
    },
  ])
})

test("the same program from a second source doesn't add a second opening balance, and commissions without a status don't add debt", async () => {
  const { shop, call } = await startCaller()
  const people = 'id,name,email,balance,currency\n1,Ada,ada@example.com,3.00,USD\n2,Bob,bob@example.com,,'
  const balances = 'partner email,balance,currency\nada@example.com,5.00,EUR\nada@example.com,900,JPY'
  const history = 'id,partner email,amount,currency,date\nc1,bob@example.com,12.00,USD,2025-01-02'
  const ids: number[] = []
  const moved = async (source: string, named: Record<string, string>) => {
    const { import_id: id } = (await call('POST', '', { source, files: named })).body
    ids.push(id)
    expect((await call('POST', `/${id}/apply`)).body.state).toBe('applied')
    const { data } = (await call('GET', `/${id}/rows?limit=100`)).body
    return data.flatMap(({ kind, reason }: { kind: string; reason: string }) => (kind === 'balance' ? [reason] : []))
  }
  expect(await moved('csv', { 'partners.csv': people, 'balances.csv': balances })).toEqual(['new', 'new', 'new'])
  expect(await moved('tolt', { 'partners.csv': people.replace('3.00', '4.00'), 'balances.csv': balances })).toEqual([
    'has_opening_balance',
    'has_opening_balance',
    'has_opening_balance',
  ])
  expect(await moved('csv', { 'commissions.csv': history })).toEqual([])
  const { rows } = await sql.query(
    'select currency, balance_cents::int as cents from balances where program_id = $1 and balance_cents <> 0 order by 1',
    [shop.programId],
  )
  expect(rows).toEqual([
    { currency: 'eur', cents: 500 },
    { currency: 'jpy', cents: 900 },
    { currency: 'usd', cents: 300 },
  ])
  // The link parameters stay until the last import that needs them is undone.
  const params: string[][] = []
  for (const id of ids) {
    await call('POST', `/${id}/undo`)
    const program = await sql.query('select link_params from programs where id = $1', [shop.programId])
    params.push(program.rows[0].link_params)
  }
  expect(params).toEqual([['via', 'ref', 'aff'], ['via', 'ref'], []])
})

test('hostile files are cut to the limits of the database, and to a number of rows', async () => {
  const { call, shop } = await startCaller()
  const cells = [`${'a'.repeat(1999)}😀`, '', 'x@example.com', Array(20).fill('é'.repeat(900)).join('|')]
  const content = `id,name,email,coupons${',x'.repeat(100_000)}\n${cells.join(',')}\n\0b,B\0,b@example.com,\0`
  const hostile = { name: 'partners\0.csv', content: new TextEncoder().encode(content) }
  const sent: ImportFile[] = [hostile, { name: 'links.csv', content: new Uint8Array(3000) }]
  const importId = await createImport(db, env, shop.programId, 'csv')
  const reading = { source: 'csv', files: sent, mappings: {}, seconds: 5 } as const
  expect(await importFiles(db, env, shop.programId, importId, reading)).toMatchObject({ state: 'planned', rows: 14 })
  // The daily limit includes the other programs in the workspace, and plans that wait to be applied.
  const { rows } = await sql.query(
    `insert into programs (workspace_id, name, domain, currency, commission_bp)
    select workspace_id, 'Other', 'other.example.com', currency, commission_bp from programs where id = $1 returning id::int`,
    [shop.programId],
  )
  await sql.query(`update imports set row_count = 1000000, created_at = now() - interval '2 days' where id = $1`, [
    importId,
  ])
  const full = {
    source: 'csv',
    files: [{ name: 'partners.csv', content: new TextEncoder().encode('name\nAda') }],
  } as const
  for (const programId of [shop.programId, rows[0].id]) {
    const another = await createImport(db, env, programId, 'csv')
    expect(await importFiles(db, env, programId, another, { ...full, mappings: {}, seconds: 5 })).toMatchObject({
      state: 'failed',
      problem: expect.stringContaining('1,000,000 rows a day'),
    })
  }
  const packed = { name: 'partners.xlsx', content_base64: 'UEsDBBQACAgIAA==' }
  expect((await call('POST', '', { source: 'csv', files: [packed] })).body).toMatchObject({
    state: 'failed',
    problem: expect.stringContaining('“partners.xlsx” is a workbook or a ZIP archive'),
  })
  const named = Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`${n}.csv`, 'name']))
  const mapping = { name: Object.fromEntries(Array.from({ length: 50_001 }, (_, n) => [`n${n}`, 'x'])) }
  const [many, valid] = [
    'can have at most 50000 values',
    { source: 'csv', files: [{ name: 'a.csv', content: 'name' }] },
  ]
  for (const [request, message] of [
    [{ source: 'csv', files: named }, 'must have at most 20 files'],
    [{ ...valid, mapping }, many],
    // With a larger body, the parser would need seconds to find out that the end is missing.
    ['['.repeat(100_000), many],
    ['[{"a":"\\""},'.repeat(30_000), many],
    [JSON.stringify(`,\\"[`.repeat(30_000)), 'must be an object'],
  ] as const) {
    const { body } = await call('POST', '', request)
    expect(body).toMatchObject({ error: { message: expect.stringContaining(message) } })
  }
  for (let count = 0; count < 7; count++) await createImport(db, env, shop.programId, 'csv')
  expect((await call('POST', '', valid)).status).toBe(429)
  // Imports of other programs in the workspace count, and so do imports that are still being read.
  const age = `update imports set created_at = now() - interval '2 minutes' where program_id = $1`
  await sql.query(age, [shop.programId])
  await sql.query(`update imports set state = 'failed' where program_id = $1 and state = 'reading'`, [shop.programId])
  for (let count = 0; count < 9; count++) await createImport(db, env, rows[0].id, 'csv')
  await sql.query(age, [rows[0].id])
  expect([(await call('POST', '', valid)).status, (await call('POST', '', valid)).status]).toEqual([201, 429])
  await sql.query('update users set email_verified = false where id in (select user_id from workspace_members)')
  expect(await call('POST', '', valid)).toMatchObject({ status: 403, body: { error: { code: 'forbidden' } } })
})

test('one import of each workspace and two in the whole service are planned at a time', async () => {
  const shops = [await startCaller(), await startCaller()] as const
  const [first, second] = shops.map(({ shop }) => shop.programId)
  /** Returns whether a plan of this program may begin while the first one is planning. */
  const mayPlan = async (program: number | undefined, others = 'null') => {
    await sql.query('begin')
    await sql.query(`select may_plan($1), ${others}`, [first])
    const [found] = await db.query(statementOf<{ may: boolean }>('select may_plan($1) as may', [program]))
    await sql.query('rollback')
    return found?.may
  }
  expect([await mayPlan(first), await mayPlan(second)]).toEqual([false, true])
  expect(await mayPlan(second, `pg_advisory_xact_lock(hashtextextended('plans', 2))`)).toBe(false)
  // A waiting import is planned when its turn comes.
  const [{ shop, call }] = shops
  await sql.query('begin')
  await sql.query('select may_plan($1)', [shop.programId])
  const planned = call('POST', '', { source: 'csv', files })
  await expect.poll(async () => (await call('GET', '')).body.data[0]?.rows).toBeGreaterThan(0)
  expect((await call('GET', '')).body.data[0].state).toBe('reading')
  await sql.query('rollback')
  expect((await planned).body.state).toBe('planned')
})

test('an import that cannot be planned fails after five runs of the schedule, with a reason', async () => {
  const { shop } = await startCaller()
  const importId = await createImport(db, env, shop.programId, 'csv')
  const content = new TextEncoder().encode(partners)
  const reading = { source: 'csv', files: [{ name: 'partners.csv', content }], mappings: {}, seconds: 0 } as const
  expect(await importFiles(db, env, shop.programId, importId, reading)).toMatchObject({ state: 'reading' })
  await sql.query(
    `update import_rows set fields = fields || '{"amount_cents": "many"}' where import_id = $1 and kind = 'balance'`,
    [importId],
  )
  const states: string[] = []
  for (let run = 1; run <= 5; run++) {
    await expect(continueImports(db, env, 60)).rejects.toThrow('1 of 1 imports failed.')
    states.push((await readImport(db, shop.programId, importId)).state)
  }
  expect(states).toEqual(['reading', 'reading', 'reading', 'reading', 'failed'])
  expect(await readImport(db, shop.programId, importId)).toMatchObject({
    problem: expect.stringContaining('could not be planned'),
  })
  expect(await continueImports(db, env, 60)).toBe(0)
})

test('an import fails and deletes its key if the former service refuses the key, repeats a page or has another currency', async () => {
  const { call } = await startCaller()
  standIns.repeats = true
  const repeated = await call('POST', '', { source: 'rewardful', api_key: 'key' })
  standIns.repeats = false
  expect(repeated.body).toMatchObject({ state: 'failed', problem: expect.stringContaining('same page') })
  expect((await sql.query('select from imports where state = $1 and sealed_key is not null', ['failed'])).rows).toEqual(
    [],
  )
  const refused = await call('POST', '', { source: 'rewardful', api_key: 'wrong' })
  expect(refused.body).toMatchObject({ state: 'failed', problem: expect.stringContaining('refused the key') })
  expect(await call('POST', `/${refused.body.import_id}/apply`)).toMatchObject({ status: 409 })
  const euros = await startCaller()
  await sql.query(`update programs set currency = 'eur' where id = $1`, [euros.shop.programId])
  const foreign = await euros.call('POST', '', { source: 'tolt', api_key: 'key', account: 'prg_1' })
  expect(foreign.body).toMatchObject({ state: 'failed', problem: expect.stringContaining('in USD, but this program') })
  for (const body of [{ source: 'csv', api_key: 'key' }, { source: 'tolt', api_key: 'key' }, { source: 'csv' }])
    expect(await call('POST', '', body)).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
})

test('the stored counts of every import that has not failed equal the counts of its rows', async () => {
  const { rows } = await sql.query(
    `select i.id from imports i left join lateral (
      select count(*) as rows, count(*) filter (where outcome = 'create') as create, count(*) filter (where outcome = 'update') as update,
        count(*) filter (where outcome = 'skip') as skip, count(*) filter (where outcome = 'error') as error,
        count(*) filter (where is_applied) as applied
      from import_rows r where r.program_id = i.program_id and r.import_id = i.id
    ) r on true
    where (i.row_count, i.create_count, i.update_count, i.skip_count, i.error_count, i.applied_count)
      is distinct from (r.rows, r.create, r.update, r.skip, r.error, r.applied) and i.row_count < 1000000 and i.state <> 'failed'`,
  )
  expect(rows).toEqual([])
})
