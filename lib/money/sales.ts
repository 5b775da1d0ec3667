import { requireActiveKey } from '../access/api-keys.ts'
import { newClickIdPrefix } from '../tracking/clicks.ts'
import { retryBinding } from '../tracking/customers.ts'
import { call, type Database, hexBytes } from '../database.ts'
import { ApiError } from '../errors.ts'
import { messagesAbout, type RelayMessage } from '../notifications/outbox.ts'

/** A sale as an integrator's server sends it. Amounts are in the currency's minor unit. */
export interface Sale {
  transaction_id: string
  customer_key: string | null
  click_id: string | null
  /** The code that the buyer entered. */
  coupon?: string | null
  amount_cents: number
  /** The tax within the amount. It doesn't earn a commission. */
  tax_cents: number
  /** Lower-case ISO 4217. Null means the program's currency. */
  currency: string | null
  sale_type: string
  is_recurring: boolean
  subscription_id: string | null
  is_test: boolean
  additional_data: Record<string, unknown> | null
  /** Corrects the currency of the stored sale with this id, if there is one. */
  correct_currency?: boolean
}

export interface RecordedSale {
  sale_id: number
  transaction_id: string
  attributed: boolean
  commission_id: number | null
  commission_cents: number
  currency: string
  /**
   * True for a test sale, which no figure counts. Either the call is marked as a test, or the customer signed up as a test within the last
   * day.
   */
  test_mode?: true
  /** A warning about a recorded sale in a currency other than the program's. */
  warning?: string
}

/**
 * Records a sale from the integrator's server. The customer is found by `customer_key`, or else by a valid click, whose customer
 * then gets the key. If neither finds one, the sale gets a new customer through a partner's `coupon`. A coupon can also decide which
 * partner gets a known customer's sale (migrations/functions/4_attribution/codes.sql). Without any of these, the sale is stored
 * without attribution and earns nothing.
 *
 * Throws `duplicate_transaction` for a known transaction id. The error says whether the stored sale is the same. If the stored sale has
 * no customer yet, it gets this one and earns its commission. Any id of a connected processor's payment identifies that payment's sale.
 *
 * `requestId` (uuid) is stored with the sale, so that a retry after a lost response isn't a duplicate. Returns the messages to send in
 * `outbox`.
 */
export async function recordSale(
  db: Database,
  keyHash: string,
  sale: Sale & { customer_key: string },
  programId: number | null,
  requestId: string,
): Promise<RecordedSale & { outbox: RelayMessage[] }> {
  const statement = call('track_sale', {
    hash: hexBytes(keyHash),
    claimed_program_id: programId,
    request: requestId,
    transaction_id: sale.transaction_id,
    customer_key: sale.customer_key,
    of_click_id: sale.click_id,
    coupon: sale.coupon ?? null,
    click_id_prefix: newClickIdPrefix(db.now()),
    is_test: sale.is_test,
    amount_cents: sale.amount_cents,
    tax_cents: sale.tax_cents,
    currency: sale.currency,
    sale_type: sale.sale_type,
    is_recurring: sale.is_recurring,
    subscription_id: sale.subscription_id,
    additional_data: sale.additional_data && JSON.stringify(sale.additional_data),
    corrects_currency: sale.correct_currency ?? false,
  })
  const [row] = await retryBinding(() => db.query(statement))
  requireActiveKey(row)
  if (row.sale_id === null) throw new Error('The database has no answer for a sale.')
  if (!row.is_recorded) {
    throw new ApiError(
      'duplicate_transaction',
      `A sale with the transaction_id "${sale.transaction_id}" is already recorded. Treat this as done, or send another transaction_id.`,
      {
        data: {
          sale_id: row.sale_id,
          same_payload: row.same_payload,
          attributed: row.customer_id !== null,
          commission_id: row.commission_id,
        },
      },
    )
  }
  const programCurrency = row.program_currency ?? ''
  const currency = sale.currency ?? programCurrency
  return {
    sale_id: row.sale_id,
    transaction_id: sale.transaction_id,
    attributed: row.is_attributed ?? false,
    commission_id: row.commission_id,
    commission_cents: row.commission_cents ?? 0,
    currency,
    outbox: messagesAbout(row),
    ...(row.is_tested && { test_mode: true }),
    ...(programCurrency !== currency && { warning: otherCurrencyWarning(currency, programCurrency) }),
  }
}

/** Warns the sender of a sale in a currency other than the program's. */
function otherCurrencyWarning(currency: string, programCurrency: string): string {
  const [is, own] = [currency.toUpperCase(), programCurrency.toUpperCase()]
  return `This sale is in ${is}, and the program's currency is ${own}. It is recorded: its commission is earned and paid in ${is}, and the program's figures in ${own} exclude it. If ${is} is a mistake, send the sale again in the right currency with "correct_currency": true before its commission is approved.`
}
