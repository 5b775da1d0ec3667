import * as z from 'zod/mini'
import type { Part, Totals } from '../../../lib/keyset.ts'
import { ApiError } from '../../../lib/errors.ts'
import { may } from '../../../lib/access/roles.ts'
import { formatMoney } from '../../../lib/money.ts'
import { exportPayments } from '../../../lib/money/payout-files.ts'
import {
  type Excluded,
  exclusionCursor,
  exclusionTotals,
  type ExcludedPartner,
  type PayoutRun,
  payPayoutRun,
  readPayoutRunPart,
  reopenPayoutRun,
} from '../../../lib/money/payout-runs.ts'
import { listPayoutLines, payoutLineTotals } from '../../../lib/money/payout-lines.ts'
import { isOpenStatus, type Payout, payoutTotals } from '../../../lib/money/payouts.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { addressOf, idInPath, positiveInteger } from '../components/address.ts'
import { Badge, Card, LinkButton, Metric, Segments } from '../components/blocks.tsx'
import { Form, Hidden, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { counted, Day, formatDate, formatNumber } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import {
  byId,
  exportCsv,
  Find,
  List,
  noneFits,
  type Page,
  programList,
  readPage,
  searchIn,
} from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { paidBefore, shownCents, transferFields, TransferFields } from '../components/transfer.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { payoutLineList } from '../components/payout-lines.tsx'
import {
  Payee,
  payoutColumns,
  PayoutDecisions,
  payoutsOf,
  SumsByState,
  totals as sumsOf,
} from '../components/payout.tsx'
import { Providing, readProviding } from './payout-run-provider.tsx'
import { partnerAddress, partnerColumn } from './partner-columns.tsx'
import { payoutFileOf, RunFileLinks } from './payout-files.tsx'

/** One payout run: its payments, its files, and the form that marks it as paid. */
export const pages = createProgramPages()

/** The text for each exclusion reason. */
export const exclusionTexts: Record<Excluded, string> = {
  below_minimum: 'Below the minimum',
  no_payout_address: 'No payout address',
  payout_address_changed: 'New payout address: 24-hour wait',
  no_tax_form: 'No valid tax form',
}

/** The state of a run, with the date and the reference of the transfer. */
export function RunState({ run: { paid_on: paidOn, reference } }: { run: Pick<PayoutRun, 'paid_on' | 'reference'> }) {
  if (paidOn === null) return <Badge tone="warn">Open</Badge>
  return (
    <span>
      <Badge tone="good">Paid</Badge>{' '}
      <span class="muted small">
        <Day at={paidOn} />, {reference}
      </span>
    </span>
  )
}

const missing = 'This program has no such payout run.'
const runIn = (c: ProgramContext) => idInPath(c, 'runId', missing)
const runPage = (c: ProgramContext) => `${payoutsOf(c.get('program').id)}/${runIn(c)}`

type RunShown = Awaited<ReturnType<typeof readPayoutRunPart>>

const excludedPart = 'excluded'

pages.get('/payout-runs/:runId', requireProgram('payout:list'), async (c) => {
  const { id: programId, roles } = c.get('program')
  const runId = runIn(c)
  const address = runPage(c)
  const search = searchIn(c)
  const part = c.req.query('part') === excludedPart ? excludedPart : undefined
  const query = { part, q: search }
  let run: RunShown | undefined
  const readRun = async (lists: Parameters<typeof readPayoutRunPart>[3]) =>
    (run = await readPayoutRunPart(c.get('db'), programId, runId, lists))
  const readPayments = async (page: Part) => (await readRun({ payments: { ...page, search } })).payments
  const readExcluded = async (page: Part<string>) => (await readRun({ excluded: { ...page, search } })).excluded
  const [totals, excluded, included, providing] = await Promise.all([
    c
      .get('db')
      .query(
        part ? exclusionTotals(programId, runId, search) : payoutTotals({ programId }, { payoutRunId: runId, search }),
      ),
    part && readPage(c, exclusionCursors, readExcluded, query),
    part ? undefined : readPage(c, byId, readPayments, query),
    readProviding(c.get('db'), c.get('program'), runId),
  ])
  const list = excluded ? (
    <ExcludedPartners page={excluded} totals={totals} programId={programId} address={address} />
  ) : (
    included && (
      <Payments
        page={included}
        totals={totals}
        programId={programId}
        address={address}
        decides={may(roles, 'payout:pay')}
      />
    )
  )
  if (!run) throw new ApiError('not_found', missing)
  const pays = may(roles, 'payout:pay')
  const open = run.sums.filter(({ status }) => isOpenStatus(status))
  const inFiles = run.paid_at === null ? open : run.sums.filter(({ status }) => status === 'paid')
  const inFile = new Set(inFiles.filter((sum) => sum.payments > sum.at_provider).map(({ currency }) => currency))
  const files = [...Map.groupBy(run.sums, ({ currency }) => currency)]
    .filter(([currency]) => inFile.has(currency))
    .map(([currency, sums]) => ({ currency, payments: sums.reduce((total, sum) => total + sum.payments, 0) }))
  const byHand = open.some(({ at_provider: count }) => count > 0) ? undefined : open
  const mayReopen = pays && run.is_reopenable
  const excludedAddress = addressOf(address, { part: excludedPart })
  return c.render(
    <ProgramPage
      title={`Payout run ${run.id}`}
      current="/payouts"
      lead={
        <>
          Created <Day at={run.created_at} /> <RunState run={run} />
        </>
      }
      actions={
        <>
          {run.excludedCount > 0 && (
            <Segments
              label="Partners"
              items={[
                { href: address, text: `Payments (${formatNumber(run.payment_count)})`, current: !part },
                {
                  href: excludedAddress,
                  text: `Excluded (${formatNumber(run.excludedCount)})`,
                  current: Boolean(part),
                },
              ]}
            />
          )}
          {run.sums.some(({ status }) => status === 'paid' || status === 'returned') && (
            <LinkButton href={`${address}/lines`} text="Paid commissions" />
          )}
          {pays && <RunFileLinks address={`${address}/file.csv`} counts={files} isPaid={run.paid_at !== null} />}
        </>
      }
    >
      <Providing
        {...providing}
        program={c.get('program')}
        address={address}
        hasUnsent={open.some(({ status }) => status === 'in_run')}
      />
      {pays && run.paid_at === null && byHand && <PayRun address={address} open={byHand} />}
      {mayReopen && (
        <Card title="Marked as paid by mistake?">
          <p class="muted">
            You can undo this for 24 hours, until the next run. The payments return to the balances as entries.
          </p>
          <PostButton action={`${address}/reopen`} confirm={`Reopen payout run ${run.id}?`} text="Reopen run" />
        </Card>
      )}
      <Card title="Totals">
        <SumsByState sums={run.sums} />
      </Card>
      <Find address={address} query={query} what="Partner" />
      {list}
    </ProgramPage>,
  )
})

/** The positions in a list of partners with a balance: a partner's id with a currency. */
export const exclusionCursors = {
  of: exclusionCursor,
  parse: (text = '') => /^[1-9]\d{0,14}-[a-z]{3}$/.exec(text)?.[0],
}

interface PartProps<Row> {
  page: Page<Row>
  totals: Totals[]
  programId: number
  address: string
}

function Payments({ page, totals, programId, address, decides }: PartProps<Payout> & { decides: boolean }) {
  return (
    <List
      title="Payments"
      page={page}
      totals={totals}
      rows="payments"
      caption="Payments of this run"
      columns={[
        {
          label: 'Payment',
          cell: ({ id }) => (
            <a href={`/programs/${programId}/payouts/${id}/lines`}>
              <code>payout-{id}</code>
            </a>
          ),
        },
        {
          label: 'Partner',
          cell: ({ partner_id: id, partner_name: name, payout_address: payTo }) => (
            <Payee href={partnerAddress(programId, id)} name={name} address={payTo} />
          ),
          phone: 'title',
        },
        payoutColumns.state,
        payoutColumns.amount,
        decides && {
          cell: (payout) => <PayoutDecisions payout={payout} address={`/programs/${programId}/payouts`} />,
        },
      ]}
      empty={noneFits(address)}
    />
  )
}

/** The partners with a payable balance that the run excludes. */
function ExcludedPartners({ page, totals, programId, address }: PartProps<ExcludedPartner>) {
  return (
    <List
      title="Excluded"
      page={page}
      totals={totals}
      rows="balances"
      caption="Partners excluded from this run"
      columns={[
        partnerColumn(programId),
        { label: 'Reason', cell: ({ reason }) => exclusionTexts[reason] },
        {
          label: 'Payable at that time',
          right: true,
          cell: ({ payable_cents: cents, currency }) => formatMoney(cents, currency),
        },
      ]}
      empty={noneFits(addressOf(address, { part: excludedPart }))}
      note={
        <>
          Their current balances are under <a href={`/programs/${programId}/payouts/due`}>Due now</a>. You can record a
          manual payment there.
        </>
      }
    />
  )
}

interface PayRunProps {
  address: string
  open: { payable_cents: number; currency: string }[]
}

function PayRun({ address, open }: PayRunProps) {
  const sum = open.reduce((total, { payable_cents: cents }) => total + cents, 0)
  return (
    <Card title={open.length === 0 ? 'Close this run' : `Mark ${sumsOf(open)} as paid`}>
      <p class="muted">
        {open.length === 0
          ? 'All of its payments were reversed or canceled by the partners.'
          : 'Pay with the file first. Marking the run as paid posts every payment and notifies the partners.'}
      </p>
      <Form action={`${address}/confirm`} submit="Mark run as paid" layout="inline" primary>
        <Hidden fields={{ amount_cents: String(sum) }} />
        <TransferFields id="run" />
      </Form>
    </Card>
  )
}

/**
 * Downloads a payment file. If the run is paid, the page first asks for confirmation, because paying the file again would pay everybody
 * twice.
 */
pages.get('/payout-runs/:runId/file.csv', requireProgram('payout:pay'), async (c) => {
  const { id: programId } = c.get('program')
  const payoutRunId = runIn(c)
  const query = c.req.query()
  const file = payoutFileOf(c)
  const run = await readPayoutRunPart(c.get('db'), programId, payoutRunId, { payments: { limit: 0 } })
  if (run.paid_on !== null && query['already_paid'] === undefined) {
    const record = addressOf(`${runPage(c)}/file.csv`, { ...query, already_paid: 'yes' })
    return c.render(<AlreadyPaid run={run} address={runPage(c)} record={record} />)
  }
  const part = positiveInteger(query['part'])
  const text = await exportPayments(c.get('db'), programId, { payoutRunId, part }, file)
  const suffix = `${part !== undefined && part > 1 ? `-part-${part}` : ''}${run.paid_on === null ? '' : '-already-paid'}`
  return await exportCsv(c, `payout-run-${payoutRunId}-${file.layout}-${file.currency}${suffix}`, text)
})

function AlreadyPaid({ run, address, record }: { run: PayoutRun; address: string; record: string }) {
  return (
    <ProgramPage
      title={`Payment file of run ${run.id}`}
      current="/payouts"
      heading={`Payout run ${run.id} is already paid`}
      lead={<RunState run={run} />}
    >
      <Card>
        <p>Paying this file again pays every partner twice. Download it only for your records.</p>
        <div class="row">
          <LinkButton href={record} text="Download for the records" />
          <LinkButton href={`${address}/lines`} text="Paid commissions" />
          <a href={address}>Back to the run</a>
        </div>
      </Card>
    </ProgramPage>
  )
}

programList(pages, '/payout-runs/:runId/lines', 'payout:list', (c) => {
  const { id: programId } = c.get('program')
  const payoutRunId = runIn(c)
  return payoutLineList({
    title: `Paid by payout run ${payoutRunId}`,
    current: '/payouts',
    file: `payout-run-${programId}-${payoutRunId}-lines`,
    read: (part) => listPayoutLines(c.get('db'), { programId }, { ...part, payoutRunId }),
    totals: () => payoutLineTotals({ programId }, { payoutRunId }),
    saleAddress: (sale) => saleAddress(programId, sale.transactionId),
  })
})

pages.post('/payout-runs/:runId/reopen', requireProgram('payout:pay'), async (c) => {
  await reopenPayoutRun(c.get('db'), c.get('program').id, runIn(c))
  return redirectWith(c, runPage(c), 'The run is open again.')
})

const payForm = z.object({ amount_cents: shownCents, ...transferFields })

/** Asks for confirmation before the run is marked as paid. The question is on a separate page, so it doesn't need a script. */
pages.post('/payout-runs/:runId/confirm', requireProgram('payout:pay'), form(payForm, runPage), async (c) => {
  const runId = runIn(c)
  const { amount_cents: amountCents, reference, paid_on: paidOn } = c.req.valid('form')
  const run = await readPayoutRunPart(c.get('db'), c.get('program').id, runId, { payments: { limit: 0 } })
  const open = run.sums.filter(({ status }) => isOpenStatus(status))
  const payments = open.reduce((sum, { payments: count }) => sum + count, 0)
  const unsent = open.reduce((sum, { status, payments: count }) => (status === 'in_run' ? sum + count : sum), 0)
  const transfer = { amount_cents: String(amountCents), reference, paid_on: paidOn.toISOString().slice(0, 10) }
  return c.render(
    <ProgramPage
      title={`Confirm payout run ${runId}`}
      current="/payouts"
      heading={`Mark ${counted(payments, 'payment', 'payments')} as paid?`}
      lead="Each partner's balance is reduced, and each partner is notified."
    >
      <Card>
        <dl class="cards">
          <Metric label="Payments" value={formatNumber(payments)} />
          <Metric label="Sum" value={open.length === 0 ? '—' : sumsOf(open)} />
          <Metric label="Reference" value={reference} />
          <Metric label="Paid on" value={formatDate(paidOn)} />
        </dl>
        {unsent > 0 && unsent < payments && (
          <p>{`No payment file contains ${counted(unsent, 'payment', 'payments')} of this run yet. Download all files first.`}</p>
        )}
        <Form action={`${runPage(c)}/pay`} submit="Confirm payment" cancel={runPage(c)}>
          <Hidden fields={transfer} />
        </Form>
      </Card>
    </ProgramPage>,
  )
})

pages.post('/payout-runs/:runId/pay', requireProgram('payout:pay'), form(payForm, runPage), async (c) => {
  const { amount_cents: amountCents, ...transfer } = c.req.valid('form')
  const { reference, outbox } = await payPayoutRun(c.get('db'), c.get('program').id, runIn(c), transfer, amountCents)
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  if (reference !== transfer.reference) return redirectWith(c, runPage(c), paidBefore(reference), 'bad')
  return redirectWith(c, runPage(c), 'The run was paid. Its partners are notified.')
})
