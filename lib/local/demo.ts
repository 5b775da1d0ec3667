import type { SessionEnv } from '../access/sessions.ts'
import { apiKeyHash, keyScopes } from '../access/api-keys.ts'
import { createApiKey } from '../access/program-keys.ts'
import type { Campaign } from '../tracking/campaign.ts'
import { countClicks, countFigures, recordClick } from '../tracking/clicks.ts'
import { approveDueCommissions } from '../money/commissions.ts'
import { reviewRules } from '../review-rules.ts'
import type { Database } from '../database.ts'
import { recordServerLead } from '../tracking/leads.ts'
import { addPartner } from '../programs/partners.ts'
import { createProgram, programDefaults } from '../programs/programs.ts'
import { refundSale } from '../money/refunds.ts'
import { recordSale } from '../money/sales.ts'
import { visitorDevice } from '../tracking/visitor.ts'
import { createWorkspace } from '../programs/workspaces.ts'
import { emailHash } from '../tracking/customers.ts'
import { type Journey, moveBack } from './demo-past.ts'
import {
  adjustBalances,
  giveCodes,
  giveGroups,
  joinAs,
  openJoinPage,
  reviewCommissions,
  welcomeApplicants,
} from './demo-program.ts'
import { createPerson } from './people.ts'
import type { Demo } from './state.ts'

const weeks = 4
const visitorCount = 200
const hourMilliseconds = 3_600_000
const holdDays = 14

const partners = [
  { name: 'Nora Blogs', code: 'nora', email: 'nora@example.com', weight: 5 },
  { name: 'Build Weekly', code: 'build-weekly', email: null, weight: 3 },
  { name: 'Tom Reviews', code: 'tom', email: 'tom@reviews.example', weight: 2 },
]
const couponBuyers = 8
/** Visitors who clicked a forbidden ad, and visitors who signed up with Tom's address. Their commissions wait for review. */
const byAd = [120, 192]
const withTomsAddress = [152, 176]
const places = [
  { geo_country: 'US', geo_region: 'New York', geo_city: 'New York' },
  { geo_country: 'DE', geo_region: 'Berlin', geo_city: 'Berlin' },
  { geo_country: 'GB', geo_region: 'England', geo_city: 'London' },
  { geo_country: 'FR', geo_region: 'Île-de-France', geo_city: 'Paris' },
]
const agents = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:145.0) Gecko/20100101 Firefox/145.0',
]
const campaigns: (Campaign | null)[] = [
  null,
  { utm_source: 'newsletter', utm_campaign: 'spring', sub1: 'footer' },
  { utm_source: 'newsletter', utm_campaign: 'launch', sub1: 'banner' },
  { utm_source: 'video', sub1: 'description', sub2: 'short' },
]
const pricesCents = [2900, 4900, 9900, 19900]

/**
 * Creates the content of a new stack: a workspace with a program, partners with groups and codes, applicants, and four weeks of
 * visitors. The service's own functions record everything. After that, the records are moved back in time and the totals are
 * counted again.
 */
export async function createDemo(db: Database, env: SessionEnv & { EMAIL_HASH_KEY: string }): Promise<Demo> {
  const password = 'demo-password'
  const owner = await createPerson(db, env, { name: 'Dana Demo', email: 'demo@example.com', password })
  const partnerUser = await createPerson(db, env, { name: 'Nora', email: 'nora@example.com', password })
  const workspaceId = await createWorkspace(db, { name: 'Demo workspace', ownerId: owner.userId })
  const programId = await createProgram(db, workspaceId, {
    ...programDefaults,
    name: 'Demo program',
    domain: 'shop.example.com',
    hold_days: holdDays,
    review_rules: [...reviewRules],
  })
  const byOwner = db.actingAs(owner.userId)
  const apiKey = await createApiKey(db, programId, 'demo', { scopes: keyScopes })
  const keyHash = await apiKeyHash(`Bearer ${apiKey}`)
  await openJoinPage(byOwner, programId)
  const partnerIds: Record<string, number> = {}
  for (const { name, code, email } of partners) {
    partnerIds[code] =
      email === partnerUser.email
        ? await joinAs(byOwner, programId, { name, email, userId: partnerUser.userId, code })
        : (await addPartner(db, { programId, name, email, code })).partnerId
  }
  const groupId = await giveGroups(byOwner, programId, partnerIds)
  const codes = await giveCodes(byOwner, programId, partnerIds)

  const tomsHash = await emailHash(env.EMAIL_HASH_KEY, 'tom@reviews.example')
  const visitors = Array.from({ length: visitorCount }, (_, number) => number)
  const visits: Visit[] = Array.from({ length: couponBuyers }, (_, number) => visitWithCode(db, keyHash, number, codes))
  const walk = async () => {
    for (let next = visitors.shift(); next !== undefined; next = visitors.shift())
      visits.push(await walkThrough(db, keyHash, next, tomsHash, codes))
  }
  await Promise.all(Array.from({ length: 8 }, walk))
  const journeys = visits.toSorted((one, other) => one.saleAt.getTime() - other.saleAt.getTime())
  // Lists are sorted by the order in which sales were recorded.
  for (const { buy } of journeys) await buy?.()
  await moveBack(db, programId, { weeks, holdDays, journeys })
  await countAll(db)
  await reviewCommissions(byOwner, env.EMAIL_HASH_KEY, programId)
  await approveDueCommissions(db, 500)
  await adjustBalances(byOwner, programId, partnerIds)
  await welcomeApplicants(byOwner, programId, groupId)
  const refund = { refund_id: null, reason: 'refund' as const, reason_text: 'Did not fit' }
  await refundSale(db, keyHash, 'demo-order-0', { ...refund, amount_cents: 1000 }, crypto.randomUUID())
  await refundSale(db, keyHash, 'demo-order-24', { ...refund, amount_cents: null }, crypto.randomUUID())
  await countAll(db)
  return { email: owner.email, password, partnerEmail: partnerUser.email, programId, apiKey, partnerCode: 'nora' }
}

async function countAll(db: Database): Promise<void> {
  while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
}

/** Returns a moment in the past weeks. Later visitors get later moments. */
function moment(number: number, count: number): Date {
  const leftOfTime = 1 - (number + Math.random()) / count
  return new Date(Date.now() - (leftOfTime * (weeks * 7 * 24 - 8) + 8) * hourMilliseconds)
}

/** A visitor and their sale, if they bought. */
type Visit = Journey & { buy?: () => Promise<unknown> }

/** Records a visitor: always a click, a lead for every fourth, and a later sale for every eighth. */
async function walkThrough(
  db: Database,
  keyHash: string,
  number: number,
  tomsHash: string,
  codes: string[],
): Promise<Visit> {
  const clickAt = moment(number, visitorCount)
  const leadAt = new Date(clickAt.getTime() + 0.2 * hourMilliseconds)
  const saleAt = new Date(clickAt.getTime() + (0.5 + Math.random() * 7) * hourMilliseconds)
  const wheel = partners.flatMap(({ code, weight }) => Array.from({ length: weight }, () => code))
  const isTom = withTomsAddress.includes(number)
  const code = isTom ? 'tom' : pick(wheel)
  const agent = pick(agents)
  const url = `https://shop.example.com/?aff=${code}${byAd.includes(number) ? '&gclid=demo' : ''}`
  const campaign = pick(campaigns)
  const { click_id: clickId } = await recordClick(
    db,
    {
      affiliate_url: url,
      partner_code: code,
      page_url: url,
      page_title: 'Shop',
      referrer_url: `https://${code}.example.net/`,
      session_id: null,
      user_agent: agent,
      screen_resolution: null,
      viewport_size: null,
      language: 'en',
      timezone: null,
      additional_data: null,
      campaign,
      ...pick(places),
      ...(await visitorDevice(agent)),
    },
    null,
    clickAt.getTime(),
  )
  const customer = { customer_key: `demo-user-${number}`, click_id: clickId, is_test: false, additional_data: null }
  if (number % 4 === 0) {
    const page = { session_id: null, page_url: 'https://shop.example.com/signup' }
    await recordServerLead(db, keyHash, { ...customer, ...page, email_hash: isTom ? tomsHash : null }, null)
  }
  const journey = { customer: clickId, clickAt, leadAt, saleAt }
  if (number % 8 === 0) {
    // Some buyers also use the code of a random partner.
    const coupon = number % 40 === 8 ? pick(codes) : null
    const order = { transaction_id: `demo-order-${number}`, coupon, ...saleOf(number) }
    const sale = { ...customer, ...order }
    return { ...journey, buy: () => recordSale(db, keyHash, sale, null, crypto.randomUUID()) }
  }
  return journey
}

/** A buyer without a link who uses a partner's code. */
function visitWithCode(db: Database, keyHash: string, number: number, codes: string[]): Visit {
  const at = moment(number, couponBuyers)
  const customer = `demo-coupon-user-${number}`
  const order = { customer_key: customer, click_id: null, transaction_id: `demo-coupon-order-${number}` }
  const sale = { ...order, coupon: pick(codes), is_test: false, additional_data: null, ...saleOf(number) }
  const buy = () => recordSale(db, keyHash, sale, null, crypto.randomUUID())
  return { customer, clickAt: at, leadAt: at, saleAt: at, buy }
}

function saleOf(number: number) {
  const terms = { currency: 'usd', tax_cents: 0, subscription_id: null, is_recurring: false }
  return { amount_cents: pick(pricesCents), sale_type: number % 3 === 0 ? 'setup' : 'payment', ...terms }
}

function pick<Item>(items: readonly Item[]): Item {
  const item = items[Math.floor(Math.random() * items.length)]
  if (item === undefined) throw new Error('There is nothing to pick from.')
  return item
}
