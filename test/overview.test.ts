import type { BrowserContextOptions } from 'playwright-core'
import { expect, test } from 'vitest'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { formatMoney } from '../lib/money.ts'
import { listCommissions } from '../lib/money/commission-list.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { recordSale } from '../lib/money/sales.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { createPayoutRun, payPayoutRun } from '../lib/money/payout-runs.ts'
import { askPayout, listPayouts, returnPayout } from '../lib/money/payouts.ts'
import { reviewAndCredit } from '../lib/money/reviews.ts'
import { readOverview } from '../lib/programs/overview.ts'
import { createCode } from '../lib/programs/codes.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { countClicks, countFigures, recordClick } from '../lib/tracking/clicks.ts'
import { axeFindings } from './support/axe.ts'
import { launchBrowser } from './support/browser.ts'
import { noClick, noSale } from './support/ledger.ts'
import { startStack } from './support/stack.ts'

const [stack, browser] = await Promise.all([startStack({ functions: ['dashboard'] }), launchBrowser()])
const { db, sql } = stack
const env = { ...stack.env, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }

const shop = await createSandbox(db, env, { currency: 'usd' })
const keyHash = await apiKeyHash(`Bearer ${shop.apiKey}`)
const { partnerId } = await addPartner(db, { programId: shop.programId, name: 'Nora', email: null, code: 'nora' })
const other = await addPartner(db, { programId: shop.programId, name: 'Tom', email: null, code: 'tom' })

const visit = (code: string, more: object = {}) =>
  recordClick(db, { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: code, ...more }, null)
const buy = (
  id: string,
  clickId: string,
  amount: number,
  currency: string,
  key = 'buyer',
  { coupon = null, hash = keyHash }: { coupon?: string | null; hash?: string } = {},
) =>
  recordSale(
    db,
    hash,
    { ...noSale, coupon, transaction_id: id, customer_key: key, click_id: clickId, amount_cents: amount, currency },
    null,
    crypto.randomUUID(),
  )

// Nora has four sales. One has no commission, one is refunded, and one is in another currency. Tom has one sale.
const { click_id: clickId } = await visit('nora', {
  geo_country: 'DE',
  device_type: 'mobile',
  campaign: { utm_medium: 'mail', sub1: 'footer' },
})
await visit('nora', { geo_country: 'DE', device_type: 'bot' })
await buy('paid', clickId, 10_000, 'usd')
await buy('refunded', clickId, 5000, 'usd')
await buy('foreign', clickId, 7000, 'eur')
await sql.query('update programs set commission_bp = 0 where id = $1', [shop.programId])
await buy('without', clickId, 2500, 'usd')
await sql.query('update programs set commission_bp = 2000 where id = $1', [shop.programId])
const refund = { amount_cents: null, refund_id: null, reason: 'refund' as const, reason_text: null }
await refundSale(db, keyHash, 'refunded', refund, crypto.randomUUID())
const tom = await visit('tom', { geo_country: 'US', device_type: 'desktop' })
const toms = { partner_id: other.partnerId, code: 'TOM5', promotion_code_id: null, account_id: null }
const { id: codeId } = await createCode(db, shop.programId, toms)
await buy('of-tom', tom.click_id, 100, 'usd', 'other buyer', { coupon: 'TOM5' })

const address = `/programs/${shop.programId}`
const cookieOf = (token: string) => `${sessionCookie}=${encodeURIComponent(token)}`
async function get(path: string, { dashboardToken }: { dashboardToken: string } = shop): Promise<string> {
  const response = await fetch(new URL(path, stack.baseUrl), { headers: { cookie: cookieOf(dashboardToken) } })
  expect([path, response.status]).toEqual([path, 200])
  return await response.text()
}
/** Opens a browser with the session of a program's owner. */
async function signedIn({ dashboardToken }: { dashboardToken: string }, options: BrowserContextOptions = {}) {
  const context = await browser.newContext({ baseURL: stack.baseUrl, ...options })
  const cookie = { name: sessionCookie, value: encodeURIComponent(dashboardToken), domain: '127.0.0.1', path: '/' }
  await context.addCookies([{ ...cookie, secure: true }])
  return context
}
const tileIn = (html: string, label: string) =>
  new RegExp(`<dt>${label}</dt><dd class="value">([^<]+)<`).exec(html)?.[1]
const rowIn = (html: string, name: string) =>
  new RegExp(`<bdi>${name}</bdi></span><span>([^<]+)</span>`).exec(html)?.[1]
const cellIn = (html: string, row: string, column: string) =>
  new RegExp(`${row}(?:(?!</tr>).)*?data-label="${column}"[^>]*>(?:<[^>]+>)*([^<]+)<`, 's').exec(html)?.[1]

const rowOf = (html: string, name: string) =>
  ['Clicks', 'Leads', 'Sales', 'Commission'].map((column) => cellIn(html, `<bdi>${name}</bdi>`, column))
const tilesOf = (html: string) => ['Clicks', 'Sales', 'Commission'].map((label) => tileIn(html, label))

test('a partner sees the same number of sales on every page, before and after counting', async () => {
  for (const when of ['waiting', 'counted']) {
    const overview = await get(`${address}?metric=sales`)
    const ofNora = await get(`${address}?metric=sales&partner=${partnerId}`)
    const inEuro = await get(`${address}?metric=sales&currency=eur`)
    expect([
      when,
      tileIn(overview, 'Sales'),
      rowIn(overview, 'Nora'),
      rowIn(overview, 'nora'),
      rowIn(inEuro, 'Nora'),
      tileIn(inEuro, 'Sales'),
      tileIn(ofNora, 'Sales'),
      rowIn(ofNora, 'nora'),
      cellIn(await get(`${address}/partners`), '>Nora<', 'Sales'),
      cellIn(await get(`${address}/partners?sort=sales`), '>Nora<', 'Sales'),
    ]).toEqual([when, '5', '4', '4', '4', '5', '4', '4', '4', '4'])
    if (when === 'waiting') while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
  }
  expect(cellIn(await get(`${address}/partners/${partnerId}?tab=links`), '<code>nora</code>', 'Sales')).toBe('4')
  const list = await get(`${address}/partners?sort=sales`)
  expect(list.indexOf('>Nora<')).toBeLessThan(list.indexOf('>Tom<'))
})

const states: [what: string, query: string, shown: RegExp, hidden?: RegExp][] = [
  ['revenue by day if there is any', '', /aria-label="Revenue by day, at most \$176\.00/],
  [
    'only matching events for a filter',
    '?country=DE',
    /<dt>Revenue<\/dt><dd class="value">\$175\.00</,
    /<bdi>Tom<\/bdi>/,
  ],
  ['money in another currency', '?currency=eur', /<dt>Revenue<\/dt><dd class="value">€70\.00</],
  ['no bot clicks', '?metric=clicks&country=DE', /<dt>Clicks<\/dt><dd class="value">1</],
  [
    'no percentage without a baseline',
    '',
    /<dt>Sales<\/dt><dd class="value">5<\/dd><dd class="trend"><span><span aria-hidden="true">—</,
    />New<|100 ?%<\/span>/,
  ],
  ['events without a value', '?referrer=', /Site: <bdi>Direct or unknown<\/bdi>/],
  [
    'the name of a filtered partner without matching events',
    `?partner=${other.partnerId}&country=DE`,
    /Partner: <bdi>Tom<\/bdi>/,
  ],
  ['the revenue of a code', '', /<bdi>TOM5<\/bdi><\/span><span>\$1\.00</],
  [
    'one code by its name',
    `?code=${codeId}`,
    /Code: <bdi>TOM5<\/bdi>[\s\S]*<dt>Revenue<\/dt><dd class="value">\$1\.00</,
  ],
  [
    'a code that the address names by text',
    '?code=tom5',
    /Code: <bdi>TOM5<\/bdi>[\s\S]*<dt>Revenue<\/dt><dd class="value">\$1\.00</,
  ],
  [
    'no conversion rate of a code, because clicks have no code',
    `?code=${codeId}`,
    /<dt>Conversion<\/dt><dd class="value">–</,
    /<dt>Revenue per customer<\/dt><dd class="value">—/,
  ],
  [
    'sub-ids of links, and no unused parameter',
    '',
    /Sub-id 1[\s\S]*<bdi>footer<\/bdi><\/span><span>\$175\.00/,
    /Sub-id 2/,
  ],
  ['only a sub-id', '?sub1=footer', /sub1: <bdi>footer<\/bdi>[\s\S]*<dt>Revenue<\/dt><dd class="value">\$175\.00</],
  [
    'events without a medium',
    '?utm_medium=',
    /Medium: <bdi>No utm_medium<\/bdi>[\s\S]*<dt>Revenue<\/dt><dd class="value">\$1\.00</,
  ],
  [
    'a sub-id combined with a medium, read row by row',
    '?sub1=footer&utm_medium=mail&metric=clicks',
    /<dt>Clicks<\/dt><dd class="value">1</,
  ],
  ['no average without orders', '?country=ZZ', /<dt>Average order<\/dt><dd class="value">—</],
  [
    'revenue per customer and the average order of the sales in its currency',
    '',
    /<dt>Revenue per customer<\/dt><dd class="value">\$88\.00<[\s\S]*<dt>Average order<\/dt><dd class="value">\$44\.00</,
  ],
  [
    'sales without a code',
    '?code=&metric=sales',
    /Code: <bdi>No code<\/bdi>[\s\S]*<dt>Sales<\/dt><dd class="value">4</,
  ],
  ['no codes for clicks', '?metric=clicks', /<h2[^>]*>Links/, /<h2[^>]*>Codes/],
  ['an empty period', '?country=ZZ&metric=leads', /No leads in this period/, /\$0\.02/],
  ['hours of a day', `?interval=hour&${today()}`, /aria-label="Revenue by hour/],
  ['days if the range has too many hours', '?interval=hour&period=30d', /aria-label="Revenue by day/],
  ['months', '?interval=month&period=90d', /aria-label="Revenue by month/],
  [
    'the default if the address contains nonsense',
    '?metric=x&interval=y&currency=zz&partner=a&link=-1&period=7d',
    /Revenue by day/,
  ],
  ['an invalid range', '?dateFrom=2026-02-02&dateTo=2026-02-01', /This range can&#39;t be shown/],
  ['the first years', '?dateFrom=0001-01-01&dateTo=0001-01-03', /No clicks in this period/],
  ['the last years', '?dateFrom=9999-12-30&dateTo=9999-12-31', /aria-label="(Revenue|Clicks) by/],
]

function today() {
  const day = new Date().toISOString().slice(0, 10)
  return `dateFrom=${day}&dateTo=${day}`
}

test.each(states)('the overview shows %s', async (_what, query, shown, hidden) => {
  const before = stack.neon.requests
  const html = await get(address + query)
  expect(stack.neon.requests - before).toBeLessThanOrEqual(3)
  expect(html).toMatch(shown)
  if (hidden) expect(html).not.toMatch(hidden)
})

test("a partner sees the campaigns of their own links, and no click on other partners' links", async () => {
  const own = await createSandbox(db, env, { currency: 'usd' })
  const hash = await apiKeyHash(`Bearer ${own.apiKey}`)
  const theirs = await addPartner(db, { programId: own.programId, name: 'Other', email: null, code: 'another' })
  const first = await visit(own.partnerCode, { campaign: { utm_source: 'mail', sub1: 'footer' } })
  await visit(own.partnerCode)
  const foreign = await visit('another', { campaign: { sub1: 'secret' } })
  await createCode(db, own.programId, {
    partner_id: own.partnerId,
    code: 'MINE',
    promotion_code_id: null,
    account_id: null,
  })
  await buy('by-link', first.click_id, 10_000, 'usd', 'ann', { hash })
  await buy('by-code', foreign.click_id, 5000, 'usd', 'bob', { coupon: 'MINE', hash })
  const read = async (path: string, token = own.partnerToken) => {
    const before = stack.neon.requests
    const html = await get(path, { dashboardToken: token })
    expect(stack.neon.requests - before).toBeLessThanOrEqual(3)
    return html
  }
  for (const when of ['waiting', 'counted']) {
    const all = await read('/partner/campaigns')
    expect([when, ...tilesOf(all)]).toEqual([when, '2', '1', '$20.00'])
    expect(rowOf(all, 'footer')).toEqual(['1', '0', '1', '$20.00'])
    expect(rowOf(all, 'No sub1')).toEqual(['1', '0', '0', '$0.00'])
    expect(rowOf(all, own.partnerCode)).toEqual(['2', '0', '1', '$20.00'])
    expect(all).not.toContain('secret')
    for (const [query, tiles] of [
      ['sub1=footer&days=7', ['1', '1', '$20.00']],
      ['sub1=footer&utm_source=mail', ['1', '1', '$20.00']],
      ['sub1=&days=90', ['1', '0', '$0.00']],
      ['sub1=secret', ['0', '0', '$0.00']],
      [`link=${theirs.partnerId}`, ['0', '0', '$0.00']],
      ['link=x&days=8&program=999999', ['2', '1', '$20.00']],
    ] as const) {
      const html = await read(`/partner/campaigns?${query}`)
      expect([when, query, tilesOf(html)]).toEqual([when, query, tiles])
      expect(html).not.toContain('another')
    }
    for (const path of ['events', 'customers/' + first.click_id, 'sales/by-link']) {
      expect(await read(`/programs/${own.programId}/${path}`, own.dashboardToken)).toMatch(
        /utm_source <bdi>mail<\/bdi>, sub1 <bdi>footer</,
      )
    }
    expect(await read(`/programs/${own.programId}/events`, own.dashboardToken)).toContain('Export CSV')
    expect(await read(`/programs/${own.programId}/events?q=nobody`, own.dashboardToken)).not.toContain('Export CSV')
    expect(await read(`/partner/sales/${own.programId}/by-link`)).toContain('sub1 <bdi>footer<')
    expect(await read(`/partner/sales/${own.programId}/by-code`)).not.toContain('secret')
    expect(await read(`/programs/${own.programId}/events.csv`, own.dashboardToken)).toMatch(
      /,sub1,[\s\S]*mail,,,,,footer,/,
    )
    const seen = await read(`/programs/${own.programId}/partners/${own.partnerId}`, own.dashboardToken)
    expect(rowOf(seen, 'footer')).toEqual(['1', '0', '1', '$20.00'])
    const [, filtered = ''] = /href="([^"]+)"><bdi>footer</.exec(seen) ?? []
    const overview = await read(filtered.replaceAll('&amp;', '&'), own.dashboardToken)
    expect([tileIn(overview, 'Clicks'), tileIn(overview, 'Revenue')]).toEqual(['1', '$100.00'])
    if (when === 'waiting') while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
  }
  const named = await fetch(`${stack.baseUrl}/programs/${own.programId}?code=nobodys`, {
    headers: { cookie: cookieOf(own.dashboardToken) },
  })
  expect([named.status, await named.text()]).toEqual([404, expect.stringContaining('a code nobodys.')])
})

test('the current period is compared with the same part of the previous period', async () => {
  const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)
  const noon = new Date(`${yesterday}T12:00:00Z`)
  const past = await createSandbox(db, env, { currency: 'usd' })
  await visit(past.partnerCode, { geo_country: 'DE', device_type: 'mobile' })
  await sql.query('update affiliate_click_events set click_timestamp = $2 where program_id = $1', [
    past.programId,
    noon,
  ])
  await sql.query('update uncounted_clicks set clicked_at = $2 where program_id = $1', [past.programId, noon])
  const program = { id: past.programId, currency: 'usd', createdAt: new Date(0) }
  for (const when of ['waiting', 'counted']) {
    for (const filters of [{}, { country: 'DE' }, { country: 'DE', device: 'mobile' }]) {
      for (const interval of ['day', 'hour'] as const) {
        for (const [minutes, clicks] of [
          [-20, 0],
          [20, 1],
        ] as const) {
          // Moves time forward by a day for hourly figures, and by a week for daily figures.
          const now = noon.getTime() + (interval === 'day' ? 7 : 1) * 86_400_000 + minutes * 60_000
          const range =
            interval === 'day' ? { period: '7d' as const } : { dateFrom: new Date(now), dateTo: new Date(now) }
          const query = { ...range, filters, interval, metric: 'clicks' as const, currency: 'usd' }
          const { overview } = await readOverview(db, program, query, now)
          const shown = overview.points.reduce((sum, { before = 0 }) => sum + before, 0)
          expect([when, filters, interval, minutes, overview.before.clicks, shown]).toEqual([
            when,
            filters,
            interval,
            minutes,
            clicks,
            clicks,
          ])
          expect(overview.points.filter(({ isOpen }) => isOpen)).toHaveLength(1)
        }
      }
    }
    while ((await countClicks(db, 1000)) > 0);
  }
})

test('with more clicks than one read can filter, the page shows the latest, the chart shows all, and a note says so', async () => {
  const busy = await createSandbox(db, env, { currency: 'usd' })
  await sql.query("update programs set created_at = now() - interval '3 days' where id = $1", [busy.programId])
  await sql.query(
    `with clicked as (
      insert into affiliate_click_events (program_id, click_timestamp, id, link_id, affiliate_url, geo_country, device_type)
      select $1, date_trunc('milliseconds', now() - n * interval '10 seconds'), n, l.id, 'https://shop.example.com/', 'DE', 'mobile'
      from generate_series(1, 18000) n, referral_links l where l.program_id = $1 and l.code = $2 returning *
    )
    insert into uncounted_clicks (program_id, link_id, clicked_at, event_id) select program_id, link_id, click_timestamp, id from clicked`,
    [busy.programId, busy.partnerCode],
  )
  while ((await countClicks(db, 20_000)) > 0);
  const page = async (query: string) => get(`/programs/${busy.programId}?metric=clicks&${query}`, busy)
  const clicksOf = (html: string) => Number(tileIn(html, 'Clicks')?.replace(',', ''))
  const all = await page('period=7d')
  expect([clicksOf(all), / begin at /.test(all)]).toEqual([18_000, false])
  const ofOne = await page('period=7d&country=DE')
  expect(clicksOf(ofOne)).toBe(18_000)
  expect(ofOne).toMatch(/The lists below begin at .+ UTC/)
  expect(Number(rowIn(ofOne, 'Mobile')?.replace(',', ''))).toBeLessThanOrEqual(15_000)
  expect(Number(rowIn(ofOne, 'Mobile')?.replace(',', ''))).toBeGreaterThan(14_000)
  const ofTwo = await page('period=7d&country=DE&device=mobile')
  expect(ofTwo).toMatch(/The figures, chart and lists below begin at/)
  expect(clicksOf(ofTwo)).toBeGreaterThan(6500)
  expect(clicksOf(ofTwo)).toBeLessThanOrEqual(7500)
  expect(rowIn(ofTwo, busy.partnerCode)).toBe(tileIn(ofTwo, 'Clicks'))
  const ofNone = await page('period=7d&country=FR')
  expect([clicksOf(ofNone), / begin at /.test(ofNone)]).toEqual([0, false])

  await sql.query("insert into clicks_kept (since) values (now() - interval '1 day')")
  expect(await page('period=7d')).not.toContain('no longer kept')
  expect(await page('period=7d&country=FR')).toMatch(
    /Clicks before .+ have been deleted, so the lists below exclude them/,
  )
  await sql.query('delete from clicks_kept')
})

test('the campaigns page shows exact totals for any number of clicks, and the date when campaign figures begin', async () => {
  const busy = await createSandbox(db, env, { currency: 'usd' })
  await sql.query(
    `with clicked as (
      insert into affiliate_click_events (program_id, click_timestamp, id, link_id, affiliate_url, device_type, campaign)
      select $1, date_trunc('milliseconds', now() - n * interval '20 seconds'), n, l.id, 'https://shop.example.com/', 'mobile', '{"sub1": "mail"}'
      from generate_series(1, 30000) n, referral_links l where l.program_id = $1 and l.code = $2 returning *
    )
    insert into uncounted_clicks (program_id, link_id, clicked_at, event_id) select program_id, link_id, click_timestamp, id from clicked`,
    [busy.programId, busy.partnerCode],
  )
  while ((await countClicks(db, 20_000)) > 0);
  const page = (query: string) => get(`/partner/campaigns?days=30${query}`, { dashboardToken: busy.partnerToken })
  const all = await page('')
  expect([tileIn(all, 'Clicks'), rowOf(all, busy.partnerCode)[0]]).toEqual(['30,000', '30,000'])
  expect(all).not.toContain('These figures begin at')
  // The headings of each page have no gap between their levels.
  expect(all).toMatch(/<h2>Sub-id 1<\/h2><p class="muted small">Since .+? UTC only/)
  expect(all).not.toMatch(/<h2>Links<\/h2><p/)
  expect(await page('&sub1=mail')).toMatch(/These figures begin at .+? UTC[^<]+ Choose fewer days/)
  // These pages have no shorter period to choose.
  const week = await get('/partner/campaigns?days=7', { dashboardToken: busy.partnerToken })
  const partner = await get(`/programs/${busy.programId}/partners/${busy.partnerId}`, busy)
  for (const shortest of [week, partner])
    expect(shortest).toMatch(/>Sub-id 1<\/h[23]><p class="muted small">Since .+? UTC only[^<]+too many clicks\.<\/p>/)
  expect(partner).toContain('<h3>Sub-id 1</h3>')
})

const money = (cents = 0) => formatMoney(cents, 'usd')

test('every figure on the pages of a program equals the sum of its rows, which the audit checks', async () => {
  while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
  expect(await findDifferences(sql, shop.programId)).toEqual([])
  const { rows } = await sql.query<Record<string, number>>(
    `with sold as (
      select * from sales where program_id = $1 and not is_test and customer_id is not null and payment_status = 'paid'
    ), earned as (
      select *, amount_cents - reversed_cents as left_cents from commissions where program_id = $1
    )
    select
      (select count(*) from affiliate_click_events where program_id = $1 and not is_test and device_type is distinct from 'bot')::int as clicks,
      (select count(*) from customers where program_id = $1 and signup_date is not null and customer_status in ('lead', 'conversion'))::int as leads,
      (select count(*) from customers where program_id = $1 and customer_status = 'conversion')::int as customers,
      (select count(*) from sold)::int as sales,
      (select sum(amount_cents) from sold where currency = 'usd')::int as revenue,
      (select sum(r.applied_cents) from refunds r join sold s on s.id = r.sale_id where r.program_id = $1 and r.returned_at is null and s.currency = 'usd')::int as refunds,
      (select sum(left_cents) from earned where currency = 'usd')::int as commission,
      (select sum(left_cents) from earned where currency = 'eur')::int as foreign_commission,
      (select count(*) from earned)::int as commissions,
      (select coalesce(sum(balance_cents), 0) from balances where program_id = $1 and currency = 'usd')::int as balance`,
    [shop.programId],
  )
  const [of = {}] = rows
  const overview = await get(`${address}?period=all`)
  const tiles = ['Clicks', 'Leads', 'Customers', 'Sales', 'Revenue', 'Refunds', 'Commission']
  expect(tiles.map((label) => tileIn(overview, label))).toEqual([
    ...[of['clicks'], of['leads'], of['customers'], of['sales']].map(String),
    ...[of['revenue'], of['refunds'], of['commission']].map(money),
  ])
  expect(overview).toContain(`${of['clicks']} clicks`)

  const partners = await get(`${address}/partners`)
  /** Sums a column of the list, in the unit of the column's figures. */
  const sumOf = (label: string) =>
    Array.from(
      partners.matchAll(new RegExp(`data-label="${label}"[^>]*>(?:<[^>]+>)*([$\\d.,-]+)<`, 'g')),
      ([, text = '']) => Number(text.replaceAll(/[$,]/g, '')),
    ).reduce((sum, value) => sum + value, 0)
  expect(['Clicks', 'Sales'].map(sumOf)).toEqual([of['clicks'], of['sales']])
  expect(['Revenue', 'Commission', 'Balance'].map((label) => money(Math.round(sumOf(label) * 100)))).toEqual(
    [of['revenue'], of['commission'], of['balance']].map(money),
  )

  const sums = `${formatMoney(of['foreign_commission'] ?? 0, 'eur')} + ${money(of['commission'])}`
  expect(await get(`${address}/commissions`)).toContain(`${of['commissions']} commissions<strong> ${sums}</strong>`)
})

test('the line below each list of money has the number and the sum of all its rows, which the audit checks', async () => {
  const own = await createSandbox(db, env, { currency: 'usd', hold_days: 0, review_rules: ['paid_ads'] })
  const { programId, partnerId: ownId } = own
  const hash = await apiKeyHash(`Bearer ${own.apiKey}`)
  const credit = () => reviewAndCredit(db, 'a key', 1000)
  await createCode(db, programId, { partner_id: ownId, code: 'OWN5', promotion_code_id: null, account_id: null })
  const { click_id: click } = await visit(own.partnerCode)
  const { click_id: ofAd } = await visit(own.partnerCode, { affiliate_url: 'https://shop.example.com/?gclid=1' })
  await buy('first', click, 10_000, 'usd', 'ann', { hash, coupon: 'OWN5' })
  await buy('second', click, 7000, 'eur', 'ann', { hash, coupon: 'OWN5' })
  await buy('of-ad', ofAd, 4000, 'usd', 'bob', { hash })
  await credit()
  const runId = Number(await createPayoutRun(db, programId, crypto.randomUUID()))
  await payPayoutRun(db, programId, runId, { reference: 'transfer 1', paid_on: new Date() })
  const [returned] = await listPayouts(db, { programId }, { limit: 1, sort: 'amount' })
  await returnPayout(db, programId, returned?.id ?? 0, 'returned', 'The account is closed.')
  await buy('third', click, 9000, 'usd', 'ann', { hash, coupon: 'OWN5' })
  await credit()
  await refundSale(db, hash, 'third', { ...refund, amount_cents: 1000 }, crypto.randomUUID())
  await createAdjustment(db, programId, { partnerId: ownId, amountCents: -75, note: 'Fee' }, crypto.randomUUID(), [])
  const ask = { programId, partnerId: ownId, currency: 'usd', amountCents: 300, requestId: crypto.randomUUID() }
  await askPayout(db, ask)
  while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
  expect(await findDifferences(sql, programId)).toEqual([])

  const month = new Date().toISOString().slice(0, 7)
  const partnersOwn: [path: string, row: string, rows: string][] = [
    ['/partner/payouts', 'payouts', 'select currency, amount_cents as cents from payouts where program_id = $1'],
    [
      '/partner/commissions',
      'commissions',
      'select currency, amount_cents - reversed_cents as cents from commissions where program_id = $1',
    ],
  ]
  const programs: typeof partnersOwn = [
    ['payouts', 'payouts', 'select currency, amount_cents as cents from payouts where program_id = $1'],
    [
      'payouts?status=requested',
      'payouts',
      "select currency, amount_cents as cents from payouts where program_id = $1 and status = 'requested'",
    ],
    [
      `payout-runs/${runId}`,
      'payments',
      'select currency, amount_cents as cents from payouts where program_id = $1 and payout_run_id is not null',
    ],
    [
      `payout-runs/${runId}/lines`,
      'lines',
      'select currency, case when is_returned then 0 else amount_cents end as cents from payout_lines where program_id = $1',
    ],
    [
      'payouts/due',
      'balances',
      'select currency, payable_cents as cents from payable_balances where program_id = $1 and payable_cents > 0',
    ],
    [
      `partners/${ownId}/statement?month=${month}`,
      'entries',
      "select currency, amount_cents as cents from balance_entries where program_id = $1 and currency = 'usd'",
    ],
    [
      'reviews',
      'commissions',
      'select currency, amount_cents - reversed_cents as cents from commissions where program_id = $1 and held_at is not null',
    ],
    [
      'adjustments',
      'manual commissions',
      'select currency, amount_cents as cents from adjustments where program_id = $1',
    ],
    ['codes', 'codes', 'select null from partner_codes where program_id = $1'],
    ['deliveries/notifications', 'notifications', 'select null from outbox where program_id = $1'],
    ['payout-runs', 'payout runs', 'select null from payout_runs where program_id = $1'],
    [
      'events',
      'events',
      `select null as currency, 0 as cents from affiliate_click_events where program_id = $1 union all
      select null, 0 from affiliate_lead_events where program_id = $1 union all
      select currency, amount_cents from sales where program_id = $1`,
    ],
  ]
  for (const [path, row, query] of [
    ...partnersOwn,
    ...programs.map(([page, ...list]) => [`/programs/${programId}/${page}`, ...list] as const),
  ]) {
    const { rows } = await sql.query<{ currency?: string | null; cents?: string }>(query, [programId])
    const byCurrency = Map.groupBy(rows, ({ currency }) => currency ?? null)
    const sums = [...byCurrency]
      .toSorted(([a], [b]) => String(a).localeCompare(String(b)))
      .flatMap(([currency, list]) =>
        currency === null
          ? []
          : [
              formatMoney(
                list.reduce((sum, { cents }) => sum + Number(cents), 0),
                currency,
              ),
            ],
      )
    const name = rows.length === 1 ? row.replace(/s$/, '') : row
    const line = `${rows.length} ${name}${sums.length > 0 ? `<strong> ${sums.join(' + ')}</strong>` : ''}`
    const html = await get(path, {
      dashboardToken: path.startsWith('/partner/') ? own.partnerToken : own.dashboardToken,
    })
    expect([path, /<p class="muted small totals">((?:(?! · |<\/p>).)*)/.exec(html)?.[1]]).toEqual([path, line])
  }
  const { rows } = await sql.query(
    `select count(distinct sale_id)::int as sales, sum(amount_cents - reversed_cents) filter (where currency = 'usd')::int as cents
    from commissions where program_id = $1 and code_id is not null`,
    [programId],
  )
  const codes = await get(`/programs/${programId}/codes`, own)
  expect(['Sales', 'Commission'].map((column) => cellIn(codes, 'OWN5', column))).toEqual([
    String(rows[0].sales),
    money(rows[0].cents),
  ])
})

test('a trend above 999% is shown as a factor, and a trend without a whole previous period as a dash', async () => {
  const grown = await createSandbox(db, env, { currency: 'usd' })
  await sql.query("update programs set created_at = now() - interval '30 days' where id = $1", [grown.programId])
  await sql.query(
    `with clicked as (
      insert into affiliate_click_events (program_id, click_timestamp, id, link_id, affiliate_url, device_type)
      select $1, date_trunc('milliseconds', now() - case n when 1 then interval '8 days' else n * interval '1 second' end), n, l.id,
        'https://shop.example.com/', 'mobile'
      from generate_series(1, 16) n, referral_links l where l.program_id = $1 and l.code = $2 returning *
    )
    insert into uncounted_clicks (program_id, link_id, clicked_at, event_id) select program_id, link_id, click_timestamp, id from clicked`,
    [grown.programId, grown.partnerCode],
  )
  const page = await get(`/programs/${grown.programId}?period=7d`, grown)
  expect(page).toMatch(/<dt>Clicks<\/dt><dd class="value">15<\/dd><dd class="trend">(?:(?!<\/dd>).)*×15</)

  // The previous week began before the program.
  await sql.query("update programs set created_at = now() - interval '10 days' where id = $1", [grown.programId])
  const young = await get(`/programs/${grown.programId}?period=7d`, grown)
  expect(young).toMatch(/too new to compare[\s\S]*<dt>Clicks<\/dt><dd class="value">15<\/dd>(?:(?!<\/dd>).)*>—</)
})

/** `ofBilling` says whether the `billing` role can act on the item and therefore sees it. */
const needs: [what: string, change: string, undo: string, line: RegExp, ofBilling: boolean][] = [
  [
    'a requested payout',
    `insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents) values ($1, ${partnerId}, 'usd', 1, 1)`,
    `delete from payouts where program_id = $1`,
    /href="[^"]+\/payouts\?status=requested">1 payout was requested/,
    true,
  ],
  [
    'a commission to review',
    `update commissions set review_reason = 'unverified_customer' where program_id = $1 and id = (select min(id) from commissions where program_id = $1 and reversal = 'none')`,
    'update commissions set review_reason = null where program_id = $1',
    /href="[^"]+\/commissions\?review=waiting">1 commission is waiting for your review/,
    false,
  ],
  [
    'a held commission beside one to review',
    `update commissions set held_at = case when id = n then now() end, review_reason = case when id > n then 'unverified_customer' end
    from (select min(id) as n from commissions where program_id = $1 and reversal = 'none') first
    where program_id = $1 and (id = n or id = (select min(id) from commissions where program_id = $1 and reversal = 'none' and id > n))`,
    'update commissions set review_reason = null, held_at = null where program_id = $1',
    /href="[^"]+\/commissions\?review=waiting">2 commissions are waiting for your review/,
    false,
  ],
  [
    'Stripe, if it is disconnected',
    'update programs set processor_former_account_id = processor_account_id, processor_account_id = null where id = $1',
    'update programs set processor_account_id = processor_former_account_id, processor_former_account_id = null where id = $1',
    /href="[^"]+\/settings\?tab=payments">Stripe is disconnected/,
    false,
  ],
  [
    'an unpaid payout run',
    `with run as (insert into payout_runs (program_id, request_id) values ($1, gen_random_uuid()) returning id)
    insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, payout_run_id)
    select $1, ${partnerId}, 'usd', 1, 1, 'in_run', id from run`,
    'delete from payouts where program_id = $1',
    /href="[^"]+\/payout-runs">1 payout run not yet paid/,
    true,
  ],
  [
    'a balance below zero',
    `insert into balances (program_id, partner_id, currency, balance_cents, entry_count) values ($1, ${partnerId}, 'usd', -1, 1)`,
    'delete from balances where program_id = $1',
    new RegExp(`href="[^"]+/partners/${partnerId}">1 partner has a balance below zero`),
    true,
  ],
  [
    'a payment that could not be recorded',
    `insert into notifications (program_id, id, kind, audience, payload, created_at) values ($1, 0, 'payment_ignored', 'advertiser', '{}', now())`,
    'delete from notifications where program_id = $1 and id = 0',
    /href="[^"]+\/notifications">1 payment from your partners’ customers could not be recorded/,
    true,
  ],
  [
    'a disabled endpoint',
    `insert into webhook_endpoints (program_id, url, types, disabled_at, disabled_because) values ($1, 'https://example.com', '{sale.created}', now(), 'failures')`,
    'update webhook_endpoints set deleted_at = now() where program_id = $1',
    /href="[^"]+\/webhooks">1 webhook endpoint is disabled/,
    false,
  ],
  [
    'a new application',
    `insert into applications (program_id, name, email, status, source, verified_at) values ($1, 'Ada', 'ada@example.com', 'waiting', 'page', now())`,
    'delete from applications where program_id = $1',
    /href="[^"]+\/applications\?status=waiting">1 application is waiting for your review/,
    false,
  ],
]

test.each(needs)(
  '"needs attention" shows %s, and hides it once it is resolved',
  async (_what, change, undo, line, ofBilling) => {
    expect(await get(address)).not.toContain('Needs attention')
    await sql.query('set session_replication_role = replica')
    await sql.query(change, [shop.programId])
    expect(await get(address)).toMatch(line)
    expect(line.test(await get(address, { dashboardToken: shop.billingToken }))).toBe(ofBilling)
    await sql.query(undo, [shop.programId])
    await sql.query('set session_replication_role = origin')
    expect(await get(address)).not.toContain('Needs attention')
  },
)

test('selecting a value filters the page, even by keyboard and without scripts, and a chip removes the filter', async () => {
  const context = await signedIn(shop, { javaScriptEnabled: false })
  const page = await context.newPage()
  const sales = page.locator('.metric', { has: page.getByText('Sales', { exact: true }) }).locator('.value')
  await page.goto(address)
  await page.getByRole('link', { name: 'Germany' }).click()
  await expect.poll(() => sales.textContent()).toBe('4')
  const device = page.getByRole('link', { name: 'Mobile' })
  await device.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'Remove the filter Device: Mobile' }).waitFor()
  await page.getByRole('link', { name: 'Clicks', exact: true }).click()
  await page.getByRole('link', { name: 'Remove the filter Country: Germany' }).click()
  await page.getByRole('link', { name: 'Remove the filter Device: Mobile' }).click()
  expect(new URL(page.url()).search).toBe('?metric=clicks')
  await expect.poll(() => sales.textContent()).toBe('5')

  // The chart is one Tab stop. Arrow keys move along its points.
  const points = page.getByRole('radiogroup').getByRole('radio')
  await points.first().focus()
  for (let n = 0; n < 6; n++) await page.keyboard.press('ArrowRight')
  const last = points.last()
  expect(await last.isChecked()).toBe(true)
  expect(await last.evaluate((point) => getComputedStyle(point.nextElementSibling as Element).opacity)).toBe('1')
  expect(await points.count()).toBe(7)

  // On a phone the navigation is a row of tabs and a button for all entries, even without scripts.
  await page.setViewportSize({ width: 390, height: 844 })
  expect(await page.locator('nav[aria-label="Main"] ul').evaluate((list) => list.scrollWidth - list.clientWidth)).toBe(
    0,
  )
  expect(await page.getByRole('navigation', { name: 'Tabs' }).getByRole('link').allTextContents()).toEqual([
    'Overview',
    'All partners',
    'Commissions',
    'Payouts',
  ])
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Settings' }).click()
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
  await context.close()
})

test('one key opens the search on any page, and its results are links', async () => {
  const context = await signedIn(shop)
  const page = await context.newPage()
  await page.goto(address)
  await page.keyboard.press('Control+k')
  const dialog = page.getByRole('dialog', { name: 'Search this program' })
  await page.keyboard.type('adjust')
  await dialog.getByRole('link', { name: 'Adjustments Page' }).click()
  await page.waitForURL('**/adjustments')
  await context.close()
})

test('a list changes without reloading the page, a partner opens beside it, and a view keeps its filters', async () => {
  const context = await signedIn(shop)
  const page = await context.newPage()
  await page.goto(`${address}/partners`)
  await page.evaluate('window.stays = true')
  await page.getByPlaceholder('Name, e-mail or code').pressSequentially('Nora')
  await page.waitForURL('**/partners?q=Nora**')
  await page.getByRole('link', { name: 'Nora', exact: true }).click()
  const drawer = page.locator('dialog#drawer')
  await drawer.getByRole('link', { name: 'Settings', exact: true }).click()
  await drawer.getByRole('button', { name: 'Save', exact: true }).waitFor()
  await page.keyboard.press('Escape')
  await drawer.getByRole('heading', { name: 'Nora' }).waitFor({ state: 'detached' })
  await page.getByRole('row').getByLabel('Actions on Nora').click()
  await page.getByRole('button', { name: 'Deactivate Nora' }).click()
  await page.locator('#question').getByRole('button', { name: 'Deactivate' }).click()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Nora is active again.').waitFor()
  expect(await page.evaluate('window.stays')).toBe(true)

  await page.getByText('Views', { exact: true }).click()
  await page.getByLabel('Name of this view').fill('Her')
  await page.getByRole('button', { name: 'Save view' }).click()
  await page.getByText('The view Her was saved.').waitFor()
  await page.goto(`${address}/partners`)
  await page.getByText('Views', { exact: true }).click()
  await page.getByRole('link', { name: 'Her', exact: true }).click()
  await page.waitForURL('**/partners?q=Nora**')
  await page.getByText('Her', { exact: true }).first().click()
  await page.getByRole('button', { name: 'Delete the view Her' }).click()
  await page.getByText('The view Her was deleted.').waitFor()

  // An undo in several parts continues by itself, also from a page that the script changes.
  await sql.query(
    `with job as (
      insert into bulk_jobs (program_id, kind, settings, row_count, position, finished_at) values ($1, 'deactivate', '{}', 201, 0, now())
      returning program_id, id
    ) insert into bulk_job_rows (program_id, job_id, row_id, before) select program_id, id, -n, '{}' from job, generate_series(1, 201) n`,
    [shop.programId],
  )
  await page.goto(`${address}/jobs`)
  await page.getByRole('button', { name: 'Undo: Deactivate 201 partners' }).click()
  await page.locator('#question').getByRole('button', { name: 'Undo' }).click()
  await page.locator('.toast.warn', { hasText: 'have left: 201.' }).waitFor()
  await context.close()
})

test('amounts of any size and currency fit on a phone, and so does the page of an empty program', async () => {
  const yen = await createSandbox(db, env, { currency: 'jpy' })
  const hash = await apiKeyHash(`Bearer ${yen.apiKey}`)
  const context = await signedIn(yen, { viewport: { width: 390, height: 844 } })
  const page = await context.newPage()
  const { click_id: first } = await visit(yen.partnerCode)
  for (const isEmpty of [true, false]) {
    if (!isEmpty) {
      for (const n of [1, 2]) await buy(`huge-${n}`, first, 9_999_999_999_999, 'jpy', 'rich', { hash })
      const created = await listCommissions(db, { programId: yen.programId }, { limit: 2 })
      await approveCommissions(
        db,
        yen.programId,
        created.map(({ id }) => id),
        [],
      )
      // On this page, the actions on each partner leave the least space.
      await page.setViewportSize({ width: 1280, height: 800 })
      await page.goto(`/programs/${yen.programId}/partners`)
      const wide = await page.locator('td.right span').evaluateAll((amounts) =>
        amounts.flatMap((amount) => {
          const cell = amount.closest('td')?.getBoundingClientRect()
          const own = amount.getBoundingClientRect()
          return cell && own.left >= cell.left && own.right <= cell.right ? [] : [amount.textContent]
        }),
      )
      expect(wide).toEqual([])
      expect(await page.locator('td.right span').allTextContents()).toContain('¥4,000,000,000,000')
      await page.setViewportSize({ width: 390, height: 844 })
    }
    await page.goto(`/programs/${yen.programId}?metric=revenue`)
    await page
      .getByText(isEmpty ? 'No revenue in this period' : '¥19,999,999,999,998')
      .first()
      .waitFor()
    expect(await page.content()).not.toMatch(/[$¥]0\.\d/)
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0)
    // Values stay on one line inside their cards.
    const broken = await page.locator('.metric .value').evaluateAll((values) =>
      values.flatMap((value) => {
        const range = document.createRange()
        range.selectNodeContents(value)
        return range.getClientRects().length === 1 && value.scrollWidth <= value.clientWidth ? [] : [value.textContent]
      }),
    )
    expect(broken).toEqual([])
    await page.evaluate(() => {
      for (const details of document.querySelectorAll('main details')) details.setAttribute('open', '')
    })
    expect(await axeFindings(page, { serious: true })).toEqual([])
  }
  await context.close()
})
