import type { PropsWithChildren } from 'hono/jsx'
import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { may } from '../../../lib/access/roles.ts'
import { formatMoney } from '../../../lib/money.ts'
import { exportPayments } from '../../../lib/money/payout-files.ts'
import {
  type Excluded,
  exclusionCursor,
  type ExcludedPartner,
  payPayoutRun,
  type PayoutRun,
  readPayoutRunPart,
  reopenPayoutRun,
} from '../../../lib/money/payout-runs.ts'
import type { Payout } from '../../../lib/money/payouts.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { addressOf, idInPath } from '../components/address.ts'
import { Badge, Card, Heading, Metric, Segments } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, shownForm } from '../components/form.ts'
import { counted, Day, formatDate, formatNumber } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { askedOf, exportCsv, Find, List, noneFits, type Page, readPage, readPageById } from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { shownCents, TransferFields, transferFields } from '../components/transfer.tsx'
import { Payee, payoutColumns, payoutStates } from '../components/payout.tsx'
import { PayoutFileLinks, payoutFileOf } from './payout-files.tsx'

/** One payout run: its payments, its files, and the form that marks it as paid. */
export const payoutRunPage = createPages()

/** Returns the address of a program's payout runs. A run adds its id. */
export const payoutsOf = (programId: number) => `/programs/${programId}/payout-runs`

/** The exclusion reasons, as people read them. */
export const exclusionTexts: Record<Excluded, string> = {
  below_minimum: 'Below the minimum',
  no_payout_address: 'No payout address',
  payout_address_changed: 'New payout address, waits 24 hours',
}

/** Sums by currency: `$30.00 and €5.00`. */
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

/** The state of a run, with the date and reference of its transfer. */
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
/** How long a run can be taken back after it was marked as paid. */
const reopenMs = 24 * 60 * 60 * 1000
const runIn = (c: ProgramContext) => idInPath(c, 'runId', missing)

type RunShown = Awaited<ReturnType<typeof readPayoutRunPart>>

const excludedPart = 'excluded'

payoutRunPage.get('/programs/:programId/payout-runs/:runId', requireProgram('payout:list'), async (c) => {
  const program = c.get('program')
  const runId = runIn(c)
  const address = `${payoutsOf(program.id)}/${runId}`
  const { search } = askedOf(c, {})
  const part = c.req.query('part') === excludedPart ? excludedPart : undefined
  const query = { part, q: search }
  let run: RunShown | undefined
  const list =
    part === excludedPart ? (
      <ExcludedPartners
        page={await readPage(
          { address, filters: query, place: exclusionPlace(c), cursorOf: exclusionCursor },
          async (asked) =>
            (run = await readPayoutRunPart(c.get('db'), program.id, runId, { excluded: { ...asked, search } }))
              .excluded,
        )}
        address={address}
        payouts={payoutsOf(program.id)}
      />
    ) : (
      <Payments
        page={await readPageById(
          c,
          address,
          async (asked) =>
            (run = await readPayoutRunPart(c.get('db'), program.id, runId, { payments: { ...asked, search } }))
              .payments,
          query,
        )}
        address={address}
      />
    )
  if (!run) throw new ApiError('not_found', missing)
  return renderProgram(c, {
    title: `Payout run ${run.id}`,
    current: '/payout-runs',
    children: (
      <Run run={run} address={address} query={query} pays={may(program.roles, 'payout:pay')} form={shownForm(c)}>
        {list}
      </Run>
    ),
  })
})

/** Reads the position among excluded partners: a partner's id with a currency. */
function exclusionPlace(c: ProgramContext) {
  const cursor = (name: string) => /^[1-9]\d{0,14}-[a-z]{3}$/.exec(c.req.query(name) ?? '')?.[0]
  return { before: cursor('before'), after: cursor('after') }
}

interface RunProps {
  run: RunShown
  address: string
  query: { part: string | undefined; q: string | undefined }
  pays: boolean
  form: FormState
}

/** The totals of a run, above one of its lists. */
function Run({ run, address, query, pays, form: shown, children }: PropsWithChildren<RunProps>) {
  const open = run.sums.filter(({ status }) => status === 'requested' || status === 'sent')
  const inFiles = run.paid_at === null ? open : run.sums.filter(({ status }) => status === 'paid')
  return (
    <>
      <Heading
        title={`Payout run ${run.id}`}
        lead={
          <>
            Created <Day at={run.created_at} /> <RunState run={run} />
          </>
        }
      >
        {run.excludedCount > 0 && (
          <Segments
            label="Partners"
            items={[
              {
                href: address,
                text: `Payments (${formatNumber(run.payment_count)})`,
                current: query.part === undefined,
              },
              {
                href: addressOf(address, { part: excludedPart }),
                text: `Excluded (${formatNumber(run.excludedCount)})`,
                current: query.part !== undefined,
              },
            ]}
          />
        )}
        {pays && <PayoutFileLinks address={`${address}/file.csv`} counts={inFiles} />}
      </Heading>
      {pays && run.paid_at === null && <PayRun address={address} open={open} form={shown} />}
      {pays && run.paid_at !== null && Date.now() - run.paid_at.getTime() < reopenMs && (
        <Card title="Marked as paid by mistake?">
          <p class="muted">
            For 24 hours, and until the next run, you can take this back. The payments return to the balances as
            entries.
          </p>
          <PostButton action={`${address}/reopen`} label="Reopen this run">
            Reopen run
          </PostButton>
        </Card>
      )}
      <Find address={address} query={query} what="Partner" />
      {children}
    </>
  )
}

function Payments({ page, address }: { page: Page<Payout>; address: string }) {
  return (
    <List
      title="Payments"
      page={page}
      caption="Payments of this run"
      columns={[
        { label: 'Payment', cell: ({ id }) => <code>payout-{id}</code> },
        {
          label: 'Partner',
          cell: ({ partner_name: name, payout_address: payTo }) => <Payee name={name} address={payTo} />,
        },
        {
          label: 'State',
          cell: ({ status }) => <Badge tone={payoutStates[status].tone}>{payoutStates[status].name}</Badge>,
        },
        payoutColumns.amount,
      ]}
      empty={noneFits(address, 'payments')}
    />
  )
}

interface ExcludedProps {
  page: Page<ExcludedPartner>
  address: string
  /** The address of the page that records manual payments. */
  payouts: string
}

/** The partners with a payable balance that the run excludes. */
function ExcludedPartners({ page, address, payouts }: ExcludedProps) {
  return (
    <List
      title="Excluded"
      page={page}
      caption="Partners excluded from this run"
      columns={[
        { label: 'Partner', cell: ({ partner_name: name }) => <strong>{name}</strong> },
        { label: 'Reason', cell: ({ reason }) => exclusionTexts[reason] },
        {
          label: 'Payable then',
          right: true,
          cell: ({ payable_cents: cents, currency }) => formatMoney(cents, currency),
        },
      ]}
      empty={noneFits(addressOf(address, { part: excludedPart }), 'excluded partners')}
      position={
        <>
          Their current balances are on <a href={payouts}>Payout runs</a>. You can record a manual payment there.
        </>
      }
    />
  )
}

interface PayRunProps {
  address: string
  open: { payable_cents: number; currency: string }[]
  form: FormState
}

function PayRun({ address, open, form: shown }: PayRunProps) {
  const sum = open.reduce((total, { payable_cents: cents }) => total + cents, 0)
  return (
    <Card title={open.length === 0 ? 'Close this run' : `Mark ${totals(open)} as paid`}>
      <p class="muted">
        {open.length === 0
          ? 'Reversals or the partners canceled all of its payments.'
          : 'Pay with the file first. Marking the run as paid posts every payment and notifies the partners.'}
      </p>
      <form method="post" action={`${address}/confirm`} class="row end">
        <input type="hidden" name="amount_cents" value={String(sum)} />
        <TransferFields id="run" form={shown} />
        <button type="submit" class="primary">
          Mark run as paid
        </button>
      </form>
    </Card>
  )
}

payoutRunPage.get('/programs/:programId/payout-runs/:runId/file.csv', requireProgram('payout:pay'), async (c) => {
  const { id: programId } = c.get('program')
  const payoutRunId = runIn(c)
  const file = payoutFileOf(c.req.query())
  const text = await exportPayments(c.get('db'), programId, { payoutRunId }, file)
  return await exportCsv(c, `payout-run-${payoutRunId}-${file.layout}-${file.currency}`, text)
})

payoutRunPage.post('/programs/:programId/payout-runs/:runId/reopen', requireProgram('payout:pay'), async (c) => {
  const { id: programId } = c.get('program')
  const runId = runIn(c)
  await reopenPayoutRun(c.get('db'), programId, runId)
  return redirectWith(c, `${payoutsOf(programId)}/${runId}`, 'The run is open again.')
})

const payForm = z.object({ amount_cents: shownCents, ...transferFields })

/** Asks for confirmation before the run is marked as paid, on a page of its own, so it works without scripts. */
payoutRunPage.post(
  '/programs/:programId/payout-runs/:runId/confirm',
  requireProgram('payout:pay'),
  form(payForm, (c: ProgramContext) => `${payoutsOf(c.get('program').id)}/${runIn(c)}`),
  async (c) => {
    const { id: programId } = c.get('program')
    const runId = runIn(c)
    const { amount_cents: amountCents, reference, paid_on: paidOn } = c.req.valid('form')
    const run = await readPayoutRunPart(c.get('db'), programId, runId, { payments: { limit: 0 } })
    const address = `${payoutsOf(programId)}/${runId}`
    const open = run.sums.filter(({ status }) => status === 'requested' || status === 'sent')
    const payments = open.reduce((sum, { payments: count }) => sum + count, 0)
    const day = paidOn.toISOString().slice(0, 10)
    return renderProgram(c, {
      title: `Confirm payout run ${runId}`,
      current: '/payout-runs',
      children: (
        <>
          <Heading
            title={`Mark ${counted(payments, 'payment', 'payments')} as paid?`}
            lead="Each partner's balance is reduced, and each partner is notified."
          />
          <Card>
            <dl class="cards">
              <Metric label="Payments" value={formatNumber(payments)} />
              <Metric label="Sum" value={open.length === 0 ? '—' : totals(open)} />
              <Metric label="Reference" value={reference} />
              <Metric label="Paid on" value={formatDate(paidOn)} />
            </dl>
            <form method="post" action={`${address}/pay`} class="row">
              <input type="hidden" name="amount_cents" value={String(amountCents)} />
              <input type="hidden" name="reference" value={reference} />
              <input type="hidden" name="paid_on" value={day} />
              <button type="submit" class="primary">
                Confirm payment
              </button>
              <a class="button" href={address}>
                Cancel
              </a>
            </form>
          </Card>
        </>
      ),
    })
  },
)

payoutRunPage.post(
  '/programs/:programId/payout-runs/:runId/pay',
  requireProgram('payout:pay'),
  form(payForm, (c: ProgramContext) => `${payoutsOf(c.get('program').id)}/${runIn(c)}`),
  async (c) => {
    const { id: programId } = c.get('program')
    const runId = runIn(c)
    const { amount_cents: amountCents, ...transfer } = c.req.valid('form')
    await sendSoon(c.env, await payPayoutRun(c.get('db'), programId, runId, transfer, amountCents))
    return redirectWith(c, `${payoutsOf(programId)}/${runId}`, 'The run is paid. Its partners are notified.')
  },
)
