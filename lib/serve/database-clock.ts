import type { Postgres } from '../database.ts'
import { logFailure } from './server.ts'

const everyMilliseconds = 5000
const timeoutMilliseconds = 5000
const statement = {
  text: `select trunc(extract(epoch from clock_timestamp()) * 1000)::bigint as now`,
  parameters: [],
}

export interface DatabaseClock {
  /** Returns milliseconds since 1970. */
  now: () => number
  stop: () => void
}

/**
 * Reads the clock of the database, now and every five seconds. In between, the time follows the monotonic clock of this process, so a jump
 * of the machine's clock changes nothing.
 */
export async function followDatabaseClock(postgres: Pick<Postgres, 'run'>): Promise<DatabaseClock> {
  let time = 0
  let readAt = 0
  const read = async () => {
    const asked = performance.now()
    const [result] = await postgres.run([statement], false, timeoutMilliseconds)
    // oxlint-disable-next-line no-unsafe-type-assertion -- the statement determines its row
    const [row] = (result?.rows ?? []) as { now: number }[]
    if (!row) throw new Error('The database did not return its time.')
    time = row.now
    readAt = (asked + performance.now()) / 2
  }
  await read()
  const timer = setInterval(() => void read().catch((error: unknown) => logFailure('clock', error)), everyMilliseconds)
  timer.unref()
  return { now: () => Math.floor(time + performance.now() - readAt), stop: () => clearInterval(timer) }
}
