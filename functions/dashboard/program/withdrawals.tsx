import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney } from '../../../lib/money.ts'
import { countAskedPayments, exportPayments } from '../../../lib/money/payout-files.ts'
import {
  listWithdrawals,
  payWithdrawal,
  refuseWithdrawal,
  type Withdrawal,
  type withdrawalSorts,
} from '../../../lib/money/withdrawals.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { backTo, idInPath } from '../parts/address.ts'
import { ReasonMenu } from '../parts/fields.tsx'
import { redirectWith } from '../parts/flash.tsx'
import { form, type FormState, reasonField, shownForm } from '../parts/form.ts'
import { renderProgram } from '../parts/layout.tsx'
import { askedOf, asQuery, csvRows, exportCsv, ListPage, type Page, readPageById, stateIn } from '../parts/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../parts/page.ts'
import { PayMenu, shownCents, transferFields } from '../parts/transfer.tsx'
import { Payee, withdrawalColumns, withdrawalsCsv, withdrawalStates } from '../parts/withdrawal.tsx'
import { PayoutFileLinks, payoutFileOf } from './payout-files.tsx'

/** What partners asked to be paid, and what runs pay them. */
export const withdrawalPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/withdrawals`
const pageOf = (c: ProgramContext) => addressIn(c.get('program').id)

const sorts: Record<(typeof withdrawalSorts)[number], string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  amount: 'Largest first',
}

const askedIn = (c: ProgramContext) => ({ ...askedOf(c, sorts), status: stateIn(c, withdrawalStates) })
type Asked = ReturnType<typeof askedIn>
const filtersOf = (asked: Asked) => ({ ...asQuery(asked), status: asked.status })

withdrawalPages.get('/programs/:programId/withdrawals', requireProgram('withdrawal:list'), async (c) => {
  const program = c.get('program')
  const asked = askedIn(c)
  const [page, counts] = await Promise.all([
    readPageById(
      c,
      addressIn(program.id),
      (part) => listWithdrawals(c.get('db'), { programId: program.id }, { ...part, ...asked }),
      filtersOf(asked),
    ),
    may(program.roles, 'withdrawal:pay') ? countAskedPayments(c.get('db'), program.id) : [],
  ])
  return renderProgram(c, {
    title: 'Payouts',
    current: '/withdrawals',
    children: <Withdrawals program={program} asked={asked} page={page} counts={counts} form={shownForm(c)} />,
  })
})

interface WithdrawalsProps {
  program: ViewerProgram
  asked: Asked
  page: Page<Withdrawal>
  /** How many payments the files hold. */
  counts: { currency: string; payments: number }[]
  form: FormState
}

function Withdrawals({ program, asked, page, counts, form: shown }: WithdrawalsProps) {
  const address = addressIn(program.id)
  const pays = may(program.roles, 'withdrawal:pay')
  const { asked: askedAt, state, amount } = withdrawalColumns
  return (
    <ListPage
      title="Payouts"
      lead="What partners requested and payout runs include. Transfer the money, then mark it as paid."
      address={address}
      query={filtersOf(asked)}
      rows="payouts"
      states={withdrawalStates}
      what="Partner or reference"
      sorts={sorts}
      actions={pays && <PayoutFileLinks address={`${address}/payouts.csv`} counts={counts} />}
      page={page}
      caption="Payouts, newest first"
      columns={[
        askedAt,
        {
          label: 'Partner',
          cell: ({ partner_name: name, payout_email: payTo, payout_waits_until: until, status: current }) => (
            <Payee name={name} address={payTo} waitsUntil={current === 'requested' ? until : null} />
          ),
        },
        state,
        amount,
        pays && {
          label: '',
          right: true,
          cell: (withdrawal) => <Decisions withdrawal={withdrawal} address={address} form={shown} />,
        },
      ]}
      empty={{
        title: 'No payouts yet',
        text: 'Partners request payouts from their own pages once commissions are credited. Payout runs create them too.',
      }}
    />
  )
}

interface DecisionsProps {
  withdrawal: Withdrawal
  address: string
  form: FormState
}

function Decisions({ withdrawal, address, form: shown }: DecisionsProps) {
  if (withdrawal.payout_run_id !== null) {
    const run = withdrawal.payout_run_id
    return <a href={address.replace(/withdrawals$/, `payouts/${run}`)}>Payout run {run}</a>
  }
  if (withdrawal.status !== 'requested') return null
  const { id, partner_name: partner, amount_cents: amountCents, currency } = withdrawal
  const amount = formatMoney(amountCents, currency)
  const subject = `the payout of ${amount} to ${partner}`
  return (
    <div class="row right">
      <PayMenu
        action={`${address}/${id}/pay`}
        id={String(id)}
        subject={subject}
        amountCents={amountCents}
        form={shown}
      />
      <ReasonMenu
        action={`${address}/${id}/refuse`}
        id={id}
        verb="Refuse"
        subject={subject}
        label="Reason, shown to the partner"
        submit="Refuse payout"
        form={shown}
      />
    </div>
  )
}

withdrawalPages.get('/programs/:programId/withdrawals.csv', requireProgram('withdrawal:list'), async (c) => {
  const { id: programId } = c.get('program')
  const withdrawals = await listWithdrawals(c.get('db'), { programId }, { limit: csvRows, ...askedIn(c) })
  const text = withdrawalsCsv(withdrawals, ['partner_id', 'partner', 'payout_email'])
  return await exportCsv(c, `payouts-${programId}`, text)
})

withdrawalPages.get('/programs/:programId/withdrawals/payouts.csv', requireProgram('withdrawal:pay'), async (c) => {
  const program = c.get('program')
  const file = payoutFileOf(c.req.query())
  const text = await exportPayments(c.get('db'), program.id, { askedIn: file.currency }, file)
  return await exportCsv(c, `payouts-${program.id}-${file.layout}-${file.currency}`, text)
})

const missing = 'This program has no such payout.'
const payForm = z.object({ amount_cents: shownCents, ...transferFields })

withdrawalPages.post(
  '/programs/:programId/withdrawals/:withdrawalId/pay',
  requireProgram('withdrawal:pay'),
  form(payForm, pageOf),
  async (c) => {
    const { id: programId } = c.get('program')
    const { amount_cents: amountCents, ...transfer } = c.req.valid('form')
    const withdrawalId = idInPath(c, 'withdrawalId', missing)
    const { withdrawal, outbox } = await payWithdrawal(c.get('db'), programId, withdrawalId, amountCents, transfer)
    await sendSoon(c.env, outbox)
    const back = backTo(c, addressIn(programId))
    if (withdrawal.reference !== transfer.reference) return redirectWith(c, back, paidBefore(withdrawal), 'bad')
    return redirectWith(c, back, 'Marked as paid.')
  },
)

/** What the second of two people reads who each made a transfer. */
const paidBefore = ({ reference }: { reference: string | null }) =>
  `This was paid before, by the transfer ${reference}. Yours is not recorded: look whether the money went twice.`

const refuseForm = z.object({ reason: reasonField('Enter a reason. The partner sees it.') })

withdrawalPages.post(
  '/programs/:programId/withdrawals/:withdrawalId/refuse',
  requireProgram('withdrawal:pay'),
  form(refuseForm, pageOf),
  async (c) => {
    const { id: programId } = c.get('program')
    const { reason } = c.req.valid('form')
    const withdrawalId = idInPath(c, 'withdrawalId', missing)
    const { outbox } = await refuseWithdrawal(c.get('db'), programId, withdrawalId, reason)
    await sendSoon(c.env, outbox)
    return redirectWith(c, backTo(c, addressIn(programId)), 'Refused. The amount is available to the partner again.')
  },
)
