import type { Click } from '../../lib/tracking/clicks.ts'
import { recordClick } from '../../lib/tracking/clicks.ts'
import { recordServerLead } from '../../lib/tracking/leads.ts'
import { refundSale } from '../../lib/money/refunds.ts'
import { recordSale } from '../../lib/money/sales.ts'
import { capture, captured } from './capture.ts'
import type { Call } from './driver.ts'
import { seededClickId } from './seed.ts'

/** A click from the browser tag, with its program. */
export function clickOn(code: string, programId?: number): Click {
  return {
    affiliate_url: `https://shop.example.com/shoes?aff=${code}&utm_source=blog`,
    partner_code: code,
    page_url: 'https://shop.example.com/shoes',
    page_title: 'Shoes | Example shop',
    referrer_url: 'https://blog.example.org/2026/best-shoes',
    session_id: 's_01JD3V7Q8ZT5M2',
    user_agent:
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36',
    screen_resolution: '1920x1080',
    viewport_size: '1280x720',
    language: 'en-US',
    timezone: 'America/New_York',
    geo_country: 'US',
    geo_region: 'California',
    geo_city: 'San Francisco',
    device_type: 'desktop',
    device_os: 'Windows',
    browser_name: 'Chrome',
    additional_data: programId === undefined ? null : { program_id: programId },
    campaign: { utm_source: 'blog' },
  }
}

/** Returns a function that creates the next calls. Their numbers start at 1. */
export function callsOf(verb: (n: number) => Promise<unknown>): (count: number) => Promise<Call[]> {
  let n = 0
  return async (count) => {
    const calls: Call[] = []
    while (calls.length < count) {
      const statements = await capture(() => verb(++n))
      const [only] = statements
      calls.push(statements.length === 1 && only ? only : statements)
    }
    return calls
  }
}

/** Clicks on the first `links` seeded links in turn. */
export const clicks = (programId: number, links: number) =>
  callsOf((n) => recordClick(captured, clickOn(`code${1 + (n % links)}`, programId), null))

/** The first leads of seeded customers who have none. */
export const leads = (programId: number, keyHash: string) =>
  callsOf((n) =>
    recordServerLead(
      captured,
      keyHash,
      {
        customer_key: `lead${n}`,
        click_id: seededClickId(programId, n),
        is_test: false,
        email_hash: null,
        session_id: null,
        page_url: null,
        additional_data: null,
      },
      null,
    ),
  )

/** Sales to the seeded customers `<key><n>` in turn. */
export const sales = (keyHash: string, key: string, customers: number) =>
  callsOf((n) =>
    recordSale(
      captured,
      keyHash,
      {
        transaction_id: `${key}-order-${n}`,
        customer_key: `${key}${1 + ((n - 1) % customers)}`,
        click_id: null,
        amount_cents: 4900,
        currency: 'usd',
        sale_type: 'payment',
        is_recurring: false,
        tax_cents: 0,
        subscription_id: null,
        is_test: false,
        additional_data: null,
      },
      null,
      crypto.randomUUID(),
    ),
  )

/** The first, partial refunds of the seeded sales `<prefix><n>`. */
export const refunds = (keyHash: string, prefix: string) =>
  callsOf((n) =>
    refundSale(
      captured,
      keyHash,
      `${prefix}${n}`,
      { amount_cents: 1000, refund_id: 'refund-1', reason: 'refund', reason_text: null },
      crypto.randomUUID(),
    ),
  )
