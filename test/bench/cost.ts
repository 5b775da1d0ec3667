import { loggedPart } from '../../lib/api/app.ts'
import { drive } from './driver.ts'
import { seedEndpoints, take } from './endpoints.ts'
import { cpuMicroseconds, startStack } from './environment.ts'
import { HttpConnection } from './http.ts'
import type { Result } from './result.ts'

/** Prices in dollars for usage above the included amounts of each plan, with their sources, as of 22 November 2026. */
const prices = {
  request: {
    dollars: 0.3,
    per: 1e6,
    of: 'Worker requests',
    source: 'developers.cloudflare.com/workers/platform/pricing',
  },
  workerCpu: {
    dollars: 0.02,
    per: 1e6,
    of: 'ms of Worker CPU',
    source: 'developers.cloudflare.com/workers/platform/pricing',
  },
  logEvent: {
    dollars: 0.6,
    per: 1e6,
    of: 'log events',
    source: 'developers.cloudflare.com/workers/observability/logs/workers-logs',
  },
  compute: { dollars: 0.106, per: 1, of: 'CU-hours of Neon, Launch', source: 'neon.com/docs/introduction/plans' },
  history: { dollars: 0.2, per: 1, of: 'GB-months of restore history', source: 'neon.com/docs/introduction/plans' },
  storage: { dollars: 0.35, per: 1, of: 'GB-months of storage', source: 'neon.com/docs/introduction/plans' },
}

const clicks = 20_000
const million = 1_000_000
/** This plan allows at most 7 of the 30 days of restore history. */
const historyMonths = 7 / 30

/**
 * Computes the cost of a million clicks from this run's figures for one click: CPU time of workerd and Postgres, WAL, and bytes on disk.
 * A fully used core counts as one CU. All of workerd's time counts as Worker time, although Cloudflare bills less.
 */
export async function cost(): Promise<Result> {
  const stack = await startStack()
  const endpoints = await seedEndpoints(stack, clicks + 2000)
  const click = endpoints.find(({ name }) => name === 'click')
  if (!click) throw new Error('The endpoint "click" is missing.')
  const carriers = Array.from({ length: 16 }, () => new HttpConnection(stack.baseUrl))
  await drive(carriers, take(click, 2000))
  const read = async () => {
    await stack.sql.query('checkpoint')
    const { rows } = await stack.sql.query<{ wal: string; size: string }>(
      `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as wal, pg_database_size(current_database()) as size`,
    )
    return {
      wal: Number(rows[0]?.wal),
      size: Number(rows[0]?.size),
      workerd: cpuMicroseconds(stack.workerdPid),
      postgres: cpuMicroseconds(stack.postgresPid, true),
    }
  }
  const before = await read()
  await drive(carriers, take(click, clicks))
  await stack.scheduled('count-clicks')
  const after = await read()
  for (const carrier of carriers) carrier.close()
  await stack.close()

  const each = (name: keyof typeof before) => (after[name] - before[name]) / clicks
  const gigabytes = (name: 'wal' | 'size') => (each(name) * million) / 1e9
  const used: [price: keyof typeof prices, amount: number, how: string][] = [
    ['request', million, 'one a click; none asks first (JSON goes as text)'],
    ['workerCpu', (each('workerd') / 1000) * million, `${Math.round(each('workerd'))} us of workerd per click`],
    ['logEvent', loggedPart * million, `${loggedPart} of the clicks`],
    ['compute', (each('postgres') * million) / 1e6 / 3600, `${Math.round(each('postgres'))} us of Postgres per click`],
    ['history', gigabytes('wal') * historyMonths, `${Math.round(each('wal'))} bytes of WAL per click, kept for 7 days`],
  ]
  const priced = used.map(([name, amount, how]) => {
    const { dollars, per, of, source } = prices[name]
    return {
      dollars: (amount / per) * dollars,
      row: { what: of, price: `${dollars} / ${per}`, amount: Math.round(amount * 100) / 100, how, source },
    }
  })
  const total = priced.reduce((sum, { dollars }) => sum + dollars, 0)
  const stored = gigabytes('size') * prices.storage.dollars
  return {
    figures: [
      ...priced.map(({ dollars, row }) => ({ ...row, dollars: Number(dollars.toFixed(4)) })),
      {
        what: `a month of keeping them: ${prices.storage.of}`,
        price: `${prices.storage.dollars} / 1`,
        amount: Number(gigabytes('size').toFixed(2)),
        how: `${Math.round(each('size'))} bytes per click with indexes`,
        source: prices.storage.source,
        dollars: Number(stored.toFixed(4)),
      },
    ],
    goals: [{ what: 'dollars for a million clicks without their storage', measured: total, most: 0.5 }],
  }
}
