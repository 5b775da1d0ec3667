import { type Database, type DatabaseEnv, openDatabase } from './database.ts'

const maxBatches = 100

/** What a batch did, in figures or a name, and whether more waits. */
type Batch = { more: boolean } & { [figure: string]: number | boolean | string }

/**
 * A scheduled function that works off what has gathered, batch after batch, until no more waits; the next run takes up what a hundred
 * batches leave. A batch that did something is logged.
 */
export function inBatches<Env extends DatabaseEnv>(name: string, work: (db: Database, env: Env) => Promise<Batch>) {
  return {
    async scheduled(_event: unknown, env: Env): Promise<void> {
      const db = openDatabase(env)
      for (let batch = 0; batch < maxBatches; batch++) {
        const { more, ...figures } = await work(db, env)
        if (Object.values(figures).some(Boolean)) console.log(JSON.stringify({ function: name, ...figures }))
        if (!more) return
      }
    },
  }
}
