import { sql } from 'kysely'
import { type KeyState, requireActiveKey } from '../access/api-keys.ts'
import { newClickIdStem } from '../tracking/clicks.ts'
import { retryBinding } from '../tracking/customers.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'

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
interface SaleRow extends KeyState {
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

/** A sale as jsonb with the columns of `sales`, for `record_sale`. `requestId` marks it as this request's. */
export function saleColumns(sale: Sale | ProcessorSale, requestId: string) {
  const { click_id: _, ...columns } = sale
  const given = { commission_base_cents: sale.amount_cents, payment_status: 'paid', ...columns, request_id: requestId }
  return sql`${JSON.stringify(given)}::jsonb`
}

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
  const statement = sql<SaleRow>`select r.key_retired, r.program_matches, (r.sale).*, r.inserted, r.commission_id, r.commission_cents
from track_sale(decode(${keyHash}, 'hex'), ${programId}, jsonb_populate_record(null::sales, ${saleColumns(sale, requestId)}),
  ${sale.click_id}, ${newClickIdStem(Date.now())}) r`
  const [row] = await retryBinding(() => db.query(statement))
  requireActiveKey(row)
  if (!row || row.id === null) throw new Error('the sale statement answered without its sale')
  if (!row.inserted && row.request_id !== requestId) throw duplicateTransaction(row, sale)
  return {
    sale_id: Number(row.id),
    transaction_id: row.transaction_id,
    attributed: row.customer_id !== null,
    commission_id: row.commission_id === null ? null : Number(row.commission_id),
    commission_cents: row.commission_id === null ? 0 : Number(row.commission_cents),
    currency: row.currency,
  }
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
