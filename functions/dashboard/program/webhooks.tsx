import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import {
  changeEndpoint,
  deleteEndpoint,
  type EndpointWithLatest,
  type EndpointWithSecret,
  findEndpoint,
  listEndpointsWithLatest,
  createEndpoint,
  programOwner,
  replayDeliveries,
  rotateSecret,
  rotationHours,
  testEndpoint,
  type WebhookEndpoint,
} from '../../../lib/notifications/webhook-endpoints.ts'
import { listProgramDeliveries } from '../../../lib/notifications/webhook-log.ts'
import { webhookPayloads } from '../../../lib/api/webhook-payloads.ts'
import { type WebhookType, webhookTypes } from '../../../lib/notifications/webhook-types.ts'
import { addressOf, idInPath, momentOf } from '../components/address.ts'
import { Badge, Card, Empty } from '../components/blocks.tsx'
import { Field, FieldError, Form, FormDetails, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, FormRefusal, optionalText, shortText, useForm } from '../components/form.ts'
import { formatNumber, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table, TableCard } from '../components/table.tsx'
import {
  deliveryAddress,
  DeliveryState,
  deliveryStates,
  deliveryTimeColumn,
  endpointAddress,
  EndpointState,
  missingEndpoint,
  SigningSecret,
  targetOf,
  webhooksOf,
  WebhookViews,
} from './webhook-parts.tsx'

/** Lists webhook endpoints, and changes each of them. */
export const pages = createProgramPages()

const webhooksPage = (c: ProgramContext) => webhooksOf(c.get('program').id)
const endpointIn = (c: ProgramContext) => idInPath(c, 'endpointId', missingEndpoint)
const endpointPage = (c: ProgramContext) => endpointAddress(c.get('program').id, endpointIn(c))

pages.get('/webhooks', requireProgram('webhook:list'), async (c) => {
  const program = c.get('program')
  const endpoints = await listEndpointsWithLatest(c.get('db'), programOwner(program.id))
  return c.render(
    <ProgramPage
      title="Webhooks"
      current="/webhooks"
      lead="Signed requests to your server when something happens, following Standard Webhooks."
      actions={
        <>
          <WebhookViews programId={program.id} current="endpoints" />
          {may(program.roles, 'webhook:manage') && (
            <FormDetails
              summary="Add an endpoint"
              action={webhooksOf(program.id)}
              submit="Add endpoint"
              open={endpoints.length === 0}
              primary
            >
              <EndpointFields />
            </FormDetails>
          )}
        </>
      }
    >
      <Card>
        {endpoints.length === 0 ? (
          <Empty title="No endpoints yet">
            <p>
              An endpoint is an address of your server. It receives a signed request for each lead, sale, refund,
              commission and payout.
            </p>
          </Empty>
        ) : (
          <Endpoints programId={program.id} endpoints={endpoints} />
        )}
      </Card>
    </ProgramPage>,
  )
})

function Endpoints({ programId, endpoints }: { programId: number; endpoints: EndpointWithLatest[] }) {
  return (
    <Table
      caption="Endpoints of this program, newest first"
      rows={endpoints}
      columns={[
        {
          label: 'Address',
          cell: (endpoint) => (
            <div>
              <a href={endpointAddress(programId, endpoint.id)} class="break">
                {targetOf(endpoint)}
              </a>
              <div class="muted small">{endpoint.description}</div>
            </div>
          ),
        },
        { label: 'Events', cell: wantedBy },
        { label: 'State', cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
        {
          label: 'Last delivery (UTC)',
          cell: ({ id, latest_message_id: messageId, latest_status: status, latest_at: at }) =>
            messageId !== null && status !== null && at !== null ? (
              <a href={deliveryAddress(programId, { endpoint_id: id, message_id: messageId })}>
                <Time at={at} /> <Badge tone={deliveryStates[status].tone}>{deliveryStates[status].name}</Badge>
              </a>
            ) : (
              'none yet'
            ),
        },
      ]}
    />
  )
}

const wantedBy = ({ types }: WebhookEndpoint) => (types.length === webhookTypes.length ? 'all' : types.join(', '))

function EndpointFields({ endpoint }: { endpoint?: WebhookEndpoint }) {
  return (
    <>
      <Field
        name="url"
        label="Address"
        type="url"
        placeholder="https://example.com/webhooks"
        value={endpoint?.url ?? ''}
        hint="Must start with https:// and reach a public host."
        required
      />
      <Field
        name="description"
        label="Description"
        value={endpoint?.description ?? ''}
        hint="Only your workspace sees it."
      />
      <TypeChoices endpoint={endpoint} />
    </>
  )
}

function TypeChoices({ endpoint }: { endpoint: WebhookEndpoint | undefined }) {
  const state = useForm()
  const wants = (type: WebhookType) =>
    state === emptyForm ? (endpoint?.types.includes(type) ?? true) : state.values[type] !== undefined
  return (
    <fieldset class="choices" aria-describedby={state.errors['types'] && 'types-error'}>
      <legend>Events</legend>
      {webhookTypes.map((type) => (
        <label class="choice">
          <input type="checkbox" name={type} checked={wants(type)} />
          <span>
            <code>{type}</code> <span class="muted small">{webhookPayloads[type].when}</span>
          </span>
        </label>
      ))}
      <FieldError name="types" />
    </fieldset>
  )
}

const endpointForm = z.object({
  url: z
    .string('Enter the address.')
    .check(z.trim(), z.minLength(1, 'Enter the address.'), z.maxLength(2000, 'Use at most 2,000 characters.')),
  description: optionalText.check(shortText(200)),
  ...Object.fromEntries(webhookTypes.map((type) => [type, z.optional(z.string())])),
})

/** Converts an endpoint's form. `types` are the selected event types. */
function settingsIn({ url, description, ...chosen }: z.infer<typeof endpointForm>) {
  const types = webhookTypes.filter((type) => Object.hasOwn(chosen, type))
  if (types.length === 0) throw new FormRefusal({ types: 'Choose at least one event.' })
  return { url, description, types }
}

/** Shows the refusal of an address next to its field. */
function refuseAddress(error: unknown): never {
  const detail = error instanceof ApiError ? error.details?.[0] : undefined
  throw detail?.field === 'url' ? new FormRefusal({ url: `The address ${detail.message}.` }) : error
}

pages.post('/webhooks', requireProgram('webhook:manage'), form(endpointForm, webhooksPage), async (c) => {
  const settings = settingsIn(c.req.valid('form'))
  return await showSecret(
    c,
    await createEndpoint(c.get('db'), c.env, programOwner(c.get('program').id), settings).catch(refuseAddress),
  )
})

/** The number of deliveries on an endpoint's page. */
const newest = 10

pages.get('/webhooks/:endpointId', requireProgram('webhook:list'), (c) => renderEndpoint(c, endpointIn(c)))

/** Shows the page of an endpoint with a new secret. If the form is repeated, it redirects to the page without the secret. */
async function showSecret(c: ProgramContext, { id, secret }: EndpointWithSecret) {
  c.header('Content-Location', endpointAddress(c.get('program').id, id))
  return await renderEndpoint(c, id, secret)
}

/** `secret` is a new secret. It is shown only once. */
async function renderEndpoint(c: ProgramContext, endpointId: number, secret?: string) {
  const program = c.get('program')
  const db = c.get('db')
  const [endpoint, deliveries] = await Promise.all([
    findEndpoint(db, programOwner(program.id), endpointId),
    listProgramDeliveries(db, program.id, { endpointId, limit: newest }),
  ])
  const address = endpointAddress(program.id, endpoint.id)
  const manages = may(program.roles, 'webhook:manage')
  const isOff = endpoint.disabled_at !== null
  const allDeliveries = addressOf(`${webhooksOf(program.id)}/deliveries`, { endpoint: String(endpoint.id) })
  return c.render(
    <ProgramPage
      title="Webhook endpoint"
      current="/webhooks"
      lead={
        <>
          <code class="break">{targetOf(endpoint)}</code> <EndpointState endpoint={endpoint} />
        </>
      }
      actions={
        <>
          {manages && !isOff && <PostButton action={`${address}/test`} class="primary" text="Send a test event" />}
          {manages && <OnOff address={address} isOff={isOff} />}
        </>
      }
    >
      {secret !== undefined && <SigningSecret secret={secret} />}
      <TableCard
        title="Deliveries"
        aside={deliveries.length === newest && <a href={allDeliveries}>All deliveries</a>}
        caption="The newest deliveries to this endpoint"
        rows={deliveries}
        columns={[
          deliveryTimeColumn(program.id),
          { label: 'Event', cell: ({ type }) => <code>{type}</code> },
          { label: 'State', cell: (delivery) => <DeliveryState delivery={delivery} /> },
        ]}
        none="None yet. A test event is sent immediately."
      />
      {manages && endpoint.url !== null && (
        <>
          {!isOff && <SendAgain address={address} />}
          <Card title="Settings">
            <Form action={address} submit="Save">
              <EndpointFields endpoint={endpoint} />
            </Form>
          </Card>
        </>
      )}
      {manages && <Remove address={address} endpoint={endpoint} />}
    </ProgramPage>,
  )
}

function OnOff({ address, isOff }: { address: string; isOff: boolean }) {
  if (isOff) return <PostButton action={`${address}/on`} text="Enable" />
  return (
    <PostButton
      action={`${address}/off`}
      confirm="Disable this endpoint? Nothing is sent to it while it is disabled, and events during that time are not sent later."
      text="Disable"
    />
  )
}

const asInput = (moment: Date) => moment.toISOString().slice(0, 16)
const dayMilliseconds = 86_400_000

const ranges = [
  ['failed', 'Failed deliveries'],
  ['all', 'All finished deliveries'],
] as const

function SendAgain({ address }: { address: string }) {
  return (
    <Card title="Send again">
      <p class="muted">
        Use this if your server was down or lost data. Each message keeps its id. You can send up to 10,000 at once.
        Messages are kept for 30 days. Times are in UTC.
      </p>
      <Form action={`${address}/replay`} submit="Send again" layout="inline">
        <Field
          name="since"
          label="From"
          type="datetime-local"
          value={asInput(new Date(Date.now() - dayMilliseconds))}
          required
        />
        <Field
          name="until"
          label="Until"
          type="datetime-local"
          value={asInput(new Date(Date.now() + 60_000))}
          required
        />
        <Field name="which" label="Which deliveries" options={ranges} />
      </Form>
    </Card>
  )
}

function Remove({ address, endpoint }: { address: string; endpoint: WebhookEndpoint }) {
  const until = endpoint.previous_secret_until
  const isRotating = until !== null && until > new Date()
  return (
    <Card title="Secret and deletion">
      <p class="muted">
        {isRotating ? (
          <>
            Requests are signed with two secrets until <Time at={until} />: the new one and the previous one.
          </>
        ) : (
          <>For {rotationHours} hours after a new secret, requests are signed with the previous one too.</>
        )}
      </p>
      <div class="row">
        {endpoint.url !== null && (
          <PostButton
            action={`${address}/rotate`}
            confirm={
              isRotating
                ? 'Rotate the secret? The older of the two current secrets stops working immediately.'
                : `Rotate the secret? The current secret keeps signing for ${rotationHours} more hours.`
            }
            text="Rotate secret"
          />
        )}
        <PostButton
          action={`${address}/delete`}
          class="danger"
          confirm="Delete this endpoint? Nothing more is sent to it, and its deliveries are removed."
          text="Delete endpoint"
        />
      </div>
    </Card>
  )
}

/** Sends due deliveries at once. */
const wake = (c: ProgramContext) => sendSoon(c.env, [{ program_id: c.get('program').id, due_at: 0 }])

pages.post('/webhooks/:endpointId', requireProgram('webhook:manage'), form(endpointForm, endpointPage), async (c) => {
  const { url, ...others } = settingsIn(c.req.valid('form'))
  const { id: programId } = c.get('program')
  const before = await findEndpoint(c.get('db'), programOwner(programId), endpointIn(c))
  const changes = url === before.url ? others : { ...others, url }
  await changeEndpoint(c.get('db'), c.env, programOwner(programId), before.id, changes).catch(refuseAddress)
  await wake(c)
  return redirectWith(c, endpointPage(c), 'Saved. The settings apply to events from now on.')
})

for (const [verb, enabled, done] of [
  [
    'on',
    true,
    'The endpoint is enabled. Pending deliveries are sent now. Events from the time when it was disabled are not sent.',
  ],
  ['off', false, 'The endpoint was disabled.'],
] as const) {
  pages.post(`/webhooks/:endpointId/${verb}`, requireProgram('webhook:manage'), async (c) => {
    await changeEndpoint(c.get('db'), c.env, programOwner(c.get('program').id), endpointIn(c), { enabled })
    if (enabled) await wake(c)
    return redirectWith(c, endpointPage(c), done)
  })
}

pages.post('/webhooks/:endpointId/rotate', requireProgram('webhook:manage'), async (c) => {
  return await showSecret(c, await rotateSecret(c.get('db'), c.env, programOwner(c.get('program').id), endpointIn(c)))
})

pages.post('/webhooks/:endpointId/delete', requireProgram('webhook:manage'), async (c) => {
  await deleteEndpoint(c.get('db'), programOwner(c.get('program').id), endpointIn(c))
  return redirectWith(c, webhooksPage(c), 'The endpoint was deleted.')
})

pages.post('/webhooks/:endpointId/test', requireProgram('webhook:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const endpointId = endpointIn(c)
  const messageId = await testEndpoint(c.get('db'), programOwner(programId), endpointId)
  await wake(c)
  const delivery = deliveryAddress(programId, { endpoint_id: endpointId, message_id: messageId })
  return redirectWith(c, delivery, 'A test event is on its way.')
})

const noTime = 'Enter a day and a time.'
const moment = z.pipe(
  z.string(noTime),
  z.transform((text: string, context) => {
    const at = momentOf(/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/.test(text) ? `${text}Z` : undefined)
    if (!at) context.issues.push({ code: 'custom', message: noTime, input: text })
    return at
  }),
)
const rangeForm = z.object({
  since: moment,
  until: moment,
  which: z.prefault(z.enum(['failed', 'all'], 'Choose which deliveries.'), 'failed'),
})

/** The maximum number of deliveries in one replay. */
const maxReplayed = 10_000

pages.post(
  '/webhooks/:endpointId/replay',
  requireProgram('webhook:manage'),
  form(rangeForm, endpointPage),
  async (c) => {
    const { since, until, which } = c.req.valid('form')
    if (since && until && since >= until) throw new FormRefusal({ until: 'Choose a time after the start.' })
    const range = { since, until, failedOnly: which === 'failed' }
    const replayed = await replayDeliveries(c.get('db'), programOwner(c.get('program').id), endpointIn(c), range)
    await wake(c)
    return redirectWith(c, endpointPage(c), repliesOf(replayed))
  },
)

function repliesOf(replayed: number): string {
  if (replayed === 0) return 'There are no such deliveries in this period, so nothing will be sent again.'
  if (replayed === maxReplayed)
    return `The oldest ${formatNumber(replayed)} will be sent again. Choose a later start for the next ones.`
  return replayed === 1
    ? 'One delivery will be sent again.'
    : `${formatNumber(replayed)} deliveries will be sent again.`
}
