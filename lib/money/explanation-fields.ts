import * as z from 'zod/mini'
import { cents, clickId, count, currency, id, text, time } from '../response-fields.ts'
import { commissionStatuses } from './commission-list.ts'
import type { Happening } from './sale-history.ts'

/**
 * Explains why a sale has its partner and its commission, or why one of them is missing. It shows the original decisions, and doesn't recompute
 * anything with today's rules. The sale keeps the steps, the click and the terms of its attribution. Each correction and refund keeps its
 * own facts.
 */
export const explanation = () =>
  z.object({
    /** The sale's transaction id, or the requested id if the payment is not a sale. */
    transaction_id: z.string(),
    is_test: z.boolean(),
    attributed: z.boolean(),
    /** The answer in one or two sentences. */
    summary: z.string(),
    sale: z.nullable(
      z.object({
        sale_date: time(),
        amount_cents: cents(),
        /** The parts of the amount that don't earn commission: tax, and the processor's fee if the program excludes it. */
        tax_cents: cents(),
        processor_fee_cents: cents(),
        commission_base_cents: cents(),
        refunded_cents: cents(),
        currency: currency(),
        /** The source of the amount: the API, or one of the processor's objects. */
        source: z.string(),
      }),
    ),
    partner: z.nullable(z.object({ id: id(), name: z.string() })),
    link: z.nullable(z.object({ id: id(), code: z.string() })),
    code: z.nullable(z.object({ id: id(), code: z.string() })),
    /** Null for partners, or if the customer is unknown. Erased customers have no key. */
    customer: z.nullable(z.object({ click_id: clickId(), customer_key: text() })),
    /** The steps in order, up to the step that identified the customer. */
    steps: z.array(z.object({ step: z.string(), found: z.string(), text: z.string() })),
    click: z.nullable(
      z.object({
        /** The customer's first click, and their latest click at the time of the sale. */
        first_at: time(),
        latest_at: time(),
        /** The time when the buyer started the purchase. The attribution window is measured from this time. */
        decided_at: time(),
        age_seconds: z.int(),
        window_days: count(),
        within_window: z.boolean(),
        attribution_model: z.string(),
        text: z.string(),
        /** The parameters of the latest click's link, as long as its event is kept. Partners see only the parameters of their own links. */
        campaign: z.nullable(z.record(z.string(), z.string())),
        /** From the latest click, as long as its event is kept. Null for partners. */
        event: z.nullable(z.object({ page_url: text(), referrer_url: text(), country: text(), device: text() })),
      }),
    ),
    rule: z.nullable(
      z.object({
        id: z.nullable(id()),
        text: z.string(),
        commission_bp: count(),
        commission_percent: z.number(),
        /** Per sale. 0 if the sale is not in the program's currency. */
        fixed_cents: cents(),
        /** The cap on commissions from all sales to the customer. Null if there is none, or if the sale is in another currency. */
        cap_cents: z.nullable(cents()),
        duration_months: z.nullable(count()),
        first_purchase_date: z.nullable(time()),
        hold_days: z.nullable(count()),
      }),
    ),
    commission: z.nullable(
      z.object({
        id: z.nullable(id()),
        status: z.nullable(z.enum(commissionStatuses)),
        /** The base times the percentage before rounding, in minor units: `980.5`. */
        exact: z.string(),
        amount_cents: cents(),
        reversed_cents: cents(),
        left_cents: cents(),
        currency: currency(),
        text: z.string(),
        /** The parts of an invoice whose products earn commission under different rules. Null if one rule covers the whole sale. */
        lines: z.nullable(
          z.array(
            z.object({
              rule_id: z.nullable(id()),
              product_id: text(),
              commission_bp: count(),
              fixed_cents: cents(),
              base_cents: cents(),
              commission_cents: cents(),
            }),
          ),
        ),
      }),
    ),
    /** The commission that the customer's signup earned. */
    lead_commission: z.nullable(
      z.object({ id: id(), amount_cents: cents(), reversed_cents: cents(), currency: currency(), text: z.string() }),
    ),
    /** The payouts that paid the sale's commission. */
    payout: z.nullable(z.object({ id: id(), payout_run_id: z.nullable(id()) })),
    /**
     * The history of the sale, oldest first. The changes add up to the remaining commission, and the entries add up to its part of the balance.
     */
    history: z.array(
      z.object({
        at: time(),
        kind: z.string(),
        text: z.string(),
        change_cents: z.int(),
        entry: z.nullable(z.object({ number: id(), amount_cents: z.int(), balance_cents: z.int() })),
      }),
    ),
    /** The processor's events about the payment. Empty for partners. */
    deliveries: z.array(
      z.object({
        event_id: z.string(),
        event_type: z.string(),
        outcome: z.string(),
        reason: text(),
        received_at: time(),
      }),
    ),
  })

type Fields = z.output<ReturnType<typeof explanation>>
export type Explanation = Omit<Fields, 'history'> & { history: Happening[] }
export type Click = NonNullable<Fields['click']>
export type Step = Fields['steps'][number]
