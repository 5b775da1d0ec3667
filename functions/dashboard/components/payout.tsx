import { toCsv } from '../../../lib/csv.ts'
import { formatMoney, decimalAmount } from '../../../lib/money.ts'
import { isOpenStatus, type Payout, type PayoutStatus } from '../../../lib/money/payouts.ts'
import { Badge } from './blocks.tsx'
import { ReasonMenu, RowMenu } from './fields.tsx'
import { counted, Day, Time } from './format.tsx'
import { StateBadge, type States } from './list.tsx'
import type { Column } from './table.tsx'
import { useTexts } from './text.tsx'
import { PayMenu } from './transfer.tsx'

export const payoutStates: States<PayoutStatus> = {
  requested: { name: 'Requested', tone: 'warn' },
  in_run: { name: 'In a run', tone: 'warn' },
  sent: { name: 'Sent', tone: 'warn' },
  unclaimed: { name: 'Unclaimed', tone: 'warn' },
  paid: { name: 'Paid', tone: 'good' },
  returned: { name: 'Returned', tone: 'bad' },
  failed: { name: 'Failed', tone: 'bad' },
  refused: { name: 'Refused', tone: 'bad' },
  canceled: { name: 'Canceled', tone: 'plain' },
}

export const payoutColumns = {
  created: {
    label: 'Created',
    sorts: { descending: 'newest', ascending: 'oldest' },
    cell: ({ created_at: at }) => <Day at={at} />,
    phone: 'plain',
  },
  state: { label: 'State', cell: (payout) => <State payout={payout} />, phone: 'plain' },
  amount: {
    label: 'Amount',
    right: true,
    sorts: { descending: 'amount' },
    cell: (payout) => <PayoutAmount payout={payout} />,
    phone: 'amount',
  },
} satisfies Record<string, Column<Payout>>

/** Writes payouts as CSV text. `whose` adds columns for the program and the partner. */
export function payoutsCsv(
  payouts: Payout[],
  whose: ('program' | 'partner_id' | 'partner' | 'payout_email' | 'payout_run_id')[],
): string {
  const what = ['status', 'currency', 'amount', 'requested', 'decided', 'reference', 'paid_on', 'reason'] as const
  return toCsv(['id', 'created', ...whose, ...what], payouts.map(payoutRow))
}

function payoutRow(payout: Payout) {
  return {
    id: payout.id,
    created: payout.created_at,
    program: payout.program_name,
    partner_id: payout.partner_id,
    partner: payout.partner_name,
    payout_email: payout.payout_email,
    payout_run_id: payout.payout_run_id,
    status: payout.status,
    currency: payout.currency,
    amount: decimalAmount(payout.amount_cents, payout.currency),
    requested: decimalAmount(payout.requested_cents, payout.currency),
    decided: payout.decided_at,
    reference: payout.reference,
    paid_on: payout.paid_on?.toISOString().slice(0, 10) ?? null,
    reason: payout.reason,
  }
}

/** Returns the address of a program's payout runs, or of one run if its id is given. */
export const payoutsOf = (programId: number) => `/programs/${programId}/payout-runs`

/** Formats sums by currency: `$30.00 and €5.00`. */
export function totals(amounts: { currency: string; payable_cents: number }[]): string {
  const byCurrency = Map.groupBy(amounts, ({ currency }) => currency)
  const sums = [...byCurrency].map(([currency, list]) =>
    formatMoney(
      list.reduce((sum, { payable_cents: cents }) => sum + cents, 0),
      currency,
    ),
  )
  return new Intl.ListFormat('en').format(sums)
}

interface StateSum {
  status: PayoutStatus
  currency: string
  payments: number
  payable_cents: number
}

interface SumsByStateProps {
  sums: StateSum[]
  /** Whether the sums are part of a line of text. */
  isLine?: boolean
}

/** The payments of a run or of several, counted and summed by state and currency. */
export function SumsByState({ sums, isLine }: SumsByStateProps) {
  const shown = sums.map(({ status, currency, payments, payable_cents: cents }) => (
    <span>
      <StateBadge states={payoutStates} status={status} /> <strong>{formatMoney(cents, currency)}</strong>{' '}
      <span class="muted small">{counted(payments, 'payment', 'payments')}</span>{' '}
    </span>
  ))
  return isLine ? <>{shown}</> : <div class="stack tight">{shown}</div>
}

interface DecisionsProps {
  payout: Payout
  /** The payouts of the program. */
  address: string
}

/** The possible decisions about one payout: pay it, exclude or refuse it before it is sent, or record that it did not arrive. */
export function PayoutDecisions({ payout, address }: DecisionsProps) {
  const { id, status, payout_run_id: run, partner_name: partner, amount_cents: amountCents, currency } = payout
  const subject = `the payout of ${formatMoney(amountCents, currency)} to ${partner}`
  const reason = { id, subject, label: 'Reason, shown to the partner' }
  const wasSent = status === 'sent' || status === 'unclaimed'
  return (
    <div class="row right">
      {isOpenStatus(status) && (
        <PayMenu action={`${address}/${id}/pay`} id={String(id)} subject={subject} amountCents={amountCents} />
      )}
      <RowMenu label={`Actions on ${subject}`} posts={`${address}/${id}/`}>
        {status === 'requested' && (
          <ReasonMenu action={`${address}/${id}/refuse`} verb="Refuse" submit="Refuse payout" {...reason} />
        )}
        {status === 'in_run' && (
          <ReasonMenu
            action={`${address}/${id}/refuse`}
            verb="Exclude"
            submit={`Exclude from run ${run}`}
            {...reason}
          />
        )}
        {wasSent && (
          <ReasonMenu action={`${address}/${id}/fail`} verb="Mark as failed" submit="Mark as failed" {...reason} />
        )}
        {(wasSent || status === 'paid') && (
          <ReasonMenu
            action={`${address}/${id}/return`}
            verb="Mark as returned"
            submit="Mark as returned"
            {...reason}
          />
        )}
      </RowMenu>
    </div>
  )
}

interface PayeeProps {
  /** The partner's page. */
  href: string
  name: string
  address: string | null
  waitsUntil?: Date | null
}

/** The payee with their payout address. */
export function Payee({ href, name, address, waitsUntil }: PayeeProps) {
  return (
    <div class="name-with-note">
      <a href={href} data-drawer>
        <strong>{name}</strong>
      </a>
      {address && <span class="muted small">{address}</span>}
      {waitsUntil && waitsUntil > new Date() && (
        <div class="small">
          <Badge tone="warn">New address</Badge> Do not pay until <Time at={waitsUntil} />.
        </div>
      )}
    </div>
  )
}

/** The state of a payout with its date, its reference and, if it was refused, the reason. */
function State({ payout }: { payout: Payout }) {
  const { name, tone } = payoutStates[payout.status]
  const since = payout.status === 'paid' ? payout.paid_on : payout.decided_at
  return (
    <div class="stack tight">
      <span>
        <Badge tone={tone}>{useTexts().fixed(name)}</Badge>
        {since && (
          <span class="muted small">
            {' '}
            <Day at={since} />
          </span>
        )}
        {payout.reference && <span class="muted small"> · {payout.reference}</span>}
      </span>
      <AtProvider payout={payout} />
      {payout.reason && <span class="small">{payout.reason}</span>}
    </div>
  )
}

/** The reason why a payment waits at its provider. */
function AtProvider({
  payout: { status, provider_outcome: outcome, provider_reason: reason, claim_until: day },
}: {
  payout: Payout
}) {
  const { t, day: dayOf } = useTexts()
  if (status === 'unclaimed' && day)
    return <span class="small">{t('Returned on {day} if nobody claims it', { day: dayOf(day) })}</span>
  if (status !== 'sent' || outcome !== 'held') return null
  return (
    <>
      <span class="small">{t('On hold at the payment provider')}</span>
      {reason && <span class="muted small">{reason}</span>}
    </>
  )
}

/** The current amount, and the requested amount if a reversal reduced it. */
function PayoutAmount({ payout }: { payout: Pick<Payout, 'amount_cents' | 'requested_cents' | 'currency'> }) {
  const { amount_cents: amount, requested_cents: requested, currency } = payout
  const { t, money } = useTexts()
  return (
    <div>
      <strong>{money(amount, currency)}</strong>
      {amount < requested && (
        <div class="muted small">
          {t('reduced from {amount} by reversals or deductions', { amount: money(requested, currency) })}
        </div>
      )}
    </div>
  )
}
