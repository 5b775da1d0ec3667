import { sql } from 'kysely'
import { keyRetiredColumn, type KeyState, programMatchesColumn, programOfKeyCte, requireActiveKey } from './api-keys.ts'
import { queryBound } from './customers.ts'
import { type Database, jsonb } from './database.ts'
import { ApiError } from './errors.ts'

/** A sale as an integrator's server sends it. Amounts are in the currency's minor unit. */
export interface Sale {
  transaction_id: string
  customer_key: string | null
  click_id: string | null
  amount_cents: number
  /** Lower-case ISO 4217. */
  currency: string
  sale_type: string
  is_recurring: boolean
  subscription_id: string | null
  is_test: boolean
  additional_data: Record<string, unknown> | null
}

/** What a sale from the payment processor carries beyond that. */
export interface ProcessorSale extends Sale {
  /** What was paid, without tax. */
  commission_base_cents: number
  payment_status: string
  sale_date: Date
  processor_event_id: string
  processor_session_id: string | null
  processor_payment_intent_id: string | null
  processor_charge_id: string | null
  processor_invoice_id: string | null
  processor_customer_id: string | null
}

export interface RecordedSale {
  sale_id: number
  transaction_id: string
  attributed: boolean
  commission_id: number | null
  commission_cents: number
  currency: string
}

/** One row: the sale that stands under the transaction id, whether this statement made it, and its commission. */
export interface SaleRow extends KeyState {
  id: string | null
  inserted: boolean
  request_id: string | null
  transaction_id: string
  customer_key: string | null
  customer_id: string | null
  amount_cents: string
  currency: string
  sale_type: string
  is_recurring: boolean
  subscription_id: string | null
  commission_id: string | null
  commission_cents: string | null
}

/** What a later event of the same payment adds to a sale: ids that were not known, and whose it is where that was not. */
const completion = sql.raw(
  [
    'customer_id',
    'partner_id',
    'customer_key',
    'subscription_id',
    'processor_session_id',
    'processor_payment_intent_id',
    'processor_charge_id',
    'processor_invoice_id',
    'processor_customer_id',
  ]
    .map((column) => `${column} = coalesce(stored.${column}, excluded.${column})`)
    .join(', '),
)

/**
 * CTEs that record a sale of the customer in CTE `customer` (no row: the sale is not attributed) in the program of CTE
 * `program`: the sale, its commission, the customer's conversion and the day's totals. `sale` is the row that stands under the
 * transaction id; its `inserted` is false where it stood there before, and then nothing else is written. But two events of the
 * processor can tell of one payment: the later one completes the sale, and the sale counts when it is first attributed.
 *
 * The commission is the basis points of its base, rounded half up in integers, because floating point is not exact here
 * (27.50 at 1.4 % would give 38 cents for 39).
 */
export function recordSaleCtes(sale: Sale | ProcessorSale, requestId: string) {
  const processor = 'processor_event_id' in sale ? sale : undefined
  return sql`sale as (
  insert into sales as stored (program_id, is_test, transaction_id, customer_id, partner_id, customer_key, sale_date, amount_cents,
    commission_base_cents, currency, sale_type, payment_status, is_recurring, subscription_id, additional_data, request_id,
    processor_event_id, processor_session_id, processor_payment_intent_id, processor_charge_id, processor_invoice_id,
    processor_customer_id)
  select p.id, ${sale.is_test}::boolean, ${sale.transaction_id}, c.id, c.partner_id, ${sale.customer_key},
    coalesce(${processor?.sale_date ?? null}::timestamptz, now()), ${sale.amount_cents}::bigint,
    ${processor?.commission_base_cents ?? sale.amount_cents}::bigint, ${sale.currency}, ${sale.sale_type},
    ${processor?.payment_status ?? 'paid'}, ${sale.is_recurring}::boolean, ${sale.subscription_id}, ${jsonb(sale.additional_data)},
    ${requestId}::uuid, ${processor?.processor_event_id ?? null}, ${processor?.processor_session_id ?? null},
    ${processor?.processor_payment_intent_id ?? null}, ${processor?.processor_charge_id ?? null},
    ${processor?.processor_invoice_id ?? null}, ${processor?.processor_customer_id ?? null}
  from program p left join customer c on c.program_id = p.id
  on conflict on constraint sales_transaction_key do update set ${processor ? completion : sql`transaction_id = stored.transaction_id`}
  returning stored.*, old.id is null as inserted, old.customer_id is null and new.customer_id is not null as attributed
),
counted_sale as (select * from sale where attributed and not is_test),
commission as (
  insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until)
  select s.program_id, 'sale', s.partner_id, s.customer_id, s.id, s.currency, earned.amount_cents, now() + make_interval(days => p.hold_days)
  from counted_sale s join program p on p.id = s.program_id join customer c on c.program_id = s.program_id
  cross join lateral (select (s.commission_base_cents * p.commission_bp + 5000) / 10000 as amount_cents) earned
  where earned.amount_cents > 0
    and (p.commission_duration_months is null or c.first_purchase_date is null
      or s.sale_date <= c.first_purchase_date + make_interval(months => p.commission_duration_months))
  returning program_id, id, currency, amount_cents, created_at
),
converted as (
  update customers c set customer_status = 'conversion', first_purchase_date = s.sale_date
  from counted_sale s
  where c.program_id = s.program_id and c.id = s.customer_id
    and (c.first_purchase_date is null or c.first_purchase_date > s.sale_date)
  returning c.program_id, old.first_purchase_date as counted_at, new.first_purchase_date as at,
    date_trunc('hour', old.first_purchase_date, 'UTC') = date_trunc('hour', new.first_purchase_date, 'UTC') as in_same_hour
),
conversion_count as (
  insert into daily_totals as counted (program_id, day, slot, conversions)
  select program_id, utc_day(at), counter_slot(at), 1 from converted where in_same_hour is not true
  union all
  select program_id, utc_day(counted_at), counter_slot(counted_at), -1 from converted where not in_same_hour
  on conflict (program_id, day, slot) do update set conversions = counted.conversions + excluded.conversions
),
money_count as (
  insert into daily_money as counted (program_id, day, currency, slot, sales, revenue_cents, commission_cents)
  select program_id, day, currency, slot, sum(sales), sum(revenue_cents), sum(commission_cents)
  from (
    select program_id, utc_day(sale_date) as day, counter_slot(sale_date) as slot, currency, 1 as sales, amount_cents as revenue_cents,
      0 as commission_cents
    from counted_sale where payment_status = 'paid'
    union all
    select program_id, utc_day(created_at), counter_slot(created_at), currency, 0, 0, amount_cents from commission
  ) added
  group by program_id, day, currency, slot
  on conflict (program_id, day, currency, slot) do update set
    sales = counted.sales + excluded.sales,
    revenue_cents = counted.revenue_cents + excluded.revenue_cents,
    commission_cents = counted.commission_cents + excluded.commission_cents
)`
}

/** Columns of `SaleRow`, from `left join sale s` and `left join commission m`. */
export const saleColumns = sql`s.id, s.inserted, s.request_id, s.transaction_id, s.customer_key, s.customer_id, s.amount_cents,
  s.currency, s.sale_type, s.is_recurring, s.subscription_id,
  coalesce(m.id, stored.id) as commission_id, coalesce(m.amount_cents, stored.amount_cents) as commission_cents`

/**
 * Records a sale that the integrator's server sent: its customer is that of `customer_key`, else that of a valid click, to
 * which the key is then bound; with neither the sale is kept without attribution and earns nothing. A transaction id that
 * is taken is refused with `duplicate_transaction`, which says whether the stored sale is the same. `requestId` (uuid) marks the
 * sale as this request's, so that a try whose answer was lost is not taken for a duplicate.
 */
export async function recordSale(
  db: Database,
  keyHash: string,
  sale: Sale & { customer_key: string },
  programId: number | null,
  requestId: string,
): Promise<RecordedSale> {
  const program = programOfKeyCte(keyHash, programId)
  // A sale that is refused as a duplicate binds no key to the click.
  const unrecorded = programOfKeyCte(
    keyHash,
    programId,
    sql`not exists (select from sales s where s.program_id = p.id and not s.is_test and s.transaction_id = ${sale.transaction_id})`,
  )
  const record = sql<SaleRow>`with ${program},
customer as (${customerOf(sale)}),
${recordSaleCtes(sale, requestId)}
select ${keyRetiredColumn}, ${programMatchesColumn(programId)}, ${saleColumns}
from (select) answer
  left join sale s on true
  left join commission m on true
  left join commissions stored on stored.program_id = s.program_id and stored.sale_id = s.id`
  const row = await queryBound(db, unrecorded, sale.customer_key, sale.is_test ? null : sale.click_id, record)
  requireActiveKey(row)
  if (!row || row.id === null) throw new Error('the sale statement answered without its sale')
  if (!row.inserted && row.request_id !== requestId) throw duplicateTransaction(row, sale)
  return {
    sale_id: Number(row.id),
    transaction_id: row.transaction_id,
    attributed: row.customer_id !== null,
    commission_id: row.commission_id === null ? null : Number(row.commission_id),
    commission_cents: Number(row.commission_cents ?? 0),
    currency: row.currency,
  }
}

/** The customer of a sale. A test sale binds nothing, so it takes the click's customer as it is. */
function customerOf({ customer_key: customerKey, click_id: clickId, is_test: isTest }: Sale) {
  const byKey = sql`select c.* from customers c join program p on c.program_id = p.id where c.customer_key = ${customerKey}`
  if (!isTest || clickId === null) return byKey
  return sql`${byKey} union all
  select c.* from customers c join program p on c.program_id = p.id
  where c.click_id = ${clickId} and c.last_click_at > now() - make_interval(days => p.cookie_window_days)
  limit 1`
}

function duplicateTransaction(stored: SaleRow, sale: Sale): ApiError {
  const samePayload =
    Number(stored.amount_cents) === sale.amount_cents &&
    stored.currency === sale.currency &&
    stored.customer_key === sale.customer_key &&
    stored.sale_type === sale.sale_type &&
    stored.is_recurring === sale.is_recurring &&
    stored.subscription_id === sale.subscription_id
  return new ApiError(
    'duplicate_transaction',
    `A sale with the transaction_id "${sale.transaction_id}" is recorded already. Treat this as done, or send another transaction_id.`,
    { data: { sale_id: Number(stored.id), same_payload: samePayload } },
  )
}
