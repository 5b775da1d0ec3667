import { may } from '../../../lib/access/roles.ts'
import { toCsv } from '../../../lib/csv.ts'
import { listOutbox, type OutboxDelivery } from '../../../lib/notifications/outbox-list.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { type Delivery, listDeliveries, replayDelivery } from '../../../lib/stripe/webhook-events.ts'
import { openStripe } from '../../../lib/stripe/client.ts'
import { renderProgram } from '../parts/layout.tsx'
import { createPages, csvResponse, flash, positiveInteger, requireProgram } from '../parts/page.ts'
import { Badge, Card, Empty, Heading, Pager, Segments, Table, Time, type Tone } from '../parts/parts.tsx'

/** What came in from the payment processor, and what went out to people. */
export const deliveryPages = createPages()

const pageSize = 50
const csvRows = 10_000

const outcomeTones: Record<Delivery['outcome'], Tone> = {
  recorded: 'good',
  duplicate: 'plain',
  ignored: 'plain',
  parked: 'warn',
}

function Views({ base, current }: { base: string; current: 'processor' | 'notifications' }) {
  return (
    <Segments
      label="Direction"
      items={[
        { href: base, text: 'From Stripe', current: current === 'processor' },
        { href: `${base}/notifications`, text: 'Notifications', current: current === 'notifications' },
      ]}
    />
  )
}

deliveryPages.get('/programs/:programId/deliveries', requireProgram('delivery:list'), async (c) => {
  const program = c.get('program')
  const before = c.req.query('before')
  const rows = await listDeliveries(c.get('db'), program.id, { limit: pageSize + 1, before })
  const events = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? events.at(-1) : undefined
  const base = `/programs/${program.id}/deliveries`
  return renderProgram(c, {
    title: 'Delivery log',
    current: '/deliveries',
    children: (
      <>
        <Heading
          title="Delivery log"
          lead="Every event of the payment processor in the last 90 days, and what became of it."
        >
          <Views base={base} current="processor" />
          {events.length > 0 && (
            <a class="button" href={`${base}.csv`}>
              Export CSV
            </a>
          )}
        </Heading>
        <Card>
          {events.length === 0 ? (
            <Empty title="Nothing from Stripe yet">
              <p>
                Events arrive by themselves once Stripe is connected in the{' '}
                <a href={`/programs/${program.id}/settings`}>settings</a>.
              </p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Events of the payment processor, newest first"
                rows={events}
                columns={[
                  { label: 'Received (UTC)', cell: ({ received_at: at }) => <Time at={at} /> },
                  {
                    label: 'Event',
                    cell: (event) => (
                      <div>
                        <code>{event.event_type}</code>
                        <div class="muted small">
                          {event.event_id}
                          {event.deliveries > 1 && `, received ${event.deliveries} times`}
                        </div>
                      </div>
                    ),
                  },
                  { label: 'Mode', cell: ({ livemode }) => (livemode ? 'live' : <Badge>test</Badge>) },
                  {
                    label: 'Outcome',
                    cell: ({ outcome, reason }) => (
                      <div class="stack tight">
                        <span>
                          <Badge tone={outcomeTones[outcome]}>{outcome}</Badge>
                        </span>
                        {reason && <span class="small">{reason}</span>}
                      </div>
                    ),
                  },
                  ...(may(program.roles, 'processor:manage')
                    ? [
                        {
                          label: '',
                          right: true,
                          cell: ({ event_id: eventId }: Delivery) => (
                            <form method="post" action={`${base}/${eventId}/replay`}>
                              <button type="submit" class="compact" aria-label={`Replay ${eventId}`}>
                                Replay
                              </button>
                            </form>
                          ),
                        },
                      ]
                    : []),
                ]}
              />
              <Pager
                newer={before === undefined ? undefined : base}
                older={last && `${base}?before=${last.event_id}`}
              />
            </>
          )}
        </Card>
      </>
    ),
  })
})

deliveryPages.post('/programs/:programId/deliveries/:eventId/replay', requireProgram('processor:manage'), async (c) => {
  const program = c.get('program')
  const eventId = c.req.param('eventId')
  const { outcome, reason, outbox } = await replayDelivery(c.get('db'), openStripe(c.env), program.id, eventId)
  await sendSoon(c.env, outbox)
  flash(c, outcome === 'parked' ? 'bad' : 'good', `${eventId}: ${outcome}.${reason === null ? '' : ` ${reason}`}`)
  return c.redirect(`/programs/${program.id}/deliveries`, 303)
})

deliveryPages.get('/programs/:programId/deliveries/notifications', requireProgram('delivery:list'), async (c) => {
  const program = c.get('program')
  const before = positiveInteger(c.req.query('before'))
  const rows = await listOutbox(c.get('db'), program.id, { limit: pageSize + 1, before })
  const deliveries = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? deliveries.at(-1) : undefined
  const base = `/programs/${program.id}/deliveries`
  return renderProgram(c, {
    title: 'Delivery log',
    current: '/deliveries',
    children: (
      <>
        <Heading title="Delivery log" lead="What partners and you were told, and how far each message has come.">
          <Views base={base} current="notifications" />
          {deliveries.length > 0 && (
            <a class="button" href={`${base}/notifications.csv`}>
              Export CSV
            </a>
          )}
        </Heading>
        <Card>
          {deliveries.length === 0 ? (
            <Empty title="Nothing was told yet">
              <p>A refund or a rejected commission is told to the partner, and stands here.</p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Notifications, newest first"
                rows={deliveries}
                columns={[
                  { label: 'Made (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
                  { label: 'What', cell: ({ kind }) => kind.replaceAll('_', ' ') },
                  {
                    label: 'To',
                    cell: ({ audience, partner_name: name }) => (audience === 'partner' ? name : 'your workspace'),
                  },
                  { label: 'State', cell: (delivery) => <DeliveryState delivery={delivery} /> },
                ]}
              />
              <Pager
                newer={before === undefined ? undefined : `${base}/notifications`}
                older={last && `${base}/notifications?before=${last.id}`}
              />
            </>
          )}
        </Card>
      </>
    ),
  })
})

deliveryPages.get('/programs/:programId/deliveries.csv', requireProgram('delivery:list'), async (c) => {
  const { id: programId } = c.get('program')
  const events = await listDeliveries(c.get('db'), programId, { limit: csvRows, before: undefined })
  const columns = ['received_at', 'event_id', 'event_type', 'livemode', 'outcome', 'reason', 'deliveries'] as const
  return csvResponse(c, `deliveries-${programId}`, toCsv(columns, events))
})

deliveryPages.get('/programs/:programId/deliveries/notifications.csv', requireProgram('delivery:list'), async (c) => {
  const { id: programId } = c.get('program')
  const deliveries = await listOutbox(c.get('db'), programId, { limit: csvRows })
  const columns = ['id', 'kind', 'audience', 'partner_name', 'created_at', 'sent_at', 'delivered_at'] as const
  return csvResponse(c, `notifications-${programId}`, toCsv(columns, deliveries))
})

function DeliveryState({ delivery }: { delivery: OutboxDelivery }) {
  if (delivery.delivered_at) {
    return (
      <span>
        <Badge tone="good">Delivered</Badge> <Time at={delivery.delivered_at} />
      </span>
    )
  }
  return <Badge tone="warn">{delivery.sent_at ? 'On its way' : 'Waiting'}</Badge>
}
