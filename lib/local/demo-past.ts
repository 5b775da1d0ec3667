import { type Expression, sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/** What one visitor did, and when it is made to have happened. */
export interface Journey {
  /** Their click id, or the customer key of somebody who came by a code. */
  customer: string
  clickAt: Date
  leadAt: Date
  saleAt: Date
}

/** Moves what a program has recorded into the past, where its visitors are to have come, and counts its totals again. */
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
        // So that its explanation says the same.
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

/**
 * Statements that make the totals anew from the rows, each in the hour where its row is now: those that the counting keeps are left to it, as if nothing
 * had been counted.
 */
function countAgain(programId: number) {
  const codesPartner = (codeId: Expression<number | null>, partnerId: Expression<number>) => sql<number>`coalesce(
    (select k.partner_id from partner_codes k where k.program_id = ${programId} and k.id = ${codeId}), ${partnerId})`
  const leads = kysely
    .selectFrom('customers')
    .select((eb) => [
      eb.ref('signup_date').$notNull().as('at'),
      eb.lit<number>(1).as('leads'),
      eb.lit<number>(0).as('conversions'),
      'id',
      'partner_id',
      eb.val<number | null>(null).as('code_id'),
      'last_click_at',
    ])
    .where('program_id', '=', programId)
    .where('signup_date', 'is not', null)
  const conversions = kysely
    .selectFrom('customers')
    .select((eb) => [
      eb.ref('first_purchase_date').$notNull().as('at'),
      eb.lit<number>(0).as('leads'),
      eb.lit<number>(1).as('conversions'),
      'id',
      // Theirs whose code decided over it.
      codesPartner(eb.ref('code_id'), eb.ref('partner_id')).as('partner_id'),
      'code_id',
      'last_click_at',
    ])
    .where('program_id', '=', programId)
    .where('first_purchase_date', 'is not', null)
  return [
    // First, because a run of count-clicks may be moving some into the counters: it is waited for.
    kysely.deleteFrom('uncounted_clicks').where('program_id', '=', programId),
    kysely.deleteFrom('uncounted_figures').where('program_id', '=', programId),
    kysely.deleteFrom('link_clicks').where('program_id', '=', programId),
    kysely.deleteFrom('link_months').where('program_id', '=', programId),
    kysely.deleteFrom('grouped_days').where('program_id', '=', programId),
    kysely.deleteFrom('grouped_months').where('program_id', '=', programId),
    kysely.deleteFrom('grouped_quarters').where('program_id', '=', programId),
    kysely.deleteFrom('customer_origins').where('program_id', '=', programId),
    kysely
      .insertInto('uncounted_clicks')
      .columns(['program_id', 'link_id', 'clicked_at', 'event_id'])
      .expression((eb) =>
        eb
          .selectFrom('affiliate_click_events')
          .select((event) => ['program_id', event.ref('link_id').$notNull().as('link_id'), 'click_timestamp', 'id'])
          .where('program_id', '=', programId),
      ),
    kysely
      .insertInto('uncounted_figures')
      .columns(['program_id', 'customer_id', 'partner_id', 'code_id', 'clicked_at', 'at', 'leads', 'conversions'])
      .expression((eb) =>
        eb
          .selectFrom(leads.unionAll(conversions).as('fact'))
          .select((fact) => [
            fact.val(programId).as('program_id'),
            'fact.id',
            'fact.partner_id',
            'fact.code_id',
            'fact.last_click_at',
            'fact.at',
            'fact.leads',
            'fact.conversions',
          ]),
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
      .expression((eb) =>
        eb
          .selectFrom('sales as s')
          .innerJoin('commissions as m', (join) =>
            join.onRef('m.program_id', '=', 's.program_id').onRef('m.sale_id', '=', 's.id'),
          )
          .innerJoin('customers as c', (join) =>
            join.onRef('c.program_id', '=', 's.program_id').onRef('c.id', '=', 's.customer_id'),
          )
          .select((sale) => [
            's.program_id',
            'c.id',
            sale.ref('s.partner_id').$notNull().as('partner_id'),
            's.code_id',
            'c.last_click_at',
            's.sale_date',
            's.currency',
            sale.lit<number>(1).as('sales'),
            's.amount_cents',
            'm.amount_cents as commission_cents',
          ])
          .where('s.program_id', '=', programId),
      ),
    kysely.deleteFrom('daily_totals').where('program_id', '=', programId),
    kysely
      .insertInto('daily_totals')
      .columns(['program_id', 'day', 'slot', 'leads', 'conversions'])
      .expression((eb) =>
        eb
          .selectFrom(leads.unionAll(conversions).as('fact'))
          .select((fact) => [
            fact.val(programId).as('program_id'),
            fact.fn('utc_day', ['at']).as('day'),
            fact.fn('counter_slot', ['at']).as('slot'),
            fact.fn.sum('leads').as('leads'),
            fact.fn.sum('conversions').as('conversions'),
          ])
          .groupBy((fact) => [fact.fn('utc_day', ['at']), fact.fn('counter_slot', ['at'])]),
      ),
    kysely.deleteFrom('daily_money').where('program_id', '=', programId),
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
      .expression((eb) =>
        eb
          .selectFrom('sales as s')
          .innerJoin('commissions as m', (join) =>
            join.onRef('m.program_id', '=', 's.program_id').onRef('m.sale_id', '=', 's.id'),
          )
          .select((sale) => [
            's.program_id',
            sale.fn('utc_day', ['s.sale_date']).as('day'),
            's.currency',
            sale.fn('counter_slot', ['s.sale_date']).as('slot'),
            sale.fn.countAll().as('sales'),
            sale.fn.sum('s.amount_cents').as('revenue_cents'),
            sale.fn.sum('m.amount_cents').as('commission_cents'),
            sale.fn.sum('s.refunded_cents').as('refunded_cents'),
          ])
          .where('s.program_id', '=', programId)
          .groupBy((sale) => [
            's.program_id',
            sale.fn('utc_day', ['s.sale_date']),
            's.currency',
            sale.fn('counter_slot', ['s.sale_date']),
          ]),
      ),
  ]
}
