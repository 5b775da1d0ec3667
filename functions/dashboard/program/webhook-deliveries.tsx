import { may } from '../../../lib/access/roles.ts'
import { csvOf } from '../../../lib/csv.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import {
  findEndpoint,
  listEndpointsWithLatest,
  programOwner,
  replayDeliveries,
  type WebhookEndpoint,
} from '../../../lib/notifications/webhook-endpoints.ts'
import {
  findDelivery,
  isPlace,
  placeOf,
  type WebhookDelivery,
  programDeliveryTotals,
  programDeliveryList,
} from '../../../lib/notifications/webhook-log.ts'
import { testType, webhookBody, webhookId, webhookTypes } from '../../../lib/notifications/webhook-types.ts'
import { idInPath, positiveInteger } from '../components/address.ts'
import { Card, Copy, LinkButton } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { type Choice, programList, stateIn } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import {
  Attempts,
  deliveryAddress,
  DeliveryState,
  deliveryStates,
  deliveryTimeColumn,
  endpointAddress,
  missingEndpoint,
  targetOf,
  webhooksOf,
  WebhookViews,
} from './webhook-parts.tsx'

/** Lists webhook deliveries, each with its request and the response. */
export const pages = createProgramPages()

const types = [...webhookTypes, testType] as const

programList(pages, '/webhooks/deliveries', 'webhook:list', (c) => {
  const { id: programId } = c.get('program')
  const status = stateIn(c, deliveryStates)
  const type = types.find((known) => known === c.req.query('type'))
  const endpointId = positiveInteger(c.req.query('endpoint'))
  return {
    title: 'Webhook deliveries',
    current: '/webhooks',
    rows: 'deliveries',
    query: { status, type, endpoint: endpointId?.toString() },
    cursor: { of: placeOf, parse: (text = '') => (isPlace(text) ? text : undefined) },
    read: (part) => programDeliveryList(programId, { ...part, status, type, endpointId }),
    totals: () => programDeliveryTotals(programId, { status, type, endpointId }),
    more: () => listEndpointsWithLatest(c.get('db'), programOwner(programId)),
    show: (_, endpoints: WebhookEndpoint[] = []) => ({
      lead: 'Webhooks sent to your server in the last 30 days, and its responses.',
      views: <WebhookViews programId={programId} current="deliveries" />,
      choices: choicesOf(endpoints),
      caption: 'Webhook deliveries, newest first',
      columns: [
        deliveryTimeColumn(programId),
        { label: 'Event', cell: (delivery) => <EventName delivery={delivery} /> },
        {
          label: 'Endpoint',
          cell: (delivery) => (
            <a href={endpointAddress(programId, delivery.endpoint_id)} class="break">
              {targetOf(delivery)}
            </a>
          ),
        },
        { label: 'State', cell: (delivery) => <DeliveryState delivery={delivery} /> },
      ],
      empty: {
        title: 'No deliveries yet',
        text: (
          <>
            Webhooks are sent for events after you add an <a href={webhooksOf(programId)}>endpoint</a> .
          </>
        ),
      },
    }),
    file: () => `webhooks-${programId}`,
    csv: (deliveries) =>
      csvOf(deliveries, {
        webhook_id: (delivery) => webhookId(delivery.message_id),
        type: (delivery) => delivery.type,
        created_at: (delivery) => delivery.created_at,
        url: targetOf,
        status: (delivery) => delivery.status,
        attempt_count: (delivery) => delivery.attempt_count,
        next_attempt_at: (delivery) => delivery.next_attempt_at,
        finished_at: (delivery) => delivery.finished_at,
      }),
  }
})

function EventName({ delivery: { type, message_id: id } }: { delivery: WebhookDelivery }) {
  return (
    <div>
      <code>{type}</code>
      <div class="muted small">{webhookId(id)}</div>
    </div>
  )
}

/** Options with "All" first. */
const allOr = (values: (readonly [value: string, label: string])[]) => [['', 'All'] as const, ...values]

function choicesOf(endpoints: WebhookEndpoint[]): Choice[] {
  return [
    {
      name: 'status',
      label: 'State',
      options: allOr(Object.entries(deliveryStates).map(([status, { name }]) => [status, name])),
    },
    { name: 'type', label: 'Event', options: allOr(types.map((type) => [type, type])) },
    {
      name: 'endpoint',
      label: 'Endpoint',
      options: allOr(endpoints.map((endpoint) => [String(endpoint.id), endpoint.description || targetOf(endpoint)])),
    },
  ]
}

const missing = 'This endpoint has no delivery with this id.'

/** Loads the delivery in the path. */
function pathOf(c: ProgramContext) {
  return {
    programId: c.get('program').id,
    endpoint_id: idInPath(c, 'endpointId', missingEndpoint),
    message_id: idInPath(c, 'messageId', missing),
  }
}

pages.get('/webhooks/:endpointId/deliveries/:messageId', requireProgram('webhook:list'), async (c) => {
  const program = c.get('program')
  const path = pathOf(c)
  const [endpoint, delivery] = await Promise.all([
    findEndpoint(c.get('db'), programOwner(program.id), path.endpoint_id),
    findDelivery(c.get('db'), programOwner(program.id), path.endpoint_id, path.message_id),
  ])
  const address = deliveryAddress(program.id, path)
  const manages = may(program.roles, 'webhook:manage')
  const maySend = manages && delivery.finished_at !== null && endpoint.disabled_at === null
  return c.render(
    <ProgramPage
      title={`Webhook ${webhookId(delivery.message_id)}`}
      current="/webhooks"
      heading={delivery.type}
      lead={<Lead address={endpointAddress(program.id, endpoint.id)} endpoint={endpoint} />}
      actions={
        <>
          {delivery.status === 'pending' && <LinkButton href={address} text="Refresh" />}
          {maySend && <PostButton action={`${address}/replay`} class="primary" text="Send again" />}
        </>
      }
    >
      <Card title="State">
        <DeliveryState delivery={delivery} />
      </Card>
      {delivery.type.startsWith('payout.') && !may(program.roles, 'payout:list') ? (
        <p class="muted">Your role can't see payouts, so the request and the responses are hidden.</p>
      ) : (
        <>
          <Request endpoint={endpoint} delivery={delivery} />
          <Attempts endpoint={endpoint} attempts={delivery.attempts} />
        </>
      )}
    </ProgramPage>,
  )
})

function Lead({ address, endpoint }: { address: string; endpoint: WebhookEndpoint }) {
  return (
    <>
      To{' '}
      <a href={address} class="break">
        {targetOf(endpoint)}
      </a>
    </>
  )
}

function Request({ endpoint, delivery }: { endpoint: WebhookEndpoint; delivery: WebhookDelivery }) {
  const headers = [
    `POST ${targetOf(endpoint)}`,
    'content-type: application/json',
    `webhook-id: ${webhookId(delivery.message_id)}`,
    'webhook-timestamp: (seconds since 1970, of each attempt)',
    'webhook-signature: v1,…',
  ]
  return (
    <Card title="Request">
      <p class="muted">
        The event happened at <Time at={delivery.created_at} /> UTC. Each attempt sends the same body and id.
      </p>
      <pre class="wrap">{headers.join('\n')}</pre>
      <Copy text={webhookBody(delivery)} label="Body" wrap />
    </Card>
  )
}

pages.post('/webhooks/:endpointId/deliveries/:messageId/replay', requireProgram('webhook:manage'), async (c) => {
  const path = pathOf(c)
  const { programId, endpoint_id, message_id: messageId } = path
  const replayed = await replayDeliveries(c.get('db'), programOwner(programId), endpoint_id, {
    messageId,
    failedOnly: false,
  })
  await sendSoon(c.env, [{ program_id: programId, due_at: 0 }])
  const text = replayed === 0 ? "The delivery is already pending, so it isn't sent again." : 'It will be sent again.'
  return redirectWith(c, deliveryAddress(programId, path), text)
})
