import { type Expression, type InferResult, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { flagNames } from './commission-list.ts'
import { type DeliveryOfPayment, deliveriesOfPayment, idsOfPayment, isEventId } from '../processors/webhook-events.ts'

export type ExplainedSale = InferResult<ReturnType<typeof saleStatement>>[number]

/** The reader of the explanation: a program, or a person who is a partner in the program. */
export interface SaleRequest {
  programId: number
  transaction_id: string
  /** Only test sales. */
  test: boolean
  partnerUserId?: string
  /** Whether the reader may see visitors. */
  withCustomer: boolean
}

/**
 * Reads a sale and the processor's events about its payment, oldest first. A payment that is not a sale has only events. One database
 * request.
 */
export async function readForExplanation(
  db: Database,
  request: SaleRequest,
): Promise<{ sale: ExplainedSale | undefined; deliveries: DeliveryOfPayment[] }> {
  if (request.partnerUserId !== undefined) return { sale: (await db.query(saleStatement(request)))[0], deliveries: [] }
  const [[sale], deliveries] = await db.batch([
    saleStatement(request),
    deliveriesOfPayment(request.programId, request.transaction_id, !request.test),
  ])
  return { sale, deliveries }
}

/** Any of the processor's ids for a payment identifies its sale, as in a refund. */
function saleStatement({ programId, transaction_id, test, partnerUserId }: SaleRequest) {
  const isTest = sql.lit(test)
  const query = explainedSales(programId)
    .where('s.is_test', '=', isTest)
    .where((eb) =>
      eb(
        's.id',
        '=',
        eb.fn.coalesce(
          kysely
            .selectFrom('sales as named')
            .select('named.id')
            .where('named.program_id', '=', programId)
            .where('named.is_test', '=', isTest)
            .where('named.transaction_id', '=', transaction_id)
            .$asScalar(),
          saleOfProcessor(programId, transaction_id, test),
        ),
      ),
    )
  if (partnerUserId === undefined) return query
  // Partners don't see shadow-mode commissions.
  return query.where('r.user_id', '=', partnerUserId).where('m.is_shadow', 'is distinct from', sql.lit(true))
}

/** Selects the entries of a commission in the partner's balance, in order. */
export function entriesOf(programId: Expression<number | null>, commissionId: Expression<number | null>) {
  return jsonArrayFrom(
    kysely
      .selectFrom('balance_entries as b')
      .select(['b.entry_number', 'b.cause', 'b.amount_cents', 'b.balance_after_cents', 'b.correction_number'])
      .select(['b.refund_id', 'b.created_at'])
      .where('b.program_id', '=', programId)
      .where('b.commission_id', '=', commissionId)
      // Lists all causes that refer to a commission, because the index begins with the cause.
      .where('b.cause', 'in', [
        'commission_credited',
        'commission_corrected',
        'commission_reversed',
        'reversal_returned',
      ])
      .orderBy('b.entry_number'),
  )
}

/** Selects the parts of a sale `s` with separate terms, or null. `c` is its customer. */
const linesOfSale = sql<
  | {
      rule_id: number | null
      product_id: string | null
      commission_bp: number
      fixed_cents: number
      base_cents: number
      commission_cents: number
    }[]
  | null
>`(
  select json_agg(json_build_object('rule_id', (l.part).rule_id, 'product_id', k.product_id, 'commission_bp', (l.part).commission_bp,
    'fixed_cents', coalesce((l.part).fixed_cents, 0), 'base_cents', l.part_cents, 'commission_cents', l.commission_cents) order by l.place)
  from commissions_of_lines(s.commission_base_cents, s.terms_by_line, s.sale_date, c.first_purchase_date, earlier_commissions(s))
    with ordinality l (part, part_cents, commission_cents, place)
  left join commission_rules k on k.program_id = s.program_id and k.id = (l.part).rule_id
  where s.terms_by_line is not null
)`

/** Selects all stored data about a program's sales. */
export function explainedSales(programId: number) {
  return (
    kysely
      .selectFrom('sales as s')
      .innerJoin('programs as p', 'p.id', 's.program_id')
      .leftJoin('partners as r', (join) =>
        join.onRef('r.program_id', '=', 's.program_id').onRef('r.id', '=', 's.partner_id'),
      )
      .leftJoin('customers as c', (join) =>
        join.onRef('c.program_id', '=', 's.program_id').onRef('c.id', '=', 's.customer_id'),
      )
      .leftJoin('referral_links as l', (join) =>
        join
          .onRef('l.program_id', '=', 's.program_id')
          .on((eb) => eb('l.id', '=', sql<number>`(${eb.ref('s.resolution')}->>'link_id')::bigint`)),
      )
      .leftJoin('commissions as m', (join) =>
        join.onRef('m.program_id', '=', 's.program_id').onRef('m.sale_id', '=', 's.id'),
      )
      .leftJoin('commission_reviews as v', (join) =>
        join.onRef('v.program_id', '=', 'm.program_id').onRef('v.commission_id', '=', 'm.id'),
      )
      .leftJoin('payouts as w', (join) =>
        join.onRef('w.program_id', '=', 'm.program_id').onRef('w.id', '=', 'm.payout_id'),
      )
      .leftJoin('commission_rules as k', (join) =>
        join.onRef('k.program_id', '=', 's.program_id').onRef('k.id', '=', 's.commission_rule_id'),
      )
      .leftJoin('partner_groups as o', (join) =>
        join.onRef('o.program_id', '=', 'k.program_id').onRef('o.id', '=', 'k.group_id'),
      )
      .leftJoin('partner_codes as a', (join) =>
        join.onRef('a.program_id', '=', 's.program_id').onRef('a.id', '=', 's.code_id'),
      )
      .select(['s.code_id', 'a.code'])
      .select(['s.commission_rule_id', 's.commission_fixed_cents', 's.commission_cap_cents', 'o.name as group_name'])
      .select(['k.partner_id as rule_partner_id', 'k.product_id as rule_product_id', 'k.sale_type as rule_sale_type'])
      .select(['k.commission_fixed_cents as rule_fixed_cents', 'k.lifetime_cap_cents as rule_cap_cents'])
      .select(sql<number | null>`left_under_cap(s)`.as('left_cents'))
      .select(linesOfSale.as('lines'))
      .select(['s.transaction_id', 's.is_test', 's.sale_date', 's.created_at', 's.amount_cents', 's.amount_source'])
      .select([
        's.commission_base_cents',
        's.processor_fee_cents',
        's.commission_bp',
        's.commission_months',
        's.refunded_cents',
        's.currency',
      ])
      // The percentage of the base before rounding, computed by the function that commissions use.
      .select([
        sql<
          number | null
        >`commission_of(s.commission_base_cents, s.commission_bp, 0, null, s.sale_date, null, null)`.as('share_cents'),
        sql<string | null>`trim_scale(s.commission_base_cents::numeric * s.commission_bp / 10000)::text`.as(
          'exact_share',
        ),
      ])
      .select(['s.payment_status', 's.resolution', 's.customer_id', 's.customer_key', 's.partner_id'])
      .select(['r.name as partner_name', 'l.id as link_id', 'l.code as link_code', 'p.name as program_name'])
      .select(['c.click_id', 'c.first_purchase_date', 'c.signup_date', 'c.provisional_lead_at'])
      .select([
        'm.id as commission_id',
        'm.status',
        'm.amount_cents as commission_cents',
        'm.reversed_cents',
        'm.reason',
      ])
      .select(['m.corrections', 'm.review_reason', 'm.hold_until', 'm.credited_at', 'm.paid_at', 'm.rejected_at'])
      .select('m.is_shadow')
      .select([
        'm.created_at as commission_created_at',
        'w.id as payout_id',
        'w.payout_run_id',
        'w.reference',
        'w.paid_on',
      ])
      .select(['v.flagged_at', 'v.decision', 'v.decided_at'])
      .select(flagNames)
      .select((eb) => [
        /** Selects the latest click that counted, as long as its event is kept. */
        jsonObjectFrom(
          eb
            .selectFrom('click_events as e')
            .leftJoin('referral_links as k', (join) =>
              join.onRef('k.program_id', '=', 'e.program_id').onRef('k.id', '=', 'e.link_id'),
            )
            .select(['e.page_url', 'e.referrer_url', 'e.geo_country', 'e.device_type', 'e.campaign', 'k.code'])
            .whereRef('e.program_id', '=', 's.program_id')
            .where((of) => of.not('e.is_test'))
            .where('e.click_timestamp', '=', sql<Date>`(${eb.ref('s.resolution')}->>'clicked_at')::timestamptz`)
            .whereRef('e.customer_id', '=', 's.customer_id')
            .limit(1),
        ).as('click'),
        jsonObjectFrom(
          eb
            .selectFrom('commissions as x')
            .innerJoin('partners as y', (join) =>
              join.onRef('y.program_id', '=', 'x.program_id').onRef('y.id', '=', 'x.partner_id'),
            )
            .select(['x.id', 'x.amount_cents', 'x.reversed_cents', 'x.currency', 'x.status', 'x.created_at'])
            .select([
              'x.partner_id',
              'y.name as partner_name',
              'x.held_at',
              'x.rejected_at',
              'x.hold_until',
              'x.credited_at',
              'x.paid_at',
              'x.is_shadow',
            ])
            .whereRef('x.program_id', '=', 's.program_id')
            .whereRef('x.customer_id', '=', 's.customer_id')
            .where('x.kind', '=', 'lead'),
        ).as('lead_commission'),
        jsonArrayFrom(
          eb
            .selectFrom('refunds as f')
            .select([
              'f.id',
              'f.requested_cents',
              'f.applied_cents',
              'f.deduction_cents',
              'f.returned_cents',
              'f.reason',
            ])
            .select(['f.reason_text', 'f.continues_refund_id', 'f.created_at', 'f.returned_at'])
            .whereRef('f.program_id', '=', 's.program_id')
            .whereRef('f.sale_id', '=', 's.id')
            .orderBy('f.id'),
        ).as('refunds'),
        entriesOf(eb.ref('m.program_id'), eb.ref('m.id')).as('entries'),
        /** Selects the manual adjustments of the sale. If the sale has a partner, selects only the adjustments of that partner. */
        jsonArrayFrom(
          eb
            .selectFrom('adjustments as j')
            .innerJoin('partners as h', (join) =>
              join.onRef('h.program_id', '=', 'j.program_id').onRef('h.id', '=', 'j.partner_id'),
            )
            .select(['j.amount_cents', 'j.currency', 'j.note', 'j.created_at', 'h.name'])
            .whereRef('j.program_id', '=', 's.program_id')
            .whereRef('j.sale_id', '=', 's.id')
            .where((of) => of('j.partner_id', '=', of.fn.coalesce('s.partner_id', 'j.partner_id')))
            .orderBy('j.id'),
        ).as('adjustments'),
      ])
      .where('s.program_id', '=', programId)
  )
}

/**
 * Finds the sale of a payment by any of the processor's ids for it, or by the id of an event about it. The program may have been
 * disconnected since.
 */
function saleOfProcessor(programId: number, processorId: string, test: boolean) {
  const ids = isEventId(processorId)
    ? sql`(
        select array(select jsonb_array_elements_text(e.fact->'payment_ids'))
          || array_remove(array[e.fact->>'payment_intent_id', e.fact->>'charge_id', e.fact->>'invoice_id'], null)
        from processor_events e
        where e.account_id = any (last_accounts_of(a)) and e.event_id = ${processorId}
      )`
    : sql`array[${processorId}::text]`
  const all = idsOfPayment(programId, ids)
  return (
    kysely
      .selectFrom('sales as paid')
      .select('paid.id')
      .where('paid.program_id', '=', programId)
      .where('paid.is_test', '=', sql.lit(test))
      .where('paid.transaction_id', '=', sql<string>`any (array(${all}))`)
      // If two sales belong to the same payment, one of them earns nothing.
      .orderBy((eb) => eb('paid.amount_cents', '=', eb.lit(0)))
      .orderBy((eb) => eb('paid.processor_event_id', 'is', null))
      .orderBy('paid.id')
      .limit(sql.lit(1))
      .$asScalar()
  )
}
