import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { sessionOptions } from '../commands/postgres.ts'

/** The process with this lock runs the schedules. The number is arbitrary. */
const leaderLockKey = '7350163984022'
const channel = 'svc_rate_limits'
const beatMilliseconds = 1000
const answerWithinMilliseconds = 5000

export interface Coordinator {
  readonly isLeader: boolean
  stop(): Promise<void>
}

/**
 * Opens a connection that coordinates the processes on one database. One of them holds the leader's lock, which Postgres releases
 * when the leader's connection ends. The processes also exchange messages. A broken connection is replaced.
 */
export function coordinate(options: {
  connectionString: string
  onLeader: () => void
  onFollower: () => void
  takeMessages: () => string[]
  onMessage: (message: string) => void
  onProblem: (error: unknown) => void
}): Coordinator {
  const stopped = new AbortController()
  let isLeader = false
  /** True if this outage was already reported, because each outage is reported only once. */
  let isReported = false

  function lead(leads: boolean): void {
    if (isLeader === leads) return
    isLeader = leads
    if (leads) options.onLeader()
    else options.onFollower()
  }

  async function beat(client: Client): Promise<void> {
    if (!isLeader) {
      const { rows } = await client.query<{ locked: boolean }>('select pg_try_advisory_lock($1) as locked', [
        leaderLockKey,
      ])
      lead(rows[0]?.locked ?? false)
    }
    // An empty message only tests whether the connection still works.
    const messages = options.takeMessages()
    for (const message of messages) await client.query('select pg_notify($1, $2)', [channel, message])
    if (isLeader && messages.length === 0) await client.query('select 1')
  }

  async function session(): Promise<void> {
    const client = new Client({
      connectionString: options.connectionString,
      keepAlive: true,
      options: sessionOptions,
      application_name: 'svc-coordinator',
      connectionTimeoutMillis: answerWithinMilliseconds,
      query_timeout: answerWithinMilliseconds,
    })
    const broken = Promise.withResolvers<never>()
    broken.promise.catch(() => {})
    client.on('error', (error) => broken.reject(error))
    client.on('end', () => broken.reject(new Error('The connection ended.')))
    let processId: number | undefined
    client.on('notification', ({ processId: sender, payload }) => {
      if (sender !== processId && payload !== undefined) options.onMessage(payload)
    })
    try {
      await client.connect()
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
      processId = rows[0]?.pid
      await client.query(`listen ${channel}`)
      isReported = false
      while (!stopped.signal.aborted) {
        await Promise.race([beat(client), broken.promise])
        await Promise.race([pause(), broken.promise])
      }
    } finally {
      lead(false)
      await Promise.race([client.end(), sleep(1000, undefined, { ref: false })]).catch(() => {})
    }
  }

  /** Resolves at the next heartbeat or at shutdown. */
  const pause = () => sleep(beatMilliseconds, undefined, { signal: stopped.signal }).catch(() => {})

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        await session()
      } catch (error) {
        if (!stopped.signal.aborted && !isReported) options.onProblem(error)
        isReported = true
      }
      await pause()
    }
  }

  const running = run()
  return {
    get isLeader() {
      return isLeader
    },
    async stop() {
      stopped.abort()
      await running
    },
  }
}
