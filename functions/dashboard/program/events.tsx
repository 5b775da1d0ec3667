import type { Part } from '../../../lib/keyset.ts'
import type { Child } from 'hono/jsx'
import { toCsv } from '../../../lib/csv.ts'
import { majorUnits } from '../../../lib/money.ts'
import { campaignIn, campaignNames } from '../../../lib/tracking/campaign.ts'
import {
  asCursor,
  type EventChoice,
  type ListedEvent,
  listedEvents,
  positionIn,
} from '../../../lib/tracking/event-list.ts'
import { addressOf, cut } from '../components/address.ts'
import { Heading, Segments } from '../components/blocks.tsx'
import { formatDate } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import {
  asDays,
  askedOf,
  type Choice,
  dayChoices,
  daysIn,
  exportList,
  ExportLink,
  Find,
  List,
  noneFits,
  readPage,
} from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { eventColumns } from './event-columns.tsx'

/** Lists events: live events and test events, each at an address of its own. */
export const eventPages = createPages()

const modes = {
  live: {
    part: '/events',
    lead: 'Recorded clicks, signups and sales, without test events. Times are in UTC.',
    what: 'Customer key, click id or transaction id',
  },
  test: {
    part: '/test/events',
    lead: 'Recorded test clicks, leads and sales. Times are in UTC.',
    what: 'Customer key or transaction id',
  },
} as const
type Mode = keyof typeof modes

const kinds = [
  ['', 'All'],
  ['click', 'Clicks'],
  ['lead', 'Leads'],
  ['conversion', 'Sales'],
] as const

/** Among test events, only clicks have an origin, and none has a partner. */
const choices: Record<Mode, Choice[]> = {
  live: [
    { name: 'partner', label: 'Partner', placeholder: 'Name or id' },
    { name: 'code', label: 'Link', placeholder: 'Code' },
    { name: 'country', label: 'Country', placeholder: 'US' },
    ...dayChoices,
  ],
  test: dayChoices,
}

interface Asked {
  mode: Mode
  address: string
  choice: EventChoice
  /** The filters, as the address has them. */
  query: Record<string, string | undefined>
}

function askedIn(c: ProgramContext, mode: Mode): Asked {
  const { id: programId } = c.get('program')
  const { search } = askedOf(c, {})
  const days = daysIn(c)
  const eventType = kinds.find(([kind]) => kind !== '' && kind === c.req.query('eventType'))?.[0] || undefined
  const textOf = (name: string) => (mode === 'live' && cut((c.req.query(name) ?? '').trim(), 100)) || undefined
  const [partner, code, country] = [textOf('partner'), textOf('code'), textOf('country')?.toUpperCase()]
  return {
    mode,
    address: `/programs/${programId}${modes[mode].part}`,
    choice: { programId, isTest: mode === 'test', eventType, search, partner, code, country, ...days },
    query: { eventType, q: search, partner, code, country, ...asDays(days) },
  }
}

eventPages.get('/programs/:programId/events', requireProgram('tracking:list'), (c) => renderEvents(c, 'live'))
eventPages.get('/programs/:programId/test/events', requireProgram('tracking:list'), (c) => renderEvents(c, 'test'))

async function renderEvents(c: ProgramContext, mode: Mode) {
  const asked = askedIn(c, mode)
  let since: Date | undefined
  const page = await readPage(
    {
      address: asked.address,
      filters: asked.query,
      place: { before: c.req.query('before'), after: c.req.query('after') },
      cursorOf: (event: ListedEvent) => asCursor(event),
    },
    async ({ limit, before, after }) => {
      const part = { limit, before: positionIn(before), after: positionIn(after) }
      const { events, clicksSince } = await listedEvents(c.get('db'), asked.choice, part)
      since = clicksSince
      return events
    },
  )
  const program = c.get('program')
  const isFiltered = Object.values(asked.query).some(Boolean)
  return renderProgram(c, {
    title: 'Events',
    current: modes[mode].part,
    children: (
      <>
        <Filters asked={asked} isEmpty={page.rows.length === 0} />
        <List
          page={page}
          caption="Events, newest first"
          columns={eventColumns(program, mode === 'test')}
          empty={isFiltered ? noneFits(asked.address, 'events') : noneYet[mode](program.id)}
          position={since && `Clicks are kept from ${formatDate(since)} on.`}
        />
      </>
    ),
  })
}

function Filters({ asked: { mode, address, query }, isEmpty }: { asked: Asked; isEmpty: boolean }) {
  return (
    <>
      <Heading title="Events" lead={modes[mode].lead}>
        <Segments
          label="Type"
          items={kinds.map(([kind, text]) => ({
            href: addressOf(address, { ...query, eventType: kind }),
            text,
            current: (query['eventType'] ?? '') === kind,
          }))}
        />
        {!isEmpty && <ExportLink href={addressOf(`${address}.csv`, query)} />}
      </Heading>
      <Find address={address} query={query} what={modes[mode].what} choices={choices[mode]} />
    </>
  )
}

const noneYet: Record<Mode, (programId: number) => { title: string; text: Child }> = {
  live: (programId) => ({
    title: 'No events yet',
    text: (
      <>
        The first event appears when somebody opens your site through a partner's link.{' '}
        <a href={`/programs/${programId}/check`}>Set up</a> shows the missing steps.
      </>
    ),
  }),
  test: () => ({
    title: 'No test events',
    text: (
      <>
        <a href="/docs/test-data">How to send some</a>
      </>
    ),
  }),
}

eventPages.get('/programs/:programId/events.csv', requireProgram('tracking:list'), (c) => exportEvents(c, 'live'))
eventPages.get('/programs/:programId/test/events.csv', requireProgram('tracking:list'), (c) => exportEvents(c, 'test'))

const csvColumns = [
  'id',
  'event_type',
  'timestamp',
  'partner_id',
  'partner',
  'link',
  'click_id',
  'customer_key',
  'page_url',
  'referrer_url',
  'geo_country',
  'geo_city',
  'device_type',
  'browser_name',
  ...campaignNames,
  'transaction_id',
  'amount',
  'refunded',
  'currency',
  'sale_type',
  'payment_status',
  'is_recurring',
] as const

async function exportEvents(c: ProgramContext, mode: Mode) {
  const { choice } = askedIn(c, mode)
  let since = ''
  return await exportList(c, {
    nameOf: () => `${mode === 'live' ? 'events' : 'test-events'}-${c.get('program').id}${since}`,
    read: async (part: Part<string>) => {
      const place = { limit: part.limit, before: positionIn(part.before) }
      const { events, clicksSince } = await listedEvents(c.get('db'), choice, place)
      if (clicksSince) since = `-clicks-since-${clicksSince.toISOString().slice(0, 10)}`
      return events
    },
    cursorOf: (event) => asCursor(event),
    write: (events) => toCsv(csvColumns, events.map(csvRow)),
  })
}

function csvRow(event: ListedEvent) {
  const { currency, amount_cents: amount, refunded_cents: refunded } = event
  const inUnits = (cents: number | null) => (cents === null || currency === null ? null : majorUnits(cents, currency))
  return {
    ...event,
    ...campaignIn(event.campaign),
    partner: event.partner_name,
    link: event.link_code,
    amount: inUnits(amount),
    refunded: inUnits(refunded),
  }
}
