import { sql } from 'kysely'
import { newClickIdStem } from './clicks.ts'
import { type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'

/** Who is to be forgotten: the integrator's user id, or the click id in the visitor's cookie. */
export type Forgotten = { customer_key: string } | { click_id: string }

/**
 * Removes what identifies a customer of a program: their key, e-mail hash, processor ids, and of their clicks and leads the
 * addresses, session, user agent, place and free data. Their click id is replaced, so that a cookie leads nowhere. Amounts,
 * days, partners and statuses stay, and with them every sum. Refuses with `not_found` where the program does not know them.
 * Returns how many customers were forgotten: 0 where there were only test events or sales without attribution.
 */
export async function forgetCustomer(db: Database, programId: number, forgotten: Forgotten): Promise<number> {
  const customerKey = 'customer_key' in forgotten ? forgotten.customer_key : null
  const clickId = 'click_id' in forgotten ? forgotten.click_id : null
  // By its new click id a try finds what one before it forgot, whose answer was lost.
  const newClickId = `${newClickIdStem(Date.now())}${programId}`
  const known = sql`select program_id, id, customer_key, click_id, email_hash, created_at, last_click_at from customers
where program_id = ${programId} and (customer_key = ${customerKey}::text or click_id in (${clickId}::text, ${newClickId}::text))`
  // A click moves last_click_at to its own time, so these bound the partitions and the part of the key that is read.
  const clickTimes = sql`(select min(created_at) - interval '1 day' from known) and (select max(last_click_at) + interval '1 day' from known)`
  const statements = [
    sql`${known} for update`,
    sql`with known as (${known})
update affiliate_click_events set session_id = null, affiliate_url = null, page_url = null, page_title = null, referrer_url = null,
  user_agent = null, screen_resolution = null, viewport_size = null, language = null, timezone = null, geo_country = null,
  geo_region = null, geo_city = null, device_type = null, device_os = null, browser_name = null, additional_data = null
where program_id = ${programId} and not is_test and click_timestamp between ${clickTimes} and customer_id in (select id from known)`,
    sql`with known as (${known})
update affiliate_lead_events set customer_key = null, session_id = null, page_url = null, additional_data = null
where program_id = ${programId} and (customer_id in (select id from known)
  or customer_key in (select customer_key from known union all select ${customerKey}::text))`,
    // The delivery log keeps what was read of an event; without these it can still be replayed, and changes nothing.
    sql`with known as (${known})
update processor_events e set fact = e.fact || '{"customer_key": null, "click_id": null, "email_hash": null, "processor_customer_id": null}'
from known k
where e.program_id = ${programId} and (e.fact->>'customer_key' = k.customer_key or e.fact->>'click_id' = k.click_id
  or e.fact->>'email_hash' = encode(k.email_hash, 'hex') or e.fact->>'processor_customer_id' in (
    select processor_customer_id from processor_customers p where p.program_id = k.program_id and p.customer_id = k.id))`,
    sql`with known as (${known})
delete from processor_customers where (program_id, customer_id) in (select program_id, id from known)`,
    sql`with known as (${known})
delete from processor_sessions where (program_id, customer_id) in (select program_id, id from known)`,
    sql<{ id: string }>`with known as (${known})
update sales set customer_key = null, subscription_id = null, processor_customer_id = null, additional_data = null
where program_id = ${programId} and (customer_id in (select id from known)
  or customer_key in (select customer_key from known union all select ${customerKey}::text))
returning id`,
    sql<{ id: string }>`with known as (${known})
update customers c set customer_key = null, email_hash = null, click_id = ${newClickId} from known k
where c.program_id = k.program_id and c.id = k.id
returning c.id`,
  ] as const
  const [, , , , , , sales, customers] = await retryOnce(() => db.batch(statements))
  if (customers.length === 0 && sales.length === 0) {
    throw new ApiError('not_found', 'This program knows no such customer. Check the id, and whose program it is.')
  }
  return customers.length
}
