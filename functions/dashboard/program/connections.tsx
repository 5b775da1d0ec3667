import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import {
  changeSecret,
  type Connection,
  createConnection,
  disconnectConnection,
  isProcessor,
  type LatestDelivery,
  listConnections,
  listLatestDeliveries,
  processorSecret,
} from '../../../lib/processors/connections.ts'
import { processors, processorTitles } from '../../../lib/processors/processors.ts'
import { reasonText } from '../../../lib/processor-reasons.ts'
import { Badge, Card, Copy, Empty } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { formatNumber, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'

/** Connects a program to processors other than Stripe. */
export const pages = createProgramPages()

const route = '/settings/connections'
export const connectionsAddress = (programId: number) => `/programs/${programId}${route}`
const connectionAddress = (programId: number, accountId: string) => `${connectionsAddress(programId)}/${accountId}`
const connectionsPage = (c: ProgramContext) => connectionsAddress(c.get('program').id)
const connectionPage = (c: ProgramContext) => connectionAddress(c.get('program').id, idOf(c))
const idOf = (c: ProgramContext) => c.req.param('connectionId') ?? ''

const titleOf = ({ processor }: Connection) => (isProcessor(processor) ? processors[processor].title : processor)

pages.get(route, requireProgram('processor:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const connections = await listConnections(c.get('db'), programId)
  return c.render(
    <ProgramPage
      title="Payment connections"
      current="/settings"
      lead={`Sales, renewals, refunds and chargebacks from ${processorTitles('conjunction')}.`}
    >
      <Card>
        {connections.length === 0 ? (
          <Empty title="No connections yet">
            <p>Connect your processor below. Stripe is connected in the settings.</p>
          </Empty>
        ) : (
          <Table
            caption="Connections of this program, newest first"
            rows={connections}
            columns={[
              {
                label: 'Processor',
                cell: (connection) => (
                  <a href={connectionAddress(programId, connection.account_id)}>
                    {titleOf(connection)} {connection.livemode ? '' : '(sandbox)'}
                  </a>
                ),
              },
              { label: 'Address', cell: ({ account_id: id }) => <code>…{id.slice(-6)}</code> },
              { label: 'Added (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
              { label: 'State', cell: (connection) => <State connection={connection} /> },
              {
                label: 'Last event (UTC)',
                cell: ({ last_event_at: at }) => (at ? <Time at={at} /> : 'none yet'),
              },
            ]}
          />
        )}
      </Card>
      <Card title="Add a connection">
        <Form action={connectionsAddress(programId)} submit="Continue">
          <Field
            name="processor"
            label="Processor"
            options={Object.entries(processors).map(([name, { title }]) => [name, title])}
          />
          <Field
            name="mode"
            label="Mode"
            hint="Sales in a sandbox are test data. If the processor marks test payments itself, choose live mode."
            options={[
              ['live', 'Live mode'],
              ['sandbox', 'Sandbox'],
            ]}
          />
        </Form>
      </Card>
    </ProgramPage>,
  )
})

function State({ connection }: { connection: Connection }) {
  if (connection.disconnected_at) return <Badge>Disconnected</Badge>
  if (!connection.has_secret) return <Badge tone="warn">Secret missing</Badge>
  return <Badge tone="good">Connected</Badge>
}

const newConnection = z.object({
  processor: z.string().check(z.refine(isProcessor, 'Choose a processor.')),
  mode: z.enum(['live', 'sandbox'], 'Choose a mode.'),
})

pages.post(route, requireProgram('processor:manage'), form(newConnection, connectionsPage), async (c) => {
  const { id: programId } = c.get('program')
  const { processor, mode } = c.req.valid('form')
  if (!isProcessor(processor)) throw new ApiError('invalid_request', 'Choose a processor.')
  const accountId = await createConnection(c.get('db'), programId, { processor, livemode: mode === 'live' })
  return c.redirect(connectionAddress(programId, accountId), 303)
})

pages.get(`${route}/:connectionId`, requireProgram('processor:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const [connections, deliveries] = await Promise.all([
    listConnections(c.get('db'), programId),
    listLatestDeliveries(c.get('db'), programId, idOf(c)),
  ])
  const connection = connections.find(({ account_id: id }) => id === idOf(c))
  if (!connection) throw new ApiError('not_found', 'This program has no such connection.')
  const address = connectionAddress(programId, connection.account_id)
  const { processor, account_id: accountId, refused_at: refusedAt, refusal } = connection
  const waiting = connection.waiting ?? 0
  const title = titleOf(connection)
  return c.render(
    <ProgramPage
      title={`${title} connection`}
      current="/settings"
      lead={connection.livemode ? `The live mode of ${title}.` : `The sandbox of ${title}. Its sales are test data.`}
      actions={<State connection={connection} />}
    >
      <Card title="Webhook">
        <p>
          {isProcessor(processor) && processors[processor].hasInventedSecret
            ? `Choose a secret of 6 to 40 characters. Add this address to ${title}'s webhooks with your secret, and save the same secret below.`
            : `Add this address to the webhooks of ${title}, and save the secret that ${title} shows.`}{' '}
          <a href={`/docs/${processor}`}>Events and checkout code</a>
        </p>
        <Copy text={`${c.env.BASE_URL}/api/v1/webhooks/${processor}/${accountId}`} label="webhook address" />
        <Form action={`${address}/secret`} submit={connection.has_secret ? 'Replace the secret' : 'Save the secret'}>
          <Field
            name="secret"
            label="Webhook secret"
            type="password"
            hint="It is stored encrypted and never shown again."
            required
          />
        </Form>
        {refusedAt && refusal && (
          <p class="bad">
            Refused a delivery at <Time at={refusedAt} /> (UTC): {refusal}
          </p>
        )}
        {waiting > 0 && (
          <p>
            {waiting === 1 ? '1 event is waiting' : `${formatNumber(waiting)} events are waiting`} for the connection.
            Save the secret again to connect it. The service then applies the {waiting === 1 ? 'event' : 'events'}{' '}
            within half an hour.
          </p>
        )}
      </Card>
      <Card title="Last events">
        <Deliveries deliveries={deliveries} title={title} />
      </Card>
      {!connection.disconnected_at && connection.has_secret && (
        <Card title="Disconnect">
          <PostButton
            action={`${address}/disconnect`}
            class="danger"
            text="Disconnect"
            confirm={`Disconnect ${title}? Later events are recorded only if you connect it again within 90 days.`}
          />
        </Card>
      )}
      <p>
        <a href={connectionsAddress(programId)}>All connections</a>
      </p>
    </ProgramPage>,
  )
})

function Deliveries({ deliveries, title }: { deliveries: LatestDelivery[]; title: string }) {
  if (deliveries.length === 0) {
    return (
      <Empty title="No events yet">
        <p>Send a test event from {title}'s webhook page. It appears here even if the service doesn't use it.</p>
      </Empty>
    )
  }
  return (
    <Table
      caption="The last ten events, newest first"
      rows={deliveries}
      columns={[
        { label: 'Received (UTC)', cell: ({ received_at: at }) => <Time at={at} /> },
        { label: 'Event', cell: ({ event_type: type }) => <code>{type}</code> },
        {
          label: 'Outcome',
          cell: ({ outcome, reason }) => (
            <>
              <Badge tone={outcome === 'recorded' ? 'good' : outcome === 'parked' ? 'warn' : 'plain'}>{outcome}</Badge>{' '}
              <span class="small">{reasonText(reason)}</span>
            </>
          ),
        },
      ]}
    />
  )
}

pages.post(
  `${route}/:connectionId/secret`,
  requireProgram('processor:manage'),
  form(z.object({ secret: processorSecret }), connectionPage),
  async (c) => {
    await changeSecret(c.get('db'), c.env, c.get('program').id, idOf(c), c.req.valid('form').secret)
    return redirectWith(c, connectionPage(c), 'The secret is saved. Send a test event from the processor now.')
  },
)

pages.post(`${route}/:connectionId/disconnect`, requireProgram('processor:manage'), async (c) => {
  await disconnectConnection(c.get('db'), c.get('program').id, idOf(c))
  return redirectWith(c, connectionPage(c), 'Disconnected. To connect it again, save its secret.')
})
