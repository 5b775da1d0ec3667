import { may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import { topPartners } from '../../../lib/programs/partners.ts'
import { type Performance, readPerformance, type Trend } from '../../../lib/tracking/performance.ts'
import { type ProgramProgress, readProgress } from '../../../lib/programs/programs.ts'
import { performanceQuery } from '../../../lib/api/tracking-performance.ts'
import { formatMoney } from '../../../lib/money.ts'
import { type Bar, BarChart } from '../parts/chart.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { createPages, csvResponse, type PageContext, requireProgram } from '../parts/page.ts'
import {
  Card,
  Copy,
  DateRange,
  Empty,
  formatAmount,
  formatDate,
  formatNumber,
  Heading,
  Segments,
  Table,
} from '../parts/parts.tsx'
import { trackerTag } from './settings.tsx'

/** A program at a glance. */
export const overviewPages = createPages()

type ProgramContext = PageContext<{ viewer: Viewer; program: ViewerProgram }>

const periods = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['all', 'All'],
] as const

/** The figures of the range in the query; an address that holds no valid one shows the default. */
async function performanceOf(c: ProgramContext) {
  const program = c.get('program')
  const parsed = performanceQuery.safeParse(c.req.query())
  const query = parsed.success ? parsed.data : {}
  const performance = await readPerformance(
    c.get('db'),
    { id: program.id, currency: program.currency, createdAt: new Date(program.createdAt) },
    query,
  )
  return { performance, custom: query.dateFrom !== undefined && query.dateTo !== undefined, refused: !parsed.success }
}

overviewPages.get('/programs/:programId', requireProgram('performance:read'), async (c) => {
  const program = c.get('program')
  const db = c.get('db')
  const seesPartners = may(program.roles, 'partner:list')
  const [{ performance, custom, refused }, progress] = await Promise.all([
    performanceOf(c),
    readProgress(db, program.id),
  ])
  const { metrics, meta } = performance
  const range = { from: new Date(meta.dateFrom), to: new Date(meta.dateTo) }
  const top = seesPartners ? await topPartners(db, program, range, 5) : []
  const base = `/programs/${program.id}`
  const money = (amount: number) => formatAmount(amount, program.currency)
  const { search } = new URL(c.req.url)
  if (!progress.last_click) {
    return renderProgram(c, {
      title: program.name,
      current: '',
      children: (
        <>
          <Heading title={program.name} lead="Figures stand here once the first click has come." />
          <FirstSteps c={c} progress={progress} />
        </>
      ),
    })
  }
  return renderProgram(c, {
    title: program.name,
    current: '',
    children: (
      <>
        <Heading
          title={program.name}
          lead={
            <>
              {formatDate(meta.dateFrom)} to {formatDate(meta.dateTo)} (UTC), compared with as long before
            </>
          }
        >
          <Segments
            label="Period"
            items={periods.map(([period, text]) => ({
              href: `${base}?period=${period}`,
              text,
              current: !custom && meta.period === period,
            }))}
          />
        </Heading>
        <DateRange
          action={base}
          from={(refused ? c.req.query('dateFrom') : undefined) ?? meta.dateFrom.slice(0, 10)}
          to={(refused ? c.req.query('dateTo') : undefined) ?? meta.dateTo.slice(0, 10)}
          refused={refused}
          aside={
            <a class="button" href={`${base}/performance.csv${search}`}>
              Export CSV
            </a>
          }
        />
        <dl class="cards">
          <Metric label="Clicks" value={formatNumber(metrics.totalClicks)} trend={metrics.clicksTrend} />
          <Metric label="Leads" value={formatNumber(metrics.totalLeads)} trend={metrics.leadsTrend} />
          <Metric label="Customers" value={formatNumber(metrics.totalConversions)} trend={metrics.conversionsTrend} />
          <Metric label="Sales" value={formatNumber(metrics.totalSales)} trend={metrics.salesTrend} />
          <Metric label="Revenue" value={money(metrics.totalRevenue)} trend={metrics.revenueTrend} />
          <Metric label="Commission" value={money(metrics.totalPartnersCommission)} trend={metrics.commissionTrend} />
          <Metric label="Conversion rate" value={`${formatNumber(metrics.conversionRate)} %`} />
          <Metric label="Average order" value={money(metrics.averageOrderValue)} />
          <Metric label="New partners" value={formatNumber(metrics.totalPartners)} trend={metrics.partnersTrend} />
        </dl>
        <OtherCurrencies others={metrics.otherCurrencies} />
        <div class="halves">
          <Card title="Clicks">
            <BarChart
              title="Clicks"
              format={formatNumber}
              bars={barsOf(performance, ({ clicks }) => clicks, formatNumber)}
            />
          </Card>
          <Card title="Revenue">
            <BarChart
              title="Revenue"
              format={(value) => formatAmount(value, program.currency, 'short')}
              bars={barsOf(performance, ({ revenue }) => revenue, money)}
            />
          </Card>
        </div>
        {seesPartners && (
          <Card title="Top partners" aside={<a href={`${base}/partners`}>All partners</a>}>
            {top.length === 0 ? (
              <Empty title="No sales through partners in these days">
                <p>Who brings the most stands here as soon as the first sale is recorded.</p>
              </Empty>
            ) : (
              <Table
                caption="Partners who earned most in this period"
                rows={top}
                columns={[
                  { label: 'Partner', cell: ({ name }) => <strong>{name}</strong> },
                  { label: 'Sales', right: true, cell: ({ sales }) => formatNumber(sales) },
                  { label: 'Revenue', right: true, cell: (row) => formatMoney(row.revenue_cents, program.currency) },
                  {
                    label: 'Commission',
                    right: true,
                    cell: (row) => formatMoney(row.commission_cents, program.currency),
                  },
                ]}
              />
            )}
          </Card>
        )}
      </>
    ),
  })
})

overviewPages.get('/programs/:programId/performance.csv', requireProgram('performance:read'), async (c) => {
  const { performance } = await performanceOf(c)
  const columns = ['date', 'clicks', 'leads', 'conversions', 'revenue', 'partners', 'commission'] as const
  return csvResponse(c, `performance-${c.get('program').id}`, toCsv(columns, performance.data))
})

overviewPages.get('/programs/:programId/first-steps', requireProgram('performance:read'), async (c) => {
  const progress = await readProgress(c.get('db'), c.get('program').id)
  return renderProgram(c, { title: 'First steps', current: '', children: <FirstSteps c={c} progress={progress} /> })
})

function Metric({ label, value, trend }: { label: string; value: string; trend?: Trend }) {
  return (
    <div class="card metric">
      <dt>{label}</dt>
      <dd class="value">{value}</dd>
      {trend && (
        <dd class="trend">
          {trend.trendDirection === 'stable' ? (
            'No change'
          ) : (
            <span class={trend.trendDirection === 'up' ? 'good' : 'bad'}>
              <span class={`arrow ${trend.trendDirection}`} aria-hidden="true"></span>
              <span class="hidden">{trend.trendDirection === 'up' ? 'up' : 'down'}</span> {formatNumber(trend.trend)} %
            </span>
          )}
        </dd>
      )}
    </div>
  )
}

function OtherCurrencies({ others }: { others: Performance['metrics']['otherCurrencies'] }) {
  const entries = Object.entries(others)
  if (entries.length === 0) return null
  return (
    <p class="muted small">
      In other currencies, not in the figures above:{' '}
      {entries
        .map(
          ([currency, other]) =>
            `${formatAmount(other.totalRevenue, currency)} revenue and ${formatAmount(other.totalPartnersCommission, currency)} commission`,
        )
        .join('; ')}
      .
    </p>
  )
}

/** A bar for each day, or for each seven or thirty days where the range is too long for that. */
function barsOf(
  { data }: Performance,
  valueOf: (day: Performance['data'][number]) => number,
  format: (value: number) => string,
): Bar[] {
  const size = data.length > 400 ? 30 : data.length > 100 ? 7 : 1
  return Array.from({ length: Math.ceil(data.length / size) }, (_, index) => {
    const days = data.slice(index * size, (index + 1) * size)
    const value = days.reduce((sum, day) => sum + valueOf(day), 0)
    const first = formatDate(days[0]?.date ?? '')
    const label = days.length > 1 ? `${first} to ${formatDate(days.at(-1)?.date ?? '')}` : first
    return { label, value, text: format(value) }
  })
}

/** From an empty program to its first click; it keeps itself fresh until that has come. */
function FirstSteps({ c, progress }: { c: ProgramContext; progress: ProgramProgress }) {
  const program = c.get('program')
  const base = `/programs/${program.id}`
  const { partners, last_click: click } = progress
  return (
    <div data-part data-poll={click ? undefined : `${base}/first-steps`} aria-live="polite">
      <Card title={click ? 'Your first click is here' : 'First steps'}>
        <ol class="steps">
          <li class="done">
            <h3>Make a program</h3>
          </li>
          <li class={click ? 'done' : 'now'}>
            <div class="stack tight">
              <h3>Put the tag on your site</h3>
              {!click && (
                <>
                  <p class="muted">Into the head of every page of {program.domain}.</p>
                  <Copy text={trackerTag(c.env.BASE_URL, program.id)} label="tracker tag" />
                </>
              )}
            </div>
          </li>
          <li class={partners ? 'done' : 'now'}>
            <div class="stack tight">
              <h3>Add a partner</h3>
              {!partners && may(program.roles, 'partner:manage') && (
                <div class="row">
                  <a class="button primary" href={`${base}/partners`}>
                    Add the first partner
                  </a>
                </div>
              )}
            </div>
          </li>
          <li class={click ? 'done' : partners ? 'now' : ''}>
            <div class="stack tight">
              <h3>See the first click arrive</h3>
              {click ? (
                <p>
                  It came {click.page_url ? `on ${click.page_url}` : 'just now'}. Next, have your server send signups
                  and sales: make an API key in the <a href={`${base}/settings`}>settings</a>, or connect Stripe there.{' '}
                  <a href={base}>Show the figures</a>
                </p>
              ) : partners ? (
                <p class="waiting">Waiting. Open your site through the partner's link: this changes by itself.</p>
              ) : (
                <p class="muted">Needs a partner and their link.</p>
              )}
            </div>
          </li>
        </ol>
      </Card>
    </div>
  )
}
