import type { CommissionStatus, ListedCommission } from '../../../lib/money/commission-list.ts'
import { commissionReason } from '../../../lib/commission-reasons.ts'
import { wordsOfRule } from '../../../lib/review-rules.ts'
import { csvOf } from '../../../lib/csv.ts'
import { decimalAmount } from '../../../lib/money.ts'
import { Badge } from './blocks.tsx'
import { Day } from './format.tsx'
import type { States } from './list.tsx'
import type { Column } from './table.tsx'
import { Text, useTexts } from './text.tsx'

export const commissionStates: States<CommissionStatus> = {
  pending: { name: 'Pending', tone: 'warn' },
  approved: { name: 'Approved', tone: 'accent' },
  paid: { name: 'Paid (commission)', tone: 'good' },
  refunded: { name: 'Partly reversed', tone: 'bad' },
  reversed: { name: 'Reversed', tone: 'bad' },
}

export const commissionColumns = {
  created: {
    label: 'Created',
    phone: 'plain',
    sorts: { descending: 'newest', ascending: 'oldest' },
    cell: ({ created_at: at }) => <Day at={at} />,
  },
  state: { label: 'State', phone: 'plain', cell: (commission) => <State commission={commission} /> },
  amount: {
    label: 'Commission',
    right: true,
    phone: 'amount',
    cell: (commission) => <Amount commission={commission} />,
  },
} satisfies Record<string, Column<ListedCommission>>

/** The sale or signup behind the commission. `explanationOf` returns the address of its explanation. */
export function causeColumn(explanationOf: (of: { programId: number; transactionId: string }) => string) {
  return {
    label: 'Earned for',
    phone: 'title',
    cell: (commission) => <Cause commission={commission} explanationOf={explanationOf} />,
  } satisfies Column<ListedCommission>
}

export const commissionsCsv = (commissions: ListedCommission[], columns?: string[]) =>
  csvOf(
    commissions,
    {
      id: ({ id }) => id,
      created: (commission) => commission.created_at,
      partner_id: (commission) => commission.partner_id,
      partner: (commission) => commission.partner_name,
      kind: ({ kind }) => kind,
      transaction_id: (commission) => commission.transaction_id,
      status: ({ status }) => status,
      currency: ({ currency }) => currency,
      amount: (commission) => decimalAmount(commission.amount_cents, commission.currency),
      reversed: (commission) => decimalAmount(commission.reversed_cents, commission.currency),
      reason: ({ reason }) => commissionReason(reason),
      hold_until: (commission) => commission.hold_until,
      review_reason: (commission) => commission.review_reason,
      payout_id: (commission) => commission.payout_id,
      held: (commission) => commission.held_at,
      flags: ({ flags }) => flags?.join(' ') ?? null,
      shadow: ({ is_shadow: isShadow }) => (isShadow ? 'yes' : 'no'),
    },
    columns,
  )

/** The state of a commission, with the reason if it is on hold or was reversed. */
function State({ commission }: { commission: ListedCommission }) {
  const { status, refunds, currency, reason, rejected_at: rejectedAt, hold_until: holdUntil } = commission
  const { name, tone } = commissionStates[status]
  const { t, fixed } = useTexts()
  return (
    <div class="stack tight">
      <span>
        <Badge tone={tone}>{rejectedAt ? t('Rejected') : fixed(name)}</Badge>
        {commission.is_shadow && <span class="muted small"> {t('never credited: shadow mode')}</span>}
        {status === 'pending' && !commission.held_at && !commission.is_shadow && (
          <span class="muted small">
            {' '}
            <Text of="credited on {day}" day={<Day at={holdUntil} />} />
          </span>
        )}
      </span>
      {commission.held_at && (
        <span class="small">
          <Badge tone="warn">{t('Held for review')}</Badge>{' '}
          {(commission.flags ?? []).map((flag) => fixed(wordsOfRule(flag))).join(' ')}
        </span>
      )}
      {rejectedAt && reason && <span class="small">{fixed(commissionReason(reason) ?? '')}</span>}
      {refunds.map((refund) => (
        <span class="small">
          {refund.reason_text ? (
            <Text
              of="{label}: {value}"
              label={<Refund refund={refund} currency={currency} />}
              value={refund.reason_text}
            />
          ) : (
            <Refund refund={refund} currency={currency} />
          )}
          {refund.returned && ` ${t('(returned)')}`}
        </span>
      ))}
    </div>
  )
}

interface RefundProps {
  refund: ListedCommission['refunds'][number]
  currency: string
}

function Refund({ refund: { reason, amount_cents: cents, at }, currency }: RefundProps) {
  return (
    <Text
      of={reason === 'chargeback' ? 'Chargeback of {amount} on {day}' : 'Refund of {amount} on {day}'}
      amount={useTexts().money(cents, currency)}
      day={<Day at={at} />}
    />
  )
}

/** The current amount, and the amount before reversals if they differ. */
function Amount({ commission }: { commission: ListedCommission }) {
  const { amount_cents: amount, reversed_cents: reversed, currency } = commission
  const { t, money } = useTexts()
  return (
    <div>
      <strong>{money(amount - reversed, currency)}</strong>
      {reversed > 0 && <div class="muted small">{t('of {amount}', { amount: money(amount, currency) })}</div>}
    </div>
  )
}

/** The transaction id of the sale, linked to the explanation, or "Signup". */
function Cause({
  commission,
  explanationOf,
}: {
  commission: ListedCommission
  explanationOf: Parameters<typeof causeColumn>[0]
}) {
  const { kind, transaction_id: transactionId, program_id: programId, sale_cents: cents, currency } = commission
  const { t, money } = useTexts()
  if (kind === 'lead' || transactionId === null) return <span>{t('Signup')}</span>
  return (
    <div class="name-with-note">
      <span class="number">
        {cents === null ? t('Sale') : t('Sale of {amount}', { amount: money(cents, currency) })}
      </span>
      <a class="small" href={explanationOf({ programId, transactionId })}>
        {transactionId}
      </a>
    </div>
  )
}
