import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { dateRange, notBackwards } from '../../../lib/api/date-range.ts'
import { formatMoney } from '../../../lib/money.ts'
import {
  type ComparedPartner,
  compareSides,
  type Difference,
  type DifferencePosition,
  maxComparedDays,
  type Period,
  timeOf,
} from '../../../lib/moving/comparison.ts'
import { explainDifference } from '../../../lib/moving/differences.ts'
import { enterShadowMode, leaveShadowMode, readShadowMode, type ShadowMode } from '../../../lib/programs/shadow-mode.ts'
import { addressOf, positiveInteger } from '../components/address.ts'
import { Badge, Card } from '../components/blocks.tsx'
import { DateRange } from '../components/date-range.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { counted, Day, formatNumber } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { List } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { TableCard } from '../components/table.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** Runs the program beside its former service: shadow mode, and the comparison of both, sale by sale. */
export const pages = createProgramPages()

const pageOf = ({ id }: ViewerProgram) => `/programs/${id}/side-by-side`

const shownPartners = 50
const shownDifferences = 50
const defaultDays = 30
const dayMs = 24 * 60 * 60 * 1000

const rangeQuery = z.object(dateRange).check(
  notBackwards,
  z.refine(
    ({ dateFrom, dateTo }) => !dateFrom || !dateTo || dateTo.getTime() - dateFrom.getTime() < maxComparedDays * dayMs,
  ),
)

/** Reads the period from the address: whole days in UTC, the last 30 days by default. */
function periodIn(c: ProgramContext): { period: Period; from: string; to: string; refused: boolean } {
  const parsed = rangeQuery.safeParse({
    dateFrom: c.req.query('dateFrom') || undefined,
    dateTo: c.req.query('dateTo') || undefined,
  })
  const { dateFrom, dateTo } = parsed.data ?? {}
  const isChosen = dateFrom !== undefined && dateTo !== undefined
  const last = isChosen ? dateTo : new Date()
  const to = last.toISOString().slice(0, 10)
  const first = isChosen ? dateFrom : new Date(Date.parse(to) - (defaultDays - 1) * dayMs)
  const from = first.toISOString().slice(0, 10)
  const period = { from: new Date(from), until: new Date(Date.parse(to) + dayMs) }
  return { period, from, to, refused: !parsed.success }
}

/** Reads the position in the list of differences from the address. */
function positionIn(text: string | undefined): DifferencePosition | undefined {
  const [, at, key] = /^(\d{1,16})\.([a-z]+:\d{1,15})$/.exec(text ?? '') ?? []
  return at === undefined || key === undefined ? undefined : { atMicroseconds: Number(at), key }
}

pages.get('/side-by-side', requireProgram('commission:list'), async (c) => {
  const [db, program] = [c.get('db'), c.get('program')]
  const address = pageOf(program)
  const { period, from, to, refused } = periodIn(c)
  const partnerId = positiveInteger(c.req.query('partner'))
  const before = positionIn(c.req.query('before'))
  const [state, { partners, differences, difference_count: count }] = await Promise.all([
    readShadowMode(db, program.id),
    compareSides(db, program.id, period, {
      partners: { limit: shownPartners + 1 },
      differences: { limit: shownDifferences + 1, before, partner_id: partnerId },
    }),
  ])
  const days = { dateFrom: from, dateTo: to }
  const here = (more: Record<string, string>) => addressOf(address, { ...days, ...more })
  return c.render(
    <ProgramPage
      title="Side by side"
      current="/side-by-side"
      lead="Compare the commissions of your former service with those of this program."
    >
      <Mode state={state} program={program} />
      <DateRange action={address} from={from} to={to} refused={refused} maxDays={maxComparedDays} />
      <Partners partners={partners} program={program} here={here} />
      <Differences
        differences={differences}
        count={count}
        program={program}
        here={here}
        partner={partners.find(({ partner_id: id }) => id === partnerId)?.partner_name ?? partnerId?.toString()}
        partnerId={partnerId}
        isLater={before !== undefined}
      />
    </ProgramPage>,
  )
})

for (const [act, work, done] of [
  ['enter', enterShadowMode, 'The program is in shadow mode.'],
  ['leave', leaveShadowMode, 'The program left shadow mode. It credits the commissions of later sales.'],
] as const) {
  pages.post(`/side-by-side/${act}`, requireProgram('program:update'), async (c) => {
    await work(c.get('db'), c.get('program').id)
    return redirectWith(c, pageOf(c.get('program')), done)
  })
}

type Sums = ShadowMode['never_credited']

/** Formats the number of commissions and their sums: `12 commissions ($980.00, €12.00)`. */
function inWords(sums: Sums): string {
  const all = sums.reduce((count, { commissions }) => count + commissions, 0)
  const amounts = sums.map(({ amount_cents: cents, currency }) => formatMoney(cents, currency))
  return `${counted(all, 'commission', 'commissions')}${amounts.length > 0 ? ` (${amounts.join(', ')})` : ''}`
}

/** The state of shadow mode, and a summary of what a change would do. */
function Mode({ state, program }: { state: ShadowMode; program: ViewerProgram }) {
  const {
    in_shadow_mode: isOn,
    shadow_since: since,
    can_enter: canEnter,
    never_credited: never,
    to_credit: open,
  } = state
  const decides = may(program.roles, 'program:update')
  if (!isOn) {
    return (
      <Card title="Shadow mode" aside={<Badge>Disabled</Badge>}>
        <p>
          {canEnter
            ? 'In shadow mode, the program computes everything and credits nothing, while your former service still pays. You can enter it before the first payout.'
            : 'The program has a payout. Shadow mode is possible only before the first payout.'}
        </p>
        {never.length > 0 && <p>{inWords(never)} of shadow mode are never credited.</p>}
        {canEnter && decides && (
          <PostButton
            action={`${pageOf(program)}/enter`}
            text="Enter shadow mode"
            confirm="Enter shadow mode? Commissions of later sales are computed and never credited. Nothing is paid until you leave it."
          />
        )}
      </Card>
    )
  }
  return (
    <Card
      title="Shadow mode"
      aside={
        <Badge tone="accent">
          Enabled since <Day at={since ?? new Date()} />
        </Badge>
      }
    >
      <p>
        The program computes everything and credits nothing. Your former service still pays. Partners don't see these
        commissions and aren't notified.
      </p>
      <p>If you leave shadow mode:</p>
      <p>Commissions of later sales and signups are credited when their hold period ends.</p>
      {never.length > 0 && (
        <p>{inWords(never)} of shadow mode are never credited, because your former service pays them.</p>
      )}
      {open.length > 0 && <p>{inWords(open)} from before shadow mode are credited when their hold period ends.</p>}
      <p>
        The program does not owe the balances of your former service unless you import them after you leave shadow mode.
      </p>
      {decides && (
        <PostButton
          action={`${pageOf(program)}/leave`}
          class="primary"
          text="Leave shadow mode"
          confirm={`Leave shadow mode? Commissions of later sales are credited.${never.length > 0 ? ` ${inWords(never)} of shadow mode are never credited.` : ''}`}
        />
      )}
    </Card>
  )
}

interface PartProps {
  program: ViewerProgram
  /** The page's address, with the same days. */
  here: (more: Record<string, string>) => string
}

function Partners({ partners, program, here }: PartProps & { partners: ComparedPartner[] }) {
  return (
    <TableCard
      title="By partner"
      caption="The sums of both services, the largest difference first"
      rows={partners.slice(0, shownPartners)}
      none={
        <>
          No commissions in this period. <a href={`/programs/${program.id}/imports`}>Import</a> those of your former
          service, with its API key or as CSV files. Import again to refresh them.
        </>
      }
      columns={[
        {
          label: 'Partner',
          phone: 'title',
          cell: ({ partner_id: id, partner_name: name }) => (
            <a href={partnerAddress(program.id, id)}>
              <bdi>{name}</bdi>
            </a>
          ),
        },
        { label: 'There', right: true, cell: ({ former_cents: cents, currency }) => formatMoney(cents, currency) },
        { label: 'Here', right: true, cell: ({ cents, currency }) => formatMoney(cents, currency) },
        {
          label: 'Difference',
          right: true,
          phone: 'amount',
          cell: ({ former_cents: there, cents, currency }) => <strong>{signed(cents - there, currency)}</strong>,
        },
        {
          label: 'Sales that differ',
          right: true,
          cell: ({ partner_id: id, differences }) =>
            differences === 0 ? 'None' : <a href={here({ partner: String(id) })}>{formatNumber(differences)}</a>,
        },
      ]}
    >
      {partners.length > shownPartners && (
        <p class="muted small">These are the {shownPartners} largest differences. The API lists all partners.</p>
      )}
    </TableCard>
  )
}

const signed = (cents: number, currency: string) => `${cents > 0 ? '+' : ''}${formatMoney(cents, currency)}`

interface DifferencesProps extends PartProps {
  differences: Difference[]
  /** The number of all differences. */
  count: number
  /** The name of the partner, if the page shows the differences of only one. */
  partner: string | undefined
  partnerId: number | undefined
  isLater: boolean
}

function Differences({ differences, count, program, here, partner, partnerId, isLater }: DifferencesProps) {
  const rows = differences.slice(0, shownDifferences)
  const last = differences.length > shownDifferences ? rows.at(-1) : undefined
  const filter: Record<string, string> = partnerId === undefined ? {} : { partner: String(partnerId) }
  return (
    <>
      <List
        title="Differences"
        page={{
          rows,
          newer: isLater ? here(filter) : undefined,
          older: last && here({ ...filter, before: `${last.at_us}.${last.key}` }),
        }}
        totals={[{ currency: null, rows: count, cents: 0 }]}
        rows="differences"
        note={
          partner !== undefined && (
            <>
              Only <bdi>{partner}</bdi>. <a href={here({})}>Show all</a>
            </>
          )
        }
        caption="Sales for which the two services pay differently, newest first"
        columns={[
          { label: 'Sale', phone: 'title', cell: (difference) => <Sale difference={difference} program={program} /> },
          {
            label: 'There',
            right: true,
            cell: ({ former_partner_id: id, former_pays_cents: cents, former_currency: currency }) =>
              id === null ? 'Nothing' : formatMoney(cents ?? 0, currency ?? program.currency),
          },
          {
            label: 'Here',
            right: true,
            cell: ({ state, pays_cents: cents, currency }) =>
              state === null ? 'Nothing' : formatMoney(cents ?? 0, currency ?? program.currency),
          },
          {
            label: 'Why',
            cell: (difference) => (
              <div>
                {explainDifference(difference).map(({ text }) => (
                  <div>{text}</div>
                ))}
              </div>
            ),
          },
        ]}
        empty={{
          title: 'No differences',
          text: 'Both services pay the same for every sale of this period, or neither has one.',
        }}
      />
    </>
  )
}

/** The sale with a link to its explanation, or else its id in the former service, with the day and the partner. */
function Sale({ difference, program }: { difference: Difference; program: ViewerProgram }) {
  const { transaction_id: sale, former_payment_id: payment, former_external_id: formerId, key } = difference
  const name = difference.partner_name ?? difference.former_partner_name
  return (
    <div>
      {sale === null ? (
        (payment ?? formerId ?? (key.startsWith('lead') ? 'Signup' : key))
      ) : (
        <a href={saleAddress(program.id, sale)}>{sale}</a>
      )}
      <div class="muted small">
        <Day at={timeOf(difference)} />
        {name !== null && (
          <>
            , <bdi>{name}</bdi>
          </>
        )}
      </div>
    </div>
  )
}
