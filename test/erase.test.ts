import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { webhookTypes } from '../lib/notifications/webhook-types.ts'
import { leadPath, refundPath, salePath, startTrackingApi } from './support/api.ts'

const api = await startTrackingApi()
const { stack } = api

/** Returns the content of the whole database as text. */
async function dump(): Promise<string> {
  const tables = await api.rows(
    `select relname from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace`,
  )
  const texts: string[] = []
  for (const { relname } of tables) {
    const [row] = await api.rows(`select coalesce(string_agg(t::text, E'\\n'), '') as text from ${relname} t`)
    texts.push(`${relname}: ${row.text}`)
  }
  return texts.join('\n')
}

test("erasing a customer removes their personal data and doesn't change any sum", async () => {
  const program = await api.program({ hold_days: 0, lead_commission_cents: 100 })
  const planted = `
    shopper-4711 session-4711 page-4711 agent-4711 note-4711 sub-4711 type-4711 refund-4711 reason-4711
    campaign-4711 answer-4711 coupon-4711
  `
    .trim()
    .split(/\s+/)
  const [
    customerKey,
    sessionId,
    page,
    userAgent,
    note,
    subscriptionId,
    saleType,
    refundId,
    words,
    campaign,
    answer,
    coupon,
  ] = planted
  const additional_data = { note }
  // The program's server receives all webhooks, and the database stores its answers.
  await stack.sql.query(
    `insert into webhook_endpoints (program_id, url, types) values ($1, 'https://hooks.example.com', $2)`,
    [program.programId, webhookTypes],
  )
  const clickId = await api.click(program, {
    session_id: sessionId,
    affiliate_url: `https://shop.example.com/?aff=${program.partnerCode}&utm_campaign=${campaign}`,
    page_url: `https://shop.example.com/${page}`,
    user_agent: userAgent,
    additional_data,
  })
  const key = program.apiKey
  await api.call(
    leadPath,
    { customer_key: customerKey, click_id: clickId, email: 'shopper+tag@example.com', additional_data },
    { key },
  )
  await api.call(
    salePath,
    {
      transaction_id: 'kept-order',
      customer_key: customerKey,
      amount_cents: 5000,
      subscription_id: subscriptionId,
      sale_type: saleType,
      coupon,
      additional_data,
    },
    { key },
  )
  const refund = {
    transaction_id: 'kept-order',
    refund_amount_cents: 1000,
    refund_id: refundId,
    refund_reason: `Sorry, ${words}`,
  }
  // The commission is credited, so the reason for the refund appears in a notification and in the balance history.
  await api.rows(
    'select credit_commissions(array_agg(program_id), array_agg(id)) from commissions where program_id = $1',
    [program.programId],
  )
  await api.call(refundPath, refund, { key })
  await stack.sql.query(
    `insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, answer)
    select program_id, endpoint_id, message_id, now(), 1, 200, $2 from webhook_deliveries where program_id = $1`,
    [program.programId, answer],
  )
  await stack.sql.query(`insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at)
    select program_id, id, kind, audience, partner_id, payload, created_at from outbox on conflict do nothing`)
  await stack.sql.query('update outbox set sent_at = now(), delivered_at = now()')
  // The traces of the same customer in a webhook event.
  await stack.sql.query(
    `insert into processor_events (account_id, event_id, event_type, program_id, livemode, outcome, fact, event_created_at)
     values ($1, 'evt_1', 'checkout.session.completed', $2, true, 'recorded', $3, now())`,
    [program.connectedAccountId, program.programId, { kind: 'purchase', customer_key: customerKey, click_id: clickId }],
  )
  const [{ email_hash: emailHash, mailbox_hash: mailboxHash }] = await api.rows(
    `select encode(email_hash, 'hex') as email_hash, encode(mailbox_hash, 'hex') as mailbox_hash from customers where click_id = $1`,
    [clickId],
  )
  const sums = () =>
    api.rows(
      `select (select sum(clicks) from link_click_counts) as clicks, (select jsonb_agg(d order by day, slot) from daily_totals d) as days,
        (select jsonb_agg(m order by day, slot) from daily_money m) as money, (select jsonb_agg(c order by id) from commissions c) as commissions`,
    )
  const [before] = await sums()
  const dumped = await dump()
  const stored = [...planted, clickId, emailHash, mailboxHash]
  for (const secret of stored) expect(dumped).toContain(secret)

  expect(await eraseCustomer(stack.db, program.programId, { customer_key: String(customerKey) })).toBe(1)

  const after = await dump()
  for (const secret of stored) expect(after).not.toContain(secret)
  const [left] = await sums()
  const [reason, updated_at] = [expect.any(String), expect.any(String)]
  const commissions = before.commissions.map((commission: object) =>
    'reason' in commission && commission.reason ? { ...commission, reason, updated_at } : commission,
  )
  expect(left).toEqual({ ...before, commissions })
  expect(await findDifferences(stack.sql, program.programId)).toEqual([])

  // Repeated reports are still recognized, and new reports still count.
  const again = await api.call(refundPath, refund, { key })
  expect(again.body).toMatchObject({ status: 'skipped', reason: 'refund_already_applied' })
  const sale = { transaction_id: 'kept-order', customer_key: 'anybody', amount_cents: 5000 }
  expect(await api.call(salePath, sale, { key })).toMatchObject({ status: 409 })
  const more = await api.call(refundPath, { ...refund, refund_id: 'another', refund_amount_cents: 500 }, { key })
  expect(more.body).toMatchObject({ status: 'refunded', deduction_cents: 100 })
  expect(await findDifferences(stack.sql, program.programId)).toEqual([])
  const [{ count }] = await api.rows(
    `select count(*)::int from audit_log where action = 'customer.erased' and program_id = $1`,
    [program.programId],
  )
  expect(count).toBe(1)
})

test('an erased click id no longer attributes anything', async () => {
  const program = await api.program()
  const clickId = await api.click(program)
  expect(await eraseCustomer(stack.db, program.programId, { click_id: clickId })).toBe(1)
  const lead = await api.call(leadPath, { customer_key: 'late', click_id: clickId }, { key: program.apiKey })
  expect(lead).toMatchObject({ status: 400, body: { error: { code: 'no_attribution' } } })
})

test("another program's customer with the same key stays unchanged", async () => {
  const [mine, theirs] = [await api.program(), await api.program()]
  for (const program of [mine, theirs]) {
    const click_id = await api.click(program)
    await api.call(leadPath, { customer_key: 'shared-key', click_id }, { key: program.apiKey })
  }
  await eraseCustomer(stack.db, mine.programId, { customer_key: 'shared-key' })
  expect(await api.rows(`select program_id from customers where customer_key = 'shared-key'`)).toEqual([
    { program_id: String(theirs.programId) },
  ])
  await expect(eraseCustomer(stack.db, mine.programId, { customer_key: 'shared-key' })).rejects.toMatchObject({
    code: 'not_found',
  })
})

test('an erasure can be repeated if its answer was lost', async () => {
  const program = await api.program()
  const click_id = await api.click(program)
  stack.neon.inject({ action: 'drop-after' })
  expect(await eraseCustomer(stack.db, program.programId, { click_id })).toBe(1)
  await expect(eraseCustomer(stack.db, program.programId, { click_id })).rejects.toMatchObject({ code: 'not_found' })
})

test('a sale during an erasure keeps its key, so that another erasure finds its texts', async () => {
  const { programId, apiKey: key } = await api.program()
  const customer_key = crypto.randomUUID()
  const [word, erase] = [`word-${customer_key}`, () => eraseCustomer(stack.db, programId, { customer_key })]
  const sell = async (transaction_id: string) =>
    await api.call(salePath, { transaction_id, customer_key, amount_cents: 100, coupon: word }, { key })
  await api.call(leadPath, { customer_key, additional_data: { test_mode: true } }, { key })
  await sell('before')
  await stack.sql.query('begin')
  // When the erasure waits for this row, it has already read the sales.
  await stack.sql.query('select from affiliate_lead_events where customer_key = $1 for update', [customer_key])
  const erased = erase()
  const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  await expect.poll(async () => (await stack.sql.query(waiting)).rowCount, { interval: 5 }).toBe(1)
  expect((await sell('meanwhile')).status).toBe(200)
  await stack.sql.query('commit')
  expect(await erased).toBe(0)
  expect(await erase()).toBe(0)
  expect(await dump()).not.toContain(word)
})

test('the second person on a click can be erased, and the audit accepts the row without a key and a click', async () => {
  const program = await api.program()
  const click_id = await api.click(program)
  for (const customer_key of ['first-person', 'second-person']) {
    await api.call(leadPath, { customer_key, click_id }, { key: program.apiKey })
  }
  expect(await eraseCustomer(stack.db, program.programId, { customer_key: 'second-person' })).toBe(1)
  expect(await findDifferences(stack.sql, program.programId)).toEqual([])
})

/** The visitor of this click expires with the cookie window. */
async function endedVisitor() {
  const program = await api.program()
  const words = crypto.randomUUID().slice(0, 8)
  const clickId = await api.click(program, {
    affiliate_url: `https://shop.example.com/?aff=${program.partnerCode}&utm_campaign=${words}`,
    page_url: `https://shop.example.com/${words}`,
    user_agent: words,
  })
  await api.click(program, { existing_click_id: clickId, page_url: `https://shop.example.com/${words}/again` })
  await stack.sql.query('delete from customers where click_id = $1', [clickId])
  return { program, clickId, words }
}

test('a visitor whose row has expired can be erased by the click id in their clicks', async () => {
  const { program, clickId, words } = await endedVisitor()
  const other = await endedVisitor()
  expect(await dump()).toContain(clickId)
  await expect(eraseCustomer(stack.db, other.program.programId, { click_id: clickId })).rejects.toMatchObject({
    code: 'not_found',
  })
  stack.neon.inject({ action: 'drop-after' })
  expect(await eraseCustomer(stack.db, program.programId, { click_id: clickId })).toBe(0)
  const after = await dump()
  for (const secret of [clickId, words]) expect(after).not.toContain(secret)
  for (const stored of [other.clickId, other.words]) expect(after).toContain(stored)
  const [{ clicks, erasures }] = await api.rows(
    `select (select count(*)::int from affiliate_click_events where program_id = $1) as clicks,
      (select count(*)::int from audit_log where program_id = $1 and action = 'customer.erased') as erasures`,
    [program.programId],
  )
  expect([clicks, erasures]).toEqual([2, 1])
  await expect(eraseCustomer(stack.db, program.programId, { click_id: clickId })).rejects.toMatchObject({
    code: 'not_found',
  })
})

test.each(['click_id', 'customer_key'] as const)(
  'Stripe’s reports of an unattributed purchase and its buyer can be erased by their %s',
  async (field) => {
    const program = await api.program()
    const named = field === 'click_id' ? (await endedVisitor()).clickId : `nobody-${crypto.randomUUID()}`
    const buyer = `cus_${crypto.randomUUID()}`
    const log = async (eventId: string, ofProgram: number | null, fact: object) =>
      await stack.sql.query(
        `insert into processor_events (account_id, event_id, event_type, program_id, livemode, outcome, fact, event_created_at)
        values ($1, $2, 'checkout.session.completed', $3, true, 'ignored', $4, now())`,
        [program.connectedAccountId, eventId, ofProgram, { kind: 'purchase', ...fact }],
      )
    await log('evt_a', null, { [field]: named, processor_customer_id: buyer, email_hash: 'feed' })
    await log('evt_b', program.programId, { processor_customer_id: buyer })
    await log('evt_c', program.programId, { processor_customer_id: 'cus_kept' })
    const knownBy = field === 'click_id' ? { click_id: named } : { customer_key: named }
    expect(await eraseCustomer(stack.db, program.programId, knownBy)).toBe(0)
    const left = await api.rows('select fact from processor_events where account_id = $1 order by event_id', [
      program.connectedAccountId,
    ])
    for (const secret of [named, buyer, 'feed']) expect(JSON.stringify(left)).not.toContain(secret)
    expect(left[2].fact).toEqual({ kind: 'purchase', processor_customer_id: 'cus_kept' })
  },
)
