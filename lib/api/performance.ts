import * as z from 'zod/mini'
import {
  type Groups,
  type GroupsQuery,
  groupings,
  intervals,
  type Metric,
  metrics as allMetrics,
} from '../tracking/groupings.ts'
import { dayMs } from '../tracking/performance-range.ts'
import { maxRangeDays } from './date-range.ts'
import { numberIn, oneOf } from './lists.ts'
import { answered, type Operation } from './operation.ts'
import { count, currency, day, success, text, time } from '../response-fields.ts'

const defaultMetrics: readonly Metric[] = [
  'clicks',
  'leads',
  'conversions',
  'sales',
  'revenue_cents',
  'commission_cents',
]
const defaultLimit = 25
const defaultDays = 30
/** The longest range for each interval, in days. */
const maxDaysOf = { hour: 31, day: 366, week: maxRangeDays, month: maxRangeDays }
/** The maximum number of group-hours in a response: 25 groups over 31 days, or 100 over a week. */
const maxGroupHours = 20_000

/** Returns the name of a time zone that the database uses, or undefined for anything else. */
function zoneOf(name: string): string | undefined {
  try {
    // An offset isn't accepted as a time zone, because it has no daylight saving time.
    if (!/^[A-Za-z]/.test(name)) return undefined
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone
  } catch {
    return undefined
  }
}

const dayIn = z.optional(z.iso.date('must be a day as YYYY-MM-DD').check(z.regex(/^2/, 'must be from 2000 on')))

const metricsIn = z.pipe(
  z.string(),
  z.transform((list: string, context): Metric[] => {
    const names = list.split(',')
    const known = allMetrics.filter((metric) => names.includes(metric))
    if (known.length === new Set(names).size) return known.toSorted((a, b) => names.indexOf(a) - names.indexOf(b))
    const message = `must be a comma-separated list of ${allMetrics.join(', ')}`
    context.issues.push({ code: 'custom', message, input: list })
    return z.NEVER
  }),
)

/** Query of GET /api/v1/performance. */
export const groupedQuery = z
  .strictObject({
    group_by: z.optional(oneOf(groupings)),
    from: dayIn,
    to: dayIn,
    time_zone: z.optional(
      z
        .string()
        .check(z.refine((name) => zoneOf(name) !== undefined, 'must be an IANA time zone, for example Europe/Berlin')),
    ),
    interval: z.optional(oneOf(intervals)),
    metrics: z.optional(metricsIn),
    sort: z.optional(oneOf(allMetrics)),
    order: z.optional(oneOf(['desc', 'asc'])),
    limit: z.optional(numberIn(1, 100)),
    currency: z.optional(z.string().check(z.regex(/^[a-z]{3}$/, 'must be three lower-case letters, for example usd'))),
  })
  .check(
    z.refine((query) => daysOf(query) > 0, { path: ['to'], error: 'must not be before from' }),
    z.refine((query) => daysOf(query) <= maxRangeDays, {
      path: ['to'],
      error: `must be at most ${maxRangeDays} days after from`,
    }),
    z.refine(({ interval, ...query }) => !interval || daysOf(query) <= maxDaysOf[interval], {
      path: ['interval'],
      error: `can split at most ${maxDaysOf.hour} days into hours and ${maxDaysOf.day} into days`,
    }),
    z.refine(
      ({ interval, group_by, limit = defaultLimit, ...query }) => {
        return interval !== 'hour' || !group_by || limit * daysOf(query) * 24 <= maxGroupHours
      },
      {
        path: ['limit'],
        error: `times the hours of the range must be at most ${maxGroupHours}: use fewer groups, fewer days or a longer interval`,
      },
    ),
    z.refine(({ sort, metrics = defaultMetrics }) => !sort || metrics.includes(sort), {
      path: ['sort'],
      error: 'must be one of the requested metrics',
    }),
  )
type Query = z.output<typeof groupedQuery>

/** Returns the days of a query. The default is the last thirty days in its time zone, including today. */
function rangeOf({ from, to, time_zone: zone = 'UTC' }: Pick<Query, 'from' | 'to' | 'time_zone'>, now = Date.now()) {
  const last = to ?? new Intl.DateTimeFormat('sv-SE', { timeZone: zoneOf(zone) ?? 'UTC' }).format(now)
  return { from: from ?? new Date(Date.parse(last) - (defaultDays - 1) * dayMs).toISOString().slice(0, 10), to: last }
}

function daysOf(query: Pick<Query, 'from' | 'to' | 'time_zone'>): number {
  const { from, to } = rangeOf(query)
  return (Date.parse(to) - Date.parse(from)) / dayMs + 1
}

/** Converts the query to the options of lib/tracking/groupings.ts. */
export function asGroupsQuery(query: Query): GroupsQuery {
  const metrics = query.metrics ?? defaultMetrics
  return {
    ...rangeOf(query),
    groupBy: query.group_by,
    timeZone: zoneOf(query.time_zone ?? 'UTC') ?? 'UTC',
    interval: query.interval,
    metrics,
    sort: query.sort ?? metrics[0] ?? 'clicks',
    order: query.order ?? 'desc',
    limit: query.limit ?? defaultLimit,
    currency: query.currency,
  }
}

/** Renders the response: the query, the total, and the groups. */
export function asGrouped(
  query: Query,
  groupsQuery: GroupsQuery,
  { currency: ofMoney, total, groups, clicksUntil }: Groups,
) {
  return {
    success: true,
    group_by: groupsQuery.groupBy ?? null,
    from: groupsQuery.from,
    to: groupsQuery.to,
    time_zone: query.time_zone ?? 'UTC',
    interval: groupsQuery.interval ?? null,
    currency: ofMoney,
    ...(clicksUntil && { clicks_until: clicksUntil.toISOString() }),
    total,
    data: groups,
  }
}

const figure = () => z.optional(z.number())
const figures = () => ({
  clicks: z.optional(count()),
  bot_clicks: z.optional(count()),
  leads: z.optional(count()),
  conversions: z.optional(count()),
  sales: z.optional(count()),
  revenue_cents: z.optional(z.int()),
  refunded_cents: z.optional(z.int()),
  commission_cents: z.optional(z.int()),
  conversion_rate: figure(),
  average_order_cents: figure(),
})
const cut = () => z.optional(z.array(z.object({ start: z.string(), ...figures() })))

const response = () =>
  z.object({
    success: success(),
    group_by: z.nullable(z.enum(groupings)),
    from: day(),
    to: day(),
    time_zone: z.string(),
    interval: z.nullable(z.enum(intervals)),
    currency: currency(),
    clicks_until: z.optional(time()),
    total: z.object({ ...figures(), intervals: cut() }),
    data: z.array(
      z.object({
        value: text(),
        label: z.optional(z.string()),
        is_rest: z.optional(z.literal(true)),
        ...figures(),
        intervals: cut(),
      }),
    ),
  })

const listed = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(', ')

const exampleFigures = {
  clicks: 120,
  leads: 12,
  conversions: 3,
  sales: 3,
  revenue_cents: 14700,
  commission_cents: 2940,
}

export const groupedPerformance = (): Operation => ({
  id: 'performanceByGroup',
  method: 'get',
  path: '/api/v1/performance',
  summary: 'Read performance by group',
  description:
    'Returns a program’s figures, grouped by partner, link, code, country, device, browser, referrer, page, campaign or sub-id. They can be split by hour, day, week or month in any time zone. A lead or sale counts for the click that its customer had when they were first counted. Clicks, leads, sales and refunds are counted within half a minute, or at the latest after half an hour. `total` and `data` always agree. The daily performance read of the dashboard is always up to date. Bots only count in `bot_clicks`.',
  auth: 'key',
  scope: 'read',
  parameters: [
    {
      in: 'query',
      schema: groupedQuery,
      fields: {
        group_by: {
          description:
            'How to group the figures. If omitted, you only get the total. For referrers, only the host is used, and for pages, the URL without its query. For `browser` and everything after it in this list, only the first 200 values of each day are kept separately.',
          example: 'partner',
          values: { type: 'string', enum: groupings },
        },
        from: {
          description: `First day in the time zone, YYYY-MM-DD; ${defaultDays} days up to \`to\` by default.`,
          values: { type: 'string', format: 'date' },
        },
        to: {
          description: `Last day, inclusive; today by default. At most ${maxRangeDays} days.`,
          values: { type: 'string', format: 'date' },
        },
        time_zone: {
          description: 'IANA time zone name. Default `UTC`.',
          example: 'Europe/Berlin',
          values: { type: 'string', default: 'UTC' },
        },
        interval: {
          description: `Splits each group and the total: up to ${maxDaysOf.hour} days into hours, up to ${maxDaysOf.day} into days. For hours, \`limit\` times the hours of the range is at most ${maxGroupHours}. Weeks start on Monday.`,
          example: 'month',
          values: { type: 'string', enum: intervals },
        },
        metrics: {
          description: `Comma-separated: ${listed(allMetrics)}. Default ${listed(defaultMetrics)}.`,
          values: { type: 'string' },
        },
        sort: {
          description: 'The metric by which the groups are sorted. Default: the first one.',
          values: { type: 'string', enum: allMetrics },
        },
        order: {
          description: 'Largest or smallest first.',
          values: { type: 'string', enum: ['desc', 'asc'], default: 'desc' },
        },
        limit: {
          description: 'The maximum number of groups to return.',
          values: { type: 'integer', minimum: 1, maximum: 100, default: defaultLimit },
        },
        currency: {
          description:
            'The currency of amounts and of `sales`. Default: the program’s currency. Currencies are not converted.',
          values: { type: 'string' },
        },
      },
    },
  ],
  success: {
    schemas: [response()],
    description: 'The requested figures, in total and for each value.',
    fields: {
      clicks_until: 'Later clicks may be missing, because they are still being counted. Usually absent.',
      value:
        'The id of a partner, link or code as text, a two-letter country code, a device type or a name. Null for events without a value.',
      label: 'The name of the partner, the code of the link, or the code.',
      is_rest: 'Marks the group that combines all other values.',
      start: 'The first day of the interval. For hours, the time with its offset.',
      bot_clicks:
        'Clicks by bots that identify themselves in their user agent. They are not included in any other figure.',
      conversion_rate: 'Conversions per hundred clicks, with two decimals.',
      average_order_cents: 'Revenue divided by conversions, rounded.',
      refunded_cents: 'The part of this revenue that has been refunded or charged back so far.',
      commission_cents: 'Commissions created in the range, minus later reversals.',
      revenue_cents: 'Sales before refunds.',
      sales: 'Attributed sales in this currency, including renewals.',
    },
  },
  examples: [
    answered('partners', 'The partners of a year, by month', {
      group_by: 'partner',
      from: '2026-01-01',
      to: '2026-01-31',
      time_zone: 'Europe/Berlin',
      interval: 'month',
      currency: 'usd',
      total: { ...exampleFigures, intervals: [{ start: '2026-01-01', ...exampleFigures }] },
      data: [
        {
          value: '2',
          label: 'Nora Field',
          ...exampleFigures,
          intervals: [{ start: '2026-01-01', ...exampleFigures }],
        },
      ],
    }),
  ],
})
