import { expressionBuilder, sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import type { DB } from '../schema.ts'

/** Tries are counted in the database, so that changing isolates is no way round, and for a quarter of an hour from the first one. */
const attemptWindowSeconds = 15 * 60

const undelayedAttemptsPerAccount = 20

/** How long an answer waits after so many tries at its account, in milliseconds: 5 s at most. */
export function delayAfter(attempts: number): number {
  return Math.min(5000, 100 * Math.max(0, attempts - undelayedAttemptsPerAccount))
}

/** Counts one try for each key, in one statement, and says how many there were in the window of each. */
export async function countAttempts(db: Database, keys: string[]): Promise<Map<string, number>> {
  if (keys.length === 0) return new Map()
  const eb = expressionBuilder<DB, 'sign_in_attempts'>()
  const isOver = eb(
    'sign_in_attempts.window_started_at',
    '<',
    sql<Date>`now() - make_interval(secs => ${attemptWindowSeconds})`,
  )
  const rows = await db.query(
    kysely
      .insertInto('sign_in_attempts')
      // In the order of the keys, so that two tries cannot wait for each other in a circle.
      .values(keys.toSorted().map((key) => ({ key, attempts: 1 })))
      .onConflict((oc) =>
        oc.column('key').doUpdateSet({
          attempts: eb
            .case()
            .when(isOver)
            .then(1)
            .else(eb('sign_in_attempts.attempts', '+', 1))
            .end(),
          window_started_at: eb.case().when(isOver).then(now).else(eb.ref('sign_in_attempts.window_started_at')).end(),
        }),
      )
      .returning(['key', 'attempts']),
  )
  return new Map(rows.map(({ key, attempts }) => [key, attempts]))
}
