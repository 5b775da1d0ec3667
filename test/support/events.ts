import type pg from 'pg'

/**
 * Fills a program with events. Many events have the same time (eight per second, with microseconds). They span the end of a month, so
 * they are in two partitions. A third of the customers have bought, and a fifth of the events are tests. The daily totals match the
 * events.
 */
export async function fillEvents(sql: pg.Client, programId: number, count: number): Promise<void> {
  const time = `timestamptz '2026-10-31 23:59:00Z' + make_interval(secs => (hashint4(n) & 1023) / 8.0) + interval '7 microseconds' * (n % 2)`
  const values = [programId, count]
  await sql.query(
    `insert into customers (program_id, click_id, customer_key, link_id, partner_id, customer_status, last_click_at, first_purchase_date)
    select l.program_id, 'cust_1790000000000_' || lpad(n::text, 20, '0') || l.program_id, 'user-' || n, l.id, l.partner_id,
      case n % 3 when 0 then 'conversion' else 'click' end, now(), case n % 3 when 0 then now() end
    from generate_series(1, 30) n, referral_links l where l.program_id = $1`,
    [programId],
  )
  const { rows } = await sql.query<{ id: string }>('select min(id) as id from customers where program_id = $1', [
    programId,
  ])
  const first = Number(rows[0]?.id)
  await sql.query(
    `insert into affiliate_click_events (program_id, is_test, click_timestamp, id, customer_id, link_id, session_id, page_url,
      referrer_url, geo_country, geo_region, geo_city, device_type, device_os, browser_name, created_at)
    select $1, n % 5 = 0, ${time}, 7000 + (n * 31) % 6997, ${first} + n % 30, (select min(id) from referral_links where program_id = $1),
      's' || n, 'https://shop.example.com/' || n, case when n % 2 = 0 then 'https://example.org/' end, 'DE', 'Bavaria', 'Munich',
      'mobile', 'iOS', 'Safari', ${time} + interval '1 second'
    from generate_series(1, $2) n`,
    values,
  )
  await sql.query(
    `insert into affiliate_lead_events (program_id, is_test, lead_timestamp, customer_id, customer_key, provisional, session_id)
    select $1, n % 5 = 0, ${time}, ${first} + n % 30, case when n % 4 > 0 then 'user-' || n % 30 end, n % 4 = 0, 's' || n
    from generate_series(1, $2) n`,
    values,
  )
  await sql.query(
    `insert into sales (program_id, is_test, transaction_id, customer_id, partner_id, sale_date, amount_cents, commission_base_cents,
      commission_bp, currency, sale_type, payment_status, is_recurring, processor_event_id)
    select $1, n % 5 = 0, n::text, case when n % 7 > 0 then ${first} + n % 30 end,
      case when n % 7 > 0 then (select min(partner_id) from referral_links where program_id = $1) end,
      ${time}, n, n, case when n % 7 > 0 then 2000 end, 'eur', 'subscription', case when n % 6 = 0 then 'unpaid' else 'paid' end, n % 2 = 0,
      case when n % 3 = 0 then 'evt_' || n end
    from generate_series(1, $2) n`,
    values,
  )
  await sql.query(
    `insert into daily_totals (program_id, day, slot, clicks, conversions)
    select $1, utc_day(at), counter_slot(at), sum(clicks), sum(conversions) from (
      select click_timestamp as at, 1 as clicks, 0 as conversions from affiliate_click_events where program_id = $1 and not is_test
      union all
      select first_purchase_date, 0, 1 from customers where program_id = $1 and first_purchase_date is not null
    ) counted group by 2, 3`,
    [programId],
  )
  await sql.query(
    `insert into daily_money (program_id, day, currency, slot, sales, revenue_cents)
    select program_id, utc_day(sale_date), currency, counter_slot(sale_date), count(*), sum(amount_cents) from sales
    where program_id = $1 and not is_test and customer_id is not null and payment_status = 'paid' group by 1, 2, 3, 4`,
    [programId],
  )
  await sql.query(
    `insert into grouped_totals (program_id, grouping_name, span, starts, value, currency, clicks, bot_clicks, leads, conversions, sales, revenue_cents,
      commission_cents, refunded_cents)
    select $1, 'all', span, starts, '', currency, sum(clicks), 0, 0, sum(conversions), sum(sales), sum(revenue), 0, 0 from (
      select t.day, '' as currency, t.clicks, t.conversions, 0 as sales, 0 as revenue
      from daily_totals t where t.program_id = $1
      union all
      select m.day, m.currency, 0, 0, m.sales, m.revenue_cents from daily_money m where m.program_id = $1
    ) counted
    cross join lateral (values ('day'::total_span, day), ('month', date_trunc('month', day::timestamp)::date)) s (span, starts)
    group by span, starts, currency`,
    [programId],
  )
}
