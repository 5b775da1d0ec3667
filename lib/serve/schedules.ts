import { Cron } from 'croner'
import type { Service } from './functions.ts'
import { logFailure } from './server.ts'

/**
 * Schedules that differ from wrangler.toml. Here, the database is never suspended, so the service finds missed work within a minute.
 * Consumers have no schedule and run when there is work.
 */
const schedules: Record<string, string[]> = {
  'relay-outbox': ['* * * * *'],
  'count-clicks': ['*/25 * * * * *'],
  'send-mails': ['* * * * *'],
  'deliver-notifications': [],
  'deliver-webhooks': [],
}

export interface Schedules {
  /** Runs every schedule once to catch up, and then at its scheduled times. */
  lead(): void
  follow(): void
  /** On the leader, the number of seconds since each schedule should have run successfully, or 0 if it is on time. */
  readLags(): Record<string, number>
  /** Stops after the current runs. */
  stop(): Promise<void>
}

const stopWithinMilliseconds = 20_000

/** Runs scheduled functions in UTC, each only once at a time, and delivers due webhooks. */
export function startSchedules(service: Service): Schedules {
  const { functions, channels } = service
  const running = new Set<Promise<void>>()
  let jobs: { name: string; job: Cron }[] = []
  let stopped = false
  let ledSince = new Date()
  const succeeded = new Map<string, Date>()

  const track = (work: Promise<void>): Promise<void> => {
    const tracked = work.finally(() => running.delete(tracked))
    running.add(tracked)
    return tracked
  }
  const run = (name: string, cron?: string): Promise<void> =>
    track(
      service.scheduled(name, cron).then(
        () => void succeeded.set(name, new Date()),
        (error: unknown) => logFailure(`schedule ${name}`, error),
      ),
    )

  const all = functions.map(({ name, crons }) => ({ name, crons: schedules[name] ?? crons }))

  async function deliver(): Promise<void> {
    for (;;) {
      await channels.due()
      if (stopped) return
      await run('deliver-webhooks')
    }
  }
  void deliver()

  return {
    lead() {
      console.log(JSON.stringify({ leader: true }))
      ledSince = new Date()
      jobs = all.flatMap(({ name, crons }) =>
        crons.map((cron) => ({
          name,
          job: new Cron(cron, { timezone: 'UTC', protect: true, unref: true }, () => run(name, cron)),
        })),
      )
      void (async () => {
        const begun = jobs
        for (const { name, crons } of all) if (crons.length > 0 && jobs === begun && !stopped) await run(name, crons[0])
      })()
    },
    follow() {
      for (const { job } of jobs) job.stop()
      jobs = []
      succeeded.clear()
    },
    readLags() {
      const lags = jobs.map(({ name, job }): [string, number] => {
        const due = job.nextRun(succeeded.get(name) ?? ledSince) ?? new Date()
        return [name, Math.max(0, Date.now() - due.getTime()) / 1000]
      })
      return Object.fromEntries(lags)
    },
    async stop() {
      stopped = true
      channels.stop()
      for (const { job } of jobs) job.stop()
      const late = new Promise<void>((resolve) => void setTimeout(resolve, stopWithinMilliseconds).unref())
      await Promise.race([Promise.allSettled(running), late])
    },
  }
}
