import { createServer } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import * as z from 'zod'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { ClickHouse } from '../lib/click-house.ts'
import { explain } from '../lib/commands/command.ts'
import { call } from '../lib/database.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { recordSale } from '../lib/money/sales.ts'
import { readOverview } from '../lib/programs/overview.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { compareClicks } from '../lib/tracking/click-comparison.ts'
import { sendClicks, startSink } from '../lib/tracking/click-sink.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'
import { listedEvents } from '../lib/tracking/event-list.ts'
import { listEvents, readEventPage } from '../lib/tracking/events.ts'
import { type GroupsQuery, metrics, readGroups } from '../lib/tracking/groupings.ts'
import type { OverviewQuery } from '../lib/tracking/overview.ts'
import { deleteExpiredCustomers, dropClickMonth } from '../lib/tracking/retention.ts'
import { setClock } from './support/clock.ts'
import { startClickHouse } from './support/click-house.ts'
import { noClick, noSale } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

// The answers of ClickHouse are recorded. See test/support/click-house.ts.
const endpoint = await startEndpoint()
const setTime = await setClock(endpoint)
const { db, sql } = endpoint
const clickHouse = await startClickHouse()
const { server } = clickHouse

const hourMs = 60 * 60 * 1000
const start = Date.parse('2026-03-01T00:00:00Z')
await setTime(new Date(start))
await sql.query('alter table affiliate_click_events alter column created_at set default clock.now()')
const sandbox = await createSandbox(db, { AUTH_SECRET: 'secret' })
const { programId } = sandbox
const second = await addPartner(db, { programId, name: 'Second', email: null, code: 'second' })
const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)

const visits = [
  { geo_country: 'DE', device_type: 'mobile', campaign: { utm_source: 'mail', sub1: "it's \\ ü" } },
  { geo_country: 'US', device_type: 'desktop', referrer_url: 'https://blog.example.org/a?b', browser_name: 'Firefox' },
  { geo_country: 'DE', device_type: 'bot' },
  { page_url: 'https://shop.example.com/shoes?size=9', campaign: { utm_source: 'blog' } },
  { geo_country: 'IN', device_type: 'mobile', browser_name: 'Chrome' },
] as const

/** Records a click with fixed ids, so that the rows for ClickHouse are the same in each run. */
async function click(n: number, at: Date) {
  const { campaign, ...visit } = { campaign: null, ...visits[n % visits.length] }
  await setTime(at)
  await db.query(
    call('track_click', {
      ...noClick,
      ...visit,
      affiliate_url: 'https://shop.example.com/?aff=code',
      campaign: campaign && JSON.stringify(campaign),
      aff: n % 3 === 0 ? 'second' : sandbox.partnerCode,
      named_program_id: programId,
      host: null,
      existing_click_id: null,
      click_id_prefix: `cust_${at.getTime()}_${String(n).padStart(20, '0')}`,
      at,
      event_id: 1000 + n,
      visitor: 7,
    }),
  )
}

const clickId = (n: number, at: Date) => `cust_${at.getTime()}_${String(n).padStart(20, '0')}${programId}`
const timeOf = (n: number) => new Date(start + n * 19 * hourMs + 137)
const count = async () => {
  while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
}
const send = async () => {
  let sent = 0
  for (let more = true; more;) {
    const part = await sendClicks(db, server, 100)
    sent += part.sent
    more = part.more
  }
  return sent
}

for (let n = 0; n < 36; n++) await click(n, timeOf(n))
await recordSale(
  db,
  keyHash,
  {
    ...noSale,
    transaction_id: 'order-1',
    customer_key: 'user-1',
    click_id: clickId(30, timeOf(30)),
    amount_cents: 4900,
    currency: 'usd',
  },
  null,
  crypto.randomUUID(),
)
await count()
const now = timeOf(36).getTime()

const program = { id: programId, currency: 'usd', createdAt: new Date(start) }
const range: OverviewQuery = {
  dateFrom: new Date('2026-03-15'),
  dateTo: new Date('2026-03-29'),
  currency: 'usd',
  filters: {},
}
const overviews: Partial<OverviewQuery>[] = [
  {},
  { metric: 'clicks', interval: 'week' },
  { metric: 'conversion', dateFrom: undefined, dateTo: undefined, period: 'all' },
  { metric: 'clicks', interval: 'hour', dateFrom: new Date('2026-03-20'), dateTo: new Date('2026-03-22') },
  { metric: 'clicks', filters: { country: 'DE' } },
  { metric: 'clicks', filters: { country: null } },
  { metric: 'clicks', filters: { sub1: "it's \\ ü" } },
  { metric: 'sales', filters: { partner: String(second.partnerId) } },
  { metric: 'clicks', filters: { country: 'DE', device: 'mobile' } },
]
const whole: GroupsQuery = {
  groupBy: undefined,
  from: '2026-03-07',
  to: '2026-03-30',
  timeZone: 'UTC',
  interval: undefined,
  metrics,
  sort: 'clicks',
  order: 'desc',
  limit: 3,
  currency: undefined,
}
const groups: Partial<GroupsQuery>[] = [
  ...(['partner', 'country', 'referrer', 'page', 'sub1'] as const).map((groupBy) => ({ groupBy })),
  ...(['hour', 'day', 'week', 'month'] as const).map((interval) => ({
    interval,
    groupBy: 'country' as const,
    timeZone: 'America/New_York',
    from: '2026-03-08',
  })),
  { groupBy: 'device', timeZone: 'Asia/Kathmandu', interval: 'day', sort: 'conversion_rate', order: 'asc' },
  { metrics: ['leads'], sort: 'leads' },
]
const live = { programId, isTest: false }
const lists = [
  { choice: live, part: { limit: 10 } },
  { choice: { ...live, partner: 'second', country: 'DE' }, part: { limit: 10 } },
  { choice: { ...live, code: 'second', from: timeOf(4), to: timeOf(30) }, part: { limit: 3 } },
  { choice: live, part: { limit: 4, before: { at_us: timeOf(20).getTime() * 1000, event_type: 'lead', id: 5 } } },
  { choice: live, part: { limit: 4, after: { at_us: timeOf(20).getTime() * 1000, event_type: 'click', id: 1020 } } },
  { choice: { ...live, eventType: 'conversion' }, part: { limit: 4 } },
  { choice: { ...live, search: 'user-1' }, part: { limit: 4 } },
  { choice: { ...live, isTest: true }, part: { limit: 4 } },
] as const
const after = { at_us: timeOf(20).getTime() * 1000, event_type: 'click', id: 1020 } as const

/** All reads whose clicks can come from ClickHouse: one overview, grouping or list each. They run one after another, as in the recording. */
async function readAll(from?: typeof server) {
  const read = []
  for (const changes of overviews) read.push(await readOverview(db, program, { ...range, ...changes }, now, from))
  for (const changes of groups) read.push(await readGroups(db, programId, { ...whole, ...changes }, from))
  for (const { choice, part } of lists) read.push(await listedEvents(db, choice, part, from))
  return [...read, await listEvents(db, programId, { after, dateFrom: timeOf(2), dateTo: timeOf(30) }, 5, from)]
}
const readSome = async (from?: typeof server) => [
  await readOverview(db, program, { ...range, ...overviews[1] }, now, from),
  await readGroups(db, programId, { ...whole, groupBy: 'country', interval: 'day' }, from),
  await listedEvents(db, live, { limit: 3 }, from),
]

async function expectTheSame(read: (from?: typeof server) => Promise<unknown> = readSome) {
  expect(await read(server)).toEqual(await read())
  expect(clickHouse.unknown).toEqual([])
}

const compare = async () => {
  const later = new Date('2026-05-01')
  await setTime(later)
  const { findings } = await compareClicks(db, server, later.getTime())
  return findings.map(({ subject, found, expected }) => [subject, found, expected])
}

describe('clicks in ClickHouse', () => {
  test('reads use Postgres until all earlier clicks are copied', async () => {
    const before = await readSome()
    expect(await readSome(server)).toEqual(before)
    expect((await sendClicks(db, server, 20)).more).toBe(true)
    // Each call queues only a part of the totals, because a program can have millions.
    expect((await sql.query('select from unsent_counts')).rowCount).toBe(0)
    expect(await readSome(server)).toEqual(before)
    expect(await send()).toBeGreaterThan(36)
    expect(await send()).toBe(0)
  })

  test('overviews, groupings and lists are the same from both databases', async () => {
    const answered = clickHouse.answered()
    await expectTheSame(readAll)
    // The overview with two filters, three lists and one grouping have nothing to read there.
    expect(clickHouse.answered() - answered).toBeGreaterThan(2 * (overviews.length + groups.length + lists.length - 5))
    const page = { pageSize: 4, page: 2 }
    expect((await readEventPage(db, programId, page, server)).data.map(({ id }) => id)).toEqual([
      1032, 1031, 1030, 1029,
    ])
  })

  test('figures say up to when they are complete while clicks are waiting', async () => {
    await click(40, new Date(now))
    const read = async () => {
      const { overview, clicksUntil } = await readOverview(db, program, { ...range, ...overviews[1] }, now, server)
      return { clicks: overview.total.clicks, clicksUntil }
    }
    const exact = await read()
    expect(exact.clicksUntil).toBeUndefined()
    await count()
    const late = await read()
    expect(late.clicks).toBe(exact.clicks - 1)
    expect(late.clicksUntil?.getTime()).toBeLessThan(now)
    expect(await readGroups(db, programId, whole, server)).toMatchObject({ clicksUntil: late.clicksUntil })
    // A list has the waiting clicks too.
    const [first] = await listEvents(db, programId, {}, 1, server)
    expect(first?.event.id).toBe(1040)
    await send()
    await expectTheSame()
  })

  test('an outage delays clicks and loses none', async () => {
    clickHouse.fault = { of: /./, how: 'refuse' }
    await click(41, new Date(now + hourMs))
    await count()
    const error: unknown = await send().catch((thrown: unknown) => thrown)
    expect(explain(error)).toBe(
      'ClickHouse did not answer: fetch failed. Check CLICKHOUSE_URL and CLICKHOUSE_PASSWORD.',
    )
    await expectTheSame()
    // This batch arrives, but its answer is lost. Then it is sent again.
    for (const of of [/INTO svc_clicks/, /INTO svc_counts/, /INTO svc_progress/]) {
      clickHouse.fault = { of, how: 'lose' }
      await expect(send()).rejects.toThrow()
    }
    clickHouse.fault = undefined
    await send()
    await expectTheSame()
    expect(await compare()).toEqual([])
  })

  test('if the server hangs, only one read waits for it', async () => {
    let requests = 0
    const silent = createServer(() => (requests += 1))
    onTestFinished(() => void silent.close())
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const { port } = z.object({ port: z.number() }).parse(silent.address())
    const hanging = new ClickHouse(`http://svc@127.0.0.1:${port}/svc`, '')
    expect(await readSome(hanging)).toEqual(await readSome())
    expect(requests).toBe(1)
  })

  test('an erasure removes the details there, and the earlier rows', async () => {
    const at = timeOf(5)
    await sql.query(`select erase_clicks($1, null, $2, $3, null, 'cust_1')`, [programId, clickId(5, at), at])
    await send()
    await expectTheSame()
    const rows = await server.read('SELECT event, origin FROM svc_clicks WHERE id = {id:UInt64}', { id: 1005 })
    expect(rows).toEqual([{ event: expect.not.stringContaining('shop.example.com'), origin: {} }])
  })

  test('test clicks and the hash of the visitor stay in Postgres', async () => {
    const rows = await server.read(
      "SELECT countIf(position(event, 'visitor') > 0) AS n, uniq(id) AS ids FROM svc_clicks",
      {},
    )
    expect(rows).toEqual([{ n: 0, ids: 38 }])
  })

  test('the comparison finds a missing click and a wrong total', async () => {
    await sql.query('delete from affiliate_click_events where id = 1006')
    const addToTotal = (more: number) =>
      sql.query(
        `update grouped_quarters set sums[cardinality(sums)] = sums[cardinality(sums)] + $1
        where grouping_name = 'all' and metric = 'clicks' and day = '2026-03-09'`,
        [more],
      )
    await addToTotal(1)
    expect(await compare()).toEqual([
      ['clicks by all', '22 rows, sum 31', '22 rows, sum 32'],
      ['clicks of 2026-03', '38 rows, sum 38711', '37 rows, sum 37705'],
    ])
    await addToTotal(-1)
    await startSink(db, server)
    await send()
    expect(await compare()).toEqual([])
  })

  test('the comparison waits longer for the server than a page does', async () => {
    const slow = createServer((_, response) => void setTimeout(() => response.end(), 2200))
    onTestFinished(() => void slow.close())
    await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve))
    const { port } = z.object({ port: z.number() }).parse(slow.address())
    const later = Date.parse('2026-05-01')
    const { findings } = await compareClicks(db, new ClickHouse(`http://svc@127.0.0.1:${port}/svc`, ''), later)
    expect(findings).toContainEqual(expect.objectContaining({ subject: 'clicks of 2026-03', found: '0 rows, sum 0' }))
  })

  test('a month that Postgres drops is deleted there too', async () => {
    await setTime(new Date('2026-07-01'))
    await sql.query('select make_event_partitions(0)')
    while ((await deleteExpiredCustomers(db, 1000)).more);
    expect(await dropClickMonth(db, 1)).toBe('affiliate_click_events_2026_03')
    await send()
    expect(await server.read('SELECT count() AS clicks FROM svc_clicks FINAL', {})).toEqual([{ clicks: 0 }])
    await expectTheSame()
  })
})
