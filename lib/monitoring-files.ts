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

/**
 * The alert rules for Prometheus: one for each figure with a bound, with the same bound as `/healthz`. An unavailable figure counts as
 * unhealthy too. The metrics themselves go missing if the service is down.
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
  ]
}

/** Writes the rules as YAML. Each value is JSON, which YAML reads. */
export function alertRules(): string {
  const lines = rules().flatMap(({ alert, expr, summary, look }) => [
    `      - alert: ${alert}`,
    `        expr: ${JSON.stringify(expr)}`,
    '        for: 1m',
    '        annotations:',
    `          summary: ${JSON.stringify(summary)}`,
    `          runbook: ${JSON.stringify(`"${look}" in lib/commands/README.md`)}`,
  ])
  return ['groups:', '  - name: svc', '    rules:', ...lines, ''].join('\n')
}

/** Writes a Grafana dashboard with a panel for each figure. A line marks the highest healthy value. */
export function grafanaDashboard(): string {
  const panels = figures.map(([name, { what, most }], index) => ({
    id: index + 1,
    type: 'timeseries',
    title: what,
    gridPos: { x: (index % 3) * 8, y: Math.floor(index / 3) * 7, w: 8, h: 7 },
    datasource: { type: 'prometheus', uid: '${datasource}' },
    targets: [{ refId: 'A', expr: `svc_${name}` }],
    fieldConfig: {
      defaults: {
        unit: name.endsWith('_seconds') ? 's' : 'short',
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
