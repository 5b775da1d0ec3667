import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import {
  type commissionSorts,
  commissionTotals,
  type ListedCommission,
  commissionsStatement,
} from '../../../lib/money/commission-list.ts'
import {
  approveCommission,
  approveCommissions,
  rejectCommission,
  rejectCommissions,
} from '../../../lib/money/commissions.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { backTo, idInPath } from '../components/address.ts'
import { Badge, LinkButton } from '../components/blocks.tsx'
import { causeColumn, commissionColumns, commissionsCsv, commissionStates } from '../components/commission.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { Field, PostButton, ReasonMenu, RowMenu } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText, reasonForm, refuseForm, shortText, useFormOf } from '../components/form.ts'
import {
  asDays,
  readListQuery,
  asQuery,
  byId,
  type Choice as ListChoice,
  dayChoices,
  daysIn,
  programList,
  stateIn,
} from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { selectLabel } from '../components/table.tsx'
import { idsOf, SelectionButtons, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { adjustmentsAddress } from './adjustments.tsx'
import { partnerColumn } from './partner-columns.tsx'
import { reviewsAddress } from './reviews.tsx'
import { TimelineLink } from './customer.tsx'

/** Lists commissions, and approves or rejects them before their hold ends. */
export const pages = createProgramPages()

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

programList(pages, '/commissions', 'commission:list', (c) => {
  const { id: programId, roles } = c.get('program')
  const filters = {
    ...readListQuery(c, sorts),
    ...daysIn(c),
    status: stateIn(c, commissionStates),
    review: reviewIn(c),
  }
  const address = addressIn(programId)
  const decides = may(roles, 'commission:decide')
  const seesCustomers = may(roles, 'tracking:list')
  const cause = causeColumn(({ transactionId }) => saleAddress(programId, transactionId))
  const { created, state, amount } = commissionColumns
  return {
    title: 'Commissions',
    current: '/commissions',
    rows: 'commissions',
    query: { ...asQuery(filters), ...asDays(filters), review: filters.review, status: filters.status },
    states: commissionStates,
    cursor: byId,
    read: (part) => commissionsStatement({ programId }, { ...part, ...filters }),
    totals: () => commissionTotals({ programId }, filters),
    show: (rows) => {
      const open = decides ? rows.filter(isOpen) : []
      return {
        lead: 'Commissions are credited to partners when the hold period ends or when you approve them.',
        what: 'Partner or transaction id',
        sorts,
        choices,
        actions: (
          <>
            <LinkButton href={reviewsAddress(programId)} text="Reviews" />
            <LinkButton href={adjustmentsAddress(programId)} text="Manual commissions" />
          </>
        ),
        above: open.length > 0 && <DecideSome address={address} commissions={open} />,
        caption: 'Commissions, newest first',
        columns: [
          open.length > 0 && {
            label: selectLabel,
            cell: (row) =>
              isOpen(row) && <SelectRow id={row.id} label={`commission ${row.id} of ${row.partner_name}`} />,
          },
          created,
          partnerColumn(programId),
          {
            ...cause,
            cell: (row) => (
              <div class="row">
                {cause.cell(row)}
                {/* A sale's page links to the timeline. */}
                {seesCustomers && row.transaction_id === null && (
                  <TimelineLink programId={programId} of={row} commissionId={row.id} />
                )}
              </div>
            ),
          },
          { ...state, cell: (row) => <StateToReview commission={row} /> },
          amount,
          decides && { cell: (row) => <Decisions commission={row} address={address} /> },
        ],
        empty: {
          title: 'No commissions yet',
          text: 'The first sale that a partner refers creates one. Send sales from your server, or connect your payment processor in the settings.',
        },
      }
    },
    file: () => `commissions-${programId}`,
    csv: (commissions) => commissionsCsv(commissions),
  }
})

function reviewIn(c: ProgramContext): 'waiting' | 'decided' | undefined {
  const review = c.req.query('review')
  return review === 'waiting' || review === 'decided' ? review : undefined
}

/** True if the commission can still be approved or rejected. */
const isOpen = ({ status, credited_at: creditedAt, held_at: heldAt, is_shadow: isShadow }: ListedCommission) =>
  creditedAt === null && heldAt === null && status !== 'reversed' && !isShadow

/** Approves or rejects the selected commissions, or approves all on the page, but never commissions that arrived later. */
function DecideSome({ address, commissions }: { address: string; commissions: ListedCommission[] }) {
  const action = `${address}/decide`
  const isRefused = useFormOf(action).values['which'] === 'rejected'
  return (
    <SelectionForm action={action} ids={commissions.map(({ id }) => id)}>
      <SelectionButtons
        verb="Approve"
        count={commissions.length}
        confirm={`Approve all ${commissions.length} waiting commissions on this page?`}
      />
      <details class="switcher" open={isRefused}>
        <summary>Reject selected</summary>
        <div class="menu stack">
          <Field name="reason" id="reject-reason" label="Reason, shown to the partners" maxlength={1000} required />
          <button type="submit" name="which" value="rejected" class="danger">
            Reject selected commissions
          </button>
        </div>
      </details>
    </SelectionForm>
  )
}

/** The state of a commission, marked if somebody should review the commission before payment. */
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
          <Badge tone="warn">Review</Badge> Only a browser identified this customer, and browser reports can be forged.
        </span>
      )}
    </div>
  )
}

function Decisions({ commission, address }: { commission: ListedCommission; address: string }) {
  if (commission.status === 'reversed' || commission.is_shadow) return null
  const subject = `commission ${commission.id} of ${commission.partner_name}`
  return (
    <div class="row right">
      {isOpen(commission) && (
        <PostButton
          action={`${address}/${commission.id}/approve`}
          class="compact"
          label={`Approve ${subject}`}
          text="Approve"
        />
      )}
      <RowMenu label={`Actions on ${subject}`} posts={`${address}/${commission.id}/`}>
        <ReasonMenu
          action={`${address}/${commission.id}/reject`}
          id={commission.id}
          verb="Reject"
          subject={subject}
          label="Reason, shown to the partner"
          submit="Reject commission"
        />
      </RowMenu>
    </div>
  )
}

const missing = 'This program has no such commission.'

const decideForm = z.looseObject({
  which: z.enum(['chosen', 'shown', 'rejected'], 'Select which commissions to approve or reject.'),
  shown: shownField,
  reason: z.pipe(optionalText, z.string().check(shortText(1000))),
})

pages.post('/commissions/decide', requireProgram('commission:decide'), form(decideForm), async (c) => {
  const { id: programId, inShadowMode } = c.get('program')
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
  const [changed, text] =
    which === 'rejected'
      ? [
          await rejectCommissions(c.get('db'), programId, ids, reason, outbox),
          'rejected. The partners are notified with the reason.',
        ]
      : [
          await approveCommissions(c.get('db'), programId, ids, outbox, c.env.EMAIL_HASH_KEY),
          "approved. They are in the partners' balances.",
        ]
  await sendSoon(c.env, outbox)
  const left = ids.length - changed
  const others =
    which === 'rejected'
      ? `${left} had already been rejected or reversed.`
      : inShadowMode
        ? 'The program is in shadow mode and credits nothing. Leave shadow mode first.'
        : `${left} unchanged: already approved, rejected or reversed, held for review, or computed in shadow mode.`
  const done = changed > 0 && `${changed} ${text}`
  const message = [done, left > 0 && others].filter(Boolean).join(' ')
  return redirectWith(c, backTo(c, addressIn(programId)), message, left > 0 ? 'warn' : 'good')
})

pages.post('/commissions/:commissionId/approve', requireProgram('commission:decide'), async (c) => {
  const { id: programId } = c.get('program')
  const commissionId = idInPath(c, 'commissionId', missing)
  const { outbox } = await approveCommission(c.get('db'), programId, commissionId, c.env.EMAIL_HASH_KEY)
  await sendSoon(c.env, outbox)
  return redirectWith(c, backTo(c, addressIn(programId)), "Approved. The commission is in the partner's balance.")
})

const commissionsPage = (c: ProgramContext) => addressIn(c.get('program').id)

pages.post(
  '/commissions/:commissionId/reject',
  requireProgram('commission:decide'),
  form(reasonForm, commissionsPage),
  async (c) => {
    const { id: programId } = c.get('program')
    const commissionId = idInPath(c, 'commissionId', missing)
    const { outbox } = await rejectCommission(c.get('db'), programId, commissionId, c.req.valid('form').reason)
    await sendSoon(c.env, outbox)
    return redirectWith(c, backTo(c, commissionsPage(c)), 'Rejected. The partner is notified with the reason.')
  },
)
