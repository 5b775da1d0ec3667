import { may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import {
  type CommissionStatus,
  commissionStatuses,
  listCommissions,
  type ListedCommission,
} from '../../../lib/money/commission-list.ts'
import { approveCommissions, rejectCommission } from '../../../lib/money/commissions.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { majorUnits } from '../../../lib/money.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { exportCommissions } from '../../../lib/money/payout-files.ts'
import { CommissionAmount, CommissionCause, CommissionState, statusNames } from '../parts/commission-parts.tsx'
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
import { Card, Day, Empty, Heading, Pager, Segments, Table } from '../parts/parts.tsx'

/** What partners earned, and deciding on it before its hold ends. */
export const commissionPages = createPages()

type ProgramContext = PageContext<{ viewer: Viewer; program: ViewerProgram }>

const pageSize = 50
const csvRows = 10_000

function statusOf(c: ProgramContext): CommissionStatus | undefined {
  return commissionStatuses.find((status) => status === c.req.query('status'))
}

commissionPages.get('/programs/:programId/commissions', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const status = statusOf(c)
  const before = positiveInteger(c.req.query('before'))
  const rows = await listCommissions(c.get('db'), { programId: program.id }, { limit: pageSize + 1, before, status })
  const commissions = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? commissions.at(-1) : undefined
  const base = `/programs/${program.id}/commissions`
  const decides = may(program.roles, 'commission:decide')
  return renderProgram(c, {
    title: 'Commissions',
    current: '/commissions',
    children: (
      <>
        <Heading title="Commissions" lead="Credited to the partner when their hold ends, or when you approve them.">
          <Segments
            label="State"
            items={[undefined, ...commissionStatuses].map((value) => ({
              href: addressOf(base, { status: value }),
              text: value ? statusNames[value] : 'All',
              current: value === status,
            }))}
          />
          {commissions.length > 0 && (
            <a class="button" href={addressOf(`${base}.csv`, { status })}>
              Export CSV
            </a>
          )}
          {status === 'approved' && (
            <PayoutLinks base={base} currencies={commissions.map(({ currency }) => currency)} />
          )}
        </Heading>
        <Card>
          {commissions.length === 0 ? (
            <Empty title={status ? 'None in this state' : 'No commissions yet'}>
              <p>
                {status ? (
                  <a href={base}>Show all commissions</a>
                ) : (
                  'The first one is made with the first sale that a partner brought. Have your server send sales, or connect Stripe in the settings.'
                )}
              </p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Commissions, newest first"
                rows={commissions}
                columns={[
                  { label: 'Made', cell: ({ created_at: at }) => <Day at={at} /> },
                  { label: 'Partner', cell: ({ partner_name: name }) => <strong>{name}</strong> },
                  { label: 'For', cell: (commission) => <CommissionCause commission={commission} /> },
                  { label: 'State', cell: (commission) => <CommissionState commission={commission} /> },
                  {
                    label: 'Commission',
                    right: true,
                    cell: (commission) => <CommissionAmount commission={commission} />,
                  },
                  ...(decides
                    ? [
                        {
                          label: '',
                          right: true,
                          cell: (commission: ListedCommission) => <Decisions commission={commission} base={base} />,
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

function Decisions({ commission, base }: { commission: ListedCommission; base: string }) {
  if (commission.status === 'reversed') return null
  const subject = `commission ${commission.id} of ${commission.partner_name}`
  return (
    <div class="row right">
      {commission.credited_at === null && (
        <form method="post" action={`${base}/${commission.id}/approve`}>
          <button type="submit" class="compact" aria-label={`Approve ${subject}`}>
            Approve
          </button>
        </form>
      )}
      <details class="switcher">
        <summary class="compact" aria-label={`Reject ${subject}`}>
          Reject
        </summary>
        <form method="post" action={`${base}/${commission.id}/reject`} class="menu stack">
          <div class="field">
            <label for={`reason-${commission.id}`}>Reason, which the partner is told</label>
            <input id={`reason-${commission.id}`} name="reason" required maxlength={1000} />
          </div>
          <button type="submit" class="danger">
            Reject for good
          </button>
        </form>
      </details>
    </div>
  )
}

commissionPages.get('/programs/:programId/commissions/payouts.csv', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const { layout, currency } = payoutFileOf(c.req.query())
  const text = await exportCommissions(c.get('db'), program.id, layout, currency)
  return csvResponse(c, `commissions-${program.id}-${layout}-${currency}`, text)
})

commissionPages.get('/programs/:programId/commissions.csv', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const commissions = await listCommissions(
    c.get('db'),
    { programId: program.id },
    { limit: csvRows, status: statusOf(c) },
  )
  const columns = [
    'id',
    'made',
    'partner_id',
    'partner',
    'kind',
    'transaction_id',
    'status',
    'currency',
    'amount',
    'reversed',
    'reason',
    'hold_until',
  ] as const
  const rows = commissions.map((commission) => ({
    id: commission.id,
    made: commission.created_at,
    partner_id: commission.partner_id,
    partner: commission.partner_name,
    kind: commission.kind,
    transaction_id: commission.transaction_id,
    status: commission.status,
    currency: commission.currency,
    amount: majorUnits(commission.amount_cents, commission.currency),
    reversed: majorUnits(commission.reversed_cents, commission.currency),
    reason: commission.reason,
    hold_until: commission.hold_until,
  }))
  return csvResponse(c, `commissions-${program.id}`, toCsv(columns, rows))
})

function commissionIdOf(c: ProgramContext): number {
  const id = positiveInteger(c.req.param('commissionId'))
  if (id === undefined) throw new ApiError('not_found', 'This program has no such commission.')
  return id
}

commissionPages.post(
  '/programs/:programId/commissions/:commissionId/approve',
  requireProgram('commission:decide'),
  async (c) => {
    const program = c.get('program')
    const approved = await approveCommissions(c.get('db'), program.id, [commissionIdOf(c)])
    if (approved === 0) throw new ApiError('conflict', 'This commission was decided on already.')
    flash(c, 'good', "Approved: it is in the partner's balance.")
    return c.redirect(`/programs/${program.id}/commissions`, 303)
  },
)

commissionPages.post(
  '/programs/:programId/commissions/:commissionId/reject',
  requireProgram('commission:decide'),
  async (c) => {
    const program = c.get('program')
    const reason = ((await readForm(c))['reason'] ?? '').trim().slice(0, 1000).toWellFormed()
    if (reason === '') throw new ApiError('invalid_request', 'Say why, so that the partner can be told.')
    const { outbox } = await rejectCommission(c.get('db'), program.id, commissionIdOf(c), reason)
    await sendSoon(c.env, outbox)
    flash(c, 'good', 'Rejected. The partner is told the reason.')
    return c.redirect(`/programs/${program.id}/commissions`, 303)
  },
)
