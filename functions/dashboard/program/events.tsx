import type { Child } from 'hono/jsx'
import type * as z from 'zod/mini'
import { toCsv } from '../../../lib/csv.ts'
import { newestEvents, newestTestEvents, type TestEvent, type TrackingEvent } from '../../../lib/tracking/events.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import { eventsQuery } from '../../../lib/api/tracking-events.ts'
import { addressOf, momentOf } from '../parts/address.ts'
import { Badge, Heading, Segments } from '../parts/blocks.tsx'
import { DateRange } from '../parts/date-range.tsx'
import { saleAddress } from '../parts/explanation.tsx'
import { formatDate, Time } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { exportCsv, ExportLink, List } from '../parts/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../parts/page.ts'

/** What happened, event by event: in earnest, and among the test data, each under its own address. */
export const eventPages = createPages()

const modes = {
  live: {
    part: '/events',
    read: newestEvents,
    lead: 'Clicks, signups and sales as they were recorded. Times are UTC, test events are left out.',
  },
  test: {
    part: '/test/events',
    read: newestTestEvents,
    lead: 'Test clicks, leads and sales as they were recorded. Times are UTC.',
  },
} as const
type Mode = keyof typeof modes
type Shown = TrackingEvent | TestEvent
type NewestShown = { events: Shown[]; completeAfter: string | null; clicksSince: string | undefined }

type EventsQuery = z.output<typeof eventsQuery>

const pageSize = 25
/** How many pages of one type a list holds at most. */
const listPages = 3
const csvRowsOfType = 5000

const kinds = [
  ['', 'All'],
  ['click', 'Clicks'],
  ['lead', 'Leads'],
  ['conversion', 'Sales'],
] as const

interface Asked {
  mode: Mode
  /** The list without any query. */
  address: string
  /** The query as the API takes it. */
  query: EventsQuery
  /** The same as it stands in the address, with `before`: where an earlier list ended. */
  raw: Record<string, string | undefined>
  /** Whether the address held no valid query, so that everything is shown. */
  refused: boolean
  /** The days in the fields of the date range. */
  from: string
  to: string
}

function askedIn(c: ProgramContext, mode: Mode): Asked {
  const list = { mode, address: `/programs/${c.get('program').id}${modes[mode].part}` }
  const { page, eventType, dateFrom, dateTo, before } = c.req.query()
  const given = Object.entries({ page, eventType, dateFrom, dateTo }).filter(([, value]) => value)
  const parsed = eventsQuery.safeParse(Object.fromEntries(given))
  if (!parsed.success) return { ...list, query: {}, raw: {}, refused: true, from: dateFrom ?? '', to: dateTo ?? '' }
  const query = parsed.data
  const shown = { ...list, refused: false, from: dateFrom?.slice(0, 10) ?? '', to: dateTo?.slice(0, 10) ?? '' }
  const end = momentOf(before)
  if (!end || (query.dateTo && query.dateTo < end)) return { query, raw: { eventType, dateFrom, dateTo }, ...shown }
  return { query: { ...query, dateTo: end }, raw: { eventType, dateFrom, dateTo, before }, ...shown }
}

/**
 * The newest events, up to `limit` of each type, as far back as none is missing, and where the next list begins: so that
 * reading list after list skips nothing and shows nothing twice.
 */
async function listOf(
  c: ProgramContext,
  { mode, query }: Asked,
  limit: number,
): Promise<{ events: Shown[]; clicksSince: string | undefined; before: string | undefined }> {
  const read: (...of: Parameters<typeof newestEvents>) => Promise<NewestShown> = modes[mode].read
  const { events, completeAfter, clicksSince } = await read(c.get('db'), c.get('program').id, query, limit)
  if (completeAfter === null) return { events, clicksSince, before: undefined }
  const complete = events.filter(({ timestamp }) => timestamp > completeAfter)
  if (complete.length > 0) return { events: complete, clicksSince, before: completeAfter }
  // More than a list holds happened within one millisecond.
  return { events, clicksSince, before: new Date(Date.parse(completeAfter) - 1).toISOString() }
}

/** The page of a list that is asked for. Before its first and after its last page come those of the lists beside it. */
async function readListPage(c: ProgramContext, asked: Asked) {
  const { query, raw, address } = asked
  const { events, clicksSince, before } = await listOf(c, asked, listPages * pageSize)
  const pageCount = Math.max(Math.ceil(events.length / pageSize), 1)
  const number = Math.min(query.page ?? 1, pageCount)
  const turnTo = (target: number) => addressOf(address, { ...raw, page: String(target) })
  return {
    number,
    pageCount,
    clicksSince,
    goesOn: before !== undefined,
    rows: events.slice((number - 1) * pageSize, number * pageSize),
    newer: number > 1 ? turnTo(number - 1) : raw['before'] && addressOf(address, { ...raw, before: undefined }),
    older: number < pageCount ? turnTo(number + 1) : before && addressOf(address, { ...raw, before }),
  }
}

eventPages.get('/programs/:programId/events', requireProgram('tracking:list'), (c) => renderEvents(c, 'live'))
eventPages.get('/programs/:programId/test/events', requireProgram('tracking:list'), (c) => renderEvents(c, 'test'))

async function renderEvents(c: ProgramContext, mode: Mode) {
  const asked = askedIn(c, mode)
  const page = await readListPage(c, asked)
  return renderProgram(c, {
    title: 'Events',
    current: modes[mode].part,
    children: (
      <>
        <Filters asked={asked} />
        <Events asked={asked} page={page} program={c.get('program')} />
      </>
    ),
  })
}

function Filters({ asked: { mode, address, query, raw, refused, from, to } }: { asked: Asked }) {
  return (
    <>
      <Heading title="Events" lead={modes[mode].lead}>
        <Segments
          label="Type"
          items={kinds.map(([kind, text]) => ({
            href: addressOf(address, { ...raw, before: undefined, eventType: kind }),
            text,
            current: (query.eventType ?? '') === kind,
          }))}
        />
      </Heading>
      <DateRange
        action={address}
        from={from}
        to={to}
        refused={refused}
        keep={query.eventType ? { eventType: query.eventType } : {}}
        aside={<ExportLink href={addressOf(`${address}.csv`, raw)} />}
      />
    </>
  )
}

interface EventsProps {
  asked: Asked
  page: Awaited<ReturnType<typeof readListPage>>
  program: { id: number; currency: string }
}

function Events({ asked, page, program }: EventsProps) {
  const isFiltered = Object.values(asked.raw).some(Boolean)
  return (
    <List
      page={page}
      caption="Events, newest first"
      columns={[
        { label: 'When (UTC)', cell: ({ timestamp }) => <Time at={timestamp} /> },
        { label: 'Type', cell: (event) => <Kind event={event} /> },
        { label: 'What', cell: (event) => <What event={event} program={program} /> },
        { label: 'From', cell: (event) => <From event={event} /> },
        asked.mode === 'live'
          ? { label: 'Click id', cell: (event) => 'click_id' in event && <ClickId id={event.click_id} /> }
          : { label: 'Customer', cell: (event) => <Customer event={event} /> },
      ]}
      empty={isFiltered ? noneFits(asked.address) : noneYet[asked.mode](program.id)}
      position={
        <>
          Page {page.number} of {page.pageCount} of this list, which holds the newest {listPages * pageSize} events of a
          type.
          {page.goesOn && ' Older ones follow on its last page.'}
          {page.clicksSince && ` Clicks are kept from ${formatDate(new Date(page.clicksSince))} on.`}
        </>
      }
    />
  )
}

function noneFits(address: string) {
  return {
    title: 'Nothing here',
    text: (
      <>
        No event fits. <a href={address}>Show all events</a>
      </>
    ),
  }
}

const noneYet: Record<Mode, (programId: number) => { title: string; text: Child }> = {
  live: (programId) => ({
    title: 'No events yet',
    text: (
      <>
        The first one appears when somebody opens your site through a partner's link. The{' '}
        <a href={`/programs/${programId}`}>overview</a> says what is still missing.
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

function Kind({ event }: { event: Shown }) {
  if (event.event_type === 'conversion') return <Badge tone="good">Sale</Badge>
  if (event.event_type === 'lead') return <Badge tone="accent">Lead</Badge>
  return <Badge>{event.device_type === 'bot' ? 'Bot click' : 'Click'}</Badge>
}

function What({ event, program }: { event: Shown; program: EventsProps['program'] }) {
  if (event.event_type === 'conversion') {
    return (
      <div>
        <strong>{formatMoney(event.amount_cents, event.currency)}</strong>{' '}
        <span class="muted">
          {event.sale_type}
          {event.is_recurring && ', renewal'}
          {event.payment_status !== 'paid' && `, ${event.payment_status}`}
        </span>
        <Refunded event={event} />
        <div class="small">
          <a href={saleAddress(program.id, event.transaction_id, !('click_id' in event))}>{event.transaction_id}</a>
        </div>
        {event.currency !== program.currency && (
          <div class="muted small">in another currency than the program's: not in its figures</div>
        )}
      </div>
    )
  }
  if (event.event_type === 'lead' && 'click_id' in event) {
    return <div>{event.customer_key ?? <span class="muted">provisional: not yet confirmed by your server</span>}</div>
  }
  return (
    <div>
      {event.page_url ?? <span class="muted">page unknown</span>}
      {'referrer_url' in event && event.referrer_url && <div class="muted small">from {event.referrer_url}</div>}
    </div>
  )
}

function Refunded({ event }: { event: Extract<Shown, { event_type: 'conversion' }> }) {
  const { refunded_cents: refunded, amount_cents: amount, currency } = event
  if (refunded === 0) return null
  return <div class="muted small">{refunded === amount ? 'all of it' : formatMoney(refunded, currency)} refunded</div>
}

function From({ event }: { event: Shown }) {
  if (event.event_type !== 'click') return <span class="muted">–</span>
  const place = [event.geo_city, event.geo_country].filter(Boolean).join(', ')
  const device = [event.browser_name, event.device_os].filter(Boolean).join(', ')
  return (
    <div>
      {place || <span class="muted">–</span>}
      {device && <div class="muted small">{device}</div>}
    </div>
  )
}

/** Whom a test event names; nobody is made by it. */
function Customer({ event }: { event: Shown }) {
  if ('customer_key' in event && event.customer_key) return <div>{event.customer_key}</div>
  return <span class="muted">–</span>
}

/** Click ids are long: the part that tells them apart, with the whole to copy. */
function ClickId({ id }: { id: string }) {
  return (
    <button type="button" class="compact" data-copy={id} title={id} aria-label={`Copy …${id.slice(-6)}, the click id`}>
      Copy …{id.slice(-6)}
    </button>
  )
}

eventPages.get('/programs/:programId/events.csv', requireProgram('tracking:list'), (c) => exportEvents(c, 'live'))
eventPages.get('/programs/:programId/test/events.csv', requireProgram('tracking:list'), (c) => exportEvents(c, 'test'))

const csvColumns = [
  'id',
  'event_type',
  'timestamp',
  'click_id',
  'page_url',
  'referrer_url',
  'geo_country',
  'geo_city',
  'device_type',
  'browser_name',
  'transaction_id',
  'customer_key',
  'converted',
  'amount',
  'refunded',
  'currency',
  'sale_type',
  'payment_status',
  'is_recurring',
] as const
const testCsvColumns = csvColumns.filter((column) => column !== 'click_id' && column !== 'converted')

async function exportEvents(c: ProgramContext, mode: Mode) {
  const { events, clicksSince } = await listOf(c, askedIn(c, mode), csvRowsOfType)
  const rows = events.map((event) => ({
    ...event,
    amount: event.event_type === 'conversion' ? majorUnits(event.amount_cents, event.currency) : null,
    refunded: event.event_type === 'conversion' ? majorUnits(event.refunded_cents, event.currency) : null,
  }))
  const since = clicksSince ? `-clicks-since-${clicksSince.slice(0, 10)}` : ''
  const name = `${mode === 'live' ? 'events' : 'test-events'}-${c.get('program').id}${since}`
  return await exportCsv(c, name, toCsv(mode === 'live' ? csvColumns : testCsvColumns, rows))
}
