import { type InferResult, sql } from 'kysely'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'

export type TestFigures = Awaited<ReturnType<typeof readTestFigures>>

/**
 * Sums a program's test data since the data was last cleared: test clicks, leads and sales, the latest test event from the processor, and
 * money per currency in its smallest unit. `commission_cents` assumes that a partner referred each buyer. It uses the terms of an
 * attributed sale, or else the program's current terms, and deducts refunds. `lead_commission_cents` counts each customer key once, in
 * the program's currency. Test data is never paid.
 */
export async function readTestFigures(db: Database, programId: number) {
  const [[counts], money] = await db.batch([countsStatement(programId), moneyStatement(programId)])
  if (!counts) throw new Error(`there is no program ${programId}`)
  return { ...counts, money }
}

function countsStatement(programId: number) {
  return kysely
    .selectFrom('programs as p')
    .where('p.id', '=', programId)
    .select((eb) => [
      sql<number>`(select count(*) from affiliate_click_events e where e.program_id = p.id and e.is_test = true)`.as(
        'clicks',
      ),
      sql<number>`(select count(*) from affiliate_lead_events e where e.program_id = p.id and e.is_test = true)`.as(
        'leads',
      ),
      eb
        .selectFrom('affiliate_lead_events as e')
        .select(() => sql<number>`count(distinct e.customer_key) * p.lead_commission_cents`.as('cents'))
        .whereRef('e.program_id', '=', 'p.id')
        .where('e.is_test', '=', eb.lit(true))
        .where('e.provisional', '=', eb.lit(false))
        .$asScalar()
        .$notNull()
        .as('lead_commission_cents'),
      eb
        .selectFrom('processor_events as e')
        .select((event) => event.fn.max('e.received_at').as('at'))
        .where('e.livemode', '=', eb.lit(false))
        .where((event) =>
          event.or([
            event('e.program_id', '=', event.ref('p.id')),
            event.and([
              event('e.program_id', 'is', null),
              event('e.account_id', '=', event.ref('p.processor_account_id')),
            ]),
          ]),
        )
        .as('last_webhook_at'),
    ])
}

/** Treats a customer's first test sale as their first purchase, because the program may count the months of commissions from it. */
function moneyStatement(programId: number) {
  const sales = kysely
    .selectFrom('sales as s')
    .innerJoin('programs as p', 'p.id', 's.program_id')
    .select([
      's.currency',
      's.amount_cents',
      's.refunded_cents',
      's.payment_status',
      sql<number>`commission_of(s.commission_base_cents, coalesce(s.commission_bp, p.commission_bp), s.commission_fixed_cents,
        case when s.customer_id is null then p.commission_duration_months else s.commission_months end, s.sale_date,
        min(s.sale_date) over (partition by coalesce(s.customer_key, s.processor_customer_id, s.id::text)), null)`.as(
        'earned_cents',
      ),
      sql`refunded_part(s, null)`.as('part'),
    ])
    .where('s.program_id', '=', programId)
    .where((eb) => eb('s.is_test', '=', eb.lit(true)))
  return kysely
    .selectFrom(sales.as('t'))
    .select((eb) => [
      't.currency',
      eb.fn.countAll<number>().filterWhere('t.payment_status', '=', 'paid').as('sales'),
      paidSum('t.amount_cents').as('revenue_cents'),
      paidSum('t.refunded_cents').as('refunded_cents'),
      paidSum('t.earned_cents - reversed_share(t.earned_cents, (t.part).refunded, (t.part).whole)').as(
        'commission_cents',
      ),
    ])
    .groupBy('t.currency')
    .orderBy('t.currency')
}

/** Sums over paid sales, like the figures of live data. */
function paidSum(expression: string) {
  return sql<number>`coalesce(sum(${sql.raw(expression)}) filter (where t.payment_status = 'paid'), 0)::bigint`
}

export type TestMoney = InferResult<ReturnType<typeof moneyStatement>>[number]

const batchRows = 500
/** Limits the duration of one request. */
const maxBatches = 20

/**
 * Deletes a program's test data, but no live data. The ids of its test sales can be used again. Works in batches, up to ten thousand rows
 * of each kind. Returns the number of deleted rows and whether more are left.
 */
export async function clearTestData(db: Database, programId: number): Promise<{ deleted: number; more: boolean }> {
  let deleted = 0
  for (let batch = 0; batch < maxBatches; batch++) {
    const [cleared] = await db.query(
      call('clear_test_data', { of_program_id: programId, batch_rows: batchRows, is_begun: batch > 0 }),
    )
    deleted += cleared?.deleted ?? 0
    if (!cleared?.more) return { deleted, more: false }
  }
  return { deleted, more: true }
}
