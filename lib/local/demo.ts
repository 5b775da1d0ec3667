import type { SessionEnv } from '../access/sessions.ts'
import { apiKeyHash } from '../access/api-keys.ts'
import { keyScopes } from '../access/api-keys.ts'
import { createApiKey } from '../access/program-keys.ts'
import { countClicks, countFigures, recordClick } from '../tracking/clicks.ts'
import { approveDueCommissions } from '../money/commissions.ts'
import type { Database } from '../database.ts'
import { recordServerLead } from '../tracking/leads.ts'
import { addPartner } from '../programs/partners.ts'
import { createProgram, programDefaults } from '../programs/programs.ts'
import { refundSale } from '../money/refunds.ts'
import { recordSale } from '../money/sales.ts'
import { visitorDevice } from '../tracking/visitor.ts'
import { createWorkspace } from '../programs/workspaces.ts'
import { type Journey, moveBack } from './demo-past.ts'
import { createPerson, tiePartner } from './people.ts'
import type { Demo } from './state.ts'

const weeks = 4
const visitorCount = 200
const hourMilliseconds = 3_600_000
const holdDays = 14

const partners = [
  { name: 'Nora Blogs', code: 'nora', weight: 5 },
  { name: 'Build Weekly', code: 'build-weekly', weight: 3 },
  { name: 'Tom Reviews', code: 'tom', weight: 2 },
]
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
const sources = [null, 'newsletter', 'video']
const pricesCents = [2900, 4900, 9900, 19900]

/**
 * What a new stack shows: a workspace with a program, three partners and four weeks of their visitors. Everything is recorded
 * by the service's own functions and then moved back in time, with the daily totals counted again.
 */
export async function createDemo(db: Database, env: SessionEnv): Promise<Demo> {
  const password = 'demo-password'
  const owner = await createPerson(db, env, { name: 'Dana Demo', email: 'demo@example.com', password })
  const partnerUser = await createPerson(db, env, { name: 'Nora', email: 'nora@example.com', password })
  const workspaceId = await createWorkspace(db, { name: 'Demo workspace', ownerId: owner.userId })
  const programId = await createProgram(db, workspaceId, {
    ...programDefaults,
    name: 'Demo program',
    domain: 'shop.example.com',
    hold_days: holdDays,
  })
  const apiKey = await createApiKey(db, programId, 'demo', { scopes: keyScopes })
  const keyHash = await apiKeyHash(`Bearer ${apiKey}`)
  for (const { name, code } of partners) {
    const email = code === 'nora' ? partnerUser.email : null
    const { partnerId } = await addPartner(db, { programId, name, email, code })
    if (email) await tiePartner(db, partnerId, partnerUser.userId)
  }

  const journeys: Journey[] = []
  const numbers = Array.from({ length: visitorCount }, (_, index) => index)
  const walk = async () => {
    for (let number = numbers.shift(); number !== undefined; number = numbers.shift()) {
      journeys.push(await walkThrough(db, keyHash, number))
    }
  }
  await Promise.all(Array.from({ length: 8 }, walk))
  await moveBack(db, programId, { weeks, holdDays, journeys })
  while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
  await approveDueCommissions(db, 500)
  const refund = { refund_id: null, reason: 'refund' as const, reason_text: 'Did not fit' }
  await refundSale(db, keyHash, 'demo-order-0', { ...refund, amount_cents: 1000 }, crypto.randomUUID())
  await refundSale(db, keyHash, 'demo-order-24', { ...refund, amount_cents: null }, crypto.randomUUID())
  return { email: owner.email, password, partnerEmail: partnerUser.email, programId, apiKey, partnerCode: 'nora' }
}

/** One visitor: always a click, of every fourth a lead, of every eighth a sale. They come in the order of their numbers. */
async function walkThrough(db: Database, keyHash: string, number: number): Promise<Journey> {
  const leftOfTime = 1 - (number + Math.random()) / visitorCount
  const age_ms = (leftOfTime * (weeks * 7 * 24 - 8) + 8) * hourMilliseconds
  const clickAt = new Date(Date.now() - age_ms)
  const leadAt = new Date(clickAt.getTime() + 0.2 * hourMilliseconds)
  const saleAt = new Date(clickAt.getTime() + (0.5 + Math.random() * 7) * hourMilliseconds)
  const wheel = partners.flatMap(({ code, weight }) => Array.from({ length: weight }, () => code))
  const code = pick(wheel)
  const agent = pick(agents)
  const url = `https://shop.example.com/?aff=${code}`
  const source = pick(sources)
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
      campaign: source === null ? null : { utm_source: source },
      ...pick(places),
      ...visitorDevice(agent),
    },
    null,
    clickAt.getTime(),
  )
  const customer = { customer_key: `demo-user-${number}`, click_id: clickId, is_test: false, additional_data: null }
  if (number % 4 === 0) {
    const page = { session_id: null, page_url: 'https://shop.example.com/signup' }
    await recordServerLead(db, keyHash, { ...customer, ...page, email_hash: null }, null)
  }
  if (number % 8 === 0) {
    const sale = { amount_cents: pick(pricesCents), currency: 'usd', sale_type: 'payment', is_recurring: false }
    const order = { transaction_id: `demo-order-${number}`, tax_cents: 0, subscription_id: null }
    await recordSale(db, keyHash, { ...customer, ...sale, ...order }, null, crypto.randomUUID())
  }
  return { clickId, clickAt, leadAt, saleAt }
}

function pick<Item>(items: readonly Item[]): Item {
  const item = items[Math.floor(Math.random() * items.length)]
  if (item === undefined) throw new Error('There is nothing to pick from.')
  return item
}
