import { type HealthFigures, watched } from './health.ts'

type Name = keyof HealthFigures
// oxlint-disable-next-line no-unsafe-type-assertion -- its names are the record's own
const figures = Object.entries(watched) as [Name, (typeof watched)[Name]][]

const alertName = (name: string) => `Svc${name.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())}`

interface Rule {
  alert: string
  expr: string
  summary: string
  /** A section of the runbook. */
  look: string
}

/** The service's objectives: 99.9% of requests succeed, and 99% of tracking calls finish within half a second. */
const objectives = [
  {
    name: 'Errors',
    summary: 'Requests fail with status 500 or above',
    allowed: 0.001,
    badShare: (window: string) =>
      `sum(rate(svc_requests_total{status=~"5.."}[${window}])) / sum(rate(svc_requests_total[${window}]))`,
  },
  {
    name: 'SlowTracking',
    summary: 'Tracking calls take longer than half a second',
    allowed: 0.01,
    badShare: (window: string) =>
      `1 - sum(rate(svc_request_seconds_bucket{function=~"track-.*",le="0.5"}[${window}])) / sum(rate(svc_request_seconds_count{function=~"track-.*"}[${window}]))`,
  },
]

/**
 * A fast burn uses 2% of a month's allowed failures in an hour, and a slow one 5% in six hours. With the short window, the alert
 * ends soon after its cause.
 * @see https://sre.google/workbook/alerting-on-slos/ for the windows and factors
 */
const burns = [
  { name: 'Fast', factor: 14.4, long: '1h', short: '5m' },
  { name: 'Slow', factor: 6, long: '6h', short: '30m' },
]

/** The rules for the metrics of a process (lib/serve/metrics.ts). Cloudflare has metrics of its own. */
const processRules: Rule[] = [
  ...objectives.flatMap(({ name, summary, allowed, badShare }) =>
    burns.map((burn): Rule => {
      const bound = Number((burn.factor * allowed).toPrecision(3))
      return {
        alert: `Svc${name}${burn.name}`,
        expr: `${badShare(burn.long)} > ${bound} and ${badShare(burn.short)} > ${bound}`,
        summary,
        look: 'Database down',
      }
    }),
  ),
  {
    alert: 'SvcScheduleFailing',
    expr: 'sum by (schedule) (increase(svc_schedule_runs_total{result="failed"}[2h])) > 0 unless sum by (schedule) (increase(svc_schedule_runs_total{result="ok"}[2h])) > 0',
    summary: 'A schedule only fails',
    look: 'Late counting',
  },
  {
    alert: 'SvcScheduleLate',
    expr: 'svc_schedule_lag_seconds > 3600',
    summary: 'A schedule is an hour late',
    look: 'Late counting',
  },
  {
    alert: 'SvcMailRefused',
    expr: 'sum(increase(svc_mails_total{result="failed"}[10m])) > 0 unless sum(increase(svc_mails_total{result="ok"}[10m])) > 0',
    summary: 'The mail API refuses all mails',
    look: 'Mail API down',
  },
  {
    alert: 'SvcCertificateEnds',
    expr: 'svc_certificate_end_timestamp_seconds - time() < 1209600',
    summary: 'The certificate expires within two weeks',
    look: 'Certificate',
  },
  {
    alert: 'SvcConnectionsUsedUp',
    expr: 'svc_connections{state="waiting"} > 20',
    summary: 'Statements wait for a database connection',
    look: 'Database down',
  },
  { alert: 'SvcDiskFull', expr: 'svc_disk_free_ratio < 0.1', summary: 'The disk is almost full', look: 'Disk full' },
  {
    alert: 'SvcBackupLate',
    expr: 'time() - svc_backup_timestamp_seconds > 129600',
    summary: 'The latest backup is older than 36 hours',
    look: 'Backups',
  },
]

/**
 * The alert rules for Prometheus: one for each figure with a limit, which is the same as in `/healthz`. An unavailable figure counts
 * as unhealthy too. If the service is down, the metrics are missing.
 */
function rules(): Rule[] {
  return [
    { alert: 'SvcDown', expr: 'absent(svc_up)', summary: 'The service does not answer', look: 'Database down' },
    ...figures.flatMap(([name, { what, most, least, look }]): Rule[] => {
      const metric = `svc_${name}`
      const bound = most === undefined ? least !== undefined && `${metric} < ${least}` : `${metric} > ${most}`
      if (!bound) return []
      const expr = `(${bound}) or (absent(${metric}) and on() svc_up)`
      return [{ alert: alertName(name), expr, summary: what, look }]
    }),
    ...processRules,
  ]
}

/**
 * Writes the rules as YAML. Each value is JSON, which YAML reads. With a scrape every 15 s, an alert fires within a minute, and a restart
 * doesn't cause one.
 */
export function alertRules(): string {
  const lines = rules().flatMap(({ alert, expr, summary, look }) => [
    `      - alert: ${alert}`,
    `        expr: ${JSON.stringify(expr)}`,
    '        for: 15s',
    '        annotations:',
    `          summary: ${JSON.stringify(summary)}`,
    `          runbook: ${JSON.stringify(`"${look}" in lib/commands/README.md`)}`,
  ])
  return ['groups:', '  - name: svc', '    interval: 10s', '    rules:', ...lines, ''].join('\n')
}

interface Panel {
  title: string
  expr: string
  unit: 's' | 'short' | 'percentunit'
  /** The highest healthy value. */
  most?: number | undefined
}

const processPanels: Panel[] = [
  { title: 'Requests per second', expr: 'sum by (function) (rate(svc_requests_total[5m]))', unit: 'short' },
  ...objectives.map(({ summary, badShare, allowed }): Panel => ({
    title: `${summary}: share`,
    expr: badShare('5m'),
    unit: 'percentunit',
    most: allowed,
  })),
  {
    title: '99% of responses within',
    expr: 'histogram_quantile(0.99, sum by (function, le) (rate(svc_request_seconds_bucket[5m])))',
    unit: 's',
  },
  { title: 'Database connections', expr: 'svc_connections', unit: 'short' },
  { title: 'Time since a successful run', expr: 'time() - svc_schedule_success_timestamp_seconds', unit: 's' },
  { title: 'Delay of a schedule', expr: 'svc_schedule_lag_seconds', unit: 's', most: 3600 },
  { title: 'Mails per second', expr: 'sum by (result) (rate(svc_mails_total[5m]))', unit: 'short' },
  { title: 'Time until the certificate expires', expr: 'svc_certificate_end_timestamp_seconds - time()', unit: 's' },
  { title: 'Free share of the disk', expr: 'svc_disk_free_ratio', unit: 'percentunit' },
  { title: 'Age of the latest backup', expr: 'time() - svc_backup_timestamp_seconds', unit: 's', most: 129_600 },
  { title: 'Memory', expr: 'process_resident_memory_bytes', unit: 'short' },
]

/** Writes a Grafana dashboard of all figures and process metrics. A line marks the highest healthy value. */
export function grafanaDashboard(): string {
  const all = [
    ...figures.map(([name, { what, most }]): Panel => ({
      title: what,
      expr: `svc_${name}`,
      unit: name.endsWith('_seconds') ? 's' : 'short',
      most,
    })),
    ...processPanels,
  ]
  const panels = all.map(({ title, expr, unit, most }, index) => ({
    id: index + 1,
    type: 'timeseries',
    title,
    gridPos: { x: (index % 3) * 8, y: Math.floor(index / 3) * 7, w: 8, h: 7 },
    datasource: { type: 'prometheus', uid: '${datasource}' },
    targets: [{ refId: 'A', expr }],
    fieldConfig: {
      defaults: {
        unit,
        ...(most !== undefined && {
          custom: { thresholdsStyle: { mode: 'line' } },
          thresholds: {
            mode: 'absolute',
            steps: [
              { color: 'green', value: null },
              { color: 'red', value: most },
            ],
          },
        }),
      },
      overrides: [],
    },
  }))
  const templating = { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus' }] }
  const dashboard = { uid: 'svc', title: 'Affiliate tracking', schemaVersion: 39, refresh: '1m', templating, panels }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}
