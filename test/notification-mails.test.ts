import { Webhook } from 'standardwebhooks'
import { beforeEach, expect, test } from 'vitest'
import dashboard from '../functions/dashboard.tsx'
import mailEvents from '../functions/mail-events.ts'
import { blockProgram } from '../lib/access/blocks.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import type { Role } from '../lib/access/roles.ts'
import { call } from '../lib/database.ts'
import { decideReviews } from '../lib/money/reviews.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { addMember, createPerson, type Person, tiePartner } from '../lib/local/people.ts'
import { writeNotifications } from '../lib/notifications/in-app.ts'
import {
  type MailChoices,
  mailTopics,
  readMailChoices,
  saveMailChoices,
  topicWords,
} from '../lib/notifications/mail-choices.ts'
import { sendNotificationMails } from '../lib/notifications/notification-mails.ts'
import { sendPayeeMails } from '../lib/notifications/payee-mails.ts'
import { mailBounds } from '../lib/mail-bounds.ts'
import { saveBrand } from '../lib/programs/brand.ts'
import { textOf } from '../lib/notifications/notification-text.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { inNoWorker, newEmail, sessionCookieOf } from './support/people.ts'
import { startMailApi } from './support/serve.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env: databaseEnv } = await startEndpoint()
const mailApi = await startMailApi()
const secret = `whsec_${btoa("the mail API's signing secret")}`
const env = {
  ...databaseEnv,
  BASE_URL: 'https://api.example.com',
  AUTH_SECRET: 'x'.repeat(32),
  MAIL_API_URL: mailApi.url,
  MAIL_API_KEY: 're_key',
  MAIL_FROM: 'Partner Tracking <mail@example.com>',
  MAIL_WEBHOOK_SECRET: secret,
}
const program = await createLedgerProgram(sql, db)
const other = await createLedgerProgram(sql, db)
const [partnerId = 0] = program.partnerIds

const newPerson = () => createPerson(db, env, { name: 'Ada', email: newEmail() })
let partner: Person

/** Each test has its own people, so their latest mails come from this test. */
beforeEach(async () => {
  partner = await newPerson()
  await tiePartner(db, partnerId, partner.userId)
  await sql.query('delete from notification_mails; delete from payee_mails')
  mailApi.mails.length = mailApi.keys.length = 0
  mailApi.status = 200
})

/** Writes a notification like the service's own functions, and makes the consumer deliver it. */
async function report(kind: string, audience: 'partner' | 'advertiser', of = program, more: object = {}) {
  const { rows } = await sql.query<{ id: string }>(
    `insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    values ($1, $2, $3, $4, gen_random_uuid()::text, '{"amount_cents": 1234, "currency": "usd", "transaction_id": "order-7"}'::jsonb || $5::jsonb) returning id`,
    [of.programId, kind, audience, of.partnerIds[0], JSON.stringify(more)],
  )
  const message = { program_id: of.programId, outbox_id: Number(rows[0]?.id) }
  expect(await writeNotifications(db, [message])).toEqual([message])
  return message
}

const send = () => sendNotificationMails(db, env, Date.now() + 20_000)
const pass = (time: string) => sql.query('update notification_mails set due_at = due_at - $1::interval', [time])
const recipients = () => mailApi.mails.flatMap(({ to }) => to).toSorted()

const member = async (role: Role, of = program) => {
  const person = await newPerson()
  const { rows } = await sql.query<{ workspace_id: string }>('select workspace_id from programs where id = $1', [
    of.programId,
  ])
  await addMember(db, rows[0]?.workspace_id ?? '', person.userId, role)
  return person
}

test('a partner without an account is mailed about payouts, a few times a day, until they stop it', async () => {
  const unjoined = await createLedgerProgram(sql, db)
  const email = newEmail()
  await sql.query(`update partners set email = $2 where id = $1`, [unjoined.partnerIds[0], email])
  await saveBrand(db, unjoined.programId, { portal_name: '', sender_name: 'Engine team', color: '#ffcc00' })
  const sendToPayees = () => sendPayeeMails(db, env, Date.now() + 20_000)
  // The workspace has no owner with a confirmed address yet.
  await report('payout_paid', 'partner', unjoined)
  expect([await sendToPayees(), recipients()]).toEqual([0, []])
  await member('owner', unjoined)
  for (const kind of ['payout_paid', 'commission_reversed', 'payout_returned', 'payout_unclaimed', 'payout_paid'])
    await report(kind, 'partner', unjoined)
  mailApi.status = 500
  expect(await sendToPayees()).toBe(0)
  mailApi.status = 200
  await sql.query('update payee_mails set due_at = now()')
  expect(await sendToPayees()).toBe(mailBounds.payee.perRecipient)
  expect(new Set(mailApi.keys).size).toBe(mailBounds.payee.perRecipient)
  const [mail] = mailApi.mails
  expect(mail).toMatchObject({ from: expect.stringContaining('"Engine team via'), to: [email] })
  expect(mail?.html).toContain('<h1>$12.34</h1>')
  expect(mail?.text).toContain('pays you as a partner and gave us this address')
  const [address = ''] = /https:\S+unsubscribe\?token=\S+/.exec(mail?.text ?? '') ?? []
  const { pathname, search } = new URL(address)
  expect((await dashboard.request(pathname + search, { method: 'POST' }, env, inNoWorker)).status).toBe(200)
  await sql.query(`delete from mail_counts where counted like 'payouts%'`)
  await report('payout_paid', 'partner', unjoined)
  expect(await sendToPayees()).toBe(0)
  expect((await sql.query('select 1 from payee_mails')).rows).toEqual([])
})

test('mails about payouts above the daily limit of a workspace wait for the next day', async () => {
  const unjoined = await createLedgerProgram(sql, db)
  await sql.query(`update partners set email = $2 where id = $1`, [unjoined.partnerIds[0], newEmail()])
  await member('owner', unjoined)
  const bounds = JSON.stringify({ per_recipient: 3, per_workspace: 1 })
  for (const kind of ['payout_paid', 'payout_returned']) await report(kind, 'partner', unjoined)
  const claim = () => db.query(call('claim_payee_mails', { max_mails: 20, bounds }))
  const claimed = await Promise.all([claim(), claim()])
  expect(claimed.flat()).toHaveLength(1)
  const { rows } = await sql.query('select due_at > now() as waits, attempts from payee_mails order by attempts')
  expect(rows).toEqual([
    { waits: true, attempts: 0 },
    { waits: true, attempts: 1 },
  ])
})

test('mails above the limit of a workspace do not delay those of another, and a blocked program sends none', async () => {
  const [busy, quiet, blocked] = [
    await createLedgerProgram(sql, db),
    await createLedgerProgram(sql, db),
    await createLedgerProgram(sql, db),
  ]
  for (const one of [busy, quiet, blocked]) {
    await sql.query(`update partners set email = $2 where id = $1`, [one.partnerIds[0], newEmail()])
    await member('owner', one)
  }
  await blockProgram(db, blocked.programId, { hours: 1, reason: 'phishing' })
  for (const kind of ['payout_paid', 'payout_returned', 'payout_unclaimed']) await report(kind, 'partner', busy)
  for (const one of [blocked, quiet]) await report('payout_paid', 'partner', one)
  const bounds = JSON.stringify({ per_recipient: 3, per_workspace: 1 })
  const claimed = await db.query(call('claim_payee_mails', { max_mails: 2, bounds }))
  expect(claimed.map(({ program_id: id }) => id)).toEqual([busy.programId, quiet.programId])
  const { rows } = await sql.query('select 1 from payee_mails where program_id = $1', [blocked.programId])
  expect(rows).toEqual([])
})

test('each kind of notification has a topic that its recipients can choose', async () => {
  const { rows } = await sql.query<{ audience: 'partner' | 'advertiser'; topic: (typeof mailTopics)[number] }>(
    `select distinct audience, mail_topic_of(kind) as topic from (values
      ('commission_earned', 'partner'), ('commission_reversed', 'partner'), ('commission_refunded', 'partner'), ('commission_corrected', 'partner'),
      ('payout_reduced', 'partner'), ('payout_paid', 'partner'), ('payout_refused', 'partner'), ('payout_returned', 'partner'), ('payout_unclaimed', 'partner'), ('payout_held', 'partner'), ('payout_address_needed', 'partner'), ('tax_form_needed', 'partner'), ('statement_ready', 'partner'), ('program_message', 'partner'), ('payout_due', 'advertiser'),
      ('application_received', 'advertiser'), ('adjustment_added', 'partner'), ('adjustment_deducted', 'partner'),
      ('commission_flagged', 'advertiser'),
      ('paid_commission_reversed', 'advertiser'), ('dispute_reinstated', 'advertiser'), ('balance_negative', 'advertiser'),
      ('refund_not_converted', 'advertiser'), ('sale_currency_corrected', 'advertiser'), ('sale_currency_differs', 'advertiser'), ('payment_ignored', 'advertiser'), ('self_billing_withdrawn', 'advertiser'), ('processor_disconnected', 'advertiser'),
      ('webhook_disabled', 'advertiser'), ('host_disabled', 'advertiser'), ('postback_disabled', 'partner')) reported (kind, audience)`,
  )
  for (const { audience, topic } of rows) expect([topic, topicWords[topic].reader]).toEqual([topic, audience])
  const { rows: kinds } = await sql.query<{ definition: string }>(
    `select pg_get_constraintdef(c.oid) as definition from pg_constraint c join pg_type t on t.oid = c.contypid where t.typname = 'notification_kind'`,
  )
  expect(kinds[0]?.definition.match(/'\w+'::text/g)?.length).toBe(31)
})

test('a payout mails the partner once, even with repeated events and concurrent senders', async () => {
  const message = await report('payout_paid', 'partner')
  await Promise.all(Array.from({ length: 4 }, () => writeNotifications(db, [message])))
  await Promise.all(Array.from({ length: 6 }, send))
  expect(recipients()).toEqual([partner.email])
  const [mail] = mailApi.mails
  expect(mail?.subject).toBe('Your payout: Ledger')
  for (const text of [mail?.text, mail?.html]) expect(text).toContain('You were paid $12.34')
  expect(mail?.headers?.['List-Unsubscribe']).toMatch(/^<https:\/\/api\.example\.com\/mail\/unsubscribe\?token=\S+>$/)
  expect(mail?.headers?.['List-Unsubscribe-Post']).toBe('List-Unsubscribe=One-Click')
  expect(mail?.html).not.toMatch(/<img|<script|src=/)
})

test('partners get mail in their own language, then in that of the program, and members in English', async () => {
  const owner = await member('owner')
  await sql.query(`update programs set language = 'fr' where id = $1`, [program.programId])
  await report('payout_paid', 'partner')
  await send()
  await sql.query(`insert into partner_profiles (user_id, language) values ($1, 'de')`, [partner.userId])
  await report('payout_refused', 'partner', program, { reason: 'no_payment_required' })
  await report('balance_negative', 'advertiser')
  await pass('2 days')
  await send()
  await sql.query(`update programs set language = null where id = $1`, [program.programId])
  await sql.query('delete from workspace_members')
  const mails = mailApi.mails.filter(({ to }) => to.includes(partner.email) || to.includes(owner.email))
  expect(mails.map(({ subject }) => subject).toSorted()).toEqual([
    'Ihre Auszahlung: Ledger',
    'Votre versement\u00A0: Ledger',
    'Your day: Ledger',
  ])
  const french = mails.find(({ subject }) => subject.startsWith('Votre'))
  expect(french?.text).toMatch(/\nChoisir vos e-mails\u00A0: https:\S+\n\S[^:]+\u00A0: https:\S+$/)
  const german = mails.find(({ subject }) => subject.startsWith('Ihre'))
  expect(german?.text).toContain('Guten Tag Ada,')
  expect(german?.html).toMatch(
    /lang="de".*Ihre Auszahlung von 12,34\u00A0\$ wurde abgelehnt.*Grund: Es war keine Zahlung nötig/s,
  )
})

test.each([
  ['Send an invoice first', 'Reason: Send an invoice first.'],
  ['Send an invoice first.', 'Reason: Send an invoice first.'],
  ['Whose address is this?', 'Reason: Whose address is this?'],
])('the reason %s ends like a sentence', (reason, reported) => {
  const payload = { amount_cents: 1234, currency: 'usd', reason }
  const text = textOf({ kind: 'payout_refused', payload, partner_name: null })
  expect(text.slice(-reported.length - 1)).toBe(` ${reported}`)
})

test('an application that was decided before its mail is not mailed', async () => {
  const owner = await member('owner', other)
  const { rows } = await sql.query<{ id: string }>(
    `insert into applications (program_id, status, source, name, email, verified_at, decided_at)
    values ($1, 'rejected', 'page', 'Eve', 'eve@example.com', now(), now()), ($1, 'waiting', 'page', 'Ada', 'ada@example.com', now(), null) returning id`,
    [other.programId],
  )
  for (const { id } of rows) await report('application_received', 'advertiser', other, { application_id: Number(id) })
  await send()
  const mails = mailApi.mails.filter(({ to }) => to.includes(owner.email))
  expect(mails.map(({ text }) => text.match(/Somebody applied[^\n]*/g))).toEqual([
    ['Somebody applied to become a partner. Review the application under Applications.'],
  ])
})

test('repeated notifications become one line with a count', async () => {
  const owner = await member('owner', other)
  for (let n = 0; n < 3; n++) await report('application_received', 'advertiser', other)
  await send()
  const mail = mailApi.mails.find(({ to }) => to.includes(owner.email))
  expect(mail?.text.match(/Somebody applied[^\n]*/g)).toEqual([
    'Somebody applied to become a partner. Review the application under Applications. (3 times)',
  ])
})

test.each(['<b>shop</b>', '"><script>alert(1)</script>', 'Tom & Jerry'])(
  'the program name %s is escaped in a mail',
  async (name) => {
    await sql.query('update programs set name = $2 where id = $1', [program.programId, name])
    await report('payout_paid', 'partner')
    await send()
    await sql.query("update programs set name = 'Ledger' where id = $1", [program.programId])
    expect(mailApi.mails[0]?.html).not.toContain(name)
    expect(mailApi.mails[0]?.text).toContain(name)
  },
)

test('a failed mail is retried with the same key and growing delays, up to ten attempts', async () => {
  mailApi.status = 503
  await report('payout_paid', 'partner')
  for (let attempt_count = 1; attempt_count <= 12; attempt_count++) {
    await send()
    expect(await send()).toBe(0)
    await pass('1 day')
  }
  expect(mailApi.keys).toHaveLength(10)
  expect(new Set(mailApi.keys).size).toBe(1)
  expect((await sql.query('select from notification_mails')).rowCount).toBe(0)
})

test('a notification during a retry goes into a separate mail', async () => {
  mailApi.status = 503
  await report('payout_paid', 'partner')
  await send()
  mailApi.status = 200
  await report('payout_refused', 'partner')
  await pass('1 hour')
  await send()
  const texts = mailApi.mails.map(({ text }) => text)
  expect(texts).toHaveLength(2)
  for (const reported of ['You were paid', 'was refused'])
    expect(texts.filter((text) => text.includes(reported))).toHaveLength(1)
})

test('a mailbox gets at most thirty immediate mails a day, and the rest in the daily mail', async () => {
  const tagged = await createPerson(db, env, { name: 'Ada', email: partner.email.replace('@', '+tag@') })
  await tiePartner(db, other.partnerIds[0] ?? 0, tagged.userId)
  await sql.query(`insert into mail_counts select 'notifications to ' || mailbox_of($1), utc_day(now()), 28`, [
    partner.email,
  ])
  await report('payout_paid', 'partner')
  await send()
  // Two people with the same mailbox want an immediate mail, and the mailbox may get only one more today.
  await report('payout_paid', 'partner')
  await report('payout_paid', 'partner', other)
  await send()
  await report('payout_paid', 'partner', program, { amount_cents: 99 })
  await Promise.all([send(), send()])
  expect(mailApi.mails.map(({ subject }) => subject)).toEqual(['Your payout: Ledger', 'Your payout: Ledger'])
  await pass('1 day')
  await send()
  const daily = mailApi.mails.slice(2)
  expect(new Set(daily.map(({ subject }) => subject))).toEqual(new Set(['Your day: Ledger']))
  expect(daily.flatMap(({ text }) => text.match(/You were paid.*/g))).toHaveLength(2)
})

test('a mail shows losses as negative amounts, dates in words, and the lines of a message', async () => {
  await choose({ reversed: 'at_once', statement: 'at_once' })
  await report('adjustment_deducted', 'partner')
  await report('statement_ready', 'partner', program, { month: '2026-10' })
  await report('program_message', 'partner', program, { text: 'First line\nSecond line' })
  await send()
  const pages = mailApi.mails.map(({ html }) => html).join()
  // A deduction is not about a sale, so its mail doesn't mention a reversal.
  expect(mailApi.mails.map(({ subject }) => subject)).toContain('Your earnings were corrected: Ledger')
  for (const shown of ['<h1>-$12.34</h1>', 'statement of October 2026 is ready', 'First line<br />Second line'])
    expect(pages).toContain(shown)
})

test('the daily mail goes out at seven (UTC), one for all programs', async () => {
  await tiePartner(db, other.partnerIds[0] ?? 0, partner.userId)
  await report('commission_reversed', 'partner')
  await report('commission_refunded', 'partner')
  await report('commission_refunded', 'partner', other)
  expect(await send()).toBe(0)
  const { rows } = await sql.query<{ at: string }>(
    "select distinct to_char(due_at at time zone 'UTC', 'HH24:MI') as at from notification_mails where due_at between now() and now() + interval '1 day'",
  )
  expect(rows).toEqual([{ at: '07:00' }])
  await pass('1 day')
  await send()
  expect(recipients()).toEqual([partner.email])
  expect(mailApi.mails[0]?.text.match(/^- /gm)).toHaveLength(3)
  expect(mailApi.mails[0]?.subject).toBe('Your day: Ledger')
})

test('only members whose role can read notifications are mailed', async () => {
  const reported = await Promise.all((['owner', 'admin', 'member', 'billing'] as const).map((role) => member(role)))
  const [guest, removed, unverified, locked] = await Promise.all([
    member('guest'),
    member('admin'),
    member('admin'),
    member('owner', other),
  ])
  await sql.query('update workspace_members set removed_at = now() where user_id = $1', [removed.userId])
  await sql.query('update users set email_verified = false where id = $1', [unverified.userId])
  await report('webhook_disabled', 'advertiser')
  await sql.query(
    'update workspaces w set requires_two_factor = true from programs p where p.workspace_id = w.id and p.id = $1',
    [other.programId],
  )
  await report('webhook_disabled', 'advertiser', other)
  await send()
  expect(recipients()).toEqual(reported.map(({ email }) => email).toSorted())
  for (const one of [guest, removed, unverified, locked, partner]) expect(mailApi.to(one.email)).toBeUndefined()
  await sql.query('delete from workspace_members')
})

test.each([
  [
    'a removed member',
    (id: string) => sql.query('update workspace_members set removed_at = now() where user_id = $1', [id]),
  ],
  [
    'a member with a new guest role',
    (id: string) => sql.query("update workspace_members set role = 'guest' where user_id = $1", [id]),
  ],
])('no pending mail is sent to %s at the end of the day', async (_who, change) => {
  const person = await member('admin')
  await report('balance_negative', 'advertiser')
  await change(person.userId)
  await pass('1 day')
  await send()
  expect(mailApi.to(person.email)).toBeUndefined()
  await sql.query('delete from workspace_members')
})

const choose = (choices: Partial<MailChoices>) => saveMailChoices(db, partner.userId, choices)

test('with "never" nothing is mailed, not even pending notifications', async () => {
  await report('commission_reversed', 'partner')
  await choose({ reversed: 'never' })
  await report('commission_reversed', 'partner')
  await pass('1 day')
  expect(await send()).toBe(0)
})

/** Requests a dashboard page, signed in as this person or signed out. */
async function page(path: string, init: { as?: Person; fields?: Record<string, string> } = {}) {
  const headers = { ...(init.as && { ...sessionCookieOf(init.as.token), origin: env.BASE_URL }) }
  const body = init.fields && { method: 'POST', body: new URLSearchParams(init.fields) }
  return await dashboard.request(path, { headers, ...body }, env, inNoWorker)
}

test("the account page saves a partner's mail choices and doesn't show other topics", async () => {
  const chosen = {
    earned: 'at_once',
    reversed: 'never',
    paid: 'daily',
    statement: 'daily',
    message: 'never',
    postback: 'never',
  }
  expect((await page('/account/mail', { as: partner, fields: chosen })).status).toBe(303)
  const { choices } = await readMailChoices(db, partner.userId)
  expect(Object.fromEntries(choices.map(({ topic, frequency }) => [topic, frequency]))).toMatchObject(chosen)
  const shown = await (await page('/account/mail', { as: partner })).text()
  const asked = Array.from(shown.matchAll(/<select id="(\w+)"/g), ([, name]) => name)
  expect(asked).toEqual(mailTopics.filter((topic) => topicWords[topic].reader === 'partner'))
  expect(Array.from(shown.matchAll(/value="(\w+)" selected=""/g), ([, value]) => value)).toEqual(Object.values(chosen))
  const refused = await page('/account/mail', { as: partner, fields: { ...chosen, paid: 'hourly' } })
  expect(refused.headers.getSetCookie().join()).toContain('Choose%20one')
})

test.each([
  ['partner', 'payout_paid'],
  ['advertiser', 'payout_due'],
] as const)('every address in a mail to a %s opens a page for them', async (audience, kind) => {
  const reader = audience === 'partner' ? partner : await member('owner')
  await report(kind, audience)
  await send()
  const mail = mailApi.to(reader.email)
  const addresses = Array.from(mail?.text.matchAll(/https:\S+/g) ?? [], ([address]) => address)
  expect(addresses).toHaveLength(3)
  const paths = addresses.map((address) => address.replace(env.BASE_URL, ''))
  const answers = await Promise.all(paths.map((path) => page(path, { as: reader })))
  expect(answers.map(({ status }, at) => [paths[at], status])).toEqual(paths.map((path) => [path, 200]))
  await sql.query('delete from workspace_members')
})

test("one click in the mail client stops a mail without a session; opening the link doesn't", async () => {
  await report('payout_paid', 'partner')
  await send()
  const link = mailApi.mails[0]?.headers?.['List-Unsubscribe']?.slice(1, -1).replace(env.BASE_URL, '') ?? ''
  const asked = await page(link)
  expect([asked.status, await asked.text()]).toEqual([200, expect.stringContaining('Stop these e-mails')])
  const paid = async () =>
    (await readMailChoices(db, partner.userId)).choices.find(({ topic }) => topic === 'paid')?.frequency
  expect(await paid()).toBe('at_once')
  const click = () => page(link, { fields: { 'List-Unsubscribe': 'One-Click' } })
  expect((await click()).status).toBe(200)
  expect(await paid()).toBe('never')
  // Mails can be older than the deletion of an account.
  await sql.query('update partners set user_id = null where user_id = $1', [partner.userId])
  await sql.query('delete from users where id = $1', [partner.userId])
  expect((await click()).status).toBe(200)
})

test.each(['', 'x', 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwidG9waWNzIjpbInBhaWQiXX0.'])(
  'an unsubscribe link with the token %j is refused',
  async (token) => {
    expect((await page(`/mail/unsubscribe?token=${token}`)).status).toBe(400)
    expect((await page(`/mail/unsubscribe?token=${token}`, { fields: {} })).status).toBe(400)
  },
)

/** An event from the mail API, signed with `signedWith`. */
async function mailEvent(type: string, data: object, signedWith = secret) {
  const body = JSON.stringify({ type, created_at: new Date().toISOString(), data })
  const now = new Date()
  const headers = {
    'svix-id': 'msg_1',
    'svix-timestamp': String(Math.floor(now.getTime() / 1000)),
    'svix-signature': new Webhook(signedWith).sign('msg_1', now, body),
  }
  return await mailEvents.request('/api/v1/webhooks/mail', { method: 'POST', headers, body }, env)
}

test.each([
  ['email.bounced', { bounce: { type: 'Permanent' } }, true],
  ['email.complained', {}, true],
  ['email.bounced', { bounce: { type: 'Transient' } }, false],
  ['email.delivered', {}, false],
] as const)('%s with %j stops mail to the address: %s', async (type, data, stops) => {
  const to = ['no\0body@example.com', '\ud800@example.com', partner.email.toUpperCase(), 'nobody@example.com']
  expect((await mailEvent(type, { to, ...data })).status).toBe(200)
  await report('payout_paid', 'partner')
  await send()
  expect(recipients()).toEqual(stops ? [] : [partner.email])
  expect((await sql.query("select from refused_addresses where email = 'nobody@example.com'")).rowCount).toBe(0)
  if (!stops) return
  expect(await (await page('/account/mail', { as: partner })).text()).toContain('Send me e-mail again')
  await page('/account/mail/retry', { as: partner, fields: {} })
  await report('payout_paid', 'partner')
  await send()
  expect(recipients()).toEqual([partner.email])
})

test('a late complaint about a mail to a partner without an account stops further ones', async () => {
  const unjoined = await createLedgerProgram(sql, db)
  const email = newEmail()
  await sql.query(`update partners set email = $2 where id = $1`, [unjoined.partnerIds[0], email])
  await member('owner', unjoined)
  await report('payout_paid', 'partner', unjoined)
  const sendToPayees = () => sendPayeeMails(db, env, Date.now() + 20_000)
  expect(await sendToPayees()).toBe(1)
  await sql.query(`update mail_counts set day = day - 3`)
  await deleteExpired(db)
  expect((await mailEvent('email.complained', { to: [email] })).status).toBe(200)
  await report('payout_paid', 'partner', unjoined)
  expect(await sendToPayees()).toBe(0)
})

test('a mail event with a wrong signature is refused and unsubscribes nobody', async () => {
  const response = await mailEvent('email.bounced', { to: [partner.email] }, `whsec_${btoa('another')}`)
  expect([response.status, await response.json()]).toEqual([
    400,
    expect.objectContaining({ error: expect.objectContaining({ code: 'invalid_signature' }) }),
  ])
  expect((await readMailChoices(db, partner.userId)).refused).toBeUndefined()
  const unset = await mailEvents.request('/api/v1/webhooks/mail', { method: 'POST', body: '{}' }, databaseEnv)
  expect(unset.status).toBe(503)
})

test('a partner can get an immediate e-mail for each commission, sent by the call that created it', async () => {
  await choose({ earned: 'at_once' })
  await program.soldBy(0, 5000)
  const { rows } = await sql.query<{ id: string }>(
    "select id from outbox where program_id = $1 and kind = 'commission_earned' and delivered_at is null",
    [program.programId],
  )
  const messages = rows.map(({ id }) => ({ program_id: program.programId, outbox_id: Number(id) }))
  expect(messages).toHaveLength(1)
  await writeNotifications(db, messages)
  await send()
  expect(mailApi.mails[0]?.text).toMatch(/You earned \$10\.00 for the sale [-\w]+\./)
})

const dailyNotifications = async (moment: Date) => {
  const reported = await db.query(call('write_daily_notifications', { moment, of_program_id: null }))
  const ours = reported.filter(({ program_id: id }) => id === program.programId)
  await writeNotifications(
    db,
    reported.map((row) => ({ program_id: row.program_id ?? 0, outbox_id: row.outbox_id ?? 0 })),
  )
  return ours
}

test('a partner gets one mail about the previous day, without reversed commissions', async () => {
  await sql.query("update commissions set created_at = created_at - interval '40 days' where program_id = $1", [
    program.programId,
  ])
  await program.soldBy(0, 1000)
  await program.soldBy(0, 2000)
  const gone = await program.soldBy(0, 4000)
  await program.refund(gone.id, null)
  const tomorrow = new Date(Date.now() + 86_400_000)
  const reported = await Promise.all([dailyNotifications(tomorrow), dailyNotifications(tomorrow)])
  expect(reported.flat()).toHaveLength(1)
  await pass('2 days')
  await send()
  expect(mailApi.mails[0]?.text).toMatch(/- You earned \$6\.00 from 2 commissions on [A-Z][a-z]+ \d+, \d{4}\./)
})

test('a held commission counts on the day of its release, and never twice', async () => {
  await sql.query("update commissions set created_at = created_at - interval '80 days' where program_id = $1", [
    program.programId,
  ])
  // The whole test uses one moment, because midnight could pass during it.
  const begun = Date.now()
  const inDays = (days: number) => new Date(begun + days * 86_400_000)
  const hold = (id: number) =>
    sql.query(
      `with held as (insert into commission_reviews (program_id, commission_id, flags) values ($1, $2, '[]') returning *)
      update commissions set held_at = now() where program_id = $1 and id = $2`,
      [program.programId, id],
    )
  const release = async (...ids: number[]) => {
    await decideReviews(db, program.programId, ids, 'released', 'Known to us')
    await sql.query('update commission_reviews set decided_at = $2 where program_id = $1 and decided_at <= now()', [
      program.programId,
      inDays(11),
    ])
  }
  const earnedIn = async (days: number) => {
    for (const { outbox_id: id } of await dailyNotifications(inDays(days))) {
      const { rows } = await sql.query<{ amount: number }>(
        "select (payload->>'amount_cents')::integer as amount from outbox where program_id = $1 and id = $2 and kind = 'commission_earned'",
        [program.programId, id],
      )
      for (const { amount } of rows) return amount
    }
    return undefined
  }
  const { commissionId: reportedBefore } = await program.soldBy(0, 1000)
  const { commissionId: held } = await program.soldBy(0, 2000)
  const { commissionId: stillHeld } = await program.soldBy(0, 4000)
  // A day without earlier notifications.
  await sql.query('update commissions set created_at = $3 where program_id = $1 and id = any ($2)', [
    program.programId,
    [reportedBefore, held, stillHeld],
    inDays(10),
  ])
  await hold(held)
  await hold(stillHeld)
  expect(await earnedIn(11)).toBe(200)
  await hold(reportedBefore)
  await release(held, reportedBefore)
  expect(await earnedIn(12)).toBe(400)
  expect(await earnedIn(13)).toBeUndefined()
})

test.each([['never'], ['at_once']] as const)("a partner who chose %s doesn't get a daily summary", async (earned) => {
  await choose({ earned })
  await program.soldBy(0, 1000)
  expect(await dailyNotifications(new Date(Date.now() + 86_400_000))).toEqual([])
})

test('an advertiser gets a weekly notification about due payouts', async () => {
  const owner = await member('owner')
  const { commissionId } = await program.soldBy(0, 5000)
  await approveCommissions(db, program.programId, [commissionId])
  // A date far from the days with earnings.
  const monday = new Date('2031-06-02T05:30:00Z')
  const days = Array.from({ length: 8 }, (_, day) => new Date(monday.getTime() + day * 86_400_000))
  const reported: number[] = []
  for (const day of days) reported.push((await dailyNotifications(day)).length)
  expect(reported).toEqual([1, 0, 0, 0, 0, 0, 0, 1])
  await send()
  expect(mailApi.to(owner.email)?.text).toContain('Payouts to a partner are due.')
  await sql.query('delete from workspace_members')
})
