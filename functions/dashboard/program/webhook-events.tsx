import { may } from '../../../lib/access/roles.ts'
import { toCsv } from '../../../lib/csv.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { openStripe } from '../../../lib/stripe/client.ts'
import { countLeftOut } from '../../../lib/stripe/known-customers.ts'
import { type ListedWebhookEvent, listWebhookEvents, replayWebhookEvent } from '../../../lib/stripe/webhook-events.ts'
import { Badge, type Tone } from '../parts/blocks.tsx'
import { PostButton } from '../parts/fields.tsx'
import { redirectWith } from '../parts/flash.tsx'
import { formatNumber, Time } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { exportCsv, csvRows, ListPage, readPage } from '../parts/list.tsx'
import { createPages, requireProgram } from '../parts/page.ts'
import { DeliveryLogViews, deliveryLogOf } from './delivery-log.tsx'

/** What came in from the payment processor. */
export const webhookEventPages = createPages()

const outcomeTones: Record<ListedWebhookEvent['outcome'], Tone> = {
  recorded: 'good',
  duplicate: 'plain',
  ignored: 'plain',
  parked: 'warn',
}

webhookEventPages.get('/programs/:programId/deliveries', requireProgram('delivery:list'), async (c) => {
  const program = c.get('program')
  const address = deliveryLogOf(program.id)
  const [page, leftOut] = await Promise.all([
    readPage(
      { address, before: c.req.query('before'), cursorOf: ({ event_id: id }: ListedWebhookEvent) => id },
      (options) => listWebhookEvents(c.get('db'), program.id, options),
    ),
    countLeftOut(c.get('db'), program.id),
  ])
  return renderProgram(c, {
    title: 'Delivery log',
    current: '/deliveries',
    children: (
      <ListPage
        title="Delivery log"
        lead={leadOf(program.id, leftOut)}
        filter={<DeliveryLogViews address={address} current="processor" />}
        csv={`${address}.csv`}
        page={page}
        caption="Events of the payment processor, newest first"
        columns={[
          { label: 'Received (UTC)', cell: ({ received_at: at }) => <Time at={at} /> },
          { label: 'Event', cell: (event) => <EventName event={event} /> },
          { label: 'Mode', cell: ({ livemode }) => (livemode ? 'live' : <Badge>test</Badge>) },
          { label: 'Outcome', cell: (event) => <Outcome event={event} /> },
          may(program.roles, 'processor:manage') && {
            label: '',
            right: true,
            cell: ({ event_id: id }) => (
              <PostButton action={`${address}/${id}/replay`} class="compact" label={`Replay ${id}`}>
                Replay
              </PostButton>
            ),
          },
        ]}
        empty={{
          title: 'Nothing from Stripe yet',
          text: (
            <>
              Events arrive by themselves once Stripe is connected in the{' '}
              <a href={`/programs/${program.id}/settings`}>settings</a>.
            </>
          ),
        }}
      />
    ),
  })
})

function leadOf(programId: number, leftOut: number) {
  const lead = 'Every event of the payment processor in the last 90 days, and what became of it.'
  if (leftOut === 0) return lead
  return (
    <>
      {lead}{' '}
      <a href={`/programs/${programId}/settings`}>
        {formatNumber(leftOut)} {leftOut === 1 ? 'payment' : 'payments'} of known customers without metadata
      </a>{' '}
      {leftOut === 1 ? 'is' : 'are'} left out.
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

function Outcome({ event: { outcome, reason } }: { event: ListedWebhookEvent }) {
  return (
    <div class="stack tight">
      <span>
        <Badge tone={outcomeTones[outcome]}>{outcome}</Badge>
      </span>
      {reason && <span class="small">{reason}</span>}
    </div>
  )
}

webhookEventPages.get('/programs/:programId/deliveries.csv', requireProgram('delivery:list'), async (c) => {
  const { id: programId } = c.get('program')
  const events = await listWebhookEvents(c.get('db'), programId, { limit: csvRows, before: undefined })
  const columns = ['received_at', 'event_id', 'event_type', 'livemode', 'outcome', 'reason', 'deliveries'] as const
  return await exportCsv(c, `deliveries-${programId}`, toCsv(columns, events))
})

webhookEventPages.post(
  '/programs/:programId/deliveries/:eventId/replay',
  requireProgram('processor:manage'),
  async (c) => {
    const program = c.get('program')
    const eventId = c.req.param('eventId')
    const { outcome, reason, outbox } = await replayWebhookEvent(
      c.get('db'),
      openStripe(c.env),
      c.env.EMAIL_HASH_KEY,
      program.id,
      eventId,
    )
    await sendSoon(c.env, outbox)
    const text = `${eventId}: ${outcome}.${reason === null ? '' : ` ${reason}`}`
    return redirectWith(c, deliveryLogOf(program.id), text, outcome === 'parked' ? 'bad' : 'good')
  },
)
