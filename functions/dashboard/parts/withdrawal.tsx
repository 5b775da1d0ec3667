import { toCsv } from '../../../lib/csv.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import type { Withdrawal, WithdrawalStatus } from '../../../lib/money/withdrawals.ts'
import { Badge } from './blocks.tsx'
import { Day, Time } from './format.tsx'
import type { States } from './list.tsx'
import type { Column } from './table.tsx'

export const withdrawalStates: States<WithdrawalStatus> = {
  requested: { name: 'Open', tone: 'warn' },
  paid: { name: 'Paid', tone: 'good' },
  refused: { name: 'Refused', tone: 'bad' },
  cancelled: { name: 'Cancelled', tone: 'plain' },
}

/** What a list of withdrawals says of each. */
export const withdrawalColumns = {
  asked: { label: 'Created', cell: ({ created_at: at }) => <Day at={at} /> },
  state: { label: 'State', cell: (withdrawal) => <State withdrawal={withdrawal} /> },
  amount: { label: 'Amount', right: true, cell: (withdrawal) => <WithdrawalAmount withdrawal={withdrawal} /> },
} satisfies Record<string, Column<Withdrawal>>

/** Withdrawals as a CSV file. `whose` are the columns that say between whom they are. */
export function withdrawalsCsv(
  withdrawals: Withdrawal[],
  whose: ('program' | 'partner_id' | 'partner' | 'payout_email')[],
): string {
  const what = ['status', 'currency', 'amount', 'requested', 'decided', 'reference', 'paid_on', 'reason'] as const
  return toCsv(['id', 'asked', ...whose, ...what], withdrawals.map(withdrawalRow))
}

function withdrawalRow(withdrawal: Withdrawal) {
  return {
    id: withdrawal.id,
    asked: withdrawal.created_at,
    program: withdrawal.program_name,
    partner_id: withdrawal.partner_id,
    partner: withdrawal.partner_name,
    payout_email: withdrawal.payout_email,
    status: withdrawal.status,
    currency: withdrawal.currency,
    amount: majorUnits(withdrawal.amount_cents, withdrawal.currency),
    requested: majorUnits(withdrawal.requested_cents, withdrawal.currency),
    decided: withdrawal.decided_at,
    reference: withdrawal.reference,
    paid_on: withdrawal.paid_on,
    reason: withdrawal.reason,
  }
}

/** Who is paid, and where. */
export function Payee({
  name,
  address,
  waitsUntil,
}: {
  name: string
  address: string | null
  waitsUntil?: Date | null
}) {
  return (
    <div>
      <strong>{name}</strong>
      {address && <div class="muted small">{address}</div>}
      {waitsUntil && waitsUntil > new Date() && (
        <div class="small">
          <Badge tone="warn">New address</Badge> Do not pay until <Time at={waitsUntil} />.
        </div>
      )}
    </div>
  )
}

/** The state of a withdrawal: since which day, of a paid one the day of the transfer, and the reason of a refusal. */
function State({ withdrawal }: { withdrawal: Withdrawal }) {
  const { name, tone } = withdrawalStates[withdrawal.status]
  const since = withdrawal.paid_on ?? withdrawal.decided_at
  return (
    <div class="stack tight">
      <span>
        <Badge tone={tone}>{name}</Badge>
        {since && (
          <span class="muted small">
            {' '}
            <Day at={since} />
          </span>
        )}
      </span>
      {withdrawal.reference && <span class="muted small">{withdrawal.reference}</span>}
      {withdrawal.reason && <span class="small">{withdrawal.reason}</span>}
    </div>
  )
}

/** What a withdrawal stands at, and what was asked for where a reversal reduced it. */
export function WithdrawalAmount({
  withdrawal,
}: {
  withdrawal: Pick<Withdrawal, 'amount_cents' | 'requested_cents' | 'currency'>
}) {
  const { amount_cents: amount, requested_cents: requested, currency } = withdrawal
  return (
    <div>
      <strong>{formatMoney(amount, currency)}</strong>
      {amount < requested && (
        <div class="muted small">reduced from {formatMoney(requested, currency)} by reversals or deductions</div>
      )}
    </div>
  )
}
