// `npm run audit-checks` writes this file from lib/audit/checks/. Do not edit it.
import type { Check } from './run-checks.ts'

export const checks: Check[] = [
  {
    name: `a manual commission or deduction is in the balance once, with its original amount`,
    query: `-- a manual commission or deduction is in the balance once, with its original amount
select a.program_id, 'adjustment ' || a.id as subject, format('%s in %s entries', coalesce(e.sum, 0), coalesce(e.count, 0)) as found,
  a.amount_cents || ' in 1' as expected
from adjustments a
left join (
  select program_id, adjustment_id, sum(amount_cents), count(*) from balance_entries
  where adjustment_id is not null and ($1::bigint is null or program_id = $1) group by program_id, adjustment_id
) e on e.program_id = a.program_id and e.adjustment_id = a.id
where ($1::bigint is null or a.program_id = $1) and (e.sum, e.count) is distinct from (a.amount_cents, 1)
`,
  },
  {
    name: `a manual commission or deduction is in the audit log`,
    query: `-- a manual commission or deduction is in the audit log
-- The rows of an archive have no notifications and no audit log here.
select a.program_id, 'adjustment ' || a.id as subject, 'no entry in the audit log' as found, 'partner.adjusted' as expected
from adjustments a
join programs p on p.id = a.program_id
left join (
  select program_id, (details->>'adjustment')::bigint as adjustment_id from audit_log where action = 'partner.adjusted'
) l on l.program_id = a.program_id and l.adjustment_id = a.id
where a.import_id is null and a.created_at > greatest(now() - money_kept(), p.moved_in_at) and l.adjustment_id is null and ($1::bigint is null or a.program_id = $1)
`,
  },
  {
    name: `every manual commission and deduction was reported to the partner`,
    query: `-- every manual commission and deduction was reported to the partner
-- The rows of an archive have no notifications and no audit log here.
select a.program_id, 'adjustment ' || a.id as subject, 'no notification' as found, 'a notification' as expected
from adjustments a
join programs p on p.id = a.program_id
where ($1::bigint is null or a.program_id = $1) and a.import_id is null and a.created_at >= greatest(notifications_begin(), p.moved_in_at) and not exists (
  select from outbox o where o.program_id = a.program_id and o.kind in ('adjustment_added', 'adjustment_deducted') and o.audience = 'partner'
    and o.cause = 'adjustment:' || a.id and o.partner_id = a.partner_id)
`,
  },
  {
    name: `a balance is the sum of its entries, and its last entry has the same balance`,
    query: `-- a balance is the sum of its entries, and its last entry has the same balance
select program_id, format('partner %s %s', partner_id, currency) as subject,
  format('balance %s, %s entries', b.balance_cents, b.entry_count) as found,
  format('balance %s, %s entries, last %s after %s', e.sum, e.count, e.last, e.after) as expected
from (select * from balances where ($1::bigint is null or program_id = $1)) b
full join (
  select program_id, partner_id, currency, sum(amount_cents), count(*), max(entry_number) as last,
    (array_agg(balance_after_cents order by entry_number desc))[1] as after
  from balance_entries where ($1::bigint is null or program_id = $1) group by program_id, partner_id, currency
) e using (program_id, partner_id, currency)
where (b.balance_cents, b.entry_count) is distinct from (coalesce(e.sum, 0), coalesce(e.count, 0))
  or e.last <> e.count or e.after <> e.sum
`,
  },
  {
    name: `a click event has its customer and link, in its own program`,
    query: `-- a click event has its customer and link, in its own program
-- Customers who only clicked are deleted once their window is over. The event keeps the click id, and an archive contains only that.
select e.program_id, 'click event ' || e.id as subject, format('customer %s, link %s', e.customer_id, e.link_id) as found,
  'both exist' as expected
from affiliate_click_events e
left join customers u on u.program_id = e.program_id and u.id = e.customer_id
left join referral_links l on l.program_id = e.program_id and l.id = e.link_id
left join customers_expired x on x.program_id = e.program_id and x.up_to >= e.click_timestamp
where not e.is_test and ($1::bigint is null or e.program_id = $1)
  and (l.id is null or u.id is null and (x.program_id is null or num_nonnulls(e.click_id, e.click_random) = 0))
`,
  },
  {
    name: `a link's clicks are the sum of its months`,
    query: `-- a link's clicks are the sum of its months
select program_id, 'link ' || link_id as subject, format('%s, last %s', c.clicks, c.last) as found,
  format('%s, last %s', m.clicks, m.last) as expected
from (
  select program_id, link_id, clicks, last_clicked_at as last from link_clicks where ($1::bigint is null or program_id = $1)
) c
full join (
  select program_id, link_id, sum(clicks) as clicks, max(last_clicked_at) as last from link_months
  where ($1::bigint is null or program_id = $1) group by program_id, link_id
) m using (program_id, link_id)
where (coalesce(c.clicks, 0)::numeric, c.last) is distinct from (coalesce(m.clicks, 0), m.last)
`,
  },
  {
    name: `a commission is reversed by floor(commission * refunded part of its sale), a rejected one fully`,
    query: `-- a commission is reversed by floor(commission * refunded part of its sale), a rejected one fully
-- A refund counts with its amount without tax, if the processor reports it.
select c.program_id, 'commission ' || c.id as subject, c.reversal || ' ' || c.reversed_cents as found,
  x.reversal || ' ' || x.reversed as expected
from commissions c
left join sales s on s.program_id = c.program_id and s.id = c.sale_id
cross join lateral (
  select greatest(s.commission_base_cents + coalesce(s.processor_fee_cents, 0), 1)::numeric as untaxed
) u
cross join lateral (
  select case s.refunded_cents
    when s.amount_cents then s.amount_cents * u.untaxed
    when 0 then 0
    else (
      select least(s.amount_cents * u.untaxed, sum(case
        when s.amount_source = 'api' or r.untaxed_cents is null then r.applied_cents * u.untaxed
        else r.untaxed_cents::numeric * s.amount_cents
      end))
      from refunds r where r.program_id = s.program_id and r.sale_id = s.id and r.returned_at is null
    )
  end as refunded
) p
cross join lateral (
  select
    case
      when c.rejected_at is not null then c.amount_cents
      when s.id is null then 0
      when c.amount_cents = 0 then 0
      else div(c.amount_cents * p.refunded, s.amount_cents * u.untaxed)
    end as reversed,
    case
      when c.rejected_at is not null or c.amount_cents = 0 or p.refunded = s.amount_cents * u.untaxed then 'full'
      when p.refunded > 0 then 'partial'
      else 'none'
    end as reversal
) x
where ($1::bigint is null or c.program_id = $1)
  and (c.reversed_cents <> x.reversed or c.reversal <> x.reversal or c.reversed_cents > c.amount_cents)
`,
  },
  {
    name: `a sale's commission follows from its rate, fixed amount, cap and months, and from the sale without tax`,
    query: `-- a sale's commission follows from its rate, fixed amount, cap and months, and from the sale without tax
select x.program_id, 'sale ' || x.id as subject, coalesce('commission of ' || x.amount_cents, 'no commission') as found,
  x.expected || ' of ' || x.commission_base_cents as expected
from (
  select y.*, case when y.terms_by_line is not null then (
        select sum(l.commission_cents)
        from commissions_of_lines(y.commission_base_cents, y.terms_by_line, y.sale_date, y.first_purchase_date, y.earlier::bigint) l
      )
      when y.commission_cap_cents - y.earlier < y.uncapped then greatest(y.commission_cap_cents - y.earlier, 0)
    else y.uncapped end as expected
  from (
    select s.program_id, s.id, s.commission_base_cents, s.commission_cap_cents, s.terms_by_line, s.sale_date, u.first_purchase_date,
      c.amount_cents,
      case when s.commission_base_cents = 0 or s.sale_date > months_after(u.first_purchase_date, s.commission_months) then 0
        else least(div(s.commission_base_cents::numeric * s.commission_bp + 5000, 10000) + coalesce(s.commission_fixed_cents, 0), 9999999999999)
      end as uncapped,
      coalesce(sum(c.amount_cents) over (
        partition by s.program_id, s.customer_id, s.currency order by s.sale_date, s.id rows between unbounded preceding and 1 preceding
      ), 0) as earlier
    from sales s
    join customers u on u.program_id = s.program_id and u.id = s.customer_id
    left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where ($1::bigint is null or s.program_id = $1) and not s.is_test
  ) y
) x
where coalesce(x.amount_cents, 0) <> x.expected
`,
  },
  {
    name: `a commission's status follows from its facts`,
    query: `-- a commission's status follows from its facts
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
where ($1::bigint is null or program_id = $1) and status <> x.expected
`,
  },
  {
    name: `a customer is a conversion from their earliest live sale with an amount`,
    query: `-- a customer is a conversion from their earliest live sale with an amount
select u.program_id, 'customer ' || u.id as subject, format('%s, first purchase %s', u.customer_status, u.first_purchase_date) as found,
  'first purchase ' || s.first_date as expected
from customers u
left join (
  select program_id, customer_id, min(sale_date) as first_date from sales
  where not is_test and amount_cents > 0 and customer_id is not null and ($1::bigint is null or program_id = $1) group by program_id, customer_id
) s on s.program_id = u.program_id and s.customer_id = u.id
where ($1::bigint is null or u.program_id = $1) and (u.imported_at is null or u.first_purchase_date > u.imported_at) and ((u.customer_status = 'conversion') <> (s.first_date is not null)
  or u.first_purchase_date is distinct from s.first_date)
`,
  },
  {
    name: `a credited commission's remaining amount is in the balance, and other commissions are not`,
    query: `-- a credited commission's remaining amount is in the balance, and other commissions are not
select c.program_id, 'commission ' || c.id as subject, format('%s in %s entries, %s of them credits', e.sum, e.count, e.credits) as found,
  case when c.credited_at is null then 'none' else format('%s with one credit', c.amount_cents - c.reversed_cents) end as expected
from commissions c
left join (
  select program_id, commission_id, sum(amount_cents), count(*), count(*) filter (where cause = 'commission_credited') as credits
  from balance_entries where commission_id is not null and ($1::bigint is null or program_id = $1) group by program_id, commission_id
) e on e.program_id = c.program_id and e.commission_id = c.id
where ($1::bigint is null or c.program_id = $1) and case when c.credited_at is null then e.count is not null
  else (e.sum, e.credits) is distinct from (c.amount_cents - c.reversed_cents, 1) end
`,
  },
  {
    name: `a customer came by a click`,
    query: `-- a customer came by a click
-- The second person on one click has a key but no click. After an erasure, only the data from the key is left. Events are deleted with
-- their month.
select u.program_id, 'customer ' || u.id as subject, 'no click event' as found, 'one at the least, or a customer key' as expected
from customers u
where ($1::bigint is null or u.program_id = $1)
  and u.link_id is not null and u.last_click_at >= (select coalesce(max(since), '-infinity') from clicks_kept)
  and coalesce(u.customer_key, u.signup_date::text, u.first_purchase_date::text) is null
  and not exists (
    select from affiliate_click_events e where e.program_id = u.program_id and not e.is_test and e.customer_id = u.id)
`,
  },
  {
    name: `a customer has the partner of their link, or of the code that referred them, and that partner is of their program`,
    query: `-- a customer has the partner of their link, or of the code that referred them, and that partner is of their program
select u.program_id, 'customer ' || u.id as subject, format('link %s, code %s, partner %s', u.link_id, u.code_id, u.partner_id) as found,
  format('partner %s', coalesce(l.partner_id, k.partner_id)::text) as expected
from customers u
left join referral_links l on l.program_id = u.program_id and l.id = u.link_id
left join partner_codes k on k.program_id = u.program_id and k.id = u.code_id
where ($1::bigint is null or u.program_id = $1) and (u.imported_at is null or num_nonnulls(u.link_id, u.code_id) > 0)
  and (case when u.link_id is null then k.partner_id else l.partner_id end is distinct from u.partner_id or u.code_id is not null and k.id is null)
`,
  },
  {
    name: `a day's sales, revenue, commission and refunds, in total and by hour, match its rows`,
    query: `-- a day's sales, revenue, commission and refunds, in total and by hour, match its rows
select program_id, concat_ws(' ', concat(day, case when hour > 0 then format(' %s:00', hour - 1) end), currency) as subject,
  format('%s sales, %s revenue, %s commission, %s refunded', t.sales, t.revenue, t.commission, t.refunded) as found,
  format('%s sales, %s revenue, %s commission, %s refunded', e.sales, e.revenue, e.commission, e.refunded) as expected
from (
  select program_id, day, hour, currency::text, sum(sales) as sales, sum(revenue_cents) as revenue, sum(commission_cents) as commission,
    sum(refunded_cents) as refunded
  from (
    select program_id, day, 0 as hour, currency, sales, revenue_cents, commission_cents, refunded_cents from daily_money
    union all
    select program_id, day, slot / 64, currency, sales, revenue_cents, commission_cents, refunded_cents from daily_money where slot > 0
    union all
    select program_id, day, h.hour, currency, h.sales, h.revenue, h.commission, h.refunded from daily_money
    cross join unnest(sales_by_hour, revenue_cents_by_hour, commission_cents_by_hour, refunded_cents_by_hour) with ordinality
      as h (sales, revenue, commission, refunded, hour)
  ) part
  where ($1::bigint is null or program_id = $1) group by program_id, day, hour, currency
) t
full join (
  select program_id, day, coalesce(hour, 0) as hour, currency::text, sum(sales) as sales, sum(revenue) as revenue,
    sum(commission) as commission, sum(refunded) as refunded
  from (
    select program_id, utc_day(sale_date) as day, hour_of_day(sale_date) as hour, currency, count(*) as sales,
      sum(amount_cents) as revenue, 0 as commission, sum(refunded) as refunded
    from sales
    left join (
      select program_id, sale_id as id, sum(applied_cents) as refunded from refunds
      where returned_at is null and ($1::bigint is null or program_id = $1) group by program_id, sale_id
    ) taken using (program_id, id)
    where not is_test and customer_id is not null and payment_status = 'paid' and ($1::bigint is null or program_id = $1)
    group by 1, 2, 3, 4
    union all
    select program_id, utc_day(created_at), hour_of_day(created_at), currency, 0, 0, sum(amount_cents - reversed_cents), 0
    from commissions where not is_shadow and ($1::bigint is null or program_id = $1) group by 1, 2, 3, 4
  ) part
  group by program_id, day, currency, grouping sets ((), (hour))
) e using (program_id, day, hour, currency)
where (coalesce(t.sales, 0), coalesce(t.revenue, 0), coalesce(t.commission, 0), coalesce(t.refunded, 0))
  <> (coalesce(e.sales, 0), coalesce(e.revenue, 0), coalesce(e.commission, 0), coalesce(e.refunded, 0))
`,
  },
  {
    name: `a day's clicks, leads and conversions, in total and by hour, match its rows`,
    query: `-- a day's clicks, leads and conversions, in total and by hour, match its rows
-- Clicks are compared only on days with kept events.
select program_id, concat(day, case when hour > 0 then format(' %s:00', hour - 1) end) as subject,
  format('%s clicks, %s leads, %s conversions', t.clicks, t.leads, t.conversions) as found,
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
    where not is_bot
  ) part
  where ($1::bigint is null or program_id = $1) group by program_id, day, hour
) t
full join (
  select program_id, day, coalesce(hour, 0) as hour, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions
  from (
    select program_id, utc_day(click_timestamp) as day, hour_of_day(click_timestamp) as hour, count(*) as clicks, 0 as leads,
      0 as conversions
    from affiliate_click_events where not is_test and device_type is distinct from 'bot' and ($1::bigint is null or program_id = $1) group by 1, 2, 3
    union all
    select program_id, utc_day(signup_date), hour_of_day(signup_date), 0, count(*), 0 from customers
    where signup_date is not null and (imported_at is null or signup_date > imported_at) and customer_status in ('lead', 'conversion') and ($1::bigint is null or program_id = $1) group by 1, 2, 3
    union all
    select program_id, utc_day(first_purchase_date), hour_of_day(first_purchase_date), 0, 0, count(*) from customers
    where first_purchase_date is not null and (imported_at is null or first_purchase_date > imported_at) and customer_status = 'conversion' and ($1::bigint is null or program_id = $1) group by 1, 2, 3
  ) part
  group by program_id, day, grouping sets ((), (hour))
) e using (program_id, day, hour)
where (case when day >= (select coalesce(max(utc_day(since)), '-infinity') from clicks_kept) then coalesce(t.clicks, 0) else 0 end,
    coalesce(t.leads, 0), coalesce(t.conversions, 0))
  <> (coalesce(e.clicks, 0), coalesce(e.leads, 0), coalesce(e.conversions, 0))
`,
  },
  {
    name: `every deduction of a paid commission warned the advertiser`,
    query: `-- every deduction of a paid commission warned the advertiser
-- The rows of an archive have no notifications and no audit log here. A payout that came back can be paid again, so its last payment
-- counts.
select e.program_id, format('commission %s entry %s', e.commission_id, e.entry_number) as subject, 'no notification' as found, 'a notification' as expected
from balance_entries e
join programs p on p.id = e.program_id
join commissions c on c.program_id = e.program_id and c.id = e.commission_id
join (
  select program_id, payout_id, max(entry_number) as entry_number from balance_entries
  where cause = 'payout_paid' and ($1::bigint is null or program_id = $1) group by program_id, payout_id
) payment on payment.program_id = c.program_id and payment.payout_id = c.payout_id
where ($1::bigint is null or e.program_id = $1) and e.created_at >= greatest(notifications_begin(), p.moved_in_at) and e.cause in ('commission_reversed', 'commission_corrected') and e.amount_cents < 0
  and e.entry_number > payment.entry_number
  and not exists (
    select from outbox o where o.program_id = e.program_id and o.kind = 'paid_commission_reversed' and o.audience = 'advertiser'
      and o.cause = case
        when e.refund_id is not null then 'refund:' || e.refund_id
        when e.correction_number is not null then format('correction:%s:%s', e.commission_id, e.correction_number)
        else 'rejection:' || e.commission_id
      end)
`,
  },
  {
    name: `a document has the partner, amount, lines, reference and day of its payment, and a payment that came back has a credit note`,
    query: `-- a document has the partner, amount, lines, reference and day of its payment, and a payment that came back has a credit note
with payment as (
  select program_id, payout_id, amount_cents, cause = 'payout_returned' as is_return,
    row_number() over (partition by program_id, payout_id, cause order by entry_number) as payment_number
  from balance_entries where payout_id is not null and ($1::bigint is null or program_id = $1)
)
select d.program_id, format('document %s-%s', d.series, d.number) as subject,
  format('%s of %s with lines of %s, %s on %s%s', d.kind, d.amount_cents, l.cents, d.reference, d.paid_on, case when c.id is not null then ', with a credit note' end) as found,
  format('payment of %s, %s on %s%s', -p.amount_cents, w.reference, w.paid_on, case when r.payout_id is not null then ', came back' end) as expected
from documents d
join payouts w on w.program_id = d.program_id and w.id = d.payout_id
left join payment p on p.program_id = d.program_id and p.payout_id = d.payout_id and p.payment_number = d.payment_number and not p.is_return
left join payment r on r.program_id = d.program_id and r.payout_id = d.payout_id and r.payment_number = d.payment_number and r.is_return
left join payment later on later.program_id = d.program_id and later.payout_id = d.payout_id and later.payment_number = d.payment_number + 1
  and not later.is_return
left join documents c on c.program_id = d.program_id and c.corrects_id = d.id
left join documents i on i.program_id = d.program_id and i.id = d.corrects_id
cross join lateral (select sum((one->>'amount_cents')::bigint) as cents from jsonb_array_elements(d.lines) one) l
where ($1::bigint is null or d.program_id = $1) and (
  -p.amount_cents is distinct from d.amount_cents or l.cents is distinct from d.amount_cents or w.partner_id <> d.partner_id
  -- If a run is reopened, its reference and day are cleared, and its next payment has different ones.
  or w.paid_on is not null and later.payout_id is null and (d.reference, d.paid_on) <> (w.reference, w.paid_on)
  or case when d.kind = 'credit_note' then r.payout_id is null or (i.payout_id, i.payment_number, i.lines) is distinct from (d.payout_id, d.payment_number, d.lines)
    when d.voided_at is null then (r.payout_id is not null) <> (c.id is not null)
    else c.id is not null end
)
`,
  },
  {
    name: `the documents of a series are numbered without gaps, including void ones`,
    query: `-- the documents of a series are numbered without gaps, including void ones
select s.program_id, 'series ' || s.series as subject, format('%s documents from %s to %s', count(d.id), min(d.number), max(d.number)) as found,
  '1 to ' || s.last_number as expected
from document_series s left join documents d on d.program_id = s.program_id and d.series = s.series
where $1::bigint is null or s.program_id = $1
group by s.program_id, s.series, s.last_number
having count(d.id) <> s.last_number or min(d.number) <> 1 or max(d.number) <> s.last_number
`,
  },
  {
    name: `clicks whose events were dropped are in the totals of their days`,
    query: `-- clicks whose events were dropped are in the totals of their days
select program_id, 'clicks of dropped months' as subject, coalesce(t.clicks, 0)::text as found, coalesce(d.clicks, 0)::text as expected
from (
  select program_id, sum(clicks) as clicks from link_months
  where month = '-infinity' and ($1::bigint is null or program_id = $1) group by program_id
) d
full join (
  select program_id, sum(clicks) as clicks from daily_totals
  where day < (select utc_day(since) from clicks_kept) and ($1::bigint is null or program_id = $1) group by program_id
) t using (program_id)
where coalesce(t.clicks, 0) <> coalesce(d.clicks, 0)
`,
  },
  {
    name: `a commission that was credited before its hold ended is in the audit log`,
    query: `-- a commission that was credited before its hold ended is in the audit log
-- The rows of an archive have no notifications and no audit log here.
select c.program_id, 'commission ' || c.id as subject, 'credited at ' || c.credited_at as found, 'not before ' || c.hold_until as expected
from commissions c
join programs p on p.id = c.program_id
left join (
  select program_id, subject from audit_log where action = 'commission.approved'
) l on l.program_id = c.program_id and l.subject = c.id::text
where c.credited_at < c.hold_until and c.credited_at > greatest(now() - money_kept(), p.moved_in_at) and l.subject is null and ($1::bigint is null or c.program_id = $1)
`,
  },
  {
    name: `an entry of a balance is not earlier than the previous one, and has the hash of both`,
    query: `-- an entry of a balance is not earlier than the previous one, and has the hash of both
select e.program_id, format('partner %s %s entry %s', e.partner_id, e.currency, e.entry_number) as subject,
  format('%s, hash %s', e.created_at, left(encode(e.entry_hash, 'hex'), 12)) as found,
  format('%s or later, hash %s', p.previous_at, left(encode(hash_of_entry(p.previous_hash, facts_of_entry(e)), 'hex'), 12)) as expected
from (
  select program_id, partner_id, currency, entry_number, lag(created_at) over entries as previous_at, lag(entry_hash) over entries as previous_hash
  from balance_entries where ($1::bigint is null or program_id = $1)
  window entries as (partition by program_id, partner_id, currency order by entry_number)
) p
join balance_entries e on e.program_id = p.program_id and e.partner_id = p.partner_id and e.currency = p.currency and e.entry_number = p.entry_number
where e.created_at < p.previous_at or e.entry_hash <> hash_of_entry(p.previous_hash, facts_of_entry(e))
`,
  },
  {
    name: `each entry begins with the balance after the previous one`,
    query: `-- each entry begins with the balance after the previous one
select program_id, format('partner %s %s entry %s', partner_id, currency, entry_number) as subject,
  format('%s %s = %s', balance_before_cents, amount_cents, balance_after_cents) as found, 'begins with ' || ended as expected
from (
  select *, coalesce(lag(balance_after_cents) over (partition by program_id, partner_id, currency order by entry_number), 0) as ended
  from balance_entries where ($1::bigint is null or program_id = $1)
) e
where balance_before_cents <> ended or balance_before_cents + amount_cents <> balance_after_cents
`,
  },
  {
    name: `the payout lines of an entry pay its amount at most once`,
    query: `-- the payout lines of an entry pay its amount at most once
select e.program_id, format('entry %s of partner %s in %s', e.entry_number, e.partner_id, e.currency) as subject, l.sum::text as found,
  'at most ' || e.amount_cents as expected
from balance_entries e
join (
  select program_id, partner_id, currency, entry_number, sum(amount_cents), bool_or(amount_cents > 0) as has_credit,
    bool_or(amount_cents < 0) as has_debit
  from payout_lines where not is_returned and ($1::bigint is null or program_id = $1) group by 1, 2, 3, 4
) l using (program_id, partner_id, currency, entry_number)
where e.payout_id is not null or abs(l.sum) > abs(e.amount_cents) or case when e.amount_cents > 0 then l.has_debit else l.has_credit end
`,
  },
  {
    name: `a day's clicks in each grouping match its click events`,
    query: `-- a day's clicks in each grouping match its click events
-- This covers only days with kept events. Erasing a customer removes the values of their clicks, so the numbers of clicks without a value
-- may differ.
with clicked as materialized (
  select e.program_id, (case when e.device_type = 'bot' then 'bot_clicks' else 'clicks' end)::grouped_metric as metric,
    utc_day(e.click_timestamp) as day, count(*) as clicks, count(*) filter (where e.affiliate_url is null) as erased,
    e.link_id, e.geo_country, e.device_type, e.browser_name, values_of_click(e) - '{country,device,browser}'::text[] as others
  from click_events e
  left join uncounted_clicks u on u.program_id = e.program_id and u.clicked_at = e.click_timestamp and u.event_id = e.id
  where not e.is_test and u.event_id is null and ($1::bigint is null or e.program_id = $1)
  group by 1, 2, 3, e.link_id, e.geo_country, e.device_type, e.browser_name, 10
)
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, metric) as subject, coalesce(t.clicks, 0)::text as found,
  coalesce(e.clicks, 0)::text as expected
from (
  select program_id, grouping_name, metric, day, value, sums[cardinality(sums)] as clicks from grouped_quarters
  where metric in ('clicks', 'bot_clicks') and day >= (select coalesce(max(utc_day(since)), '-infinity') from clicks_kept)
    and ($1::bigint is null or program_id = $1)
) t
full join (
  select c.program_id, v.grouping_name::grouping_name, c.metric, c.day, left(v.value, 200) as value, sum(c.clicks) as clicks
  from clicked c
  left join referral_links l on l.id = c.link_id
  cross join lateral (
    values ('all', ''), ('link', c.link_id::text), ('partner', l.partner_id::text), ('country', c.geo_country), ('device', c.device_type),
      ('browser', c.browser_name)
    union all
    select key, value from jsonb_each_text(c.others)
  ) v (grouping_name, value)
  where v.value <> '' or v.grouping_name = 'all'
  group by 1, 2, 3, 4, 5
) e using (program_id, grouping_name, metric, day, value)
left join (
  select program_id, metric, day, sum(erased) as clicks from clicked group by 1, 2, 3
) erased using (program_id, metric, day)
left join (
  select program_id, grouping_name, metric, day, sums[cardinality(sums)] as clicks from grouped_quarters where value = '' and grouping_name <> 'all'
) rest using (program_id, grouping_name, metric, day)
where (value <> '' or grouping_name = 'all') and coalesce(t.clicks, 0) not between
  coalesce(e.clicks, 0) - coalesce(rest.clicks, 0) and coalesce(e.clicks, 0) + case when grouping_name > 'link' then coalesce(erased.clicks, 0) else 0 end
`,
  },
  {
    name: `the days of grouped totals are the sums of their quarter-hours`,
    query: `-- the days of grouped totals are the sums of their quarter-hours
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, concat_ws(' ', metric, currency)) as subject,
  coalesce(d.amount, 0)::text as found, coalesce(q.amount, 0)::text as expected
from (
  select t.program_id, t.grouping_name, m.metric, m.currency, t.starts as day, t.value, sum(m.amount) as amount
  from grouped_totals t
  cross join lateral (values
    ('clicks'::grouped_metric, '', t.clicks), ('bot_clicks', '', t.bot_clicks), ('leads', '', t.leads), ('conversions', '', t.conversions),
    ('sales', t.currency, t.sales), ('revenue', t.currency, t.revenue_cents), ('commission', t.currency, t.commission_cents),
    ('refunded', t.currency, t.refunded_cents)
  ) m (metric, currency, amount)
  where t.span = 'day' and m.amount <> 0 and ($1::bigint is null or t.program_id = $1)
  group by 1, 2, 3, 4, 5, 6
) d
full join (
  select program_id, grouping_name, metric, currency, day, value, sums[cardinality(sums)] as amount from grouped_quarters
  where $1::bigint is null or program_id = $1
) q using (program_id, grouping_name, metric, currency, day, value)
where coalesce(d.amount, 0) <> coalesce(q.amount, 0)
`,
  },
  {
    name: `a day's leads, conversions, sales and money by partner, link, code, country, device and browser match its rows`,
    query: `-- a day's leads, conversions, sales and money by partner, link, code, country, device and browser match its rows
-- These values of an erased customer's click are kept. Browsers are compared only on days that recorded them.
with origin as materialized (
  select c.program_id, c.id as customer_id, c.partner_id as partner_of_link_id, c.link_id, o.origin
  from customers c left join customer_origins o on o.program_id = c.program_id and o.customer_id = c.id
  where $1::bigint is null or c.program_id = $1
),
row_figures as (
  select program_id, id as customer_id, partner_id, null::bigint as code_id, '' as currency, utc_day(signup_date) as day, 'leads'::grouped_metric as metric, 1 as amount
  from customers where signup_date is not null and (imported_at is null or signup_date > imported_at)
  union all
  select c.program_id, c.id, case when c.code_id is null then c.partner_id else k.partner_id end, c.code_id, '', utc_day(c.first_purchase_date),
    'conversions', 1
  from customers c left join partner_codes k on k.program_id = c.program_id and k.id = c.code_id where c.first_purchase_date is not null and (c.imported_at is null or c.first_purchase_date > c.imported_at)
  union all
  select s.program_id, s.customer_id, s.partner_id, s.code_id, s.currency, utc_day(s.sale_date), m.metric, m.amount
  from sales s
  cross join lateral (values ('sales'::grouped_metric, 1::bigint), ('revenue', s.amount_cents), ('refunded', s.refunded_cents)) m (metric, amount)
  where not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
  union all
  select program_id, customer_id, partner_id, code_id, currency, utc_day(created_at), 'commission', amount_cents - reversed_cents from commissions
  where not is_shadow
),
expected as (
  select r.program_id, v.grouping_name, r.metric, r.currency, r.day, v.value, sum(r.amount) as amount
  from row_figures r join origin o using (program_id, customer_id)
  cross join lateral (values
    ('all'::grouping_name, ''), ('partner', r.partner_id::text), ('link', case when r.partner_id = o.partner_of_link_id then o.link_id::text end),
    ('code', r.code_id::text),
    ('country', o.origin->>'country'), ('device', o.origin->>'device'), ('browser', o.origin->>'browser')
  ) v (grouping_name, value)
  where v.value is not null
  group by 1, 2, 3, 4, 5, 6
),
found as (
  select program_id, grouping_name, metric, currency, day, value, sum(amount) as amount
  from (
    select program_id, grouping_name, metric, currency, day, value, sums[cardinality(sums)] as amount from grouped_quarters
    where metric not in ('clicks', 'bot_clicks') and grouping_name <= 'browser' and ($1::bigint is null or program_id = $1)
    union all
    select u.program_id, v.grouping_name, m.metric, case when m.is_money then u.currency else '' end, utc_day(u.at), v.value, m.amount
    from uncounted_figures u join origin o using (program_id, customer_id)
    cross join lateral (values
      ('all'::grouping_name, ''), ('partner', u.partner_id::text), ('link', case when u.partner_id = o.partner_of_link_id then o.link_id::text end),
      ('code', u.code_id::text),
      ('country', o.origin->>'country'), ('device', o.origin->>'device'), ('browser', o.origin->>'browser')
    ) v (grouping_name, value)
    cross join lateral (values
      ('leads'::grouped_metric, u.leads, false), ('conversions', u.conversions, false), ('sales', u.sales, true),
      ('revenue', u.revenue_cents, true), ('commission', u.commission_cents, true), ('refunded', u.refunded_cents, true)
    ) m (metric, amount, is_money)
    where v.value is not null
  ) part
  group by 1, 2, 3, 4, 5, 6
)
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, concat_ws(' ', metric, currency)) as subject,
  found::text, expected::text
from (
  select program_id, grouping_name, metric, currency, day, value, coalesce(f.amount, 0) as found, coalesce(e.amount, 0) as expected
  from found f full join expected e using (program_id, grouping_name, metric, currency, day, value)
) x
left join (
  select distinct program_id, grouping_name, day from grouped_quarters where value = '' and ($1::bigint is null or program_id = $1)
) mixed using (program_id, grouping_name, day)
where found <> expected and (grouping_name < 'browser' or mixed.program_id is null)
`,
  },
  {
    name: `the months of grouped totals are the sums of their days`,
    query: `-- the months of grouped totals are the sums of their days
select program_id, format('%s %s, month %s, %s', grouping_name, quote_literal(value), to_char(month, 'YYYY-MM'), currency) as subject,
  m.figures::text as found, d.figures::text as expected
from (
  select t.program_id, t.grouping_name, t.starts as month, t.value, t.currency,
    array[t.clicks, t.bot_clicks, t.leads, t.conversions, t.sales, t.revenue_cents, t.commission_cents, t.refunded_cents]::numeric[] as figures
  from grouped_totals t where t.span = 'month' and ($1::bigint is null or t.program_id = $1)
) m
full join (
  select t.program_id, t.grouping_name, date_trunc('month', t.starts::timestamp)::date as month, t.value, t.currency,
    array[sum(t.clicks), sum(t.bot_clicks), sum(t.leads), sum(t.conversions), sum(t.sales), sum(t.revenue_cents), sum(t.commission_cents),
      sum(t.refunded_cents)] as figures
  from grouped_totals t where t.span = 'day' and ($1::bigint is null or t.program_id = $1) group by 1, 2, 3, 4, 5
) d using (program_id, grouping_name, month, value, currency)
where m.figures is distinct from d.figures
`,
  },
  {
    name: `a held commission is in no balance and waits for a decision, and a decided one is not held`,
    query: `-- a held commission is in no balance and waits for a decision, and a decided one is not held
select v.program_id, 'commission ' || v.commission_id as subject,
  format('%s, decision %s', case when c.held_at is null then 'not held' else 'held' end, coalesce(v.decision, 'none')) as found,
  case when v.decision is null then 'held and in no balance' else 'not held' end as expected
from commission_reviews v join commissions c on c.program_id = v.program_id and c.id = v.commission_id
left join (
  select distinct program_id, commission_id from balance_entries
  where cause = 'commission_credited' and ($1::bigint is null or program_id = $1)
) e on e.program_id = c.program_id and e.commission_id = c.id
where ($1::bigint is null or v.program_id = $1)
  and (v.decision is null) <> (c.held_at is not null and c.credited_at is null and e.commission_id is null)
union all
select c.program_id, 'commission ' || c.id, 'held', 'a held commission keeps its findings' from commissions c
where c.held_at is not null and ($1::bigint is null or c.program_id = $1)
  and not exists (select from commission_reviews v where v.program_id = c.program_id and v.commission_id = c.id)
`,
  },
  {
    name: `a lead commission belongs to a settled lead`,
    query: `-- a lead commission belongs to a settled lead
select c.program_id, 'commission ' || c.id as subject, 'customer ' || c.customer_id as found, 'its lead settled' as expected
from commissions c join customers u on u.program_id = c.program_id and u.id = c.customer_id
where ($1::bigint is null or c.program_id = $1) and c.kind = 'lead' and (u.signup_date is null or u.partner_id <> c.partner_id)
`,
  },
  {
    name: `a settled or provisional lead has exactly one event, and that event has its customer`,
    query: `-- a settled or provisional lead has exactly one event, and that event has its customer
select coalesce(u.program_id, e.program_id) as program_id,
  format('customer %s, event %s', coalesce(u.id, e.customer_id), coalesce(u.event_id, e.id)) as subject,
  case when e.id is null then 'no event' else format('event of customer %s at %s', e.customer_id, e.lead_timestamp) end as found,
  case when u.id is null then 'a customer with this event' else format('event at %s', u.at) end as expected
from (
  select program_id, id, lead_event_id as event_id, signup_date as at, false as provisional from customers
  where lead_event_id is not null and (imported_at is null or signup_date > imported_at) and ($1::bigint is null or program_id = $1)
  union all
  select program_id, id, provisional_lead_event_id, provisional_lead_at, true from customers
  where provisional_lead_event_id is not null and ($1::bigint is null or program_id = $1)
) u
full join (select * from affiliate_lead_events where not is_test and ($1::bigint is null or program_id = $1)) e
  on e.program_id = u.program_id and e.id = u.event_id and e.provisional = u.provisional
where (u.id, u.at) is distinct from (e.customer_id, e.lead_timestamp)
`,
  },
  {
    name: `a link's clicks in a month match its click events`,
    query: `-- a link's clicks in a month match its click events
-- Of dropped months, only the sum is left.
select program_id, format('link %s, month %s', link_id, month) as subject, format('%s, last %s', c.clicks, c.last) as found,
  format('%s, last %s', e.clicks, e.last) as expected
from (
  select program_id, link_id, month, sum(clicks) as clicks, max(last_clicked_at) as last from (
    select program_id, link_id, month, clicks, last_clicked_at from link_months where month > '-infinity'
    union all
    select program_id, link_id, month_of(clicked_at), 1, clicked_at from uncounted_clicks where not is_bot
  ) part
  where ($1::bigint is null or program_id = $1) group by program_id, link_id, month
) c
full join (
  select program_id, link_id, month_of(click_timestamp) as month, count(*) as clicks, max(click_timestamp) as last from affiliate_click_events
  where not is_test and device_type is distinct from 'bot' and ($1::bigint is null or program_id = $1) group by program_id, link_id, month_of(click_timestamp)
) e using (program_id, link_id, month)
where (c.clicks, c.last) is distinct from (e.clicks::numeric, e.last)
`,
  },
  {
    name: `unsent and sent payouts together fit into the balance`,
    query: `-- unsent and sent payouts together fit into the balance
select w.program_id, format('partner %s %s', w.partner_id, w.currency) as subject, sum(w.amount_cents) || ' asked' as found,
  'up to ' || greatest(max(b.balance_cents), 0) as expected
from payouts w left join balances b using (program_id, partner_id, currency)
where w.decided_at is null and ($1::bigint is null or w.program_id = $1)
group by w.program_id, w.partner_id, w.currency
having sum(w.amount_cents) filter (where w.status in ('requested', 'in_run'))
  > greatest(coalesce(max(b.balance_cents), 0) - coalesce(sum(w.amount_cents) filter (where w.status in ('sent', 'unclaimed')), 0), 0)
`,
  },
  {
    name: `an outbox row is delivered if and only if its notification exists, and both have the same content`,
    query: `-- an outbox row is delivered if and only if its notification exists, and both have the same content
select coalesce(o.program_id, n.program_id) as program_id, 'outbox ' || coalesce(o.id, n.id) as subject,
  case when n.id is null then 'no notification' else 'a notification' end as found,
  case
    when o.id is null then 'an outbox row'
    when o.delivered_at is null then 'none yet'
    else 'a notification with the same content'
  end as expected
from (select * from outbox where ($1::bigint is null or program_id = $1)) o
full join (select * from notifications where ($1::bigint is null or program_id = $1)) n on n.program_id = o.program_id and n.id = o.id
where (o.delivered_at is null) <> (n.id is null)
  or (n.kind, n.audience, n.partner_id, n.payload) is distinct from (o.kind, o.audience, o.partner_id, o.payload)
    and o.delivered_at is not null
`,
  },
  {
    name: `a commission or manual addition is paid when a payment pays its last part, and it names that payout`,
    query: `-- a commission or manual addition is paid when a payment pays its last part, and it names that payout
with earning as (
  select program_id, 'commission ' || id as subject, id as commission_id, 0::bigint as adjustment_id, paid_at, payout_id from commissions
  where $1::bigint is null or program_id = $1
  union all
  select program_id, 'adjustment ' || id, 0, id, paid_at, payout_id from adjustments where $1::bigint is null or program_id = $1
),
-- Payments of parts of earnings.
part as (
  select e.program_id, coalesce(e.commission_id, 0) as commission_id, coalesce(e.adjustment_id, 0) as adjustment_id, w.id as payout_id,
    w.decided_at as paid_at, max(p.entry_number) as entry_number, sum(l.amount_cents) as paid_cents
  from payout_lines l
  join balance_entries e using (program_id, partner_id, currency, entry_number)
  join payouts w on w.program_id = l.program_id and w.id = l.payout_id
  join balance_entries p on p.program_id = w.program_id and p.payout_id = w.id and p.cause = 'payout_paid'
    and coalesce(p.correction_number, 0) + 1 = l.payment_number
  where not l.is_returned and ($1::bigint is null or l.program_id = $1)
  group by 1, 2, 3, 4, 5
),
last as (
  select distinct on (program_id, commission_id, adjustment_id) *,
    sum(paid_cents) over (partition by program_id, commission_id, adjustment_id) as paid_so_far_cents
  from part order by program_id, commission_id, adjustment_id, entry_number desc
),
-- Earnings that the last payment completed: no earlier entry has an unpaid rest.
completed as (
  select l.program_id, l.commission_id, l.adjustment_id, l.payout_id
  from last l
  join balance_entries e on e.program_id = l.program_id and coalesce(e.commission_id, 0) = l.commission_id
    and coalesce(e.adjustment_id, 0) = l.adjustment_id and e.entry_number < l.entry_number
  group by 1, 2, 3, 4, l.paid_so_far_cents
  having sum(e.amount_cents) > 0 and sum(e.amount_cents) <= l.paid_so_far_cents
)
select c.program_id, c.subject, case when c.paid_at is null then 'not paid' else format('paid at %s by payout %s', c.paid_at, c.payout_id) end as found,
  case when c.paid_at is null then 'paid by payout ' || d.payout_id else 'a payment of it by this payout then' end as expected
from earning c
left join part p on p.program_id = c.program_id and p.commission_id = c.commission_id and p.adjustment_id = c.adjustment_id
  and p.payout_id = c.payout_id and p.paid_at = c.paid_at
left join completed d on d.program_id = c.program_id and d.commission_id = c.commission_id and d.adjustment_id = c.adjustment_id
where case when c.paid_at is null then d.payout_id is not null else p.payout_id is null end
`,
  },
  {
    name: `a paid payout has its entry, and the entries of an unpaid payout add up to zero`,
    query: `-- a paid payout has its entry, and the entries of an unpaid payout add up to zero
select w.program_id, 'payout ' || w.id as subject, format('%s, entries %s', w.status, e.sum) as found,
  'entries ' || case w.status when 'paid' then -w.amount_cents else 0 end as expected
from payouts w
left join (
  select program_id, payout_id, sum(amount_cents) from balance_entries
  where payout_id is not null and ($1::bigint is null or program_id = $1) group by program_id, payout_id
) e on e.program_id = w.program_id and e.payout_id = w.id
where ($1::bigint is null or w.program_id = $1) 
  and coalesce(e.sum, 0) <> case w.status when 'paid' then -w.amount_cents else 0 end
`,
  },
  {
    name: `a paid payout run has no open payment`,
    query: `-- a paid payout run has no open payment
select w.program_id, format('payout run %s payout %s', r.id, w.id) as subject, w.status as found,
  'decided on' as expected
from payout_runs r join payouts w on w.program_id = r.program_id and w.payout_run_id = r.id
where ($1::bigint is null or w.program_id = $1) and r.paid_at is not null and w.decided_at is null
`,
  },
  {
    name: `a payment to a partner who had a document before has one too, unless they withdrew their agreement`,
    query: `-- a payment to a partner who had a document before has one too, unless they withdrew their agreement
with first as (
  select d.program_id, d.partner_id, min(d.issued_at) as issued_at from documents d
  join partners r on r.program_id = d.program_id and r.id = d.partner_id
  join payee_details y on y.user_id = r.user_id
  where ($1::bigint is null or d.program_id = $1) and self_billing_terms(d.program_id, d.partner_id) is not null
  group by 1, 2
)
select e.program_id, format('payout %s', e.payout_id) as subject, 'no document' as found, 'a document' as expected
from first f
join balance_entries e on e.program_id = f.program_id and e.partner_id = f.partner_id and e.cause = 'payout_paid' and e.created_at > f.issued_at
left join documents d on d.program_id = e.program_id and d.payout_id = e.payout_id and d.kind = 'invoice'
  and d.payment_number = coalesce(e.correction_number, 0) + 1
left join lateral (
  select max(a.accepted_at) as accepted_at from accepted_terms a where a.program_id = f.program_id and a.partner_id = f.partner_id
) a on true
where d.id is null and e.created_at > coalesce(a.accepted_at, '-infinity')
`,
  },
  {
    name: `the lines of a paid payout add up to its amount, and other payouts have none`,
    query: `-- the lines of a paid payout add up to its amount, and other payouts have none
select w.program_id, 'payout ' || w.id as subject, format('%s, lines %s', w.status, l.sum) as found,
  'lines ' || case w.status when 'paid' then w.amount_cents else 0 end as expected
from payouts w
left join (
  select program_id, payout_id, sum(amount_cents) from payout_lines
  where not is_returned and ($1::bigint is null or program_id = $1) group by program_id, payout_id
) l on l.program_id = w.program_id and l.payout_id = w.id
where ($1::bigint is null or w.program_id = $1)
  and coalesce(l.sum, 0) <> case w.status when 'paid' then w.amount_cents else 0 end
`,
  },
  {
    name: `a payment leaves no balance below zero, unless a reversal came after it was sent`,
    query: `-- a payment leaves no balance below zero, unless a reversal came after it was sent
select e.program_id, format('payout %s', e.payout_id) as subject, format('%s left %s', e.amount_cents, e.balance_after_cents) as found,
  'at least 0' as expected
from balance_entries e join payouts w on w.program_id = e.program_id and w.id = e.payout_id and w.sent_at is null
where ($1::bigint is null or e.program_id = $1) and e.cause = 'payout_paid' and e.balance_after_cents < 0
`,
  },
  {
    name: `a payout has the outcome that its provider reported`,
    query: `-- a payout has the outcome that its provider reported
-- People can record that a paid payout came back.
select i.program_id, 'payout ' || i.payout_id as subject, w.status as found, i.outcome || ' at ' || c.provider as expected
from payout_items i
join payouts w on w.program_id = i.program_id and w.id = i.payout_id
join payout_batches b on b.program_id = i.program_id and b.id = i.batch_id
join payout_connections c on c.id = b.connection_id
where ($1::bigint is null or i.program_id = $1) and case i.outcome
  when 'paid' then w.paid_on is null
  when 'returned' then w.status not in ('returned', 'failed')
  when 'failed' then w.status not in ('returned', 'failed')
  else w.status in ('requested', 'in_run')
end
`,
  },
  {
    name: `a payment of the processor is one sale, even if it has several ids`,
    query: `-- a payment of the processor is one sale, even if it has several ids
select s.program_id, 'payment ' || s.payment_id as subject, string_agg(s.id::text, ', ' order by s.id) as found, 'one sale' as expected
from (
  select s.program_id, s.is_test, s.id, coalesce(i.transaction_id, s.transaction_id) as payment_id
  from sales s
  left join (
    select p.id as program_id, i.payment_id, i.transaction_id
    from programs p cross join lateral unnest(accounts_of(p)) a (account_id)
    join processor_payments i on i.account_id = a.account_id
  ) i on i.program_id = s.program_id and i.payment_id = s.transaction_id
  where s.amount_cents > 0 and ($1::bigint is null or s.program_id = $1)
) s
group by s.program_id, s.is_test, s.payment_id having count(*) > 1
`,
  },
  {
    name: `a payment pays the oldest credits first`,
    query: `-- a payment pays the oldest credits first
-- A returned payment gives back its lines, so after that, an older credit can wait longer than a newer one. Such balances are not checked.
with newest as (
  select program_id, partner_id, currency, max(entry_number) filter (where amount_cents > 0) as entry_number
  from payout_lines where $1::bigint is null or program_id = $1
  group by 1, 2, 3 having not bool_or(is_returned)
),
paid as (
  select program_id, partner_id, currency, entry_number, sum(amount_cents) as cents
  from payout_lines where not is_returned and ($1::bigint is null or program_id = $1)
  group by 1, 2, 3, 4
),
unpaid as (
  select e.program_id, e.partner_id, e.currency, e.entry_number, e.amount_cents - coalesce(p.cents, 0) as unpaid_cents
  from balance_entries e left join paid p using (program_id, partner_id, currency, entry_number)
  where e.payout_id is null and ($1::bigint is null or e.program_id = $1)
)
select u.program_id, format('entry %s of partner %s in %s', u.entry_number, u.partner_id, u.currency) as subject,
  format('%s are unpaid', u.unpaid_cents) as found, format('paid before entry %s', n.entry_number) as expected
from unpaid u join newest n using (program_id, partner_id, currency)
where u.unpaid_cents > 0 and u.entry_number < n.entry_number
`,
  },
  {
    name: `a payout was payable at its creation: the balance covered it in addition to older payouts that were paid later or are still open`,
    query: `-- a payout was payable at its creation: the balance covered it in addition to older payouts that were paid later or are still open
with payout as (
  select w.program_id, w.partner_id, w.currency, w.id, w.requested_cents, w.amount_cents, w.decided_at, w.created_at_entry_number,
    (
      select max(e.entry_number) from balance_entries e
      where e.program_id = w.program_id and e.payout_id = w.id and e.cause = 'payout_paid'
    ) as paid_at_entry_number
  from payouts w
  where ($1::bigint is null or w.program_id = $1)
)
select w.program_id, 'payout ' || w.id as subject, format('%s beside %s', w.requested_cents, coalesce(sum(o.amount_cents), 0)) as found,
  'up to ' || coalesce(max(e.balance_after_cents), 0) as expected
from payout w
left join balance_entries e on e.program_id = w.program_id and e.partner_id = w.partner_id and e.currency = w.currency
  and e.entry_number = w.created_at_entry_number
left join payout o on o.program_id = w.program_id and o.partner_id = w.partner_id and o.currency = w.currency and o.id < w.id
  and (o.decided_at is null or o.paid_at_entry_number > w.created_at_entry_number) and not exists (
    select from balance_entries p where p.program_id = o.program_id and p.payout_id = o.id and p.entry_number <= w.created_at_entry_number
    having sum(p.amount_cents) < 0
  )
group by w.program_id, w.id, w.requested_cents
having w.requested_cents + coalesce(sum(o.amount_cents), 0) > coalesce(max(e.balance_after_cents), 0)
`,
  },
  {
    name: `the quarter-hours of grouped totals are in order, each with its sum`,
    query: `-- the quarter-hours of grouped totals are in order, each with its sum
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, metric) as subject, quarters::text as found,
  'quarters from 0 to 95, in order, as many as sums' as expected
from grouped_quarters
where ($1::bigint is null or program_id = $1) and (
  cardinality(quarters) is distinct from cardinality(sums) or cardinality(quarters) = 0
  or quarters <> array(select distinct q from unnest(quarters) q where q between 0 and 95 order by q)
)
union all
select program_id, 'all, day ' || day || ', clicks', sum(all_clicks)::text, sum(link_clicks)::text
from (
  select program_id, day, quarter, case when grouping_name = 'all' then clicks else 0 end as all_clicks,
    case when grouping_name = 'link' then clicks else 0 end as link_clicks
  from (
    select program_id, grouping_name, day, u.quarter, u.sum - lag(u.sum, 1, 0) over (partition by program_id, grouping_name, day, value order by u.quarter) as clicks
    from grouped_quarters cross join unnest(quarters, sums) u (quarter, sum)
    where metric = 'clicks' and grouping_name in ('all', 'link') and ($1::bigint is null or program_id = $1)
  ) quarters
) part
group by program_id, day, quarter having sum(all_clicks) <> sum(link_clicks)
`,
  },
  {
    name: `a reduced payout was reported in full`,
    query: `-- a reduced payout was reported in full
-- The rows of an archive have no notifications and no audit log here.
select w.program_id, 'payout ' || w.id as subject, format('reported %s', coalesce(o.sum, 0)) as found,
  'reduced by ' || w.requested_cents - w.amount_cents as expected
from payouts w
join programs p on p.id = w.program_id
left join (
  select program_id, (payload->>'payout_id')::bigint as id, sum((payload->>'reduced_by_cents')::bigint) from outbox
  where kind = 'payout_reduced' and ($1::bigint is null or program_id = $1) group by 1, 2
) o on o.program_id = w.program_id and o.id = w.id
where ($1::bigint is null or w.program_id = $1) and w.created_at >= greatest(notifications_begin(), p.moved_in_at) and w.requested_cents - w.amount_cents <> coalesce(o.sum, 0)
`,
  },
  {
    name: `every refund of a sale with a commission was reported to the partner, with the reversed amount`,
    query: `-- every refund of a sale with a commission was reported to the partner, with the reversed amount
-- Refunds of tax alone reverse nothing, so they aren't reported. Refunds that were undone before the sale had a commission aren't reported
-- either. The refund's transaction may have begun a moment after the one that created the commission. A commission can move to another
-- partner after the report.
select r.program_id, 'refund ' || r.id as subject, format('%s %s', o.kind, o.payload->>'amount_cents') as found,
  'reported ' || r.deduction_cents as expected
from refunds r
join programs p on p.id = r.program_id
join commissions c on c.program_id = r.program_id and c.sale_id = r.sale_id and not c.is_shadow
left join outbox o on o.program_id = r.program_id and o.cause = 'refund:' || r.id and o.audience = 'partner'
  and o.kind in ('commission_reversed', 'commission_refunded')
where ($1::bigint is null or r.program_id = $1) and r.created_at >= greatest(notifications_begin(), p.moved_in_at) and case
  when o.id is null then r.deduction_cents > 0 or (c.rejected_at is null and r.applied_cents > 0 and r.untaxed_cents is distinct from 0
    and (r.returned_at is null or r.returned_at > c.created_at + interval '1 minute'))
  else (o.payload->>'amount_cents')::bigint <> r.deduction_cents or o.partner_id <> c.partner_id and (c.moved_at is null or c.moved_at < o.created_at) end
`,
  },
  {
    name: `the refunded amount of a sale is the sum of its refunds that were not undone, and no more than the sale`,
    query: `-- the refunded amount of a sale is the sum of its refunds that were not undone, and no more than the sale
select s.program_id, 'sale ' || s.id as subject, s.refunded_cents::text as found,
  format('%s of %s', coalesce(r.sum, 0), s.amount_cents) as expected
from sales s
left join (
  select program_id, sale_id, sum(applied_cents) from refunds
  where returned_at is null and ($1::bigint is null or program_id = $1) group by program_id, sale_id
) r on r.program_id = s.program_id and r.sale_id = s.id
where ($1::bigint is null or s.program_id = $1) and (s.refunded_cents <> coalesce(r.sum, 0) or s.refunded_cents > s.amount_cents)
`,
  },
  {
    name: `the refunds of a sale that endpoints received follow each other without a gap, up to the stored amount`,
    query: `-- the refunds of a sale that endpoints received follow each other without a gap, up to the stored amount
select m.program_id, format('message %s of sale %s', m.id, m.sale_id) as subject,
  format('%s after %s', m.refunded, m.refunded - m.refunded_by) as found,
  case when m.is_last then format('%s after %s', s.refunded_cents, m.reported_before) else 'after ' || m.reported_before end as expected
from (
  select program_id, id, created_at, (data->>'sale_id')::bigint as sale_id, (data->>'refunded_cents')::bigint as refunded,
    (data->>'refunded_by_cents')::bigint as refunded_by,
    lag((data->>'refunded_cents')::bigint) over reports as reported_before, lag(created_at) over reports as before_at,
    lead(id) over reports is null as is_last
  from webhook_messages where type = 'sale.refunded' and ($1::bigint is null or program_id = $1)
  window reports as (partition by program_id, data->>'sale_id' order by id)
) m
join sales s on s.program_id = m.program_id and s.id = m.sale_id
join (
  select e.program_id, min(greatest(e.created_at, c.changed_at) + interval '1 minute') as since
  from webhook_endpoints e
  left join (
    select program_id, max(created_at) as changed_at from audit_log
    where action in ('webhook.changed', 'webhook.enabled') group by program_id
  ) c on c.program_id = e.program_id
  where 'sale.refunded' = any (e.types) and e.disabled_at is null and e.deleted_at is null
  group by e.program_id
) l on l.program_id = m.program_id
where m.before_at > l.since and m.refunded - m.refunded_by <> m.reported_before
  or m.is_last and m.created_at > l.since and m.refunded <> s.refunded_cents
`,
  },
  {
    name: `every rejection was reported to the partner`,
    query: `-- every rejection was reported to the partner
-- The rows of an archive have no notifications and no audit log here.
select c.program_id, 'commission ' || c.id as subject, 'no notification' as found, 'a notification' as expected
from commissions c
join programs p on p.id = c.program_id
where ($1::bigint is null or c.program_id = $1) and c.rejected_at >= greatest(notifications_begin(), p.moved_in_at) and not c.is_shadow and not exists (
  select from outbox o where o.program_id = c.program_id and o.kind = 'commission_reversed' and o.audience = 'partner'
    and o.cause = 'rejection:' || c.id and o.partner_id = c.partner_id)
`,
  },
  {
    name: `a refund or dispute that the processor reported is a refund of its sale, and is undone if the processor undid it`,
    query: `-- a refund or dispute that the processor reported is a refund of its sale, and is undone if the processor undid it
with account as (
  select p.id as program_id, a.account_id from programs p cross join lateral unnest(accounts_of(p)) a (account_id)
  where a.account_id is not null and ($1::bigint is null or p.id = $1)
),
reversal as (
  select k.program_id, v.livemode, v.reversal_id, v.amount_cents, v.currency,
    -- Several connections can report one account, and each can miss the return.
    max(v.returned_at) over (partition by k.program_id, v.livemode, v.reversal_id) is not null as is_returned,
    coalesce(i.transaction_id, coalesce(v.invoice_id, v.payment_intent_id, v.charge_id)) as payment_id
  from account k
  join processor_reversals v on v.account_id = k.account_id
  left join processor_payments i on i.account_id = v.account_id and i.payment_id = coalesce(v.invoice_id, v.payment_intent_id, v.charge_id)
),
sold as (
  select s.program_id, s.id, s.is_test, s.currency, coalesce(i.transaction_id, s.transaction_id) as payment_id
  from sales s
  left join (
    select k.program_id, i.payment_id, i.transaction_id from account k join processor_payments i on i.account_id = k.account_id
  ) i on i.program_id = s.program_id and i.payment_id = s.transaction_id
  where s.amount_cents > 0 and ($1::bigint is null or s.program_id = $1)
)
select s.program_id, 'sale ' || s.id as subject,
  case when f.id is null then 'no refund' when f.returned_at is null then 'a refund' else 'a returned refund' end as found,
  format('%s of %s%s', v.reversal_id, v.amount_cents, case when v.is_returned then ', returned' else '' end) as expected
from reversal v
join sold s on s.program_id = v.program_id and s.payment_id = v.payment_id and s.is_test <> v.livemode and s.currency = v.currency
left join refunds f on f.program_id = s.program_id and f.sale_id = s.id and f.processor_reversal_id = v.reversal_id
where f.id is null or (f.returned_at is not null) <> v.is_returned
`,
  },
  {
    name: `a payout run has the recorded number of payments`,
    query: `-- a payout run has the recorded number of payments
select r.program_id, format('payout run %s', r.id) as subject, count(w.id)::text as found, r.payments::text as expected
from payout_runs r left join payouts w on w.program_id = r.program_id and w.payout_run_id = r.id
where ($1::bigint is null or r.program_id = $1)
group by r.program_id, r.id, r.payments having count(w.id) <> r.payments
`,
  },
  {
    name: `a sale commission has the partner, customer and currency of its live sale, and is no more than its base plus its fixed amount`,
    query: `-- a sale commission has the partner, customer and currency of its live sale, and is no more than its base plus its fixed amount
select c.program_id, 'commission ' || c.id as subject,
  format('partner %s customer %s %s %s', c.partner_id, c.customer_id, c.amount_cents, c.currency) as found,
  format('partner %s customer %s up to %s %s%s', s.partner_id, s.customer_id, s.commission_base_cents + f.fixed_cents, s.currency,
    case when s.is_test then ', no test sale' end) as expected
from commissions c
join sales s on s.program_id = c.program_id and s.id = c.sale_id
cross join lateral (
  select coalesce((select sum(t.fixed_cents) from unnest(s.terms_by_line) t), s.commission_fixed_cents, 0) as fixed_cents
) f
where ($1::bigint is null or c.program_id = $1)
  and ((c.partner_id, c.customer_id, c.currency, c.code_id) is distinct from (s.partner_id, s.customer_id, s.currency, s.code_id)
    or c.amount_cents > s.commission_base_cents + f.fixed_cents or s.is_test)
`,
  },
  {
    name: `a sale that no rule decides has a rate that its program had since the sale`,
    query: `-- a sale that no rule decides has a rate that its program had since the sale
select s.program_id, 'sale ' || s.id as subject, s.bp || ' basis points' as found, 'a rate that the program had' as expected
from (
  select s.program_id, s.id, s.created_at, coalesce((s.terms_among).commission_bp, s.commission_bp) as bp from sales s
  join programs p on p.id = s.program_id
  where s.partner_id is not null and s.created_at > greatest(audit_log_begins(), p.moved_in_at) and not coalesce(s.resolution ? 'partner_left', false)
    and ($1::bigint is null or s.program_id = $1)
) s
join programs p on p.id = s.program_id
left join (
  select a.program_id, a.created_at, v.value from audit_log a cross join jsonb_array_elements_text(a.details->'commission_bp') v (value)
  where a.action = 'program.changed' and a.details ? 'commission_bp'
) c on c.program_id = s.program_id and c.value = s.bp::text and c.created_at >= s.created_at
where s.bp <> p.commission_bp and c.program_id is null
`,
  },
  {
    name: `a sale has the partner of its code, or else its customer's`,
    query: `-- a sale has the partner of its code, or else its customer's
select s.program_id, 'sale ' || s.id as subject, 'partner ' || s.partner_id as found,
  'partner ' || coalesce(k.partner_id::text, case when s.code_id is null then u.partner_id::text end, 'of a code that exists') as expected
from sales s
join customers u on u.program_id = s.program_id and u.id = s.customer_id
left join partner_codes k on k.program_id = s.program_id and k.id = s.code_id
where ($1::bigint is null or s.program_id = $1) and not s.is_test
  and s.partner_id is distinct from case when s.code_id is null then u.partner_id else k.partner_id end
`,
  },
  {
    name: `a sale's lines have the terms of the first matching rules when it was attributed, or the program's terms`,
    query: `-- a sale's lines have the terms of the first matching rules when it was attributed, or the program's terms
with line as (
  select s.program_id, s.id, l.weight,
    -- Fixed amounts and caps apply only to sales in the program's currency.
    jsonb_build_array(r.id,
      case when r.id is null then coalesce((s.terms_among).commission_bp, s.commission_bp) else r.commission_bp end,
      case when r.id is not null then r.commission_duration_months
        when (s.terms_among).rules_version is null then s.commission_months else (s.terms_among).commission_months end,
      case when s.currency = p.currency then nullif(r.commission_fixed_cents, 0) end,
      case when s.currency = p.currency then r.lifetime_cap_cents end) as terms,
    row_number() over (partition by s.program_id, s.id, l.number order by r.rank) as place
  from sales s
  join programs p on p.id = s.program_id
  cross join lateral unnest(coalesce(s.lines, array[(null, 1)::sale_line])) with ordinality l (product_ids, weight, number)
  left join lateral (
    select c.*, 1000 * case when c.partner_id is not null then 1 when c.group_id is not null then 2 else 3 end
      + coalesce(array_position(l.product_ids, c.product_id), case when c.sale_type is not null then 998 else 999 end) as rank
    from commission_rules c
    where c.program_id = s.program_id
      and (s.terms_among).rules_version between c.since_version and coalesce(c.until_version - 1, 2147483647)
      and coalesce(c.partner_id, s.partner_id) = s.partner_id
      and (c.group_id is null or c.group_id = (s.terms_among).group_id)
      and (c.product_id is null or array_position(l.product_ids, c.product_id) is not null)
      and coalesce(c.sale_type, s.sale_type) = s.sale_type
      and (s.currency = p.currency or c.commission_bp > 0 or c.commission_fixed_cents = 0)
  ) r on true
  where ($1::bigint is null or s.program_id = $1) and ((s.terms_among).rules_version is not null or s.commission_rule_id is not null)
),
part as (
  select program_id, id, terms, sum(weight) as weight from line where place = 1 group by program_id, id, terms
),
expected as (
  select program_id, id, jsonb_agg(terms || to_jsonb(weight) order by weight desc, terms) as terms, count(*) as parts from part group by program_id, id
)
select s.program_id, 'sale ' || s.id as subject, f.terms::text as found, e.terms::text as expected
from expected e
join sales s on s.program_id = e.program_id and s.id = e.id
cross join lateral (
  select jsonb_agg(x.terms order by x.weight desc, x.terms) as terms
  from (
    select jsonb_build_array(t.rule_id, t.commission_bp, t.commission_months, t.fixed_cents, t.cap_cents, t.weight) as terms, t.weight
    from unnest(s.terms_by_line) t
    union all
    select jsonb_build_array(s.commission_rule_id, s.commission_bp, s.commission_months, s.commission_fixed_cents, s.commission_cap_cents,
      e.terms->0->5), 1
    where s.terms_by_line is null
  ) x
) f
where f.terms <> e.terms
union all
select m.program_id, 'commission ' || m.id, format('%s by rule %s', m.amount_cents, m.lead_rule_id), coalesce(r.lead_commission_cents::text, 'no such rule')
from commissions m
left join commission_rules r on r.program_id = m.program_id and r.id = m.lead_rule_id
  and (r.partner_id is null or r.partner_id = m.partner_id)
where ($1::bigint is null or m.program_id = $1) and m.lead_rule_id is not null
  and (m.kind <> 'lead' or m.amount_cents is distinct from r.lead_commission_cents)
`,
  },
  {
    name: `a sale has the amount, the untaxed part, the currency and the time of an event of its source, and a sale that only the API reported has its own time`,
    query: `-- a sale has the amount, the untaxed part, the currency and the time of an event of its source, and a sale that only the API reported has its own time
with account as (
  select p.id as program_id, a.account_id from programs p cross join lateral unnest(accounts_of(p)) a (account_id)
  where a.account_id is not null and ($1::bigint is null or p.id = $1)
),
fee as (
  select k.program_id, e.livemode, i.payment_id, max((e.fact->>'fee_cents')::bigint) as cents
  from account k
  join processor_events e on e.account_id = k.account_id
  cross join lateral jsonb_array_elements_text(e.fact->'payment_ids') i (payment_id)
  where e.fact->>'kind' = 'payment_fee' and e.outcome in ('recorded', 'duplicate')
  group by k.program_id, e.livemode, i.payment_id
),
event as (
  select k.program_id, e.livemode, coalesce(i.transaction_id, e.fact#>>'{sale,transaction_id}') as payment_id, e.fact#>>'{sale,amount_source}' as source,
    (e.fact#>>'{sale,amount_cents}')::bigint as amount_cents, (e.fact#>>'{sale,commission_base_cents}')::bigint as base_cents,
    greatest((e.fact#>>'{sale,processor_fee_cents}')::bigint, f.cents, 0) as fee_cents, e.fact#>>'{sale,currency}' as currency,
    (e.fact#>>'{sale,sale_date}')::timestamptz as sale_date
  from account k
  join processor_events e on e.account_id = k.account_id
  left join processor_payments i on i.account_id = e.account_id and i.payment_id = e.fact#>>'{sale,transaction_id}'
  left join fee f on f.program_id = k.program_id and f.livemode = e.livemode and f.payment_id = e.fact#>>'{sale,transaction_id}'
  where e.fact#>>'{sale,transaction_id}' is not null and e.outcome in ('recorded', 'duplicate')
),
sold as (
  select s.*, coalesce(i.transaction_id, s.transaction_id) as payment_id
  from sales s
  left join (
    select k.program_id, i.payment_id, i.transaction_id from account k join processor_payments i on i.account_id = k.account_id
  ) i on i.program_id = s.program_id and i.payment_id = s.transaction_id
  where s.amount_cents > 0 and ($1::bigint is null or s.program_id = $1)
)
select s.program_id, 'sale ' || s.id as subject,
  format('%s of it %s %s on %s', s.amount_cents, s.commission_base_cents, s.currency, s.sale_date) as found,
  string_agg(distinct format('%s of it %s %s on %s', e.amount_cents, b.base_cents, e.currency, e.sale_date), ' or ') as expected
from sold s
join event e on e.program_id = s.program_id and e.payment_id = s.payment_id and e.source = s.amount_source::text and e.livemode <> s.is_test
-- A sale stores a fee if the program's commission base excludes fees.
cross join lateral (select case when s.processor_fee_cents is null then e.base_cents else greatest(0, e.base_cents - e.fee_cents) end as base_cents) b
group by s.program_id, s.id, s.amount_cents, s.commission_base_cents, s.currency, s.sale_date
-- The events of one payment are some seconds apart.
having not bool_or((e.amount_cents, b.base_cents, e.currency) = (s.amount_cents, s.commission_base_cents, s.currency::text)
  and s.sale_date between e.sale_date - interval '1 hour' and e.sale_date + interval '1 hour')
union all
select s.program_id, 'sale ' || s.id, 'sold on ' || s.sale_date, 'sold on ' || s.created_at
from sales s
where s.request_id is not null and s.amount_source = 'api' and s.sale_date <> s.created_at and ($1::bigint is null or s.program_id = $1)
`,
  },
  {
    name: `every sale and commission was sent once to each endpoint that was subscribed to it at that time`,
    query: `-- every sale and commission was sent once to each endpoint that was subscribed to it at that time
select t.program_id, format('%s of %s for endpoint %s', t.type, t.id, l.id) as subject, coalesce(w.times, 0)::text as found, '1' as expected
from (
  select program_id, 'sale.created' as type, id, created_at from sales
  where customer_id is not null and not is_test and ($1::bigint is null or program_id = $1)
  union all
  select program_id, 'commission.created', id, created_at from commissions where $1::bigint is null or program_id = $1
) t
-- A transaction that ran while an endpoint was created or changed may not have seen the endpoint.
join (
  select e.program_id, e.id, e.types, greatest(e.created_at, c.changed_at, p.moved_in_at, now() - interval '29 days') + interval '1 minute' as since
  from webhook_endpoints e
  join programs p on p.id = e.program_id
  left join (
    select program_id, max(created_at) as changed_at from audit_log
    where action in ('webhook.changed', 'webhook.enabled') group by program_id
  ) c on c.program_id = e.program_id
  where e.disabled_at is null and e.deleted_at is null
) l on l.program_id = t.program_id and t.type = any (l.types) and t.created_at > l.since
left join (
  select m.program_id, d.endpoint_id, m.type, coalesce(m.data->>'commission_id', m.data->>'sale_id')::bigint as id, count(*) as times
  from webhook_messages m
  join webhook_deliveries d on d.program_id = m.program_id and d.message_id = m.id
  where m.type in ('sale.created', 'commission.created') and ($1::bigint is null or m.program_id = $1)
  group by 1, 2, 3, 4
) w on w.program_id = t.program_id and w.endpoint_id = l.id and w.type = t.type and w.id = t.id
where w.times is distinct from 1
`,
  },
  {
    name: `no commission of shadow mode is credited, and a program in shadow mode credits nothing`,
    query: `-- no commission of shadow mode is credited, and a program in shadow mode credits nothing
select c.program_id, 'commission ' || c.id as subject, 'credited' as found, 'not credited' as expected
from commissions c
where c.is_shadow and c.credited_at is not null and ($1::bigint is null or c.program_id = $1)
union all
select e.program_id, format('entry %s of partner %s in %s', e.entry_number, e.partner_id, e.currency), e.cause, 'none in shadow mode'
from balance_entries e join programs p on p.id = e.program_id
where p.shadow_ended_at is null and e.created_at >= p.shadow_since
  and (e.cause in ('commission_credited', 'adjusted', 'payout_paid') or e.cause = 'opening_balance' and e.amount_cents > 0)
  and ($1::bigint is null or e.program_id = $1)
`,
  },
  {
    name: `a webhook message has a delivery to an endpoint`,
    query: `-- a webhook message has a delivery to an endpoint
select m.program_id, 'message ' || m.id as subject, 'no delivery' as found, 'a delivery' as expected
from webhook_messages m
left join (select distinct program_id, message_id from webhook_deliveries where $1::bigint is null or program_id = $1) d
  on d.program_id = m.program_id and d.message_id = m.id
where ($1::bigint is null or m.program_id = $1) and d.message_id is null
`,
  },
  {
    name: `a program's webhook types are the types that its endpoints subscribe to`,
    query: `-- a program's webhook types are the types that its endpoints subscribe to
select p.id as program_id, 'types of webhooks' as subject, p.webhook_types::text as found, w.types::text as expected
from programs p
left join (
  select e.program_id, array_agg(distinct t.type::text order by t.type::text) as types
  from webhook_endpoints e cross join unnest(e.types) t (type)
  where e.disabled_at is null and e.deleted_at is null
  group by e.program_id
) w on w.program_id = p.id
where ($1::bigint is null or p.id = $1) and p.webhook_types is distinct from w.types
`,
  },
]
