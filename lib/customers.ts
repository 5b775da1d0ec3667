import { type RawBuilder, sql } from 'kysely'
import { newClickIdStem } from './clicks.ts'
import { type Database, retryOnce, violatedConstraint } from './database.ts'

/**
 * Statements that give `customerKey` to the customer of a click, to run in one batch before the statement that looks the
 * customer up by its key. `program` is the SQL of the CTE `program` (its columns are those of the table), which scopes them.
 *
 * The first binds the key to the click's customer where that has none yet. The second makes a second customer, with the same
 * link and partner and a click id of its own, where the click's customer already carries another key: two people on one
 * computer. Neither does anything where the key is known, where the click is of another program, or outside the program's
 * cookie window (as of `at`, ISO 8601, where given). They are two statements because the second must see what the first waited for.
 */
export function bindCustomerStatements(
  program: RawBuilder<unknown>,
  customerKey: string,
  clickId: string,
  now = Date.now(),
  at: string | null = null,
) {
  const clicked = sql`${program},
clicked as (
  select c.* from customers c join program p on c.program_id = p.id
  where c.click_id = ${clickId}
    and c.last_click_at > coalesce(${at}::timestamptz, now()) - make_interval(days => p.cookie_window_days)
    and not exists (select from customers k where k.program_id = p.id and k.customer_key = ${customerKey})
)`
  return [
    sql`with ${clicked}
update customers c set customer_key = ${customerKey} from clicked
where c.program_id = clicked.program_id and c.id = clicked.id and c.customer_key is null`,
    sql`with ${clicked}
insert into customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at)
select program_id, ${newClickIdStem(now)} || program_id, ${customerKey}, link_id, partner_id, last_click_at
from clicked where customer_key is not null
on conflict (program_id, customer_key) where customer_key is not null do nothing`,
  ] as const
}

/**
 * Runs `attempt`, a batch that begins with `bindCustomerStatements`, as `retryOnce` does, and once more where another call gave
 * the key to another customer meanwhile: the next try finds that customer.
 */
export async function retryBinding<Result>(attempt: () => Promise<Result>): Promise<Result> {
  return await retryOnce(async () => {
    try {
      return await attempt()
    } catch (error) {
      if (violatedConstraint(error) !== 'customers_customer_key_key') throw error
      return await attempt()
    }
  })
}

/** Runs `statement` in one request, after the statements that bind `customerKey` to the click where there is one. */
export async function queryBound<Row>(
  db: Database,
  program: RawBuilder<unknown>,
  customerKey: string,
  clickId: string | null,
  statement: RawBuilder<Row>,
): Promise<Row | undefined> {
  if (clickId === null) return (await retryOnce(() => db.query(statement)))[0]
  const batch = [...bindCustomerStatements(program, customerKey, clickId), statement] as const
  return (await retryBinding(() => db.batch(batch)))[2][0]
}

/**
 * The keyed hash of an e-mail address that is stored in its place: HMAC-SHA-256 (hex) of its normalised form (trimmed,
 * lower case, NFKC), under the secret EMAIL_HASH_KEY.
 */
export async function emailHash(secret: string, email: string): Promise<string> {
  const encoder = new TextEncoder()
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
  const normalised = email.trim().normalize('NFKC').toLowerCase()
  const digest = await crypto.subtle.sign('HMAC', key, encoder.encode(normalised))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
