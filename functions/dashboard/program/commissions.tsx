import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { type CommissionStatus, listCommissions, type ListedCommission } from '../../../lib/money/commission-list.ts'
import { approveCommissions, rejectCommission } from '../../../lib/money/commissions.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { addressOf, backTo, idInPath, positiveInteger } from '../parts/address.ts'
import { Badge } from '../parts/blocks.tsx'
import { commissionColumns, commissionRow, commissionStates } from '../parts/commission.tsx'
import { PostButton, ReasonMenu } from '../parts/fields.tsx'
import { redirectWith } from '../parts/flash.tsx'
import { form, reasonField } from '../parts/form.ts'
import { renderProgram } from '../parts/layout.tsx'
import { exportCsv, csvRows, ListPage, noneInState, type Page, readPage, StateFilter, stateIn } from '../parts/list.tsx'
import { createPages, requireProgram } from '../parts/page.ts'

/** What partners earned, and deciding on it before its hold ends. */
export const commissionPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/commissions`

commissionPages.get('/programs/:programId/commissions', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const status = stateIn(c, commissionStates)
  const page = await readPage(
    {
      address: addressIn(program.id),
      filters: { status },
      before: positiveInteger(c.req.query('before')),
      cursorOf: ({ id }: ListedCommission) => id,
    },
    (options) => listCommissions(c.get('db'), { programId: program.id }, { ...options, status }),
  )
  return renderProgram(c, {
    title: 'Commissions',
    current: '/commissions',
    children: <Commissions program={program} status={status} page={page} />,
  })
})

interface CommissionsProps {
  program: ViewerProgram
  status: CommissionStatus | undefined
  page: Page<ListedCommission>
}

function Commissions({ program, status, page }: CommissionsProps) {
  const address = addressIn(program.id)
  const { made, cause, state, amount } = commissionColumns
  return (
    <ListPage
      title="Commissions"
      lead="Credited to the partner when their hold ends, or when you approve them."
      filter={<StateFilter address={address} states={commissionStates} current={status} />}
      csv={addressOf(`${address}.csv`, { status })}
      page={page}
      caption="Commissions, newest first"
      columns={[
        made,
        { label: 'Partner', cell: ({ partner_name: name }) => <strong>{name}</strong> },
        cause,
        { ...state, cell: (commission) => <StateToReview commission={commission} /> },
        amount,
        may(program.roles, 'commission:decide') && {
          label: '',
          right: true,
          cell: (commission) => <Decisions commission={commission} address={address} />,
        },
      ]}
      empty={
        status
          ? noneInState(address, 'commissions')
          : {
              title: 'No commissions yet',
              text: 'The first one is made with the first sale that a partner brought. Have your server send sales, or connect Stripe in the settings.',
            }
      }
    />
  )
}

/** The state, and whether the program should look at it before it is paid. */
function StateToReview({ commission }: { commission: ListedCommission }) {
  return (
    <div class="stack tight">
      {commissionColumns.state.cell(commission)}
      {commission.review_reason && (
        <span class="small">
          <Badge tone="warn">Review</Badge> Only a browser said who this customer is, and it can be made up.
        </span>
      )}
    </div>
  )
}

function Decisions({ commission, address }: { commission: ListedCommission; address: string }) {
  if (commission.status === 'reversed') return null
  const subject = `commission ${commission.id} of ${commission.partner_name}`
  return (
    <div class="row right">
      {commission.credited_at === null && (
        <PostButton action={`${address}/${commission.id}/approve`} class="compact" label={`Approve ${subject}`}>
          Approve
        </PostButton>
      )}
      <ReasonMenu
        action={`${address}/${commission.id}/reject`}
        id={commission.id}
        verb="Reject"
        subject={subject}
        label="Reason, which the partner is told"
        submit="Reject for good"
      />
    </div>
  )
}

commissionPages.get('/programs/:programId/commissions.csv', requireProgram('commission:list'), async (c) => {
  const { id: programId } = c.get('program')
  const options = { limit: csvRows, status: stateIn(c, commissionStates) }
  const commissions = await listCommissions(c.get('db'), { programId }, options)
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
    'review_reason',
  ] as const
  return await exportCsv(c, `commissions-${programId}`, toCsv(columns, commissions.map(commissionRow)))
})

const missing = 'This program has no such commission.'

commissionPages.post(
  '/programs/:programId/commissions/:commissionId/approve',
  requireProgram('commission:decide'),
  async (c) => {
    const { id: programId } = c.get('program')
    const approved = await approveCommissions(c.get('db'), programId, [idInPath(c, 'commissionId', missing)])
    if (approved === 0) throw new ApiError('conflict', 'This commission was decided on already.')
    return redirectWith(c, backTo(c, addressIn(programId)), "Approved: it is in the partner's balance.")
  },
)

const rejectForm = z.object({ reason: reasonField('Say why, so that the partner can be told.') })

commissionPages.post(
  '/programs/:programId/commissions/:commissionId/reject',
  requireProgram('commission:decide'),
  form(rejectForm),
  async (c) => {
    const { id: programId } = c.get('program')
    const { reason } = c.req.valid('form')
    const commissionId = idInPath(c, 'commissionId', missing)
    const { outbox } = await rejectCommission(c.get('db'), programId, commissionId, reason)
    await sendSoon(c.env, outbox)
    return redirectWith(c, backTo(c, addressIn(programId)), 'Rejected. The partner is told the reason.')
  },
)
