import type { BrowserContext, Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { sessionCookie } from '../lib/access/sessions.ts'
import { createPerson } from '../lib/local/people.ts'
import { customer, type Shop } from '../lib/local/stripe-events.ts'
import { processorFixtures } from '../lib/local/processor-fixture.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { packageFile } from '../tracker/dist/served/package.js'
import { createImport, importFiles } from '../lib/moving/imports.ts'
import { apply, confirmApplication, findApplication } from '../lib/programs/applications.ts'
import { createProgram, programDefaults } from '../lib/programs/programs.ts'
import { changeJoinPage } from '../lib/programs/join-page.ts'
import { axeFindings } from './support/axe.ts'
import { launchBrowser } from './support/browser.ts'
import { type Drawn, drawInPlace } from './support/draw.ts'
import { bill, firstPayment } from './support/payments.ts'
import { signUpInBrowser } from './support/people.ts'
import { startReceiver } from './support/receiver.ts'
import { startStack } from './support/stack.ts'

const [stack, browser] = await Promise.all([startStack({ common: { WEBHOOK_LOOPBACK: 'on' } }), launchBrowser()])

const packageAddress = `${stack.baseUrl}/packages/${packageFile}`

/** Console messages from the browser. Pages must not cause any. */
const complaints: string[] = []

async function openBrowser(): Promise<{ context: BrowserContext; page: Page }> {
  const context = await browser.newContext({
    baseURL: stack.baseUrl,
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  context.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text())
  })
  // Pages refresh every 2.5 s, but these tests use a shorter interval.
  await context.addInitScript(() => {
    const later = window.setTimeout.bind(window)
    window.setTimeout = ((run: () => void, wait: number) => later(run, wait === 2500 ? 250 : wait)) as never
  })
  return { context, page: await context.newPage() }
}

async function call(path: string, body: object, apiKey?: string) {
  const response = await fetch(`${stack.baseUrl}/api/v1/track/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify(body),
  })
  const answer: { click_id: string } = await response.json()
  if (!response.ok) throw new Error(JSON.stringify(answer))
  return answer
}

async function linkInMail(recipient: string) {
  const { rows } = await stack.sql.query<{ body: string }>(
    'select body from mails where recipient = $1 order by id desc limit 1',
    [recipient],
  )
  return /https?:\S+/.exec(rows[0]?.body ?? '')?.[0] ?? ''
}

/** Opens the link from the sign-up mail and confirms the address. */
async function confirmAddress(page: Page, email: string) {
  await page.getByText(`we sent a link to ${email}`).waitFor()
  await page.goto(await linkInMail(email))
  await page.getByRole('button', { name: 'Yes, confirm it' }).click()
  await page.getByText('Your e-mail address is confirmed.').waitFor()
}

const figure = (page: Page, label: string) =>
  page.locator('.metric', { has: page.getByText(label, { exact: true }) }).locator('.value')

/** Confirms an action in the dialog that asks for confirmation. */
async function confirmQuestion(page: Page) {
  await page.locator('#question [value=yes]').click()
}

async function goTo(page: Page, name: string) {
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true }).click()
}

const advertiser = await openBrowser()
const partner = await openBrowser()
/** The program's API key from the sign-up page. */
let apiKey = ''
const partnerEmail = `grace-${crypto.randomUUID()}@example.com`

test(
  'advertiser and partner go from sign-up to a sale, its payout and its reversal',
  { timeout: 120_000 },
  async () => {
    const { page } = advertiser
    await page.goto('/')
    await page.getByRole('link', { name: 'Create an account' }).click()
    const email = `ada-${crypto.randomUUID()}@example.com`
    await signUpInBrowser(page, 'Ada', email)
    await confirmAddress(page, email)
    await page.getByLabel('Company').fill('Analytical')
    await page.getByLabel('Program name').fill('Engine')
    await page.getByLabel('Domain of your site').fill('https://engine.example.com/start')
    await page.getByRole('button', { name: 'Create program' }).click()
    await page.getByLabel('Commission per sale (%)').fill('12.345')
    await page.getByRole('button', { name: 'Save and continue' }).click()
    await page.getByText('Enter a percentage with at most two decimals.').waitFor()
    await page.getByLabel('Commission per sale (%)').fill('12,5')
    await page.getByRole('button', { name: 'Save and continue' }).click()
    await page.getByLabel('Color').fill('#ffcc00')
    await page.getByRole('button', { name: 'Save and continue' }).click()
    await page.getByRole('link', { name: 'Skip', exact: true }).click()
    await page.getByRole('button', { name: 'Show the command with a new key' }).click()

    await page.getByRole('heading', { name: 'Set up Engine' }).waitFor()
    await page.getByRole('button', { name: 'Copy set-up command' }).dblclick()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    const command = await page.evaluate(() => navigator.clipboard.readText())
    apiKey = / --api-key (svc_live_\w+)$/.exec(command)?.[1] ?? ''
    expect(command).toBe(
      `npm install ${packageAddress} && npx --yes --package=${packageAddress} svc init --base-url ${stack.baseUrl} --api-key ${apiKey}`,
    )

    // The page checks off steps without a reload.
    const loads = await page.evaluate(() => performance.timeOrigin)
    const testLink = (await page.getByLabel('test link', { exact: true }).textContent())?.trim() ?? ''
    const [, programId = ''] = /^https:\/\/engine\.example\.com\/\?aff=svc-test-(\d+)$/.exec(testLink) ?? []
    const page_url = 'https://elsewhere.example.com/'
    const tried1 = await call('click', { affiliate_url: testLink, page_url })
    await page.getByText('Not on engine.example.com').waitFor()
    await expect(call('lead', { customer_key: 'tester' }, apiKey)).rejects.toThrow('no_attribution')
    await page.getByText('A lead came without a click id').waitFor()
    await call('lead', { customer_key: 'tester', click_id: tried1.click_id }, apiKey)
    await call('sale', { transaction_id: 'try', customer_key: 'tester', amount_cents: 1000 }, apiKey)
    await page.getByText('Your server sends its sales.').waitFor()
    expect(await page.evaluate(() => performance.timeOrigin)).toBe(loads)
    await page.getByRole('button', { name: 'Copy set-up command' }).getByText('Copy', { exact: true }).waitFor()

    await goTo(page, 'Settings')
    await page.getByRole('link', { name: 'Tracking', exact: true }).click()
    await page.getByRole('button', { name: 'Copy tracker tag' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(
      `<script async src="${stack.baseUrl}/js/svc-tracker.js" data-svc-program-id="${programId}"></script>`,
    )

    await goTo(page, 'Overview')
    await page.getByRole('link', { name: 'Add or invite a partner' }).click()
    await page.getByLabel('Name').fill('Grace')
    await page.getByLabel('E-mail').fill(partnerEmail)
    await page.getByRole('button', { name: 'Add partner' }).click()
    await page.getByText('An invitation is on its way.').waitFor()
    await page.getByLabel('Actions on Grace').click()
    await page.getByRole('button', { name: 'Copy link' }).click()
    const link = await page.evaluate(() => navigator.clipboard.readText())
    expect(link).toMatch(/^https:\/\/engine\.example\.com\/\?aff=grace\d{4}$/)
    await goTo(page, 'Set up')
    await page.getByText('Everything works.').waitFor()

    const { click_id: clickId } = await call('click', { affiliate_url: link, page_url: 'https://engine.example.com/' })
    await call('lead', { customer_key: 'u1', click_id: clickId }, apiKey)
    await call('sale', { transaction_id: 't1', customer_key: 'u1', amount_cents: 20_000 }, apiKey)
    await call('sale', { transaction_id: 't2', customer_key: 'u1', amount_cents: 8000 }, apiKey)

    await goTo(page, 'Overview')
    expect(await figure(page, 'Revenue').textContent()).toBe('$280.00')
    expect(await figure(page, 'Commission').textContent()).toBe('$35.00')
    await goTo(page, 'Events')
    await page.getByText('$200.00').waitFor()

    const testSale = {
      transaction_id: 't1',
      customer_key: 'u1',
      amount_cents: 4000,
      additional_data: { test_mode: true },
    }
    await call('sale', testSale, apiKey)
    const data = page.getByRole('navigation', { name: 'Data' })
    await data.getByRole('link', { name: 'Test data' }).click()
    await page.getByText('$40.00').waitFor()
    await goTo(page, 'Overview')
    expect(await figure(page, 'Commission').textContent()).toBe('$6.25')
    await page.getByRole('button', { name: 'Clear test data' }).click()
    await confirmQuestion(page)
    await page.getByText('The test data was cleared: 4 rows were deleted.').waitFor()
    await call('sale', testSale, apiKey)
    await data.getByRole('link', { name: 'Live data' }).click()
    expect(await figure(page, 'Revenue').textContent()).toBe('$280.00')

    await partner.page.goto(await linkInMail(partnerEmail))
    await partner.page.getByRole('link', { name: 'Create an account' }).click()
    expect(await partner.page.getByLabel('E-mail').inputValue()).toBe(partnerEmail)
    await signUpInBrowser(partner.page, 'Grace', partnerEmail)
    await partner.page.getByRole('button', { name: 'Accept the invitation' }).click()
    expect(await figure(partner.page, 'Pending').textContent()).toBe('$35.00')
    expect(await figure(partner.page, 'Available').textContent()).toBe('$0.00')

    await goTo(page, 'Commissions')
    await page.getByRole('row', { name: /t1/ }).getByRole('button', { name: 'Approve' }).click()
    await page.getByText("Approved. The commission is in the partner's balance.").waitFor()
    await goTo(partner.page, 'Payouts')
    await partner.page.getByRole('button', { name: 'Request payout' }).click()
    await partner.page.getByText('You requested a payout of $25.00.').waitFor()

    await goTo(page, 'Payouts')
    await page.getByLabel('Mark as paid: the payout of $25.00 to Grace').click()
    await page.getByLabel('Reference of the transfer').fill(' ')
    await page.getByRole('button', { name: 'Record the payment' }).click()
    await page.getByText('Enter the reference of the transfer').waitFor()
    await page.getByLabel('Reference of the transfer').fill('SEPA 2026-11')
    await page.getByRole('button', { name: 'Record the payment' }).click()
    await page.getByText('Marked as paid.').waitFor()
    await page.getByText('SEPA 2026-11').waitFor()
    await goTo(partner.page, 'Earnings')
    expect(await figure(partner.page, 'Paid').textContent()).toBe('$25.00')

    await call('refund', { transaction_id: 't1', refund_reason: 'Arrived broken' }, apiKey)
    await stack.scheduled('relay-outbox')
    await stack.scheduled('deliver-notifications')
    await goTo(page, 'Commissions')
    const reversed = page.getByRole('row', { name: /t1/ })
    await reversed.getByText('Reversed').waitFor()
    expect(await reversed.textContent()).toContain('Refund of $200.00')
    expect(await reversed.textContent()).toContain('Arrived broken')
    await goTo(page, 'Notifications 2 unread')
    await page
      .getByText(/Manual review: \$25\.00 of a commission for the sale t1 was reversed after .?Grace.? had been paid\./)
      .waitFor()
    await page.getByText(/left the balance of .?Grace.? at \$25\.00 below zero/).waitFor()
    await partner.page.reload()
    expect(await figure(partner.page, 'Owed after reversals and deductions').textContent()).toBe('-$25.00')
    await goTo(partner.page, 'Notifications 2 unread')
    await partner.page
      .getByText('Your commission for the sale t1 was reversed: $25.00 is deducted from your balance.')
      .waitFor()
    await partner.page.getByText('You were paid $25.00, reference SEPA 2026-11.').waitFor()
    await partner.page.getByRole('button', { name: 'Mark all as read' }).click()
    await partner.page.getByRole('link', { name: 'Notifications', exact: true }).waitFor()

    const { rows: mails } = await stack.sql.query<{ subject: string; body: string }>(
      "select subject, body from mails where recipient = $1 and subject like 'Your payout%'",
      [partnerEmail],
    )
    expect(mails).toEqual([{ subject: 'Your payout: Engine', body: expect.stringContaining('You were paid $25.00') }])
    await partner.page.goto(/http\S+unsubscribe\S+/.exec(mails[0]?.body ?? '')?.[0] ?? '')
    await partner.page.getByRole('button', { name: 'Stop these e-mails' }).click()
    await partner.page.getByRole('link', { name: 'Choose your e-mails' }).click()
    expect(await partner.page.getByLabel('Payouts', { exact: true }).inputValue()).toBe('never')
    await partner.page.getByLabel('Payouts', { exact: true }).selectOption('Once a day')
    await partner.page.getByRole('button', { name: 'Save' }).click()
    await partner.page.getByText('Saved.').waitFor()
    await partner.page.goto('/partner')

    await goTo(page, 'Commissions')
    const own = page.getByRole('row', { name: /t2/ })
    await own.getByLabel(/^Actions on/).click()
    await own.getByText('Reject', { exact: true }).click()
    await own.getByLabel('Reason, shown to the partner').fill(' ')
    await own.getByRole('button', { name: 'Reject commission' }).click()
    await own.getByText('Enter a reason. The partner sees it.').waitFor()
    await own.getByLabel('Reason, shown to the partner').fill('Own order')
    await own.getByRole('button', { name: 'Reject commission' }).click()
    await page.getByText('Rejected. The partner is notified with the reason.').waitFor()
    await goTo(partner.page, 'Commissions')
    await partner.page.getByText('Own order').waitFor()
    expect(complaints).toEqual([])
  },
)

test(
  'a new webhook endpoint receives a test event and a sale, and the sale again; refusals are shown',
  { timeout: 60_000 },
  async () => {
    const { page } = advertiser
    await page.goto('/programs/1')
    await goTo(page, 'Webhooks')
    await page.getByText('No endpoints yet').waitFor()
    const receiver = await startReceiver()
    const url = receiver.urlOf('walk', 'ok')
    await page.getByLabel('Address', { exact: true }).fill('http://hooks.example.com/')
    await page.getByLabel('lead.created').uncheck()
    await page.getByRole('button', { name: 'Add endpoint' }).click()
    await page.getByText('The address must begin with https://.').waitFor()
    expect(await page.getByLabel('lead.created').isChecked()).toBe(false)
    await page.getByLabel('Address', { exact: true }).fill(url)
    await page.getByRole('button', { name: 'Add endpoint' }).click()
    receiver.expect('walk', (await page.getByLabel('Webhook secret', { exact: true }).innerText()).trim())

    /** Runs the consumer until the receiver has this many requests. */
    async function deliver(requests: number) {
      await expect.poll(() => stack.waitingWebhooks()).toBeGreaterThan(0)
      await stack.scheduled('deliver-webhooks')
      await receiver.settle()
      expect(receiver.received).toHaveLength(requests)
    }
    await page.getByRole('button', { name: 'Send a test event' }).click()
    await page.getByRole('heading', { name: 'webhook.test' }).waitFor()
    await page.getByText('No attempts yet.').waitFor()
    await deliver(1)
    await page.getByRole('link', { name: 'Refresh' }).click()
    await page.getByText('Response body').click()
    await page.getByText(/^ok: \d+ bytes$/).waitFor()

    const [body = ''] = await page.getByLabel('Body', { exact: true }).allInnerTexts()
    expect(body.trim()).toBe(receiver.received[0]?.body)
    await page.getByRole('button', { name: 'Send again' }).click()
    await page.getByText('It will be sent again.').waitFor()
    await deliver(2)

    await call('sale', { transaction_id: 'reported', customer_key: 'u1', amount_cents: 4000 }, apiKey)
    await deliver(4)
    const reported = receiver.received
      .slice(2)
      .map(({ body: text }) => JSON.parse(text) as { type: string; sequence: number; data: object })
    expect(reported.toSorted((a, b) => a.sequence - b.sequence)).toMatchObject([
      { type: 'sale.created', data: { transaction_id: 'reported', amount_cents: 4000 } },
      { type: 'commission.created', data: { transaction_id: 'reported', amount_cents: 500 } },
    ])

    await goTo(page, 'Webhooks')
    await page
      .getByRole('row', { name: /webhooks|walk/ })
      .getByText('Delivered')
      .waitFor()
    await page.getByRole('link', { name: 'Deliveries', exact: true }).click()
    await page.getByLabel('State').selectOption({ label: 'Failed' })
    await page.getByText('No results').waitFor()
    expect(new URL(page.url()).search).toBe('?status=failed')
    await page.getByLabel('State').selectOption({ label: 'Delivered' })
    await page.waitForURL(/status=delivered/)
    await page.getByLabel('Event').selectOption({ label: 'webhook.test' })
    await page.waitForURL(/type=webhook.test/)
    await page.getByRole('cell', { name: url }).getByRole('link').click()

    await page.getByLabel('Which deliveries', { exact: true }).selectOption({ label: 'All finished deliveries' })
    await page.getByLabel('From', { exact: true }).fill('2026-01-01T00:00')
    await page.getByLabel('Until', { exact: true }).fill('2025-01-01T00:00')
    await page.getByRole('button', { name: 'Send again' }).click()
    await page.getByText('Choose a time after the start.').waitFor()
    await page.getByLabel('Until', { exact: true }).fill('2036-01-01T00:00')
    await page.getByRole('button', { name: 'Send again' }).click()
    await page.getByText('3 deliveries will be sent again.').waitFor()
    await deliver(7)
    await page.getByRole('button', { name: 'Rotate secret' }).click()
    await confirmQuestion(page)
    await page.getByText(/signed with two secrets until/).waitFor()
    receiver.close()
    expect(receiver.received.map(({ signed }) => signed)).not.toContain(false)
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(3)
    expect(complaints).toEqual([])
  },
)

/** Forms with a field and an invalid value for it. */
const refusedForms: [path: string, field: string, typed: string, button: string][] = [
  ['/programs/1/settings', 'Commission per signup', '1.234', 'Save'],
  ['/programs/1/settings?tab=people', 'Customer key or click id', 'nobody', 'Erase'],
  ['/programs/1/settings?tab=payments', 'Stripe account id', 'cus_1', 'Connect Stripe'],
  ['/programs/1/settings', 'Domain of your site', '99999999999999999999', 'Save'],
  ['/programs/new', 'Program name', 'x'.repeat(81), 'Create program'],
  ['/programs/1/payout-runs', 'Minimum', '1.234', 'Save'],
  ['/workspaces/1/members', 'E-mail', 'nobody', 'Send the invitation'],
  ['/partner/links', 'Code', 'two words', 'Create link'],
  ['/partner/payouts', 'Payout address', 'nobody', 'Save the payout address'],
  ['/sign-in', 'E-mail', 'nobody', 'Sign in'],
]

test.each(refusedForms)(
  'on %s the refused field "%s" is marked and focused and keeps its value, and the page can be reloaded',
  async (path, field, typed, button) => {
    const { page } = path.startsWith('/partner') ? partner : path.startsWith('/sign') ? await openBrowser() : advertiser
    const { rows } = await stack.sql.query<{ workspace_id: string }>('select workspace_id from programs where id = 1')
    await page.goto(path.replace('/workspaces/1/', `/workspaces/${rows[0]?.workspace_id}/`))
    // Removes the browser's own checks and opens every part of the form, so that the server has to check.
    await page.evaluate(() => {
      for (const form of document.forms) form.noValidate = true
      for (const details of document.querySelectorAll('details')) details.open = true
    })
    const input = page.getByLabel(field, { exact: true })
    await input.fill(typed)
    await page.locator('form', { has: input }).getByRole('button', { name: button, exact: true }).click()
    if (await page.locator('#question').isVisible()) await confirmQuestion(page)
    await page.locator('[aria-invalid="true"], .message.bad').first().waitFor()
    const isInForm = !path.startsWith('/sign-in')
    // The page sets the focus after it has been drawn.
    await expect.poll(() => input.evaluate((element) => element === document.activeElement)).toBe(isInForm)
    expect(await input.getAttribute('aria-invalid')).toBe(isInForm ? 'true' : null)
    expect(await input.inputValue()).toBe(typed)
    expect((await page.reload())?.request().method()).toBe('GET')
    expect(await page.locator('[aria-invalid="true"], .message.bad').count()).toBe(0)
    expect(complaints).toEqual([])
  },
)

const daysAgo = (days: number) => Math.floor(Date.now() / 1000) - days * 86_400

test('buttons import the past payments of a Stripe account', { timeout: 60_000 }, async () => {
  const { page } = advertiser
  const { rows: links } = await stack.sql.query<{ code: string }>('select code from referral_links order by id limit 1')
  const { click_id: clickId } = await call('click', {
    affiliate_url: `https://shop.example.com/?aff=${links[0]?.code}`,
  })
  await stack.sql.query(
    `update customers set created_at = now() - interval '80 days', last_click_at = now() - interval '80 days' where click_id = $1`,
    [clickId],
  )
  const shop: Shop = {
    generation: 'new',
    account: 'acct_past',
    programId: 1,
    clickId,
    customerKey: 'past-1',
    email: 'past@example.com',
    customer: 'cus_past',
    livemode: true,
    now: daysAgo(70),
  }
  const renewal = (id: string, days: number) =>
    bill({ ...shop, now: daysAgo(days) }, { id, payment_intent: `pi_${id}` })
  stack.stripe.lists.set('acct_past /v1/customers', [customer(shop, {})])
  stack.stripe.lists.set('acct_past /v1/checkout/sessions', [firstPayment(shop)])
  stack.stripe.lists.set('acct_past /v1/invoices', [
    bill(shop, { billing_reason: 'subscription_create' }),
    renewal('in_2', 40),
    renewal('in_3', 10),
  ])
  const recorded = async () => {
    const { rows } = await stack.sql.query<{ id: string }>(
      `select s.transaction_id as id from sales s join customers c on c.program_id = s.program_id and c.id = s.customer_id
       where c.click_id = $1 order by id`,
      [clickId],
    )
    return rows.map(({ id }) => id)
  }
  const button = (name: string) => page.getByRole('button', { name, exact: true })

  await page.goto('/programs/1/settings?tab=payments')
  await page.getByLabel('Stripe account id').fill(' acct_past ')
  await button('Connect Stripe').click()
  await page.getByText('Stripe is connected.').waitFor()

  stack.stripe.failing.set('/v1/checkout/sessions', 503)
  await page.getByLabel('Past payments').selectOption({ label: 'of the last 3 months' })
  await button('Import').click()
  await page.getByText('Importing past checkout sessions.').waitFor()
  await page.getByText(/ 1 object since .* read, 0 recorded\. It continues automatically\.$/).waitFor()
  await page.getByText('Stripe or the database did not respond. Reading continues later.').waitFor()
  expect(await button('Import').count()).toBe(0)
  await button('Continue now').click()
  await page.getByText('Importing past checkout sessions.').waitFor()

  await button('Stop the import').click()
  await page.getByText('The import stopped at checkout sessions.').waitFor()
  await page.getByText('The import was stopped. Recorded payments are kept.').waitFor()
  // Waits until there are no more attempts to read a page that was requested before the stop.
  let calls = -1
  await expect.poll(() => calls === (calls = stack.stripe.calls.length), { interval: 2500 }).toBe(true)
  stack.stripe.failing.clear()
  // A stopped import isn't resumed automatically.
  await stack.scheduled('apply-parked-events')
  await page.reload()
  await page.getByText('The import stopped at checkout sessions.').waitFor()
  expect(await recorded()).toEqual([])

  await button('Resume the import').click()
  await page.getByText('The import is complete.').waitFor()
  expect(await page.getByText('The import is complete.').locator('..').textContent()).toMatch(
    / 5 objects since .* read, 3 recorded\./,
  )
  expect(await recorded()).toEqual(['in_1', 'in_2', 'in_3'])

  await page.getByLabel('Past payments').selectOption({ label: 'of the last 12 months' })
  await button('Import').click()
  const lastYear = new Date().getUTCFullYear() - 1
  await page.getByText(new RegExp(` 5 objects since .*, ${lastYear} read`)).waitFor()
  expect(await recorded()).toEqual(['in_1', 'in_2', 'in_3'])
  await goTo(page, 'Commissions')
  await page.getByText('in_3').waitFor()
  expect(complaints).toEqual([])
})

/** The events from each processor for a checkout, its renewal, a refund of 30.00, and a chargeback of the rest of the first payment. */
const subscriptions = [
  {
    name: 'Paddle',
    processor: 'paddle',
    checkout: ['transaction.completed:subscription', 'subscription.created'],
    renewal: 'transaction.completed:renewal-without-data',
    refund: 'adjustment.updated',
    chargeback: 'adjustment.created:chargeback',
    changes: {},
    refunded: 3000,
  },
  {
    name: 'Lemon Squeezy',
    processor: 'lemonsqueezy',
    checkout: ['order_created', 'subscription_created', 'subscription_payment_success:initial'],
    renewal: 'subscription_payment_success:without-data',
    refund: 'order_refunded',
    chargeback: 'order_refunded',
    changes: {},
    refunded: 12_000,
  },
  {
    name: 'Polar',
    processor: 'polar',
    checkout: ['order.paid:subscription', 'subscription.created'],
    renewal: 'order.paid:renewal-without-data',
    refund: 'refund.updated',
    chargeback: 'refund.updated',
    changes: { id: 'disputed', dispute: { id: 'dispute' } },
    refunded: 9000,
  },
] as const

test.each(subscriptions)(
  'a subscription of $name goes from its connection through renewal, refund and chargeback',
  { timeout: 60_000 },
  async ({ name, processor, checkout, renewal, refund, chargeback, changes, refunded }) => {
    const env = { ...stack.environment, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
    const sandbox = await createSandbox(stack.db, env, { name })
    await stack.sql.query('update programs set processor_account_id = null where id = $1', [sandbox.programId])
    const { context, page } = await openBrowser()
    const { hostname } = new URL(stack.baseUrl)
    const session = { name: sessionCookie, value: encodeURIComponent(sandbox.dashboardToken), domain: hostname }
    await context.addCookies([{ ...session, path: '/', secure: true }])
    const home = `/programs/${sandbox.programId}`

    await page.goto(`${home}/check`)
    await page.getByRole('link', { name: 'Paddle, Lemon Squeezy or Polar' }).click()
    await page.getByLabel('Processor').selectOption({ label: name })
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByLabel('Webhook secret', { exact: true }).fill('shared-secret')
    await page.getByRole('button', { name: 'Save the secret' }).click()
    await page.getByText('The secret is saved.').waitFor()
    const address = (await page.getByLabel('webhook address', { exact: true }).textContent())?.trim() ?? ''
    await page.goto(`${home}/check`)
    await page.getByText(`${name} is connected.`).waitFor()

    const { click_id: clickId } = await call('click', {
      affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}`,
    })
    const { events, headersOf } = processorFixtures[processor]
    const send = async (event: string, seconds: number, sum = 3000, more: object = {}) => {
      const now = new Date(Date.now() + seconds * 1000)
      const { programId } = sandbox
      const sent = Object(
        events[event]?.({
          order: name,
          programId,
          clickId,
          customerKey: 'buyer',
          email: 'buyer@example.com',
          amount: 12_000,
          tax: 2000,
          fee: 0,
          refunded: sum,
          currency: 'usd',
          now,
          isTest: false,
        }),
      )
      const body = JSON.stringify({ ...sent, data: { ...sent.data, ...more } })
      const headers = headersOf(body, 'shared-secret', new Date())
      expect((await fetch(address, { method: 'POST', body, headers })).status).toBe(200)
    }
    /** The figures of the overview: 20% of 100.00, which is the untaxed part of each payment, minus the returned part. */
    const shows = async (revenue: string, commission: string) => {
      await page.goto(home)
      expect([await figure(page, 'Revenue').textContent(), await figure(page, 'Commission').textContent()]).toEqual([
        revenue,
        commission,
      ])
    }
    for (const event of checkout) await send(event, 0)
    await shows('$120.00', '$20.00')
    await send(renewal, 1)
    await shows('$240.00', '$40.00')
    await send(refund, 2)
    await shows('$240.00', '$35.00')
    await send(chargeback, 3, refunded, changes)
    await shows('$240.00', '$20.00')
    await page.goto(`${home}/commissions`)
    await page.getByText(/Refund of \$30\.00/).waitFor()
    await context.close()
    expect(complaints).toEqual([])
  },
)

test('advertiser and partner see a held commission until somebody presses a button, and the Enter key decides nothing', async () => {
  const { page } = advertiser
  const { rows: links } = await stack.sql.query<{ code: string }>('select code from referral_links order by id limit 1')
  for (const sale of ['held-1', 'held-2', 'held-3']) {
    const { click_id: clickId } = await call('click', {
      affiliate_url: `https://engine.example.com/?aff=${links[0]?.code}`,
      user_agent: 'Examplebot/1.0',
    })
    await call('lead', { customer_key: sale, click_id: clickId }, apiKey)
    await call('sale', { transaction_id: sale, customer_key: sale, amount_cents: 4000 }, apiKey)
  }
  await stack.scheduled('approve-commissions')
  await partner.page.goto('/partner/commissions')
  const theirs = partner.page.getByRole('row', { name: /held-1/ })
  await theirs.getByText('Held for review').waitFor()

  await page.goto('/programs/1')
  await page.getByRole('link', { name: '3 commissions are held for your review' }).click()
  const row = (sale: string) => page.getByRole('row', { name: new RegExp(sale) })
  await row('held-1').getByText('by Examplebot/1.0').waitFor()
  const note = page.getByLabel('Note, shown to the partner if you reject the commission')
  await note.waitFor({ state: 'hidden' })
  await row('held-1').getByRole('checkbox').check()
  await note.fill('A friend of ours')
  await note.press('Enter')
  await row('held-1').getByRole('checkbox').press('Enter')
  await page.reload()
  expect(await page.getByRole('checkbox', { name: /^Select commission/ }).count()).toBe(3)
  await row('held-1').getByRole('checkbox').check()
  await note.fill('A friend of ours')
  await page.getByRole('button', { name: 'Release selected' }).click()
  await page.getByText('1 released.').waitFor()
  await row('held-2').getByRole('checkbox').check()
  await note.fill('Your own visits')
  await page.getByRole('button', { name: 'Reject selected' }).click()
  await page.getByText('1 rejected.').waitFor()
  await partner.page.reload()
  await theirs.getByText('credited on').waitFor()
  await partner.page
    .getByRole('row', { name: /held-2/ })
    .getByText('Your own visits')
    .waitFor()

  await goTo(page, 'Commissions')
  const menu = page.locator('summary', { hasText: 'Reject selected' })
  const reason = page.getByLabel('Reason, shown to the partners')
  await row('held-1').getByRole('checkbox').check()
  await menu.click()
  await reason.fill('Never shipped')
  // A click outside a menu closes it.
  await page.getByRole('heading', { name: 'Commissions', exact: true }).click()
  await reason.waitFor({ state: 'hidden' })
  await menu.click()
  await reason.press('Enter')
  await page.reload()
  await row('held-1').getByText('credited on').waitFor()
  expect(complaints).toEqual([])
})

/** The pages of each reader, from the test above. */
const pages: [who: 'nobody' | 'advertiser' | 'partner', paths: string[]][] = [
  [
    'nobody',
    `
      /sign-in /sign-up /two-factor /verify-email?token=x /forgot-password /reset-password?token=x
      /invitation?token=x /partner-invitation?token=x /application?token=x /join/walk /nothing
    `
      .trim()
      .split(/\s+/),
  ],
  [
    'advertiser',
    [
      '',
      ...`
        ?period=90d /events /partners /partners/1 /partners/1?tab=commissions /partners/1?tab=links
        /partners/1?tab=settings /partners/1?tab=activity /applications /applications/1 /join-page /start/brand
        /customers/1 /commissions /reviews /reviews?state=decided /adjustments /groups /codes /imports
        /imports/1 /side-by-side /sales/t1
        /payout-runs /payouts /documents /documents/details /books /notifications /deliveries /deliveries/notifications /webhooks /webhooks/1
        /webhooks/deliveries /webhooks/1/deliveries/1 /test /test/events /test/deliveries /settings /settings?tab=tracking
        /settings?tab=keys /settings?tab=payments /settings?tab=people /check
      `
        .trim()
        .split(/\s+/),
    ].map((path) => `/programs/1${path}`),
  ],
  [
    'advertiser',
    ['/programs/new', '/members', '/audit', '/account', '/account/mail', '/account/sessions', '/account/two-factor'],
  ],
  [
    'partner',
    [
      '',
      ...'/links /postbacks /postbacks/1 /api-keys/1 /commissions /adjustments /payouts /documents /notifications /invitations /applications /sales/1/t1'.split(
        ' ',
      ),
    ].map((path) => `/partner${path}`),
  ],
]

/** Finds buttons that are not aligned with the field next to them. */
const askewButtons = (page: Page) =>
  page.locator('form.row:not(.find, .bulk) > .field + button').evaluateAll((buttons) =>
    buttons.flatMap((button) => {
      const field = button.previousElementSibling?.querySelector('input, select')?.getBoundingClientRect()
      const own = button.getBoundingClientRect()
      const isBeside = field && own.left >= field.right && own.top < field.bottom + 40
      return isBeside && Math.abs(own.bottom - field.bottom) > 2 ? [button.textContent] : []
    }),
  )

/** Returns how much wider the page is than the window, in pixels. */
const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)

/** Replaces the values in a query, because one address of each kind is enough. */
function kindOf(address: string): string {
  const { pathname, searchParams } = new URL(address, stack.baseUrl)
  return [pathname, ...[...searchParams.keys()].toSorted()].join(' ')
}

/** The pages that were rendered at phone size, by kind, with the address and the result. */
const seenPages = new Map<string, Drawn & { on: Page; overflow: number }>()

/** Renders a page at phone size and keeps the result. */
async function drawOnPhone(page: Page, address: string) {
  const seen = { ...(await drawInPlace(page, address)), on: page, overflow: await overflow(page) }
  seenPages.set(kindOf(address), seen)
  return seen
}

/** Returns the number of menus that begin to the left of the window. Nobody can scroll there. */
const cutOffMenus = (page: Page) =>
  page.evaluate(
    () => [...document.querySelectorAll('main .menu')].filter((menu) => menu.getBoundingClientRect().left < 0).length,
  )

const desk = { width: 1280, height: 800 }
const phone = { width: 390, height: 844 }

describe('every page is accessible in light mode, in dark mode and on a phone', () => {
  // Adds long names that are hard to lay out, and an application.
  beforeAll(async () => {
    await stack.sql.query('update programs set name = $1', ['A long program name '.repeat(4).trim()])
    await stack.sql.query(`update partners set name = 'שותפים בע״מ'`)
    const importId = await createImport(stack.db, stack.environment, 1, 'csv')
    const files = [{ name: 'partners.csv', content: Buffer.from('Full name,Email,Notes\nIda,ida@example.com,x\nEd,,') }]
    await importFiles(stack.db, stack.environment, 1, importId, { source: 'csv', files, mappings: {}, seconds: 60 })
    await stack.sql.query(
      `insert into imported_commissions (program_id, partner_id, external_id, amount_cents, currency, status, payment_id, earned_at)
      select 1, min(id), 'csv:1', 1234, 'usd', 'paid', repeat('ch_long_', 20), now() from partners where program_id = 1`,
    )
    const { version } = await changeJoinPage(stack.db, 1, {
      is_open: true,
      slug: 'walk',
      intro: 'Recommend us.\n\n- Links\n- Payouts',
      terms: 'Be honest.',
      questions: [{ label: 'Where do you publish?', type: 'short', required: true }],
    })
    const { token } = await apply(stack.db, {
      programId: 1,
      userId: null,
      email: 'wanda@example.com',
      name: 'Wanda',
      answers: [{ question: 'Where do you publish?', answer: `wanda.example/${'a'.repeat(80)}` }],
      seen: { version },
    })
    const application = await findApplication(stack.db, token)
    if (application) await confirmApplication(stack.db, application)
  })

  test.each(pages)('%s (%#)', { timeout: 120_000 }, async (who, paths) => {
    const { context, page } = who === 'nobody' ? await openBrowser() : { advertiser, partner }[who]
    const { rows } = await stack.sql.query<{ workspace_id: string }>('select workspace_id from programs where id = 1')
    await page.goto('/account')
    for (const path of paths) {
      const address = /^\/(members|audit)$/.test(path) ? `/workspaces/${rows[0]?.workspace_id}${path}` : path
      await page.setViewportSize(phone)
      const { overflow: closed } = await drawOnPhone(page, address)
      await page.evaluate(() => {
        for (const details of document.querySelectorAll('main details')) details.setAttribute('open', '')
      })
      expect([path, closed, await overflow(page), await cutOffMenus(page)]).toEqual([path, 0, 0, 0])
      await page.setViewportSize(desk)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        // In dark mode, only colors differ.
        const found = await axeFindings(page, { serious: true, colours: colorScheme === 'dark' })
        expect([path, colorScheme, found]).toEqual([path, colorScheme, []])
      }
      expect([path, await askewButtons(page)]).toEqual([path, []])
    }
    expect(complaints.splice(0)).toEqual(paths.includes('/nothing') ? [expect.stringContaining('404')] : [])
    if (who === 'nobody') await context.close()
  })
})

/**
 * Visits every link from `start`, each address once. Checks that each is a file or a page that fits a phone. Pages that were rendered
 * for another reader are only fetched, because a role with fewer rights sees less on them.
 */
async function crawl(context: BrowserContext, page: Page, start: string): Promise<string[]> {
  const kinds = new Set<string>()
  const broken: unknown[] = []
  const waiting = [start]
  const cookie = (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  await page.goto('/account')
  await page.setViewportSize(phone)
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { pathname, searchParams } = new URL(next, stack.baseUrl)
    const kind = kindOf(next)
    if (kinds.has(kind)) continue
    kinds.add(kind)
    // Following the filters on filtered pages would never end.
    const follow = (found: string[]) =>
      waiting.push(...found.filter((link) => searchParams.size === 0 || !link.includes('?')))
    if (pathname.endsWith('.csv') || /^\/(docs|api|documents)\b/.test(pathname)) {
      const { status, body } = await fetch(new URL(next, stack.baseUrl), { headers: { cookie } })
      await body?.cancel()
      if (status !== 200) broken.push([next, status])
      continue
    }
    const before = seenPages.get(kind)
    if (before && before.on !== page) {
      const answer = await fetch(new URL(next, stack.baseUrl), { headers: { cookie } })
      if (answer.status !== 200) broken.push([next, answer.status])
      const hrefs = (await answer.text()).matchAll(/<a [^>]*?href="(\/[^"]*)"/g)
      follow(Array.from(hrefs, ([, href = '']) => href.replaceAll('&amp;', '&')))
      continue
    }
    const seen = before ?? (await drawOnPhone(page, next))
    if (seen.status !== 200 || seen.overflow > 0) broken.push([next, seen.status, seen.overflow])
    follow(seen.links)
  }
  await page.setViewportSize(desk)
  expect(broken).toEqual([])
  return [...new Set(Array.from(kinds, (kind) => kind.split(' ')[0] ?? ''))]
}

/** Finds elements that the Tab key doesn't reach, and elements without a visible focus. */
async function missedByKeyboard(page: Page): Promise<string[]> {
  const count = await page.evaluate(() => {
    const shown = Array.from(
      document.querySelectorAll<HTMLElement>('a[href], button, input, select, textarea, summary, [tabindex="0"]'),
    ).filter(
      (element) =>
        !element.matches(':disabled, [type=hidden]') && element.checkVisibility({ visibilityProperty: true }),
    )
    const groups = new Set<string>()
    for (const element of shown) {
      // A group of radio buttons is a single stop. The arrow keys reach the other buttons.
      const group = element instanceof HTMLInputElement && element.type === 'radio' ? element.name : undefined
      if (group === undefined || !groups.has(group)) element.dataset['missed'] = element.outerHTML.slice(0, 120)
      if (group !== undefined) groups.add(group)
    }
    // Browsers mark the parts of a date field themselves and report only the first one.
    document.addEventListener('focusin', ({ target: element }) => {
      if (!(element instanceof HTMLElement)) return
      delete element.dataset['missed']
      if (element.matches('[type=date]')) return
      if (element instanceof HTMLInputElement && element.type === 'radio') {
        for (const one of document.getElementsByName(element.name)) delete one.dataset['missed']
        return
      }
      const { outlineStyle, boxShadow } = getComputedStyle(element)
      if (outlineStyle === 'none' && boxShadow === 'none')
        element.dataset['missed'] = 'no focus seen: ' + element.outerHTML.slice(0, 120)
    })
    // The parts of a date field and its calendar button are additional stops.
    return shown.length + 3 * document.querySelectorAll('[type=date]').length
  })
  // Holds the key down, because the browser then doesn't redraw more often than the screen.
  await Promise.all(Array.from({ length: count + 1 }, () => page.keyboard.down('Tab')))
  await page.keyboard.up('Tab')
  return await page.evaluate(() =>
    Array.from(document.querySelectorAll<HTMLElement>('[data-missed]'), ({ dataset }) => dataset['missed'] ?? ''),
  )
}

const money = ['/payout-runs', '/payouts', '/books']
const analysis = '/events /customers/1 /deliveries /deliveries/notifications /webhooks /webhooks/deliveries'.split(' ')
const everybody = ['', '/partners', '/partners/1', '/commissions', '/notifications', '/settings', '/check']
const ofWorkspace = ['/members', '/audit']

interface Walk {
  role: string
  start: string
  /** Pages of a program and a workspace that the role can open. */
  opens: string[]
  /** The page for the keyboard test. */
  keyboard: string
}
const walks: Walk[] = [
  {
    role: 'owner',
    start: '/programs/1',
    opens: [...everybody, ...analysis, ...money, ...ofWorkspace],
    keyboard: '/programs/1/partners',
  },
  { role: 'member of one program', start: '/', opens: [...everybody, ...analysis], keyboard: '/programs/1/events' },
  { role: 'partner', start: '/partner', opens: [], keyboard: '/partner/payouts' },
  { role: 'nobody', start: '/', opens: [], keyboard: '/sign-in' },
]

/** Signs in somebody with `role` in the first workspace. */
async function signedIn(role: string): Promise<{ context: BrowserContext; page: Page }> {
  if (role === 'partner') return partner
  if (role === 'owner') return advertiser
  const opened = await openBrowser()
  if (role === 'nobody') return opened
  const isGuest = role === 'member of one program'
  const { userId, token } = await createPerson(stack.db, stack.environment, {
    name: role,
    email: `${crypto.randomUUID()}@example.com`,
  })
  const { rows } = await stack.sql.query<{ workspace_id: string }>('select workspace_id from programs where id = 1')
  await stack.sql.query('insert into workspace_members (workspace_id, user_id, role) values ($1, $2, $3)', [
    rows[0]?.workspace_id,
    userId,
    isGuest ? 'guest' : role,
  ])
  if (isGuest)
    await stack.sql.query(
      `insert into program_members (program_id, workspace_id, user_id, role) values (1, $1, $2, 'member')`,
      [rows[0]?.workspace_id, userId],
    )
  const { hostname } = new URL(stack.baseUrl)
  const cookie = { name: sessionCookie, value: encodeURIComponent(token), domain: hostname, path: '/', secure: true }
  await opened.context.addCookies([cookie])
  return opened
}

test.each(walks)(
  '$role can open every allowed page and no other, without dead links, on a phone, and by keyboard alone',
  { timeout: 120_000 },
  async ({ role, start, opens, keyboard }) => {
    const { context, page } = await signedIn(role)
    const reached = await crawl(context, page, start)
    const ofProgram = reached.flatMap((path) => /^\/programs\/1((?:\/.*)?)$/.exec(path)?.[1] ?? [])
    const ofAll = [...everybody, ...analysis, ...money]
    expect(ofAll.filter((path) => ofProgram.includes(path))).toEqual(ofAll.filter((path) => opens.includes(path)))
    const statuses = await Promise.all(
      ofAll.map(async (path) => (await context.request.get(`/programs/1${path}`, { maxRedirects: 0 })).status()),
    )
    const refusal = { partner: 404, nobody: 303 }[role] ?? 403
    expect(statuses).toEqual(ofAll.map((path) => (opens.includes(path) ? 200 : refusal)))
    expect(ofWorkspace.filter((name) => reached.some((path) => path.endsWith(name)))).toEqual(
      ofWorkspace.filter((name) => opens.includes(name)),
    )

    await page.goto(keyboard)
    if (role !== 'nobody') {
      await page.keyboard.press('Tab')
      expect(await page.evaluate(() => document.activeElement?.textContent.trim())).toBe('Skip to content')
      await page.keyboard.press('Enter')
      await page.waitForURL('**#main')
      await page.keyboard.press('Tab')
      expect(await page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true)
      await page.goto(keyboard)
    }
    expect(await missedByKeyboard(page)).toEqual([])
    if (page !== partner.page && page !== advertiser.page) await context.close()
  },
)

test('a page sends the archive of a program in parts, repeats a part that failed, and imports it', async () => {
  const { page } = advertiser
  const { rows } = await stack.sql.query('select workspace_id from programs where id = 1')
  const details = { ...programDefaults, name: 'Moved', domain: 'moved.example.com' }
  const moved = await createProgram(stack.db, rows[0].workspace_id, details)
  await page.goto('/programs/1/imports')
  await page.getByRole('button', { name: 'Export' }).click()
  const download = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download' }).click()
  const archive = await (await download).path()

  const [form, sent] = [page.locator('form[data-part-bytes]'), [] as string[]]
  await page.goto(`/programs/${moved}/imports`)
  await page.getByLabel('Service', { exact: true }).selectOption('Another one, with CSV files')
  const partners = { name: 'partners.csv', mimeType: 'text/csv', buffer: Buffer.from('name\nAda\n') }
  await page.getByLabel('Files', { exact: true }).setInputFiles(partners)
  // Chromium can't look at a page that is being left.
  await page.evaluate(() => addEventListener('submit', (event) => event.preventDefault(), { once: true }))
  await form.getByRole('button', { name: 'Plan' }).click()
  await form.getByRole('progressbar').waitFor()
  await page.goto(`/programs/${moved}/imports`)
  await page.getByLabel('Service', { exact: true }).selectOption('Program archive')
  await page.getByLabel('Files', { exact: true }).setInputFiles(archive)
  expect(await form.getByRole('progressbar').isVisible()).toBe(false)
  await form.evaluate((element) => element.setAttribute('data-part-bytes', '6000'))
  await page.route('**/parts', async (route) => {
    sent.push(new URLSearchParams(route.request().postData() ?? '').get('part') ?? '')
    await (sent.length === 2 ? route.fulfill({ status: 503 }) : route.continue())
  })
  await form.getByRole('button', { name: 'Plan' }).click()
  await page.getByRole('button', { name: /^Apply \d+ rows$/ }).waitFor()
  expect(sent.slice(0, 4)).toEqual(['1', '2', '2', '3'])
  expect(complaints.splice(0)).toEqual([expect.stringContaining('503')])
  await page.getByRole('button', { name: /^Apply/ }).click()
  await confirmQuestion(page)
  await page.getByText('The archive was applied.').waitFor()
  await page.unroute('**/parts')
  expect(complaints).toEqual([])
})
