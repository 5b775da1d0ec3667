import type pg from 'pg'

/**
 * Creates partners with one link each (codes `code1`, `code2`, …), and returns the first partner's and first link's id.
 * The others have the next ids.
 */
export async function seedPartners(sql: pg.Client, programId: number, partners: number, code = 'code') {
  const { rows } = await sql.query<{ partner_id: string }>(
    `with made as (
      insert into partners (program_id, name) select $1, 'Partner ' || n from generate_series(1, $2::int) n returning id
    )
    select id as partner_id from made order by id`,
    [programId, partners],
  )
  const firstPartner = Number(rows[0]?.partner_id)
  const links = await sql.query<{ id: string }>(
    `insert into referral_links (code, program_id, partner_id)
    select $3 || (id - $2::bigint + 1), $1, id from partners where id >= $2 order by id returning id`,
    [programId, firstPartner, code],
  )
  return { firstPartner, firstLink: Number(links.rows[0]?.id) }
}

/** Returns the click id of the n-th seeded customer. */
export function seededClickId(programId: number, n: number): string {
  return `cust_1790000000000_${String(n).padStart(20, '0')}${programId}`
}

/**
 * Creates customers with numbers from `from`, spread over the program's first `partners` seeded partners. With `key`,
 * they have a lead with the customer keys `<key>1`, `<key>2`, ….
 */
export async function seedCustomers(
  sql: pg.Client,
  programId: number,
  first: { firstPartner: number; firstLink: number },
  customers: { from: number; count: number; partners: number; key?: string },
): Promise<void> {
  const lead = customers.key !== undefined
  await sql.query(
    `insert into customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at, customer_status, signup_date,
      lead_event_id)
    select $1::bigint, 'cust_1790000000000_' || lpad(n::text, 20, '0') || $1::bigint, ${lead ? '$7::text || (n - $4 + 1)' : 'null'}, $2 + n % $6, $3 + n % $6, now(),
      ${lead ? `'lead', now(), n` : `'click', null, null`}
    from generate_series($4::bigint, $5::bigint) n`,
    [
      programId,
      first.firstLink,
      first.firstPartner,
      customers.from,
      customers.from + customers.count - 1,
      customers.partners,
      ...(lead ? [customers.key] : []),
    ],
  )
}

/**
 * Creates a paid sale of 49.00 (transaction `<prefix><n>`) with its pending commission of 9.80 for each customer with
 * the key `<key><n>`.
 */
export async function seedSales(sql: pg.Client, programId: number, key: string, prefix: string): Promise<void> {
  await sql.query(
    `with sale as (
      insert into sales (program_id, transaction_id, customer_id, partner_id, customer_key, amount_cents, commission_base_cents,
        commission_bp, currency, sale_date)
      select program_id, $3 || substr(customer_key, length($2) + 1), id, partner_id, customer_key, 4900, 4900, 2000, 'usd',
        now() - row_number() over (order by id) * interval '1 second'
      from customers where program_id = $1 and customer_key like $2 || '%'
      returning *
    )
    insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until)
    select program_id, 'sale', partner_id, customer_id, id, currency, 980, now() + interval '30 days' from sale`,
    [programId, key, prefix],
  )
}

/**
 * Creates every possible counter row of the previous, the current and the next hour, so that no benchmark measures their creation. Also
 * creates the totals of 90 days without events, because Postgres would read a table with a single page completely.
 */
export async function seedCounters(sql: pg.Client, programId: number): Promise<void> {
  // At any time of day, at least two of these are from today, because Postgres chooses its plans by the number of rows.
  const hours = `array[now() - interval '1 hour', now(), now() + interval '1 hour']`
  const hoursAndBackends = `from unnest(${hours}) at, generate_series(0, 63) backend`
  await sql.query(
    `insert into daily_totals (program_id, day, slot) select $1, utc_day(at), 64 * hour_of_day(at) + backend ${hoursAndBackends}`,
    [programId],
  )
  await sql.query(
    `insert into daily_money (program_id, day, currency, slot)
    select $1, utc_day(at), 'usd', 64 * hour_of_day(at) + backend ${hoursAndBackends}`,
    [programId],
  )
  await sql.query(
    `insert into daily_totals (program_id, day, slot, clicks_by_hour, leads_by_hour, conversions_by_hour)
    select $1, utc_day(now()) - n, 0, none, none, none from generate_series(1, 90) n, array_fill(0, '{24}') none`,
    [programId],
  )
  await sql.query('select make_event_partitions(1)')
  await sql.query('vacuum analyze')
}
