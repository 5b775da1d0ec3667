import type { Context } from 'hono'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { type Action, may } from '../../../lib/access/roles.ts'
import { performanceQuery } from '../../../lib/api/tracking-performance.ts'
import { isCurrency } from '../../../lib/money.ts'
import {
  type BreakdownName,
  breakdowns,
  type ChartInterval,
  chartMetrics,
  type Filters,
  isNamedById,
  type OverviewQuery,
} from '../../../lib/tracking/overview.ts'
import { cut, positiveInteger } from '../components/address.ts'

/** What the overview's address asks for. What it asks for and is not there is left out; a range that is none is `refused`. */
export interface Asked {
  query: OverviewQuery
  /** The parameters that hold, as they stand in every link of the page. One that is empty filters by what has no such value. */
  kept: Record<string, string>
  refused: boolean
}

export function askedOf(c: Context, program: ViewerProgram): Asked {
  const parsed = performanceQuery.safeParse(c.req.query())
  const range = parsed.success ? parsed.data : {}
  const metric = chartMetrics.find((name) => name === c.req.query('metric'))
  const interval = intervals.find((name) => name === c.req.query('interval'))
  const currency = c.req.query('currency') ?? ''
  const isForeign = isCurrency(currency) && currency !== program.currency
  const filters: Filters = {}
  for (const name of breakdownsFor(program)) {
    const value = filterOf(c.req.query(name), name)
    if (value !== undefined) filters[name] = value
  }
  const given = c.req.query()
  const kept: Record<string, string> = {}
  for (const name of ['period', 'dateFrom', 'dateTo']) {
    if (parsed.success && given[name] !== undefined) kept[name] = given[name]
  }
  if (metric) kept['metric'] = metric
  if (interval) kept['interval'] = interval
  if (isForeign) kept['currency'] = currency
  for (const [name, value] of Object.entries(filters)) kept[name] = value ?? ''
  return {
    query: { ...range, metric, interval, currency: isForeign ? currency : program.currency, filters },
    kept,
    refused: !parsed.success,
  }
}

const intervals = ['hour', 'day', 'week', 'month'] as const satisfies ChartInterval[]

/** What one must be allowed for a breakdown. The pages that visitors came to are for those who see the visits. */
const actionOf: Partial<Record<BreakdownName, Action>> = {
  partner: 'partner:list',
  link: 'partner:list',
  code: 'partner:list',
  page: 'tracking:list',
}

/** The breakdowns that somebody sees. */
export function breakdownsFor(program: ViewerProgram) {
  return breakdowns.filter((name) => {
    const action = actionOf[name]
    return action === undefined || may(program.roles, action)
  })
}

/** A value to filter by, null for none; undefined where it can be no value. */
function filterOf(text: string | undefined, name: BreakdownName): string | null | undefined {
  if (text === undefined) return undefined
  // What counts has a partner.
  if (text === '') return name === 'partner' ? undefined : null
  if (isNamedById(name)) return positiveInteger(text)?.toString()
  return cut(text, 200) || undefined
}

/** The page with other parameters; undefined takes one away. */
export function overviewAddress(
  programId: number,
  kept: Record<string, string>,
  changes: Record<string, string | undefined> = {},
): string {
  const entries = Object.entries({ ...kept, ...changes }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  const search = new URLSearchParams(entries).toString()
  return `/programs/${programId}${search && `?${search}`}`
}
