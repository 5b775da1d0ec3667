import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { type AskedFile, exportPayments, listAskedFiles } from '../../../lib/money/payout-files.ts'
import { listPayoutLines, payoutLineTotals } from '../../../lib/money/payout-lines.ts'
import {
  type Payout,
  type payoutSorts,
  payoutTotals,
  payPayout,
  refusePayout,
  returnPayout,
  payoutsStatement,
} from '../../../lib/money/payouts.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { backTo, cameFrom, idInPath, positiveInteger } from '../components/address.ts'
import { redirectWith } from '../components/flash.tsx'
import { form, reasonForm } from '../components/form.ts'
import { asQuery, readListQuery, byId, exportCsv, programList, stateIn } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { paidBefore, shownCents, transferFields } from '../components/transfer.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { payoutLineList } from '../components/payout-lines.tsx'
import { statementList } from '../components/statement.tsx'
import { partnerIn } from './partner-columns.tsx'
import { Payee, payoutColumns, PayoutDecisions, payoutsCsv, payoutsOf, payoutStates } from '../components/payout.tsx'
import { partnerAddress } from './partner-columns.tsx'
import { AskedFileLinks, payoutFileOf, PayoutViews } from './payout-files.tsx'

/** The payouts that partners requested and that runs created. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/payouts`
const pageOf = (c: ProgramContext) => addressIn(c.get('program').id)

const sorts: Record<(typeof payoutSorts)[number], string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  amount: 'Largest first',
}

programList(pages, '/payouts', 'payout:list', (c) => {
  const { id: programId, roles } = c.get('program')
  const filters = { ...readListQuery(c, sorts), status: stateIn(c, payoutStates) }
  const pays = may(roles, 'payout:pay')
  const address = addressIn(programId)
  return {
    title: 'Payouts',
    current: '/payouts',
    rows: 'payouts',
    query: { ...asQuery(filters), status: filters.status },
    states: payoutStates,
    cursor: byId,
    read: (part) => payoutsStatement({ programId }, { ...part, ...filters }),
    totals: () => payoutTotals({ programId }, filters),
    more: async () => (pays ? await listAskedFiles(c.get('db'), programId) : []),
    show: (_, files: AskedFile[] = []) => ({
      lead: 'Payouts that partners requested or that payout runs created. Transfer the money, then mark them as paid.',
      what: 'Partner or reference',
      sorts,
      views: <PayoutViews programId={programId} current="payouts" />,
      actions: <AskedFileLinks address={`${address}/payouts.csv`} files={files} />,
      caption: 'Payouts, newest first',
      columns: [
        payoutColumns.created,
        { label: 'Payout', cell: ({ id }) => <a href={`${address}/${id}/lines`}>{id}</a> },
        {
          label: 'Partner',
          cell: ({ partner_id: id, partner_name: name, payout_email: payTo, payout_waits_until: until, status }) => (
            <Payee
              href={partnerAddress(programId, id)}
              name={name}
              address={payTo}
              waitsUntil={status === 'requested' ? until : null}
            />
          ),
          phone: 'title',
        },
        payoutColumns.state,
        payoutColumns.amount,
        {
          label: 'Run',
          cell: ({ payout_run_id: run }) => run !== null && <a href={`${payoutsOf(programId)}/${run}`}>Run {run}</a>,
        },
        pays && { cell: (payout) => <PayoutDecisions payout={payout} address={address} /> },
      ],
      empty: {
        title: 'No payouts yet',
        text: 'Partners request payouts from their own pages once commissions are credited. Payout runs create them too.',
      },
    }),
    file: () => `payouts-${programId}`,
    csv: (payouts) => payoutsCsv(payouts, ['partner_id', 'partner', 'payout_email', 'payout_run_id']),
  }
})

programList(pages, '/payouts/:payoutId/lines', 'payout:list', (c) => {
  const { id: programId } = c.get('program')
  const payoutId = idInPath(c, 'payoutId', missing)
  return payoutLineList({
    title: `Payout ${payoutId}`,
    current: '/payouts',
    file: `payout-${programId}-${payoutId}`,
    read: (part) => listPayoutLines(c.get('db'), { programId }, { ...part, payoutId }),
    totals: () => payoutLineTotals({ programId }, { payoutId }),
    saleAddress: (sale) => saleAddress(programId, sale.transactionId),
  })
})

programList(pages, '/partners/:partnerId/statement', 'payout:list', (c) => {
  const { id: programId } = c.get('program')
  return statementList(c.get('db'), c.req.query(), {
    of: { programId, partnerId: partnerIn(c) },
    current: '/partners',
    saleAddress: (sale) => saleAddress(programId, sale),
  })
})

pages.get('/payouts/payouts.csv', requireProgram('payout:pay'), async (c) => {
  const program = c.get('program')
  const query = c.req.query()
  const file = payoutFileOf(c)
  const fileNumber = positiveInteger(query['file'])
  const text = await exportPayments(c.get('db'), program.id, { askedIn: file.currency, fileNumber }, file)
  const suffix = fileNumber === undefined ? '' : `-file-${fileNumber}-again`
  return await exportCsv(c, `payouts-${program.id}-${file.layout}-${file.currency}${suffix}`, text)
})

/** The page on which somebody decided: the payout's run, or the list of payouts. */
function backToList(c: ProgramContext, { payout_run_id: run }: Payout): string {
  const list = pageOf(c)
  const isOfList = run === null || cameFrom(c)?.split('?')[0] === list
  return backTo(c, isOfList ? list : `${payoutsOf(c.get('program').id)}/${run}`)
}

const missing = 'This program has no such payout.'
const payForm = z.object({ amount_cents: shownCents, ...transferFields })

pages.post('/payouts/:payoutId/pay', requireProgram('payout:pay'), form(payForm, pageOf), async (c) => {
  const { id: programId } = c.get('program')
  const { amount_cents: amountCents, ...transfer } = c.req.valid('form')
  const payoutId = idInPath(c, 'payoutId', missing)
  const { payout, outbox } = await payPayout(c.get('db'), programId, payoutId, amountCents, transfer)
  await sendSoon(c.env, outbox)
  const back = backToList(c, payout)
  if (payout.reference !== transfer.reference) return redirectWith(c, back, paidBefore(payout.reference), 'bad')
  return redirectWith(c, back, 'Marked as paid.')
})

for (const [path, status] of [
  ['/payouts/:payoutId/return', 'returned'],
  ['/payouts/:payoutId/fail', 'failed'],
] as const) {
  pages.post(path, requireProgram('payout:pay'), form(reasonForm, pageOf), async (c) => {
    const payoutId = idInPath(c, 'payoutId', missing)
    const { payout, outbox } = await returnPayout(
      c.get('db'),
      c.get('program').id,
      payoutId,
      status,
      c.req.valid('form').reason,
    )
    await sendSoon(c.env, outbox)
    return redirectWith(c, backToList(c, payout), `Marked as ${status}. The amount is payable again.`)
  })
}

pages.post('/payouts/:payoutId/refuse', requireProgram('payout:pay'), form(reasonForm, pageOf), async (c) => {
  const payoutId = idInPath(c, 'payoutId', missing)
  const { reason } = c.req.valid('form')
  const { payout, outbox } = await refusePayout(c.get('db'), c.get('program').id, payoutId, reason)
  await sendSoon(c.env, outbox)
  return redirectWith(c, backToList(c, payout), 'Refused. The amount is available to the partner again.')
})
