import { type Goal, type Result, round } from './result.ts'

/**
 * Costs of one click or call, measured by `limit`, `cost` and `serve`, or with ClickHouse
 * 26.7 (lib/commands/scaling.md). CPU times are of Postgres. A click's includes its count.
 */
const unit = {
  clickMs: 0.7,
  leadMs: 0.46,
  saleMs: 0.74,
  /** A row that waits for ClickHouse: reading, sending and deleting it. */
  sinkMs: 0.127,
  /** A batch of sixteen saves this much per click (README.md, decision 9). */
  batchSavesMs: 0.15,
  walBytes: 1700,
  newBytes: 641,
  pastBytes: 253,
  visitorBytes: 358,
  /** Leads, sales with their commissions, and refunds of a hundred clicks. */
  moneyBytes: 3040,
  clickHouseBytes: 129,
}

const baseClicks = 50e6
const secondsOfMonth = 30 * 86_400
/** The busiest second has ten times the average, as in `cost`. */
const peakFactor = 10
const monthsKept = 25
/** Months of clicks that Postgres needs beside ClickHouse: this one, and an attribution window of two months. */
const monthsBeside = 3

/** The largest Postgres of the model. Restoring two terabytes takes three hours at 200 MB per second. */
const largest = { cores: 16, busy: 0.6, terabytes: 2 }

interface Load {
  factor: number
  peak: number
  cores: number
  batchedCores: number
  walMegabytes: number
  terabytes: number
  terabytesBeside: number
  clickHouseTerabytes: number
}

/** Computes what a load needs of one Postgres: with every row there, and with past clicks only in ClickHouse. */
function loadOf(factor: number): Load {
  const clicks = baseClicks * factor
  const average = clicks / secondsOfMonth
  const peak = average * peakFactor
  const othersMs = 0.02 * unit.leadMs + 0.01 * unit.saleMs
  const moneyBytes = (clicks / 100) * unit.moneyBytes * monthsKept
  const clickBytes = (months: number) => clicks * (unit.newBytes + unit.visitorBytes + (months - 1) * unit.pastBytes)
  return {
    factor,
    peak,
    cores: (peak * (unit.clickMs + othersMs + unit.sinkMs)) / 1000,
    batchedCores: (peak * (unit.clickMs - unit.batchSavesMs + othersMs + unit.sinkMs)) / 1000,
    walMegabytes: (peak * unit.walBytes) / 1e6,
    terabytes: (clickBytes(monthsKept) + moneyBytes) / 1e12,
    terabytesBeside: (clickBytes(monthsBeside) + moneyBytes) / 1e12,
    clickHouseTerabytes: (clicks * unit.clickHouseBytes * monthsKept) / 1e12,
  }
}

const coresOfShard = largest.cores * largest.busy

/** The number of Postgres that share a load, with a queue and ClickHouse. */
const shardsOf = ({ batchedCores, terabytesBeside }: Load) =>
  Math.ceil(Math.max(batchedCores / coresOfShard, terabytesBeside / largest.terabytes))

function stepsOf(load: Load): string {
  const shards = shardsOf(load)
  const steps = [
    load.terabytes > largest.terabytes && 'ClickHouse',
    load.cores > coresOfShard && 'queue',
    shards > 1 && `${shards} shards`,
  ]
  return steps.filter(Boolean).join(', ') || 'none'
}

/** Random numbers from 0 to 1, the same in each run. */
function numbers(seed: number): () => number {
  let state = seed
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
}

/** How long the traffic peaks, or Postgres is away, in the busiest hour of a simulated day. */
const incident = { from: 21_600, until: 22_200 }

/**
 * Runs a day in seconds, with a daily curve and random traffic. The consumers write up to the peak traffic. Returns the longest wait of a click
 * in the queue, and the seconds until the queue is empty again after the incident.
 */
function simulateQueue(peak: number, kind: 'burst' | 'outage') {
  const random = numbers(20_261_128)
  let waiting = 0
  let waitSeconds = 0
  let drainedAt = incident.from
  for (let second = 0; second < 86_400; second++) {
    const curve = 1 + 0.8 * Math.sin((2 * Math.PI * second) / 86_400)
    const isIncident = second >= incident.from && second < incident.until
    const traffic = kind === 'burst' && isIncident ? peak : (peak / peakFactor) * curve
    const writing = kind === 'outage' && isIncident ? 0 : peak
    waiting = Math.max(0, waiting + traffic * (0.5 + random()) - writing)
    const away = kind === 'outage' && isIncident ? incident.until - second : 0
    if (waiting > 0) waitSeconds = Math.max(waitSeconds, away + waiting / peak)
    if (waiting > 0) drainedAt = second + 1
  }
  return { waitSeconds, drainedSeconds: Math.max(0, drainedAt - incident.until) }
}

const programs = 10_000

/**
 * Places programs on shards. Their traffic is that of a Zipf distribution: the n-th has 1/n of the first. Returns the load of the fullest shard
 * relative to the average: by a hash of the program's id, and by a table that puts each program, largest first, on the emptiest shard.
 */
function simulateShards(shards: number) {
  const random = numbers(16)
  const traffic = Array.from({ length: programs }, (_, index) => 1 / (index + 1))
  const total = traffic.reduce((sum, share) => sum + share, 0)
  const fullest = (place: (loads: number[]) => number) => {
    const loads = Array.from({ length: shards }, () => 0)
    for (const share of traffic) {
      const shard = place(loads)
      loads[shard] = (loads[shard] ?? 0) + share
    }
    return Math.max(...loads) / (total / shards)
  }
  return {
    byHash: fullest(() => Math.floor(random() * shards)),
    byTable: fullest((loads) => loads.indexOf(Math.min(...loads))),
  }
}

/**
 * Simulates the service at 1 to 1,000 times 50 million clicks a month: the needs of one Postgres, and the steps that are then due. Also
 * simulates how long clicks wait in a queue, and how evenly programs share several Postgres.
 */
export function scaling(): Promise<Result> {
  const loads = [1, 10, 100, 1000].map(loadOf)
  const figures = loads.map((load) => {
    const shards = simulateShards(shardsOf(load))
    return {
      load: load.factor,
      'clicks/s at peak': Math.round(load.peak),
      'cores without queue': round(load.cores),
      'with queue': round(load.batchedCores),
      'WAL MB/s': round(load.walMegabytes),
      TB: round(load.terabytes),
      'beside ClickHouse': round(load.terabytesBeside),
      'in ClickHouse': round(load.clickHouseTerabytes),
      'fullest shard by hash': round(shards.byHash),
      'by table': round(shards.byTable),
      'steps due': stepsOf(load),
    }
  })
  // The consumers grow with the peak, so the waits are the same at each load.
  const [, , hundredfold] = loads
  const goals: Goal[] = (['burst', 'outage'] as const).flatMap((kind) => {
    const { waitSeconds, drainedSeconds } = simulateQueue(hundredfold?.peak ?? 0, kind)
    return kind === 'burst'
      ? [{ what: 'longest wait in the queue in ten minutes of peak traffic, in s', measured: waitSeconds, most: 60 }]
      : [
          {
            what: 'time to empty the queue after ten minutes without Postgres, in s',
            measured: drainedSeconds,
            most: 600,
          },
        ]
  })
  return Promise.resolve({ figures, goals })
}
