import { randomUUID } from 'node:crypto'
import { apiKeyHash } from '../../lib/access/api-keys.ts'
import type { Database } from '../../lib/database.ts'
import { hashPartnerEmails } from '../../lib/money/partner-hashes.ts'
import { flagNewCommissions, listReviews } from '../../lib/money/reviews.ts'
import { recordSale } from '../../lib/money/sales.ts'
import { recordClick } from '../../lib/tracking/clicks.ts'
import { emailHash, emailHashes } from '../../lib/tracking/customers.ts'
import { recordServerLead } from '../../lib/tracking/leads.ts'
import { visitorHash } from '../../lib/tracking/visitor.ts'
import { type LedgerProgram, noClick, noLead, noSale } from '../support/ledger.ts'

/** The key that hashes addresses. */
export const hashSecret = 'email-hash-key'

/** A visitor with a click, an address, and the identity that they enter. */
export interface Visitor {
  /** The page address that the tag sends. Null if a script calls the service directly. */
  page?: string | null
  device?: string
  address?: string
  email?: string
  query?: string
}

/** Records a visitor who clicks, signs up and buys for 50.00. Returns the commission and the transaction id. */
export async function visit(
  db: Database,
  program: LedgerProgram,
  visitor: Visitor,
  partner = 0,
  customer: string = randomUUID(),
) {
  const { page = 'https://shop.example.com/', device = 'desktop', address = randomUUID(), email, query = '' } = visitor
  const code = program.codeOf(partner)
  const browser = page === null ? {} : { page_url: page, viewport_size: '1280x720', session_id: 'visit' }
  const click = {
    ...noClick,
    ...browser,
    affiliate_url: `https://shop.example.com/?aff=${code}${query}`,
    partner_code: code,
    device_type: device,
    user_agent: device === 'bot' ? 'Examplebot/1.0' : 'Mozilla/5.0',
    visitor: visitorHash(hashSecret, address),
  }
  const { click_id } = await recordClick(db, click, null)
  const keyHash = await apiKeyHash(`Bearer ${program.apiKey}`)
  const hashes = await emailHashes((one) => emailHash(hashSecret, one), email)
  await recordServerLead(db, keyHash, { ...noLead, customer_key: customer, click_id, ...hashes }, null)
  const sale = { ...noSale, customer_key: customer, amount_cents: 5000, currency: 'usd', click_id }
  const id = randomUUID()
  const recorded = await recordSale(db, keyHash, { ...sale, transaction_id: id }, null, randomUUID())
  return { id, commissionId: Number(recorded.commission_id), customer }
}

/** Visitors of one kind. `partnerAddress` is the partner's payout address. */
export interface Kind {
  what: string
  isDishonest: boolean
  count: number
  visitor: (n: number, partnerAddress: string) => Visitor
}

/** The honest and dishonest traffic of typical programs, including kinds that the rules can't detect. */
export const traffic: Kind[] = [
  {
    what: 'visitors of a page',
    isDishonest: false,
    count: 60,
    visitor: (n) => ({ email: `buyer-${n}@example.com` }),
  },
  {
    what: 'colleagues behind one address',
    isDishonest: false,
    count: 9,
    visitor: (n) => ({ address: `office ${n % 3}` }),
  },
  { what: 'people at one fair', isDishonest: false, count: 5, visitor: () => ({ address: 'fair' }) },
  { what: 'clicks that a server reports', isDishonest: false, count: 2, visitor: () => ({ page: null }) },
  { what: 'the partner with their own address', isDishonest: true, count: 8, visitor: (_, email) => ({ email }) },
  {
    what: 'the partner with another address',
    isDishonest: true,
    count: 4,
    visitor: (n) => ({ email: `alias-${n}@example.com` }),
  },
  { what: 'a farm behind one address', isDishonest: true, count: 14, visitor: (n) => ({ address: `farm ${n % 2}` }) },
  { what: 'a farm with many addresses', isDishonest: true, count: 6, visitor: () => ({}) },
  { what: 'a script without a page', isDishonest: true, count: 10, visitor: () => ({ page: null }) },
  { what: 'a bot with an honest user agent', isDishonest: true, count: 6, visitor: () => ({ device: 'bot' }) },
  { what: 'ads with their click parameter', isDishonest: true, count: 8, visitor: (n) => ({ query: `&gclid=${n}` }) },
  { what: 'ads without their click parameter', isDishonest: true, count: 3, visitor: () => ({}) },
]

/** A kind of visitor, with the numbers of visits and of held commissions. */
export interface Held {
  what: string
  isDishonest: boolean
  visitors: number
  held: number
}

/** Simulates visitors of a program's first partner, reviews their commissions, and returns the number of held ones by kind. */
export async function playTraffic(
  db: Database,
  program: LedgerProgram,
  kinds: Kind[],
  partnerAddress: string,
): Promise<Held[]> {
  const visits = kinds.flatMap((kind) =>
    Array.from({ length: kind.count }, (_, n) => ({ kind, visitor: kind.visitor(n, partnerAddress) })),
  )
  const created: { kind: Kind; commissionId: number }[] = []
  for (let start = 0; start < visits.length; start += 15) {
    const some = visits.slice(start, start + 15)
    created.push(
      ...(await Promise.all(some.map(async (one) => ({ ...one, ...(await visit(db, program, one.visitor)) })))),
    )
  }
  await hashPartnerEmails(db, (address) => emailHash(hashSecret, address), 1000)
  while ((await flagNewCommissions(db, 1000)).more);
  const reviews = await listReviews(db, program.programId, { limit: 10_000, state: 'waiting' })
  const held = new Set(reviews.map(({ commission_id: id }) => id))
  return kinds.map((kind) => {
    const ofKind = created.filter((one) => one.kind === kind)
    return {
      what: kind.what,
      isDishonest: kind.isDishonest,
      visitors: ofKind.length,
      held: ofKind.filter(({ commissionId }) => held.has(commissionId)).length,
    }
  })
}

/** Precision and recall: the share of held commissions that are dishonest, and the share of dishonest commissions that are held. */
export function qualityOf(kinds: Held[]): { precision: number; recall: number } {
  const sum = (some: Held[], name: 'visitors' | 'held') => some.reduce((total, kind) => total + kind[name], 0)
  const dishonest = kinds.filter(({ isDishonest }) => isDishonest)
  const right = sum(dishonest, 'held')
  return { precision: right / sum(kinds, 'held'), recall: right / sum(dishonest, 'visitors') }
}
