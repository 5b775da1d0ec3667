import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { type commissionSorts, listCommissions, type ListedCommission } from '../../../lib/money/commission-list.ts'
import {
  approveCommission,
  approveCommissions,
  rejectCommission,
  rejectCommissions,
} from '../../../lib/money/commissions.ts'
import { prepareApproval } from '../../../lib/money/reviews.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { backTo, idInPath } from '../components/address.ts'
import { Badge } from '../components/blocks.tsx'
import { causeColumn, commissionColumns, commissionsCsv, commissionStates } from '../components/commission.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { Field, PostButton, ReasonMenu } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import {
  emptyForm,
  form,
  type FormState,
  optionalText,
  reasonField,
  refuseForm,
  shortText,
  shownForm,
} from '../components/form.ts'
import { renderProgram } from '../components/layout.tsx'
import {
  asDays,
  askedOf,
  asQuery,
  type Choice as ListChoice,
  dayChoices,
  daysIn,
  exportList,
  idOf,
  ListPage,
  type Page,
  readPageById,
  stateIn,
} from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { idsOf, SelectionButtons, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { adjustmentsAddress } from './adjustments.tsx'
import { customerAddress } from './customer.tsx'
import { partnerColumn } from './partner-columns.tsx'
import { reviewsAddress } from './reviews.tsx'

/** Lists commissions, and approves or rejects them before their hold ends. */
export const commissionPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/commissions`

const sorts: Record<(typeof commissionSorts)[number], string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  amount: 'Largest first',
  hold: 'Hold ends first',
}

const choices: ListChoice[] = [
  {
    name: 'review',
    label: 'Review',
    options: [
      ['', 'Any'],
      ['waiting', 'To review'],
      ['decided', 'Reviewed'],
    ],
  },
  ...dayChoices,
]

function askedIn(c: ProgramContext) {
  const asked = c.req.query('review')
  const review: 'waiting' | 'decided' | undefined = asked === 'waiting' || asked === 'decided' ? asked : undefined
  return {
    ...askedOf(c, sorts),
    ...daysIn(c),
    status: stateIn(c, commissionStates),
    review,
  }
}
type Asked = ReturnType<typeof askedIn>
const filtersOf = (asked: Asked) => ({
  ...asQuery(asked),
  ...asDays(asked),
  review: asked.review,
  status: asked.status,
})

commissionPages.get('/programs/:programId/commissions', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const asked = askedIn(c)
  const page = await readPageById(
    c,
    addressIn(program.id),
    (part) => listCommissions(c.get('db'), { programId: program.id }, { ...part, ...asked }),
    filtersOf(asked),
  )
  return renderProgram(c, {
    title: 'Commissions',
    current: '/commissions',
    children: <Commissions program={program} asked={asked} page={page} form={shownForm(c)} />,
  })
})

interface CommissionsProps {
  program: ViewerProgram
  asked: Asked
  page: Page<ListedCommission>
  form: FormState
}

function Commissions({ program, asked, page, form: shown }: CommissionsProps) {
  const address = addressIn(program.id)
  const decides = may(program.roles, 'commission:decide')
  const open = decides ? page.rows.filter(isOpen) : []
  const { made, state, amount } = commissionColumns
  const cause = causeColumn(({ transactionId }) => saleAddress(program.id, transactionId))
  const seesCustomers = may(program.roles, 'tracking:list')
  return (
    <ListPage
      title="Commissions"
      lead="Commissions are credited to partners when the hold period ends or when you approve them."
      address={address}
      query={filtersOf(asked)}
      rows="commissions"
      states={commissionStates}
      what="Partner or transaction id"
      sorts={sorts}
      choices={choices}
      actions={
        <>
          <a class="button" href={reviewsAddress(program.id)}>
            Reviews
          </a>
          <a class="button" href={adjustmentsAddress(program.id)}>
            Manual commissions
          </a>
        </>
      }
      page={page}
      caption="Commissions, newest first"
      columns={[
        open.length > 0 && {
          label: 'Select',
          cell: (commission) =>
            isOpen(commission) && (
              <SelectRow
                id={commission.id}
                label={`commission ${commission.id} of ${commission.partner_name}`}
                form={shown}
              />
            ),
        },
        made,
        partnerColumn(program.id),
        {
          label: 'Earned for',
          cell: (commission) => (
            <div>
              {cause.cell(commission)}
              {seesCustomers && (
                <div class="small">
                  <a
                    href={customerAddress(program.id, commission.customer_id)}
                    aria-label={`Timeline of the customer of commission ${commission.id}`}
                  >
                    Timeline
                  </a>
                </div>
              )}
            </div>
          ),
        },
        { ...state, cell: (commission) => <StateToReview commission={commission} /> },
        amount,
        decides && {
          label: '',
          right: true,
          cell: (commission) => <Decisions commission={commission} address={address} form={shown} />,
        },
      ]}
      empty={{
        title: 'No commissions yet',
        text: 'The first sale that a partner refers creates one. Send sales from your server, or connect Stripe in the settings.',
      }}
    >
      {open.length > 0 && <DecideSome address={address} commissions={open} form={shown} />}
    </ListPage>
  )
}

/** True if the commission can still be approved or rejected. */
const isOpen = ({ status, credited_at: creditedAt, held_at: heldAt }: ListedCommission) =>
  creditedAt === null && heldAt === null && status !== 'reversed'

interface OneProps {
  commission: ListedCommission
  form: FormState
}

/** Approves or rejects the selected commissions, or approves all on the page, even if newer ones arrived since. */
function DecideSome({
  address,
  commissions,
  form: shown,
}: {
  address: string
  commissions: ListedCommission[]
  form: FormState
}) {
  const isRefused = shown.values['which'] === 'rejected'
  return (
    <SelectionForm action={`${address}/decide`} ids={commissions.map(({ id }) => id)} form={shown}>
      <SelectionButtons
        verb="Approve"
        count={commissions.length}
        confirm={`Approve all ${commissions.length} on this page that wait?`}
      />
      <details class="switcher" open={isRefused}>
        <summary>Reject selected</summary>
        <div class="menu stack">
          <Field
            name="reason"
            id="reject-reason"
            label="Reason, shown to the partners"
            maxlength={1000}
            form={isRefused ? shown : emptyForm}
            required
          />
          <button type="submit" name="which" value="rejected" class="danger">
            Reject selected commissions
          </button>
        </div>
      </details>
    </SelectionForm>
  )
}

/** The state of a commission, marked if somebody should review it before it is paid. */
function StateToReview({ commission }: { commission: ListedCommission }) {
  return (
    <div class="stack tight">
      {commissionColumns.state.cell(commission)}
      {commission.held_at && (
        <a class="small" href={reviewsAddress(commission.program_id)}>
          Review it
        </a>
      )}
      {commission.review_reason && (
        <span class="small">
          <Badge tone="warn">Review</Badge> Only a browser identified this customer, which can be forged.
        </span>
      )}
    </div>
  )
}

function Decisions({ commission, address, form: shown }: OneProps & { address: string }) {
  if (commission.status === 'reversed') return null
  const subject = `commission ${commission.id} of ${commission.partner_name}`
  return (
    <div class="row right">
      {isOpen(commission) && (
        <PostButton action={`${address}/${commission.id}/approve`} class="compact" label={`Approve ${subject}`}>
          Approve
        </PostButton>
      )}
      <ReasonMenu
        action={`${address}/${commission.id}/reject`}
        id={commission.id}
        verb="Reject"
        subject={subject}
        label="Reason, shown to the partner"
        submit="Reject commission"
        form={shown}
      />
    </div>
  )
}

commissionPages.get('/programs/:programId/commissions.csv', requireProgram('commission:list'), async (c) => {
  const { id: programId } = c.get('program')
  return await exportList(c, {
    nameOf: () => `commissions-${programId}`,
    read: (part) => listCommissions(c.get('db'), { programId }, { ...part, ...askedIn(c) }),
    cursorOf: idOf,
    write: (commissions) => commissionsCsv(commissions),
  })
})

const missing = 'This program has no such commission.'

const decideForm = z.looseObject({
  which: z.enum(['chosen', 'shown', 'rejected'], 'Select which commissions to approve or reject.'),
  shown: shownField,
  reason: z.pipe(optionalText, z.string().check(shortText(1000))),
})

commissionPages.post(
  '/programs/:programId/commissions/decide',
  requireProgram('commission:decide'),
  form(decideForm),
  async (c) => {
    const { id: programId } = c.get('program')
    const { reason, ...selection } = c.req.valid('form')
    const { which } = selection
    const ids = idsOf(selection)
    const hasNoReason = which === 'rejected' && reason === ''
    if (ids.length === 0 || hasNoReason) {
      return await refuseForm(c, addressIn(programId), {
        ...(ids.length === 0 && { problem: 'Select at least one commission first.' }),
        errors: hasNoReason ? { reason: 'Enter a reason. The partners see it.' } : {},
      })
    }
    const outbox: RelayMessage[] = []
    if (which !== 'rejected') await prepareApproval(c.get('db'), c.env.EMAIL_HASH_KEY, programId, ids)
    const [changed, text] =
      which === 'rejected'
        ? [
            await rejectCommissions(c.get('db'), programId, ids, reason, outbox),
            'rejected. The partners are notified with the reason.',
          ]
        : [
            await approveCommissions(c.get('db'), programId, ids, outbox),
            "approved: they are in the partners' balances.",
          ]
    await sendSoon(c.env, outbox)
    const left = ids.length - changed
    return redirectWith(
      c,
      backTo(c, addressIn(programId)),
      left === 0
        ? `${changed} ${text}`
        : `${changed} ${text} ${left} had been approved, rejected or reversed already${which === 'rejected' ? '' : ', or held for review'}.`,
    )
  },
)

commissionPages.post(
  '/programs/:programId/commissions/:commissionId/approve',
  requireProgram('commission:decide'),
  async (c) => {
    const { id: programId } = c.get('program')
    const commissionId = idInPath(c, 'commissionId', missing)
    await prepareApproval(c.get('db'), c.env.EMAIL_HASH_KEY, programId, [commissionId])
    const { outbox } = await approveCommission(c.get('db'), programId, commissionId)
    await sendSoon(c.env, outbox)
    return redirectWith(c, backTo(c, addressIn(programId)), "Approved: it is in the partner's balance.")
  },
)

const rejectForm = z.object({ reason: reasonField('Enter a reason. The partner sees it.') })

commissionPages.post(
  '/programs/:programId/commissions/:commissionId/reject',
  requireProgram('commission:decide'),
  form(rejectForm, (c: ProgramContext) => addressIn(c.get('program').id)),
  async (c) => {
    const { id: programId } = c.get('program')
    const { reason } = c.req.valid('form')
    const commissionId = idInPath(c, 'commissionId', missing)
    const { outbox } = await rejectCommission(c.get('db'), programId, commissionId, reason)
    await sendSoon(c.env, outbox)
    return redirectWith(c, backTo(c, addressIn(programId)), 'Rejected. The partner is notified with the reason.')
  },
)
