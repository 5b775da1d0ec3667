import type { Viewer, ViewerProgram } from '../../lib/access.ts'
import { toCsv } from '../../lib/csv.ts'
import { readEvents, type TrackingEvent } from '../../lib/events.ts'
import { majorUnits } from '../../lib/money.ts'
import { eventsQuery } from '../../lib/read-requests.ts'
import { renderProgram } from './layout.tsx'
import { addressOf, createPages, csvResponse, type PageContext, requireProgram } from './page.ts'
import { Badge, Card, DateRange, Empty, formatCents, Heading, Pager, Segments, Table, Time } from './parts.tsx'

/** What happened, event by event. */
export const eventPages = createPages()

type ProgramContext = PageContext<{ viewer: Viewer; program: ViewerProgram }>

const pageSize = 25
const csvPageSize = 100

const kinds = [
  ['', 'All'],
  ['click', 'Clicks'],
  ['lead', 'Leads'],
  ['conversion', 'Sales'],
] as const

/** The query as the API takes it; an address that holds no valid one shows everything. */
function queryOf(c: ProgramContext) {
  const { page, eventType, dateFrom, dateTo } = c.req.query()
  const raw = Object.fromEntries(
    Object.entries({ page, eventType, dateFrom, dateTo }).filter(([, value]) => value !== undefined && value !== ''),
  )
  const parsed = eventsQuery.safeParse(raw)
  return {
    query: parsed.success ? parsed.data : {},
    problem: parsed.success ? undefined : parsed.error.issues[0]?.message,
    raw: parsed.success ? raw : {},
  }
}

eventPages.get('/programs/:programId/events', requireProgram('tracking:list'), async (c) => {
  const program = c.get('program')
  const { query, raw, problem } = queryOf(c)
  const { data, meta } = await readEvents(c.get('db'), program.id, { ...query, pageSize })
  const { page, pageCount, total } = meta.pagination
  const base = `/programs/${program.id}/events`
  const oldest = data.at(-1)
  const ends = page >= pageCount && total >= 3 * pageSize && oldest !== undefined
  return renderProgram(c, {
    title: 'Events',
    current: '/events',
    children: (
      <>
        <Heading
          title="Events"
          lead="Clicks, signups and sales as they were recorded. Times are UTC, test events are left out."
        >
          <Segments
            label="Type"
            items={kinds.map(([kind, text]) => ({
              href: addressOf(base, { ...raw, page: undefined, eventType: kind }),
              text,
              current: (query.eventType ?? '') === kind,
            }))}
          />
        </Heading>
        <DateRange
          action={base}
          from={raw['dateFrom']?.slice(0, 10) ?? ''}
          to={raw['dateTo']?.slice(0, 10) ?? ''}
          problem={problem}
          keep={query.eventType ? { eventType: query.eventType } : {}}
          aside={
            <a class="button" href={addressOf(`${base}.csv`, { ...raw, page: undefined })}>
              Export CSV
            </a>
          }
        />
        <Card>
          {data.length === 0 ? (
            <Empty title={Object.keys(raw).length > 0 ? 'Nothing here' : 'No events yet'}>
              <p>
                {Object.keys(raw).length > 0 ? (
                  <>
                    No event fits. <a href={base}>Show all events</a>
                  </>
                ) : (
                  <>
                    The first one appears when somebody opens your site through a partner's link. The{' '}
                    <a href={`/programs/${program.id}`}>overview</a> says what is still missing.
                  </>
                )}
              </p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Events, newest first"
                rows={data}
                columns={[
                  { label: 'When (UTC)', cell: ({ timestamp }) => <Time at={timestamp} /> },
                  { label: 'Type', cell: (event) => <Kind event={event} /> },
                  { label: 'What', cell: (event) => <What event={event} /> },
                  { label: 'From', cell: (event) => <From event={event} /> },
                  { label: 'Click id', cell: ({ click_id: id }) => <ClickId id={id} /> },
                ]}
              />
              <Pager
                newer={page > 1 ? addressOf(base, { ...raw, page: String(page - 1) }) : undefined}
                older={page < pageCount ? addressOf(base, { ...raw, page: String(page + 1) }) : undefined}
              >
                Page {page} of {pageCount}. A list holds the newest {3 * pageSize} events of each type; dates reach
                older ones.
                {ends && (
                  <>
                    {' '}
                    <a href={addressOf(base, { ...raw, page: undefined, dateTo: oldest.timestamp })}>
                      Go on with older events
                    </a>
                  </>
                )}
              </Pager>
            </>
          )}
        </Card>
      </>
    ),
  })
})

function Kind({ event }: { event: TrackingEvent }) {
  if (event.event_type === 'conversion') return <Badge tone="good">Sale</Badge>
  if (event.event_type === 'lead') return <Badge tone="accent">Lead</Badge>
  return <Badge>Click</Badge>
}

function What({ event }: { event: TrackingEvent }) {
  if (event.event_type === 'conversion') {
    return (
      <div>
        <strong>{formatCents(event.amount_cents, event.currency)}</strong>{' '}
        <span class="muted">
          {event.sale_type}
          {event.is_recurring && ', renewal'}
          {event.payment_status !== 'paid' && `, ${event.payment_status}`}
        </span>
      </div>
    )
  }
  if (event.event_type === 'lead') {
    return <div>{event.customer_key ?? <span class="muted">provisional: not yet confirmed by your server</span>}</div>
  }
  return (
    <div>
      {event.page_url ?? <span class="muted">page unknown</span>}
      {event.referrer_url && <div class="muted small">from {event.referrer_url}</div>}
    </div>
  )
}

function From({ event }: { event: TrackingEvent }) {
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

/** Click ids are long: the part that tells them apart, with the whole to copy. */
function ClickId({ id }: { id: string }) {
  return (
    <button type="button" class="compact" data-copy={id} title={id} aria-label={`Copy …${id.slice(-6)}, the click id`}>
      Copy …{id.slice(-6)}
    </button>
  )
}

eventPages.get('/programs/:programId/events.csv', requireProgram('tracking:list'), async (c) => {
  const program = c.get('program')
  const { query } = queryOf(c)
  const db = c.get('db')
  const first = await readEvents(db, program.id, { ...query, page: 1, pageSize: csvPageSize })
  const pages = Array.from({ length: Math.max(first.meta.pagination.pageCount - 1, 0) }, (_, index) => index + 2)
  const rest = await Promise.all(
    pages.map((page) => readEvents(db, program.id, { ...query, page, pageSize: csvPageSize })),
  )
  const columns = [
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
    'customer_key',
    'converted',
    'amount',
    'currency',
    'sale_type',
    'payment_status',
    'is_recurring',
  ] as const
  const blank = Object.fromEntries(columns.map((column) => [column, null])) as Record<(typeof columns)[number], null>
  const rows = [first, ...rest].flatMap(({ data }) =>
    data.map((event) => ({
      ...blank,
      ...event,
      amount: event.event_type === 'conversion' ? majorUnits(event.amount_cents, event.currency) : null,
    })),
  )
  return csvResponse(c, `events-${program.id}`, toCsv(columns, rows))
})
