import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney, isCurrency, majorUnits, maxAmountCents } from '../../../lib/money.ts'
import { exportPayments } from '../../../lib/money/payout-files.ts'
import {
  type LeftOut,
  listMinimumPayouts,
  listPayoutRuns,
  listPayoutsDue,
  makePayoutRun,
  payByHand,
  payPayoutRun,
  type PayoutDue,
  type PayoutRun,
  readPayoutRun,
  setMinimumPayout,
} from '../../../lib/money/payout-runs.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { idInPath, positiveInteger } from '../parts/address.ts'
import { Badge, Card, Empty, Heading } from '../parts/blocks.tsx'
import { Field, PostButton } from '../parts/fields.tsx'
import { redirectWith } from '../parts/flash.tsx'
import { emptyForm, form, formAgain, type FormState } from '../parts/form.ts'
import { Day, formatNumber } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { csvResponse, List, type Page, readPage } from '../parts/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../parts/page.ts'
import { Table } from '../parts/table.tsx'
import { PayMenu, shownCents, TransferFields, transferFields } from '../parts/transfer.tsx'
import { smallestUnits } from '../parts/typed-number.ts'
import { withdrawalStates } from '../parts/withdrawal.tsx'
import { PayoutFileLinks, payoutFileOf } from './payout-files.tsx'

/** How a program pays its partners: who is due, payout runs with their files, and payments by hand. */
export const payoutRunPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/payouts`

/** Why somebody is not in a run, as people read it. */
const leftOutTexts: Record<LeftOut, string> = {
  below_minimum: 'Below the minimum',
  no_payout_address: 'No payout address',
}

payoutRunPages.get('/programs/:programId/payouts', requireProgram('withdrawal:list'), (c) =>
  renderPayouts(c, emptyForm),
)

async function renderPayouts(c: ProgramContext, shown: FormState) {
  const program = c.get('program')
  const db = c.get('db')
  const [due, minimums, page] = await Promise.all([
    listPayoutsDue(db, program.id),
    listMinimumPayouts(db, program.id),
    readPage(
      {
        address: addressIn(program.id),
        before: positiveInteger(c.req.query('before')),
        cursorOf: ({ id }: PayoutRun) => id,
      },
      (options) => listPayoutRuns(db, program.id, options),
    ),
  ])
  return renderProgram(c, {
    title: 'Payouts',
    current: '/payouts',
    status: shown.status,
    children: (
      <>
        <Heading
          title="Payouts"
          lead="A payout run has one payment for each partner who is due. Pay it with its file, then mark it as paid."
        >
          {may(program.roles, 'withdrawal:pay') && due.some(({ left_out: reason }) => reason === null) && (
            <PostButton
              action={addressIn(program.id)}
              class="primary"
              fields={{ request_id: crypto.randomUUID() }}
              confirm={`Create a payout run of ${totals(due.filter(({ left_out: reason }) => reason === null))}?`}
            >
              Create payout run
            </PostButton>
          )}
        </Heading>
        <Due program={program} due={due} />
        <Runs programId={program.id} page={page} />
        {may(program.roles, 'program:update') && <Minimum program={program} minimums={minimums} form={shown} />}
      </>
    ),
  })
}

/** Sums by currency: `$30.00 and €5.00`. */
function totals(amounts: { currency: string; payable_cents: number }[]): string {
  const byCurrency = Map.groupBy(amounts, ({ currency }) => currency)
  const sums = [...byCurrency].map(([currency, list]) =>
    formatMoney(
      list.reduce((sum, { payable_cents: cents }) => sum + cents, 0),
      currency,
    ),
  )
  return new Intl.ListFormat('en').format(sums)
}

function Due({ program, due }: { program: ViewerProgram; due: PayoutDue[] }) {
  const pays = may(program.roles, 'withdrawal:pay')
  if (due.length === 0) {
    return (
      <Card title="Due now">
        <Empty title="Nobody is due">
          <p>Commissions are due when their hold has ended. What open withdrawals hold is not due a second time.</p>
        </Empty>
      </Card>
    )
  }
  return (
    <Card title="Due now" aside={<strong>{totals(due)}</strong>}>
      <Table
        caption="Partners with a payable balance"
        rows={due}
        columns={[
          {
            label: 'Partner',
            cell: ({ partner_name: name, payout_address: payoutAddress }) => (
              <div>
                <strong>{name}</strong>
                {payoutAddress && <div class="muted small">{payoutAddress}</div>}
              </div>
            ),
          },
          {
            label: 'Next run',
            cell: ({ left_out: reason, minimum_payout_cents: minimum, currency }) =>
              reason === null ? (
                <Badge tone="good">Included</Badge>
              ) : (
                <Badge tone="warn">
                  {leftOutTexts[reason]}
                  {reason === 'below_minimum' && ` of ${formatMoney(minimum, currency)}`}
                </Badge>
              ),
          },
          {
            label: 'Payable',
            right: true,
            cell: ({ payable_cents: cents, currency }) => <strong>{formatMoney(cents, currency)}</strong>,
          },
          pays && {
            label: '',
            right: true,
            cell: ({ partner_id: partnerId, partner_name: name, payable_cents: cents, currency, left_out: reason }) =>
              reason !== null && (
                <PayMenu
                  action={`${addressIn(program.id)}/by-hand`}
                  id={`${partnerId}-${currency}`}
                  text="Paid by hand"
                  subject={`${formatMoney(cents, currency)} to ${name}`}
                  amountCents={cents}
                  fields={{ partner_id: String(partnerId), currency, request_id: crypto.randomUUID() }}
                />
              ),
          },
        ]}
      />
    </Card>
  )
}

function Runs({ programId, page }: { programId: number; page: Page<PayoutRun> }) {
  return (
    <List
      title="Payout runs"
      page={page}
      caption="Payout runs, newest first"
      columns={[
        {
          label: 'Run',
          cell: ({ id, created_at: at }) => (
            <a href={`${addressIn(programId)}/${id}`}>
              Run {id}, <Day at={at} />
            </a>
          ),
        },
        { label: 'Payments', cell: ({ withdrawals }) => formatNumber(withdrawals) },
        { label: 'State', cell: (run) => <RunState run={run} /> },
      ]}
      empty={{ title: 'No payout runs yet', text: 'The first one is created from what is due.' }}
    />
  )
}

function RunState({ run: { paid_on: paidOn, reference } }: { run: Pick<PayoutRun, 'paid_on' | 'reference'> }) {
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

interface MinimumProps {
  program: ViewerProgram
  minimums: Awaited<ReturnType<typeof listMinimumPayouts>>
  form: FormState
}

function Minimum({ program, minimums, form: shown }: MinimumProps) {
  const own = minimums.find(({ currency }) => currency === program.currency)
  return (
    <Card title="Minimum payout">
      <p class="muted">
        {minimums.length === 0
          ? 'Any amount is paid.'
          : `Partners are paid from ${new Intl.ListFormat('en').format(
              minimums.map(({ currency, minimum_payout_cents: cents }) => formatMoney(cents, currency)),
            )} on.`}
      </p>
      <form method="post" action={`${addressIn(program.id)}/minimum`} class="row end">
        <Field name="currency" label="Currency" value={program.currency.toUpperCase()} form={shown} required />
        <Field
          name="minimum"
          label="Minimum"
          inputmode="decimal"
          value={String(majorUnits(own?.minimum_payout_cents ?? 0, program.currency))}
          hint="0: any amount."
          form={shown}
          required
        />
        <button type="submit">Save</button>
      </form>
    </Card>
  )
}

const minimumForm = z.object({
  currency: z
    .string()
    .check(z.trim(), z.toLowerCase(), z.refine(isCurrency, 'Enter the code of a currency, for example USD.')),
  minimum: z.string(),
})

payoutRunPages.post(
  '/programs/:programId/payouts/minimum',
  requireProgram('program:update'),
  form(minimumForm, renderPayouts),
  async (c) => {
    const { id: programId } = c.get('program')
    const { currency, minimum } = c.req.valid('form')
    const cents = smallestUnits(minimum, currency)
    if (!(cents >= 0 && cents <= maxAmountCents)) {
      const errors = { minimum: `Enter an amount of ${currency.toUpperCase()}, for example 50.` }
      return await renderPayouts(c, await formAgain(c, { errors }))
    }
    await setMinimumPayout(c.get('db'), programId, currency, cents)
    return redirectWith(c, addressIn(programId), 'The minimum payout is saved.')
  },
)

const stale = 'Load the page again, then create the run.'
const makeForm = z.object({ request_id: z.uuid(stale) })

payoutRunPages.post('/programs/:programId/payouts', requireProgram('withdrawal:pay'), form(makeForm), async (c) => {
  const { id: programId } = c.get('program')
  const runId = await makePayoutRun(c.get('db'), programId, c.req.valid('form').request_id)
  return runId === null
    ? redirectWith(c, addressIn(programId), 'Nobody is due now, so no run was created.')
    : redirectWith(c, `${addressIn(programId)}/${runId}`, `Payout run ${runId} is created.`)
})

const byHandForm = z.object({
  partner_id: z.pipe(z.string(stale).check(z.regex(/^[1-9]\d{0,14}$/, stale)), z.transform(Number)),
  currency: z.string().check(z.refine(isCurrency, stale)),
  request_id: z.uuid(stale),
  amount_cents: shownCents,
  ...transferFields,
})

payoutRunPages.post(
  '/programs/:programId/payouts/by-hand',
  requireProgram('withdrawal:pay'),
  form(byHandForm),
  async (c) => {
    const { id: programId } = c.get('program')
    const { partner_id: partnerId, currency, amount_cents: amountCents, request_id, ...transfer } = c.req.valid('form')
    const payment = { programId, partnerId, currency, amountCents, requestId: request_id }
    await sendSoon(c.env, await payByHand(c.get('db'), payment, transfer))
    return redirectWith(c, addressIn(programId), `The payment of ${formatMoney(amountCents, currency)} is recorded.`)
  },
)

const missing = 'This program has no such payout run.'

payoutRunPages.get('/programs/:programId/payouts/:runId', requireProgram('withdrawal:list'), async (c) => {
  const program = c.get('program')
  const run = await readPayoutRun(c.get('db'), program.id, idInPath(c, 'runId', missing))
  const address = `${addressIn(program.id)}/${run.id}`
  const pays = may(program.roles, 'withdrawal:pay')
  const open = run.withdrawals.filter(({ status }) => status === 'requested')
  return renderProgram(c, {
    title: `Payout run ${run.id}`,
    current: '/payouts',
    children: (
      <>
        <Heading
          title={`Payout run ${run.id}`}
          lead={
            <>
              Created <Day at={run.created_at} /> <RunState run={run} />
            </>
          }
        >
          {pays && (
            <PayoutFileLinks
              address={`${address}/file.csv`}
              payments={run.withdrawals.filter(({ status }) => status === 'requested' || status === 'paid')}
            />
          )}
        </Heading>
        {pays && run.paid_at === null && <PayRun address={address} open={open} />}
        <Card title="Payments">
          <Table
            caption="Payments of this run"
            rows={run.withdrawals}
            columns={[
              { label: 'Payment', cell: ({ id }) => <code>withdrawal-{id}</code> },
              {
                label: 'Partner',
                cell: ({ partner_name: name, payout_address: payoutAddress }) => (
                  <div>
                    <strong>{name}</strong>
                    <div class="muted small">{payoutAddress}</div>
                  </div>
                ),
              },
              {
                label: 'State',
                cell: ({ status }) => (
                  <Badge tone={withdrawalStates[status].tone}>{withdrawalStates[status].name}</Badge>
                ),
              },
              {
                label: 'Amount',
                right: true,
                cell: ({ amount_cents: amount, requested_cents: requested, currency }) => (
                  <div>
                    <strong>{formatMoney(amount, currency)}</strong>
                    {amount < requested && (
                      <div class="muted small">reduced from {formatMoney(requested, currency)} by a reversal</div>
                    )}
                  </div>
                ),
              },
            ]}
          />
        </Card>
        {run.leftOut.length > 0 && (
          <Card title="Left out">
            <p class="muted">
              What is payable to them now stands under <a href={addressIn(program.id)}>Payouts</a>, where it can be
              recorded as paid by hand.
            </p>
            <Table
              caption="Partners left out of this run"
              rows={run.leftOut}
              columns={[
                { label: 'Partner', cell: ({ partner_name: name }) => <strong>{name}</strong> },
                { label: 'Reason', cell: ({ reason }) => leftOutTexts[reason] },
                {
                  label: 'Payable then',
                  right: true,
                  cell: ({ payable_cents: cents, currency }) => formatMoney(cents, currency),
                },
              ]}
            />
          </Card>
        )}
      </>
    ),
  })
})

function PayRun({ address, open }: { address: string; open: { amount_cents: number; currency: string }[] }) {
  const sum = open.reduce((total, { amount_cents: cents }) => total + cents, 0)
  const shown = totals(open.map(({ amount_cents, currency }) => ({ currency, payable_cents: amount_cents })))
  return (
    <Card title={open.length === 0 ? 'Close this run' : `Mark ${shown} as paid`}>
      <p class="muted">
        {open.length === 0
          ? 'Reversals or the partners themselves cancelled all of its payments.'
          : 'Pay with the file first. Marking the run as paid posts every payment and tells the partners.'}
      </p>
      <form method="post" action={`${address}/pay`} class="row end">
        <input type="hidden" name="amount_cents" value={String(sum)} />
        <TransferFields id="run" />
        <button type="submit" class="primary">
          Mark run as paid
        </button>
      </form>
    </Card>
  )
}

payoutRunPages.get('/programs/:programId/payouts/:runId/file.csv', requireProgram('withdrawal:pay'), async (c) => {
  const { id: programId } = c.get('program')
  const payoutRunId = idInPath(c, 'runId', missing)
  const file = payoutFileOf(c.req.query())
  const text = await exportPayments(c.get('db'), programId, { payoutRunId }, file)
  return csvResponse(c, `payout-run-${payoutRunId}-${file.layout}-${file.currency}`, text)
})

const payForm = z.object({ amount_cents: shownCents, ...transferFields })

payoutRunPages.post(
  '/programs/:programId/payouts/:runId/pay',
  requireProgram('withdrawal:pay'),
  form(payForm),
  async (c) => {
    const { id: programId } = c.get('program')
    const runId = idInPath(c, 'runId', missing)
    const { amount_cents: amountCents, ...transfer } = c.req.valid('form')
    await sendSoon(c.env, await payPayoutRun(c.get('db'), programId, runId, transfer, amountCents))
    return redirectWith(c, `${addressIn(programId)}/${runId}`, 'The run is paid. Its partners are told.')
  },
)
