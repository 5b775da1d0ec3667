import { expressionBuilder, sql } from 'kysely'
import { countedNetwork } from './counted-address.ts'
import type { Database } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import { mailBounds } from '../mail-bounds.ts'
import type { DB } from '../schema.ts'

/** The database counts the attempts, so that a request to another isolate does not reset them. A window begins with its first attempt. */
const quarterHourSeconds = 15 * 60
export const daySeconds = 24 * 60 * 60

const undelayedAttemptsPerAccount = 20

/** Returns how many milliseconds to delay a response, up to 5,000, after this many attempts on its account. */
export function delayAfter(attempts: number): number {
  return Math.min(5000, 100 * Math.max(0, attempts - undelayedAttemptsPerAccount))
}

/** Counts one attempt for each key in one statement. Returns the number of attempts in the window of each key. */
export async function countAttempts(
  db: Database,
  keys: string[],
  windowSeconds = quarterHourSeconds,
): Promise<Map<string, number>> {
  if (keys.length === 0) return new Map()
  const eb = expressionBuilder<DB, 'sign_in_attempts'>()
  const isOver = eb(
    'sign_in_attempts.window_started_at',
    '<',
    sql<Date>`now() - make_interval(secs => ${windowSeconds})`,
  )
  const rows = await db.query(
    kysely
      .insertInto('sign_in_attempts')
      // A fixed order of the keys prevents deadlocks between concurrent attempts.
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

/** Counts a mail to an unconfirmed address for the visitor's network. Returns false if the network has caused too many within a day. */
export async function mayMailUnconfirmed(db: Database, address: string | null): Promise<boolean> {
  const network = countedNetwork(address)
  if (network === undefined) return true
  return await mayMailToday(db, [`new addresses from ${network}`], mailBounds.unconfirmed.perNetwork)
}

/** Counts a mail under each key. Returns false if one of the keys has already caused `most` mails within a day. */
export async function mayMailToday(db: Database, keys: string[], most: number): Promise<boolean> {
  const mails = await countAttempts(db, keys, daySeconds)
  return [...mails.values()].every((count) => count <= most)
}
