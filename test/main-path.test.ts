import { expect, test } from 'vitest'
import { createSandbox } from '../lib/local/sandbox.ts'
import { startStack } from './support/stack.ts'

// As on Cloudflare, each call runs in workerd with Neon's driver, and notifications go through the queue.
const stack = await startStack({
  on: 'workers',
  functions: [
    'track-click',
    'track-lead',
    'track-sale',
    'track-refund',
    'approve-commissions',
    'deliver-notifications',
  ],
})
const sandbox = await createSandbox(
  stack.db,
  { ...stack.env, ...stack.environment, AUTH_SECRET: stack.environment.AUTH_SECRET ?? '' },
  { hold_days: 0 },
)

async function post(path: string, body: unknown) {
  const before = stack.neon.requests
  const response = await fetch(stack.baseUrl + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(path.endsWith('click') ? {} : { authorization: `Bearer ${sandbox.apiKey}` }),
    },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: await response.json(), requests: stack.neon.requests - before }
}

test('a click becomes a lead, a sale and a commission, and a refund reverses it and notifies the partner', async () => {
  const click = await post('/api/v1/track/click', {
    affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}`,
  })
  expect(click).toMatchObject({
    status: 200,
    body: {
      success: true,
      partner_code: sandbox.partnerCode,
      cookie_window_days: 30,
      click_id: expect.stringMatching(/^cust_\d+_\d+$/),
    },
    requests: 1,
  })
  const lead = await post('/api/v1/track/lead', {
    customer_key: 'user-1',
    click_id: click.body.click_id,
    email: 'a@example.com',
  })
  expect(lead).toMatchObject({
    status: 200,
    body: { success: true, customer_status: 'lead', click_id: click.body.click_id },
    requests: 1,
  })

  const sale = await post('/api/v1/track/sale', {
    transaction_id: 'order-1',
    customer_key: 'user-1',
    amount_cents: 10000,
  })
  expect(sale).toMatchObject({
    status: 200,
    body: { success: true, transaction_id: 'order-1', attributed: true, commission_cents: 2000, currency: 'usd' },
    requests: 1,
  })
  await stack.scheduled('approve-commissions')
  const { rows: credited } = await stack.sql.query('select balance_cents from balances')
  expect(credited).toEqual([{ balance_cents: '2000' }])

  const part = await post('/api/v1/track/refund', {
    transaction_id: 'order-1',
    refund_amount_cents: 3000,
    refund_id: 'r1',
  })
  expect(part).toMatchObject({
    status: 200,
    body: { success: true, status: 'refunded', deductionAmount: 6 },
    requests: 1,
  })
  const again = await post('/api/v1/track/refund', {
    transaction_id: 'order-1',
    refund_amount_cents: 3000,
    refund_id: 'r1',
  })
  expect(again).toMatchObject({
    status: 200,
    body: { status: 'skipped', reason: 'refund_already_applied' },
    requests: 1,
  })
  const rest = await post('/api/v1/track/refund', { transaction_id: 'order-1' })
  expect(rest).toMatchObject({
    status: 200,
    body: { status: 'reversed', deductionAmount: 14, commission_id: sale.body.commission_id },
  })
  const more = await post('/api/v1/track/refund', { transaction_id: 'order-1' })
  expect(more).toMatchObject({ status: 200, body: { status: 'skipped', reason: 'already_reversed' } })

  const { rows: deducted } = await stack.sql.query('select balance_cents, entry_count from balances')
  expect(deducted).toEqual([{ balance_cents: '0', entry_count: '3' }])
  const { rows: commissions } = await stack.sql.query('select status, reversed_cents from commissions')
  expect(commissions).toEqual([{ status: 'reversed', reversed_cents: '2000' }])

  await stack.scheduled('deliver-notifications')
  const { rows: reported } = await stack.sql.query('select kind, audience, payload from notifications order by id')
  expect(reported).toMatchObject([
    { kind: 'commission_refunded', audience: 'partner', payload: { amount_cents: 600 } },
    { kind: 'commission_reversed', audience: 'partner', payload: { amount_cents: 1400 } },
  ])
})
