import { expect, test } from 'vitest'
import { apiKeyHash } from '../lib/api-keys.ts'
import { recordClick } from '../lib/clicks.ts'
import { foldDailyTotals } from '../lib/daily-totals.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { refundSale } from '../lib/refunds.ts'
import { recordSale } from '../lib/sales.ts'
import { setClock } from './support/clock.ts'
import { noClick, noSale } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const endpoint = await startEndpoint()
const setTime = await setClock(endpoint)
const { db, sql } = endpoint
const sandbox = await createSandbox(db, { AUTH_SECRET: 'secret' })
const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
const yesterday = new Date(Date.now() - 24 * 60 * 60 * 1000)
const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: sandbox.partnerCode }

async function count(query: string) {
  const { rows } = await sql.query<{ count: number }>(query)
  return rows[0]?.count
}

test('folds while others write, twice at once, and loses nothing', async () => {
  await setTime(yesterday)
  await Promise.all(
    Array.from({ length: 60 }, async (_, index) => {
      const { click_id } = await recordClick(db, click, null, yesterday.getTime())
      const sale = {
        transaction_id: `sale-${index}`,
        customer_key: `user-${index}`,
        click_id,
        amount_cents: 1000,
        currency: 'usd',
      }
      await recordSale(db, keyHash, { ...noSale, ...sale }, null, crypto.randomUUID())
    }),
  )
  await setTime(new Date())
  const slots = await count('select count(*)::int from daily_totals where slot > 0')
  expect(slots).toBeGreaterThan(1)
  const refund = { amount_cents: 500, refund_id: 'half', reason: 'refund' as const, reason_text: null }
  await Promise.all(
    Array.from({ length: 60 }, (_, index) => [
      refundSale(db, keyHash, `sale-${index}`, refund, crypto.randomUUID()),
      recordClick(db, click, null, yesterday.getTime()),
      recordClick(db, click, null),
      ...(index % 6 === 0 ? [foldDailyTotals(db, 7), foldDailyTotals(db, 1000)] : []),
    ]).flat(),
  )
  while ((await foldDailyTotals(db, 10)) > 0);

  const { rows: days } = await sql.query(
    `select t.clicks, t.leads, t.conversions, m.sales, m.revenue_cents, m.commission_cents
    from daily_totals t join daily_money m using (program_id, day) where day = utc_day($1)`,
    [yesterday],
  )
  expect(days).toEqual([
    { clicks: '120', leads: '0', conversions: '60', sales: '60', revenue_cents: '60000', commission_cents: '6000' },
  ])
  expect(await count('select sum(clicks)::int as count from daily_totals where day = utc_day(now())')).toBe(60)
})

test("leaves today's slots to those who count in them", async () => {
  await Promise.all(Array.from({ length: 20 }, () => recordClick(db, click, null)))
  const slots = await count('select count(*)::int from daily_totals where day = utc_day(now())')
  expect(await foldDailyTotals(db, 1000)).toBe(0)
  expect(await count('select count(*)::int from daily_totals where day = utc_day(now())')).toBe(slots)
})
