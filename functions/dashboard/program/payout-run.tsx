import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { formatMoney } from '../../../lib/money.ts'
import { exportPayments } from '../../../lib/money/payout-files.ts'
import { type LeftOut, payPayoutRun, type PayoutRun, readPayoutRun } from '../../../lib/money/payout-runs.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { idInPath } from '../parts/address.ts'
import { Badge, Card, Heading } from '../parts/blocks.tsx'
import { redirectWith } from '../parts/flash.tsx'
import { form } from '../parts/form.ts'
import { Day } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { exportCsv } from '../parts/list.tsx'
import { createPages, requireProgram } from '../parts/page.ts'
import { Table } from '../parts/table.tsx'
import { shownCents, TransferFields, transferFields } from '../parts/transfer.tsx'
import { Payee, WithdrawalAmount, withdrawalStates } from '../parts/withdrawal.tsx'
import { PayoutFileLinks, payoutFileOf } from './payout-files.tsx'

/** One payout run: its payments, its files, and marking it as paid. */
export const payoutRunPage = createPages()

/** Where a program's payouts are; a run's address goes on with its id. */
export const payoutsOf = (programId: number) => `/programs/${programId}/payouts`

/** Why somebody is not in a run, as people read it. */
export const leftOutTexts: Record<LeftOut, string> = {
  below_minimum: 'Below the minimum',
  no_payout_address: 'No payout address',
  payout_address_changed: 'New payout address, which waits a day',
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

/** Whether a run is paid, when and by what transfer. */
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

payoutRunPage.get('/programs/:programId/payouts/:runId', requireProgram('withdrawal:list'), async (c) => {
  const program = c.get('program')
  const run = await readPayoutRun(c.get('db'), program.id, idInPath(c, 'runId', missing))
  const address = `${payoutsOf(program.id)}/${run.id}`
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
              payments={run.withdrawals.filter(
                ({ status }) => status === 'requested' || (run.paid_at !== null && status === 'paid'),
              )}
            />
          )}
        </Heading>
        {pays && run.paid_at === null && <PayRun address={address} open={open} />}
        <Payments withdrawals={run.withdrawals} />
        <LeftOutPartners partners={run.leftOut} payouts={payoutsOf(program.id)} />
      </>
    ),
  })
})

type RunShown = Awaited<ReturnType<typeof readPayoutRun>>

function Payments({ withdrawals }: { withdrawals: RunShown['withdrawals'] }) {
  return (
    <Card title="Payments">
      <Table
        caption="Payments of this run"
        rows={withdrawals}
        columns={[
          { label: 'Payment', cell: ({ id }) => <code>withdrawal-{id}</code> },
          {
            label: 'Partner',
            cell: ({ partner_name: name, payout_address: payTo }) => <Payee name={name} address={payTo} />,
          },
          {
            label: 'State',
            cell: ({ status }) => <Badge tone={withdrawalStates[status].tone}>{withdrawalStates[status].name}</Badge>,
          },
          {
            label: 'Amount',
            right: true,
            cell: (withdrawal) => <WithdrawalAmount withdrawal={withdrawal} />,
          },
        ]}
      />
    </Card>
  )
}

/** Who was payable and is not in the run. `payouts` is where they can be paid by hand. */
function LeftOutPartners({ partners, payouts }: { partners: RunShown['leftOut']; payouts: string }) {
  if (partners.length === 0) return null
  return (
    <Card title="Left out">
      <p class="muted">
        What is payable to them now stands under <a href={payouts}>Payout runs</a>, where a manual payment can be
        recorded.
      </p>
      <Table
        caption="Partners left out of this run"
        rows={partners}
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
  )
}

function PayRun({ address, open }: { address: string; open: { amount_cents: number; currency: string }[] }) {
  const sum = open.reduce((total, { amount_cents: cents }) => total + cents, 0)
  const shown = totals(open.map(({ amount_cents, currency }) => ({ currency, payable_cents: amount_cents })))
  return (
    <Card title={open.length === 0 ? 'Close this run' : `Mark ${shown} as paid`}>
      <p class="muted">
        {open.length === 0
          ? 'Reversals or the partners themselves cancelled all of its payments.'
          : 'Pay with the file first. Marking the run as paid posts every payment and notifies the partners.'}
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

payoutRunPage.get('/programs/:programId/payouts/:runId/file.csv', requireProgram('withdrawal:pay'), async (c) => {
  const { id: programId } = c.get('program')
  const payoutRunId = idInPath(c, 'runId', missing)
  const file = payoutFileOf(c.req.query())
  const text = await exportPayments(c.get('db'), programId, { payoutRunId }, file)
  return await exportCsv(c, `payout-run-${payoutRunId}-${file.layout}-${file.currency}`, text)
})

const payForm = z.object({ amount_cents: shownCents, ...transferFields })

payoutRunPage.post(
  '/programs/:programId/payouts/:runId/pay',
  requireProgram('withdrawal:pay'),
  form(payForm),
  async (c) => {
    const { id: programId } = c.get('program')
    const runId = idInPath(c, 'runId', missing)
    const { amount_cents: amountCents, ...transfer } = c.req.valid('form')
    await sendSoon(c.env, await payPayoutRun(c.get('db'), programId, runId, transfer, amountCents))
    return redirectWith(c, `${payoutsOf(programId)}/${runId}`, 'The run is paid. Its partners are notified.')
  },
)
