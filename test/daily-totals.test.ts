import { NeonDbError } from '@neondatabase/serverless'
import { expect, test } from 'vitest'
import approving from '../functions/approve-commissions.ts'
import counting from '../functions/count-clicks.ts'
import folding from '../functions/fold-daily-totals.ts'
import notifying from '../functions/write-daily-notifications.ts'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { workOnPrograms } from '../lib/batches.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { countClicks, countFigures, recordClick } from '../lib/tracking/clicks.ts'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { readPerformance } from '../lib/tracking/performance.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { reviewAndCredit } from '../lib/money/reviews.ts'
import { recordSale } from '../lib/money/sales.ts'
import { setClock } from './support/clock.ts'
import { createLedgerProgram, noClick, noSale } from './support/ledger.ts'
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

test("concurrent folds and writes don't lose counts", async () => {
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
      ...(index % 6 === 0
        ? [countClicks(db, 9), countClicks(db, 1000), foldDailyTotals(db, 7), foldDailyTotals(db, 1000)]
        : []),
    ]).flat(),
  )
  while ((await countClicks(db, 10)) > 0);
  while ((await foldDailyTotals(db, 10)) > 0);

  const { rows: days } = await sql.query(
    `select t.clicks, t.leads, t.conversions, m.sales, m.revenue_cents, m.commission_cents,
      m.refunded_cents
    from daily_totals t join daily_money m using (program_id, day) where day = utc_day($1)`,
    [yesterday],
  )
  expect(days).toEqual([
    {
      clicks: '120',
      leads: '0',
      conversions: '60',
      sales: '60',
      revenue_cents: '60000',
      commission_cents: '6000',
      refunded_cents: '30000',
    },
  ])
  expect(await count('select sum(clicks)::int as count from daily_totals where day = utc_day(now())')).toBe(60)
  expect(await findDifferences(sql)).toEqual([])
})

test.for(['drop-before', 'drop-after', 'kill-backend'] as const)(
  'an interrupted count (%s) counts each click once',
  async (action) => {
    const { programId, partnerCode } = await createSandbox(db, { AUTH_SECRET: 'secret' })
    await Promise.all(Array.from({ length: 5 }, () => recordClick(db, { ...click, partner_code: partnerCode }, null)))
    endpoint.neon.inject({ action, matching: 'count_clicks' })
    await expect(countClicks(db, 1000)).rejects.toThrow()
    expect(await findDifferences(sql, programId)).toEqual([])
    expect(await countClicks(db, 1000)).toBe(action === 'drop-after' ? 0 : 5)
    expect(await findDifferences(sql, programId)).toEqual([])
  },
)

test('a range that splits days and hours stays complete during counts and folds', async () => {
  const { programId, partnerCode } = await createSandbox(db, { AUTH_SECRET: 'secret' })
  const program = { id: programId, currency: 'usd', createdAt: new Date() }
  const dateTo = new Date()
  const dateFrom = new Date(dateTo.getTime() - 26 * 60 * 60 * 1000)
  let begun = 0
  let done = 0
  const clickOnce = async (_: unknown, index: number) => {
    begun++
    await recordClick(db, { ...click, partner_code: partnerCode }, null, dateFrom.getTime() + (index % 26) * 3_600_000)
    done++
  }
  const read = async () => {
    const atLeast = done
    const { metrics } = await readPerformance(db, program, { dateFrom, dateTo })
    expect(metrics.totalClicks).toBeGreaterThanOrEqual(atLeast)
    expect(metrics.totalClicks).toBeLessThanOrEqual(begun)
  }
  const move = (limit: number) => [countClicks(db, limit), foldDailyTotals(db, limit)]
  for (let round = 0; round < 10; round++) {
    const clicks = Array.from({ length: 26 }, clickOnce)
    await Promise.all([...clicks, ...move(5), read(), ...move(1000), read(), read()])
  }
  const { metrics, data } = await readPerformance(db, program, { dateFrom, dateTo })
  expect(metrics.totalClicks).toBe(260)
  expect(data.reduce((sum, { clicks }) => sum + clicks, 0)).toBe(260)
  expect(await findDifferences(sql)).toEqual([])
})

test('folds the past hours of a day but not the current one', async () => {
  const noon = Math.floor(Date.now() / 86_400_000) * 86_400_000 + 5 * 86_400_000 + 12 * 3_600_000
  for (const minutes of [-61, -1, 0, 59]) {
    await Promise.all(Array.from({ length: 20 }, () => recordClick(db, click, null, noon + minutes * 60_000)))
  }
  await setTime(new Date(noon + 59 * 60_000))
  await countClicks(db, 1000)
  while ((await foldDailyTotals(db, 1000)) > 0);
  const { rows } = await sql.query<{ hour: number; clicks: number; rows: number }>(
    `select slot / 64 - 1 as hour, sum(clicks)::int as clicks, count(*)::int as rows, max(clicks_by_hour[11]) as "10:59",
      max(clicks_by_hour[12]) as "11:59", max(clicks_by_hour[13]) as "12:00"
    from daily_totals where day = utc_day($1) group by 1 order by 1`,
    [new Date(noon)],
  )
  expect(rows).toEqual([
    { hour: -1, clicks: 40, rows: 1, '10:59': '20', '11:59': '20', '12:00': '0' },
    { hour: 12, clicks: 40, rows: expect.any(Number), '10:59': null, '11:59': null, '12:00': null },
  ])
  await setTime(new Date(noon + 60 * 60_000))
  while ((await foldDailyTotals(db, 1000)) > 0);
  expect(await count(`select count(*)::int from daily_totals where clicks_by_hour[13] = 40`)).toBe(1)
  expect(await findDifferences(sql)).toEqual([])
})

async function programWithSale() {
  const program = await createLedgerProgram(sql, db, { holdDays: 0 })
  const { id } = await program.soldBy(0, 5000)
  const figures = async () => {
    const { rows } = await sql.query(
      `select coalesce(sum(clicks), 0)::int as clicks, coalesce(sum(sales), 0)::int as sales,
        (select count(*)::int from commissions c where c.program_id = $1 and c.status = 'approved') as approved
      from grouped_totals where program_id = $1 and grouping_name = 'all' and span = 'day'`,
      [program.programId],
    )
    return rows[0]
  }
  return { ...program, id, figures }
}

test.each([
  ['an unknown key', { bogus: 'x' }],
  ['a long value', { utm_source: Array.from({ length: 500 }, () => crypto.randomUUID()).join('') }],
  ['a nested value', { sub1: { sub2: ['x'] }, country: null }],
  ['a list', ['utm_source']],
  ['a number', 7],
])('clicks and sales are counted and credited if a stored campaign has %s', async (_what, campaign) => {
  const program = await programWithSale()
  const stored = [program.programId, JSON.stringify(campaign)]
  await sql.query('update affiliate_click_events set campaign = $2 where program_id = $1', stored)
  await sql.query(
    'insert into customer_origins (program_id, customer_id, origin) select program_id, id, $2 from customers where program_id = $1',
    stored,
  )
  await sql.query(
    `update sales set resolution = jsonb_build_object('clicked_at', $2::jsonb) || '{"steps": 1}' where program_id = $1`,
    stored,
  )
  await sql.query(`update programs set review_rules = '{bot}' where id = $1`, [program.programId])
  await countClicks(db, 1000)
  await countFigures(db, 1000)
  await reviewAndCredit(db, 'a key', 1000)
  expect(await program.figures()).toEqual({ clicks: 1, sales: 1, approved: 1 })
})

test('the audit accepts a click with a longer value than totals keep', async () => {
  const { programId } = await programWithSale()
  await sql.query(
    `update affiliate_click_events set browser_name = repeat('x', 300), campaign = jsonb_build_object('utm_source', repeat('y', 300))
    where program_id = $1`,
    [programId],
  )
  await countClicks(db, 1000)
  const differences = await findDifferences(sql)
  expect(differences.filter((difference) => difference.includes(`program ${programId},`))).toEqual([])
})

test.each([
  ['clicks', 'link_clicks', { clicks: 0, sales: 0, approved: 1 }],
  ['figures', 'customer_origins', { clicks: 1, sales: 0, approved: 1 }],
  ['commissions', 'balance_entries', { clicks: 1, sales: 1, approved: 0 }],
])(
  "if the database refuses a program's %s, other programs are served and the run fails",
  async (_what, table, left) => {
    const [broken, other] = [await programWithSale(), await programWithSale()]
    const [scheduled, done] = table === 'balance_entries' ? [approving, counting] : [counting, approving]
    await sql.query(`alter table ${table} add constraint refused check (program_id <> ${broken.programId}) not valid`)
    const env = { ...endpoint.env, EMAIL_HASH_KEY: 'a key' }
    await expect(scheduled.scheduled(undefined, env)).rejects.toThrow(`all programs, ${broken.programId}.`)
    await done.scheduled(undefined, env)
    expect(await other.figures()).toEqual({ clicks: 1, sales: 1, approved: 1 })
    expect(await broken.figures()).toEqual(left)
    await sql.query(`alter table ${table} drop constraint refused`)
    await scheduled.scheduled(undefined, env)
    expect(await broken.figures()).toEqual({ clicks: 1, sales: 1, approved: 1 })
  },
)

test("if a program's days can't be folded, the days of other programs are folded", async () => {
  const [broken, other] = [await programWithSale(), await programWithSale()]
  const ids = [broken.programId, other.programId]
  const slots = async () => {
    const { rows } = await sql.query(
      'select program_id::int from daily_money where slot > 0 and program_id = any ($1) group by 1 order by 1',
      [ids],
    )
    return rows.map(({ program_id }) => program_id)
  }
  await sql.query('update daily_money set day = day - 1 where program_id = any ($1)', [ids])
  await sql.query(`alter table daily_money add constraint refused check (program_id <> ${broken.programId}) not valid`)
  await expect(folding.scheduled(undefined, endpoint.env)).rejects.toThrow(`all programs, ${broken.programId}.`)
  expect(await slots()).toEqual([broken.programId])
  await sql.query('alter table daily_money drop constraint refused')
  await folding.scheduled(undefined, endpoint.env)
  expect(await slots()).toEqual([])
})

test("if the database refuses a program's daily notifications, other programs get theirs", async () => {
  const [broken, other] = [await programWithSale(), await programWithSale()]
  await approving.scheduled(undefined, { ...endpoint.env, EMAIL_HASH_KEY: 'a key' })
  const notified = async () => {
    const { rows } = await sql.query(
      `select program_id::int from outbox where kind = 'payout_due' and program_id = any ($1) order by 1`,
      [[broken.programId, other.programId]],
    )
    return rows.map(({ program_id }) => program_id)
  }
  await sql.query(`alter table outbox add constraint refused check (program_id <> ${broken.programId}) not valid`)
  await expect(notifying.scheduled(undefined, { ...endpoint.env, DNS_OVER_HTTPS_URL: '' })).rejects.toThrow(
    `all programs, ${broken.programId}.`,
  )
  expect(await notified()).toEqual([other.programId])
  await sql.query('alter table outbox drop constraint refused')
  await notifying.scheduled(undefined, { ...endpoint.env, DNS_OVER_HTTPS_URL: '' })
  expect(await notified()).toEqual([broken.programId, other.programId])
})

test.each([
  ['goes on if the database still lists the programs', true, [null, 1, 2, 3, 4]],
  ["ends if it doesn't", false, [null, 1, 2, 3]],
])('after three programs in a row that take too long, a run %s', async (_what, answers, done) => {
  const worked: (number | null)[] = []
  let lists = 0
  const waiting = async () => {
    if (lists++ > 0 && !answers) throw new NeonDbError('no answer')
    return [1, 2, 3, 4]
  }
  const run = workOnPrograms(new Map(), waiting, async (programId) => {
    worked.push(programId)
    if (programId !== 4) throw new NeonDbError('no answer')
    return programId
  })
  await (answers ? expect(run).resolves.toEqual([4]) : expect(run).rejects.toThrow('no answer'))
  expect(worked).toEqual(done)
})
