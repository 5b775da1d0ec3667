import { Client } from 'pg'
import { expect, test } from 'vitest'
import makePartitions from '../functions/make-partitions.ts'
import applyRetention from '../functions/apply-retention.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { readDatabaseFigures } from '../lib/health.ts'
import { deleteUnsoldPayments } from '../lib/processors/webhook-events.ts'
import { countClicks, recordClick } from '../lib/tracking/clicks.ts'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'
import { asEventPage, eventPageStatements } from '../lib/tracking/events.ts'
import { recordBrowserLead } from '../lib/tracking/leads.ts'
import { readPerformance } from '../lib/tracking/performance.ts'
import { clickRetentionMonths, deleteExpiredCustomers, rewriteClicks } from '../lib/tracking/retention.ts'
import { setClock } from './support/clock.ts'
import { createLedgerProgram, noClick, noLead } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const endpoint = await startEndpoint()
const setTime = await setClock(endpoint)
const { db, sql, env } = endpoint
const day = 24 * 60 * 60 * 1000
const steps = 60
const stepDays = 15
const end = Date.now()
const begin = end - steps * stepDays * day

async function rows<Row extends object>(query: string, values: unknown[] = []): Promise<Row[]> {
  return (await sql.query<Row>(query, values)).rows
}

/** The number of stored rows that clicks created. */
async function size() {
  const [row] = await rows<{
    events: number
    months: number
    visitors: number
    notifications: number
    webhooks: number
  }>(
    `select (select count(*) from affiliate_click_events where not is_test)::int as events,
      (select count(*) from pg_inherits where inhparent = 'affiliate_click_events'::regclass)::int as months,
      (select count(*) from customers where customer_status = 'click' and provisional_lead_at is null)::int as visitors,
      (select count(*) from outbox)::int as notifications, (select count(*) from webhook_attempts)::int as webhooks`,
  )
  return row
}

test('after thirty months of clicks the table sizes level off, and the figures remain', async () => {
  await setTime(new Date(begin))
  const program = await createLedgerProgram(sql, db)
  const { programId } = program
  await sql.query(
    `insert into webhook_endpoints (program_id, url, types) values ($1, 'https://hooks.example.com', $2)`,
    [programId, ['sale.created', 'sale.refunded']],
  )
  const code = program.codeOf(0)
  const click = { ...noClick, affiliate_url: `https://shop.example.com/?aff=${code}`, partner_code: code }
  const sizes: Awaited<ReturnType<typeof size>>[] = []
  const clickIds: string[] = []
  for (let step = 0; step <= steps; step++) {
    const at = begin + step * stepDays * day
    await setTime(new Date(at))
    await makePartitions.scheduled(undefined, env)
    const [visitor, lead, buyer, browser] = await Promise.all(
      [0, 1, 2, 3].map((n) => recordClick(db, click, null, at - n * 1000)),
    )
    clickIds.push(visitor?.click_id ?? '')
    await program.lead(`lead-${step}`, lead?.click_id ?? null)
    await program.sale({
      id: `sale-${step}`,
      customerKey: `buyer-${step}`,
      amount: 1000,
      currency: 'usd',
      clickId: buyer?.click_id ?? null,
    })
    await program.refund(`sale-${step}`, 100)
    const seen = { ...noLead, customer_key: `browser-${step}`, click_id: browser?.click_id ?? null }
    await recordBrowserLead(db, seen, programId)
    await sql.query(`with delivered as (update outbox set delivered_at = now() where delivered_at is null returning *)
      insert into notifications select program_id, id, kind, audience, partner_id, payload, created_at from delivered`)
    await sql.query(`with sent as (
        update webhook_deliveries set status = 'delivered', next_attempt_at = null, attempt_count = 1, finished_at = now()
        where status = 'pending' returning *
      )
      insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status)
      select program_id, endpoint_id, message_id, now(), 1, 200 from sent`)
    while ((await countClicks(db, 1000)) > 0);
    while ((await foldDailyTotals(db, 1000)) > 0);
    await applyRetention.scheduled(undefined, env)
    sizes.push(await size())
  }

  const [last, before] = [sizes.at(-1), sizes.at(-3)]
  expect(last?.visitors).toBeLessThanOrEqual(4)
  expect(last?.events).toBeLessThan(4 * (26 * (31 / stepDays) + 2))
  expect(last?.notifications).toBeLessThan(30)
  // Two clicks from each part of the last thirty days, including the first and the last day.
  expect(Math.max(...sizes.map((each) => each?.webhooks ?? 0))).toBeLessThanOrEqual(6)
  expect(last?.webhooks).toBeGreaterThan(0)
  expect(Math.abs((last?.events ?? 0) - (before?.events ?? 0))).toBeLessThanOrEqual(8)
  expect(await findDifferences(sql)).toEqual([])

  const total = steps + 1
  const figures = await readPerformance(
    db,
    { id: programId, currency: 'usd', createdAt: new Date(begin) },
    { period: 'all' },
    end,
  )
  expect(figures.metrics).toMatchObject({
    totalClicks: 4 * total,
    totalLeads: total,
    totalConversions: total,
    totalRevenue: 10 * total,
  })
  expect(await rows('select sum(clicks)::int as clicks from link_click_counts')).toEqual([{ clicks: 4 * total }])
  expect(await rows("select count(*)::int as n from customers where customer_status <> 'click'")).toEqual([
    { n: 2 * total },
  ])

  const since = (await rows<{ since: Date }>('select since from clicks_kept'))[0]?.since
  expect(since?.toISOString()).toMatch(/-01T00:00:00\.000Z$/)
  const list = { eventType: 'click', pageSize: 100 } as const
  const { data, meta } = asEventPage(await db.batch(eventPageStatements(programId, list)), list)
  expect(meta.clicksSince).toBe(since?.toISOString())
  for (const event of data) expect(event.click_id).toMatch(/^cust_/)
  expect(await rows('select 1 from affiliate_click_events where click_timestamp < $1', [since])).toEqual([])

  const gone = clickIds[0] ?? ''
  expect((await recordClick(db, click, gone, end)).click_id).not.toBe(gone)
  await expect(program.lead('new', gone)).rejects.toMatchObject({ code: 'no_attribution' })
  const late = { ...noLead, customer_key: 'late', click_id: gone }
  const never = { ...late, click_id: `cust_1_${'7'.repeat(20)}${programId}` }
  const [answer, same] = await Promise.all(
    [late, never].map((lead) => recordBrowserLead(db, lead, programId).catch(String)),
  )
  expect(answer).toEqual(same)
})

test('a click during the deletion of its customer is recorded once, with the old customer or a new one', async () => {
  const program = await createLedgerProgram(sql, db)
  const code = program.codeOf(0)
  const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: code }
  const old = await Promise.all(Array.from({ length: 20 }, (_, n) => recordClick(db, click, null, end - 40 * day + n)))
  const [, ...again] = await Promise.all([
    Promise.all([3, 7, 1000].map((limit) => deleteExpiredCustomers(db, limit))),
    ...old.map(({ click_id }) => recordClick(db, click, click_id, end)),
  ])
  while ((await deleteExpiredCustomers(db, 5)).more);
  const remaining = await rows<{ click_id: string }>('select click_id from customers where program_id = $1', [
    program.programId,
  ])
  expect(remaining.map(({ click_id }) => click_id).toSorted()).toEqual(again.map(({ click_id }) => click_id).toSorted())
  while ((await countClicks(db, 1000)) > 0);
  expect(await findDifferences(sql)).toEqual([])
})

test('an imported commission keeps its customer, and the others are still deleted', async () => {
  const program = await createLedgerProgram(sql, db)
  const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: program.codeOf(0) }
  const [kept] = [
    await recordClick(db, click, null, end - 40 * day),
    await recordClick(db, click, null, end - 40 * day),
  ]
  await sql.query(
    `insert into imported_commissions (program_id, partner_id, customer_id, external_id, amount_cents, currency, status, earned_at)
    select program_id, partner_id, id, 'old-1', 100, 'usd', 'paid', created_at from customers where click_id = $1`,
    [kept.click_id],
  )
  while ((await countClicks(db, 1000)) > 0);
  while ((await deleteExpiredCustomers(db, 1000)).more);
  expect(await rows('select click_id from customers where program_id = $1', [program.programId])).toEqual([
    { click_id: kept.click_id },
  ])
})

test('of many customers who clicked at the same moment, each batch deletes as many as its limit', async () => {
  const program = await createLedgerProgram(sql, db)
  const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: program.codeOf(0) }
  for (let n = 0; n < 5; n++) await recordClick(db, click, null, end - 40 * day)
  while ((await countClicks(db, 1000)) > 0);
  const batches: number[] = []
  while (batches.at(-1) !== 0) batches.push((await deleteExpiredCustomers(db, 2, program.programId)).deleted)
  expect(batches).toEqual([2, 2, 1, 0])
})

test("if the database refuses to delete a program's customers, those of others and the months are deleted", async () => {
  const [broken, other] = [await createLedgerProgram(sql, db), await createLedgerProgram(sql, db)]
  for (const program of [broken, other]) {
    const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: program.codeOf(0) }
    await recordClick(db, click, null, end - 40 * day)
  }
  while ((await countClicks(db, 1000)) > 0);
  const ids = [broken.programId, other.programId]
  const left = () => rows('select program_id::int from customers where program_id = any ($1)', [ids])
  await sql.query(
    `alter table customers_expired add constraint refused check (program_id <> ${broken.programId}) not valid`,
  )
  await expect(applyRetention.scheduled(undefined, env)).rejects.toThrow(`all programs, ${broken.programId}.`)
  expect(await left()).toEqual([{ program_id: broken.programId }])
  await sql.query('alter table customers_expired drop constraint refused')
  await applyRetention.scheduled(undefined, env)
  expect(await left()).toEqual([])
})

test('invitations are deleted a year after they expired', async () => {
  const { programId, partnerIds } = await createLedgerProgram(sql, db)
  const days = [366, 364, -7]
  await sql.query(
    `insert into workspace_invitations (workspace_id, email, role, token_hash, expires_at, accepted_at, revoked_at)
    select workspace_id, became || day || '@example.com', 'member', sha256((became || day)::bytea), now() - make_interval(days => day),
      case became when 'accepted' then now() end, case became when 'revoked' then now() end
    from programs, unnest($2::int[]) day, unnest(array['accepted', 'revoked', 'open']) became where id = $1`,
    [programId, days],
  )
  await sql.query(
    `insert into partner_invitations (program_id, partner_id, email, token_hash, expires_at, accepted_at, declined_at, revoked_at)
    select $1, $2, became || day || '@example.com', sha256((became || day)::bytea), now() - make_interval(days => day),
      case became when 'accepted' then now() end, case became when 'declined' then now() end, case became when 'revoked' then now() end
    from unnest($3::int[]) day, unnest(array['accepted', 'declined', 'revoked']) became`,
    [programId, partnerIds[0], days],
  )
  await deleteExpired(db)
  for (const table of ['workspace_invitations', 'partner_invitations']) {
    const remaining = await rows<{ days: number }>(
      `select round(extract(epoch from now() - expires_at) / 86400)::int as days from ${table} order by expires_at`,
    )
    expect(remaining.map((row) => row.days)).toEqual([364, 364, 364, -7, -7, -7])
  }
})

test('the ids of a payment without a sale are deleted after 90 days', async () => {
  const program = await createLedgerProgram(sql, db)
  const soldId = (await program.soldBy(0, 1000)).id
  const [{ account } = { account: '' }] = await rows<{ account: string }>(
    'select processor_account_id as account from programs where id = $1',
    [program.programId],
  )
  const payments: [account: string, id: string, transaction: string, days: number][] = [
    [account, 'pi_young', 'pi_young', 89],
    [account, 'pi_unsold', 'pi_unsold', 91],
    [account, 'ch_unsold', 'pi_unsold', 91],
    [account, 'pi_sold', soldId, 91],
    [account, 'ch_of_sold', soldId, 91],
    ['acct_nobodys', 'pi_unsold', 'pi_unsold', 91],
  ]
  for (const [of, id, transaction, days] of payments) {
    await sql.query(
      `insert into processor_payments (account_id, payment_id, transaction_id, created_at)
      values ($1, $2, $3, now() - make_interval(days => $4))`,
      [of, id, transaction, days],
    )
  }
  expect(await deleteUnsoldPayments(db)).toBe(2)
  const remaining = () => rows('select account_id, payment_id from processor_payments order by 1, 2')
  const expected = payments
    .filter(([of, id]) => of !== account || !id.endsWith('unsold'))
    .map(([of, id]) => ({ account_id: of, payment_id: id }))
  expect(await remaining()).toEqual(expect.arrayContaining(expected))
  expect(await remaining()).toHaveLength(expected.length)
  expect(await deleteUnsoldPayments(db)).toBe(0)

  // This also covers disconnected accounts.
  await sql.query('update programs set processor_account_id = null, processor_former_account_id = $2 where id = $1', [
    program.programId,
    account,
  ])
  await sql.query("update processor_payments set created_at = now() - interval '91 days'")
  expect(await deleteUnsoldPayments(db)).toBe(1)
})

async function lateFigures() {
  const { retention_behind_seconds, click_months_due } = await readDatabaseFigures(db, 25)
  return { late: (retention_behind_seconds ?? 0) > 172_800, click_months_due }
}

test('a backlog is reported, waits while a reader uses the clicks, and is then deleted in one run', async () => {
  expect(await lateFigures()).toEqual({ late: false, click_months_due: 0 })
  await setTime(new Date(end + 33 * day))
  expect(await lateFigures()).toEqual({ late: true, click_months_due: 1 })

  const reader = new Client({ connectionString: endpoint.databaseUrl })
  await reader.connect()
  await reader.query('begin')
  await reader.query('select count(*) from affiliate_click_events')
  await applyRetention.scheduled(undefined, env)
  expect(await lateFigures()).toEqual({ late: false, click_months_due: 1 })
  await reader.end()

  await applyRetention.scheduled(undefined, env)
  expect(await lateFigures()).toEqual({ late: false, click_months_due: 0 })
})

test.for([
  ['', 25],
  [undefined, 25],
  ['13', 13],
] as const)('CLICK_RETENTION_MONTHS %j keeps %i months', ([given, months]) => {
  expect(clickRetentionMonths(given)).toBe(months)
})

test.for(['0', '-1', '1.5', 'ten'])('CLICK_RETENTION_MONTHS %j is refused', (given) => {
  expect(() => clickRetentionMonths(given)).toThrow('CLICK_RETENTION_MONTHS must be a whole number')
})

const isOfOthers = ({ customer_id }: Record<string, unknown>) => customer_id !== '3' && customer_id !== '30'

/** A rewritten row doesn't contain its creation time if that was within a second after the click. */
const withoutMoment = (row: Record<string, unknown>) => ({ ...row, created_at: undefined })

test('a past month of clicks is rewritten into shorter rows with the same texts, also while visitors are erased', async () => {
  await setTime(new Date(end))
  const { programId } = await createLedgerProgram(sql, db)
  const month = new Date(Date.UTC(new Date(end).getUTCFullYear(), new Date(end).getUTCMonth() - 1))
  await makePartitions.scheduled(undefined, env)
  await sql.query(
    `insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, session_id, affiliate_url, page_url,
      page_title, referrer_url, user_agent, geo_country, geo_city, timezone, device_type, browser_name, campaign, created_at)
    select $1, $2::timestamptz + n * interval '1 minute', n, n / 2 + 1, click_id_of($1, milliseconds($2) + n / 2 * 120000, n), 1, 's' || n,
      case when n < 8 then '' else 'https://shop.example.com/?aff=a' || case when n % 20 = 0 then '&mail=' || n else '' end end,
      'https://shop.example.com/' || n % 3, 'Shop', 'https://blog.example.org', 'Mozilla/5.0 (' || n % 4 || ')', 'DE', 'Köln', 'Europe/Berlin',
      'mobile', 'Safari', '{"utm_source": "blog"}', $2::timestamptz + n * interval '1 minute' + case when n % 5 = 0 then interval '3 s' else '0' end
    from generate_series(1, 60) n`,
    [programId, month],
  )
  const read = () =>
    rows<Record<string, unknown>>('select * from click_events where program_id = $1 order by click_timestamp', [
      programId,
    ])
  const bytes = async () =>
    (
      await rows<{ bytes: number }>(
        `select sum(pg_column_size(e))::int as bytes from affiliate_click_events e where program_id = $1`,
        [programId],
      )
    )[0]?.bytes ?? 0
  const [before, bytesBefore] = [await read(), await bytes()]
  const erase = (customer: number) =>
    rows(`select erase_clicks($1, array[$2::bigint], null, $3, null, 'erased')`, [programId, customer, month])
  const erased = (customer: number) =>
    rows(
      `select id from click_events where program_id = $1 and customer_id = $2 and click_id = 'erased'
        and num_nonnulls(session_id, affiliate_url, page_url, referrer_url, user_agent, geo_city, timezone, browser_name, campaign) = 0`,
      [programId, customer],
    )

  const copied = async () =>
    (
      await rows<{ n: number }>(
        `select count(*)::int as n from rewritten_months m
      join affiliate_click_events e on e.program_id = $1 and e.program_id = m.program_id and e.click_timestamp <= m.click_timestamp
      where m.month = $2`,
        [programId, month],
      )
    )[0]?.n ?? 0
  await sql.query('delete from rewritten_months where month = $1', [month])
  // Two visitors are erased. At that time, one visitor's rows have a copy, and the other visitor's rows don't have one yet.
  while ((await copied()) === 0) await rewriteClicks(db, 20)
  expect(await copied()).toBeLessThan(58)
  await erase(3)
  await erase(30)
  for (let more = true; more;) ({ more } = await rewriteClicks(db, 20))
  expect(await rows('select rewritten_at is null as open from rewritten_months where month = $1', [month])).toEqual([
    { open: false },
  ])
  expect(await erased(3)).toHaveLength(2)
  expect(await erased(30)).toHaveLength(2)
  expect((await read()).filter(isOfOthers).map(withoutMoment)).toEqual(before.filter(isOfOthers).map(withoutMoment))
  expect(await bytes()).toBeLessThan(bytesBefore / 2)

  // A text of a single visitor isn't in any part, so an erasure after the month removes it too.
  await erase(20)
  expect(await erased(20)).toHaveLength(2)
  expect(await rows("select from click_parts where part::text like '%mail=%'")).toEqual([])
})

test('leads of invented times cause at most twelve partitions in a run, and none before 2020', async () => {
  const { programId } = await createLedgerProgram(sql, db)
  await sql.query(
    `insert into affiliate_lead_events (program_id, is_test, lead_timestamp, customer_key)
    select $1, true, start + n * interval '1 month', 'invented' from generate_series(0, 19) n, unnest('{0300-01-01, 2020-01-01}'::timestamptz[]) start`,
    [programId],
  )
  const made = await rows<{ name: string }>(
    `select name from make_event_partitions(0) name where name like 'affiliate_lead_events_%' order by 1`,
  )
  expect([made[0]?.name, made.filter(({ name }) => name < 'affiliate_lead_events_2023').length]).toEqual([
    'affiliate_lead_events_2020_01',
    12,
  ])
})

async function oldestMonth() {
  const [month] = await rows<{ name: string; ends: Date }>(
    `select name, (to_date(right(name, 7), 'YYYY_MM') + interval '1 month') at time zone 'UTC' as ends
    from (select min(inhrelid::regclass::text) filter (where inhrelid::regclass::text <> 'affiliate_click_events_default') as name
      from pg_inherits where inhparent = 'affiliate_click_events'::regclass) m`,
  )
  return month
}

test('clicks that are not counted delay the deletion of their month by at most a week', async () => {
  const { programId } = await createLedgerProgram(sql, db)
  const month = await oldestMonth()
  const ends = month?.ends ?? new Date(0)
  const later = (days: number) =>
    new Date(Date.UTC(ends.getUTCFullYear(), ends.getUTCMonth() + 25, ends.getUTCDate() + days))
  await sql.query(
    'insert into uncounted_clicks (program_id, link_id, clicked_at, event_id) select program_id, min(id), $2, 1 from referral_links where program_id = $1 group by 1',
    [programId, new Date(ends.getTime() - day)],
  )
  for (const [days, isKept] of [
    [6, true],
    [8, false],
  ] as const) {
    await setTime(later(days))
    await applyRetention.scheduled(undefined, env)
    expect((await oldestMonth())?.name === month?.name).toBe(isKept)
  }
})
