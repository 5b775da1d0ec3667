import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { openClickHouse } from '../../../lib/click-house.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { formatMoney } from '../../../lib/money.ts'
import { listCodes } from '../../../lib/programs/codes.ts'
import { readOverview } from '../../../lib/programs/overview.ts'
import {
  type BreakdownName,
  type ChartMetric,
  chartMetrics,
  type Figures,
  isNamedById,
  type Overview,
} from '../../../lib/tracking/overview.ts'
import { readPerformance } from '../../../lib/tracking/performance.ts'
import { averageOf, type Performance, ratio, type Trend, trendOf } from '../../../lib/tracking/performance-answer.ts'
import { cut } from '../components/address.ts'
import { Card, Heading, Metric, Segments } from '../components/blocks.tsx'
import { Chart, Sparkline } from '../components/chart.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { DateRange } from '../components/date-range.tsx'
import { formatAmount, formatAxis, formatDate, formatNumber, formatTime } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { exportCsv, ExportLink } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Breakdowns } from './breakdowns.tsx'
import { checkOf } from './set-up-checks.tsx'
import { NeedsAttention } from './needs-attention.tsx'
import { breakdownsFor, type OverviewRequest, overviewAddress, readOverviewRequest } from './overview-query.ts'
import { FilterChip } from '../components/campaign.tsx'

/** The overview of a program. */
export const pages = createProgramPages()

const periods = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['all', 'All'],
] as const

const ofRead = ({ id, currency, createdAt }: ViewerProgram) => ({ id, currency, createdAt: new Date(createdAt) })

pages.get('/', requireProgram('performance:read'), async (c) => {
  const program = c.get('program')
  const request = await withCode(c, readOverviewRequest(c, program))
  const read = readOverview(c.get('db'), ofRead(program), request.query, Date.now(), openClickHouse(c.env))
  const { isBegun, needs, ...figures } = await read
  if (!isBegun) return c.redirect(checkOf(program.id), 303)
  const page: PageProps = { ...figures, program, request, parameters: c.req.query() }
  return c.render(
    <ProgramPage title={program.name} current="" heading={null}>
      <Range {...page} />
      {needs && <NeedsAttention needs={needs} program={program} />}
      <Filters {...page} />
      <Excluded {...page} />
      <Tiles {...page} />
      <div class="main-and-side">
        <ChartCard {...page} />
        <Funnel {...page} />
      </div>
      <BreakdownCards {...page} />
      <CountingHelp note="Days and hours are in UTC. The range is compared with the previous period of the same length. An unfinished period is compared with the same part of the previous one, to the nearest quarter hour." />
    </ProgramPage>,
  )
})

/** Replaces the name of a code with its id. Throws `not_found` for an unknown code. */
async function withCode(c: ProgramContext, request: OverviewRequest): Promise<OverviewRequest> {
  const program = c.get('program')
  const name = cut((c.req.query('code') ?? '').trim(), 100)
  if (name === '' || request.query.filters.code !== undefined || !breakdownsFor(program).includes('code'))
    return request
  const [code] = await listCodes(c.get('db'), program.id, { limit: 1, code: name })
  if (!code) throw new ApiError('not_found', `This program doesn't have a code ${name}.`)
  const id = String(code.id)
  return {
    ...request,
    query: { ...request.query, filters: { ...request.query.filters, code: id } },
    kept: { ...request.kept, code: id },
  }
}

interface PageProps {
  program: ViewerProgram
  request: OverviewRequest
  performance: Performance
  /** New partners in the previous period. */
  partnersBefore: number
  overview: Overview
  /** Set if later clicks may be missing. */
  clicksUntil: Date | undefined
  /** The query as the browser sent it. */
  parameters: Record<string, string>
}

const isFiltered = ({ query }: OverviewRequest) => Object.keys(query.filters).length > 0

/** The range of the figures, with a form to change it. */
function Range({ program, request, performance: { meta }, overview, parameters }: PageProps) {
  const { kept, refused, query } = request
  const { period: _, dateFrom: _from, dateTo: _to, ...others } = kept
  const isCustom = query.dateFrom !== undefined && query.dateTo !== undefined
  const address = overviewAddress(program.id, {})
  const search = new URLSearchParams(kept).toString()
  return (
    <>
      <Heading
        title={program.name}
        lead={
          <>
            {formatDate(meta.dateFrom)} to {formatDate(meta.dateTo)} (UTC)
            {overview.isCompared && `, compared with the previous ${daysText(overview.days)}`}
            {overview.lacksBaseline && '. The program is too new to compare this with the previous period.'}
          </>
        }
      >
        {!isFiltered(request) && <ExportLink href={`${address}/performance.csv${search && `?${search}`}`} />}
      </Heading>
      <div class="toolbar">
        <DateRange
          action={address}
          from={(refused && parameters['dateFrom']) || meta.dateFrom.slice(0, 10)}
          to={(refused && parameters['dateTo']) || meta.dateTo.slice(0, 10)}
          refused={refused}
          keep={others}
        />
        <Segments
          label="Period"
          items={periods.map(([period, text]) => ({
            href: overviewAddress(program.id, others, { period, interval: undefined }),
            text,
            current: !isCustom && meta.period === period,
          }))}
        />
      </div>
    </>
  )
}

const daysText = (days: number) => (days === 1 ? 'day' : `${formatNumber(days)} days`)

/** The filters of the page, each with a link that removes it. */
function Filters({ program, request: { kept, query }, overview }: PageProps) {
  const names = breakdownsFor(program).filter((name) => query.filters[name] !== undefined)
  if (names.length === 0) return null
  const without = Object.fromEntries(names.map((name) => [name, undefined]))
  return (
    <nav class="row" aria-label="Filters">
      {names.map((name) => {
        const label = isNamedById(name) ? overview.labels[name] : undefined
        const href = overviewAddress(program.id, kept, { [name]: undefined })
        return <FilterChip href={href} name={name} value={query.filters[name] ?? null} label={label} />
      })}
      {names.length > 1 && (
        <a class="small" href={overviewAddress(program.id, kept, without)}>
          Clear all
        </a>
      )}
    </nav>
  )
}

/**
 * Explains the gaps in filtered figures. The service computes filtered figures from individual clicks. So they don't include deleted
 * clicks or, if there are too many clicks, older ones.
 */
function Excluded({ request, overview: { readFrom, clicksSince }, clicksUntil }: PageProps) {
  const isCrossed = Object.keys(request.query.filters).length > 1
  const what = isCrossed ? 'The figures, chart and lists below begin' : 'The lists below begin'
  return (
    <>
      {clicksUntil && (
        <p class="muted small">
          Clicks after {formatTime(clicksUntil)} may be missing, because they are still being counted.
        </p>
      )}
      {readFrom && (
        <p class="muted small">
          {what} at {formatTime(readFrom)}, because the period has too many clicks to filter. Choose fewer days to see
          earlier ones.
        </p>
      )}
      {clicksSince && (
        <p class="muted small">
          Clicks before {formatDate(clicksSince)} have been deleted, so{' '}
          {isCrossed ? 'filtered figures' : 'the lists below'} exclude them.
        </p>
      )}
    </>
  )
}

interface Tile {
  label: string
  value: string
  /** The change since the previous period, or a note. */
  beside?: { trend: Trend; hasBaseline: boolean } | string | undefined
  /** The value of a figure in each interval of the chart. */
  line?: number[]
}

/** The figures of the filtered sales, or of the whole program. */
function Tiles(props: PageProps) {
  const { program, request, performance } = props
  const { currency } = request.query
  const tiles = tilesOf(props)
  const others = Object.keys(performance.metrics.otherCurrencies)
  const currencies = [...new Set([program.currency, currency, ...others])]
  return (
    <section class="stack" aria-label="Figures">
      {[tiles.filter(({ line }) => line), tiles.filter(({ line }) => !line)].map((some, index) => (
        <dl class={index === 0 ? 'cards five' : 'cards more'}>
          {some.map(({ label, value, beside, line }) => (
            <Metric label={label} value={value}>
              {typeof beside === 'string' ? <dd class="trend">{beside}</dd> : beside && <TrendOf {...beside} />}
              {line && (
                <dd>
                  <Sparkline values={line} />
                </dd>
              )}
            </Metric>
          ))}
        </dl>
      ))}
      {currencies.length > 1 && (
        <Segments
          label="Currency"
          items={currencies.map((one) => ({
            href: overviewAddress(program.id, request.kept, { currency: one === program.currency ? undefined : one }),
            text: one.toUpperCase(),
            current: one === currency,
          }))}
        />
      )}
      {!isFiltered(request) && <OtherCurrencies others={performance.metrics.otherCurrencies} currency={currency} />}
    </section>
  )
}

const noBaseline = { trend: trendOf(0, 0), hasBaseline: false }
const beside = (trend: Trend, was: number) => ({ trend, hasBaseline: was !== 0 || trend.trendDirection !== 'up' })

function tilesOf({ overview, performance: { metrics }, partnersBefore, request }: PageProps): Tile[] {
  const { total, before, isCompared, lacksBaseline } = overview
  const { currency } = request.query
  const withoutComparison = lacksBaseline ? noBaseline : undefined
  const others = Object.values(metrics.otherCurrencies)
  // Filtered figures don't count sales by currency, so they have an average only if all sales have one currency.
  const salesInCurrency = isFiltered(request)
    ? others.length === 0
      ? total.sales
      : 0
    : metrics.totalSales - others.reduce((sum, { totalSales }) => sum + totalSales, 0)
  const average = (count: number) =>
    count === 0 ? '—' : formatAmount(averageOf(total.revenue_cents, count, currency), currency)
  const trend = (name: keyof Figures) =>
    isCompared ? beside(trendOf(total[name], before[name]), before[name]) : withoutComparison
  const counted = (label: string, name: 'clicks' | 'leads' | 'sales' | 'conversions') => ({
    label,
    value: formatNumber(total[name]),
    beside: trend(name),
  })
  const lineOf = (name: keyof Figures) => overview.figures.map((figures) => figures[name])
  const money = (label: string, name: 'revenue_cents' | 'commission_cents') => ({
    label,
    value: formatMoney(total[name], currency),
    beside: trend(name),
    line: lineOf(name),
  })
  return [
    { ...counted('Clicks', 'clicks'), line: lineOf('clicks') },
    { ...counted('Leads', 'leads'), line: lineOf('leads') },
    { ...counted('Sales', 'sales'), line: lineOf('sales') },
    money('Revenue', 'revenue_cents'),
    money('Commission', 'commission_cents'),
    counted('Customers', 'conversions'),
    { label: 'Refunds', value: formatMoney(total.refunded_cents, currency), beside: 'of this revenue' },
    { label: 'Conversion', value: share(total.conversions, total.clicks) },
    { label: 'Revenue per customer', value: average(total.conversions) },
    { label: 'Average order', value: average(salesInCurrency) },
    ...(isFiltered(request)
      ? []
      : [
          {
            label: 'New partners',
            value: formatNumber(metrics.totalPartners),
            beside: isCompared ? beside(metrics.partnersTrend, partnersBefore) : withoutComparison,
          },
        ]),
  ]
}

const share = (count: number, of: number) => (of === 0 ? '–' : `${formatNumber(ratio(count * 100, of, 2))}%`)

/** Shows how many clicks became signups and customers. */
function Funnel({ overview: { total } }: PageProps) {
  const steps: [label: string, count: number][] = [
    ['Clicks', total.clicks],
    ['Leads', total.leads],
    ['Customers', total.conversions],
  ]
  const most = Math.max(...steps.map(([, count]) => count), 1)
  return (
    <Card title="Funnel">
      <ol class="funnel">
        {steps.map(([label, count], index) => (
          <li>
            <span>
              {formatNumber(count)} {label.toLowerCase()}
            </span>
            {index > 0 && <span class="muted">{share(count, total.clicks)} of clicks</span>}
            <svg aria-hidden="true">
              <rect height="100%" width={`${Math.round((count / most) * 100)}%`} rx="3" />
            </svg>
          </li>
        ))}
      </ol>
    </Card>
  )
}

/** Formats a change in percent, or as a factor above 999%. */
const changeOf = (percent: number) =>
  percent > 999 ? `×${formatNumber(Math.round(1 + percent / 100))}` : `${formatNumber(percent)}%`

function TrendOf({ trend: { trend, trendDirection: direction }, hasBaseline }: { trend: Trend; hasBaseline: boolean }) {
  return (
    <dd class="trend">
      {!hasBaseline ? (
        <span>
          <span aria-hidden="true">—</span>
          <span class="hidden">Nothing to compare with</span>
        </span>
      ) : direction === 'stable' ? (
        'No change'
      ) : (
        <span class={direction === 'up' ? 'good' : 'bad'}>
          <span class={`arrow ${direction}`} aria-hidden="true"></span>
          <span class="hidden">{direction}</span> {changeOf(trend)}
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
      Amounts of the figures above are in {own.toUpperCase()} only, because currencies are not converted. In other
      currencies:{' '}
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

const metricNames: Record<ChartMetric, string> = {
  clicks: 'Clicks',
  leads: 'Leads',
  sales: 'Sales',
  revenue: 'Revenue',
  commission: 'Commission',
  conversion: 'Conversion',
}
const intervalNames = { hour: 'Hour', day: 'Day', week: 'Week', month: 'Month' }

/** Returns the formats for a metric's values on the page and on an axis. */
function formatsOf(metric: ChartMetric, currency: string) {
  if (metric === 'revenue' || metric === 'commission') {
    return {
      format: (cents: number) => formatMoney(cents, currency),
      formatShort: (cents: number) => formatAxis(cents, currency),
    }
  }
  const unit = metric === 'conversion' ? ' %' : ''
  const format = (value: number) => formatNumber(value) + unit
  return { format, formatShort: format }
}

function ChartCard({ program, request, overview }: PageProps) {
  const { metric, interval, intervals, points, isCompared } = overview
  return (
    <section class="card stack" aria-label="Chart">
      <div class="row apart">
        <Segments
          label="Metric"
          items={chartMetrics.map((name) => ({
            href: overviewAddress(program.id, request.kept, { metric: name }),
            text: metricNames[name],
            current: name === metric,
          }))}
        />
        <Segments
          label="Interval"
          items={intervals.map((name) => ({
            href: overviewAddress(program.id, request.kept, { interval: name }),
            text: intervalNames[name],
            current: name === interval,
          }))}
        />
      </div>
      <Chart
        title={metricNames[metric]}
        points={points}
        interval={interval}
        {...formatsOf(metric, request.query.currency)}
        {...(isCompared && { beforeName: 'previous period' })}
      />
    </section>
  )
}

function BreakdownCards({ program, request, overview }: PageProps) {
  return (
    <section class="stack" aria-label={`${metricNames[overview.metric]} by`}>
      <Breakdowns
        names={breakdownsFor(program)}
        overview={overview}
        format={formatsOf(overview.metric, request.query.currency).format}
        isFilter={(name: BreakdownName) => request.query.filters[name] !== undefined}
        addressWith={(name, value) => overviewAddress(program.id, request.kept, { [name]: value })}
        allPartners={`/programs/${program.id}/partners`}
      />
    </section>
  )
}

pages.get('/performance.csv', requireProgram('performance:read'), async (c) => {
  const program = c.get('program')
  const { query } = readOverviewRequest(c, program)
  const { data } = await readPerformance(c.get('db'), { ...ofRead(program), currency: query.currency }, query)
  const columns = ['date', 'clicks', 'leads', 'conversions', 'revenue', 'partners', 'commission'] as const
  return await exportCsv(c, `performance-${program.id}`, toCsv(columns, data))
})
