import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import { formatMoney, isCurrency, decimalAmount } from '../../../lib/money.ts'
import {
  askForPayoutAddress,
  type DuePart,
  dueParts,
  exclusionCursor,
  payByHand,
  type PayoutDue,
  type payoutDueSorts,
  readPayoutsDue,
  payoutDueTotals,
  duePageStatement,
} from '../../../lib/money/payout-runs.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { backTo } from '../components/address.ts'
import { Badge, Card, Metric } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { counted } from '../components/format.tsx'
import { programList, readListQuery } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Payee, payoutsOf, totals } from '../components/payout.tsx'
import { PayMenu, shownCents, transferFields } from '../components/transfer.tsx'
import { partnerAddress } from './partner-columns.tsx'
import { PayoutViews } from './payout-files.tsx'
import { exclusionCursors, exclusionTexts } from './payout-run.tsx'

/** Lists the partners with a due amount and its parts, and records manual payments. */
export const pages = createProgramPages()

export const dueAddress = (programId: number) => `/programs/${programId}/payouts/due`

type DueFigures = Awaited<ReturnType<typeof readPayoutsDue>>

const sorts: Record<(typeof payoutDueSorts)[number], string> = { name: 'By name', amount: 'Largest first' }

programList<PayoutDue, string, DueFigures>(pages, '/payouts/due', 'payout:list', (c) => {
  const program = c.get('program')
  const { search, sort } = readListQuery(c, sorts)
  const pays = may(program.roles, 'payout:pay')
  return {
    title: 'Due now',
    current: '/payouts',
    rows: 'balances',
    query: { q: search, sort },
    cursor: exclusionCursors,
    read: (part) => duePageStatement(program.id, { ...part, search, sort }),
    totals: () => payoutDueTotals(program.id, { search }),
    more: () => readPayoutsDue(c.get('db'), program.id),
    show: (_, figures) => ({
      lead: 'Partners with a payable balance. A payout run pays all partners who are ready.',
      what: 'Partner',
      sorts,
      views: <PayoutViews programId={program.id} current="due" />,
      actions: figures && <CreateRun program={program} figures={figures} />,
      above: figures && <DueSums program={program} figures={figures} />,
      caption: 'Partners with a payable balance',
      columns: [
        {
          label: 'Partner',
          phone: 'title',
          sorts: { ascending: 'name' },
          cell: ({ partner_id: id, partner_name: name, payout_address: payTo }) => (
            <Payee href={partnerAddress(program.id, id)} name={name} address={payTo} />
          ),
        },
        {
          label: 'Next run',
          phone: 'plain',
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
          phone: 'amount',
          sorts: { descending: 'amount' },
          cell: ({ payable_cents: cents, currency }) => <strong>{formatMoney(cents, currency)}</strong>,
        },
        pays && { cell: (due) => due.exclusion_reason !== null && <PayByHand due={due} program={program} /> },
      ],
      empty: {
        title: 'No payouts are due',
        text: 'Commissions are due after their hold period. Amounts in open payouts are not due again.',
      },
    }),
    file: () => `payouts-due-${program.id}`,
    csv: (rows) =>
      toCsv(
        ['partner_id', 'partner', 'payout_address', 'currency', 'payable', 'minimum', 'excluded_because'],
        rows.map((due) => ({
          partner_id: due.partner_id,
          partner: due.partner_name,
          payout_address: due.payout_address,
          currency: due.currency,
          payable: decimalAmount(due.payable_cents, due.currency),
          minimum: decimalAmount(due.minimum_payout_cents, due.currency),
          excluded_because: due.exclusion_reason && exclusionTexts[due.exclusion_reason],
        })),
      ),
  }
})

const duePartNames: Record<DuePart, string> = {
  ready: 'Ready',
  details: 'Missing or new payout address',
  below_minimum: 'Below the minimum',
}

interface DueProps {
  program: ViewerProgram
  figures: DueFigures
}

/** The due amount, split into its three parts. */
export function DueSums({ program, figures: { sums, missing } }: DueProps) {
  if (sums.length === 0) return null
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
      {missing.askable > 0 && may(program.roles, 'payout:pay') && (
        <PostButton
          action={`/programs/${program.id}/payouts/ask`}
          text={`Ask ${counted(missing.askable, 'partner', 'partners')} for details`}
        />
      )}
      {missing.unknown > 0 && (
        <p class="muted small">
          {counted(missing.unknown, 'partner has', 'partners have')} neither an account nor an e-mail address. Add the
          address on the partner’s page.
        </p>
      )}
    </Card>
  )
}

/** The button that creates a payout run with all ready payouts. */
export function CreateRun({ program, figures }: DueProps) {
  const ready = figures.sums.filter(({ part }) => part === 'ready')
  if (ready.length === 0 || !may(program.roles, 'payout:pay')) return null
  return (
    <PostButton
      action={payoutsOf(program.id)}
      class="primary"
      fields={{ request_id: crypto.randomUUID() }}
      confirm={`Create a payout run of ${totals(ready)}?`}
      text="Create payout run"
    />
  )
}

function PayByHand({ due, program }: { due: PayoutDue; program: ViewerProgram }) {
  const { partner_id: partnerId, partner_name: name, payable_cents: cents, currency } = due
  return (
    <PayMenu
      action={`${payoutsOf(program.id)}/by-hand`}
      id={exclusionCursor(due)}
      text="Record payment"
      subject={`${formatMoney(cents, currency)} to ${name}`}
      amountCents={cents}
      fields={{ partner_id: String(partnerId), currency, request_id: crypto.randomUUID() }}
    />
  )
}

const duePage = (c: ProgramContext) => dueAddress(c.get('program').id)

pages.post('/payouts/ask', requireProgram('payout:pay'), async (c) => {
  const { count, outbox } = await askForPayoutAddress(c.get('db'), c.get('program').id)
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  return redirectWith(
    c,
    backTo(c, duePage(c)),
    count === 0
      ? 'You already asked them today.'
      : `${counted(count, 'partner was', 'partners were')} asked for a payout address.`,
  )
})

const stale = 'Reload the page, then record the payment.'
const byHandForm = z.object({
  partner_id: z.pipe(z.string(stale).check(z.regex(/^[1-9]\d{0,14}$/, stale)), z.transform(Number)),
  currency: z.string().check(z.refine(isCurrency, stale)),
  request_id: z.uuid(stale),
  amount_cents: shownCents,
  ...transferFields,
})

pages.post('/payout-runs/by-hand', requireProgram('payout:pay'), form(byHandForm, duePage), async (c) => {
  const { partner_id: partnerId, currency, amount_cents: amountCents, request_id, ...transfer } = c.req.valid('form')
  const payment = { programId: c.get('program').id, partnerId, currency, amountCents, requestId: request_id }
  await sendSoon(c.env, await payByHand(c.get('db'), payment, transfer))
  return redirectWith(c, backTo(c, duePage(c)), `The payment of ${formatMoney(amountCents, currency)} was recorded.`)
})
