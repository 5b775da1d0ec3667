import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/** A visitor's actions and their time. */
export interface Journey {
  /** The click id, or the customer key if a code referred them. */
  customer: string
  clickAt: Date
  leadAt: Date
  saleAt: Date
}

/** Moves a program's records to the times of their visitors, and recomputes its totals. */
export async function moveBack(
  db: Database,
  programId: number,
  past: { weeks: number; holdDays: number; journeys: Journey[] },
): Promise<void> {
  await db.batch([...moves(programId, past), ...countAgain(programId)])
}

function moves(
  programId: number,
  { weeks, holdDays, journeys }: { weeks: number; holdDays: number; journeys: Journey[] },
) {
  const openedAt = sql<Date>`now() - make_interval(weeks => ${weeks}, hours => 1)`
  const times = (name: 'clickAt' | 'leadAt' | 'saleAt') => journeys.map((journey) => journey[name].toISOString())
  const journey = sql<{ customer: string; click_at: Date; lead_at: Date; sale_at: Date }>`unnest(
    ${journeys.map(({ customer }) => customer)}::text[], ${times('clickAt')}::timestamptz[], ${times('leadAt')}::timestamptz[],
    ${times('saleAt')}::timestamptz[])`.as<'j'>(sql`j (customer, click_at, lead_at, sale_at)`)
  return [
    kysely.updateTable('programs').set({ created_at: openedAt }).where('id', '=', programId),
    ...(['partners', 'partner_groups', 'partner_codes', 'program_terms'] as const).map((table) =>
      kysely.updateTable(table).set({ created_at: openedAt }).where('program_id', '=', programId),
    ),
    kysely
      .updateTable('applications')
      .set({ applied_at: openedAt, verified_at: openedAt, decided_at: openedAt })
      .where('program_id', '=', programId),
    kysely
      .updateTable('customers as c')
      .from(journey)
      .set({
        created_at: (eb) => eb.ref('j.click_at'),
        signup_date: (eb) => eb.case().when('c.signup_date', 'is not', null).then(eb.ref('j.lead_at')).end(),
        first_purchase_date: (eb) =>
          eb.case().when('c.first_purchase_date', 'is not', null).then(eb.ref('j.sale_at')).end(),
      })
      .where('c.program_id', '=', programId)
      .where((eb) => eb('j.customer', 'in', [eb.ref('c.click_id'), eb.ref('c.customer_key')])),
    kysely
      .updateTable('affiliate_click_events')
      .set({ created_at: (eb) => eb.ref('click_timestamp') })
      .where('program_id', '=', programId),
    kysely
      .updateTable('affiliate_lead_events as e')
      .from('customers as c')
      .set({
        lead_timestamp: (eb) => eb.ref('c.signup_date').$notNull(),
        created_at: (eb) => eb.ref('c.signup_date').$notNull(),
      })
      .where('e.program_id', '=', programId)
      .whereRef('c.program_id', '=', 'e.program_id')
      .whereRef('c.id', '=', 'e.customer_id'),
    kysely
      .updateTable('sales as s')
      .from('customers as c')
      .set({
        sale_date: (eb) => eb.ref('c.first_purchase_date').$notNull(),
        created_at: (eb) => eb.ref('c.first_purchase_date').$notNull(),
        // The sale's explanation must show the same time.
        resolution: sql`s.resolution || jsonb_build_object('came_at', c.created_at, 'at', c.first_purchase_date)`,
      })
      .where('s.program_id', '=', programId)
      .whereRef('c.program_id', '=', 's.program_id')
      .whereRef('c.id', '=', 's.customer_id'),
    kysely
      .updateTable('commissions as m')
      .from('sales as s')
      .set({
        created_at: (eb) => eb.ref('s.sale_date'),
        hold_until: (eb) => sql<Date>`${eb.ref('s.sale_date')} + make_interval(days => ${holdDays})`,
      })
      .where('m.program_id', '=', programId)
      .whereRef('s.program_id', '=', 'm.program_id')
      .whereRef('s.id', '=', 'm.sale_id'),
  ]
}

/** Recomputes the totals from the rows. The counting functions add their own totals later, because all rows become uncounted. */
function countAgain(programId: number) {
  // If a code decided the partner, the customer counts for that partner.
  const facts = sql`(
    select id, partner_id, null::bigint as code_id, last_click_at, signup_date as at, 1 as leads, 0 as conversions
    from customers where program_id = ${programId} and signup_date is not null
    union all
    select c.id, coalesce(k.partner_id, c.partner_id), c.code_id, c.last_click_at, c.first_purchase_date, 0, 1
    from customers c left join partner_codes k on k.program_id = c.program_id and k.id = c.code_id
    where c.program_id = ${programId} and c.first_purchase_date is not null
  ) fact`
  const sales = sql`sales s join commissions m on m.program_id = s.program_id and m.sale_id = s.id
    join customers c on c.program_id = s.program_id and c.id = s.customer_id where s.program_id = ${programId}`
  return [
    // Locks the uncounted rows first, so that the batch waits for a running count-clicks.
    ...(
      [
        'uncounted_clicks',
        'uncounted_figures',
        'link_clicks',
        'link_months',
        'grouped_totals',
        'grouped_quarters',
        'customer_origins',
        'daily_totals',
        'daily_money',
      ] as const
    ).map((table) => kysely.deleteFrom(table).where('program_id', '=', programId)),
    kysely
      .insertInto('uncounted_clicks')
      .columns(['program_id', 'link_id', 'clicked_at', 'event_id'])
      .expression(
        sql`select program_id, link_id, click_timestamp, id from affiliate_click_events where program_id = ${programId}`,
      ),
    kysely
      .insertInto('uncounted_figures')
      .columns(['program_id', 'customer_id', 'partner_id', 'code_id', 'clicked_at', 'at', 'leads', 'conversions'])
      .expression(
        sql`select ${programId}::bigint, id, partner_id, code_id, last_click_at, at, leads, conversions from ${facts}`,
      ),
    kysely
      .insertInto('uncounted_figures')
      .columns([
        'program_id',
        'customer_id',
        'partner_id',
        'code_id',
        'clicked_at',
        'at',
        'currency',
        'sales',
        'revenue_cents',
        'commission_cents',
      ])
      .expression(
        sql`select s.program_id, c.id, s.partner_id, s.code_id, c.last_click_at, s.sale_date, s.currency, 1, s.amount_cents, m.amount_cents from ${sales}`,
      ),
    kysely
      .insertInto('daily_totals')
      .columns(['program_id', 'day', 'slot', 'leads', 'conversions'])
      .expression(
        sql`select ${programId}::bigint, utc_day(at), counter_slot(at), sum(leads), sum(conversions) from ${facts} group by 2, 3`,
      ),
    kysely
      .insertInto('daily_money')
      .columns([
        'program_id',
        'day',
        'currency',
        'slot',
        'sales',
        'revenue_cents',
        'commission_cents',
        'refunded_cents',
      ])
      .expression(
        sql`select s.program_id, utc_day(s.sale_date), s.currency, counter_slot(s.sale_date), count(*),
          sum(s.amount_cents), sum(m.amount_cents), sum(s.refunded_cents) from ${sales} group by 1, 2, 3, 4`,
      ),
  ]
}
