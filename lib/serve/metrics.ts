import { readdirSync, statfsSync, statSync } from 'node:fs'
import path from 'node:path'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { PostgresPool } from '../commands/postgres.ts'

/** Measurements of the process. `GET /healthz?format=prometheus` returns them after the figures of lib/health.ts. */
export interface ProcessMetrics {
  /** Counts a request of a function. `seconds` is the time until the response's headers. */
  countRequest(name: string, status: number, seconds: number): void
  /** Counts a run of a schedule. */
  countRun(name: string, isOk: boolean): void
  /** Returns all metrics in the Prometheus format. */
  text(): Promise<string>
}

/**
 * Measures this process: requests, schedules, database connections, memory, CPU time and event loop. Also the disk of `dataFolder`
 * and the newest file in `backupFolder`, if they are given.
 */
export function openMetrics(options: {
  readConnections: PostgresPool['readConnections']
  dataFolder?: string | undefined
  backupFolder?: string | undefined
}): ProcessMetrics {
  const { readConnections, dataFolder, backupFolder } = options
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
  return {
    countRequest(name, status, seconds) {
      requests.inc({ function: name, status })
      durations.observe({ function: name }, seconds)
    },
    countRun(name, isOk) {
      runs.inc({ schedule: name, result: isOk ? 'ok' : 'failed' })
      if (isOk) latestRuns.setToCurrentTime({ schedule: name })
    },
    async text() {
      for (const [state, count] of Object.entries(readConnections())) connections.set({ state }, count)
      if (diskFree) diskFree.set(freeShare(dataFolder))
      if (backedUp) backedUp.set(latestBackup(backupFolder))
      return await registry.metrics()
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
