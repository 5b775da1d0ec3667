import { type CommissionStatus, type ListedCommission } from '../../../lib/money/commission-list.ts'
import { formatMoney } from '../../../lib/money.ts'
import { Badge, Day, type Tone } from './parts.tsx'

const tones: Record<CommissionStatus, Tone> = {
  pending: 'warn',
  approved: 'accent',
  paid: 'good',
  refunded: 'bad',
  reversed: 'bad',
}

export const statusNames: Record<CommissionStatus, string> = {
  pending: 'Pending',
  approved: 'Approved',
  paid: 'Paid',
  refunded: 'Partly reversed',
  reversed: 'Reversed',
}

/** The state of a commission, and what it waits for or what took it back. */
export function CommissionState({ commission }: { commission: ListedCommission }) {
  const { status, refunds, currency, reason, rejected_at: rejectedAt, hold_until: holdUntil } = commission
  return (
    <div class="stack tight">
      <span>
        <Badge tone={tones[status]}>{rejectedAt ? 'Rejected' : statusNames[status]}</Badge>
      </span>
      {status === 'pending' && (
        <span class="muted small">
          credited on <Day at={holdUntil} />
        </span>
      )}
      {rejectedAt && reason && <span class="small">{reason}</span>}
      {refunds.map((refund) => (
        <span class="small">
          {refund.reason === 'chargeback' ? 'Chargeback' : 'Refund'} of {formatMoney(refund.amount_cents, currency)} on{' '}
          <Day at={refund.at} />
          {refund.reason_text && `: ${refund.reason_text}`}
          {refund.returned && ' (put back)'}
        </span>
      ))}
    </div>
  )
}

/** What a commission is worth now, and what it was before reversals. */
export function CommissionAmount({ commission }: { commission: ListedCommission }) {
  const { amount_cents: amount, reversed_cents: reversed, currency } = commission
  return (
    <div>
      <strong>{formatMoney(amount - reversed, currency)}</strong>
      {reversed > 0 && <div class="muted small">of {formatMoney(amount, currency)}</div>}
    </div>
  )
}

/** What was earned for: a sale with its transaction id, or a signup. */
export function CommissionCause({ commission }: { commission: ListedCommission }) {
  if (commission.kind === 'lead') return <span>Signup</span>
  return (
    <div>
      <span class="number">
        Sale{commission.sale_cents !== null && ` of ${formatMoney(commission.sale_cents, commission.currency)}`}
      </span>
      <div class="muted small">{commission.transaction_id}</div>
    </div>
  )
}
