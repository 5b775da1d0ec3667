import { may } from '../../../lib/access/roles.ts'
import { performanceQuery } from '../../../lib/api/tracking-performance.ts'
import { toCsv } from '../../../lib/csv.ts'
import { formatMoney } from '../../../lib/money.ts'
import { topPartners } from '../../../lib/programs/partners.ts'
import { hasClicks } from '../../../lib/programs/programs.ts'
import { readPerformance } from '../../../lib/tracking/performance.ts'
import type { Performance, Trend } from '../../../lib/tracking/performance-answer.ts'
import { Card, Empty, Heading, Metric, Segments } from '../parts/blocks.tsx'
import { type Bar, BarChart } from '../parts/chart.tsx'
import { DateRange } from '../parts/date-range.tsx'
import { formatAmount, formatDate, formatNumber } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { exportCsv, ExportLink } from '../parts/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../parts/page.ts'
import { Table } from '../parts/table.tsx'
import { firstStepsOf } from './first-steps.tsx'

/** A program at a glance. */
export const overviewPages = createPages()

const periods = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['all', 'All'],
] as const

/** The figures of the range in the query; an address that holds no valid one shows the default. */
async function readFigures(c: ProgramContext) {
  const program = c.get('program')
  const parsed = performanceQuery.safeParse(c.req.query())
  const query = parsed.success ? parsed.data : {}
  const performance = await readPerformance(
    c.get('db'),
    { id: program.id, currency: program.currency, createdAt: new Date(program.createdAt) },
    query,
  )
  const { dateFrom, dateTo } = performance.meta
  const asked = parsed.success ? {} : c.req.query()
  return {
    performance,
    /** The days in the fields of the date range. */
    from: asked['dateFrom'] ?? dateFrom.slice(0, 10),
    to: asked['dateTo'] ?? dateTo.slice(0, 10),
    refused: !parsed.success,
    isCustom: query.dateFrom !== undefined && query.dateTo !== undefined,
  }
}

overviewPages.get('/programs/:programId', requireProgram('performance:read'), async (c) => {
  const program = c.get('program')
  const db = c.get('db')
  const [figures, isBegun] = await Promise.all([readFigures(c), hasClicks(db, program.id)])
  if (!isBegun) return c.redirect(firstStepsOf(program.id), 303)
  const { performance } = figures
  const range = { from: new Date(performance.meta.dateFrom), to: new Date(performance.meta.dateTo) }
  const top = may(program.roles, 'partner:list') ? await topPartners(db, program, range, 5) : undefined
  const address = `/programs/${program.id}`
  return renderProgram(c, {
    title: program.name,
    current: '',
    children: (
      <>
        <Range {...figures} name={program.name} address={address} search={new URL(c.req.url).search} />
        <Figures performance={performance} currency={program.currency} />
        <Charts performance={performance} currency={program.currency} />
        {top && <TopPartners partners={top} currency={program.currency} address={`${address}/partners`} />}
      </>
    ),
  })
})

interface RangeProps extends Awaited<ReturnType<typeof readFigures>> {
  name: string
  address: string
  search: string
}

/** Which days the figures are of, and choosing others. */
function Range({ performance: { meta }, from, to, refused, isCustom, name, address, search }: RangeProps) {
  return (
    <>
      <Heading
        title={name}
        lead={
          <>
            {formatDate(meta.dateFrom)} to {formatDate(meta.dateTo)} (UTC), compared with as long before
          </>
        }
      >
        <Segments
          label="Period"
          items={periods.map(([period, text]) => ({
            href: `${address}?period=${period}`,
            text,
            current: !isCustom && meta.period === period,
          }))}
        />
      </Heading>
      <DateRange
        action={address}
        from={from}
        to={to}
        refused={refused}
        aside={<ExportLink href={`${address}/performance.csv${search}`} />}
      />
    </>
  )
}

interface PerformanceProps {
  performance: Performance
  currency: string
}

function Figures({ performance: { metrics }, currency }: PerformanceProps) {
  const figures: [label: string, value: string, beside?: Trend | string][] = [
    ['Clicks', formatNumber(metrics.totalClicks), metrics.clicksTrend],
    ['Leads', formatNumber(metrics.totalLeads), metrics.leadsTrend],
    ['Customers', formatNumber(metrics.totalConversions), metrics.conversionsTrend],
    ['Sales', formatNumber(metrics.totalSales), metrics.salesTrend],
    ['Revenue', formatAmount(metrics.totalRevenue, currency), metrics.revenueTrend],
    ['Refunds', formatAmount(metrics.totalRefunds, currency), 'of this revenue'],
    ['Commission', formatAmount(metrics.totalPartnersCommission, currency), metrics.commissionTrend],
    ['Conversion rate', `${formatNumber(metrics.conversionRate)} %`],
    ['Average order', formatAmount(metrics.averageOrderValue, currency)],
    ['New partners', formatNumber(metrics.totalPartners), metrics.partnersTrend],
  ]
  return (
    <>
      <dl class="cards">
        {figures.map(([label, value, beside]) => (
          <Metric label={label} value={value}>
            {typeof beside === 'string' ? <dd class="trend">{beside}</dd> : beside && <TrendOf trend={beside} />}
          </Metric>
        ))}
      </dl>
      <OtherCurrencies others={metrics.otherCurrencies} currency={currency} />
    </>
  )
}

function TrendOf({ trend: { trend, trendDirection: direction } }: { trend: Trend }) {
  return (
    <dd class="trend">
      {direction === 'stable' ? (
        'No change'
      ) : (
        <span class={direction === 'up' ? 'good' : 'bad'}>
          <span class={`arrow ${direction}`} aria-hidden="true"></span>
          <span class="hidden">{direction}</span> {formatNumber(trend)} %
        </span>
      )}
    </dd>
  )
}

interface OtherCurrenciesProps {
  others: Performance['metrics']['otherCurrencies']
  currency: string
}

function OtherCurrencies({ others, currency: own }: OtherCurrenciesProps) {
  const entries = Object.entries(others)
  if (entries.length === 0) return null
  return (
    <p class="muted small">
      The figures above are in {own.toUpperCase()} only, and nothing is converted. In other currencies:{' '}
      {entries
        .map(
          ([currency, other]) =>
            `${formatAmount(other.totalRevenue, currency)} revenue (${formatAmount(other.totalRefunds, currency)} refunded) and ${formatAmount(other.totalPartnersCommission, currency)} commission`,
        )
        .join('; ')}
      . Partners earn and are paid these commissions in the currency of the sale.
    </p>
  )
}

function Charts({ performance, currency }: PerformanceProps) {
  return (
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
          format={(value) => formatAmount(value, currency, 'short')}
          bars={barsOf(
            performance,
            ({ revenue }) => revenue,
            (value) => formatAmount(value, currency),
          )}
        />
      </Card>
    </div>
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

interface TopPartnersProps {
  partners: Awaited<ReturnType<typeof topPartners>>
  currency: string
  /** Of all partners. */
  address: string
}

function TopPartners({ partners, currency, address }: TopPartnersProps) {
  return (
    <Card title="Top partners" aside={<a href={address}>All partners</a>}>
      {partners.length === 0 ? (
        <Empty title="No sales through partners in these days">
          <p>Who brings the most stands here as soon as the first sale is recorded.</p>
        </Empty>
      ) : (
        <Table
          caption="Partners who earned most in this period"
          rows={partners}
          columns={[
            { label: 'Partner', cell: ({ name }) => <strong>{name}</strong> },
            { label: 'Sales', right: true, cell: ({ sales }) => formatNumber(sales) },
            { label: 'Revenue', right: true, cell: (row) => formatMoney(row.revenue_cents, currency) },
            { label: 'Commission', right: true, cell: (row) => formatMoney(row.commission_cents, currency) },
          ]}
        />
      )}
    </Card>
  )
}

overviewPages.get('/programs/:programId/performance.csv', requireProgram('performance:read'), async (c) => {
  const { performance } = await readFigures(c)
  const columns = ['date', 'clicks', 'leads', 'conversions', 'revenue', 'partners', 'commission'] as const
  return await exportCsv(c, `performance-${c.get('program').id}`, toCsv(columns, performance.data))
})
