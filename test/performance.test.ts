import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { countClicks, recordClick, recordTestClick } from '../lib/tracking/clicks.ts'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'
import { recordServerLead, recordTestLead } from '../lib/tracking/leads.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { readPerformance } from '../lib/tracking/performance.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { performanceQuery } from '../lib/api/tracking-performance.ts'
import { recordSale } from '../lib/money/sales.ts'
import { setClock } from './support/clock.ts'
import { noClick, noLead, noSale } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const endpoint = await startEndpoint()
const setTime = await setClock(endpoint)
const { db, sql } = endpoint

const dayMs = 24 * 60 * 60 * 1000
const start = Date.parse('2026-02-20T09:30:00Z')
const historyDays = 24

// Many events and range bounds are exactly at the end of an hour or a day, and within the same hours.
const second = 1000
const minute = 60 * second
const hour = 60 * minute
const hours = fc
  .tuple(
    fc.constantFrom(0, 3 * dayMs, 3 * dayMs + 12 * hour, 3 * dayMs + 14 * hour, 4 * dayMs - 11 * hour, 17 * dayMs),
    fc.constantFrom(-30 * minute, 0, 30 * minute, 90 * minute),
    fc.constantFrom(-minute, -second, -1, 0, 1, second, minute, 20 * minute),
  )
  .map((offsets) => Math.max(0, offsets[0] + offsets[1] + offsets[2]))

/** Adds an event `at` milliseconds after the start of the history. `who` chooses one of the existing customers or sales. */
const step = fc.record({
  at: fc.oneof(hours, fc.integer({ min: 0, max: historyDays * dayMs })),
  kind: fc.constantFrom(
    'click',
    'return',
    'lead',
    'sale',
    'sale',
    'refund',
    'partner',
    'stranger',
    'test',
    'count',
    'fold',
  ),
  who: fc.nat(),
  amount_cents: fc.integer({ min: 1, max: 50_000 }),
  currency: fc.constantFrom('usd', 'usd', 'usd', 'eur', 'jpy', 'kwd'),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

type Program = Parameters<typeof readPerformance>[1]

async function playHistory(steps: Step[], currency: string): Promise<Program> {
  await setTime(new Date(start))
  const sandbox = await createSandbox(db, { AUTH_SECRET: 'secret' }, { currency, lead_commission_cents: 150 })
  const { programId } = sandbox
  const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
  const clickIds: string[] = []
  const saleIds: string[] = []
  for (const [index, { at, kind, who, amount_cents, currency: paidIn }] of steps
    .toSorted((a, b) => a.at - b.at)
    .entries()) {
    const now = start + at
    await setTime(new Date(now))
    const visit = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: sandbox.partnerCode }
    const clickId = clickIds[who % (clickIds.length || 1)]
    const lead = { ...noLead, customer_key: `user-${clickId}`, is_test: kind === 'test' }
    const sale = {
      ...noSale,
      transaction_id: `sale-${index}`,
      customer_key: clickId === undefined || kind === 'stranger' ? `stranger-${index}` : `user-${clickId}`,
      click_id: kind === 'stranger' ? null : (clickId ?? null),
      amount_cents,
      currency: paidIn,
      is_test: kind === 'test',
    }
    if (kind === 'click') clickIds.push((await recordClick(db, visit, null, now)).click_id)
    if (kind === 'return') await recordClick(db, visit, clickId ?? null, now)
    if (kind === 'lead' && clickId) await recordServerLead(db, keyHash, { ...lead, click_id: clickId }, null)
    if (kind === 'sale' || kind === 'stranger' || kind === 'test') {
      await recordSale(db, keyHash, sale, null, crypto.randomUUID())
      saleIds.push(sale.transaction_id)
    }
    if (kind === 'test') {
      await recordTestClick(db, visit, programId, null, now)
      await recordTestLead(db, keyHash, { ...lead, click_id: null }, null)
    }
    if (kind === 'partner') await addPartner(db, { programId, name: 'Another', email: null, code: crypto.randomUUID() })
    if (kind === 'count') await countClicks(db, 1 + (who % 20))
    if (kind === 'fold') await foldDailyTotals(db, 1000)
    const refunded = saleIds[who % (saleIds.length || 1)]
    if (kind === 'refund' && refunded) {
      const refund = { refund_id: String(index), reason: 'refund' as const, reason_text: null }
      const amount = amount_cents % 3 === 0 ? null : amount_cents
      await refundSale(db, keyHash, refunded, { ...refund, amount_cents: amount }, crypto.randomUUID())
    }
  }
  return { id: programId, currency, createdAt: new Date(start) }
}

interface Totals {
  clicks: number
  leads: number
  conversions: number
  partners: number
  sales: number
  revenue_cents: number
  refunded_cents: number
  commission_cents: number
}

function within(column: string): string {
  return `date_trunc('milliseconds', ${column}) between w.from_time and w.to_time`
}

/** The figures between two instants (both inclusive), from plain SQL. */
async function countRows(
  programId: number,
  currency: string,
  windows: [from: string, to: string][],
): Promise<Totals[]> {
  const paidSales = `from sales where program_id = $1 and not is_test and customer_id is not null and payment_status = 'paid'
    and ${within('sale_date')}`
  const { rows } = await sql.query<Totals>(
    `select
      (select count(*) from affiliate_click_events where program_id = $1 and not is_test and ${within('click_timestamp')})::int as clicks,
      (select count(*) from customers where program_id = $1 and customer_status in ('lead', 'conversion')
        and ${within('signup_date')})::int as leads,
      (select count(*) from customers where program_id = $1 and customer_status = 'conversion'
        and ${within('first_purchase_date')})::int as conversions,
      (select count(*) from partners where program_id = $1 and ${within('created_at')})::int as partners,
      (select count(*) ${paidSales})::int as sales,
      (select coalesce(sum(amount_cents), 0) ${paidSales} and currency = $2)::int as revenue_cents,
      (select coalesce(sum(r.applied_cents), 0) from refunds r join (select id ${paidSales} and currency = $2) s on s.id = r.sale_id
        where r.program_id = $1 and r.returned_at is null)::int as refunded_cents,
      (select coalesce(sum(amount_cents - reversed_cents), 0) from commissions
        where program_id = $1 and currency = $2 and ${within('created_at')})::int as commission_cents
    from unnest($3::timestamptz[], $4::timestamptz[]) with ordinality w (from_time, to_time, position) order by w.position`,
    [programId, currency, windows.map(([from]) => from), windows.map(([, to]) => to)],
  )
  return rows
}

const exponents: Record<string, number> = { usd: 2, eur: 2, jpy: 0, kwd: 3 }

function major(cents: number, currency: string): number {
  return cents / 10 ** (exponents[currency] ?? 2)
}

/** Returns `part / whole`, rounded half up with integers and without floating point. */
function quotient(part: number, whole: number, decimals: number): number {
  if (whole === 0) return 0
  const doubled = (2n * BigInt(part) * 10n ** BigInt(decimals)) / BigInt(whole)
  return Number((doubled + 1n) / 2n) / 10 ** decimals
}

function trend(current: number, previous: number) {
  const change = previous === 0 ? (current === 0 ? 0 : 100) : quotient(100 * Math.abs(current - previous), previous, 1)
  return { trend: change, trendDirection: current > previous ? 'up' : current < previous ? 'down' : 'stable' }
}

const day = fc.integer({ min: -10, max: historyDays + 10 })
const instant = fc.oneof(hours, fc.integer({ min: -10 * dayMs, max: (historyDays + 10) * dayMs }))
const query = fc.oneof(
  fc.constantFrom({}, { period: '7d' }, { period: '30d' }, { period: '90d' }, { period: 'all' }),
  fc
    .tuple(day, day)
    .map(([a, b]) => ({ dateFrom: iso(Math.min(a, b) * dayMs, 10), dateTo: iso(Math.max(a, b) * dayMs, 10) })),
  fc
    .tuple(instant, instant)
    .map(([a, b]) => ({ dateFrom: iso(Math.min(a, b)), dateTo: iso(Math.max(a, b)), period: '7d' })),
)
// Clocks differ, so a history can contain events after the reader's current time.
const readAt = fc.oneof(hours, fc.integer({ min: historyDays * dayMs, max: (historyDays + 3) * dayMs }))

function iso(offset: number, length = 24): string {
  return new Date(start + offset).toISOString().slice(0, length)
}

test('every figure equals plain SQL over random histories and ranges', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 20, maxLength: 80 }),
      fc.constantFrom('usd', 'usd', 'jpy', 'kwd'),
      fc.array(fc.tuple(query, readAt), { minLength: 40, maxLength: 40 }),
      async (steps, currency, readings) => {
        const program = await playHistory(steps, currency)
        for (const [parameters, offset] of readings) {
          await expectFigures(program, parameters, start + offset)
        }
      },
    ),
    { seed: 1, numRuns: 5 },
  )
})

test("events later than the reader's current time count toward their own hour and day", async () => {
  const midnight = start - 9.5 * hour + 3 * dayMs
  const click = { kind: 'click', who: 0, amount_cents: 1, currency: 'usd' } as const
  const steps = Array.from({ length: 160 }, (_, n) => ({ ...click, at: midnight - start + n * 11 * minute }))
  const program = await playHistory(steps, 'usd')
  const now = midnight + 12 * hour + 40 * minute
  const bounds = [-30 * minute, 0, 12 * hour, 12.5 * hour, 12.8 * hour, 15 * hour, 15.2 * hour, dayMs, 1.02 * dayMs]
  for (const [index, from] of bounds.entries()) {
    for (const to of bounds.slice(index)) {
      const dateTo = iso(midnight - start + to)
      await expectFigures(program, { dateFrom: iso(midnight - start + from), dateTo }, now)
    }
  }
})

const latest = (a: string, b: string) => (a > b ? a : b)
const earliest = (a: string, b: string) => (a < b ? a : b)

async function expectFigures(program: Program, parameters: object, at: number): Promise<void> {
  const { id, currency } = program
  const { data, meta, metrics } = await readPerformance(db, program, performanceQuery.parse(parameters), at)
  const firstDay = Date.parse(meta.dateFrom.slice(0, 10))
  const dates = Array.from({ length: (Date.parse(meta.dateTo.slice(0, 10)) - firstDay) / dayMs + 1 }, (_, index) =>
    new Date(firstDay + index * dayMs).toISOString().slice(0, 10),
  )
  const [total, before, ...days] = await countRows(id, currency, [
    [meta.dateFrom, meta.dateTo],
    [meta.previousPeriod.dateFrom, meta.previousPeriod.dateTo],
    ...dates.map((date): [string, string] => [
      latest(`${date}T00:00:00.000Z`, meta.dateFrom),
      earliest(`${date}T23:59:59.999Z`, meta.dateTo),
    ]),
  ])
  if (!total || !before) throw new Error('no figures')
  expect(data).toEqual(
    days.map(({ clicks, leads, conversions, partners, revenue_cents, commission_cents }, index) => ({
      date: dates[index],
      period: dates[index],
      clicks,
      leads,
      conversions,
      revenue: major(revenue_cents, currency),
      partners,
      sales: 0,
      commission: major(commission_cents, currency),
    })),
  )
  const decimals = Math.max(2, exponents[currency] ?? 2)
  const { otherCurrencies, ...own } = metrics
  expect(own).toEqual({
    totalClicks: total.clicks,
    totalLeads: total.leads,
    totalConversions: total.conversions,
    totalRevenue: major(total.revenue_cents, currency),
    totalRefunds: major(total.refunded_cents, currency),
    conversionRate: quotient(100 * total.conversions, total.clicks, 2),
    averageOrderValue: quotient(total.revenue_cents, total.conversions * 10 ** (exponents[currency] ?? 2), decimals),
    totalPartners: total.partners,
    totalSales: total.sales,
    totalPartnersCommission: major(total.commission_cents, currency),
    clicksTrend: trend(total.clicks, before.clicks),
    leadsTrend: trend(total.leads, before.leads),
    conversionsTrend: trend(total.conversions, before.conversions),
    revenueTrend: trend(total.revenue_cents, before.revenue_cents),
    partnersTrend: trend(total.partners, before.partners),
    salesTrend: trend(total.sales, before.sales),
    commissionTrend: trend(total.commission_cents, before.commission_cents),
  })
  const { rows: others } = await sql.query<{ currency: string; sales: number }>(
    `select currency, count(*)::int as sales from sales where program_id = $1 and not is_test and customer_id is not null
      and currency <> $2 and date_trunc('milliseconds', sale_date) between $3 and $4 group by currency`,
    [id, currency, meta.dateFrom, meta.dateTo],
  )
  for (const { currency: other, sales } of others) {
    const [figures] = await countRows(id, other, [[meta.dateFrom, meta.dateTo]])
    expect(otherCurrencies[other]).toEqual({
      totalRevenue: major(figures?.revenue_cents ?? 0, other),
      totalRefunds: major(figures?.refunded_cents ?? 0, other),
      totalSales: sales,
      totalPartnersCommission: major(figures?.commission_cents ?? 0, other),
    })
  }
}

const anyProgram = { id: 1, currency: 'usd', createdAt: new Date('2026-01-10T08:00:00Z') }
const ranges: [what: string, query: Record<string, string>, period: string, range: string, previous: string][] = [
  [
    '7d is the default: today and the six days before it',
    {},
    '7d',
    '2026-03-04T00:00:00.000Z 2026-03-10T12:00:00.000Z',
    '2026-02-25T11:59:59.999Z 2026-03-03T23:59:59.999Z',
  ],
  [
    '30d',
    { period: '30d' },
    '30d',
    '2026-02-09T00:00:00.000Z 2026-03-10T12:00:00.000Z',
    '2026-01-10T11:59:59.999Z 2026-02-08T23:59:59.999Z',
  ],
  [
    '90d',
    { period: '90d' },
    '90d',
    '2025-12-11T00:00:00.000Z 2026-03-10T12:00:00.000Z',
    '2025-09-12T11:59:59.999Z 2025-12-10T23:59:59.999Z',
  ],
  [
    `"all" starts at the program's creation`,
    { period: 'all' },
    'all',
    '2026-01-10T08:00:00.000Z 2026-03-10T12:00:00.000Z',
    '2025-11-12T03:59:59.999Z 2026-01-10T07:59:59.999Z',
  ],
  [
    'two dates form the range of whole days',
    { dateFrom: '2026-02-01', dateTo: '2026-02-07' },
    'all',
    '2026-02-01T00:00:00.000Z 2026-02-07T23:59:59.999Z',
    '2026-01-25T00:00:00.000Z 2026-01-31T23:59:59.999Z',
  ],
  [
    'two times override the period, which is returned unchanged',
    { period: '90d', dateFrom: '2026-02-01T06:00:00Z', dateTo: '2026-02-01T08:00:00+01:00' },
    '90d',
    '2026-02-01T06:00:00.000Z 2026-02-01T07:00:00.000Z',
    '2026-02-01T04:59:59.999Z 2026-02-01T05:59:59.999Z',
  ],
  [
    'a single date is ignored',
    { dateFrom: '2026-02-01' },
    '7d',
    '2026-03-04T00:00:00.000Z 2026-03-10T12:00:00.000Z',
    '2026-02-25T11:59:59.999Z 2026-03-03T23:59:59.999Z',
  ],
]

test.each(ranges)('%s', async (_what, parameters, period, range, previous) => {
  const now = Date.parse('2026-03-10T12:00:00Z')
  const { meta } = await readPerformance(db, anyProgram, performanceQuery.parse(parameters), now)
  expect(meta.period).toBe(period)
  expect(`${meta.dateFrom} ${meta.dateTo}`).toBe(range)
  expect(`${meta.previousPeriod.dateFrom} ${meta.previousPeriod.dateTo}`).toBe(previous)
})
