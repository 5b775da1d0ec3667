import { type RawBuilder, sql } from 'kysely'
import { newClickIdStem } from '../tracking/clicks.ts'
import type { ProcessorEvent, Purchase } from './facts.ts'

/** CTE `program`: the one that the metadata names, where it is connected to the event's account. */
export function programCte(event: ProcessorEvent, programId: number | null): RawBuilder<unknown> {
  return sql`program as (select * from programs where id = ${programId}::bigint and processor_account_id = ${event.account_id})`
}

/**
 * CTE `customer`, at most one row: who bought. The partner is that of, in this order, the click id; the lead with this e-mail
 * address; the processor's customer id as an earlier attributed purchase showed it; the customer key. Whose an unpaid session
 * is was settled when it was completed and comes before all.
 *
 * A click counts if it was valid when the buyer set out to buy; one whose customer became a lead or a buyer names that customer for
 * ever, which is how renewals are attributed after the cookie's window. The person is the one with the customer key where
 * that one has the same partner, since two people can come through one click. The row is locked, so that a click on another link
 * moves the customer before the sale is recorded or, as a buyer's partner is fixed, not at all.
 */
export function customerCte(purchase: Purchase): RawBuilder<unknown> {
  const { session_id: sessionId, click_id: clickId, customer_key: key, email_hash: emailHash } = purchase
  return sql`buyer as (
  select c.program_id, c.id, c.partner_id
  from program p
  cross join lateral (
    select 0 as step, s.customer_id as id from processor_sessions s where s.program_id = p.id and s.session_id = ${sessionId}
    union all
    select 1, c.id from customers c where c.program_id = p.id and c.click_id = ${clickId}
      and (c.last_click_at > ${purchase.started_at}::timestamptz - make_interval(days => p.cookie_window_days)
        or (c.customer_status <> 'click' and (c.customer_key is null or ${key}::text is null or c.customer_key = ${key})))
    union all
    (select 2, c.id from customers c where c.program_id = p.id and c.email_hash = decode(${emailHash}::text, 'hex')
      and c.signup_date is not null order by c.signup_date, c.id limit 1)
    union all
    select 3, k.customer_id from processor_customers k
    where k.program_id = p.id and k.processor_customer_id = ${purchase.processor_customer_id}
    union all
    select 4, c.id from customers c where c.program_id = p.id and c.customer_key = ${key}
    order by step limit 1
  ) found
  join customers c on c.program_id = p.id and c.id = found.id
),
customer as (
  select c.* from buyer b
  join customers c on c.program_id = b.program_id and c.id = coalesce((
    select k.id from customers k where k.program_id = b.program_id and k.customer_key = ${key} and k.partner_id = b.partner_id
  ), b.id)
  for no key update of c
)`
}

/**
 * Statements that write down whose a purchase is, to run before the sale is recorded: a second customer where the click's carries
 * another key; the customer key where the customer has none; the processor's customer id; the unpaid session. A checkout
 * also settles the customer's provisional lead, which counts it and pays for it.
 */
export function attributionStatements(event: ProcessorEvent, purchase: Purchase): RawBuilder<unknown>[] {
  const { session_id: sessionId, click_id: clickId, customer_key: key, processor_customer_id: customerId } = purchase
  const program = programCte(event, purchase.program_id)
  return [
    ...(key === null || clickId === null
      ? []
      : [
          sql`with ${program} select add_second_customer(id, ${key}, ${clickId}, ${newClickIdStem(Date.now())},
    ${purchase.started_at}::timestamptz - make_interval(days => cookie_window_days)) from program`,
        ]),
    sql`with ${program}, ${customerCte(purchase)},
processor_customer as (
  insert into processor_customers (program_id, processor_customer_id, customer_id)
  select program_id, ${customerId}::text, id from customer where ${customerId}::text is not null on conflict do nothing
),
processor_session as (
  insert into processor_sessions (program_id, session_id, customer_id)
  select program_id, ${sessionId}::text, id from customer where ${purchase.awaits_payment}::boolean on conflict do nothing
),
known as (
  select c.program_id, c.id, ${purchase.settles_lead}::boolean and c.provisional_lead_at is not null as settles, case
    when not exists (select from customers k where k.program_id = c.program_id and k.customer_key = ${key}) then ${key}::text
  end as customer_key
  from customer c
),
settled as (
  update customers c set
    customer_key = coalesce(c.customer_key, k.customer_key),
    signup_date = case when k.settles then coalesce(c.signup_date, now()) else c.signup_date end,
    lead_event_id = case when k.settles then coalesce(c.lead_event_id, nextval('affiliate_lead_events_id_seq')) else c.lead_event_id end,
    customer_status = case when k.settles and c.customer_status = 'click' then 'lead' else c.customer_status end,
    email_hash = case when k.settles and c.signup_date is null then coalesce(decode(${purchase.email_hash}::text, 'hex'), c.email_hash)
      else c.email_hash end
  from known k
  where c.program_id = k.program_id and c.id = k.id
    and (k.settles and c.signup_date is null or c.customer_key is null and k.customer_key is not null)
  returning new as customer, old.signup_date is null and new.signup_date is not null as first
)
select record_settled_lead(customer, null, null, null) from settled where first`,
  ]
}
