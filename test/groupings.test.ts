import { describe, expect, test } from 'vitest'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { recordSale } from '../lib/money/sales.ts'
import { readOverview } from '../lib/programs/overview.ts'
import { addPartner } from '../lib/programs/partners.ts'
import type { Campaign } from '../lib/tracking/campaign.ts'
import { countClicks, countFigures, recordClick } from '../lib/tracking/clicks.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { type EventChoice, eventTotals, statementOf } from '../lib/tracking/event-list.ts'
import {
  type Group,
  type GroupsQuery,
  groupings,
  groupsStatement,
  metrics,
  readGroups,
} from '../lib/tracking/groupings.ts'
import { recordServerLead } from '../lib/tracking/leads.ts'
import { breakdowns, chartMetrics, type OverviewQuery, overviewStatements } from '../lib/tracking/overview.ts'
import { performanceStatement } from '../lib/tracking/performance.ts'
import { setClock } from './support/clock.ts'
import { noClick, noLead, noSale } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const endpoint = await startEndpoint()
const setTime = await setClock(endpoint)
const { db, sql } = endpoint

const hourMs = 60 * 60 * 1000
const start = Date.parse('2026-03-07T00:00:00Z')
const days = 30

/** Returns random numbers from 0 to 1, which are the same in each run. */
function numbers(seed: number): () => number {
  let state = seed
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
}
const random = numbers(20_260_307)
const oneOf = <Choice>(choices: readonly Choice[]): Choice =>
  choices[Math.floor(random() * choices.length)] ?? (choices[0] as Choice)

type Name = (typeof groupings)[number]
type Values = { [Grouping in Name]?: string | undefined }
interface Fact {
  at: number
  metric: string
  amount: number
  currency?: string
  values: Values
}

await setTime(new Date(start))
const sandbox = await createSandbox(db, { AUTH_SECRET: 'secret' }, { currency: 'usd', lead_commission_cents: 150 })
const { programId } = sandbox
const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
const second = await addPartner(db, { programId, name: 'Second', email: null, code: 'second' })
const { rows: links } = await sql.query<{ id: string; code: string; partner_id: string }>(
  'select id, code, partner_id from referral_links where program_id = $1 order by id',
  [programId],
)

/** The values of a visit, from a second implementation. It uses the URL parser, while the database uses patterns. */
function valuesOf(visit: Awaited<ReturnType<typeof newVisit>>): Values {
  const page = visit.page_url ?? visit.affiliate_url
  const { origin, pathname } = new URL(page)
  return {
    country: visit.geo_country ?? undefined,
    device: visit.device_type ?? undefined,
    browser: visit.browser_name ?? undefined,
    referrer: visit.referrer_url === null ? undefined : new URL(visit.referrer_url).hostname,
    page: origin + pathname,
    ...visit.campaign,
  }
}

function newVisit() {
  const code = oneOf([sandbox.partnerCode, 'second'])
  const campaigns: (Campaign | null)[] = [
    null,
    { utm_source: 'mail', utm_campaign: 'spring' },
    { utm_source: 'Blog', utm_medium: 'post', utm_term: 'shoes', utm_content: 'top' },
    { sub1: 'a', sub2: 'ü 🛒', sub3: '0' },
  ]
  return {
    ...noClick,
    affiliate_url: `https://shop.example.com/landing?aff=${code}`,
    partner_code: code,
    page_url: oneOf([null, 'https://shop.example.com/', 'https://shop.example.com/shoes?size=9#top']),
    referrer_url: oneOf([
      null,
      'https://Blog.example.org/2026?q=1',
      'http://me@news.example.net:8080/x',
      'android-app://com.example.mail/',
    ]),
    geo_country: oneOf([null, 'US', 'US', 'DE', 'IN']),
    device_type: oneOf(['desktop', 'mobile', 'bot', null]),
    browser_name: oneOf(['Chrome', 'Firefox', null]),
    campaign: oneOf(campaigns),
  }
}

const linkOf = (code: string): Values => {
  const link = links.find((one) => one.code === code)
  return { link: link?.id, partner: link?.partner_id }
}

// Events of a month with two clock changes (New York on 8 March, Berlin on 29 March), in time order. Some are counted in between.
const facts: Fact[] = []
interface Visitor {
  clickId: string
  values: Values
  key?: string
  sales: { id: string; at: number; amount: number; currency: string }[]
}
const visitors: Visitor[] = []
const steps = Array.from({ length: 420 }, () => start + Math.floor(random() * days * 24 * hourMs))
  .concat(
    ...['2026-03-08T06:59:59.999Z', '2026-03-08T07:00:00Z', '2026-03-29T00:59:59.999Z', '2026-03-29T01:00:00Z'].map(
      Date.parse,
    ),
  )
  .toSorted((a, b) => a - b)
for (const at of steps) {
  await setTime(new Date(at))
  const kind = oneOf(['click', 'click', 'click', 'return', 'lead', 'sale', 'sale', 'refund', 'count'])
  if (kind === 'click' || kind === 'return') {
    const visit = newVisit()
    const known = kind === 'return' ? oneOf(visitors) : undefined
    const { click_id: clickId } = await recordClick(db, visit, known?.clickId ?? null, at)
    const values = { ...valuesOf(visit), ...linkOf(visit.partner_code) }
    facts.push({ at, metric: visit.device_type === 'bot' ? 'bot_clicks' : 'clicks', amount: 1, values })
    if (known && known.key === undefined) known.values = values
    if (!known) visitors.push({ clickId, values, sales: [] })
  }
  const visitor = oneOf(visitors)
  if (kind === 'lead' && visitor && visitor.key === undefined) {
    visitor.key = `user-${visitor.clickId}`
    await recordServerLead(db, keyHash, { ...noLead, customer_key: visitor.key, click_id: visitor.clickId }, null)
    facts.push({ at, metric: 'leads', amount: 1, values: visitor.values })
    facts.push({ at, metric: 'commission_cents', amount: 150, currency: 'usd', values: visitor.values })
  }
  if (kind === 'sale' && visitor) {
    visitor.key ??= `user-${visitor.clickId}`
    const sale = {
      id: `sale-${at}`,
      at,
      amount: 100 * Math.ceil(random() * 500),
      currency: oneOf(['usd', 'usd', 'eur']),
    }
    await recordSale(
      db,
      keyHash,
      {
        ...noSale,
        transaction_id: sale.id,
        customer_key: visitor.key,
        click_id: visitor.clickId,
        amount_cents: sale.amount,
        currency: sale.currency,
      },
      null,
      crypto.randomUUID(),
    )
    const { values } = visitor
    const { currency } = sale
    if (visitor.sales.length === 0) facts.push({ at, metric: 'conversions', amount: 1, values })
    facts.push(
      { at, metric: 'sales', amount: 1, currency, values },
      { at, metric: 'revenue_cents', amount: sale.amount, currency, values },
      { at, metric: 'commission_cents', amount: sale.amount / 5, currency, values },
    )
    visitor.sales.push(sale)
  }
  const [sold] = visitor?.sales ?? []
  if (kind === 'refund' && visitor && sold && sold.amount >= 500) {
    // Refunds of 500 count in the hour of their sale, no matter how late they arrive.
    const refund = { amount_cents: 500, refund_id: String(at), reason: 'refund' as const, reason_text: null }
    await refundSale(db, keyHash, sold.id, refund, crypto.randomUUID())
    sold.amount -= 500
    facts.push(
      { at: sold.at, metric: 'refunded_cents', amount: 500, currency: sold.currency, values: visitor.values },
      { at: sold.at, metric: 'commission_cents', amount: -100, currency: sold.currency, values: visitor.values },
    )
  }
  if (kind === 'count') {
    await countClicks(db, 1 + Math.floor(random() * 9))
    await countFigures(db, 1 + Math.floor(random() * 9))
  }
}

/** The overviews under test, and the people whose names they show. */
const overviews: [what: string, changes: Partial<OverviewQuery>][] = [
  ...chartMetrics.map((metric): [string, Partial<OverviewQuery>] => [`${metric} by day`, { metric }]),
  ['sales by week in another currency', { metric: 'sales', interval: 'week', currency: 'eur' }],
  ['revenue by month in another currency', { metric: 'revenue', interval: 'month', currency: 'eur' }],
  [
    'clicks by hour',
    { metric: 'clicks', interval: 'hour', dateFrom: new Date('2026-03-20'), dateTo: new Date('2026-03-22') },
  ],
  [
    'sales by hour',
    { metric: 'sales', interval: 'hour', dateFrom: new Date('2026-03-20'), dateTo: new Date('2026-03-22') },
  ],
  ['of a partner', { metric: 'clicks', filters: { partner: String(second.partnerId) } }],
  ['of a link, by sales', { metric: 'sales', filters: { link: linkOf('second').link ?? null } }],
  ['of a country', { metric: 'revenue', filters: { country: 'DE' } }],
  ['of no country', { metric: 'clicks', filters: { country: null } }],
  ['of a site, by conversion', { metric: 'conversion', filters: { referrer: 'blog.example.org' } }],
  ['of no site, on a device', { metric: 'leads', filters: { referrer: null, device: 'mobile' } }],
  ['of a page', { metric: 'commission', filters: { page: 'https://shop.example.com/shoes' } }],
  ['of a source', { metric: 'clicks', filters: { utm_source: 'mail' } }],
  [
    'of a source in a country by a partner',
    {
      metric: 'revenue',
      currency: 'eur',
      filters: { utm_source: 'Blog', country: 'US', partner: String(second.partnerId) },
    },
  ],
  ['of a value without events', { metric: 'clicks', filters: { country: 'ZZ' } }],
]
const afterAll = start + 60 * 24 * hourMs
const readAll = () =>
  Promise.all(
    overviews.map(([, changes]) =>
      readOverview(
        db,
        {
          id: programId,
          currency: 'usd',
          // Each period is compared with the one before.
          createdAt: new Date(start - 730 * 24 * hourMs),
        },
        { ...seen, ...changes },
        afterAll,
      ),
    ),
  )
const seen: OverviewQuery = {
  dateFrom: new Date('2026-03-16'),
  dateTo: new Date('2026-03-30'),
  currency: 'usd',
  filters: {},
}
// This runs once with some uncounted events, and once after all are counted.
const whileCounting = await readAll()
await Promise.all([countClicks(db, 20), countFigures(db, 20), countClicks(db, 1000), countFigures(db, 1000)])
while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
await setTime(new Date())

const whole: GroupsQuery = {
  groupBy: undefined,
  from: '2026-03-07',
  to: '2026-04-05',
  timeZone: 'UTC',
  interval: undefined,
  metrics,
  sort: 'clicks',
  order: 'desc',
  limit: 100,
  currency: undefined,
}

/** One formatter per time zone, because creating a formatter takes longer than using it. */
const clocks = new Map<string, Intl.DateTimeFormat>()

/** The local time of a moment, `YYYY-MM-DDTHH:MM`, by the runtime's own time zone tables. */
function wallClock(at: number, timeZone: string): string {
  const clock =
    clocks.get(timeZone) ??
    new Intl.DateTimeFormat('sv-SE', {
      timeZone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
    })
  clocks.set(timeZone, clock)
  return clock.format(at).replace(' ', 'T')
}

const digits = (value: number) => String(Math.floor(Math.abs(value))).padStart(2, '0')

/**
 * The start of the interval that contains a moment: the day, the Monday of the week, the first of the month, or the hour with its offset.
 */
function startOf(at: number, { timeZone, interval }: GroupsQuery): string {
  const clock = wallClock(at, timeZone)
  const day = clock.slice(0, 10)
  if (interval === 'month') return `${day.slice(0, 7)}-01`
  if (interval === 'week') {
    const date = new Date(`${day}T00:00:00Z`)
    date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7))
    return date.toISOString().slice(0, 10)
  }
  if (interval !== 'hour') return day
  const offset = Math.round((Date.parse(`${clock}Z`) - Math.floor(at / 60_000) * 60_000) / 60_000)
  return `${clock.slice(0, 13)}:00:00${offset < 0 ? '-' : '+'}${digits(offset / 60)}:${digits(offset % 60)}`
}

function figuresOf(some: Fact[], { metrics: asked, currency = 'usd' }: GroupsQuery) {
  const sum = (metric: string) =>
    some
      .filter((fact) => fact.metric === metric && (fact.currency ?? currency) === currency)
      .reduce((total, { amount }) => total + amount, 0)
  const figures: Record<string, number> = {}
  for (const metric of asked) figures[metric] = sum(metric)
  if (asked.includes('conversion_rate'))
    figures['conversion_rate'] = sum('clicks') && Math.round((sum('conversions') / sum('clicks')) * 10_000) / 100
  if (asked.includes('average_order_cents'))
    figures['average_order_cents'] = sum('conversions') && Math.round(sum('revenue_cents') / sum('conversions'))
  return figures
}

/** The figures of each value, computed from the individual events. */
function naive(query: GroupsQuery) {
  const inRange = facts.filter(({ at }) => {
    const day = wallClock(at, query.timeZone).slice(0, 10)
    return day >= query.from && day <= query.to
  })
  const { groupBy } = query
  const byValue = groupBy ? Map.groupBy(inRange, ({ values }) => values[groupBy] ?? null) : new Map<string, Fact[]>()
  const cut = (some: Fact[], starts: string[]) => {
    const byStart = Map.groupBy(some, ({ at }) => startOf(at, query))
    return starts.map((begins) => ({ start: begins, ...figuresOf(byStart.get(begins) ?? [], query) }))
  }
  return {
    starts: [...new Set(inRange.map(({ at }) => startOf(at, query)))],
    total: (starts: string[]) => ({
      ...figuresOf(inRange, query),
      ...(query.interval && { intervals: cut(inRange, starts) }),
    }),
    groups: (starts: string[]) =>
      [...byValue]
        .map(([value, some]) => ({
          value,
          ...figuresOf(some, query),
          ...(query.interval && { intervals: cut(some, starts) }),
        }))
        .filter((group) =>
          Object.entries(group).some(
            ([name, figure]) => name !== 'value' && typeof figure === 'number' && figure !== 0,
          ),
        ),
  }
}

const byValue = <Row extends { value: string | null }>(rows: Row[]) =>
  rows.toSorted((a, b) => (`${a.value}` < `${b.value}` ? -1 : 1))
function withoutLabel(group: Group): Group {
  const { label, ...others } = group
  return label === undefined ? group : others
}

async function expectNaive(changes: Partial<GroupsQuery>) {
  const query = { ...whole, ...changes }
  const read = await readGroups(db, programId, query)
  const starts = read.total.intervals?.map(({ start: begins }) => begins) ?? []
  const expected = naive(query)
  expect(read.total).toEqual(expected.total(starts))
  expect(byValue(read.groups.map(withoutLabel))).toEqual(byValue(expected.groups(starts)))
  if (query.interval) expect(starts).toEqual(expect.arrayContaining(expected.starts))
  return read
}

const zones = [
  'UTC',
  'America/New_York',
  'Europe/Berlin',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'Pacific/Auckland',
  'Pacific/Chatham',
  'America/St_Johns',
  'Australia/Lord_Howe',
  'America/Havana',
  'Africa/Cairo',
]

describe('the figures equal those of a second implementation', () => {
  test.for(groupings)('by %s', async (groupBy) => {
    await expectNaive({ groupBy })
    await expectNaive({ groupBy, currency: 'eur', interval: 'week' })
  })

  test.for(zones)('in the time zone %s', async (timeZone) => {
    await expectNaive({ timeZone })
    for (const interval of ['day', 'week', 'month'] as const) await expectNaive({ timeZone, interval })
    await expectNaive({ timeZone, interval: 'day', groupBy: 'country', from: '2026-03-08', to: '2026-03-29' })
    if (timeZone !== 'Australia/Lord_Howe') await expectNaive({ timeZone, interval: 'hour', groupBy: 'device' })
  })

  test('for one day, and for days before and after all events', async () => {
    await expectNaive({
      from: '2026-03-08',
      to: '2026-03-08',
      timeZone: 'America/New_York',
      interval: 'hour',
      groupBy: 'link',
    })
    await expectNaive({ from: '2026-01-01', to: '2026-02-01', interval: 'week', groupBy: 'partner' })
    await expectNaive({ from: '2026-01-01', to: '2026-12-31', interval: 'month', groupBy: 'partner' })
  })

  test.for([[['clicks']], [['revenue_cents', 'leads']], [['conversion_rate']], [['average_order_cents']]] as const)(
    'with only the metrics %s',
    async ([asked]) => {
      await expectNaive({ metrics: asked, sort: asked[0], groupBy: 'country', interval: 'week' })
    },
  )
})

const afterCounting = await readAll()

const within = (some: Fact[], begins: number, ends: number) => some.filter(({ at }) => at >= begins && at < ends)

const amounts = {
  clicks: 'clicks',
  leads: 'leads',
  sales: 'sales',
  revenue: 'revenue_cents',
  commission: 'commission_cents',
  conversion: 'conversions',
} as const

describe.each([
  ['before counting', whileCounting],
  ['after counting', afterCounting],
])('the overview matches a second calculation, %s', (_when, read) => {
  test.for(overviews.map(([what, changes], index) => [what, changes, index] as const))('%s', ([, changes, index]) => {
    const query = { ...seen, ...changes }
    const overview = read[index]?.overview
    if (!overview || !query.dateFrom || !query.dateTo) throw new Error('no overview')
    const from = query.dateFrom.getTime()
    const until = query.dateTo.getTime() + 24 * hourMs
    const length = until - from
    const fitting = facts.filter(({ values }) =>
      breakdowns.every((name) => query.filters[name] === undefined || (values[name] ?? null) === query.filters[name]),
    )
    const sum = (some: Fact[], metric: string) =>
      some
        .filter(
          (fact) =>
            fact.metric === metric && (metric === 'sales' || (fact.currency ?? query.currency) === query.currency),
        )
        .reduce((total, { amount }) => total + amount, 0)
    const figures = (some: Fact[]) =>
      Object.fromEntries(Object.keys(overview.total).map((name) => [name, sum(some, name)]))
    const valueIn = (some: Fact[]) => {
      const clicks = sum(some, 'clicks')
      if (query.metric === 'conversion') return clicks && Math.round((sum(some, 'conversions') / clicks) * 10_000) / 100
      return sum(some, amounts[query.metric ?? 'clicks'])
    }
    const current = within(fitting, from, until)
    expect(overview.total).toEqual(figures(current))
    expect(overview.before).toEqual(figures(within(fitting, from - length, from)))
    expect(overview.points.map(({ value, before }) => [value, before])).toEqual(
      overview.points.map(({ start: begins }, at) => {
        const [first, last] = [begins.getTime(), overview.points[at + 1]?.start.getTime() ?? until]
        return [valueIn(within(fitting, first, last)), valueIn(within(fitting, first - length, last - length))]
      }),
    )
    for (const name of breakdowns) {
      const expected = [...Map.groupBy(current, ({ values }) => values[name] ?? null)]
        .map(([value, some]) => ({
          value,
          amount: sum(some, amounts[overview.metric]),
          clicks: overview.metric === 'conversion' || overview.metric === 'clicks' ? sum(some, 'clicks') : 0,
        }))
        .filter(({ amount, clicks }) => amount !== 0 || clicks !== 0)
      const { rows, count } = overview.breakdowns[name]
      expect([name, byValue(rows.map(({ value, amount, clicks }) => ({ value, amount, clicks })))]).toEqual([
        name,
        byValue(expected),
      ])
      expect([name, count]).toEqual([name, expected.length])
      const sorted = rows.map(({ amount }) => amount)
      expect(sorted).toEqual(sorted.toSorted((a, b) => b - a))
    }
  })
})

test('the footer of the event list counts all clicks of a filter', async () => {
  const range = { from: new Date('2026-03-11T23:00:00Z'), to: new Date('2026-03-23T22:15:00Z') }
  const [link] = links
  const partner = link?.partner_id ?? ''
  const ofPartner = { partner }
  const choices: [Partial<EventChoice>, condition: string][] = [
    [{}, 'true'],
    [ofPartner, `l.partner_id = ${partner}`],
    [{ code: link?.code }, `l.id = ${link?.id}`],
    [{ country: 'DE' }, `e.geo_country = 'DE'`],
    [{ country: 'DE', ...ofPartner }, `e.geo_country = 'DE' and l.partner_id = ${partner}`],
    [{ ...range, ...ofPartner }, `e.click_timestamp >= $2 and e.click_timestamp < $3 and l.partner_id = ${partner}`],
  ]
  for (const [choice, condition] of choices) {
    const { rows } = await sql.query<{ clicks: string }>(
      `select count(*) filter (where $2::timestamptz < $3::timestamptz) as clicks from affiliate_click_events e
      join referral_links l on l.id = e.link_id where e.program_id = $1 and not e.is_test and ${condition}`,
      [programId, range.from, range.to],
    )
    const [totals] = await eventTotals(db, { programId, isTest: false, eventType: 'click', ...choice })
    expect([condition, totals?.rows]).toEqual([condition, Number(rows[0]?.clicks)])
  }
})

const starts = async (changes: Partial<GroupsQuery>) =>
  (await readGroups(db, programId, { ...whole, ...changes })).total.intervals?.map(({ start: begins }) => begins)

test.for(['Europe/Berlin', 'America/New_York'])(
  "days are in UTC even if the session's time zone is %s",
  async (zone) => {
    const filters = { country: 'DE', device: 'mobile' }
    const statements = [
      performanceStatement(programId, { period: 'all' }, Date.parse('2026-04-06T12:20:00Z')),
      performanceStatement(programId, { dateFrom: seen.dateFrom, dateTo: seen.dateTo }, start),
      ...(['day', 'month'] as const).map((interval) =>
        groupsStatement(programId, { ...whole, groupBy: 'country', interval }),
      ),
      ...[{}, filters].flatMap((filter) =>
        overviewStatements(
          { id: programId, createdAt: new Date(start) },
          { ...seen, filters: filter },
          Date.parse('2026-03-30T12:20:00Z'),
        ),
      ),
      statementOf('click', { programId, isTest: false, country: 'DE' }, { limit: 1000 }),
    ]
    const readAs = async (session: string) => {
      await sql.query(`set timezone to '${session}'`)
      const results = []
      for (const statement of statements) {
        const { sql: text, parameters } = statement.compile()
        const { rows } = await sql.query<object>(text, [...parameters])
        results.push(rows)
      }
      await sql.query('reset timezone')
      return results
    }
    const inUtc = await readAs('UTC')
    expect(inUtc.map(({ length }) => length > 0)).not.toContain(false)
    expect(await readAs(zone)).toEqual(inUtc)
  },
)

test('intervals follow the time zone and have no gaps', async () => {
  expect(await starts({ interval: 'week', from: '2026-03-11', to: '2026-03-23' })).toEqual([
    '2026-03-09',
    '2026-03-16',
    '2026-03-23',
  ])
  expect(await starts({ interval: 'month', from: '2025-12-31', to: '2026-02-01' })).toEqual([
    '2025-12-01',
    '2026-01-01',
    '2026-02-01',
  ])
  const newYork = { interval: 'hour', timeZone: 'America/New_York' } as const
  expect((await starts({ ...newYork, from: '2026-03-08', to: '2026-03-08' }))?.slice(0, 4)).toEqual([
    '2026-03-08T00:00:00-05:00',
    '2026-03-08T01:00:00-05:00',
    '2026-03-08T03:00:00-04:00',
    '2026-03-08T04:00:00-04:00',
  ])
  const twice = await starts({ ...newYork, from: '2026-11-01', to: '2026-11-01' })
  expect(twice).toHaveLength(25)
  expect(twice?.slice(1, 3)).toEqual(['2026-11-01T01:00:00-04:00', '2026-11-01T01:00:00-05:00'])
  // On that day midnight happens twice in Havana and not at all in Cairo.
  const lengths = async (timeZone: string, day: string) =>
    (await starts({ interval: 'hour', timeZone, from: day, to: day }))?.length
  expect(await lengths('America/Havana', '2026-11-01')).toBe(25)
  expect(await lengths('Africa/Cairo', '2026-04-24')).toBe(23)
  expect(await starts({ interval: 'day', timeZone: 'Africa/Cairo', from: '2026-04-23', to: '2026-04-26' })).toEqual([
    '2026-04-23',
    '2026-04-24',
    '2026-04-25',
    '2026-04-26',
  ])
})

test.for(metrics)('the top values by %s, in both directions', async (sort) => {
  const of = async (order: 'asc' | 'desc', limit: number) =>
    (await readGroups(db, programId, { ...whole, groupBy: 'country', sort, order, limit })).groups
  const all = await of('desc', 100)
  const sorted = all.map((group) => group[sort] ?? 0)
  expect(sorted).toEqual(sorted.toSorted((a, b) => b - a))
  expect(await of('desc', 2)).toEqual(all.slice(0, 2))
  expect((await of('asc', 1)).map((group) => group[sort])).toEqual([sorted.at(-1)])
})

const labels = async (groupBy: Name) =>
  (await readGroups(db, programId, { ...whole, groupBy })).groups.map(({ value, label }) => [value, label])

test('the database knows every time zone of the runtime', async () => {
  const names = ['UTC', ...Intl.supportedValuesOf('timeZone')]
  const { rows } = await sql.query(
    'select count((now() at time zone name)::text)::int as zones from unnest($1::text[]) name',
    [names],
  )
  expect(rows).toEqual([{ zones: names.length }])
})

test('partners have their names, and links their codes', async () => {
  expect(await labels('partner')).toContainEqual([String(second.partnerId), 'Second'])
  expect(await labels('link')).toContainEqual([linkOf('second').link, 'second'])
  expect((await labels('country'))[0]?.[1]).toBeUndefined()
})

test('the totals match the rows, which the audit checks', async () => {
  expect(await findDifferences(sql)).toEqual([])
})

test('a refund after an erasure counts for the same values as its sale', async () => {
  const [buyer] = visitors.filter(
    ({ key, sales }) => key && (sales[0]?.amount ?? 0) > 1000 && sales[0]?.currency === 'usd',
  )
  if (!buyer?.key || !buyer.sales[0]) throw new Error('nobody bought')
  await eraseCustomer(db, programId, { customer_key: buyer.key })
  const read = () => readGroups(db, programId, { ...whole, groupBy: 'country' })
  const before = await read()
  const refund = { amount_cents: 500, refund_id: 'late', reason: 'refund' as const, reason_text: null }
  await refundSale(db, keyHash, buyer.sales[0].id, refund, crypto.randomUUID())
  while ((await countFigures(db, 1000)) > 0);
  const after = await read()
  const changed = (group: Group) => group.value === (buyer.values.country ?? null)
  expect(after.groups.filter(changed).map(({ refunded_cents }) => refunded_cents)).toEqual(
    before.groups.filter(changed).map(({ refunded_cents = 0 }) => refunded_cents + 500),
  )
  expect(byValue(after.groups.filter((group) => !changed(group)))).toEqual(
    byValue(before.groups.filter((group) => !changed(group))),
  )
  expect(await findDifferences(sql)).toEqual([])
})

test('a day keeps 200 separate values, and all others share one row', async () => {
  await setTime(new Date('2026-07-01T12:00:00Z'))
  const other = await createSandbox(db, { AUTH_SECRET: 'secret' })
  const click = async (sub1: string) => {
    const visit = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: other.partnerCode }
    await recordClick(db, { ...visit, campaign: { sub1 } }, null, Date.parse('2026-07-01T12:00:00Z'))
  }
  for (let n = 0; n < 150; n++) await click(`a${n}`)
  while ((await countClicks(db, 1000)) > 0);
  for (let n = 0; n < 80; n++) await click(`b${n}`)
  // A known value keeps its row. Of several new values, the most frequent one gets a row.
  await click('a0')
  await click('b79')
  while ((await countClicks(db, 1000)) > 0);
  const { groups } = await readGroups(db, other.programId, {
    ...whole,
    groupBy: 'sub1',
    from: '2026-07-01',
    to: '2026-07-01',
    metrics: ['clicks'],
    limit: 500,
  })
  expect(groups).toHaveLength(201)
  expect(groups.slice(0, 3)).toEqual([
    { value: null, is_rest: true, clicks: 30 },
    { value: 'a0', clicks: 2 },
    { value: 'b79', clicks: 2 },
  ])
  await setTime(new Date())
})

test('an address adds at most ten values of a grouping per count, across all programs', async () => {
  const pair = [await createSandbox(db, { AUTH_SECRET: 'secret' }), await createSandbox(db, { AUTH_SECRET: 'secret' })]
  const click = async (n: number, visitor: number | null) => {
    const visit = {
      ...noClick,
      affiliate_url: 'https://shop.example.com/',
      partner_code: pair[n % 2]?.partnerCode ?? '',
    }
    await recordClick(db, { ...visit, campaign: { sub1: `${visitor} ${n}` }, visitor }, null)
  }
  for (const visitor of [1, 2, null]) for (let n = 0; n < 14; n++) await click(n, visitor)
  while ((await countClicks(db, 1000)) > 0);
  const { rows } = await sql.query(
    `select split_part(value, ' ', 1) as visitor, count(*) filter (where value <> '')::int as of_values, sum(clicks)::int as clicks
    from grouped_totals where program_id = any ($1) and grouping_name = 'sub1' and span = 'day' group by 1 order by 1`,
    [pair.map((one) => one.programId)],
  )
  expect(rows).toEqual([
    { visitor: '', of_values: 0, clicks: 8 },
    { visitor: '1', of_values: 10, clicks: 10 },
    { visitor: '2', of_values: 10, clicks: 10 },
    { visitor: 'null', of_values: 14, clicks: 14 },
  ])
  expect(await findDifferences(sql)).toEqual([])
})

test('a paid lead and a first purchase change only their own figures', async () => {
  const other = await createSandbox(db, { AUTH_SECRET: 'secret' }, { lead_commission_cents: 150 })
  const otherKey = await apiKeyHash(`Bearer ${other.apiKey}`)
  const visit = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: other.partnerCode }
  const { click_id: clickId } = await recordClick(db, visit, null, Date.now())
  const waiting = async () =>
    (
      await sql.query(
        `select sum(leads)::int as leads, sum(conversions)::int as conversions, sum(sales)::int as sales, sum(revenue_cents)::int as revenue_cents,
          sum(commission_cents)::int as commission_cents from uncounted_figures where program_id = $1`,
        [other.programId],
      )
    ).rows
  await recordServerLead(db, otherKey, { ...noLead, customer_key: 'ann', click_id: clickId }, null)
  expect(await waiting()).toEqual([{ leads: 1, conversions: 0, sales: 0, revenue_cents: 0, commission_cents: 150 }])
  while ((await countFigures(db, 1000)) > 0);
  const sale = {
    ...noSale,
    transaction_id: 'first',
    customer_key: 'ann',
    click_id: null,
    amount_cents: 5000,
    currency: 'usd',
  }
  await recordSale(db, otherKey, sale, null, crypto.randomUUID())
  expect(await waiting()).toEqual([{ leads: 0, conversions: 1, sales: 1, revenue_cents: 5000, commission_cents: 1000 }])
})
