import type pg from 'pg'
import { startBulkJob } from '../../lib/programs/bulk-jobs.ts'
import { tiePartner } from '../../lib/local/people.ts'
import type { BenchDatabase } from './environment.ts'
import { seedPartners } from './seed.ts'

const partners = 5000
const customers = 187_000
const clicksOfEach = 5
const leads = 40_000
const sales = 25_000
const days = 90
/** The number of notifications, Stripe events and webhooks. */
const noticeCount = 20_000

/** The objects that page addresses refer to. */
export interface Seeded {
  customerId: string
  partnerId: string
  groupId: string
  transactionId: string
  runId: string
  payoutId: string
  endpointId: string
  postbackId: string
  postbackMessageId: string
  applicationId: string
  /** A bulk action and its kind. */
  jobId: string
  kind: string
  messageId: string
  /** A partner with a click on the first day and one on the last. */
  rarePartner: string
  /** A returning customer who bought. */
  longCustomer: string
}

/**
 * Fills the sandbox's program with 5,000 partners and a million events in 90 days. A few partners have many events and
 * most have few. Inserts customers, events, sales and commissions as rows. The service's own counting adds the totals,
 * and its own functions add balances and payout runs. The audit doesn't find anything wrong. The sandbox's partner is
 * the one with the most events.
 */
export async function seedPages({ sql, db, sandbox }: BenchDatabase): Promise<Seeded> {
  const { programId, partnerId } = sandbox
  await sql.query('set synchronous_commit = off')
  await sql.query(`update programs set created_at = now() - interval '${days + 1} days' where id = $1`, [programId])
  const { firstPartner, firstLink } = await seedPartners(sql, programId, partners)
  const { rows: people } = await sql.query<{ user_id: string }>(
    `update partners p set user_id = null from partners was where was.id = p.id and p.id = $1 returning was.user_id`,
    [partnerId],
  )
  await tiePartner(db, firstPartner, people[0]?.user_id ?? '')
  await sql.query(
    `update partners set email = 'partner-' || id || '@example.com', created_at = now() - interval '${days} days'
    where program_id = $1 and id >= $2 and id % 10 <> 0`,
    [programId, firstPartner],
  )
  await sql.query(
    `with made as (insert into partner_groups (program_id, name) values ($1, 'Blogs') returning id)
    update partners p set group_id = made.id from made where p.program_id = $1 and p.id >= $2 and p.id % 20 = 0`,
    [programId, firstPartner],
  )
  await sql.query(
    `insert into applications (program_id, source, status, user_id, name, email, applied_at, verified_at, decided_at)
    select $1, 'page', case n when 1 then 'rejected' else 'waiting' end, case n when 1 then $2 end, 'Applicant ' || n,
      'applicant-' || n || '@example.com', now() - interval '1 minute' * n, now(), case n when 1 then now() end
    from generate_series(1, 2000) n order by n`,
    [programId, people[0]?.user_id],
  )
  const firstCustomer = await seedEvents(sql, programId, firstPartner, firstLink)
  // This must run first, because the counting runs every minute in the background.
  await countTogether(sql, programId)
  await seedPurchases(sql, programId, firstCustomer)
  await sql.query('analyze')
  // Records leads and sales through the service's own functions. This connection has no timeout.
  for (const counting of ['count_figures(20000)', 'fold_daily_totals(10000)', 'fold_daily_money(10000)']) {
    const counted = async () => (await sql.query<{ n: string }>(`select ${counting} as n`)).rows[0]?.n
    for (let n = await counted(); Number(n) > 0; n = await counted());
  }
  await seedPayouts(sql, programId)
  await seedNotices(sql, programId)
  await sql.query(
    `with postback as (
      insert into webhook_endpoints (program_id, partner_id, url, types) values ($1, $2, 'https://partner.example.com/svc', '{sale}') returning *
    ),
    message as (
      insert into webhook_messages (program_id, type, data) values ($1, 'sale', '{"event": "sale", "amount": "9.80", "currency": "usd"}') returning *
    )
    insert into webhook_deliveries (program_id, endpoint_id, message_id, status, attempt_count, finished_at)
    select $1, p.id, m.id, 'delivered', 1, now() from postback p, message m`,
    [programId, firstPartner],
  )
  await startBulkJob(db, programId, { kind: 'move', settings: {}, rows: partners, newestId: firstPartner + partners })
  await sql.query('vacuum analyze')
  const { rows } = await sql.query<Omit<Seeded, 'rarePartner' | 'longCustomer'>>(
    `select s.customer_id as "customerId", s.partner_id as "partnerId", g.id as "groupId", s.transaction_id as "transactionId", r.id as "runId", w.id as "payoutId",
      d.endpoint_id as "endpointId", d.message_id as "messageId", b.id as "postbackId", b.message_id as "postbackMessageId", a.id as "applicationId", j.id as "jobId", j.kind
    from (select * from sales where program_id = $1 and partner_id = $2 order by sale_date desc limit 1 offset 100) s,
      (select min(id) as id from payout_runs where program_id = $1) r,
      (select min(id) as id from payouts where program_id = $1 and partner_id = $2) w,
      (select min(id) as id from partner_groups where program_id = $1) g,
      (select d.* from webhook_deliveries d join webhook_endpoints e on e.id = d.endpoint_id
        where e.program_id = $1 and e.partner_id is null order by d.message_id desc limit 1) d,
      (select d.endpoint_id as id, d.message_id from webhook_deliveries d join webhook_endpoints e on e.id = d.endpoint_id where e.partner_id = $2) b,
      (select min(id) as id from applications where program_id = $1) a,
      (select id, kind from bulk_jobs where program_id = $1) j`,
    [programId, firstPartner],
  )
  const [row] = rows
  if (!row) throw new Error('The program lacks a sale, payout run, group, webhook or application.')
  return { ...row, rarePartner: String(firstPartner + partners - 1), longCustomer: String(firstCustomer) }
}

/** Inserts customers with their clicks and leads, and returns the id of the first customer, who clicked first and came back today. */
async function seedEvents(sql: pg.Client, programId: number, firstPartner: number, firstLink: number): Promise<number> {
  const nth = `case when n = 1 then ${partners - 1} else floor(power((hashint8(n) & 1048575) / 1048576.0, 3) * ${partners - 1})::bigint end`
  const { rows } = await sql.query<{ first: string }>(
    `with made as (
      insert into customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at, created_at, customer_status,
        signup_date, lead_event_id, first_purchase_date)
      select $1::bigint, 'cust_' || floor(extract(epoch from at) * 1000)::bigint || '_' || lpad(n::text, 20, '0') || $1::bigint,
        case when n <= ${leads} then 'user-' || n end, $2 + ${nth}, $3 + ${nth},
        case when n = 1 then now() - interval '2 hours' else at + interval '${(clicksOfEach - 1) * 10} minutes' end, at,
        case when n <= ${sales} then 'conversion' when n <= ${leads} then 'lead' else 'click' end,
        case when n <= ${leads} then at + interval '1 hour' end, case when n <= ${leads} then n end,
        case when n <= ${sales} then at + interval '2 hours' end
      from (
        select n, date_trunc('milliseconds', now() - interval '3 hours' - case when n = 1 then 1 else (hashint8(n + 7) & 1048575) / 1048576.0 end
          * interval '${days} days') as at
        from generate_series(1, ${customers}) n
      ) c
      returning id
    )
    select min(id) as first from made`,
    [programId, firstLink, firstPartner],
  )
  const first = Number(rows[0]?.first)
  // Creates a few customers first, because they create the partitions of the months. A deployment has those from the start. The rest
  // follows in time order.
  const insertClicks = async (where: string) =>
    await sql.query(
      `insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, page_url, referrer_url,
        geo_country, geo_city, device_type, device_os, browser_name, campaign, created_at)
      select c.program_id, c.clicked_at, c.n * 10 + k, c.id, c.click_id, c.link_id, 'https://shop.example.com/' || n % 50,
        'https://blog' || n % 30 || '.example.org/', case n % 4 when 0 then 'DE' when 1 then 'FR' else 'US' end, 'City ' || n % 40,
        case n % 3 when 0 then 'mobile' else 'desktop' end, 'macOS', 'Safari',
        case n % 3 when 0 then jsonb_build_object('utm_source', case n % 2 when 0 then 'mail' else 'video' end, 'utm_campaign', 'campaign-' || n % 7,
          'sub1', 'page-' || n % 40) end,
        c.created_at
      from (
        select c.*, id - $2 + 1 as n, k, case when k = ${clicksOfEach - 1} then c.last_click_at else c.created_at + k * interval '10 minutes' end as clicked_at
        from customers c, generate_series(0, ${clicksOfEach - 1}) k where program_id = $1 and id >= $2
      ) c where ${where} order by clicked_at`,
      [programId, first],
    )
  await insertClicks('n <= 100')
  await sql.query(
    `insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key, page_url)
    select program_id, signup_date, lead_event_id, id, customer_key, 'https://shop.example.com/sign-up' from customers
    where program_id = $1 and id >= $2 and signup_date is not null`,
    [programId, first],
  )
  await sql.query('select make_event_partitions(1)')
  await insertClicks('n > 100')
  return first
}

/** Inserts the totals of the clicks directly, because counting them takes ten times as long. */
async function countTogether(sql: pg.Client, programId: number): Promise<void> {
  await sql.query(`set work_mem = '512MB'`)
  for (const statement of [
    `insert into link_clicks (program_id, link_id, clicks, last_clicked_at)
    select program_id, link_id, count(*), max(click_timestamp) from affiliate_click_events where program_id = $1 group by 1, 2`,
    `insert into link_months (program_id, link_id, month, clicks, last_clicked_at)
    select program_id, link_id, month_of(click_timestamp), count(*), max(click_timestamp) from affiliate_click_events
    where program_id = $1 group by 1, 2, 3`,
    `insert into daily_totals (program_id, day, slot, clicks)
    select program_id, utc_day(click_timestamp), 64 * hour_of_day(click_timestamp), count(*) from affiliate_click_events
    where program_id = $1 group by 1, 2, 3`,
    `insert into grouped_quarters (program_id, grouping_name, metric, currency, day, value, quarters, sums)
    select $1, grouping_name, 'clicks', '', day, value, array_agg(quarter order by quarter), array_agg(sum order by quarter)
    from (
      select c.*, (sum(c.clicks) over (partition by c.grouping_name, c.day, c.value order by c.quarter))::bigint as sum
      from (
        select case when grouping(partner) = 0 then 'partner' when grouping(link) = 0 then 'link' when grouping(country) = 0 then 'country'
            when grouping(device) = 0 then 'device' when grouping(browser) = 0 then 'browser' when grouping(referrer) = 0 then 'referrer'
            when grouping(page) = 0 then 'page' when grouping(source) = 0 then 'utm_source' when grouping(campaign) = 0 then 'utm_campaign'
            when grouping(sub1) = 0 then 'sub1' else 'all' end::grouping_name as grouping_name,
          day, quarter, coalesce(partner::text, link::text, country, device, browser, referrer, page, source, campaign, sub1, '') as value, count(*) as clicks
        from (
          select l.partner_id as partner, e.link_id as link, geo_country as country, device_type as device, browser_name as browser,
            split_part(e.referrer_url, '/', 3) as referrer, e.page_url as page, campaign->>'utm_source' as source,
            campaign->>'utm_campaign' as campaign, campaign->>'sub1' as sub1, utc_day(click_timestamp) as day, quarter_of_day(click_timestamp) as quarter
          from affiliate_click_events e join referral_links l on l.id = e.link_id where e.program_id = $1
        ) e
        group by grouping sets ((day, quarter), (day, quarter, partner), (day, quarter, link), (day, quarter, country), (day, quarter, device),
          (day, quarter, browser), (day, quarter, referrer), (day, quarter, page), (day, quarter, source), (day, quarter, campaign), (day, quarter, sub1))
        having (grouping(source) = 1 or source is not null) and (grouping(campaign) = 1 or campaign is not null)
          and (grouping(sub1) = 1 or sub1 is not null)
      ) c
    ) summed group by 2, 5, 6`,
    `insert into grouped_totals (program_id, grouping_name, span, starts, value, currency, clicks, bot_clicks, leads, conversions, sales, revenue_cents,
      commission_cents, refunded_cents)
    select program_id, grouping_name, span, starts, value, currency, sum(sums[cardinality(sums)]), 0, 0, 0, 0, 0, 0, 0 from grouped_quarters
    cross join lateral (values ('day'::total_span, day), ('month', date_trunc('month', day::timestamp)::date)) s (span, starts)
    where program_id = $1 group by 1, 2, 3, 4, 5, 6`,
  ]) {
    await sql.query(statement, [programId])
  }
  await sql.query('reset work_mem')
}

/** Inserts a sale for each customer who bought, with its commission, and the uncounted rows of leads and sales. */
async function seedPurchases(sql: pg.Client, programId: number, firstCustomer: number): Promise<void> {
  await sql.query(
    `with sale as (
      insert into sales (program_id, transaction_id, customer_id, partner_id, customer_key, amount_cents, commission_base_cents,
        commission_bp, currency, sale_date, created_at)
      select c.program_id, 'order-' || c.id, c.id, c.partner_id, c.customer_key, 4900, 4900, 2000, 'usd', c.first_purchase_date, c.first_purchase_date
      from customers c where c.program_id = $1 and c.id >= $2 and c.first_purchase_date is not null order by c.first_purchase_date
      returning *
    )
    insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until, created_at)
    select program_id, 'sale', partner_id, customer_id, id, currency, 980, sale_date + interval '30 days', sale_date from sale order by sale_date`,
    [programId, firstCustomer],
  )
  await sql.query(
    `insert into uncounted_figures (program_id, customer_id, partner_id, clicked_at, at, currency, leads, conversions, sales, revenue_cents,
      commission_cents)
    select c.program_id, c.id, c.partner_id, c.last_click_at, f.at, f.currency, f.leads, f.sales, f.sales, f.sales * 4900, f.sales * 980
    from customers c cross join lateral (values (c.signup_date, null, 1, 0), (c.first_purchase_date, 'usd', 0, 1)) f (at, currency, leads, sales)
    where c.program_id = $1 and f.at is not null order by f.at`,
    [programId],
  )
  const slot = '64 * hour_of_day(at) + 1'
  await sql.query(
    `insert into daily_totals as t (program_id, day, slot, leads, conversions)
    select program_id, utc_day(at), ${slot}, sum(leads), sum(conversions) from uncounted_figures where program_id = $1 group by 1, 2, 3`,
    [programId],
  )
  await sql.query(
    `insert into daily_money (program_id, day, currency, slot, sales, revenue_cents, commission_cents)
    select program_id, utc_day(at), currency, ${slot}, sum(sales), sum(revenue_cents), sum(commission_cents) from uncounted_figures
    where program_id = $1 and currency is not null group by 1, 2, 3, 4`,
    [programId],
  )
}

/** Pays the due amounts in one run. After that, half as much becomes due again. */
async function seedPayouts(sql: pg.Client, programId: number): Promise<void> {
  const approve = async () => {
    const { rows } = await sql.query<{ more: boolean }>('select more from approve_due_commissions(9000)')
    return rows[0]?.more ?? false
  }
  await approve()
  await approve()
  await sql.query('select create_payout_run($1, gen_random_uuid())', [programId])
  await sql.query(
    `select pay_payout_run($1, min(id), null, 'transfer-1', current_date) from payout_runs where program_id = $1`,
    [programId],
  )
  await approve()
  await sql.query('select create_payout_run($1, gen_random_uuid())', [programId])
  while (await approve());
}

/** Inserts notifications, Stripe events, and webhooks with one endpoint that received them and one that did not. */
async function seedNotices(sql: pg.Client, programId: number): Promise<void> {
  await sql.query(
    `insert into outbox (program_id, kind, audience, cause, payload, created_at)
    select $1, 'payment_ignored', 'advertiser', 'bench:' || n,
      jsonb_build_object('amount_cents', n, 'currency', 'usd', 'transaction_id', 'in_' || n, 'reason', 'It has no amount.'),
      now() - (${noticeCount} - n) * interval '6 minutes'
    from generate_series(1, ${noticeCount}) n`,
    [programId],
  )
  await sql.query(
    `with sent as (
      update outbox set sent_at = created_at, delivered_at = created_at where program_id = $1
      returning program_id, id, kind, audience, partner_id, payload, created_at
    )
    insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at) select * from sent`,
    [programId],
  )
  await sql.query(
    `insert into processor_events (account_id, event_id, event_type, program_id, livemode, outcome, reason, fact, event_created_at, received_at,
      last_received_at)
    select 'acct_bench', 'evt_' || n, 'invoice.paid', $1, true, case n % 3 when 0 then 'recorded' else 'ignored' end,
      case n % 3 when 0 then null else 'No partner is known to have referred this customer.' end, '{}', at, at, at
    from (select n, now() - (${noticeCount} - n) * interval '6 minutes' as at from generate_series(1, ${noticeCount}) n) e`,
    [programId],
  )
  await sql.query(
    `insert into webhook_endpoints (program_id, url, types)
    select $1, 'https://hooks' || n || '.example.com/svc', '{payout.paid}' from generate_series(1, 10) n`,
    [programId],
  )
  await sql.query(
    `with message as (
      insert into webhook_messages (program_id, type, data, created_at)
      select $1, 'webhook.test', jsonb_build_object('number', n), now() - (${noticeCount} - n) * interval '2 minutes'
      from generate_series(1, ${noticeCount}) n order by n
      returning *
    ),
    delivery as (
      insert into webhook_deliveries (program_id, endpoint_id, message_id, status, attempt_count, finished_at)
      select m.program_id, e.id, m.id, case when m.id % 50 = 0 then 'failed' else 'delivered' end, 1, m.created_at
      from message m join webhook_endpoints e on e.program_id = m.program_id and e.id % 2 = m.id % 2
      returning *
    )
    insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, answer)
    select program_id, endpoint_id, message_id, finished_at, 80, case status when 'failed' then 500 else 200 end, 'ok' from delivery`,
    [programId],
  )
}
