import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type QueryConfig, types } from 'pg'
import { expect, test } from 'vitest'
import { auditNightly, auditStatement, findingsStatement } from '../lib/audit/stored-audit.ts'
import { audit, checks, findDifferences } from '../lib/commands/audit.ts'
import { applyEvent } from '../lib/processors/apply-event.ts'
import { askStripe } from '../lib/processors/stripe/ask.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { readEvent } from '../lib/processors/stripe/read-event.ts'
import { auditChecks } from '../lib/local/audit-checks.ts'
import { checkoutSession, refund, type Shop, stripeEvent } from '../lib/local/stripe-events.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { approveCommissions, rejectCommission } from '../lib/money/commissions.ts'
import { askPayout, payPayout, returnPayout } from '../lib/money/payouts.ts'
import { createLedgerProgram, keepWebhooks, transfer } from './support/ledger.ts'
import type { PlanNode } from './support/plans.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()

const stripe = askStripe(openStripe({ STRIPE_SECRET_KEY: 'sk_test', STRIPE_API_URL: 'http://127.0.0.1:9' }))

/** Posts Stripe's events for a payment with tax and for a partial refund. */
async function reportPayment(programId: number) {
  const { rows } = await sql.query<{ account: string; click_id: string }>(
    `select p.processor_account_id as account, c.click_id from programs p join customers c on c.program_id = p.id
    where p.id = $1 and c.customer_key = 'lead'`,
    [programId],
  )
  const shop: Shop = {
    generation: 'new',
    account: rows[0]?.account ?? '',
    programId,
    clickId: rows[0]?.click_id ?? '',
    customerKey: 'lead',
    email: null,
    customer: null,
    livemode: true,
    now: Math.floor(Date.now() / 1000),
  }
  const paid = { payment_intent: `pi_${programId}`, charge: `ch_${programId}` }
  const events = [
    ['checkout.session.completed', checkoutSession(shop, { id: `cs_${programId}`, total: 1190, tax: 190, ...paid })],
    ['refund.created', refund(shop, { id: `re_${programId}`, amount: 90, ...paid })],
  ] as const
  for (const [type, object] of events) {
    const event = stripeEvent(shop, `evt_${type}_${programId}`, type, object)
    await applyEvent(db, stripe, await readEvent(event, async () => ''))
  }
}

/** Sets up the program so that it issues documents about its payments to a partner. */
async function billItself(programId: number, partnerId: number) {
  const party = "'A GmbH', 'Weg 1', 'DE'"
  await sql.query(
    `with person as (insert into users (id, name, email) values ('user ' || $2::bigint, 'Ann', 'ann' || $2::bigint || '@example.com') returning id),
    partner as (update partners set user_id = person.id from person where partners.id = $2),
    payee as (insert into payee_details (user_id, legal_name, address, country) select id, ${party} from person),
    issuer as (insert into program_billing (program_id, legal_name, address, country, series) values ($1, ${party}, 'SB')),
    terms as (insert into program_terms (program_id, version, text, self_billing) values ($1, 1, 'Terms', true) returning program_id)
    insert into accepted_terms (program_id, partner_id, version) select program_id, $2, 1 from terms`,
    [programId, partnerId],
  )
}

/** Creates a program with at least one row of every kind. */
async function createHistory() {
  const program = await createLedgerProgram(sql, db, { leadCommissionCents: 150 })
  const { programId } = program
  // The endpoint is older than all events, so it gets all of them.
  await keepWebhooks(sql, programId)
  const partnerId = program.partnerIds[0] ?? 0
  await program.lead('lead', await program.click(1))
  const [paid, refunded, rejected, approved] = await Promise.all([
    program.soldBy(0, 1000),
    program.soldBy(0, 2000),
    program.soldBy(0, 3000),
    program.soldBy(0, 4000, 'jpy'),
  ])
  await countClicks(db, 1000)
  await countFigures(db, 1000)
  await program.click(1)
  const commissions = [paid, refunded, rejected, approved].map(({ commissionId }) => commissionId)
  for (const id of commissions) await approveCommissions(db, programId, [id])
  await createAdjustment(db, programId, { partnerId, amountCents: 300, note: 'Bonus' }, randomUUID(), [])
  const ask = (amountCents: number) =>
    askPayout(db, { programId, partnerId, currency: 'usd', amountCents, requestId: randomUUID() })
  await billItself(programId, partnerId)
  await payPayout(db, programId, await ask(200), 200, transfer)
  const inYen = { programId, partnerId, currency: 'jpy', amountCents: 800, requestId: randomUUID() }
  const returned = await askPayout(db, inYen)
  await payPayout(db, programId, returned, 800, transfer)
  await returnPayout(db, programId, returned, 'returned', 'Account closed')
  await ask(900)
  await program.refund(refunded.id, 500)
  await program.refund(refunded.id, 300, 'failed')
  await program.returnRefund(refunded.id, 'failed')
  await program.refund(paid.id, null)
  await rejectCommission(db, programId, rejected.commissionId, 'Self-referral')
  await reportPayment(programId)
  await sql.query(
    `with reported as (update outbox set delivered_at = now() where program_id = $1 and id % 2 = 0 returning *)
    insert into notifications select program_id, id, kind, audience, partner_id, payload, created_at from reported`,
    [programId],
  )
  return programId
}

// Creates another program first, so that the ids of this program don't start at 1.
await createLedgerProgram(sql, db)
const corrupted = await createHistory()
/** Lets the audit run inside an open transaction: a savepoint replaces its own transaction. */
const inTransaction = Object.assign(Object.create(sql), {
  query: (query: string | QueryConfig, values?: unknown[]) =>
    sql.query(query === 'rollback' ? 'rollback to audit' : isBegin(query) ? 'savepoint audit' : query, values),
}) as typeof sql
const isBegin = (query: string | QueryConfig) => typeof query === 'string' && query.startsWith('begin')

test('a database with every kind of row passes the audit', async () => {
  expect(await findDifferences(sql)).toEqual([])
})

test('the generated module contains the checks in the folder', () => {
  expect(readFileSync('lib/audit/checks.ts', 'utf8')).toBe(auditChecks())
})

test('the nightly audit stores the findings of each program, and the next one replaces them', async () => {
  const change = (cents: number) =>
    sql.query(
      `set session_replication_role = replica; update balances set balance_cents = balance_cents + ${cents} where program_id = ${corrupted};
      set session_replication_role = origin`,
    )
  const findings = async (programId: number) =>
    (await db.query(findingsStatement(programId, { limit: 100 }))).map(({ rule, broken }) => `${rule}: ${broken}`)
  await change(1)
  const results = await auditNightly(db, new Map())
  expect(await findings(corrupted)).toContain(
    'a balance is the sum of its entries, and its last entry has the same balance: 2',
  )
  expect(await findings(corrupted - 1)).toEqual([])
  expect(await db.query(auditStatement())).toMatchObject([{ rules: results?.length }])
  expect(await auditNightly(db, new Map())).toBeNull()
  await change(-1)
  await sql.query("update audits set started_at = started_at - interval '20 hours'")
  expect(await auditNightly(db, new Map(), () => Promise.reject(new Error('It is down.')))).toHaveLength(
    results?.length ?? 0,
  )
  expect(await findings(corrupted)).toEqual([])
})

/** Corruptions, by the check that finds each of them. Each statement gets the program's id as its parameter. */
const corruptions: Record<string, string[]> = {
  'a sale has the amount, the untaxed part': [
    'update sales set commission_base_cents = amount_cents where processor_event_id is not null and program_id = $1',
    "update sales set sale_date = sale_date - interval '40 days' where processor_event_id is not null and program_id = $1",
    "update sales set sale_date = sale_date - interval '40 days' where request_id is not null and program_id = $1",
  ],
  'a payment of the processor is one sale': [
    `insert into sales (program_id, transaction_id, amount_cents, commission_base_cents, currency)
    select program_id, processor_session_id, 1, 1, currency from sales where processor_event_id is not null and program_id = $1`,
  ],
  'a refund or dispute that the processor reported': [
    `with lost as (delete from refunds where processor_reversal_id = 're_' || $1::bigint and program_id = $1 returning *)
    update sales s set refunded_cents = 0 from lost where s.program_id = lost.program_id and s.id = lost.sale_id`,
  ],
  'a sale that no rule decides': ['update sales set commission_bp = commission_bp + 1 where program_id = $1'],
  'an entry of a balance is not earlier': [
    "update balance_entries set created_at = created_at - interval '40 days' where entry_number = 2 and program_id = $1",
    "update balance_entries set cause = 'commission_corrected', correction_number = 1 where entry_number = 1 and program_id = $1",
  ],
  'a manual commission or deduction is in the audit log': [
    "delete from audit_log where action = 'partner.adjusted' and program_id = $1",
  ],
  'a commission that was credited before its hold': [
    "delete from audit_log where action = 'commission.approved' and program_id = $1",
  ],
  'no commission of shadow mode is credited': [
    'update commissions set is_shadow = true where credited_at is not null and program_id = $1',
    "update programs set shadow_since = '2020-01-01' where id = $1",
  ],
  'a balance is the sum of its entries': [
    'update balances set balance_cents = balance_cents + 1 where program_id = $1',
    'delete from balances where program_id = $1',
  ],
  'each entry begins with': [
    'update balance_entries set balance_before_cents = 7, balance_after_cents = 7 + amount_cents where entry_number = 2 and program_id = $1',
    'delete from balance_entries where entry_number = 1 and program_id = $1',
  ],
  'a manual commission or deduction is in the balance': [
    "delete from balance_entries where cause = 'adjusted' and program_id = $1",
  ],
  'every manual commission and deduction was reported': [
    "delete from outbox where kind = 'adjustment_added' and program_id = $1",
  ],
  'a held commission is in no balance': [
    `insert into commission_reviews (program_id, commission_id, flags) select program_id, id, '[]' from commissions where program_id = $1`,
    'update commissions set held_at = now() where credited_at is not null and program_id = $1',
  ],
  "a credited commission's remaining": [
    "delete from balance_entries where cause = 'commission_credited' and program_id = $1",
    'update commissions set credited_at = null, paid_at = null, payout_id = null where program_id = $1',
  ],
  'a commission is reversed by': [
    "update commissions set reversed_cents = reversed_cents - 1 where reversal = 'partial' and program_id = $1",
    "update commissions set reversal = 'partial' where reversal = 'none' and program_id = $1",
  ],
  "a commission's status follows": [
    "update commissions set status = 'pending' where status <> 'pending' and program_id = $1",
  ],
  'the terms of the first matching rules': [
    'update sales set commission_rule_id = 0 where partner_id is not null and program_id = $1',
    "update commissions set lead_rule_id = 0 where kind = 'lead' and program_id = $1",
  ],
  'the refunded amount of a sale': [
    'update sales set refunded_cents = refunded_cents + 1 where refunded_cents > 0 and refunded_cents < amount_cents and program_id = $1',
    'update refunds set returned_at = null where program_id = $1',
  ],
  'a sale commission has the partner': [
    "update commissions set currency = 'eur' where program_id = $1",
    'update sales set is_test = true where program_id = $1',
  ],
  'a lead commission belongs': [
    "update customers set signup_date = null, lead_event_id = null, customer_status = 'click' where signup_date is not null and program_id = $1",
  ],
  'a paid payout has its entry': [
    "update payouts set status = 'paid', decided_at = now(), reference = 't', paid_on = now() where status = 'requested' and program_id = $1",
  ],
  'a document has the partner': [
    "update documents set amount_cents = 1 where kind = 'invoice' and program_id = $1",
    "update documents set lines = '[]' where program_id = $1",
    "update documents set reference = 'other' where program_id = $1",
    "delete from documents where kind = 'credit_note' and program_id = $1",
    "delete from balance_entries where cause = 'payout_returned' and program_id = $1",
  ],
  'the documents of a series': [
    'delete from documents where number = 1 and program_id = $1',
    'update document_series set last_number = 4 where program_id = $1',
  ],
  'a payment to a partner who had': ['delete from documents where number > 1 and program_id = $1'],
  'a payout has the outcome that': [
    `with connection as (
      insert into payout_connections (id, program_id, provider, livemode) values ('pay_' || repeat('a', 43), $1, 'paypal', true) returning id
    ),
    run as (insert into payout_runs (program_id, request_id) values ($1, gen_random_uuid()) returning id),
    batch as (
      insert into payout_batches (program_id, payout_run_id, connection_id, currency)
      select $1, run.id, connection.id, 'usd' from run, connection returning id
    )
    insert into payout_items (program_id, payout_id, batch_id, recipient, outcome)
    select $1, w.id, batch.id, 'ann@example.com', 'paid' from payouts w, batch where w.program_id = $1 and w.status = 'requested'`,
  ],
  'a paid payout run has no open': [
    `with run as (
      insert into payout_runs (program_id, request_id, reference, paid_on, paid_at) values ($1, gen_random_uuid(), 't', now(), now()) returning id
    )
    update payouts set status = 'in_run', payout_run_id = run.id from run where status = 'requested' and program_id = $1`,
  ],
  'a payout run has the recorded': [
    'insert into payout_runs (program_id, request_id, payments) values ($1, gen_random_uuid(), 1)',
  ],
  'a payment leaves no balance below zero': [
    "update balance_entries set balance_before_cents = balance_before_cents - 5000, balance_after_cents = balance_after_cents - 5000 where cause = 'payout_paid' and program_id = $1",
  ],
  'a payout was payable at its creation': [
    `with run as (insert into payout_runs (program_id, request_id) values ($1, gen_random_uuid()) returning id)
    insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, payout_run_id, created_at_entry_number)
    select program_id, partner_id, currency, requested_cents + 200, amount_cents, 'in_run', run.id, created_at_entry_number from payouts, run
    where status = 'requested' and program_id = $1`,
    "update payouts set requested_cents = requested_cents + 9000 where status = 'paid' and program_id = $1",
  ],
  'unsent and sent payouts': [
    "update payouts set requested_cents = 90000, amount_cents = 90000 where status = 'requested' and program_id = $1",
  ],
  'a reduced payout was reported': ["delete from outbox where kind = 'payout_reduced' and program_id = $1"],
  'the lines of a paid payout': [
    'update payout_lines set amount_cents = amount_cents + 1 where program_id = $1',
    'delete from payout_lines where program_id = $1',
  ],
  'the payout lines of an entry': [
    'update payout_lines set amount_cents = amount_cents + 100000 where program_id = $1',
  ],
  'a payment pays the oldest': [
    `update payout_lines l set entry_number = (
      select max(e.entry_number) from balance_entries e
      where e.program_id = l.program_id and e.partner_id = l.partner_id and e.currency = l.currency and e.cause = 'commission_credited'
    ) where l.program_id = $1`,
  ],
  'a commission or manual addition is paid when': [
    'update commissions set paid_at = null, payout_id = null where program_id = $1',
    "update commissions set paid_at = paid_at + interval '1 second' where paid_at is not null and program_id = $1",
  ],
  'every refund of a sale with a commission': [
    "delete from outbox where kind = 'commission_refunded' and program_id = $1",
  ],
  'every rejection was reported': ["delete from outbox where cause like 'rejection:%' and program_id = $1"],
  'every deduction of a paid commission': [
    "delete from outbox where kind = 'paid_commission_reversed' and program_id = $1",
  ],
  'an outbox row is delivered if': [
    'delete from notifications where program_id = $1',
    'update outbox set delivered_at = now() where program_id = $1',
    `update notifications set payload = '{}' where program_id = $1`,
  ],
  "a link's clicks are": [
    'update link_clicks set clicks = clicks + 1 where program_id = $1',
    'delete from link_clicks where program_id = $1',
  ],
  "a link's clicks in a month": [
    'update link_months set clicks = clicks + 1 where program_id = $1',
    'delete from affiliate_click_events where program_id = $1',
    'insert into uncounted_clicks select program_id, link_id, now(), 1 from link_clicks where program_id = $1',
  ],
  'clicks whose events were dropped': ["update link_months set month = '-infinity' where program_id = $1"],
  'a click event has its customer': [
    "delete from customers where program_id = $1 and customer_status = 'click'",
    'update affiliate_click_events set link_id = 1 where program_id = $1',
    'update affiliate_click_events set customer_id = null where program_id = $1',
  ],
  "a day's clicks, leads": [
    'insert into uncounted_clicks select program_id, link_id, now(), 1 from link_clicks where program_id = $1',
    'update daily_totals set leads = leads + 1 where program_id = $1',
    'delete from daily_totals where program_id = $1',
    'update daily_totals set slot = slot + case when slot < 1536 then 64 else -64 end where program_id = $1',
    "insert into daily_totals (program_id, day, slot, leads_by_hour) values ($1, utc_day(now()), 0, array_fill(1, '{24}'))",
  ],
  "a day's clicks in each grouping": [
    "update grouped_quarters set sums[1] = sums[1] + 1 where metric = 'clicks' and grouping_name = 'device' and program_id = $1",
    "delete from grouped_quarters where grouping_name = 'page' and program_id = $1",
    "update grouped_quarters set value = 'utm' where grouping_name = 'utm_source' and program_id = $1",
    "update affiliate_click_events set geo_country = 'XX' where geo_country is not null and program_id = $1",
  ],
  "a day's leads, conversions, sales": [
    "update grouped_quarters set sums[1] = sums[1] + 1 where metric = 'revenue' and program_id = $1",
    "delete from grouped_quarters where metric = 'leads' and program_id = $1",
    `update customer_origins set origin = '{"country": "XX"}' where origin->>'country' is not null and program_id = $1`,
    'delete from uncounted_figures where program_id = $1',
  ],
  'the quarter-hours': [
    'update grouped_quarters set quarters = array_append(quarters, 96::smallint), sums = sums || 1::bigint where program_id = $1',
    "update grouped_quarters set quarters[1] = (quarters[1] + 1) % 96 where grouping_name = 'all' and metric = 'clicks' and program_id = $1",
  ],
  'the days of grouped totals': [
    "update grouped_totals set clicks = clicks + 1 where grouping_name = 'device' and span = 'day' and program_id = $1",
    "delete from grouped_totals where grouping_name = 'all' and span = 'day' and program_id = $1",
  ],
  'the months of grouped totals': [
    "update grouped_totals set leads = leads + 1 where grouping_name = 'partner' and span = 'month' and program_id = $1",
    "delete from grouped_totals where grouping_name = 'all' and span = 'month' and program_id = $1",
  ],
  "a day's sales, revenue": [
    'update daily_money set commission_cents = commission_cents + 1 where program_id = $1',
    'update daily_money set refunded_cents = refunded_cents + 1 where refunded_cents > 0 and program_id = $1',
    'delete from daily_money where program_id = $1',
    'update daily_money set slot = slot + case when slot < 1536 then 64 else -64 end where program_id = $1',
    `insert into daily_money (program_id, day, currency, slot, revenue_cents_by_hour)
     values ($1, utc_day(now()), 'usd', 0, array_fill(1, '{24}'))`,
  ],
  'a customer is a conversion': [
    "update customers set customer_status = case when signup_date is null then 'click' else 'lead' end, first_purchase_date = null where program_id = $1",
    "update customers set first_purchase_date = first_purchase_date - interval '1 second' where first_purchase_date is not null and program_id = $1",
  ],
  "a sale's commission follows from": [
    "update commissions set amount_cents = amount_cents + 1 where kind = 'sale' and program_id = $1",
    "delete from commissions where kind = 'sale' and program_id = $1",
    'update sales set commission_base_cents = commission_base_cents - 100 where program_id = $1',
    "update sales set commission_months = 1, sale_date = sale_date + interval '2 months' where customer_id is not null and program_id = $1",
  ],
  'a sale has the partner of its code': ['update sales set partner_id = partner_id + 1 where program_id = $1'],
  'a settled or provisional lead': [
    'delete from affiliate_lead_events where program_id = $1',
    'update customers set lead_event_id = lead_event_id + 1 where program_id = $1',
  ],
  'a customer came by a click': [
    `with gone as (delete from affiliate_click_events where program_id = $1) update customers
     set customer_key = null, signup_date = null, lead_event_id = null, first_purchase_date = null, customer_status = 'click' where program_id = $1`,
  ],
  'a customer has the partner of their link, or': ['update customers set link_id = 1 where program_id = $1'],
  "a program's webhook types": [
    'update programs set webhook_types = null where id = $1',
    "update webhook_endpoints set types = '{sale.created}' where program_id = $1",
  ],
  'a webhook message has a delivery to an endpoint': ['delete from webhook_deliveries where program_id = $1'],
  'every sale and commission was sent once': [
    "delete from webhook_deliveries d using webhook_messages m where m.id = d.message_id and m.type = 'sale.created' and d.program_id = $1",
    "delete from webhook_messages where type = 'commission.created' and program_id = $1",
    `with again as (insert into webhook_messages (program_id, type, data)
      select program_id, type, data from webhook_messages where type = 'sale.created' and program_id = $1 returning *)
    insert into webhook_deliveries (program_id, endpoint_id, message_id)
    select g.program_id, e.id, g.id from again g join webhook_endpoints e on e.program_id = g.program_id`,
  ],
  'the refunds of a sale': [
    `delete from webhook_messages m where type = 'sale.refunded' and program_id = $1 and exists (
      select from webhook_messages b where b.program_id = m.program_id and b.type = m.type and b.data->'sale_id' = m.data->'sale_id' and b.id < m.id
    ) and exists (
      select from webhook_messages b where b.program_id = m.program_id and b.type = m.type and b.data->'sale_id' = m.data->'sale_id' and b.id > m.id
    )`,
    "update webhook_messages set data = data || '{\"refunded_cents\": 1}' where type = 'sale.refunded' and program_id = $1",
  ],
}

const planted = Object.entries(corruptions).flatMap(([check, statements]) =>
  statements.map((statement) => [check, statement] as const),
)
// Each corruption runs in a transaction that is rolled back, so all of them share one history.
test.for(planted)('the check "%s" finds: %s', async ([check, statement]) => {
  await sql.query('begin')
  try {
    await sql.query('set local session_replication_role = replica')
    const { rowCount } = await sql.query(statement, [corrupted])
    expect(rowCount).toBeGreaterThan(0)
    const failed = (await audit(inTransaction, corrupted)).filter(({ total }) => total > 0)
    expect(failed.map((result) => result.check)).toContainEqual(expect.stringContaining(check))
  } finally {
    await sql.query('rollback')
  }
})

test('each check has a corruption that it finds', () => {
  const known = Object.keys(corruptions)
  expect(checks.filter(({ name }) => !known.some((part) => name.includes(part))).map(({ name }) => name)).toEqual([])
})

test('nobody can change entries or paid payouts', async () => {
  for (const statement of [
    "update balance_entries set created_at = now() - interval '40 days' where program_id = $1",
    "update payouts set paid_on = paid_on - 1 where status = 'paid' and program_id = $1",
    "update payouts set reference = 'other' where status = 'paid' and program_id = $1",
    "update payouts set amount_cents = amount_cents - 1 where status = 'paid' and program_id = $1",
    "update payouts set payout_address = 'other@example.com' where status = 'paid' and program_id = $1",
    "update payouts set partner_id = partner_id + 1 where status = 'requested' and program_id = $1",
    "delete from payouts where status = 'requested' and program_id = $1",
    "update adjustments set note = 'Another reason' where program_id = $1",
  ]) {
    await expect(sql.query(statement, [corrupted]), statement).rejects.toMatchObject({ code: '23001' })
  }
})

test('the audit finds a broken foreign key anywhere in the database', async () => {
  const programId = await createHistory()
  await sql.query('set session_replication_role = replica')
  await sql.query('update refunds set sale_id = sale_id + 1000000 where program_id = $1', [programId])
  await sql.query('set session_replication_role = origin')
  expect((await audit(sql)).filter(({ total }) => total > 0).map(({ check }) => check)).toContain(
    'refunds points at rows of sales that exist',
  )
})

const copyOf: [column: string, copy: string][] = [
  [`a.attname in ('program_id', 'endpoint_id')`, 'c.%I'],
  [`a.atttypid = 'bigint'::regtype and a.attname ~ '^((.*_)?id|number)$'`, 'c.%I + n * 1000000'],
  [`a.atttypid = 'uuid'::regtype`, 'gen_random_uuid()'],
  [`t.relname = 'partners' and a.attname = 'user_id'`, 'n || c.%I'],
  [`a.attname in ('click_id', 'customer_key', 'transaction_id', 'code', 'email')`, 'n || c.%I'],
  [
    `t.relname = 'outbox' and a.attname = 'cause'`,
    `regexp_replace(c.%I, '\\d+$', '') || substring(c.%1$I, '\\d+$')::bigint + n * 1000000`,
  ],
  [
    `a.attname in ('data', 'payload')`,
    `(select jsonb_object_agg(key, case when key ~ '_id$' and jsonb_typeof(value) = 'number' then to_jsonb(value::bigint + n * 1000000) else value end)
      from jsonb_each(c.%I))`,
  ],
  ['true', 'c.%I'],
]

/**
 * Copies a program's rows into the same program. The copies have their own ids and refer to each other. Returns their
 * number.
 */
async function multiply(programId: number, copies: number): Promise<number> {
  const cases = copyOf.map(([column, copy]) => `when ${column} then format($copy$${copy}$copy$, a.attname)`)
  const { rows: tables } = await sql.query<{ statement: string }>(
    `select format('insert into %s (%s) overriding system value select %s from %1$s c, generate_series(1, $2) n where c.program_id = $1',
      t.oid::regclass, string_agg(quote_ident(a.attname), ', '), string_agg(case ${cases.join(' ')} end, ', ')) as statement
    from pg_class t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    where t.relnamespace = 'public'::regnamespace and t.relkind in ('r', 'p') and not t.relispartition
      and t.relname not in ('webhook_endpoints', 'api_keys')
    group by t.oid
    having bool_or(a.attname = 'program_id') and bool_or(a.atttypid = 'bigint'::regtype and a.attname ~ '^(.*_)?id$' and a.attname <> 'program_id')`,
  )
  let rows = 0
  for (const { statement } of tables) rows += (await sql.query(statement, [programId, copies])).rowCount ?? 0
  return rows
}

/** Returns the number of rows that the busiest node of a plan visited. */
function visited(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0)
  return Math.max(
    ((node['Actual Rows'] ?? 0) + removed) * (node['Actual Loops'] ?? 1),
    ...(node.Plans ?? []).map(visited),
  )
}

const forget = `delete from pg_statistic where starelid in (select oid from pg_class where relnamespace = 'public'::regnamespace);
  update pg_class set relpages = 0, reltuples = -1 where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'i')`

test('no check compares pairs of rows, even with outdated or missing statistics', async () => {
  await sql.query('analyze')
  await sql.query('begin; set local session_replication_role = replica')
  try {
    const rows = await multiply(corrupted, 250)
    const looked: { check: string; timesTheRows: number }[] = []
    const explaining = Object.assign(Object.create(sql), {
      async query(query: string | QueryConfig) {
        if (typeof query === 'string') return await inTransaction.query(query)
        const { text, values } = query
        const explained = await sql.query(`explain (analyze, timing off, format json) ${text}`, values)
        looked.push({ check: text, timesTheRows: visited(explained.rows[0]['QUERY PLAN'][0].Plan) / rows })
        return { rows: [] }
      },
    }) as typeof sql
    const checked = await audit(explaining)
    await sql.query(forget)
    checked.push(...(await audit(explaining)))
    expect(looked).toHaveLength(checked.length)
    // A day's figures count under seven groupings, so some checks visit more rows than there are. A comparison of all
    // pairs of refunds and notifications would visit forty times as many.
    expect(looked.filter(({ timesTheRows }) => timesTheRows > 3)).toEqual([])
  } finally {
    await sql.query('rollback')
  }
})

const { INT8, TEXT } = types.builtins

test.for(checks)('the check "$name" returns the columns of a finding', async ({ query }) => {
  const { fields } = await sql.query(`select * from (${query}) off limit 0`, [null])
  expect(fields.map(({ name, dataTypeID }) => [name, dataTypeID])).toEqual([
    ['program_id', INT8],
    ['subject', TEXT],
    ['found', TEXT],
    ['expected', TEXT],
  ])
})
