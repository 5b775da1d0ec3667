import { may } from '../../../lib/access/roles.ts'
import { toCsv } from '../../../lib/csv.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { openStripe } from '../../../lib/processors/stripe/client.ts'
import { countExcludedPayments } from '../../../lib/processors/known-customers.ts'
import {
  type ListedWebhookEvent,
  listWebhookEvents,
  replayWebhookEvent,
  webhookEventTotals,
} from '../../../lib/processors/webhook-events.ts'
import { Badge, type Tone } from '../components/blocks.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { formatNumber, Time } from '../components/format.tsx'
import { type ListOf, programList } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { settingsTab } from './settings-tabs.ts'

/** Lists events from the payment processor. */
export const pages = createProgramPages()

const outcomeTones: Record<ListedWebhookEvent['outcome'], Tone> = {
  recorded: 'good',
  duplicate: 'plain',
  ignored: 'plain',
  parked: 'warn',
}

const logOf = (programId: number) => `/programs/${programId}/deliveries`
const testLogOf = (programId: number) => `/programs/${programId}/test/deliveries`
const csvColumns = ['received_at', 'event_id', 'event_type', 'livemode', 'outcome', 'reason', 'deliveries'] as const

function eventsIn(c: ProgramContext, livemode: boolean): ListOf<ListedWebhookEvent, string, number> {
  const { id: programId, roles } = c.get('program')
  return {
    title: 'Processor events',
    current: livemode ? '/deliveries' : '/test/deliveries',
    rows: 'events',
    cursor: { of: ({ event_id: id }) => id, parse: (text) => text },
    read: (part) => listWebhookEvents(c.get('db'), programId, { before: undefined, ...part, livemode }),
    totals: () => webhookEventTotals(programId, { livemode }),
    more: async () => (livemode ? await countExcludedPayments(c.get('db'), programId) : 0),
    show: (_, excluded = 0) => ({
      lead: leadOf(programId, livemode, excluded),
      caption: 'Processor events, newest first',
      columns: [
        { label: 'Received (UTC)', cell: ({ received_at: at }) => <Time at={at} /> },
        { label: 'Event', cell: (event) => <EventName event={event} /> },
        { label: 'Outcome', cell: (event) => <Outcome event={event} programId={programId} /> },
        may(roles, 'processor:manage') && {
          cell: ({ event_id: id }) => (
            <PostButton
              action={`${logOf(programId)}/${id}/replay`}
              class="compact"
              label={`Replay ${id}`}
              text="Replay"
            />
          ),
        },
      ],
      empty: {
        title: livemode ? 'No events from a processor yet' : 'No events from a processor in test mode',
        text: (
          <>
            Events arrive automatically once a processor is connected in the{' '}
            <a href={settingsTab(programId, 'payments')}>settings</a>.
            {livemode && (
              <>
                {' '}
                Test-mode events are in the <a href={testLogOf(programId)}>test data</a>.
              </>
            )}
          </>
        ),
      },
    }),
    file: () => `${livemode ? '' : 'test-'}deliveries-${programId}`,
    csv: (events) => toCsv(csvColumns, events),
  }
}

programList(pages, '/deliveries', 'delivery:list', (c) => eventsIn(c, true))
programList(pages, '/test/deliveries', 'delivery:list', (c) => eventsIn(c, false))

function leadOf(programId: number, livemode: boolean, excluded: number) {
  const mode = livemode ? 'live' : 'test'
  const lead = `Every event from a processor in ${mode} mode in the last 90 days, and its outcome.`
  if (excluded === 0) return lead
  return (
    <>
      {lead}{' '}
      <a href={settingsTab(programId, 'payments')}>
        {formatNumber(excluded)} {excluded === 1 ? 'payment' : 'payments'} of known customers without metadata
      </a>{' '}
      {excluded === 1 ? 'is' : 'are'} excluded.
    </>
  )
}

function EventName({ event }: { event: ListedWebhookEvent }) {
  return (
    <div>
      <code>{event.event_type}</code>
      <div class="muted small">
        {event.event_id}
        {event.deliveries > 1 && `, received ${event.deliveries} times`}
      </div>
    </div>
  )
}

function Outcome({ event, programId }: { event: ListedWebhookEvent; programId: number }) {
  const { outcome, reason } = event
  return (
    <div class="stack tight">
      <span>
        <Badge tone={outcomeTones[outcome]}>{outcome}</Badge>
      </span>
      {reason && <span class="small">{reason}</span>}
      {event.is_explained && (
        <a
          class="small"
          href={saleAddress(programId, event.event_id, !event.livemode)}
          aria-label={`Why? Event ${event.event_id}`}
        >
          Why?
        </a>
      )}
    </div>
  )
}

pages.post('/deliveries/:eventId/replay', requireProgram('processor:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const eventId = c.req.param('eventId')
  const stripe = openStripe(c.env)
  const replayed = await replayWebhookEvent(c.get('db'), stripe, c.env.EMAIL_HASH_KEY, programId, eventId)
  const { outcome, reason, livemode, outbox } = replayed
  await sendSoon(c.env, outbox)
  const log = livemode ? logOf(programId) : testLogOf(programId)
  const text = `${eventId}: ${outcome}.${reason === null ? '' : ` ${reason}`}`
  return redirectWith(c, log, text, outcome === 'parked' ? 'bad' : 'good')
})
