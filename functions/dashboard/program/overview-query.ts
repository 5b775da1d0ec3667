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

/** The query of the overview, without unknown values. `refused` is set if the range is invalid. */
export interface OverviewRequest {
  query: OverviewQuery
  /** The valid parameters, which every link on the page keeps. An empty parameter selects rows without a value. */
  kept: Record<string, string>
  refused: boolean
}

export function readOverviewRequest(c: Context, program: ViewerProgram): OverviewRequest {
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
  const parameters = c.req.query()
  const kept: Record<string, string> = {}
  for (const name of ['period', 'dateFrom', 'dateTo']) {
    if (parsed.success && parameters[name] !== undefined) kept[name] = parameters[name]
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

/** The permission that a breakdown requires. Only readers who may see visits see landing pages. */
const actionOf: Partial<Record<BreakdownName, Action>> = {
  partner: 'partner:list',
  link: 'partner:list',
  code: 'partner:list',
  page: 'tracking:list',
}

/** Returns the breakdowns that the viewer may see. */
export function breakdownsFor(program: ViewerProgram) {
  return breakdowns.filter((name) => {
    const action = actionOf[name]
    return action === undefined || may(program.roles, action)
  })
}

/** Parses a filter: a value, null for none, or undefined if it is invalid. */
function filterOf(text: string | undefined, name: BreakdownName): string | null | undefined {
  if (text === undefined) return undefined
  // Every counted sale has a partner.
  if (text === '') return name === 'partner' ? undefined : null
  if (isNamedById(name)) return positiveInteger(text)?.toString()
  return cut(text, 200) || undefined
}

/** Returns the address with changed parameters. Undefined removes a parameter. */
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
