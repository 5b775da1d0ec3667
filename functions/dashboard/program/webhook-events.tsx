import type { Part } from '../../../lib/keyset.ts'
import { may } from '../../../lib/access/roles.ts'
import { toCsv } from '../../../lib/csv.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { openStripe } from '../../../lib/processors/stripe/client.ts'
import { countExcludedPayments } from '../../../lib/processors/known-customers.ts'
import {
  type ListedWebhookEvent,
  listWebhookEvents,
  replayWebhookEvent,
} from '../../../lib/processors/webhook-events.ts'
import { Badge, type Tone } from '../components/blocks.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { formatNumber, Time } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { exportList, ListPage, readPage } from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'

/** Lists events from the payment processor. */
export const webhookEventPages = createPages()

const outcomeTones: Record<ListedWebhookEvent['outcome'], Tone> = {
  recorded: 'good',
  duplicate: 'plain',
  ignored: 'plain',
  parked: 'warn',
}

webhookEventPages.get('/programs/:programId/deliveries', requireProgram('delivery:list'), (c) => renderLog(c, true))
webhookEventPages.get('/programs/:programId/test/deliveries', requireProgram('delivery:list'), (c) =>
  renderLog(c, false),
)

const logOf = (programId: number) => `/programs/${programId}/deliveries`
const testLogOf = (programId: number) => `/programs/${programId}/test/deliveries`

async function renderLog(c: ProgramContext, livemode: boolean) {
  const program = c.get('program')
  const log = logOf(program.id)
  const address = livemode ? log : testLogOf(program.id)
  const [page, excluded] = await Promise.all([
    readPage(
      {
        address,
        place: { before: c.req.query('before'), after: c.req.query('after') },
        cursorOf: ({ event_id: id }: ListedWebhookEvent) => id,
      },
      (options) => listWebhookEvents(c.get('db'), program.id, { ...options, livemode }),
    ),
    livemode ? countExcludedPayments(c.get('db'), program.id) : 0,
  ])
  return renderProgram(c, {
    title: 'Stripe events',
    current: livemode ? '/deliveries' : '/test/deliveries',
    children: (
      <ListPage
        title="Stripe events"
        lead={leadOf(program.id, livemode, excluded)}
        address={address}
        rows="events"
        page={page}
        caption="Stripe events, newest first"
        columns={[
          { label: 'Received (UTC)', cell: ({ received_at: at }) => <Time at={at} /> },
          { label: 'Event', cell: (event) => <EventName event={event} /> },
          { label: 'Outcome', cell: (event) => <Outcome event={event} programId={program.id} /> },
          may(program.roles, 'processor:manage') && {
            label: '',
            right: true,
            cell: ({ event_id: id }) => (
              <PostButton action={`${log}/${id}/replay`} class="compact" label={`Replay ${id}`}>
                Replay
              </PostButton>
            ),
          },
        ]}
        empty={{
          title: livemode ? 'No events from Stripe yet' : 'No events from Stripe in test mode',
          text: (
            <>
              Events arrive automatically once Stripe is connected in the{' '}
              <a href={`/programs/${program.id}/settings`}>settings</a>.
              {livemode && (
                <>
                  {' '}
                  Those of test mode are among the <a href={testLogOf(program.id)}>test data</a>.
                </>
              )}
            </>
          ),
        }}
      />
    ),
  })
}

function leadOf(programId: number, livemode: boolean, excluded: number) {
  const mode = livemode ? 'live' : 'test'
  const lead = `Every event from Stripe in ${mode} mode in the last 90 days, and its outcome.`
  if (excluded === 0) return lead
  return (
    <>
      {lead}{' '}
      <a href={`/programs/${programId}/settings`}>
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
          aria-label={`Why, of ${event.event_id}`}
        >
          Why?
        </a>
      )}
    </div>
  )
}

webhookEventPages.get('/programs/:programId/deliveries.csv', requireProgram('delivery:list'), (c) => exportLog(c, true))
webhookEventPages.get('/programs/:programId/test/deliveries.csv', requireProgram('delivery:list'), (c) =>
  exportLog(c, false),
)

async function exportLog(c: ProgramContext, livemode: boolean) {
  const { id: programId } = c.get('program')
  const columns = ['received_at', 'event_id', 'event_type', 'livemode', 'outcome', 'reason', 'deliveries'] as const
  return await exportList(c, {
    nameOf: () => `${livemode ? '' : 'test-'}deliveries-${programId}`,
    read: (part: Part<string>) => listWebhookEvents(c.get('db'), programId, { before: undefined, ...part, livemode }),
    cursorOf: (event) => event.event_id,
    write: (events) => toCsv(columns, events),
  })
}

webhookEventPages.post(
  '/programs/:programId/deliveries/:eventId/replay',
  requireProgram('processor:manage'),
  async (c) => {
    const program = c.get('program')
    const eventId = c.req.param('eventId')
    const { outcome, reason, livemode, outbox } = await replayWebhookEvent(
      c.get('db'),
      openStripe(c.env),
      c.env.EMAIL_HASH_KEY,
      program.id,
      eventId,
    )
    await sendSoon(c.env, outbox)
    const text = `${eventId}: ${outcome}.${reason === null ? '' : ` ${reason}`}`
    return redirectWith(
      c,
      livemode ? logOf(program.id) : testLogOf(program.id),
      text,
      outcome === 'parked' ? 'bad' : 'good',
    )
  },
)
