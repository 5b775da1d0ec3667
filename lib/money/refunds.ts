import { requireActiveKey } from '../access/api-keys.ts'
import { call, type Database, hexBytes, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { majorUnits } from '../money.ts'
import { messagesAbout, type RelayMessage } from '../notifications/outbox.ts'
import type { DatabaseFunctions } from '../schema.ts'

/** One refund or chargeback. A null `amount_cents` refunds the rest of the sale. */
export interface Refund {
  amount_cents: number | null
  /** The caller's or processor's id of this refund. A repeated id is ignored. Without an id, the amount identifies the refund. */
  refund_id: string | null
  reason: 'refund' | 'chargeback'
  reason_text: string | null
}

export type AppliedRefund =
  | {
      status: 'reversed' | 'refunded'
      /** The commission that this call reversed, in the currency's major unit. */
      deductionAmount: number
      /** The same amount in minor units. */
      deduction_cents: number
      currency: string
      commission_id: number
    }
  | { status: 'skipped'; reason: 'already_reversed' | 'refund_already_applied'; commission_id: number }
  | { status: 'no_commission'; message: string }

/**
 * The key by which a repeated refund is recognized. A refund of the whole remaining amount doesn't need a separate key, because a repeated
 * one has no effect. Its key is the id of its request.
 */
function refundKey({ amount_cents, refund_id }: Refund, requestId: string): string {
  if (amount_cents === null) return `rest:${requestId}`
  return refund_id === null ? `amount:${amount_cents}` : `id:${refund_id}`
}

/**
 * Applies a refund to the sale with this transaction id in the key's program, in one transaction. The commission is reversed in proportion
 * to the sale's refunded total, rounded down, and each call deducts the difference.
 *
 * If a live and a test sale have this id, the live sale wins. Returns the messages to send in `outbox`. `requestId` (uuid) identifies the
 * request, so that a retry after a lost response gets the same response. Throws `not_found`.
 */
export async function refundSale(
  db: Database,
  keyHash: string,
  transactionId: string,
  refund: Refund,
  requestId: string,
): Promise<{ applied: AppliedRefund; outbox: RelayMessage[] }> {
  const statement = call('track_refund', {
    hash: hexBytes(keyHash),
    of_transaction_id: transactionId,
    key: refundKey(refund, requestId),
    wanted_cents: refund.amount_cents,
    because: refund.reason,
    because_text: refund.reason_text,
    request: requestId,
  })
  const [row] = await retryOnce(() => db.query(statement))
  requireActiveKey(row)
  if (row.sale_id === null) {
    throw new ApiError('not_found', `This program has no sale with the transaction_id "${transactionId}".`)
  }
  return { applied: asApplied(row), outbox: messagesAbout(row) }
}

/** Reads the outcome of a refund from the row that `track_refund` returned. */
function asApplied(row: DatabaseFunctions['track_refund']['row']): AppliedRefund {
  const { commission_id, currency, deduction_cents, outcome } = row
  if (commission_id === null || currency === null) {
    return { status: 'no_commission', message: 'The sale earned no commission, so none was reversed.' }
  }
  if (outcome === 'already_reversed' || outcome === 'refund_already_applied') {
    return { status: 'skipped', reason: outcome, commission_id }
  }
  return {
    status: outcome === 'reversed' ? outcome : 'refunded',
    deductionAmount: majorUnits(deduction_cents ?? 0, currency),
    deduction_cents: deduction_cents ?? 0,
    currency,
    commission_id,
  }
}
