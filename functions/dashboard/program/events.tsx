import type { Child } from 'hono/jsx'
import { openClickHouse } from '../../../lib/click-house.ts'
import { toCsv } from '../../../lib/csv.ts'
import { majorUnits } from '../../../lib/money.ts'
import { campaignIn, campaignNames } from '../../../lib/tracking/campaign.ts'
import type { EventPosition } from '../../../lib/tracking/events.ts'
import { asCursor, eventTotals, type ListedEvent, listedEvents, positionIn } from '../../../lib/tracking/event-list.ts'
import { addressOf, cut } from '../components/address.ts'
import { Segments } from '../components/blocks.tsx'
import { formatDate } from '../components/format.tsx'
import { asDays, type Choice, dayChoices, daysIn, type ListOf, programList, searchIn } from '../components/list.tsx'
import { createProgramPages, type ProgramContext } from '../components/page.ts'
import { eventColumns } from './event-columns.tsx'

/** Lists events: live events and test events, each at its own address. */
export const pages = createProgramPages()

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

/** Only test clicks have an origin, and no test event has a partner. */
const choices: Record<Mode, Choice[]> = {
  live: [
    { name: 'partner', label: 'Partner', placeholder: 'Name or id' },
    { name: 'code', label: 'Link', placeholder: 'Code' },
    { name: 'country', label: 'Country', placeholder: 'US' },
    ...dayChoices,
  ],
  test: dayChoices,
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
        <a href="/docs/test-data">How to send test events</a>
      </>
    ),
  }),
}

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

function eventsIn(c: ProgramContext, mode: Mode): ListOf<ListedEvent, EventPosition> {
  const program = c.get('program')
  const { part, lead, what } = modes[mode]
  const days = daysIn(c)
  const search = searchIn(c)
  const eventType = kinds.find(([kind]) => kind !== '' && kind === c.req.query('eventType'))?.[0] || undefined
  const textOf = (name: string) => (mode === 'live' && cut((c.req.query(name) ?? '').trim(), 100)) || undefined
  const [partner, code, country] = [textOf('partner'), textOf('code'), textOf('country')?.toUpperCase()]
  const choice = { programId: program.id, isTest: mode === 'test', eventType, search, partner, code, country, ...days }
  const query = { eventType, q: search, partner, code, country, ...asDays(days) }
  /** The first day whose clicks are kept, if earlier clicks are missing from the list. */
  let since: Date | undefined
  return {
    title: 'Events',
    current: part,
    rows: 'events',
    query,
    cursor: { of: (event) => event, parse: positionIn, text: asCursor },
    read: async (page) => {
      const { events, clicksSince } = await listedEvents(c.get('db'), choice, page, openClickHouse(c.env))
      since ??= clicksSince
      return events
    },
    totals: () => eventTotals(c.get('db'), choice),
    show: () => ({
      lead,
      what,
      choices: choices[mode],
      views: (
        <Segments
          label="Type"
          items={kinds.map(([kind, text]) => ({
            href: addressOf(c.req.path, { ...query, eventType: kind }),
            text,
            current: (eventType ?? '') === kind,
          }))}
        />
      ),
      caption: 'Events, newest first',
      columns: eventColumns(program, mode === 'test'),
      note: since && `Clicks are kept since ${formatDate(since)}.`,
      empty: noneYet[mode](program.id),
    }),
    file: () => {
      const cutAt = since ? `-clicks-since-${since.toISOString().slice(0, 10)}` : ''
      return `${mode === 'live' ? 'events' : 'test-events'}-${program.id}${cutAt}`
    },
    csv: (events) => toCsv(csvColumns, events.map(csvRow)),
  }
}

programList(pages, '/events', 'tracking:list', (c) => eventsIn(c, 'live'))
programList(pages, '/test/events', 'tracking:list', (c) => eventsIn(c, 'test'))

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
