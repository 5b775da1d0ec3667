import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney } from '../../../lib/money.ts'
import { countAskedPayments, exportPayments } from '../../../lib/money/payout-files.ts'
import {
  listPayouts,
  payPayout,
  refusePayout,
  returnPayout,
  type Payout,
  type payoutSorts,
} from '../../../lib/money/payouts.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { backTo, idInPath } from '../components/address.ts'
import { ReasonMenu } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, reasonField, shownForm } from '../components/form.ts'
import { renderProgram } from '../components/layout.tsx'
import {
  askedOf,
  asQuery,
  exportCsv,
  exportList,
  idOf,
  ListPage,
  type Page,
  readPageById,
  stateIn,
} from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { PayMenu, shownCents, transferFields } from '../components/transfer.tsx'
import { Payee, payoutColumns, payoutsCsv, payoutStates } from '../components/payout.tsx'
import { PayoutFileLinks, payoutFileOf } from './payout-files.tsx'

/** The payouts that partners requested and that runs created. */
export const payoutPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/payouts`
const pageOf = (c: ProgramContext) => addressIn(c.get('program').id)

const sorts: Record<(typeof payoutSorts)[number], string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  amount: 'Largest first',
}

const askedIn = (c: ProgramContext) => ({ ...askedOf(c, sorts), status: stateIn(c, payoutStates) })
type Asked = ReturnType<typeof askedIn>
const filtersOf = (asked: Asked) => ({ ...asQuery(asked), status: asked.status })

payoutPages.get('/programs/:programId/payouts', requireProgram('payout:list'), async (c) => {
  const program = c.get('program')
  const asked = askedIn(c)
  const [page, counts] = await Promise.all([
    readPageById(
      c,
      addressIn(program.id),
      (part) => listPayouts(c.get('db'), { programId: program.id }, { ...part, ...asked }),
      filtersOf(asked),
    ),
    may(program.roles, 'payout:pay') ? countAskedPayments(c.get('db'), program.id) : [],
  ])
  return renderProgram(c, {
    title: 'Payouts',
    current: '/payouts',
    children: <Payouts program={program} asked={asked} page={page} counts={counts} form={shownForm(c)} />,
  })
})

interface PayoutsProps {
  program: ViewerProgram
  asked: Asked
  page: Page<Payout>
  /** The number of payments in the files. */
  counts: { currency: string; payments: number }[]
  form: FormState
}

function Payouts({ program, asked, page, counts, form: shown }: PayoutsProps) {
  const address = addressIn(program.id)
  const pays = may(program.roles, 'payout:pay')
  const { asked: askedAt, state, amount } = payoutColumns
  return (
    <ListPage
      title="Payouts"
      lead="Payouts that partners requested or that payout runs created. Transfer the money, then mark them as paid."
      address={address}
      query={filtersOf(asked)}
      rows="payouts"
      states={payoutStates}
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
          cell: (payout) => <Decisions payout={payout} address={address} form={shown} />,
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
  payout: Payout
  address: string
  form: FormState
}

function Decisions({ payout, address, form: shown }: DecisionsProps) {
  const { id, status, payout_run_id: run, partner_name: partner, amount_cents: amountCents, currency } = payout
  const subject = `the payout of ${formatMoney(amountCents, currency)} to ${partner}`
  const isOpen = status === 'requested' || status === 'sent'
  const wasSent = status === 'sent' || status === 'paid'
  return (
    <div class="row right">
      {run !== null && <a href={address.replace(/payouts$/, `payout-runs/${run}`)}>Payout run {run}</a>}
      {run === null && isOpen && (
        <PayMenu
          action={`${address}/${id}/pay`}
          id={String(id)}
          subject={subject}
          amountCents={amountCents}
          form={shown}
        />
      )}
      {run === null && status === 'requested' && (
        <ReasonMenu
          action={`${address}/${id}/refuse`}
          id={id}
          verb="Refuse"
          subject={subject}
          label="Reason, shown to the partner"
          submit="Refuse payout"
          form={shown}
        />
      )}
      {wasSent && (
        <ReasonMenu
          action={`${address}/${id}/return`}
          id={id}
          verb="Mark as returned"
          subject={subject}
          label="Reason, shown to the partner"
          submit="Mark as returned"
          form={shown}
        />
      )}
    </div>
  )
}

payoutPages.get('/programs/:programId/payouts.csv', requireProgram('payout:list'), async (c) => {
  const { id: programId } = c.get('program')
  return await exportList(c, {
    nameOf: () => `payouts-${programId}`,
    read: (part) => listPayouts(c.get('db'), { programId }, { ...part, ...askedIn(c) }),
    cursorOf: idOf,
    write: (payouts) => payoutsCsv(payouts, ['partner_id', 'partner', 'payout_email']),
  })
})

payoutPages.get('/programs/:programId/payouts/payouts.csv', requireProgram('payout:pay'), async (c) => {
  const program = c.get('program')
  const file = payoutFileOf(c.req.query())
  const text = await exportPayments(c.get('db'), program.id, { askedIn: file.currency }, file)
  return await exportCsv(c, `payouts-${program.id}-${file.layout}-${file.currency}`, text)
})

const missing = 'This program has no such payout.'
const payForm = z.object({ amount_cents: shownCents, ...transferFields })

payoutPages.post(
  '/programs/:programId/payouts/:payoutId/pay',
  requireProgram('payout:pay'),
  form(payForm, pageOf),
  async (c) => {
    const { id: programId } = c.get('program')
    const { amount_cents: amountCents, ...transfer } = c.req.valid('form')
    const payoutId = idInPath(c, 'payoutId', missing)
    const { payout, outbox } = await payPayout(c.get('db'), programId, payoutId, amountCents, transfer)
    await sendSoon(c.env, outbox)
    const back = backTo(c, addressIn(programId))
    if (payout.reference !== transfer.reference) return redirectWith(c, back, paidBefore(payout), 'bad')
    return redirectWith(c, back, 'Marked as paid.')
  },
)

/** The message for the second person who records a transfer for the same payout. */
const paidBefore = ({ reference }: { reference: string | null }) =>
  `This was already paid, by the transfer ${reference}. Yours is not recorded: look whether the money went twice.`

payoutPages.post(
  '/programs/:programId/payouts/:payoutId/return',
  requireProgram('payout:pay'),
  form(z.object({ reason: reasonField('Enter a reason. The partner sees it.') }), pageOf),
  async (c) => {
    const { id: programId } = c.get('program')
    const { reason } = c.req.valid('form')
    const payoutId = idInPath(c, 'payoutId', missing)
    const { outbox } = await returnPayout(c.get('db'), programId, payoutId, 'returned', reason)
    await sendSoon(c.env, outbox)
    return redirectWith(c, backTo(c, addressIn(programId)), 'Marked as returned. The amount is payable again.')
  },
)

const refuseForm = z.object({ reason: reasonField('Enter a reason. The partner sees it.') })

payoutPages.post(
  '/programs/:programId/payouts/:payoutId/refuse',
  requireProgram('payout:pay'),
  form(refuseForm, pageOf),
  async (c) => {
    const { id: programId } = c.get('program')
    const { reason } = c.req.valid('form')
    const payoutId = idInPath(c, 'payoutId', missing)
    const { outbox } = await refusePayout(c.get('db'), programId, payoutId, reason)
    await sendSoon(c.env, outbox)
    return redirectWith(c, backTo(c, addressIn(programId)), 'Refused. The amount is available to the partner again.')
  },
)
