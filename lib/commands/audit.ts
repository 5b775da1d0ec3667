import pg from 'pg'
import color from 'picocolors'
import { readState } from '../local/state.ts'

/** One thing that is not as it should be. `found` and `expected` are as the check's query wrote them. */
export interface Finding {
  program_id: string
  subject: string
  found: string | null
  expected: string | null
}

export interface CheckResult {
  check: string
  /** How many things are off; `findings` holds the first twenty. */
  total: number
  findings: Finding[]
  duration_ms: number
}

const findingsShown = 20

/** The program that the audit is of, $1, or every program where that is null. */
const of = (column: string) => `($1::bigint is null or ${column} = $1)`

/** A day, or an hour of it where `hour` is not 0. */
const dayOrHour = `concat(day, case when hour > 0 then format(' %s:00', hour - 1) end)`

/**
 * What must be true of the data, each as a query for what contradicts it: program_id, subject, found, expected. They read whole
 * tables once, not a row at a time.
 */
const checks: Record<string, string> = {
  'a balance is the sum of its entries, and its last entry says so': `
    select program_id, format('partner %s %s', partner_id, currency) as subject,
      format('balance %s, %s entries', b.balance_cents, b.entry_count) as found,
      format('balance %s, %s entries, last %s after %s', e.sum, e.count, e.last, e.after) as expected
    from (select * from balances where ${of('program_id')}) b
    full join (
      select program_id, partner_id, currency, sum(amount_cents), count(*), max(entry_number) as last,
        (array_agg(balance_after_cents order by entry_number desc))[1] as after
      from balance_entries where ${of('program_id')} group by program_id, partner_id, currency
    ) e using (program_id, partner_id, currency)
    where (b.balance_cents, b.entry_count) is distinct from (coalesce(e.sum, 0), coalesce(e.count, 0))
      or e.last <> e.count or e.after <> e.sum`,

  'each entry begins where the one before it ended': `
    select program_id, format('partner %s %s entry %s', partner_id, currency, entry_number) as subject,
      format('%s %s = %s', balance_before_cents, amount_cents, balance_after_cents) as found, 'begins with ' || ended as expected
    from (
      select *, coalesce(lag(balance_after_cents) over (partition by program_id, partner_id, currency order by entry_number), 0) as ended
      from balance_entries where ${of('program_id')}
    ) e
    where balance_before_cents <> ended or balance_before_cents + amount_cents <> balance_after_cents`,

  'a credited commission has put into the balance what is left of it, another one nothing': `
    select c.program_id, 'commission ' || c.id as subject, format('%s in %s entries, %s of them credits', e.sum, e.count, e.credits) as found,
      case when c.credited_at is null then 'none' else format('%s with one credit', c.amount_cents - c.reversed_cents) end as expected
    from commissions c
    left join (
      select program_id, commission_id, sum(amount_cents), count(*), count(*) filter (where cause = 'commission_credited') as credits
      from balance_entries where commission_id is not null and ${of('program_id')} group by program_id, commission_id
    ) e on e.program_id = c.program_id and e.commission_id = c.id
    where ${of('c.program_id')} and case when c.credited_at is null then e.count is not null
      else (e.sum, e.credits) is distinct from (c.amount_cents - c.reversed_cents, 1) end`,

  'a commission is reversed by floor(commission * refunded / sale), a rejected one fully': `
    select c.program_id, 'commission ' || c.id as subject, c.reversal || ' ' || c.reversed_cents as found, x.reversal || ' ' || x.reversed as expected
    from commissions c
    left join sales s on s.program_id = c.program_id and s.id = c.sale_id
    cross join lateral (
      select
        case
          when c.rejected_at is not null then c.amount_cents
          when s.id is null then 0
          else div(c.amount_cents::numeric * s.refunded_cents, s.amount_cents)
        end as reversed,
        case
          when c.rejected_at is not null or s.refunded_cents = s.amount_cents then 'full'
          when s.refunded_cents > 0 then 'partial'
          else 'none'
        end as reversal
    ) x
    where ${of('c.program_id')} and (c.reversed_cents <> x.reversed or c.reversal <> x.reversal or c.reversed_cents > c.amount_cents)`,

  'what is refunded of a sale is the sum of its refunds that stand, and no more than the sale': `
    select s.program_id, 'sale ' || s.id as subject, s.refunded_cents::text as found, format('%s of %s', coalesce(r.sum, 0), s.amount_cents) as expected
    from sales s
    left join (
      select program_id, sale_id, sum(applied_cents) from refunds where returned_at is null and ${of('program_id')} group by program_id, sale_id
    ) r on r.program_id = s.program_id and r.sale_id = s.id
    where ${of('s.program_id')} and (s.refunded_cents <> coalesce(r.sum, 0) or s.refunded_cents > s.amount_cents)`,

  "a commission's status follows from its facts": `
    select program_id, 'commission ' || id as subject, status as found, x.expected
    from commissions
    cross join lateral (
      select case
        when rejected_at is not null or reversal = 'full' then 'reversed'
        when reversal = 'partial' then 'refunded'
        when paid_at is not null then 'paid'
        when credited_at is not null then 'approved'
        else 'pending'
      end as expected
    ) x
    where ${of('program_id')} and status <> x.expected`,

  'a sale commission has the partner, customer and currency of its live sale and is no more than its base': `
    select c.program_id, 'commission ' || c.id as subject,
      format('partner %s customer %s %s %s', c.partner_id, c.customer_id, c.amount_cents, c.currency) as found,
      format('partner %s customer %s up to %s %s%s', s.partner_id, s.customer_id, s.commission_base_cents, s.currency,
        case when s.is_test then ', no test sale' end) as expected
    from commissions c join sales s on s.program_id = c.program_id and s.id = c.sale_id
    where ${of('c.program_id')}
      and ((c.partner_id, c.customer_id, c.currency) is distinct from (s.partner_id, s.customer_id, s.currency)
        or c.amount_cents > s.commission_base_cents or s.is_test)`,

  'a lead commission belongs to a settled lead': `
    select c.program_id, 'commission ' || c.id as subject, 'customer ' || c.customer_id as found, 'its lead settled' as expected
    from commissions c join customers u on u.program_id = c.program_id and u.id = c.customer_id
    where ${of('c.program_id')} and c.kind = 'lead' and (u.signup_date is null or u.partner_id <> c.partner_id)`,

  'a paid withdrawal has its entry, another one none': `
    select w.program_id, 'withdrawal ' || w.id as subject, format('%s, entries %s', w.status, e.sum) as found,
      case w.status when 'paid' then 'entries ' || -w.amount_cents else 'no entry' end as expected
    from withdrawals w
    left join (
      select program_id, withdrawal_id, sum(amount_cents) from balance_entries
      where withdrawal_id is not null and ${of('program_id')} group by program_id, withdrawal_id
    ) e on e.program_id = w.program_id and e.withdrawal_id = w.id
    where ${of('w.program_id')} and e.sum is distinct from case w.status when 'paid' then -w.amount_cents end`,

  'open withdrawals fit into the balance': `
    select w.program_id, format('partner %s %s', w.partner_id, w.currency) as subject, sum(w.amount_cents) || ' asked' as found,
      'up to ' || greatest(max(b.balance_cents), 0) as expected
    from withdrawals w left join balances b using (program_id, partner_id, currency)
    where w.status = 'requested' and ${of('w.program_id')}
    group by w.program_id, w.partner_id, w.currency
    having sum(w.amount_cents) > coalesce(greatest(max(b.balance_cents), 0), 0)`,

  'a reduced withdrawal was told in full': `
    select w.program_id, 'withdrawal ' || w.id as subject, format('told of %s', coalesce(o.sum, 0)) as found,
      'reduced by ' || w.requested_cents - w.amount_cents as expected
    from withdrawals w
    left join (
      select program_id, (payload->>'withdrawal_id')::bigint as id, sum((payload->>'reduced_by_cents')::bigint) from outbox
      where kind = 'withdrawal_reduced' and ${of('program_id')} group by 1, 2
    ) o on o.program_id = w.program_id and o.id = w.id
    where ${of('w.program_id')} and w.requested_cents - w.amount_cents <> coalesce(o.sum, 0)`,

  'a payment pays what was credited before it, from the oldest on, and leaves the newest': `
    with entry as (
      select e.*, credit.entry_number as credit_number, payment.entry_number as paid_number
      from balance_entries e
      join commissions c on c.program_id = e.program_id and c.id = e.commission_id
      join balance_entries credit on credit.program_id = c.program_id and credit.commission_id = c.id and credit.cause = 'commission_credited'
      left join balance_entries payment on payment.program_id = c.program_id and payment.withdrawal_id = c.withdrawal_id
      where e.commission_id is not null and ${of('e.program_id')}
    ),
    held as (
      select p.program_id, p.withdrawal_id, p.balance_after_cents, e.commission_id, e.credit_number,
        e.paid_number is not distinct from p.entry_number as paid_by_it, sum(e.amount_cents) as left_cents
      from balance_entries p
      join entry e on e.program_id = p.program_id and e.partner_id = p.partner_id and e.currency = p.currency
        and e.entry_number < p.entry_number and (e.paid_number is null or e.paid_number >= p.entry_number)
      where p.cause = 'withdrawal_paid' and ${of('p.program_id')}
      group by p.program_id, p.withdrawal_id, p.balance_after_cents, e.commission_id, e.credit_number, paid_by_it
    ),
    due as (
      select *, coalesce(sum(left_cents) over (
        partition by program_id, withdrawal_id order by credit_number desc rows between unbounded preceding and 1 preceding), 0)
        >= balance_after_cents as is_due
      from held where left_cents > 0
    )
    select program_id, format('commission %s, withdrawal %s', commission_id, withdrawal_id) as subject,
      case when paid_by_it then 'paid by it' else 'not paid by it' end as found,
      case when is_due then 'paid by it' else 'not paid by it' end as expected
    from due where paid_by_it <> is_due`,

  'a paid commission was paid when its withdrawal was, after it was credited': `
    select c.program_id, 'commission ' || c.id as subject, format('paid at %s', c.paid_at) as found,
      format('withdrawal %s %s at %s', w.id, w.status, w.decided_at) as expected
    from commissions c left join withdrawals w on w.program_id = c.program_id and w.id = c.withdrawal_id
    where ${of('c.program_id')} and c.paid_at is not null
      and (w.status, w.decided_at, w.partner_id, w.currency::text) is distinct from ('paid', c.paid_at, c.partner_id, c.currency::text)`,

  'every refund of a commissioned sale was told to the partner, with what it reversed': `
    select r.program_id, 'refund ' || r.id as subject, format('%s %s', o.kind, o.payload->>'amount_cents') as found,
      'told ' || r.deduction_cents as expected
    from refunds r
    join commissions c on c.program_id = r.program_id and c.sale_id = r.sale_id
    left join outbox o on o.program_id = r.program_id and o.cause = 'refund:' || r.id and o.audience = 'partner'
      and o.kind in ('commission_reversed', 'commission_refunded')
    where ${of('r.program_id')} and case
      when o.id is null then r.deduction_cents > 0 or (c.rejected_at is null and r.applied_cents > 0)
      else (o.payload->>'amount_cents')::bigint <> r.deduction_cents or o.partner_id <> c.partner_id end`,

  'every rejection was told to the partner': `
    select c.program_id, 'commission ' || c.id as subject, 'not told' as found, 'told' as expected
    from commissions c
    where ${of('c.program_id')} and c.rejected_at is not null and not exists (
      select from outbox o where o.program_id = c.program_id and o.kind = 'commission_reversed' and o.audience = 'partner'
        and o.cause = 'rejection:' || c.id and o.partner_id = c.partner_id)`,

  'every deduction of a paid commission warned the advertiser': `
    select e.program_id, format('commission %s entry %s', e.commission_id, e.entry_number) as subject, 'not told' as found, 'told' as expected
    from balance_entries e
    join commissions c on c.program_id = e.program_id and c.id = e.commission_id
    join balance_entries payment on payment.program_id = c.program_id and payment.withdrawal_id = c.withdrawal_id
    where ${of('e.program_id')} and e.cause = 'commission_reversed' and e.entry_number > payment.entry_number and not exists (
      select from outbox o where o.program_id = e.program_id and o.kind = 'paid_commission_reversed' and o.audience = 'advertiser'
        and o.cause = case when e.refund_id is null then 'rejection:' || e.commission_id else 'refund:' || e.refund_id end)`,

  'an outbox row is delivered when its notification exists, and says the same': `
    select coalesce(o.program_id, n.program_id) as program_id, 'outbox ' || coalesce(o.id, n.id) as subject,
      case when n.id is null then 'no notification' else 'a notification' end as found,
      case when o.id is null then 'an outbox row' when o.delivered_at is null then 'none yet' else 'the notification of what it says' end as expected
    from (select * from outbox where ${of('program_id')}) o
    full join (select * from notifications where ${of('program_id')}) n on n.program_id = o.program_id and n.id = o.id
    where (o.delivered_at is null) <> (n.id is null)
      or (n.kind, n.audience, n.partner_id, n.payload) is distinct from (o.kind, o.audience, o.partner_id, o.payload)
        and o.delivered_at is not null`,

  'the clicks of a link are its click events': `
    select program_id, 'link ' || link_id as subject, format('%s, last %s', c.clicks, c.last) as found,
      format('%s, last %s', e.clicks, e.last) as expected
    from (
      select program_id, link_id, clicks, last_clicked_at as last from link_click_counts where ${of('program_id')}
    ) c
    full join (
      select program_id, link_id, count(*) as clicks, max(click_timestamp) as last from affiliate_click_events
      where not is_test and ${of('program_id')} group by program_id, link_id
    ) e using (program_id, link_id)
    where (c.clicks, c.last) is distinct from (e.clicks::numeric, e.last)`,

  "a day's clicks, leads and conversions, whole and by the hour, are its rows": `
    select program_id, ${dayOrHour} as subject, format('%s clicks, %s leads, %s conversions', t.clicks, t.leads, t.conversions) as found,
      format('%s clicks, %s leads, %s conversions', e.clicks, e.leads, e.conversions) as expected
    from (
      select program_id, day, hour, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions
      from (
        select program_id, day, 0 as hour, clicks, leads, conversions from daily_totals
        union all
        select program_id, day, slot / 64, clicks, leads, conversions from daily_totals where slot > 0
        union all
        select program_id, day, h.hour, h.clicks, h.leads, h.conversions from daily_totals
        cross join unnest(clicks_by_hour, leads_by_hour, conversions_by_hour) with ordinality as h (clicks, leads, conversions, hour)
        union all
        select program_id, utc_day(clicked_at), hour, 1, 0, 0 from uncounted_clicks
        cross join lateral (values (0), (hour_of_day(clicked_at))) as h (hour)
      ) part
      where ${of('program_id')} group by program_id, day, hour
    ) t
    full join (
      select program_id, day, coalesce(hour, 0) as hour, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions
      from (
        select program_id, utc_day(click_timestamp) as day, hour_of_day(click_timestamp) as hour, count(*) as clicks, 0 as leads,
          0 as conversions
        from affiliate_click_events where not is_test and ${of('program_id')} group by 1, 2, 3
        union all
        select program_id, utc_day(signup_date), hour_of_day(signup_date), 0, count(*), 0 from customers
        where signup_date is not null and customer_status in ('lead', 'conversion') and ${of('program_id')} group by 1, 2, 3
        union all
        select program_id, utc_day(first_purchase_date), hour_of_day(first_purchase_date), 0, 0, count(*) from customers
        where first_purchase_date is not null and customer_status = 'conversion' and ${of('program_id')} group by 1, 2, 3
      ) part
      group by program_id, day, grouping sets ((), (hour))
    ) e using (program_id, day, hour)
    where (coalesce(t.clicks, 0), coalesce(t.leads, 0), coalesce(t.conversions, 0))
      <> (coalesce(e.clicks, 0), coalesce(e.leads, 0), coalesce(e.conversions, 0))`,

  "a day's sales, revenue and commission, whole and by the hour, are its rows": `
    select program_id, concat_ws(' ', ${dayOrHour}, currency) as subject,
      format('%s sales, %s revenue, %s commission', t.sales, t.revenue, t.commission) as found,
      format('%s sales, %s revenue, %s commission', e.sales, e.revenue, e.commission) as expected
    from (
      select program_id, day, hour, currency::text, sum(sales) as sales, sum(revenue_cents) as revenue, sum(commission_cents) as commission
      from (
        select program_id, day, 0 as hour, currency, sales, revenue_cents, commission_cents from daily_money
        union all
        select program_id, day, slot / 64, currency, sales, revenue_cents, commission_cents from daily_money where slot > 0
        union all
        select program_id, day, h.hour, currency, h.sales, h.revenue, h.commission from daily_money
        cross join unnest(sales_by_hour, revenue_cents_by_hour, commission_cents_by_hour) with ordinality
          as h (sales, revenue, commission, hour)
      ) part
      where ${of('program_id')} group by program_id, day, hour, currency
    ) t
    full join (
      select program_id, day, coalesce(hour, 0) as hour, currency::text, sum(sales) as sales, sum(revenue) as revenue,
        sum(commission) as commission
      from (
        select program_id, utc_day(sale_date) as day, hour_of_day(sale_date) as hour, currency, count(*) as sales,
          sum(amount_cents) as revenue, 0 as commission
        from sales
        where not is_test and customer_id is not null and payment_status = 'paid' and ${of('program_id')} group by 1, 2, 3, 4
        union all
        select program_id, utc_day(created_at), hour_of_day(created_at), currency, 0, 0, sum(amount_cents - reversed_cents)
        from commissions where ${of('program_id')} group by 1, 2, 3, 4
      ) part
      group by program_id, day, currency, grouping sets ((), (hour))
    ) e using (program_id, day, hour, currency)
    where (coalesce(t.sales, 0), coalesce(t.revenue, 0), coalesce(t.commission, 0))
      <> (coalesce(e.sales, 0), coalesce(e.revenue, 0), coalesce(e.commission, 0))`,

  'a customer is a conversion from their first live sale on': `
    select u.program_id, 'customer ' || u.id as subject, format('%s, first purchase %s', u.customer_status, u.first_purchase_date) as found,
      format('%s sales', coalesce(s.count, 0)) as expected
    from customers u
    left join (
      select program_id, customer_id, count(*), array_agg(sale_date) as dates from sales
      where not is_test and customer_id is not null and ${of('program_id')} group by program_id, customer_id
    ) s on s.program_id = u.program_id and s.customer_id = u.id
    where ${of('u.program_id')} and ((u.customer_status = 'conversion') <> (s.count is not null)
      or s.count is not null and u.first_purchase_date <> all (s.dates))`,

  "a sale has its customer's partner": `
    select s.program_id, 'sale ' || s.id as subject, 'partner ' || s.partner_id as found, 'partner ' || u.partner_id as expected
    from sales s join customers u on u.program_id = s.program_id and u.id = s.customer_id
    where ${of('s.program_id')} and not s.is_test and s.partner_id <> u.partner_id`,

  'a settled or provisional lead has its one event, and the event its customer': `
    select coalesce(u.program_id, e.program_id) as program_id, format('customer %s, event %s', coalesce(u.id, e.customer_id), coalesce(u.event_id, e.id)) as subject,
      case when e.id is null then 'no event' else format('event of customer %s at %s', e.customer_id, e.lead_timestamp) end as found,
      case when u.id is null then 'a customer with this event' else format('event at %s', u.at) end as expected
    from (
      select program_id, id, lead_event_id as event_id, signup_date as at, false as provisional from customers
      where lead_event_id is not null and ${of('program_id')}
      union all
      select program_id, id, provisional_lead_event_id, provisional_lead_at, true from customers
      where provisional_lead_event_id is not null and ${of('program_id')}
    ) u
    full join (select * from affiliate_lead_events where not is_test and ${of('program_id')}) e
      on e.program_id = u.program_id and e.id = u.event_id and e.provisional = u.provisional
    where (u.id, u.at) is distinct from (e.customer_id, e.lead_timestamp)`,

  'a click event has its customer and link, and these are of its program': `
    select e.program_id, 'click event ' || e.id as subject, format('customer %s, link %s', e.customer_id, e.link_id) as found, 'both exist' as expected
    from affiliate_click_events e
    left join customers u on u.program_id = e.program_id and u.id = e.customer_id
    left join referral_links l on l.program_id = e.program_id and l.id = e.link_id
    where not e.is_test and ${of('e.program_id')} and (u.id is null or l.id is null)`,

  'a customer has the partner of their link, which is of their program': `
    select u.program_id, 'customer ' || u.id as subject, format('link %s, partner %s', u.link_id, u.partner_id) as found,
      format('partner %s', coalesce(l.partner_id::text, 'of a link that exists')) as expected
    from customers u left join referral_links l on l.program_id = u.program_id and l.id = u.link_id
    where ${of('u.program_id')} and l.partner_id is distinct from u.partner_id`,

  // The second person on one click has a key and no click; forgotten, they have what their key brought.
  'a customer came by a click': `
    select u.program_id, 'customer ' || u.id as subject, 'no click event' as found, 'one at the least, or a customer key' as expected
    from customers u
    where ${of('u.program_id')} and coalesce(u.customer_key, u.signup_date::text, u.first_purchase_date::text) is null and not exists (
      select from affiliate_click_events e where e.program_id = u.program_id and not e.is_test and e.customer_id = u.id)`,
}

/** A foreign key of the database as a check that reads its rows, for a database whose keys were once switched off. */
const foreignKeys = `
  select format('%s points at rows of %s that exist', c.conrelid::regclass, c.confrelid::regclass) as check,
    format(
      $f$select %s as program_id, %L as subject, concat_ws(', ', %s) as found, %L as expected from %s child
      where %s and not exists (select from %s parent where %s) and ($1::bigint is null or %s = $1)$f$,
      case when k.has_program then 'child.program_id' else 'null::bigint' end,
      c.conrelid::regclass || ' ' || c.conname, k.columns, 'a row of ' || c.confrelid::regclass, c.conrelid::regclass, k.not_null,
      c.confrelid::regclass, k.equal, case when k.has_program then 'child.program_id' else '$1' end
    ) as query
  from pg_constraint c
  cross join lateral (
    select string_agg(format('child.%I', a.attname), ', ' order by key.n) as columns,
      string_agg(format('child.%I is not null', a.attname), ' and ' order by key.n) as not_null,
      string_agg(format('parent.%I = child.%I', b.attname, a.attname), ' and ' order by key.n) as equal,
      exists (select from pg_attribute p where p.attrelid = c.conrelid and p.attname = 'program_id') as has_program
    from unnest(c.conkey, c.confkey) with ordinality as key (child, parent, n)
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = key.child
    join pg_attribute b on b.attrelid = c.confrelid and b.attnum = key.parent
  ) k
  where c.contype = 'f' and c.connamespace = 'public'::regnamespace and k.has_program
  order by 1, c.conname`

/**
 * Checks that everything the data says agrees, in a whole database or in one program, on one snapshot, so that it can run beside
 * the service. Foreign keys are read again only where the whole database is checked. `client` is a plain Postgres connection
 * without an open transaction.
 */
export async function audit(client: pg.ClientBase, programId?: number): Promise<CheckResult[]> {
  await client.query('begin isolation level repeatable read read only')
  try {
    const keys = programId === undefined ? (await client.query<{ check: string; query: string }>(foreignKeys)).rows : []
    const all = [...Object.entries(checks), ...keys.map(({ check, query }): [string, string] => [check, query])]
    const results: CheckResult[] = []
    for (const [check, query] of all) {
      const started = performance.now()
      const { rows } = await client.query<Finding & { total: string }>(
        `select *, count(*) over () as total from (${query}) off limit ${findingsShown}`,
        [programId ?? null],
      )
      const findings = rows.map(({ program_id, subject, found, expected }) => ({
        program_id,
        subject,
        found,
        expected,
      }))
      results.push({
        check,
        total: Number(rows[0]?.total ?? 0),
        findings,
        duration_ms: Math.round(performance.now() - started),
      })
    }
    return results
  } finally {
    await client.query('rollback')
  }
}

/** What an audit found, one line for each finding; none where everything agrees. */
export async function findDifferences(client: pg.ClientBase, programId?: number): Promise<string[]> {
  const results = await audit(client, programId)
  return results.flatMap(({ check, findings }) =>
    findings.map((f) => `${check}: program ${f.program_id}, ${f.subject}: found ${f.found}, expected ${f.expected}`),
  )
}

/** `npm run audit`: prints every check on the database of DATABASE_URL or of the running stack, and ends with 1 where one fails. */
async function main(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: 'svc-audit' })
  await client.connect()
  try {
    const results = await audit(client)
    for (const { check, total, findings, duration_ms } of results) {
      const mark = total === 0 ? color.green('✓') : color.red('✗')
      console.log(`${mark} ${check} ${color.dim(`${total === 0 ? '' : `${total} off, `}${duration_ms} ms`)}`)
      if (total > 0) console.table(findings)
    }
    const failed = results.filter(({ total }) => total > 0).length
    console.log(failed === 0 ? color.green('Everything agrees.') : color.red(`${failed} checks failed.`))
    if (failed > 0) process.exitCode = 1
  } finally {
    await client.end()
  }
}

if (import.meta.main) {
  try {
    await main(process.env['DATABASE_URL'] ?? readState().environment.DATABASE_URL)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
