import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney, isCurrency, majorUnits, maxAmountCents } from '../../../lib/money.ts'
import type { Debt } from '../../../lib/money/balances.ts'
import {
  createPayoutRun,
  type DuePart,
  dueParts,
  listPayoutRuns,
  payByHand,
  type PayoutDue,
  type PayoutRun,
  type payoutRunSorts,
  readPayoutsDue,
  setMinimumPayout,
} from '../../../lib/money/payout-runs.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { Badge, Card, Empty, Metric } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal } from '../components/form.ts'
import { counted, Day, formatNumber } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { askedOf, byId, Find, List, noneFits, type Page, type Query, readPage } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { PayMenu, shownCents, transferFields } from '../components/transfer.tsx'
import { smallestUnits } from '../components/typed-number.ts'
import { Payee } from '../components/payout.tsx'
import { partnerAddress, partnerColumn } from './partner-columns.tsx'
import { PayoutViews } from './payout-files.tsx'
import { exclusionTexts, payoutsOf, RunState, totals } from './payout-run.tsx'

/** Payout runs: the partners who are due, the runs, and payments by hand. */
export const pages = createProgramPages()

const runsPage = (c: ProgramContext) => payoutsOf(c.get('program').id)

const sorts: Record<(typeof payoutRunSorts)[number], string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  payments: 'Most payments first',
}

type DueSums = Awaited<ReturnType<typeof readPayoutsDue>>['sums']

pages.get('/payout-runs', requireProgram('payout:list'), async (c) => {
  const program = c.get('program')
  const db = c.get('db')
  const { search, sort } = askedOf(c, sorts)
  const query = { q: search, sort }
  const [{ rows, sums, minimums, debts }, page] = await Promise.all([
    readPayoutsDue(db, program.id, search),
    readPage(c, byId, (part) => listPayoutRuns(db, program.id, { ...part, search, sort }), query),
  ])
  const included = sums.filter(({ part }) => part === 'ready')
  return c.render(
    <ProgramPage
      title="Payout runs"
      current="/payouts"
      lead="A payout run has one payment for each partner with due commissions. Pay it with its file, then mark it as paid."
      actions={
        <>
          <PayoutViews programId={program.id} current="runs" />
          {may(program.roles, 'payout:pay') && !search && included.length > 0 && (
            <PostButton
              action={payoutsOf(program.id)}
              class="primary"
              fields={{ request_id: crypto.randomUUID() }}
              confirm={`Create a payout run of ${totals(included)}?`}
              text="Create payout run"
            />
          )}
        </>
      }
    >
      <Find
        address={payoutsOf(program.id)}
        query={query}
        what="Partner, or a run's reference"
        sorts={sorts}
        sortLabel="Order of runs"
      />
      <Due program={program} due={rows} sums={sums} search={search} />
      <Debts programId={program.id} debts={debts} />
      <Runs programId={program.id} page={page} query={query} />
      {may(program.roles, 'program:update') && <Minimum program={program} minimums={minimums} />}
    </ProgramPage>,
  )
})

const daysSince = (time: Date) => Math.floor((Date.now() - time.getTime()) / 86_400_000)

/** Partners whose balance is below zero, the oldest debt first. */
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

const duePartNames: Record<DuePart, string> = {
  ready: 'Ready',
  details: 'Missing or new payout address',
  below_minimum: 'Below the minimum',
}

interface DueProps {
  program: ViewerProgram
  due: PayoutDue[]
  sums: DueSums
  search: string | undefined
}

function Due({ program, due, sums, search }: DueProps) {
  const pays = may(program.roles, 'payout:pay')
  const all = sums.reduce((sum, { balances }) => sum + balances, 0)
  if (due.length === 0) {
    return (
      <Card title="Due now">
        {search ? (
          <p class="muted">No partner with that name is due.</p>
        ) : (
          <Empty title="Nobody is due">
            <p>Commissions are due when their hold period has ended. Amounts in open payouts are not due again.</p>
          </Empty>
        )}
      </Card>
    )
  }
  return (
    <Card title="Due now" aside={<strong>{totals(sums)}</strong>}>
      <dl class="cards">
        {dueParts.map((part) => {
          const own = sums.filter((sum) => sum.part === part)
          const count = own.reduce((sum, { balances }) => sum + balances, 0)
          return (
            <Metric label={duePartNames[part]} value={own.length === 0 ? '—' : totals(own)}>
              <dd class="trend">{counted(count, 'payment', 'payments')}</dd>
            </Metric>
          )
        })}
      </dl>
      <Table
        caption="Partners with a payable balance"
        rows={due}
        columns={[
          {
            label: 'Partner',
            cell: ({ partner_id: id, partner_name: name, payout_address: payTo }) => (
              <Payee href={partnerAddress(program.id, id)} name={name} address={payTo} />
            ),
          },
          {
            label: 'Next run',
            cell: ({ exclusion_reason: reason, minimum_payout_cents: minimum, currency }) =>
              reason === null ? (
                <Badge tone="good">Included</Badge>
              ) : (
                <Badge tone="warn">
                  {exclusionTexts[reason]}
                  {reason === 'below_minimum' && ` of ${formatMoney(minimum, currency)}`}
                </Badge>
              ),
          },
          {
            label: 'Payable',
            right: true,
            cell: ({ payable_cents: cents, currency }) => <strong>{formatMoney(cents, currency)}</strong>,
          },
          pays && { cell: (one) => one.exclusion_reason !== null && <PayByHand due={one} program={program} /> },
        ]}
      />
      {all > due.length && (
        <p class="muted small">
          The first {due.length} of {formatNumber(all)} by name. A run pays all included partners; search for a partner
          by name to see the others.
        </p>
      )}
    </Card>
  )
}

function PayByHand({ due, program }: { due: PayoutDue; program: ViewerProgram }) {
  const { partner_id: partnerId, partner_name: name, payable_cents: cents, currency } = due
  return (
    <PayMenu
      action={`${payoutsOf(program.id)}/by-hand`}
      id={`${partnerId}-${currency}`}
      text="Record payment"
      subject={`${formatMoney(cents, currency)} to ${name}`}
      amountCents={cents}
      fields={{ partner_id: String(partnerId), currency, request_id: crypto.randomUUID() }}
    />
  )
}

interface RunsProps {
  programId: number
  page: Page<PayoutRun>
  query: Query
}

function Runs({ programId, page, query }: RunsProps) {
  return (
    <List
      title="Runs"
      page={page}
      caption="Payout runs"
      columns={[
        {
          label: 'Run',
          cell: ({ id, created_at: at }) => (
            <a href={`${payoutsOf(programId)}/${id}`}>
              Run {id}, <Day at={at} />
            </a>
          ),
        },
        { label: 'Payments', cell: ({ payment_count: count }) => formatNumber(count) },
        { label: 'State', cell: (run) => <RunState run={run} /> },
      ]}
      empty={
        query['q']
          ? noneFits(payoutsOf(programId), 'payout runs')
          : { title: 'No payout runs yet', text: 'The first run pays every due partner.' }
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
            )} on. A minimum of 0 is any amount.`}
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
  await sendSoon(c.env, outbox)
  return runId === null
    ? redirectWith(c, runsPage(c), 'Nobody is due now, so no run was created.')
    : redirectWith(c, `${runsPage(c)}/${runId}`, `Payout run ${runId} was created.`)
})

const byHandForm = z.object({
  partner_id: z.pipe(z.string(stale).check(z.regex(/^[1-9]\d{0,14}$/, stale)), z.transform(Number)),
  currency: z.string().check(z.refine(isCurrency, stale)),
  request_id: z.uuid(stale),
  amount_cents: shownCents,
  ...transferFields,
})

pages.post('/payout-runs/by-hand', requireProgram('payout:pay'), form(byHandForm, runsPage), async (c) => {
  const { partner_id: partnerId, currency, amount_cents: amountCents, request_id, ...transfer } = c.req.valid('form')
  const payment = { programId: c.get('program').id, partnerId, currency, amountCents, requestId: request_id }
  await sendSoon(c.env, await payByHand(c.get('db'), payment, transfer))
  return redirectWith(c, runsPage(c), `The payment of ${formatMoney(amountCents, currency)} was recorded.`)
})
