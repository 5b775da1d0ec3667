import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Attributes,
  type Context,
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import type { PostgresPool } from '../commands/postgres.ts'
import { asMetricData, type MeasuredMetric } from './otlp-metrics.ts'

/** Exports traces and metrics of this process over OTLP. */
export interface Telemetry {
  /** Traces a request to a function, as a part of the caller's trace. */
  request(name: string, request: Request, answer: () => Promise<Response>): Promise<Response>
  /** Traces a run of a schedule. */
  run(name: string, work: () => Promise<void>): Promise<void>
  /** Traces the statements of requests and runs. */
  statements(pool: PostgresPool): PostgresPool
  /** Exports these metrics every minute, or every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds. */
  exportMetrics(read: () => Promise<MeasuredMetric[]>): void
  /** Sends the remaining traces and metrics. */
  stop(): Promise<void>
}

const stopWithinMilliseconds = 5000
/** Statements don't contain values, but some are long. */
const maxStatementCharacters = 1000
/** Otherwise, an unreachable collector would fill the log. */
const problemEveryMilliseconds = 60_000

const ignore = () => {}
const silent = { error: ignore, warn: ignore, info: ignore, debug: ignore, verbose: ignore }

/**
 * Opens the exporters if `OTEL_EXPORTER_OTLP_ENDPOINT` is set, and otherwise loads nothing. The exporters read
 * `OTEL_EXPORTER_OTLP_*`, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` themselves. `OTEL_TRACES_SAMPLER_ARG` is the share of
 * traces, 1 by default. A caller can't change this with the flags of its trace.
 *
 * Spans contain no addresses, because an address can contain a secret or an id.
 */
export async function openTelemetry(
  environment: Record<string, string | undefined> = process.env,
): Promise<Telemetry | undefined> {
  if (!environment['OTEL_EXPORTER_OTLP_ENDPOINT']) return undefined
  const [core, tracing, measuring, resources, { OTLPTraceExporter }, { OTLPMetricExporter }] = await Promise.all([
    import('@opentelemetry/core'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/sdk-metrics'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/exporter-trace-otlp-proto'),
    import('@opentelemetry/exporter-metrics-otlp-proto'),
  ])
  let reportedAt = -Infinity
  const report = (message: string) => {
    if (performance.now() - reportedAt < problemEveryMilliseconds) return
    reportedAt = performance.now()
    console.error(JSON.stringify({ error: 'opentelemetry', message }))
  }
  diag.setLogger({ ...silent, error: report }, DiagLogLevel.ERROR)

  const resource = resources
    .resourceFromAttributes({ 'service.name': 'svc', 'service.instance.id': randomUUID() })
    .merge(resources.detectResources({ detectors: [resources.envDetector] }))
  const root = new tracing.TraceIdRatioBasedSampler(Number(environment['OTEL_TRACES_SAMPLER_ARG'] ?? 1))
  const tracers = new tracing.TracerProvider({
    resource,
    sampler: new tracing.ParentBasedSampler({ root, remoteParentSampled: root, remoteParentNotSampled: root }),
    spanProcessors: [new tracing.BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  })
  const tracer = tracers.getTracer('svc')
  const stops = [() => tracers.shutdown()]
  /** The open span of each request. The global context stays unset, because packages would add spans with users' data to it. */
  const open = new AsyncLocalStorage<Context>()

  async function traced<Result>(
    name: string,
    { kind, attributes, parent }: { kind: SpanKind; attributes: Attributes; parent: Context },
    work: (span: Span) => Promise<Result>,
  ): Promise<Result> {
    const span = tracer.startSpan(name, { kind, attributes }, parent)
    try {
      return await open.run(trace.setSpan(parent, span), () => work(span))
    } catch (error) {
      span.setAttribute('error.type', error instanceof Error ? error.name : typeof error)
      span.setStatus({ code: SpanStatusCode.ERROR })
      throw error
    } finally {
      span.end()
    }
  }

  return {
    async request(name, request, answer) {
      const caller = core.parseTraceParent(request.headers.get('traceparent') ?? '')
      const parent = caller ? trace.setSpanContext(ROOT_CONTEXT, { ...caller, isRemote: true }) : ROOT_CONTEXT
      const attributes = { 'http.request.method': request.method, 'svc.function': name }
      return await traced(
        `${request.method} ${name}`,
        { kind: SpanKind.SERVER, attributes, parent },
        async (span): Promise<Response> => {
          const response = await answer()
          const requestId = response.headers.get('x-request-id')
          span.setAttribute('http.response.status_code', response.status)
          // The log lines of the request have this id.
          if (requestId !== null) span.setAttribute('svc.request_id', requestId)
          if (response.status >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
          return response
        },
      )
    },
    async run(name, work) {
      const attributes = { 'svc.function': name }
      await traced(`run ${name}`, { kind: SpanKind.INTERNAL, attributes, parent: ROOT_CONTEXT }, work)
    },
    statements: (pool) => ({
      ...pool,
      async run(statements, isTransaction, timeout_ms) {
        const parent = open.getStore()
        if (!parent) return await pool.run(statements, isTransaction, timeout_ms)
        const text = statements.map((statement) => statement.text).join(';\n')
        const attributes = {
          'db.system.name': 'postgresql',
          'db.query.text': text.slice(0, maxStatementCharacters),
          'db.operation.batch.size': statements.length,
        }
        return await traced('postgresql', { kind: SpanKind.CLIENT, attributes, parent }, () =>
          pool.run(statements, isTransaction, timeout_ms),
        )
      },
    }),
    exportMetrics(read) {
      const startedAt = performance.timeOrigin
      const exportIntervalMillis = Number(environment['OTEL_METRIC_EXPORT_INTERVAL']) || 60_000
      const producer = {
        collect: async () => ({
          resourceMetrics: {
            resource,
            scopeMetrics: [{ scope: { name: 'svc' }, metrics: asMetricData(await read(), startedAt, measuring) }],
          },
          errors: [],
        }),
      }
      const reader = new measuring.PeriodicExportingMetricReader({
        exporter: new OTLPMetricExporter(),
        exportIntervalMillis,
        exportTimeoutMillis: Math.min(exportIntervalMillis, 10_000),
        metricProducers: [producer],
      })
      const meters = new measuring.MeterProvider({ resource, readers: [reader] })
      stops.push(() => meters.shutdown())
    },
    async stop() {
      const stopped = Promise.allSettled(stops.map((stop) => stop()))
      await Promise.race([stopped, sleep(stopWithinMilliseconds, undefined, { ref: false })])
    },
  }
}
