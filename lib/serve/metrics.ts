import { readdirSync, statfsSync, statSync } from 'node:fs'
import path from 'node:path'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { readCertificateEnd } from './certificate.ts'
import type { PostgresPool } from '../commands/postgres.ts'
import type { MeasuredMetric } from './otlp-metrics.ts'

/** Measurements of the process. `GET /healthz?format=prometheus` returns them after the figures of lib/health.ts. */
export interface ProcessMetrics {
  /** Counts a request of a function. `seconds` is the time until the response's headers. */
  countRequest(name: string, status: number, seconds: number): void
  /** Counts a run of a schedule. */
  countRun(name: string, isOk: boolean): void
  /** Counts a mail that the mail API accepted or refused. */
  countMail(isOk: boolean): void
  /** Returns all metrics in the Prometheus format. */
  text(): Promise<string>
  /** Returns the same metrics for OpenTelemetry. */
  read(): Promise<MeasuredMetric[]>
}

const certificateEveryMilliseconds = 3_600_000

/**
 * Measures this process: requests, schedules, mails, database connections, memory, CPU time and event loop. Also measures the
 * certificate of an `https:` address, the disk of `dataFolder` and the newest file in `backupFolder`, if they are given.
 */
export function openMetrics(options: {
  readConnections: PostgresPool['readConnections']
  /** Pass `readLags` from lib/serve/schedules.ts. */
  readLags: () => Record<string, number>
  baseUrl: string
  dataFolder?: string | undefined
  backupFolder?: string | undefined
}): ProcessMetrics {
  const { readConnections, readLags, baseUrl, dataFolder, backupFolder } = options
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const requests = new Counter({
    name: 'svc_requests_total',
    help: 'Requests by function and status',
    labelNames: ['function', 'status'],
    registers,
  })
  const durations = new Histogram({
    name: 'svc_request_seconds',
    help: 'Time until the response, by function',
    labelNames: ['function'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  const runs = new Counter({
    name: 'svc_schedule_runs_total',
    help: 'Runs of schedules by result',
    labelNames: ['schedule', 'result'],
    registers,
  })
  const latestRuns = new Gauge({
    name: 'svc_schedule_success_timestamp_seconds',
    help: 'Time of the latest successful run of a schedule',
    labelNames: ['schedule'],
    registers,
  })
  const lags = new Gauge({
    name: 'svc_schedule_lag_seconds',
    help: 'Time since a schedule should have run successfully, on the leader',
    labelNames: ['schedule'],
    registers,
  })
  const mails = new Counter({
    name: 'svc_mails_total',
    help: 'Mails that the mail API accepted or refused',
    labelNames: ['result'],
    registers,
  })
  // Prometheus doesn't see an increase if a counter starts at 1.
  for (const result of ['ok', 'failed']) mails.inc({ result }, 0)
  const certificateEnds = new Gauge({
    name: 'svc_certificate_end_timestamp_seconds',
    help: 'Time when the certificate expires',
    labelNames: ['host'],
    registers,
  })
  const connections = new Gauge({
    name: 'svc_connections',
    help: 'Database connections, and statements that wait for one',
    labelNames: ['state'],
    registers,
  })
  const diskFree =
    dataFolder &&
    new Gauge({ name: 'svc_disk_free_ratio', help: 'Free share of the disk with the database', registers })
  const backedUp =
    backupFolder &&
    new Gauge({ name: 'svc_backup_timestamp_seconds', help: 'Time of the latest backup, 0 without one', registers })
  let certificateReadAt = -Infinity

  /**
   * Reads the certificate in the background, so that the next request for the metrics returns it. If the certificate can't be read, the
   * last value is kept.
   */
  function measureCertificate(): void {
    const now = performance.now()
    if (!baseUrl.startsWith('https:') || now - certificateReadAt < certificateEveryMilliseconds) return
    certificateReadAt = now
    readCertificateEnd(baseUrl).then(
      (end) => certificateEnds.set({ host: new URL(baseUrl).hostname }, end / 1000),
      () => {},
    )
  }

  function measure(): void {
    measureCertificate()
    lags.reset()
    for (const [schedule, seconds] of Object.entries(readLags())) lags.set({ schedule }, seconds)
    for (const [state, count] of Object.entries(readConnections())) connections.set({ state }, count)
    if (diskFree) diskFree.set(freeShare(dataFolder))
    if (backedUp) backedUp.set(latestBackup(backupFolder))
  }
  return {
    countRequest(name, status, seconds) {
      requests.inc({ function: name, status })
      durations.observe({ function: name }, seconds)
    },
    countRun(name, isOk) {
      runs.inc({ schedule: name, result: isOk ? 'ok' : 'failed' })
      if (isOk) latestRuns.setToCurrentTime({ schedule: name })
    },
    countMail(isOk) {
      mails.inc({ result: isOk ? 'ok' : 'failed' })
    },
    async text() {
      measure()
      return await registry.metrics()
    },
    async read() {
      measure()
      const metrics = await registry.getMetricsAsJSON()
      // The metric types are strings, although their declared type is a numeric enum.
      return metrics.map((metric) => ({ ...metric, type: String(metric.type) }))
    },
  }
}

function freeShare(folder: string): number {
  const { bavail, blocks } = statfsSync(folder)
  return bavail / blocks
}

/** Returns the time of the newest complete backup in seconds, or 0. */
function latestBackup(folder: string): number {
  try {
    const names = readdirSync(folder).filter((name) => /^svc-.*\.sql\.gz(\.age)?$/.test(name))
    return Math.max(0, ...names.map((name) => statSync(path.join(folder, name)).mtimeMs / 1000))
  } catch {
    return 0
  }
}
