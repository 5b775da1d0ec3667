import { type HrTime, ValueType } from '@opentelemetry/api'
import type { DataPoint, Histogram, MetricData } from '@opentelemetry/sdk-metrics'
import type { Registry } from 'prom-client'

/** A metric as prom-client returns it. */
export type MeasuredMetric = Pick<
  Awaited<ReturnType<Registry['getMetricsAsJSON']>>[number],
  'name' | 'help' | 'values'
> & { type: string }

interface Value {
  metricName?: string
  labels: Partial<Record<string, string | number>>
  value: number
}

/** Converts Prometheus metrics to OpenTelemetry metrics with the same names. `startedAt` is in milliseconds. */
export function asMetricData(
  metrics: MeasuredMetric[],
  startedAt: number,
  { AggregationTemporality, DataPointType }: typeof import('@opentelemetry/sdk-metrics'),
): MetricData[] {
  const times = { startTime: hrTime(startedAt), endTime: hrTime(Date.now()) }
  const aggregationTemporality = AggregationTemporality.CUMULATIVE
  const pointOf = ({ labels, value }: Value): DataPoint<number> => ({ ...times, attributes: labels, value })
  return metrics.map(({ name, help, type, values }): MetricData => {
    const common = {
      descriptor: { name, description: help, unit: '', valueType: ValueType.DOUBLE },
      aggregationTemporality,
    }
    if (type === 'histogram') {
      const dataPoints = histograms(values).map((found) => ({ ...times, ...found }))
      return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints }
    }
    const dataPoints = values.map(pointOf)
    if (type === 'counter') return { ...common, dataPointType: DataPointType.SUM, dataPoints, isMonotonic: true }
    return { ...common, dataPointType: DataPointType.GAUGE, dataPoints }
  })
}

const hrTime = (milliseconds: number): HrTime => [
  Math.trunc(milliseconds / 1000),
  Math.trunc((milliseconds % 1000) * 1_000_000),
]

/** Groups the values of a histogram by their labels. Prometheus counts cumulatively, and its last bucket has no upper limit. */
function histograms(values: Value[]): { attributes: Value['labels']; value: Histogram }[] {
  const found = new Map<string, { attributes: Value['labels']; value: Histogram }>()
  for (const { metricName = '', labels, value } of values) {
    const { le, ...attributes } = labels
    const key = JSON.stringify(attributes)
    const one = found.get(key) ?? { attributes, value: { buckets: { boundaries: [], counts: [] }, sum: 0, count: 0 } }
    found.set(key, one)
    const { boundaries, counts } = one.value.buckets
    if (metricName.endsWith('_sum')) one.value.sum = value
    else if (metricName.endsWith('_count')) one.value.count = value
    else {
      if (le !== '+Inf') boundaries.push(Number(le))
      counts.push(value - counts.reduce((sum, count) => sum + count, 0))
    }
  }
  return [...found.values()]
}
