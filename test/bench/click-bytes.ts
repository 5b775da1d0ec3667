import type { Client } from 'pg'

/**
 * Fills last month with varied clicks on 300 links that lead to three pages each, a hundredth of them with a parameter of their own. They
 * have 200 browsers, 400 sizes of windows, 2,000 places and 2,000 referrers. Popular values are much more frequent than rare ones. A fifth of the visitors clicks again.
 */
export async function fillPastMonth(sql: Client, programId: number, clicks: number): Promise<string> {
  const { rows } = await sql.query<{ month: Date; name: string }>(
    `select month_of(now() - interval '40 days') as month, 'affiliate_click_events_' || to_char(month_of(now() - interval '40 days'), 'YYYY_MM') as name`,
  )
  const { month, name } = rows[0] ?? { month: new Date(), name: '' }
  await sql.query(`create table if not exists ${name} partition of affiliate_click_events
    for values from ('${month.toISOString()}') to (('${month.toISOString()}'::timestamptz at time zone 'UTC' + interval '1 month') at time zone 'UTC')`)
  await sql.query(
    `insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, session_id, affiliate_url, page_url,
      page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type,
      device_os, browser_name, campaign, visitor, created_at)
    select $1, r.at, (random() * 9e15)::bigint, 5000 + n, click_id_of($1, milliseconds(r.at) - case when n % 5 = 0 then 86400000 else 0 end,
        ((random() - 0.5) * 1.8e19)::bigint),
      1 + r.link, random()::text, 'https://shop.example.com/' || r.page || '?aff=partner' || r.link || '&utm_source=blog' ||
        case when n % 100 = 0 then '&gclid=' || md5(n::text) else '' end,
      'https://shop.example.com/' || r.page, 'Page ' || r.page || ' | Example shop', 'https://blog' || r.referrer || '.example.org/2026/best-shoes',
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/' || r.browser || '.0.0.0 Safari/537.36',
      '1920x1080', (1280 + r.size / 20 * 8) || 'x' || (600 + r.size % 20 * 8), 'en-US', 'America/New_York', 'US', 'Region ' || r.place % 40,
      'City of ' || r.place, case when n % 3 = 0 then 'mobile' else 'desktop' end, 'Windows', 'Chrome', '{"utm_source": "blog"}',
      (random() * 9e18)::bigint, r.at + interval '40 milliseconds'
    from generate_series(1, $2::bigint) n
    cross join lateral (
      select $3::timestamptz + make_interval(secs => n * 2500000.0 / $2) as at, l.link,
        -- A link leads to three pages.
        'shoes/' || (l.link * 7 + floor(3 * random() ^ 2)::int) % 500 as page, floor(2000 * random() ^ 4)::int as referrer,
        100 + floor(200 * random() ^ 4)::int as browser, floor(400 * random() ^ 3)::int as size, floor(2000 * random() ^ 3)::int as place
      from (select floor(300 * random() ^ 3)::int as link where n > 0) l
    ) r`,
    [programId, clicks, month],
  )
  await sql.query(`vacuum analyze ${name}`)
  return name
}

export interface ClickBytes {
  /** The rows with their headers. */
  rows: number
  indexes: number
  columns: Record<string, number>
}

/** Returns the bytes of a click in a partition. */
export async function bytesOfClick(sql: Client, partition: string): Promise<ClickBytes> {
  const { rows: columns } = await sql.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 order by attnum`,
    [partition],
  )
  const sums = columns.map(({ name }) => `sum(pg_column_size(${name})) / count(*)::float8 as ${name}`)
  const { rows: sizes } = await sql.query<{ rows: number; indexes: number }>(
    `select pg_table_size($1::regclass) / count(*)::float8 as rows, pg_indexes_size($1::regclass) / count(*)::float8 as indexes
    from ${partition}`,
    [partition],
  )
  const { rows: ofColumns } = await sql.query<Record<string, number | null>>(
    `select ${sums.join(', ')} from ${partition}`,
  )
  return {
    rows: sizes[0]?.rows ?? NaN,
    indexes: sizes[0]?.indexes ?? NaN,
    columns: Object.fromEntries(Object.entries(ofColumns[0] ?? {}).map(([name, bytes]) => [name, bytes ?? 0])),
  }
}
