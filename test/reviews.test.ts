import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { listCommissions } from '../lib/money/commission-list.ts'
import { approveCommissions, approveDueCommissions } from '../lib/money/commissions.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { decideReviews, listReviews, reviewAndCredit } from '../lib/money/reviews.ts'
import { applyEvent } from '../lib/processors/apply-event.ts'
import { askStripe } from '../lib/processors/stripe/ask.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { readEvent } from '../lib/processors/stripe/read-event.ts'
import { checkoutSession, stripeEvent } from '../lib/local/stripe-events.ts'
import { recordClick } from '../lib/tracking/clicks.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import { mailboxOf } from '../lib/access/mailbox.ts'
import {
  hashSecret,
  type Kind,
  playTraffic,
  qualityOf,
  visit as visitOf,
  type Visitor,
} from './bench/review-traffic.ts'
import { createLedgerProgram, type LedgerProgram, noClick } from './support/ledger.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'

// The tests use Neon's driver, because it is stricter.
const { db, sql } = await startEndpoint('workers')

const visit = (program: LedgerProgram, visitor: Visitor, partner?: number, customer?: string) =>
  visitOf(db, program, visitor, partner, customer)

async function begin(settings: { rules?: string[]; holdDays?: number } = {}) {
  const program = await createLedgerProgram(sql, db, { holdDays: settings.holdDays ?? 0 })
  const { programId } = program
  if (settings.rules)
    await sql.query('update programs set review_rules = $2 where id = $1', [programId, settings.rules])
  await sql.query(`update partners set payout_email = 'Paid-' || id || '@example.com' where program_id = $1`, [
    programId,
  ])
  return program
}

/** Does the work of the scheduled function. */
const run = () => reviewAndCredit(db, hashSecret, 1000)

const everything = ['self_referral', 'one_address', 'no_page_view', 'bot', 'paid_ads']

async function rulesOf({ programId }: LedgerProgram, commissionId: number) {
  const [review] = await listReviews(db, programId, { limit: 1, commissionIds: [commissionId] })
  return review?.flags.map(({ rule }) => rule) ?? []
}

const stateOf = async ({ programId }: LedgerProgram, commissionId: number) => {
  const [commission] = await listCommissions(db, { programId }, { limit: 1, commissionId })
  return [commission?.status, commission && commission.held_at !== null]
}

const held = ['pending', true]
const credited = ['approved', false]
const payoutAddress = ({ partnerIds }: LedgerProgram) => `paid-${partnerIds[0]}@EXAMPLE.com`

const finds: [what: string, rule: string | null, visitor: (program: LedgerProgram) => Visitor][] = [
  ['an ordinary buyer', null, () => ({ email: 'ann@example.com' })],
  ['the payout address of the partner', 'self_referral', (program) => ({ email: payoutAddress(program) })],
  [
    'the payout address of the partner with a tag',
    'self_referral',
    (program) => ({ email: payoutAddress(program).replace('@', '+shop@') }),
  ],
  ['an address with a longer name', null, (program) => ({ email: payoutAddress(program).replace('@', '-shop@') })],
  ["a bot's click", 'bot', () => ({ device: 'bot' })],
  ['a click on an ad', 'paid_ads', () => ({ query: '&gclid=abc' })],
  ["a click on another network's ad", 'paid_ads', () => ({ query: '&utm_source=b&msclkid=abc' })],
  ['a parameter with a similar name', null, () => ({ query: '&xgclid=abc' })],
  ['a click without a page, if no page has the tag', null, () => ({ page: null })],
]

test.each(finds)('%s is held for %s before it is credited, without a hold period', async (_what, rule, visitorOf) => {
  const program = await begin({ rules: everything })
  const { commissionId, id } = await visit(program, visitorOf(program))
  await run()
  expect(await rulesOf(program, commissionId)).toEqual(rule === null ? [] : [rule])
  expect(await stateOf(program, commissionId)).toEqual(rule === null ? credited : held)
  // Before a decision, nobody can approve it manually either.
  await approveCommissions(db, program.programId, [commissionId])
  expect(await stateOf(program, commissionId)).toEqual(rule === null ? credited : held)
  const request = { programId: program.programId, transaction_id: id, test: false, withCustomer: false }
  const { history } = await explainSale(db, request)
  expect(history.some(({ kind }) => kind === 'held')).toBe(rule !== null)
  await sql.query(`update programs set review_rules = '{}' where id = $1`, [program.programId])
  const other = await visit(program, visitorOf(program), 1)
  await run()
  expect(await stateOf(program, other.commissionId)).toEqual(credited)
})

test.each([
  ['Eve+Shop@Example.com', 'eve@example.com'],
  ['eve+a+b@example.com', 'eve@example.com'],
  ['e.ve@example.com', 'e.ve@example.com'],
  ['E.v.e+x@googlemail.com', 'eve@gmail.com'],
  ['eve@gmail.com.example', 'eve@gmail.com.example'],
  ['+eve@example.com', '+eve@example.com'],
  ['+@example.com', '+@example.com'],
])('%j reaches the mailbox %j', (email, mailbox) => {
  expect(mailboxOf(email)).toBe(mailbox)
})

test.each([
  ['connected', 'eve@example.com', 'eve+shop@example.com', true],
  ['disconnected', 'eve@example.com', 'eve+shop@example.com', true],
  ['connected', 'eve+me@example.com', 'EVE@example.com', true],
  ['connected', 'eve@example.com', 'adam@example.com', false],
])(
  "%s: a partner at %s and a buyer with only Stripe's address %s are flagged: %s",
  async (state, address, email, isHeld) => {
    const shop = await createShop(sql, { holdDays: 0 })
    await sql.query('update partners set email = $2 where id = $1', [shop.partnerId, address])
    const session = checkoutSession({ ...shop, email }, { id: `cs_${shop.programId}`, total: 5000 })
    const event = stripeEvent(shop, `evt_${shop.programId}`, 'checkout.session.completed', session)
    const read = await readEvent(event, (one) => emailHash(hashSecret, one))
    const stripe = openStripe({ STRIPE_SECRET_KEY: 'sk_test', STRIPE_API_URL: 'http://127.0.0.1:9' })
    await applyEvent(db, askStripe(stripe), read)
    if (state === 'disconnected') {
      const left = 'processor_account_id = null, processor_former_account_id = processor_account_id'
      await sql.query(`update programs set ${left}, processor_connected_at = null where id = $1`, [shop.programId])
    }
    // Nothing is credited before the partner is known.
    await approveDueCommissions(db, 1000)
    await run()
    const [commission] = await listCommissions(db, { programId: shop.programId }, { limit: 1 })
    expect([commission?.status, commission?.held_at !== null]).toEqual(isHeld ? held : credited)
  },
)

test('a commission that is approved before the schedule runs is checked first', async () => {
  const program = await begin()
  const { programId } = program
  const { commissionId } = await visit(program, { email: payoutAddress(program).replace('@', '+trial@') })
  const honest = await visit(program, { email: 'ann@example.com' })
  const ids = [commissionId, honest.commissionId]
  expect(await approveCommissions(db, programId, ids, [], hashSecret)).toBe(1)
  expect(await stateOf(program, commissionId)).toEqual(held)
  expect(await stateOf(program, honest.commissionId)).toEqual(credited)
})

test('commissions that are approved together are credited by id, even if a partner must be compared with the buyer first', async () => {
  const program = await begin()
  const { programId } = program
  const first = await visit(program, { email: 'ann@example.com' })
  const second = await visit(program, {})
  const ids = [second.commissionId, first.commissionId]
  expect(await approveCommissions(db, programId, ids, [], hashSecret)).toBe(2)
  const { rows } = await sql.query(
    'select commission_id from balance_entries where program_id = $1 order by entry_number',
    [programId],
  )
  expect(rows.map(({ commission_id: id }) => Number(id))).toEqual([first.commissionId, second.commissionId])
})

test("the commission of a lead that a checkout settles is held if its address is the partner's mailbox", async () => {
  const shop = await createShop(sql, { holdDays: 0, leadCommissionCents: 500 })
  await sql.query(`update partners set email = 'eve@example.com', email_hashes = null where id = $1`, [shop.partnerId])
  await sql.query(
    `with lead as (
      insert into affiliate_lead_events (program_id, lead_timestamp, customer_id, provisional)
      select program_id, now(), id, true from customers where program_id = $1 returning id, lead_timestamp, customer_id
    )
    update customers c set provisional_lead_at = l.lead_timestamp, provisional_lead_event_id = l.id
    from lead l where c.program_id = $1 and c.id = l.customer_id`,
    [shop.programId],
  )
  const session = checkoutSession(
    { ...shop, email: 'eve+trial@example.com' },
    { id: `cs_${shop.programId}`, total: 5000 },
  )
  const event = stripeEvent(shop, `evt_${shop.programId}`, 'checkout.session.completed', session)
  const read = await readEvent(event, (one) => emailHash(hashSecret, one))
  const stripe = openStripe({ STRIPE_SECRET_KEY: 'sk_test', STRIPE_API_URL: 'http://127.0.0.1:9' })
  await applyEvent(db, askStripe(stripe), read)
  await run()
  const commissions = await listCommissions(db, { programId: shop.programId }, { limit: 9 })
  expect(commissions.map(({ kind, held_at: at }) => [kind, at !== null])).toEqual([
    ['sale', true],
    ['lead', true],
  ])
})

test("five signups of one partner from one address are held, but four aren't, and clicks without a page are held if others have one", async () => {
  const program = await begin({ holdDays: 1 })
  const four = await Promise.all([1, 2, 3, 4].map(() => visit(program, { address: 'office' }, 1)))
  const five = await Promise.all([1, 2, 3, 4, 5].map(() => visit(program, { address: 'farm' })))
  await Promise.all(Array.from({ length: 16 }, () => visit(program, {})))
  const bare = await visit(program, { page: null })
  await run()
  const rules = (visits: { commissionId: number }[]) =>
    Promise.all(visits.map(({ commissionId }) => rulesOf(program, commissionId)))
  expect(await rules(four)).toEqual(four.map(() => []))
  expect(await rules(five)).toEqual(five.map(() => ['one_address']))
  expect(await rules([bare])).toEqual([['no_page_view']])
  // Anybody can send clicks, but a hundred empty clicks from one address change nothing.
  const empty = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: program.codeOf(0), visitor: 1 }
  await Promise.all(Array.from({ length: 100 }, () => recordClick(db, empty, null)))
  const later = await visit(program, { page: null })
  await run()
  expect(await rules([later])).toEqual([['no_page_view']])
  const [review] = await listReviews(db, program.programId, { limit: 1, commissionIds: [five[0]?.commissionId ?? 0] })
  expect(review?.flags[0]?.evidence).toMatchObject({ signups: 5 })
})

test("a check reads a partner's signups once for all commissions", async () => {
  const program = await begin()
  const visits = await Promise.all(Array.from({ length: 8 }, (_, n) => visit(program, { address: `home ${n}` })))
  const copied = await sql.query(
    `with customer as (
      insert into customers (program_id, click_id, customer_key, link_id, partner_id, customer_status, last_click_at, signup_date, lead_event_id)
      select u.program_id, 'cust_1790000000000_' || lpad(n::text, 20, '0') || u.program_id, 'copy-' || n, u.link_id, u.partner_id, 'lead',
        u.last_click_at + n * interval '1 microsecond', now(), n
      from (select * from customers where program_id = $1 limit 1) u, generate_series(1, 500) n
      returning *
    )
    insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, visitor)
    select program_id, last_click_at, lead_event_id, id, click_id, link_id, id from customer`,
    [program.programId],
  )
  expect(copied.rowCount).toBe(500)
  const pagesOf = async (ids: number[]) => {
    const explained = await sql.query(
      'explain (analyze, buffers, format json) select from flags_of(array_fill($1::bigint, array[cardinality($2::bigint[])]), $2)',
      [program.programId, ids],
    )
    const [{ Plan }] = explained.rows[0]['QUERY PLAN']
    return Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks']
  }
  const ids = visits.map(({ commissionId }) => commissionId)
  await pagesOf(ids)
  const one = await pagesOf(ids.slice(0, 1))
  expect(one).toBeGreaterThan(1000)
  expect(await pagesOf(ids)).toBeLessThan(2 * one)
})

test('only one of ten concurrent decisions takes effect, and a released commission is credited and never held for the same reason again', async () => {
  for (const decision of ['released', 'rejected'] as const) {
    const program = await begin()
    const { programId } = program
    const { commissionId, customer } = await visit(program, { device: 'bot' })
    await run()
    const other = decision === 'released' ? 'rejected' : 'released'
    const decided = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        decideReviews(db, programId, [commissionId], index % 2 === 0 ? decision : other, `Note ${index}`),
      ),
    )
    expect(decided.reduce((sum, { changed }) => sum + changed, 0)).toBe(1)
    const [review] = await listReviews(db, programId, { limit: 1, state: 'decided' })
    const index = Number(review?.note?.split(' ')[1])
    expect(review?.decision).toBe(index % 2 === 0 ? decision : other)
    await run()
    expect(await stateOf(program, commissionId)).toEqual(
      review?.decision === 'released' ? credited : ['reversed', false],
    )
    const again = await visit(program, { device: 'bot' }, 0, customer)
    await run()
    expect((await stateOf(program, again.commissionId))[1]).toBe(review?.decision === 'rejected')
    expect(await findDifferences(sql, programId)).toEqual([])
  }
})

test('a held commission leaves the queue after a full refund, and stays held after a partial one', async () => {
  const program = await begin()
  const [whole, part] = [await visit(program, { device: 'bot' }), await visit(program, { device: 'bot' })]
  await run()
  await program.refund(whole.id, null)
  await program.refund(part.id, 2500)
  await run()
  const waiting = await listReviews(db, program.programId, { limit: 10, state: 'waiting' })
  expect(waiting.map(({ commission_id: id, reversed_cents: cents }) => [id, cents])).toEqual([[part.commissionId, 500]])
  const both = [whole.commissionId, part.commissionId]
  expect((await decideReviews(db, program.programId, both, 'released', 'A real buyer')).changed).toBe(1)
  await run()
  expect(await stateOf(program, part.commissionId)).toEqual(['refunded', false])
  expect(await findDifferences(sql, program.programId)).toEqual([])
})

test('precision and recall describe the held commissions, overall and for each kind', async () => {
  const kinds: Kind[] = [
    { what: 'buyers', isDishonest: false, count: 3, visitor: () => ({}) },
    { what: 'buyers with a monitored browser', isDishonest: false, count: 1, visitor: () => ({ device: 'bot' }) },
    { what: 'bots', isDishonest: true, count: 2, visitor: () => ({ device: 'bot' }) },
    { what: 'the partner', isDishonest: true, count: 1, visitor: (_, email) => ({ email }) },
    { what: 'a farm without visible signs', isDishonest: true, count: 2, visitor: () => ({}) },
  ]
  const program = await begin()
  const played = await playTraffic(db, program, kinds, payoutAddress(program))
  expect(played.map(({ visitors, held: some }) => [visitors, some])).toEqual([
    [3, 0],
    [1, 1],
    [2, 2],
    [1, 1],
    [2, 0],
  ])
  expect(qualityOf(played)).toEqual({ precision: 3 / 4, recall: 3 / 5 })
})
