import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import type { Part } from '../../../lib/keyset.ts'
import { formatMoney, isCurrency, majorUnits, maxAmountCents } from '../../../lib/money.ts'
import type { Debt } from '../../../lib/money/balances.ts'
import {
  createPayoutRun,
  listPayoutRunsWithSums,
  type PayoutRun,
  type payoutRunSorts,
  readPayoutRunTotals,
  readPayoutsDue,
  type RunSum,
  setMinimumPayout,
} from '../../../lib/money/payout-runs.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { Card, LinkButton } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal } from '../components/form.ts'
import { counted, Day, formatNumber } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { readListQuery, byId, Find, List, noneFits, type Page, type Query, readPage } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { smallestUnits } from '../components/typed-number.ts'
import { payoutsOf, SumsByState } from '../components/payout.tsx'
import { partnerColumn } from './partner-columns.tsx'
import { PayoutViews } from './payout-files.tsx'
import { RunState } from './payout-run.tsx'
import { CreateRun, DueSums } from './payouts-due.tsx'

/** Payout runs with their sums, negative balances, and the minimum payout. */
export const pages = createProgramPages()

const runsPage = (c: ProgramContext) => payoutsOf(c.get('program').id)

const sorts: Record<(typeof payoutRunSorts)[number], string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  payments: 'Most payments first',
}

pages.get('/payout-runs', requireProgram('payout:list'), async (c) => {
  const program = c.get('program')
  const db = c.get('db')
  const { search, sort } = readListQuery(c, sorts)
  const query = { q: search, sort }
  let sums: RunSum[] = []
  const readRuns = async (part: Part) => {
    const listed = await listPayoutRunsWithSums(db, program.id, { ...part, search, sort })
    sums = listed.sums
    return listed.runs
  }
  const [figures, page, totals] = await Promise.all([
    readPayoutsDue(db, program.id),
    readPage(c, byId, readRuns, query),
    readPayoutRunTotals(db, program.id, { search }),
  ])
  return c.render(
    <ProgramPage
      title="Payout runs"
      current="/payouts"
      lead="A payout run has one payment for each partner with commissions due. Pay it with its file, then mark it as paid."
      actions={
        <>
          <PayoutViews programId={program.id} current="runs" />
          {may(program.roles, 'processor:manage') && (
            <LinkButton href={`/programs/${program.id}/payouts/providers`} text="Providers" />
          )}
          <CreateRun program={program} figures={figures} />
        </>
      }
    >
      <DueSums program={program} figures={figures} />
      <Find
        address={payoutsOf(program.id)}
        query={query}
        what="Partner, or a run's reference"
        sorts={sorts}
        sortLabel="Order of runs"
      />
      <Runs programId={program.id} page={page} totals={totals} query={query} sums={sums} />
      <Debts programId={program.id} debts={figures.debts} />
      {may(program.roles, 'program:update') && <Minimum program={program} minimums={figures.minimums} />}
    </ProgramPage>,
  )
})

const daysSince = (time: Date) => Math.floor((Date.now() - time.getTime()) / 86_400_000)

/** Partners with a negative balance, oldest first. */
function Debts({ programId, debts }: { programId: number; debts: Debt[] }) {
  if (debts.length === 0) return null
  return (
    <Card title="Owed by partners">
      <p class="muted">
        Their balance is below zero, because commissions were reversed after a payout. Later commissions reduce the
        debt. An erased partner's debt stays here.
      </p>
      <Table
        caption="Partners with a balance below zero"
        rows={debts}
        columns={[
          partnerColumn(programId),
          { label: 'Since', cell: ({ owed_since: since }) => <Day at={since} /> },
          { label: 'Age', cell: ({ owed_since: since }) => counted(daysSince(since), 'day', 'days') },
          {
            label: 'Owed',
            right: true,
            cell: ({ owed_cents: cents, currency }) => <strong>{formatMoney(cents, currency)}</strong>,
          },
        ]}
      />
    </Card>
  )
}

interface RunsProps {
  programId: number
  page: Page<PayoutRun>
  totals: Awaited<ReturnType<typeof readPayoutRunTotals>>
  query: Query
  sums: RunSum[]
}

function Runs({ programId, page, totals, query, sums }: RunsProps) {
  return (
    <List
      title="Runs"
      page={page}
      totals={totals.runs}
      rows="payout runs"
      note={<SumsByState sums={totals.sums} isLine />}
      caption="Payout runs"
      columns={[
        {
          label: 'Run',
          phone: 'title',
          cell: ({ id, created_at: at }) => (
            <a href={`${payoutsOf(programId)}/${id}`}>
              Run {id}, <Day at={at} />
            </a>
          ),
        },
        { label: 'Payments', cell: ({ payment_count: count }) => formatNumber(count) },
        { label: 'State', phone: 'plain', cell: (run) => <RunState run={run} /> },
        {
          label: 'Sums',
          cell: ({ id }) => <SumsByState sums={sums.filter(({ payout_run_id: run }) => run === id)} />,
        },
      ]}
      empty={
        query['q']
          ? noneFits(payoutsOf(programId))
          : { title: 'No payout runs yet', text: 'The first run pays all amounts that are due.' }
      }
    />
  )
}

interface MinimumProps {
  program: ViewerProgram
  minimums: Awaited<ReturnType<typeof readPayoutsDue>>['minimums']
}

function Minimum({ program, minimums }: MinimumProps) {
  const own = minimums.find(({ currency }) => currency === program.currency)
  return (
    <Card title="Minimum payout">
      <p class="muted">
        {minimums.length === 0
          ? 'The minimum is 0: any amount is paid.'
          : `Partners are paid from ${new Intl.ListFormat('en').format(
              minimums.map(({ currency, minimum_payout_cents: cents }) => formatMoney(cents, currency)),
            )} on. A minimum of 0 means any amount.`}
      </p>
      <Form action={`${payoutsOf(program.id)}/minimum`} submit="Save" layout="inline">
        <Field name="currency" label="Currency" value={program.currency.toUpperCase()} required />
        <Field
          name="minimum"
          label="Minimum"
          inputmode="decimal"
          value={String(majorUnits(own?.minimum_payout_cents ?? 0, program.currency))}
          required
        />
      </Form>
    </Card>
  )
}

const minimumForm = z.object({
  currency: z
    .string()
    .check(z.trim(), z.toLowerCase(), z.refine(isCurrency, 'Enter the code of a currency, for example USD.')),
  minimum: z.string(),
})

pages.post('/payout-runs/minimum', requireProgram('program:update'), form(minimumForm, runsPage), async (c) => {
  const { currency, minimum } = c.req.valid('form')
  const cents = smallestUnits(minimum, currency)
  if (!(cents >= 0 && cents <= maxAmountCents))
    throw new FormRefusal({ minimum: `Enter an amount of ${currency.toUpperCase()}, for example 50.` })
  await setMinimumPayout(c.get('db'), c.get('program').id, currency, cents)
  return redirectWith(c, runsPage(c), 'The minimum payout was saved.')
})

const stale = 'Reload the page, then create the run.'
const makeForm = z.object({ request_id: z.uuid(stale) })

pages.post('/payout-runs', requireProgram('payout:pay'), form(makeForm), async (c) => {
  const outbox: RelayMessage[] = []
  const runId = await createPayoutRun(c.get('db'), c.get('program').id, c.req.valid('form').request_id, outbox)
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  return runId === null
    ? redirectWith(c, runsPage(c), 'No payouts are due now, so no run was created.', 'warn')
    : redirectWith(c, `${runsPage(c)}/${runId}`, `Payout run ${runId} was created.`)
})
