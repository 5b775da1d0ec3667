import type { Command } from 'commander'
import type { ApiOperations } from '../api-types.ts'
import { optionValues, type Print, type Subcommand } from './flags.ts'
import { connect, type ConnectionFlags, request } from './service.ts'
import { money, plain, table } from './text.ts'

type Answer = ApiOperations['performanceByGroup']['answer']

const options = {
  'group-by': 'partner, link, code, country, device, browser, referrer, page, utm_source, …, sub1 to sub3.',
  from: 'First day, YYYY-MM-DD.',
  to: 'Last day, included; default today.',
  'time-zone': 'Time zone of the days, such as Europe/Berlin; default UTC.',
  interval: 'hour (at most 31 days), day, week or month.',
  metrics: 'Separated by commas: clicks,leads,conversions,sales,revenue_cents,…',
  sort: 'Metric by which the groups are sorted. Default: the first one.',
  order: 'desc or asc.',
  limit: 'Maximum number of groups; default 25.',
  currency: "Currency of the money; default the program's.",
}

/** `svc performance`: figures by group and interval, as a table or JSON. */
export function addPerformance(svc: Command, subcommand: Subcommand, print: Print): void {
  const command = subcommand(svc, 'performance', "Show the program's figures by group, interval and time zone.")
  for (const [option, what] of Object.entries(options)) command.option(`--${option} <${option}>`, what)
  command
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc performance --group-by partner\n  $ svc performance --interval week --time-zone Europe/Berlin --json',
    )
    .action(async (flags: ConnectionFlags & Record<string, unknown>) => {
      const search = new URLSearchParams(optionValues(flags, Object.keys(options)))
      const answer = await request<Answer>(connect(flags), `/api/v1/performance?${search}`)
      print(flags, answer, asTable(answer))
    })
}

const whole = 'total'

/** Formats a row for each group, or for each of its intervals with figures, and then the total. */
function asTable({ group_by: groupBy, interval, currency, total, data }: Answer): string {
  const metrics = Object.keys(total).filter((name) => name !== 'intervals')
  const cellsOf = (row: object) => metrics.map((metric) => cellOf(metric, figureOf(row, metric), currency))
  const rowsOf = (name: string, row: Answer['total']) =>
    (row.intervals ?? [{ start: '', ...row }])
      .filter((part) => name === whole || metrics.some((metric) => figureOf(part, metric) !== 0))
      .map((part) => [...(groupBy ? [name] : []), ...(interval ? [part.start] : []), ...cellsOf(part)])
  const titles = [
    ...(groupBy ? [groupBy.toUpperCase()] : []),
    ...(interval ? [interval.toUpperCase()] : []),
    ...metrics.map((metric) =>
      metric
        .replace(/_cents$/, '')
        .replaceAll('_', ' ')
        .toUpperCase(),
    ),
  ]
  const groups = data.flatMap((group) => rowsOf(nameOf(group), group))
  return table(titles, [...groups, ...rowsOf(whole, total)])
}

function figureOf(row: object, metric: string): number {
  const figure: unknown = Reflect.get(row, metric)
  return typeof figure === 'number' ? figure : 0
}

function nameOf({ value, label, is_rest: isRest }: Answer['data'][number]): string {
  return plain(label ?? value ?? (isRest ? '(others)' : '(none)'))
}

function cellOf(metric: string, value: number, currency: string): string {
  if (metric.endsWith('_cents')) return money(value, currency)
  return metric.endsWith('_rate') ? `${value}%` : String(value)
}
