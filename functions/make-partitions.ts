import { sql } from 'kysely'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'

const monthsAhead = 3

/** Scheduled: makes the monthly partitions of the event tables ahead of time. A write never needs it to have run. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const made = await openDatabase(env).query(
      sql<{ name: string }>`select make_event_partitions(${monthsAhead}) as name`,
    )
    if (made.length > 0)
      console.log(JSON.stringify({ function: 'make-partitions', made: made.map(({ name }) => name) }))
  },
}
