import { expect, test } from 'vitest'
import { createPerson, tiePartner } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { formatMoney } from '../lib/money.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { createPayoutRun, payPayoutRun } from '../lib/money/payout-runs.ts'
import { askPayout } from '../lib/money/payouts.ts'
import { createCode } from '../lib/programs/codes.ts'
import { createConnection } from '../lib/processors/connections.ts'
import { addPartner } from '../lib/programs/partners.ts'
import type { ProcessorName } from '../lib/processors/processors.ts'
import { sendQueuedInvitations } from '../lib/programs/queued-invitations.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { countClicks } from '../lib/tracking/clicks.ts'
import { parseCsv } from './support/csv.ts'
import { fillEvents } from './support/events.ts'
import { today } from './support/ledger.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({ functions: ['dashboard', 'tracking-events', 'tracking-performance'] })
const env = { ...stack.env, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
const sandbox = await createSandbox(stack.db, env)
const listing = await createSandbox(stack.db, env)
await fillEvents(stack.sql, sandbox.programId, 400)

async function get(path: string): Promise<string> {
  const { dashboardToken } = path.startsWith(`/programs/${listing.programId}/`) ? listing : sandbox
  const response = await fetch(new URL(path, stack.baseUrl), { headers: cookieOf({ dashboardToken }) })
  expect(response.status).toBe(200)
  return await response.text()
}

const cookieOf = ({ dashboardToken }: { dashboardToken: string }) => ({
  cookie: `${sessionCookie}=${encodeURIComponent(dashboardToken)}`,
})

/** Returns a page without its frame, because the tokens of the frame's forms change. */
const mainOf = (html: string) => html.slice(html.indexOf('<main'))

/** Posts a form like a page of the dashboard, and returns the redirect. */
async function post(path: string, fields: Record<string, string>, from = path): Promise<[number, string | null]> {
  const response = await fetch(stack.baseUrl + path, {
    method: 'POST',
    redirect: 'manual',
    headers: {
      ...cookieOf(sandbox),
      origin: stack.baseUrl,
      referer: stack.baseUrl + from,
    },
    body: new URLSearchParams(fields),
  })
  return [response.status, response.headers.get('location')]
}

/** Lists a program's live or test events with plain SQL, newest first. */
async function listed(list: List, where: string): Promise<{ at: string; type: string; id: string }[]> {
  const { rows } = await stack.sql.query(
    `select to_char(event.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, type, id from (
      select 'click' as type, click_timestamp as at, id from affiliate_click_events where program_id = $1 and is_test = $2
      union all
      select 'lead', lead_timestamp, id from affiliate_lead_events where program_id = $1 and is_test = $2
      union all
      select 'conversion', sale_date, id from sales where program_id = $1 and is_test = $2 and (customer_id is not null or is_test)
    ) event where ${where} order by event.at desc, type, id desc`,
    [sandbox.programId, list === 'test/events'],
  )
  return rows
}

const base = `/programs/${sandbox.programId}`
type List = 'events' | 'test/events'
const filters: [what: string, list: List, query: string, where: string][] = [
  ['all events', 'events', '', 'true'],
  ['the clicks', 'events', '?eventType=click', "type = 'click'"],
  [
    'the events of a day',
    'events',
    '?dateFrom=2026-11-01&dateTo=2026-11-01',
    "at >= '2026-11-01' and at < '2026-11-02'",
  ],
  [
    'the sales until a day',
    'events',
    '?eventType=conversion&dateTo=2026-10-31',
    "type = 'conversion' and at < '2026-11-01'",
  ],
  ['all test events', 'test/events', '', 'true'],
  ['the test sales', 'test/events', '?eventType=conversion', "type = 'conversion'"],
  [
    'the test events of a day',
    'test/events',
    '?dateFrom=2026-11-01&dateTo=2026-11-01',
    "at >= '2026-11-01' and at < '2026-11-02'",
  ],
]

test.each(filters)('paging through the event list shows %s once each', async (_what, list, query, where) => {
  const shown: string[] = []
  let path: string | undefined = `${base}/${list}${query}`
  while (path) {
    const html: string = await get(path)
    shown.push(...Array.from(html.matchAll(/<time class="number" datetime="([^"]+)"/g), ([, at]) => at ?? ''))
    path = /href="([^"]+)" rel="next"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
  }
  expect(shown).toEqual((await listed(list, where)).map(({ at }) => at))
})

test.each(filters)('the CSV file of the event list contains %s', async (_what, list, query, where) => {
  const [head, ...lines] = (await get(`${base}/${list}.csv${query}`)).trimEnd().split('\r\n')
  expect(head).toMatch(/^id,event_type,timestamp,/)
  const rows = lines.map((line) => line.split(','))
  expect(rows.map(([id, type, at]) => ({ at, type, id }))).toEqual(await listed(list, where))
})

test('sales in another currency are shown separately from the program’s figures', async () => {
  const range = '?dateFrom=2026-10-30&dateTo=2026-11-02'
  expect(await get(base + range)).toMatch(/figures above are in USD only[^<]+In other currencies: €[\d.,]+ revenue/)
  const shown = await get(`${base}/events${range}&eventType=conversion`)
  const notes = shown.match(/not in the program&#39;s currency/g) ?? []
  expect(notes).toHaveLength(Array.from(shown.matchAll(/<strong>€/g)).length)
  expect(notes).not.toEqual([])
})

test('the overview and its CSV file match the performance API', async () => {
  for (const query of ['', '?period=90d', '?dateFrom=2026-10-30&dateTo=2026-11-02']) {
    const response = await fetch(`${stack.baseUrl}/api/tracking/performance/${sandbox.programId}${query}`, {
      headers: { authorization: `Bearer ${sandbox.dashboardToken}` },
    })
    const { data, metrics } = await response.json()
    if (query.includes('dateFrom')) expect(metrics).toMatchObject({ totalClicks: 320, otherCurrencies: { eur: {} } })
    const values = Array.from((await get(base + query)).matchAll(/<dd class="value">([^<]+)</g), ([, value]) => value)
    const [clicks, leads, sales, , , customers] = values
    expect([clicks, leads, sales, customers]).toEqual(
      [metrics.totalClicks, metrics.totalLeads, metrics.totalSales, metrics.totalConversions].map(String),
    )
    const [, ...lines] = (await get(`${base}/performance.csv${query}`)).trimEnd().split('\r\n')
    expect(lines).toEqual(
      data.map((day: Record<string, unknown>) =>
        [
          day['date'],
          day['clicks'],
          day['leads'],
          day['conversions'],
          day['revenue'],
          day['partners'],
          day['commission'],
        ].join(),
      ),
    )
  }
})

/** Creates a connection with this many waiting events, and returns the connection's page. */
const connectionPage = async (processor: ProcessorName, waiting: number) => {
  const accountId = await createConnection(stack.db, sandbox.programId, { processor, livemode: true })
  await stack.sql.query(
    `insert into processor_events (account_id, event_id, event_type, livemode, outcome, waits_for, fact, event_created_at)
    select $1, 'evt_' || n, 'order.paid', true, 'parked', 'connection', '{}', now() from generate_series(1, $2::int) n`,
    [accountId, waiting],
  )
  return mainOf(await get(`${base}/settings/connections/${accountId}`)).replaceAll(/\s+/g, ' ')
}

test('the page of a connection shows the origin of its secret and the number of waiting events', async () => {
  const invented = await connectionPage('lemonsqueezy', 1)
  expect(invented).toContain('Choose a secret of 6 to 40 characters.')
  expect(invented).toContain('1 event is waiting for the connection.')
  expect(invented).toContain('then applies the event within')
  const shown = await connectionPage('paddle', 2)
  expect(shown).toContain('save the secret that Paddle shows.')
  expect(shown).toContain('2 events are waiting for the connection.')
})

test('a page approves only the selected commissions, or only those that it shows', async () => {
  await stack.sql.query(
    `insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until)
    select program_id, 'sale', partner_id, customer_id, id, currency, 1, now() + interval '30 days' from sales
    where program_id = $1 and customer_id is not null and not is_test order by id limit 5`,
    [sandbox.programId],
  )
  const waiting = async () => {
    const { rows } = await stack.sql.query<{ id: string }>(
      'select id from commissions where program_id = $1 and credited_at is null order by id',
      [sandbox.programId],
    )
    return rows.map(({ id }) => id)
  }
  const [one = '', two = '', ...others] = await waiting()
  const page = await get(`${base}/commissions?sort=oldest`)
  expect(Array.from(page.matchAll(/type="checkbox" name="row-(\d+)"/g), ([, id]) => id)).toEqual([one, two, ...others])
  const send = (fields: Record<string, string>) =>
    post(`${base}/commissions/decide`, fields, `${base}/commissions?q=two+words&sort=oldest`)
  // A search as browsers send it.
  const back = [303, `${base}/commissions?q=two+words&sort=oldest`]
  const shown = [one, two, others[0]].join(' ')
  expect(await send({ which: 'chosen', shown, [`row-${one}`]: 'on', [`row-${others[1]}`]: 'on' })).toEqual(back)
  expect(await waiting()).toEqual([two, ...others])
  expect(await send({ which: 'shown', shown })).toEqual(back)
  expect(await waiting()).toEqual(others.slice(1))
  const rejected = { which: 'rejected', shown: others.join(' '), [`row-${others[1]}`]: 'on' }
  await send(rejected)
  await send({ ...rejected, reason: 'Never shipped' })
  const { rows } = await stack.sql.query<{ id: string; reason: string }>(
    'select id, reason from commissions where program_id = $1 and rejected_at is not null',
    [sandbox.programId],
  )
  expect(rows).toEqual([{ id: others[1], reason: 'Never shipped' }])
})

test("a manual commission and a deduction are added on a partner's page, and the partner reads the note", async () => {
  const partner = `${base}/partners/${sandbox.partnerId}`
  const page = `${partner}?tab=commissions`
  const adjust = (fields: Record<string, string>) =>
    post(
      `${partner}/adjust`,
      {
        request_id: crypto.randomUUID(),
        kind: 'commission',
        amount: '12.50',
        currency: 'USD',
        adjust_note: 'Bonus',
        ...fields,
      },
      page,
    )
  expect(await adjust({})).toEqual([303, page])
  expect(await adjust({ kind: 'deduction', amount: '3', adjust_note: 'Paid twice' })).toEqual([303, page])
  const { rows: sold } = await stack.sql.query<{ transaction_id: string; is_theirs: boolean }>(
    `select distinct on (partner_id is null) transaction_id, partner_id is not null as is_theirs from sales
    where program_id = $1 and not is_test and coalesce(partner_id, $2) = $2 order by partner_id is null`,
    [sandbox.programId, sandbox.partnerId],
  )
  expect(sold.map(({ is_theirs: isTheirs }) => isTheirs)).toEqual([true, false])
  for (const { transaction_id: id } of sold)
    expect(await adjust({ transaction_id: id, adjust_note: 'Of a sale' })).toEqual([303, page])
  const linked = (html: string) => sold.map(({ transaction_id: id }) => html.includes(`/${id}">${id}</a>`))
  expect(linked(await get(`${base}/adjustments`))).toEqual([true, true])
  expect(linked(await get(page))).toEqual([true, true])
  const refusals: Record<string, string>[] = [
    { amount: '0' },
    { amount: '1.234' },
    { amount: '-5' },
    { currency: 'US' },
    { transaction_id: 'none' },
    { adjust_note: ' ' },
  ]
  for (const refused of refusals) await adjust(refused)
  for (const path of [page, `${base}/adjustments?q=twice`, `${base}/adjustments.csv`])
    expect([path, (await get(path)).match(/Bonus|Paid twice/g)?.includes('Paid twice')]).toEqual([path, true])
  const { rows } = await stack.sql.query<{ amount_cents: string }>(
    'select amount_cents from adjustments where program_id = $1 order by id',
    [sandbox.programId],
  )
  expect(rows.map(({ amount_cents: cents }) => Number(cents))).toEqual([1250, -300, 1250, 1250])
  const asPartner = { cookie: `${sessionCookie}=${encodeURIComponent(sandbox.partnerToken)}` }
  const payouts = await (await fetch(`${stack.baseUrl}/partner/payouts.csv`, { headers: asPartner })).text()
  expect(payouts).toMatch(/^id,created,program,status,currency,amount,requested,decided,reference,paid_on,reason\b/)
  for (const path of ['/partner/adjustments', '/partner/adjustments.csv']) {
    const headers = { cookie: `${sessionCookie}=${encodeURIComponent(sandbox.partnerToken)}` }
    const text = await (await fetch(stack.baseUrl + path, { headers })).text()
    expect(text).toContain('Paid twice')
    // Partners can't open the sales of other partners.
    if (!path.endsWith('.csv')) expect(linked(text)).toEqual([true, false])
  }
})

test('search results are listed and exported in the order that the address requests', async () => {
  for (const name of ['Zoe', 'Amy', 'amylase']) {
    await addPartner(stack.db, { programId: sandbox.programId, name, email: null, code: null })
  }
  const html = await get(`${base}/partners?q=AMY&sort=name`)
  expect(Array.from(html.matchAll(/<strong>([^<]+)<\/strong>/g), ([, name]) => name)).toEqual(['Amy', 'amylase'])
  const [, ...lines] = (await get(`${base}/partners.csv?q=AMY&sort=name`)).trimEnd().split('\r\n')
  expect(lines.map((line) => line.split(',')[1])).toEqual(['Amy', 'amylase'])
  expect(await get(`${base}/partners?q=nobody`)).toContain('No results')
})

const names = (html: string) => Array.from(html.matchAll(/<strong>([^<]+)<\/strong>/g), ([, name]) => name)

test('a search accepts words in any order, shows exact matches first, and refuses unknown filters', async () => {
  const add = async (name: string, code: string) =>
    await addPartner(stack.db, { programId: sandbox.programId, name, email: null, code })
  await add('Ada Lovelace', 'REX')
  await add('Rex Regina', 'REX20')
  expect(names(await get(`${base}/partners?q=lovelace+ada`))).toEqual(['Ada Lovelace'])
  expect(names(await get(`${base}/partners?q=rex`))).toEqual(['Ada Lovelace', 'Rex Regina'])
  const { partnerId } = await add('Max', 'MAX')
  for (const code of ['SAVE', 'SAVE20']) {
    await createCode(stack.db, sandbox.programId, {
      partner_id: partnerId,
      code,
      promotion_code_id: null,
      account_id: null,
    })
  }
  const [, ...codes] = (await get(`${base}/codes.csv?q=save`)).trimEnd().split('\r\n')
  expect(codes.map((line) => /SAVE(20)?/.exec(line)?.[0])).toEqual(['SAVE', 'SAVE20'])

  const filtered = await get(`${base}/partners?status=lost&q=rex`)
  expect(filtered).toMatch(/role="alert">\s*The filter status=lost is unknown here/)
  expect(names(filtered)).toHaveLength(2)
  const file = await fetch(`${stack.baseUrl}${base}/partners.csv?status=lost`, { headers: cookieOf(sandbox) })
  expect([file.status, await file.text()]).toEqual([400, expect.stringContaining('status=lost')])
})

test('the footer of a list counts and sums all its rows, and its headings sort it', async () => {
  const { rows } = await stack.sql.query<{ currency: string; rows: number; cents: number }>(
    `select currency, count(*)::integer as rows, sum(amount_cents - reversed_cents)::integer as cents
    from commissions where program_id = $1 group by currency order by currency`,
    [sandbox.programId],
  )
  const count = rows.reduce((all, one) => all + one.rows, 0)
  const sums = rows.map(({ cents, currency }) => formatMoney(cents, currency))
  const foot = /<p class="muted small totals">([^]*?)<\/p>/
  const list = mainOf(await get(`${base}/commissions`))
  expect(foot.exec(list)?.[1]).toBe(`${count} commissions<strong> ${sums.join(' + ')}</strong>`)
  expect(list).toMatch(/aria-sort="descending"[^>]*><a href="[^"]+sort=oldest">Created/)
  const partners = mainOf(await get(`${base}/partners?q=rex&sort=name`))
  expect(foot.exec(partners)?.[1]).toBe('2 partners')
  expect(partners).toMatch(/aria-sort="ascending"[^>]*><a href="[^"]+q=rex&amp;sort=name">Partner/)
  expect(partners).toMatch(/<th[^>]*><a href="[^"]+q=rex&amp;sort=clicks">Clicks</)
})

test('a bulk action covers all rows that match but none that arrives meanwhile, has one audit entry, and can be undone', async () => {
  const many = await createSandbox(stack.db, env)
  const add = async (from: number, to: number, name: string) =>
    await stack.sql.query(
      `insert into applications (program_id, source, status, name, email, verified_at)
      select $1, 'page', 'waiting', $2 || ' ' || n, lower($2) || n || '@example.com', now() from generate_series($3::integer, $4) n`,
      [many.programId, name, from, to],
    )
  await add(1, 55, 'Ada')
  await add(1, 5, 'Bob')
  const program = `/programs/${many.programId}`
  const read = async (path: string) => {
    const response = await fetch(stack.baseUrl + path, { headers: cookieOf(many) })
    return [response.status, mainOf(await response.text())] as const
  }
  const send = async (path: string, fields: Record<string, string> = {}) =>
    await fetch(stack.baseUrl + path, {
      method: 'POST',
      redirect: 'manual',
      headers: { ...cookieOf(many), origin: stack.baseUrl },
      body: new URLSearchParams(fields),
    })
  const messageKinds = new Map<string, string | undefined>()
  /** Sends the forms of a job's pages in turn, and keeps the kind of the message at the end. Returns the number of parts. */
  const finish = async (path: string, meanwhile?: (part: number) => Promise<void>) => {
    for (let parts = 1; parts < 9; parts++) {
      const response = await send(path)
      if (response.status === 303) {
        const message = decodeURIComponent(response.headers.getSetCookie().join())
        messageKinds.set(path, /"kind":"(\w+)"/.exec(message)?.[1])
        return parts
      }
      expect(await response.text()).toContain(`action="${path}"`)
      await meanwhile?.(parts)
    }
    return undefined
  }
  const seenOn = async (path: string) =>
    /name="seen" value="([^"]+)"/.exec((await read(`${program}/bulk/${path}`))[1])?.[1] ?? ''
  const start = async (path: string, fields: Record<string, string> = {}) =>
    (await send(`${program}/bulk/${path}`, { seen: await seenOn(path), ...fields })).headers.get('location') ?? ''
  const states = async () => {
    const { rows } = await stack.sql.query<{ text: string }>(
      `select string_agg(text, ', ' order by text) as text from (
        select split_part(name, ' ', 1) || ' ' || status || ' ' || count(*) as text from applications where program_id = $1
        group by split_part(name, ' ', 1), status) one`,
      [many.programId],
    )
    return rows[0]?.text
  }

  expect((await read(`${program}/bulk/approve?q=ada`))[1]).toMatch(
    /Approve 55 applications[^]+Ada 55, Ada 54, [^]+ and 50 more/,
  )
  // A person only approves the applications that they saw.
  expect(await start('approve?q=ada', { in_group: '', seen: '54-1' })).toBe(`${program}/bulk/approve?q=ada`)
  const approval = await start('approve?q=ada', { in_group: '' })
  expect(
    await finish(approval, async (part) => {
      await add(1000 + part, 1000 + part, 'Ada')
    }),
  ).toBe(2)
  expect(await states()).toBe('Ada approved 55, Ada waiting 1, Bob waiting 5')
  const rejection = await start('reject?q=bob', { note: 'Too many' })
  expect(await finish(rejection)).toBe(1)
  expect(await states()).toBe('Ada approved 55, Ada waiting 1, Bob rejected 5')
  await expect
    .poll(async () => {
      const { rows } = await stack.sql.query<{ recipient: string }>(
        "select distinct recipient from mails where recipient ~ '^(ada|bob)[0-9]+@'",
      )
      return rows.length
    })
    .toBe(55)

  const partnersOf = async (value: string) => {
    const { rows } = await stack.sql.query<{ values: string }>(
      `select string_agg(distinct coalesce((${value})::text, 'none'), ' ') as values from partners r
      where program_id = $1 and name ~ '^Ada'`,
      [many.programId],
    )
    return rows[0]?.values
  }
  const { rows: groups } = await stack.sql.query<{ id: string }>(
    "insert into partner_groups (program_id, name) values ($1, 'First'), ($1, 'Second') returning id",
    [many.programId],
  )
  const [first = '', second = ''] = groups.map(({ id }) => id)
  // One link is already disabled, and stays disabled after the undo. Second links have other ids than their partners.
  await stack.sql.query(
    "update referral_links set is_active = false where program_id = $1 and code ~ '^ada7[0-9]{4}$'",
    [many.programId],
  )
  await stack.sql.query(
    "insert into referral_links (code, program_id, partner_id) select 'second', program_id, id from partners where program_id = $1 and name = 'Ada 9'",
    [many.programId],
  )
  const active = async () =>
    await partnersOf(
      "select string_agg(distinct l.is_active::text, ' ') || r.is_active from referral_links l where l.program_id = r.program_id and l.partner_id = r.id",
    )
  const rate = async () =>
    await partnersOf(
      'select commission_bp from commission_rules c where c.program_id = r.program_id and c.partner_id = r.id and ended_at is null',
    )
  const changes: [
    path: string,
    fields: Record<string, string>,
    value: () => Promise<string | undefined>,
    to: string,
  ][] = [
    ['move?q=ada', { to: first }, async () => await partnersOf('r.group_id'), first],
    ['move?q=ada', { to: second }, async () => await partnersOf('r.group_id'), second],
    ['rate?q=ada+55', { rate: '12.5' }, rate, '1250 none'],
    ['deactivate?q=ada', {}, active, 'falsefalse'],
  ]
  for (const [path, fields, value, to] of changes) {
    const before = await value()
    const job = await start(path, fields)
    await finish(job)
    expect([path, await value()]).toEqual([path, to])
    if (path === 'move?q=ada' && to === first) {
      const again = await start('move?q=ada+55', fields)
      await finish(again)
      expect((await read(again))[1]).toContain('0 of 1 partner is moved. Skipped, because they were there already: 1.')
      continue
    }
    expect((await read(job))[1]).toMatch(/(55 of 55 partners are|1 of 1 partner is) .*action="[^"]+\/undo"/s)
    await finish(`${job}/undo`)
    expect([path, await value(), messageKinds.get(`${job}/undo`)]).toEqual([path, before, 'good'])
  }
  // An approval can be undone until the partner has referred somebody or has had a custom rule.
  await stack.sql.query(
    `insert into link_clicks (program_id, link_id, clicks, bot_clicks, last_clicked_at) select program_id, id, 1, 0, now()
    from referral_links where program_id = $1 and code ~ '^ada1[0-9]{4}$'`,
    [many.programId],
  )
  for (const job of [approval, rejection]) await finish(`${job}/undo`)
  expect((await read(approval))[1]).toContain(
    '53 of 55 applications are as they were before. Not undone, because these partners existed before, have been used since then, or have applied again: 2.',
  )
  expect([approval, `${approval}/undo`].map((path) => messageKinds.get(path))).toEqual(['good', 'warn'])
  // Somebody left the page while the job was being undone.
  const isUndone = async (value: string) =>
    await stack.sql.query(
      `update bulk_job_rows set is_undone = ${value} where program_id = $1 and job_id = $2
      and row_id = (select max(row_id) from bulk_job_rows where job_id = $2)`,
      [many.programId, /\d+$/.exec(rejection)?.[0]],
    )
  await isUndone('null')
  expect((await read(rejection))[1]).toMatch(/The undo stopped early, with 1 left\..*Finish undo/s)
  await isUndone('true')
  expect(await states()).toBe('Ada approved 2, Ada waiting 54, Bob waiting 5')
  expect(await partnersOf('r.name::text')).toBe('Ada 1 Ada 55')
  expect((await send(`${approval}/undo`)).status).toBe(303)
  const { rows: entries } = await stack.sql.query<{ action: string; user_id: string }>(
    "select action, count(*)::integer, max(subject) as subject from audit_log where program_id = $1 and details ? 'job' group by 1 order by 1",
    [many.programId],
  )
  expect(entries).toEqual([
    { action: 'application.approved_in_bulk', count: 1, subject: '55 rows' },
    { action: 'application.approved_in_bulk_undone', count: 1, subject: null },
    { action: 'application.rejected_in_bulk', count: 1, subject: '5 rows' },
    { action: 'application.rejected_in_bulk_undone', count: 1, subject: null },
    { action: 'partner.deactivated_in_bulk', count: 1, subject: '55 rows' },
    { action: 'partner.deactivated_in_bulk_undone', count: 1, subject: null },
    { action: 'partner.moved_in_bulk', count: 3, subject: '55 rows' },
    { action: 'partner.moved_in_bulk_undone', count: 1, subject: null },
    { action: 'partner.rated_in_bulk', count: 1, subject: '1 row' },
    { action: 'partner.rated_in_bulk_undone', count: 1, subject: null },
  ])
  const { rows: others } = await stack.sql.query(
    "select action from audit_log where program_id = $1 and action ~ '^(partner|application|commission_rule)' and not details ? 'job'",
    [many.programId],
  )
  expect(others.length).toBeLessThan(9)
  const { rows: kept } = await stack.sql.query<{ id: string }>(
    "select id from partners where program_id = $1 and name ~ '^Ada'",
    [many.programId],
  )
  const activity = await read(`${program}/partners/${kept[0]?.id}?tab=activity`)
  expect(activity[1].match(/(application|partner) \w+ in bulk/g)).toEqual(
    expect.arrayContaining(['application approved in bulk']),
  )

  // Invitations above the daily limit are sent on the following days.
  await stack.sql.query(
    `insert into partners (program_id, name, email) select $1, 'Eve ' || n, 'eve' || n || '@example.com' from generate_series(1, 6) n`,
    [many.programId],
  )
  const mailsToday = async (count: number) =>
    await stack.sql.query(
      `insert into mail_counts (counted, day, mails) select 'workspace ' || workspace_id, utc_day(now()), $2 from programs where id = $1
      on conflict (counted, day) do update set mails = excluded.mails`,
      [many.programId, count],
    )
  const invited = async () => {
    const { rows } = await stack.sql.query<{ invited: number; queued: number; mails: number }>(
      `select (select count(*)::integer from partner_invitations where program_id = $1 and invited_by is not null) as invited,
        (select count(*)::integer from queued_invitations) as queued,
        (select count(*)::integer from mails where recipient ~ '^eve') as mails`,
      [many.programId],
    )
    return rows[0]
  }
  await mailsToday(97)
  expect((await read(`${program}/bulk/invite?q=eve`))[1]).toContain('3 go out today, the others on the following days')
  await mailsToday(100)
  const invitation = await start('invite?q=eve')
  await finish(invitation)
  expect(await invited()).toEqual({ invited: 0, queued: 6, mails: 0 })
  await mailsToday(98)
  await sendQueuedInvitations(stack.db, { BASE_URL: stack.baseUrl, MAIL_INBOX: 'mails' }, Date.now() + 9000)
  await expect.poll(invited).toEqual({ invited: 2, queued: 4, mails: 2 })
  await finish(`${invitation}/undo`)
  expect((await read(invitation))[1]).toContain('4 of 6 partners are as they were before')
  expect(await invited()).toMatchObject({ invited: 2, queued: 0 })

  // A message reaches each partner with an account once, and can't be undone.
  const { userId: reader } = await createPerson(stack.db, env, { name: 'Ada', email: 'ada@example.com' })
  await tiePartner(stack.db, Number(kept[0]?.id), reader)
  expect((await read(`${program}/bulk/message?q=ada`))[1]).toMatch(/<button[^>]*>Send a message to 1 partner</)
  const message = await start('message?q=ada', { note: 'Summer rates start\r\non Monday.' })
  await finish(message)
  await finish(message)
  expect((await read(message))[1]).toMatch(/1 of 1 partner is notified\.(?!.*\/undo)/s)
  expect((await send(`${message}/undo`)).status).toBe(409)
  const { rows: messages } = await stack.sql.query(
    "select partner_id::text, payload->>'text' as text from outbox where program_id = $1 and kind = 'program_message'",
    [many.programId],
  )
  expect(messages).toEqual([{ partner_id: kept[0]?.id, text: 'Summer rates start\r\non Monday.' }])
  for (let n = 0; n < 4; n++) await start('message?q=ada', { note: 'Again' })
  const seen = await seenOn('message?q=ada')
  expect((await send(`${program}/bulk/message?q=ada`, { seen, note: 'Too many' })).status).toBe(429)

  expect((await read(`${program}/bulk/deactivate?status=lost`))[0]).toBe(400)
  expect((await read(`${program}/jobs`))[1].match(/(are as they were|is as it was) before/g)).toHaveLength(6)
  expect((await start('rate', { rate: '120' })).endsWith('/bulk/rate')).toBe(true)
  expect((await send(`${program}/bulk/move`, { to: 'none' })).status).toBe(400)

  // Approving and undoing repeatedly doesn't flood an applicant with mail.
  for (let n = 0; n < 3; n++) {
    const again = await start('approve?q=bob+1', { in_group: '' })
    await finish(again)
    await finish(`${again}/undo`)
  }
  await expect
    .poll(async () => {
      const { rows } = await stack.sql.query<{ decisions: number; mails: number }>(
        `select a.attempts as decisions, (select count(*)::integer from mails where recipient = 'bob1@example.com') as mails
        from sign_in_attempts a join applications p on a.key = 'decision on application ' || p.id where p.email = 'bob1@example.com'`,
      )
      return rows
    })
    .toEqual([{ decisions: 3, mails: 2 }])
})

test('the search of a program finds partners, codes, customers, sales and pages', async () => {
  const { rows } = await stack.sql.query<{ transaction_id: string; customer_key: string; customer: string }>(
    `select s.transaction_id, k.customer_key, k.id as customer from sales s join customers k on k.id = s.customer_id
    where s.program_id = $1 and k.customer_key is not null and not s.is_test limit 1`,
    [sandbox.programId],
  )
  const { transaction_id = '', customer_key = '', customer = '' } = rows[0] ?? {}
  const found = async (text: string) => {
    const html = mainOf(await get(`${base}/search?q=${encodeURIComponent(text)}`))
    return Array.from(html.slice(html.indexOf('data-results')).matchAll(/href="([^"]+)"/g), ([, href]) => href)
  }
  expect(await found(transaction_id)).toEqual([`${base}/sales/${encodeURIComponent(transaction_id)}`])
  expect(await found(customer_key)).toEqual([`${base}/customers/${customer}`])
  expect(await found('LOVELACE ada')).toEqual([expect.stringMatching(/\/partners\/\d+$/)])
  expect(await found('payout')).toEqual([`${base}/payouts`])
  expect(await found('no match')).toEqual([])
})

test('a missing page keeps the navigation of its program', async () => {
  const response = await fetch(`${stack.baseUrl}${base}/partners/999999999`, { headers: cookieOf(sandbox) })
  expect(response.status).toBe(404)
  expect(await response.text()).toContain(`href="${base}/commissions"`)
})

test("a partner's page shows their referrals and earnings, and edits the program's data about them", async () => {
  const { partnerId, code } = await addPartner(stack.db, {
    programId: sandbox.programId,
    name: 'Mona',
    email: null,
    code: null,
  })
  const page = `${base}/partners/${partnerId}`
  expect(await get(`${page}?tab=links`)).toContain(code)
  const { rows } = await stack.sql.query<{ partner_id: string }>(
    'select partner_id from commissions where program_id = $1 limit 1',
    [sandbox.programId],
  )
  const html = await get(`${base}/partners/${rows[0]?.partner_id}?tab=commissions`)
  expect(html.match(/<caption class="hidden">Their newest commissions<\/caption>/)).not.toBeNull()
  expect(html).toContain('€0.01')
  const typed = { name: 'Mona Lisa', email: 'Mona@example.com', payout_email: '' }
  const settings = `${page}?tab=settings`
  expect(await post(page, typed)).toEqual([303, settings])
  const changed = await get(settings)
  for (const text of ['Mona Lisa', 'mona@example.com']) expect(changed).toContain(text)
})

test("a partner's links are added, changed, disabled and enabled on the partner's page", async () => {
  const partner = `${base}/partners/${sandbox.partnerId}`
  const page = `${partner}?tab=links`
  expect(await post(`${partner}/links`, { page: 'https://elsewhere.example.org/', code: 'added' }, page)).toEqual([
    303,
    page,
  ])
  expect(await get(page)).not.toContain('<code>added</code>')
  expect(await post(`${partner}/links`, { page: '', code: 'added' }, page)).toEqual([303, page])
  const [, id] = /<code>added<.*?\/links\/(\d+)"/s.exec(await get(page)) ?? []
  expect(await post(`${partner}/links/${id}`, { page: 'https://shop.example.com/sale' }, page)).toEqual([303, page])
  expect(await get(page)).toContain('opens https://shop.example.com/sale')
  const isOff = async () => />Disabled</.test(await get(page))
  expect(await isOff()).toBe(false)
  expect(await post(`${partner}/links/${id}/disable`, {}, page)).toEqual([303, page])
  expect(await isOff()).toBe(true)
  expect(await post(`${partner}/links/${id}/enable`, {}, page)).toEqual([303, page])
  expect(await isOff()).toBe(false)
})

test("a partner's note is visible only to the program, and the log records that it changed", async () => {
  const page = `${base}/partners/${sandbox.partnerId}`
  expect(await post(`${page}/note`, { note: ' Called twice.\r\nPrefers <mail>. ' }, page)).toEqual([303, page])
  const shown = await get(page)
  expect(shown).toContain('Called twice.\nPrefers &lt;mail&gt;.</textarea>')
  expect(await get(`${page}?tab=activity`)).toContain('partner note changed')
  const cookie = `${sessionCookie}=${encodeURIComponent(sandbox.partnerToken)}`
  for (const path of ['/partner', '/partner/links', '/partner/commissions', '/partner/payouts']) {
    const response = await fetch(stack.baseUrl + path, { headers: { cookie } })
    expect([path, response.status, (await response.text()).includes('Called twice')]).toEqual([path, 200, false])
  }
  expect(await post(`${page}/note`, { note: 'x'.repeat(2001) }, page)).toEqual([303, page])
  expect(await post(`${page}/note`, { note: '' }, page)).toEqual([303, page])
  expect(await get(page)).not.toContain('Called twice')
})

test('commissions are filtered by creation date and pending review, on every page and in the file', async () => {
  const { rows } = await stack.sql.query<{ id: string }>(
    `with chosen as (select id, row_number() over (order by id) as n from sales
      where program_id = $1 and customer_id is not null and not is_test
        and not exists (select from commissions c where c.program_id = sales.program_id and c.sale_id = sales.id) limit 120)
    insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until, created_at, review_reason, credited_at)
    select program_id, 'sale', partner_id, customer_id, s.id, currency, 1, now(), timestamptz '2026-03-01' - (n / 60) * interval '1 hour',
      case when n % 2 = 0 then 'unverified_customer' end, case when n % 4 = 0 then now() end
    from sales s join chosen using (id) where program_id = $1 returning id`,
    [sandbox.programId],
  )
  expect(rows).toHaveLength(120)
  // Creates three commissions that the rules hold, three released ones, and a released one that only a browser reported.
  await stack.sql.query(
    `with looked as (
      select n, id from unnest($2::bigint[]) with ordinality c (id, n) where n % 2 = 1 and n < 12 or n = 2
    ),
    review as (
      insert into commission_reviews (program_id, commission_id, flags, decision, decided_at)
      select $1, id, '[]', case when n > 6 or n = 2 then 'released' end, case when n > 6 or n = 2 then now() end from looked
    )
    update commissions c set held_at = now() from looked l where c.program_id = $1 and c.id = l.id and l.n in (1, 3, 5)`,
    [sandbox.programId, rows.map(({ id }) => id)],
  )
  const ids = async (query: string) => {
    const [, ...lines] = (await get(`${base}/commissions.csv${query}`)).trimEnd().split('\r\n')
    return lines.map((line) => Number(line.split(',')[0]))
  }
  const found: string[] = []
  let path: string | undefined = `${base}/commissions?dateFrom=2026-02-28&dateTo=2026-02-28`
  while (path) {
    const html: string = await get(path)
    found.push(
      ...Array.from(
        html.matchAll(/name="row-(\d+)"|aria-label="Reject commission (\d+)/g),
        ([, one, two]) => two ?? one ?? '',
      ),
    )
    path = /href="([^"]+)" rel="next"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
  }
  expect(new Set(found).size).toBe(61)
  expect(await ids('?dateFrom=2026-02-28&dateTo=2026-02-28')).toHaveLength(61)
  expect(await ids('?dateFrom=2026-02-28&dateTo=2026-03-01')).toHaveLength(120)
  expect(await ids('?dateTo=2026-03-01&review=waiting')).toHaveLength(32)
  expect(await ids('?dateTo=2026-03-01&review=decided')).toHaveLength(34)
  expect(await get(`${base}/commissions?dateFrom=2026-03-02&dateTo=2026-03-01`)).toContain('No results')
})

const runsOn = async (query: string) =>
  Array.from((await get(`${base}/payout-runs${query}`)).matchAll(/>Run (\d+)/g), ([, id]) => id)

test('the search finds payout runs and due payouts by partner name', async () => {
  const { rows } = await stack.sql.query<{ id: string }>(
    'insert into payout_runs (program_id, request_id, payments) values ($1, gen_random_uuid(), 1), ($1, gen_random_uuid(), 0) returning id',
    [sandbox.programId],
  )
  await stack.sql.query(
    `insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, payout_run_id)
    select program_id, id, 'usd', 1, 1, 'in_run', $2 from partners where program_id = $1 and name = 'Zoe'`,
    [sandbox.programId, rows[0]?.id],
  )
  const [first, second] = rows.map(({ id }) => id)
  expect(await runsOn('')).toEqual([second, first])
  expect(await runsOn('?sort=oldest')).toEqual([first, second])
  expect(await runsOn('?sort=payments')).toEqual([first, second])
  expect(await runsOn('?q=zo')).toEqual([first])
  // The list shows the sums of each run, and the sums of all runs that it finds.
  const sums = (await get(`${base}/payout-runs?q=zo`)).match(/<strong>\$0\.01<\/strong> <span [^>]*>1 payment</g)
  expect(sums?.length).toBeGreaterThan(1)
})

const eventsPage = `/programs/${listing.programId}/events`
await fillEvents(stack.sql, listing.programId, 400)
const other = await addPartner(stack.db, { programId: listing.programId, name: 'Otto', email: null, code: 'otto' })
await stack.sql.query(
  `update affiliate_click_events e set link_id = l.id, geo_country = case when e.id % 3 = 0 then 'FR' else 'DE' end
  from referral_links l where e.program_id = $1 and not e.is_test and e.id % 2 = 0 and l.code = 'otto'`,
  [listing.programId],
)
await stack.sql.query('delete from daily_totals where program_id = $1', [listing.programId])
const uncounted = `insert into uncounted_clicks (program_id, link_id, clicked_at, event_id)
  select program_id, link_id, click_timestamp, id from affiliate_click_events where program_id = $1 and not is_test`

const timesOn = (html: string) =>
  Array.from(html.matchAll(/<time class="number" datetime="([^"]+)"/g), ([, at]) => at ?? '')

/** Collects the findings of `read` on all pages of a list, from the first page forward and from the last page back. */
async function readBothWays(first: string, read: (html: string) => string[]): Promise<[down: string[], up: string[]]> {
  const down: string[] = []
  const pages: string[][] = []
  let path: string | undefined = first
  let html = ''
  while (path) {
    html = await get(path)
    down.push(...read(html))
    path = /href="([^"]+)" rel="next"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
  }
  while (html) {
    pages.unshift(read(html))
    const newer: string | undefined = /href="([^"]+)" rel="prev"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
    html = newer ? await get(newer) : ''
  }
  return [down, pages.flat()]
}

const payeesOn = (html: string) => Array.from(html.matchAll(/<strong>(Payee \d+)</g), ([, name]) => name ?? '')

test("the books show the latest audit and only the program's own findings", async () => {
  const path = `/programs/${listing.programId}/books`
  expect(await get(path)).toContain('No audit yet')
  await stack.sql.query('insert into audits (started_at, duration_ms, rules) values (now(), 1500, 60)')
  expect(await get(path)).toMatch(/60 rules in 2 seconds[^]+Everything agrees/)
  for (const { programId } of [listing, sandbox])
    await stack.sql.query(
      "insert into audit_findings (program_id, rule, broken, subject, expected) values ($1, 'a sum is its rows', 3, $2, '5')",
      [programId, `row of ${programId}`],
    )
  const found = await get(path)
  expect(found).toMatch(new RegExp(`Don’t pay[^]+a sum is its rows[^]+row of ${listing.programId}`))
  expect(found).not.toContain(`row of ${sandbox.programId}`)
  expect(await get(`${path}.csv`)).toBe(
    `rule,row,found,expected,broken_rows\r\na sum is its rows,row of ${listing.programId},,5,3\r\n`,
  )
  expect(await get(`/programs/${sandbox.programId}`)).toContain('1 rule of the books is broken')
  await stack.sql.query('delete from audit_findings')
})

test("a run's payments and exclusions are paged and searched, and their sums include all", async () => {
  const { rows } = await stack.sql.query<{ id: string }>(
    'insert into payout_runs (program_id, request_id, payments) values ($1, gen_random_uuid(), 70) returning id',
    [listing.programId],
  )
  const run = `/programs/${listing.programId}/payout-runs/${rows[0]?.id}`
  await stack.sql.query(
    `with partner as (
      insert into partners (program_id, name) select $1, 'Payee ' || lpad(n::text, 3, '0') from generate_series(1, 130) n order by n
      returning id, name
    ),
    paid as (
      insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, payout_run_id)
      select $1, id, 'usd', 100, 100, 'in_run', $2 from partner where name <= 'Payee 070' order by name
    )
    insert into payout_run_exclusions (program_id, payout_run_id, partner_id, currency, payable_cents, reason)
    select $1, $2, id, 'usd', 5, 'below_minimum' from partner where name > 'Payee 070'`,
    [listing.programId, rows[0]?.id],
  )
  const payees = Array.from({ length: 130 }, (_, index) => `Payee ${String(index + 1).padStart(3, '0')}`)
  expect(await readBothWays(run, payeesOn)).toEqual([payees.slice(0, 70), payees.slice(0, 70)])
  expect(await readBothWays(`${run}?part=excluded`, payeesOn)).toEqual([payees.slice(70), payees.slice(70)])
  expect(payeesOn(await get(`${run}?q=ee+007`))).toEqual(['Payee 007'])
  expect(payeesOn(await get(`${run}?part=excluded&q=ee+107`))).toEqual(['Payee 107'])
  for (const page of [run, `${run}?q=nobody`, `${run}?part=excluded&before=x`]) {
    const html = await get(page)
    for (const text of ['Mark $70.00 as paid', 'Payments (70)', 'Excluded (60)', 'PayPal file, USD']) {
      expect(html).toContain(text)
    }
  }
  const transfer = { amount_cents: '7000', reference: 'SEPA 7', paid_on: '2026-11-20' }
  const response = await fetch(`${stack.baseUrl}${run}/confirm`, {
    method: 'POST',
    headers: {
      cookie: `${sessionCookie}=${encodeURIComponent(listing.dashboardToken)}`,
      origin: stack.baseUrl,
      referer: stack.baseUrl + run,
    },
    body: new URLSearchParams(transfer),
  })
  const page = await response.text()
  for (const text of ['Mark 70 payments as paid?', '$70.00', 'SEPA 7', 'Nov 20, 2026', `action="${run}/pay"`])
    expect(page).toContain(text)
  for (const [name, value] of Object.entries(transfer)) expect(page).toContain(`name="${name}" value="${value}"`)
  await stack.sql.query(
    `with connection as (
      insert into payout_connections (id, program_id, provider, livemode) values ('pay_' || repeat('b', 43), $1, 'paypal', false) returning id
    ),
    batch as (
      insert into payout_batches (program_id, payout_run_id, connection_id, currency) select $1, $2, id, 'usd' from connection returning id
    ),
    sent as (
      update payouts w set status = case p.name when 'Payee 001' then 'sent' else 'unclaimed' end, sent_at = now()
      from partners p where w.payout_run_id = $2 and p.id = w.partner_id and p.name in ('Payee 001', 'Payee 002') returning w.id, w.status
    )
    insert into payout_items (program_id, payout_id, batch_id, recipient, outcome, provider_status, provider_reason, claim_until)
    select $1, sent.id, batch.id, 'payee@example.com', case status when 'sent' then 'held' else status end, 'ONHOLD', 'Under review', '2026-12-20'
    from sent, batch`,
    [listing.programId, rows[0]?.id],
  )
  const waiting = (await get(run)).match(
    /On hold at the payment provider|Under review|Returned on .{12} if nobody claims it/g,
  )
  expect(waiting).toEqual([
    'On hold at the payment provider',
    'Under review',
    'Returned on Dec 20, 2026 if nobody claims it',
  ])
  // Opening the confirmation page doesn't pay anything. After the run is paid, its file is only for the records.
  const { rowCount } = await stack.sql.query(
    `update payouts set status = 'paid', decided_at = now(), reference = 'SEPA 7', paid_on = now(), payout_address = 'payee@example.com'
    where payout_run_id = $1 and status = 'in_run'`,
    [rows[0]?.id],
  )
  expect(rowCount).toBe(68)
  const query = 'layout=wise&currency=usd&part=1'
  // A browser sends `none` for a link in a mail.
  for (const site of ['cross-site', 'none']) {
    const fromElsewhere = await fetch(new URL(`${run}/file.csv?${query}`, stack.baseUrl), {
      headers: { ...cookieOf(listing), 'sec-fetch-site': site },
    })
    expect(fromElsewhere.status).toBe(403)
  }
  await stack.sql.query("update payout_runs set paid_at = now(), paid_on = now(), reference = 'SEPA 7' where id = $1", [
    rows[0]?.id,
  ])
  expect(await get(run)).toContain('Payment files, already paid')
  const asked = await get(`${run}/file.csv?${query}`)
  expect(asked).toContain(`Payout run ${rows[0]?.id} is already paid`)
  expect(asked).not.toContain('recipientEmail')
  const record = await get(`${run}/file.csv?${query}&already_paid=yes`)
  expect(record.match(/payee@example.com/g)).toHaveLength(68)
})

const isOtto = `link_id = (select id from referral_links where code = 'otto')`
const choices: [query: string, where: string][] = [
  ['partner=otto', isOtto],
  [`partner=${other.partnerId}&country=fr`, `${isOtto} and geo_country = 'FR'`],
  ['code=OTTO&dateFrom=2026-11-01', `${isOtto} and click_timestamp >= '2026-11-01'`],
  ['country=FR', `geo_country = 'FR'`],
  ['country=DE&dateTo=2026-10-31', `geo_country = 'DE' and click_timestamp < '2026-11-01'`],
  ['partner=nobody', 'false'],
  ['code=nothing', 'false'],
]

test.each(['before counting', 'after counting'])(
  'the list filters clicks by partner, link and country on any page, in both directions, %s',
  { timeout: 120_000 },
  async (when) => {
    if (when.startsWith('before')) await stack.sql.query(uncounted, [listing.programId])
    else while ((await countClicks(stack.db, 1000)) > 0);
    for (const [query, where] of choices) {
      const { rows } = await stack.sql.query<{ at: string }>(
        `select to_char(click_timestamp at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at from affiliate_click_events
        where program_id = $1 and not is_test and ${where} order by click_timestamp desc, id desc`,
        [listing.programId],
      )
      const times = rows.map(({ at }) => at)
      expect([query, ...(await readBothWays(`${eventsPage}?eventType=click&${query}`, timesOn))]).toEqual([
        query,
        times,
        times,
      ])
    }
  },
)

test('paging lists all event types in one order, in both directions', async () => {
  const { rows } = await stack.sql.query<{ count: string }>(
    `select (select count(*) from affiliate_click_events where program_id = $1 and not is_test)
      + (select count(*) from affiliate_lead_events where program_id = $1 and not is_test)
      + (select count(*) from sales where program_id = $1 and not is_test and customer_id is not null) as count`,
    [listing.programId],
  )
  const [down, up] = await readBothWays(eventsPage, timesOn)
  expect(down).toHaveLength(Number(rows[0]?.count))
  expect(up).toEqual(down)
})

const countOf = async (query: string) => (await readBothWays(`${eventsPage}?${query}`, timesOn))[0].length

test('filters and paging find clicks of a customer that are months apart', async () => {
  const { rows } = await stack.sql.query<{ id: string; click_id: string; partner_id: string }>(
    `with their as (
      update affiliate_click_events e set customer_id = c.id from (
        select id from customers where program_id = $1 order by id desc limit 1
      ) c where e.program_id = $1 and not e.is_test and e.id % 3 = 0 returning c.id, e.click_timestamp
    ),
    bounds as (select id, min(click_timestamp) as first, max(click_timestamp) as last from their group by id)
    update customers c set last_click_at = b.last, created_at = b.first from bounds b where c.program_id = $1 and c.id = b.id
    returning c.id, c.click_id, c.partner_id`,
    [listing.programId],
  )
  const [long] = rows
  const clicksWhere = async (where: string) => {
    const { rows: found } = await stack.sql.query<{ at: string }>(
      `select to_char(click_timestamp at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at from affiliate_click_events
      where program_id = $1 and not is_test and customer_id = $2 and ${where} order by click_timestamp desc, id desc`,
      [listing.programId, long?.id],
    )
    return found.map(({ at }) => at)
  }
  for (const [query, where] of choices) {
    const times = await clicksWhere(where)
    const read = await readBothWays(`${eventsPage}?eventType=click&q=${long?.click_id}&${query}`, timesOn)
    expect([query, ...read]).toEqual([query, times, times])
  }
  expect(await clicksWhere(isOtto)).not.toEqual([])
})

test('the search finds customers by key and click id, sales by transaction id, and neither by e-mail address', async () => {
  const { rows } = await stack.sql.query<{ id: string; click_id: string; customer_key: string; events: string }>(
    `select id, click_id, customer_key, (select count(*) from affiliate_lead_events e where e.program_id = c.program_id and e.customer_id = c.id
      and not e.is_test) as events from customers c where program_id = $1 order by id limit 1`,
    [listing.programId],
  )
  const [customer] = rows
  expect(await countOf(`eventType=lead&q=${customer?.customer_key}`)).toBe(Number(customer?.events))
  expect(await countOf(`eventType=lead&q=${customer?.click_id}`)).toBe(Number(customer?.events))
  expect(await countOf('q=401')).toBe(0)
  expect(await countOf('q=11')).toBe(1)
  const html = await get(`${eventsPage}?q=11`)
  expect(html).toContain(`/programs/${listing.programId}/sales/11`)
  expect(html).toMatch(/\/customers\/\d+/)
  expect(await get(`${eventsPage}?q=somebody@example.com`)).toContain('No results')
})

test("a customer's timeline runs from the first click to the payout, and only the program sees it", async () => {
  const { programId } = listing
  const { rows } = await stack.sql.query<{
    customer_id: string
    click_id: string
    sale_id: string
    partner_id: string
  }>(
    `select s.partner_id, s.customer_id, c.click_id, s.id as sale_id from sales s join customers c using (program_id)
    where s.program_id = $1 and s.transaction_id = '11' and c.id = s.customer_id and not s.is_test`,
    [programId],
  )
  const [sale] = rows
  await stack.sql.query(
    `with payout as (
      insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, decided_at, reference, paid_on)
      select program_id, partner_id, 'eur', 2, 2, 'paid', now(), 'transfer 77', now() from sales where program_id = $1 and id = $2
      returning id)
    insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until, credited_at, paid_at, payout_id)
    select program_id, 'sale', partner_id, customer_id, s.id, 'eur', 2, '2026-11-10', '2026-11-10', now(), payout.id
    from sales s, payout where program_id = $1 and s.id = $2`,
    [programId, sale?.sale_id],
  )
  await stack.sql.query(
    `insert into refunds (program_id, sale_id, refund_key, applied_cents, reason, returned_at) values ($1, $2, 'id:1', 0, 'chargeback', null)`,
    [programId, sale?.sale_id],
  )
  const page = await get(`/programs/${programId}/customers/${sale?.customer_id}`)
  for (const text of [
    '>click<',
    '>lead<',
    '>sale<',
    '>commission<',
    '>approved<',
    '>paid<',
    '>chargeback<',
    'transfer 77',
    '+€0.02',
  ])
    expect(page).toContain(text)
  expect(mainOf(await get(`/programs/${programId}/customers/${sale?.click_id}`))).toBe(mainOf(page))
  const why = await get(`/programs/${programId}/sales/11`)
  for (const [address, text] of [
    [`customers/${sale?.click_id}`, 'Timeline of the customer'],
    [`partners/${sale?.partner_id}`, 'Partner '],
    [`commissions?q=11`, 'Commission '],
    [`payouts?partner=${sale?.partner_id}&amp;status=paid`, 'Payout '],
  ] as const)
    expect(why).toMatch(new RegExp(`<a href="/programs/${programId}/${address.replace('?', '\\?')}[^"]*">${text}`))
  const partner = await fetch(`${stack.baseUrl}/partner/sales/${programId}/11`, {
    headers: { cookie: `${sessionCookie}=${encodeURIComponent(listing.partnerToken)}` },
  })
  expect([partner.status, (await partner.text()).includes('/customers/')]).toEqual([200, false])
})

test('exports contain every row, no matter how many exist', async () => {
  const large = await createSandbox(stack.db, env)
  const { rows } = await stack.sql.query<{ id: number }>(
    `insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, decided_at)
    select $1, $2, 'usd', n, n, 'refused', now() from generate_series(1, 10050) n returning id`,
    [large.programId, large.partnerId],
  )
  const idsIn = async (path: string, token: string) => {
    const cookie = `${sessionCookie}=${encodeURIComponent(token)}`
    const [head, ...lines] = (await (await fetch(stack.baseUrl + path, { headers: { cookie } })).text())
      .trimEnd()
      .split('\r\n')
    expect(head).toMatch(/^id,/)
    return lines.map((line) => line.split(',')[0])
  }
  const newestFirst = rows.map(({ id }) => String(id)).toReversed()
  expect(await idsIn(`/programs/${large.programId}/payouts.csv`, large.dashboardToken)).toEqual(newestFirst)
  expect(await idsIn('/partner/payouts.csv', large.partnerToken)).toEqual(newestFirst)
})

test('the files of payouts, runs and statements name the run and the payout of each amount', async () => {
  const paying = await createSandbox(stack.db, env)
  const { programId, partnerId } = paying
  const adjustment = { partnerId, currency: 'jpy', amountCents: 1500, note: 'Bonus' }
  await createAdjustment(stack.db, programId, adjustment, crypto.randomUUID(), [])
  const runId = (await createPayoutRun(stack.db, programId, crypto.randomUUID())) ?? 0
  await payPayoutRun(stack.db, programId, runId, { reference: 'SEPA 9', paid_on: new Date(today) })
  const rowsOf = async (path: string, token = paying.dashboardToken) => {
    const cookie = `${sessionCookie}=${encodeURIComponent(token)}`
    return parseCsv(await (await fetch(stack.baseUrl + path, { headers: { cookie } })).text())
  }
  const [payout] = await rowsOf(`/programs/${programId}/payouts.csv`)
  const inRun = { payout_run_id: String(runId), partner_id: String(partnerId), currency: 'jpy' }
  const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(payout).toMatchObject({ ...inRun, created: at, decided: at, amount: '1500', paid_on: today })
  expect(await rowsOf(`/programs/${programId}/payout-runs/${runId}/lines.csv`)).toMatchObject([
    { ...inRun, payout_id: payout?.['id'], cause: 'adjusted', note: 'Bonus', amount: '1500', posted: at },
  ])
  const entries = [
    { cause: 'payout_paid', payout_id: payout?.['id'], amount: '-1500', balance: '0', posted: at },
    { cause: 'adjusted', payout_id: '', amount: '1500', balance: '1500', posted: at },
  ]
  const ofPartner = `/programs/${programId}/partners/${partnerId}/statement.csv?currency=jpy`
  expect(await rowsOf(ofPartner)).toMatchObject(entries)
  const ofSelf = `/partner/payouts/${programId}/statement.csv?currency=jpy`
  expect(await rowsOf(ofSelf, paying.partnerToken)).toMatchObject(entries)

  // A requested payout is only in one new file. The page then offers that file again.
  await createAdjustment(stack.db, programId, { ...adjustment, amountCents: 700 }, crypto.randomUUID(), [])
  const ask = { programId, partnerId, currency: 'jpy', amountCents: 700, requestId: crypto.randomUUID() }
  const reference = `payout-${await askPayout(stack.db, ask)}`
  const files = async () => {
    const cookie = `${sessionCookie}=${encodeURIComponent(paying.dashboardToken)}`
    const html = await (await fetch(`${stack.baseUrl}/programs/${programId}/payouts`, { headers: { cookie } })).text()
    return Array.from(
      html.matchAll(/href="([^"]+csv\?layout=csv[^"]*)"[^>]*>([^<]+)/g),
      ([, href = '', text = '']) => ({
        href: href.replaceAll('&amp;', '&'),
        text,
      }),
    )
  }
  const [fresh, ...others] = await files()
  expect([fresh?.text, others]).toEqual(['CSV file, JPY', []])
  const lines = await rowsOf(fresh?.href ?? '')
  expect(lines).toMatchObject([{ reference, amount: '700' }])
  const [again, ...more] = await files()
  expect([again?.text, more]).toEqual([expect.stringMatching(/^CSV file 1, JPY: sent .+, 1 payout$/), []])
  expect(await rowsOf(again?.href ?? '')).toEqual(lines)
})

/** The partners of a list in order. */
const orderOf = (list: string) => Array.from(list.matchAll(/<strong>([A-Z][\w ]+)<\/strong><\/a>/g), ([, name]) => name)

test('the due amount is shown as three sums that add up, and the overview counts the same payments', async () => {
  const due = await createSandbox(stack.db, env)
  await stack.sql.query(
    "insert into minimum_payouts (program_id, currency, minimum_payout_cents) values ($1, 'usd', 1000)",
    [due.programId],
  )
  for (const [name, email, cents] of [
    ['Ready', 'ready@example.com', 5000],
    ['Also ready', 'also@example.com', 2500],
    ['No address', null, 4000],
    ['Small', 'small@example.com', 300],
  ] as const) {
    const { rows } = await stack.sql.query<{ id: number }>(
      'insert into partners (program_id, name, email) values ($1, $2, $3) returning id',
      [due.programId, name, email],
    )
    const adjustment = { partnerId: Number(rows[0]?.id), currency: 'usd', amountCents: cents, note: 'bonus' }
    await createAdjustment(stack.db, due.programId, adjustment, crypto.randomUUID(), [])
  }
  await stack.sql.query(
    `insert into affiliate_click_events (program_id, click_timestamp, id, link_id, affiliate_url)
    select $1, now(), 1, id, 'https://shop.example.com/' from referral_links where program_id = $1 limit 1`,
    [due.programId],
  )
  const cookie = `${sessionCookie}=${encodeURIComponent(due.dashboardToken)}`
  const page = async (path: string) =>
    await (await fetch(`${stack.baseUrl}/programs/${due.programId}${path}`, { headers: { cookie } })).text()
  const html = await page('/payouts/due')
  const figures = Array.from(
    html.matchAll(/<dt>([^<]+)<\/dt><dd class="value">([^<]+)<\/dd><dd class="trend">([^<]+)</g),
    ([, ...figure]) => figure,
  )
  expect(figures).toEqual([
    ['Ready', '$75.00', '2 payments'],
    ['Missing or new payout address', '$40.00', '1 payment'],
    ['Below the minimum', '$3.00', '1 payment'],
  ])
  expect(html).toContain('<strong>$118.00</strong>')
  expect(await page('')).toContain('2 payouts are due')

  expect(orderOf(html)).toEqual(['Also ready', 'No address', 'Ready', 'Small'])
  expect(orderOf(await page('/payouts/due?sort=amount'))).toEqual(['Ready', 'No address', 'Also ready', 'Small'])
  expect(orderOf(await page('/payouts/due?q=ready&sort=amount'))).toEqual(['Ready', 'Also ready'])

  expect(html).toContain('1 partner has neither an account nor an e-mail address')
  const { userId } = await createPerson(stack.db, env, { name: 'No address', email: 'no-address@example.com' })
  await stack.sql.query("update partners set user_id = $1 where program_id = $2 and name = 'No address'", [
    userId,
    due.programId,
  ])
  expect(await page('/payouts/due')).toContain('Ask 1 partner for details')
  const headers = { cookie, origin: stack.baseUrl }
  for (let time = 0; time < 2; time++)
    await fetch(`${stack.baseUrl}/programs/${due.programId}/payouts/ask`, {
      method: 'POST',
      headers,
      redirect: 'manual',
    })
  const { rows } = await stack.sql.query(
    "select payload->>'amount_cents' as cents from outbox where program_id = $1 and kind = 'payout_address_needed'",
    [due.programId],
  )
  expect(rows).toEqual([{ cents: '4000' }])
})
