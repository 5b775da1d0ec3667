import { may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import { exportWithdrawals } from '../../../lib/money/payout-files.ts'
import {
  listWithdrawals,
  payWithdrawal,
  refuseWithdrawal,
  type Withdrawal,
  type WithdrawalStatus,
} from '../../../lib/money/withdrawals.ts'
import { renderProgram } from '../parts/layout.tsx'
import {
  addressOf,
  createPages,
  csvResponse,
  flash,
  type PageContext,
  positiveInteger,
  readForm,
  requireProgram,
} from '../parts/page.ts'
import { PayoutLinks, payoutFileOf } from '../parts/payout-files.tsx'
import { Badge, Card, Day, Empty, Heading, Pager, Segments, Table, type Tone } from '../parts/parts.tsx'

/** What partners asked to be paid. */
export const withdrawalPages = createPages()

type ProgramContext = PageContext<{ viewer: Viewer; program: ViewerProgram }>

const pageSize = 50
const csvRows = 10_000

const statuses: [WithdrawalStatus, string, Tone][] = [
  ['requested', 'Open', 'warn'],
  ['paid', 'Paid', 'good'],
  ['refused', 'Refused', 'bad'],
  ['cancelled', 'Cancelled', 'plain'],
]

/** The state of a withdrawal with the reason of a refusal. */
export function WithdrawalState({ withdrawal }: { withdrawal: Withdrawal }) {
  const [, name = withdrawal.status, tone = 'plain'] = statuses.find(([status]) => status === withdrawal.status) ?? []
  return (
    <div class="stack tight">
      <span>
        <Badge tone={tone}>{name}</Badge>
        {withdrawal.decided_at && (
          <span class="muted small">
            {' '}
            <Day at={withdrawal.decided_at} />
          </span>
        )}
      </span>
      {withdrawal.reason && <span class="small">{withdrawal.reason}</span>}
    </div>
  )
}

/** What a withdrawal stands at, and what was asked for where a reversal reduced it. */
export function WithdrawalAmount({ withdrawal }: { withdrawal: Withdrawal }) {
  const { amount_cents: amount, requested_cents: requested, currency } = withdrawal
  return (
    <div>
      <strong>{formatMoney(amount, currency)}</strong>
      {amount < requested && (
        <div class="muted small">reduced from {formatMoney(requested, currency)} by a reversal</div>
      )}
    </div>
  )
}

function statusOf(c: ProgramContext): WithdrawalStatus | undefined {
  return statuses.find(([status]) => status === c.req.query('status'))?.[0]
}

withdrawalPages.get('/programs/:programId/withdrawals', requireProgram('withdrawal:list'), async (c) => {
  const program = c.get('program')
  const status = statusOf(c)
  const before = positiveInteger(c.req.query('before'))
  const options = { limit: pageSize + 1, before, ...(status && { status }) }
  const rows = await listWithdrawals(c.get('db'), program.id, options)
  const withdrawals = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? withdrawals.at(-1) : undefined
  const base = `/programs/${program.id}/withdrawals`
  const pays = may(program.roles, 'withdrawal:pay')
  return renderProgram(c, {
    title: 'Withdrawals',
    current: '/withdrawals',
    children: (
      <>
        <Heading title="Withdrawals" lead="Transfer the money yourself, then mark it as paid: the balance follows.">
          <Segments
            label="State"
            items={[
              { href: base, text: 'All', current: status === undefined },
              ...statuses.map(([value, text]) => ({
                href: addressOf(base, { status: value }),
                text,
                current: value === status,
              })),
            ]}
          />
          {withdrawals.length > 0 && (
            <a class="button" href={addressOf(`${base}.csv`, { status })}>
              Export CSV
            </a>
          )}
          {pays && (
            <PayoutLinks
              base={base}
              currencies={withdrawals.filter((open) => open.status === 'requested').map((open) => open.currency)}
            />
          )}
        </Heading>
        <Card>
          {withdrawals.length === 0 ? (
            <Empty title={status ? 'None in this state' : 'No withdrawals yet'}>
              <p>
                {status ? (
                  <a href={base}>Show all withdrawals</a>
                ) : (
                  'A partner asks for one from their own pages, once commissions are credited to their balance.'
                )}
              </p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Withdrawals, newest first"
                rows={withdrawals}
                columns={[
                  { label: 'Asked', cell: ({ created_at: at }) => <Day at={at} /> },
                  {
                    label: 'Partner',
                    cell: (withdrawal) => (
                      <div>
                        <strong>{withdrawal.partner_name}</strong>
                        {withdrawal.payout_email && <div class="muted small">{withdrawal.payout_email}</div>}
                      </div>
                    ),
                  },
                  { label: 'State', cell: (withdrawal) => <WithdrawalState withdrawal={withdrawal} /> },
                  { label: 'Amount', right: true, cell: (withdrawal) => <WithdrawalAmount withdrawal={withdrawal} /> },
                  ...(pays
                    ? [
                        {
                          label: '',
                          right: true,
                          cell: (withdrawal: Withdrawal) => <Decisions withdrawal={withdrawal} base={base} />,
                        },
                      ]
                    : []),
                ]}
              />
              <Pager
                newer={before === undefined ? undefined : addressOf(base, { status })}
                older={last && addressOf(base, { status, before: String(last.id) })}
              />
            </>
          )}
        </Card>
      </>
    ),
  })
})

function Decisions({ withdrawal, base }: { withdrawal: Withdrawal; base: string }) {
  if (withdrawal.status !== 'requested') return null
  const amount = formatMoney(withdrawal.amount_cents, withdrawal.currency)
  const subject = `the withdrawal of ${amount} by ${withdrawal.partner_name}`
  return (
    <div class="row right">
      <form method="post" action={`${base}/${withdrawal.id}/pay`}>
        <input type="hidden" name="amount_cents" value={String(withdrawal.amount_cents)} />
        <button
          type="submit"
          class="compact primary"
          aria-label={`Mark as paid: ${subject}`}
          data-confirm={`Have you transferred ${amount} to ${withdrawal.partner_name}? This cannot be undone.`}
        >
          Mark as paid
        </button>
      </form>
      <details class="switcher">
        <summary class="compact" aria-label={`Refuse ${subject}`}>
          Refuse
        </summary>
        <form method="post" action={`${base}/${withdrawal.id}/refuse`} class="menu stack">
          <div class="field">
            <label for={`reason-${withdrawal.id}`}>Reason, which the partner sees</label>
            <input id={`reason-${withdrawal.id}`} name="reason" required maxlength={1000} />
          </div>
          <button type="submit" class="danger">
            Refuse it
          </button>
        </form>
      </details>
    </div>
  )
}

withdrawalPages.get('/programs/:programId/withdrawals.csv', requireProgram('withdrawal:list'), async (c) => {
  const program = c.get('program')
  const status = statusOf(c)
  const withdrawals = await listWithdrawals(c.get('db'), program.id, { limit: csvRows, ...(status && { status }) })
  const columns = [
    'id',
    'asked',
    'partner_id',
    'partner',
    'payout_email',
    'status',
    'currency',
    'amount',
    'requested',
    'decided',
    'reason',
  ] as const
  const rows = withdrawals.map((withdrawal) => ({
    id: withdrawal.id,
    asked: withdrawal.created_at,
    partner_id: withdrawal.partner_id,
    partner: withdrawal.partner_name,
    payout_email: withdrawal.payout_email,
    status: withdrawal.status,
    currency: withdrawal.currency,
    amount: majorUnits(withdrawal.amount_cents, withdrawal.currency),
    requested: majorUnits(withdrawal.requested_cents, withdrawal.currency),
    decided: withdrawal.decided_at,
    reason: withdrawal.reason,
  }))
  return csvResponse(c, `withdrawals-${program.id}`, toCsv(columns, rows))
})

withdrawalPages.get('/programs/:programId/withdrawals/payouts.csv', requireProgram('withdrawal:pay'), async (c) => {
  const program = c.get('program')
  const { layout, currency } = payoutFileOf(c.req.query())
  const text = await exportWithdrawals(c.get('db'), program.id, layout, currency)
  return csvResponse(c, `withdrawals-${program.id}-${layout}-${currency}`, text)
})

function withdrawalIdOf(c: ProgramContext): number {
  const id = positiveInteger(c.req.param('withdrawalId'))
  if (id === undefined) throw new ApiError('not_found', 'This program has no such withdrawal.')
  return id
}

withdrawalPages.post(
  '/programs/:programId/withdrawals/:withdrawalId/pay',
  requireProgram('withdrawal:pay'),
  async (c) => {
    const program = c.get('program')
    const amountCents = positiveInteger((await readForm(c))['amount_cents'])
    if (amountCents === undefined) throw new ApiError('invalid_request', 'Load the page again, then mark it as paid.')
    await payWithdrawal(c.get('db'), program.id, withdrawalIdOf(c), amountCents)
    flash(c, 'good', 'Marked as paid.')
    return c.redirect(`/programs/${program.id}/withdrawals`, 303)
  },
)

withdrawalPages.post(
  '/programs/:programId/withdrawals/:withdrawalId/refuse',
  requireProgram('withdrawal:pay'),
  async (c) => {
    const program = c.get('program')
    const reason = ((await readForm(c))['reason'] ?? '').trim().slice(0, 1000).toWellFormed()
    if (reason === '') throw new ApiError('invalid_request', 'Say why, so that the partner knows.')
    await refuseWithdrawal(c.get('db'), program.id, withdrawalIdOf(c), reason)
    flash(c, 'good', 'Refused. The amount is available to the partner again.')
    return c.redirect(`/programs/${program.id}/withdrawals`, 303)
  },
)
