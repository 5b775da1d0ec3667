import { type Database, type DatabaseEnv, openDatabase } from './database.ts'

/** A scheduled Worker may run for 15 minutes. This limit leaves enough time for the last batch. */
const maxMilliseconds = 10 * 60 * 1000

/** The result of a batch: its figures or a name, and whether there is more work. */
type Batch = { more: boolean } & { [figure: string]: number | boolean | string }

/**
 * Creates a scheduled function that works through a backlog in batches until nothing is waiting. It doesn't start a batch after 10 minutes,
 * and the next run continues. It logs each batch that changed anything.
 */
export function inBatches<Env extends DatabaseEnv>(name: string, work: (db: Database, env: Env) => Promise<Batch>) {
  return {
    async scheduled(_event: unknown, env: Env): Promise<void> {
      const db = openDatabase(env)
      const started = performance.now()
      while (performance.now() - started < maxMilliseconds) {
        const { more, ...figures } = await work(db, env)
        if (Object.values(figures).some(Boolean)) console.log(JSON.stringify({ function: name, ...figures }))
        if (!more) return
      }
    },
  }
}
