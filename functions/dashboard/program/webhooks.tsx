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
  makeEndpoint,
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
import { Badge, Card, Copy, Empty, Heading } from '../components/blocks.tsx'
import { Field, PostButton, Problem, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, type FormState, optionalText, refuseForm, shortText, shownForm } from '../components/form.ts'
import { formatNumber, Time } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import {
  deliveryAddress,
  deliveryStates,
  DeliveryState,
  endpointAddress,
  missingEndpoint,
  targetOf,
  webhooksOf,
  WebhookViews,
} from './webhook-parts.tsx'

/** Lists webhook endpoints, and changes each of them. */
export const webhookPages = createPages()

const webhooksPage = (c: ProgramContext) => webhooksOf(c.get('program').id)
const endpointIn = (c: ProgramContext) => idInPath(c, 'endpointId', missingEndpoint)
const endpointPage = (c: ProgramContext) => endpointAddress(c.get('program').id, endpointIn(c))

webhookPages.get('/programs/:programId/webhooks', requireProgram('webhook:list'), async (c) => {
  const program = c.get('program')
  const endpoints = await listEndpointsWithLatest(c.get('db'), program.id)
  const shown = shownForm(c)
  return renderProgram(c, {
    title: 'Webhooks',
    current: '/webhooks',
    children: (
      <>
        <Heading
          title="Webhooks"
          lead="Signed requests to your server when something happens, following Standard Webhooks."
        >
          <WebhookViews programId={program.id} current="endpoints" />
        </Heading>
        <Card>
          {endpoints.length === 0 ? (
            <Empty title="No endpoints yet">
              <p>
                An endpoint is an address of your server. It is sent a signed request for each lead, sale, refund,
                commission and payout.
              </p>
            </Empty>
          ) : (
            <Endpoints programId={program.id} endpoints={endpoints} />
          )}
        </Card>
        {may(program.roles, 'webhook:manage') && (
          <Card>
            <details class="more" open={shown !== emptyForm || endpoints.length === 0}>
              <summary>Add an endpoint</summary>
              <EndpointForm action={webhooksOf(program.id)} form={shown} submit="Add endpoint" />
            </details>
          </Card>
        )}
      </>
    ),
  })
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
        { label: 'State', cell: (endpoint) => <State endpoint={endpoint} /> },
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

/** Whether the endpoint is enabled, or since when and why not. */
function State({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { disabled_at: off, disabled_because: because, failing_since: failing } = endpoint
  if (off) {
    return (
      <div class="stack tight">
        <span>
          <Badge tone={because === 'failures' ? 'bad' : 'plain'}>Disabled</Badge> since <Time at={off} />
        </span>
        <span class="small muted">
          {because === 'failures' ? 'Disabled because every attempt failed for five days.' : 'Disabled by a member.'}
        </span>
      </div>
    )
  }
  if (!failing) return <Badge tone="good">Enabled</Badge>
  return (
    <span>
      <Badge tone="warn">Failing</Badge> since <Time at={failing} />
    </span>
  )
}

interface EndpointFormProps {
  action: string
  form: FormState
  endpoint?: WebhookEndpoint
  submit: string
}

function EndpointForm({ action, form: shown, endpoint, submit }: EndpointFormProps) {
  const wants = (type: WebhookType) =>
    shown === emptyForm ? (endpoint?.types.includes(type) ?? true) : shown.values[type] !== undefined
  return (
    <form method="post" action={action} class="stack">
      <Problem form={shown} />
      <div class="fields">
        <Field
          name="url"
          label="Address"
          type="url"
          placeholder="https://example.com/webhooks"
          value={endpoint?.url ?? ''}
          hint="Must start with https:// and reach a public host."
          form={shown}
          required
        />
        <Field
          name="description"
          label="Description"
          value={endpoint?.description ?? ''}
          hint="Only your workspace sees it."
          form={shown}
        />
      </div>
      <fieldset class="choices" aria-describedby={shown.errors['types'] && 'types-error'}>
        <legend>Events</legend>
        {webhookTypes.map((type) => (
          <label class="choice">
            <input type="checkbox" name={type} checked={wants(type)} />
            <span>
              <code>{type}</code> <span class="muted small">{webhookPayloads[type].when}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {shown.errors['types'] && (
        <p class="small bad" id="types-error" role="alert">
          {shown.errors['types']}
        </p>
      )}
      <Submit>{submit}</Submit>
    </form>
  )
}

const endpointForm = z.object({
  url: z
    .string('Enter the address.')
    .check(z.trim(), z.minLength(1, 'Enter the address.'), z.maxLength(2000, 'Use 2,000 characters at most.')),
  description: optionalText.check(shortText(200)),
  ...Object.fromEntries(webhookTypes.map((type) => [type, z.optional(z.string())])),
})

/** Converts the form of an endpoint. `types` are the selected event types. */
function settingsIn({ url, description, ...chosen }: z.infer<typeof endpointForm>) {
  return { url, description, types: webhookTypes.filter((type) => Object.hasOwn(chosen, type)) }
}

const noTypes = { errors: { types: 'Choose at least one event.' } }

/** Shows the refusal of an endpoint on the form. */
async function refuseEndpoint(c: ProgramContext, page: string, error: unknown): Promise<Response> {
  if (!(error instanceof ApiError)) throw error
  const [detail] = error.details ?? []
  if (detail?.field === 'url') return await refuseForm(c, page, { errors: { url: `The address ${detail.message}.` } })
  if (error.code === 'conflict') return await refuseForm(c, page, { problem: error.message })
  throw error
}

webhookPages.post(
  '/programs/:programId/webhooks',
  requireProgram('webhook:manage'),
  form(endpointForm, webhooksPage),
  async (c) => {
    const { id: programId } = c.get('program')
    const settings = settingsIn(c.req.valid('form'))
    if (settings.types.length === 0) return await refuseForm(c, webhooksPage(c), noTypes)
    try {
      return await showSecret(c, await makeEndpoint(c.get('db'), c.env, programId, settings))
    } catch (error) {
      return await refuseEndpoint(c, webhooksPage(c), error)
    }
  },
)

/** The number of deliveries on an endpoint's page. */
const newest = 10

webhookPages.get('/programs/:programId/webhooks/:endpointId', requireProgram('webhook:list'), async (c) => {
  return await renderEndpoint(c, endpointIn(c), { form: shownForm(c) })
})

/** Shows the page of an endpoint with a new secret. A form sent again leads to the page without the secret. */
async function showSecret(c: ProgramContext, { id, secret }: EndpointWithSecret) {
  c.header('Content-Location', endpointAddress(c.get('program').id, id))
  return await renderEndpoint(c, id, { secret })
}

interface Shown {
  form?: FormState
  /** The new secret. It is shown only once. */
  secret?: string
}

async function renderEndpoint(c: ProgramContext, endpointId: number, { form: shown = emptyForm, secret }: Shown) {
  const program = c.get('program')
  const db = c.get('db')
  const [endpoint, deliveries] = await Promise.all([
    findEndpoint(db, program.id, endpointId),
    listProgramDeliveries(db, program.id, { endpointId, limit: newest }),
  ])
  const address = endpointAddress(program.id, endpoint.id)
  const manages = may(program.roles, 'webhook:manage')
  const isOff = endpoint.disabled_at !== null
  return renderProgram(c, {
    title: 'Webhook endpoint',
    current: '/webhooks',
    children: (
      <>
        <Heading title="Webhook endpoint" lead={<Lead endpoint={endpoint} />}>
          {manages && !isOff && (
            <PostButton action={`${address}/test`} class="primary">
              Send a test event
            </PostButton>
          )}
          {manages && <OnOff address={address} isOff={isOff} />}
        </Heading>
        {secret !== undefined && <Secret secret={secret} />}
        <Card
          title="Deliveries"
          aside={
            deliveries.length === newest && (
              <a href={addressOf(`${webhooksOf(program.id)}/deliveries`, { endpoint: String(endpoint.id) })}>
                All deliveries
              </a>
            )
          }
        >
          {deliveries.length === 0 ? (
            <p class="muted">None yet. A test event is sent at once.</p>
          ) : (
            <Table
              caption="The newest deliveries to this endpoint"
              rows={deliveries}
              columns={[
                {
                  label: 'When (UTC)',
                  cell: (delivery) => (
                    <a href={deliveryAddress(program.id, delivery)}>
                      <Time at={delivery.created_at} />
                    </a>
                  ),
                },
                { label: 'Event', cell: ({ type }) => <code>{type}</code> },
                { label: 'State', cell: (delivery) => <DeliveryState delivery={delivery} /> },
              ]}
            />
          )}
        </Card>
        {manages && endpoint.url !== null && (
          <>
            {!isOff && <SendAgain address={address} form={shown} />}
            <Card title="Settings">
              <EndpointForm action={address} form={shown} endpoint={endpoint} submit="Save" />
            </Card>
          </>
        )}
        {manages && <Remove address={address} endpoint={endpoint} />}
      </>
    ),
  })
}

function Lead({ endpoint }: { endpoint: WebhookEndpoint }) {
  return (
    <>
      <code class="break">{targetOf(endpoint)}</code> <State endpoint={endpoint} />
    </>
  )
}

function OnOff({ address, isOff }: { address: string; isOff: boolean }) {
  if (isOff) return <PostButton action={`${address}/on`}>Enable</PostButton>
  return (
    <PostButton
      action={`${address}/off`}
      confirm="Disable this endpoint? Nothing is sent to it while it is disabled, and what happens meanwhile is not sent later."
    >
      Disable
    </PostButton>
  )
}

function Secret({ secret }: { secret: string }) {
  return (
    <Card title="Secret">
      <p>
        Your server verifies each request with this secret. Copy it now: it is not shown again. How to verify is in the{' '}
        <a href="/docs">documentation</a>.
      </p>
      <Copy text={secret} label="Webhook secret" />
    </Card>
  )
}

const asInput = (moment: Date) => moment.toISOString().slice(0, 16)
const dayMilliseconds = 86_400_000

const ranges = [
  ['failed', 'Failed ones'],
  ['all', 'All finished ones'],
] as const

function SendAgain({ address, form: shown }: { address: string; form: FormState }) {
  return (
    <Card title="Send again">
      <p class="muted">
        For when your server was down or lost data. Each message keeps its id; up to 10,000 at once. Messages are kept
        for 30 days. Times are in UTC.
      </p>
      <form method="post" action={`${address}/replay`} class="row end">
        <Field
          name="since"
          label="From"
          type="datetime-local"
          value={asInput(new Date(Date.now() - dayMilliseconds))}
          form={shown}
          required
        />
        <Field
          name="until"
          label="Until"
          type="datetime-local"
          value={asInput(new Date(Date.now() + 60_000))}
          form={shown}
          required
        />
        <Field name="which" label="Which" options={ranges} form={shown} />
        <button type="submit">Send again</button>
      </form>
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
                ? 'Rotate the secret? The older of the two current secrets stops working at once.'
                : `Rotate the secret? The current one signs for ${rotationHours} more hours.`
            }
          >
            Rotate secret
          </PostButton>
        )}
        <PostButton
          action={`${address}/delete`}
          class="danger"
          confirm="Delete this endpoint? Nothing more is sent to it, and its deliveries are removed."
        >
          Delete endpoint
        </PostButton>
      </div>
    </Card>
  )
}

/** Sends due deliveries at once. */
const wake = (c: ProgramContext) => sendSoon(c.env, [{ program_id: c.get('program').id, due_at: 0 }])

webhookPages.post(
  '/programs/:programId/webhooks/:endpointId',
  requireProgram('webhook:manage'),
  form(endpointForm, endpointPage),
  async (c) => {
    const settings = settingsIn(c.req.valid('form'))
    if (settings.types.length === 0) return await refuseForm(c, endpointPage(c), noTypes)
    try {
      const { id: programId } = c.get('program')
      const before = await findEndpoint(c.get('db'), programId, endpointIn(c))
      const { url, ...others } = settings
      await changeEndpoint(c.get('db'), c.env, programId, before.id, url === before.url ? others : settings)
    } catch (error) {
      return await refuseEndpoint(c, endpointPage(c), error)
    }
    await wake(c)
    return redirectWith(c, endpointPage(c), 'Saved. The settings apply to events from now on.')
  },
)

for (const [verb, enabled, done] of [
  [
    'on',
    true,
    'The endpoint is enabled. Pending deliveries are sent now; events of the time when it was disabled are not.',
  ],
  ['off', false, 'The endpoint is disabled.'],
] as const) {
  webhookPages.post(
    `/programs/:programId/webhooks/:endpointId/${verb}`,
    requireProgram('webhook:manage'),
    async (c) => {
      await changeEndpoint(c.get('db'), c.env, c.get('program').id, endpointIn(c), { enabled })
      if (enabled) await wake(c)
      return redirectWith(c, endpointPage(c), done)
    },
  )
}

webhookPages.post('/programs/:programId/webhooks/:endpointId/rotate', requireProgram('webhook:manage'), async (c) => {
  return await showSecret(c, await rotateSecret(c.get('db'), c.env, c.get('program').id, endpointIn(c)))
})

webhookPages.post('/programs/:programId/webhooks/:endpointId/delete', requireProgram('webhook:manage'), async (c) => {
  await deleteEndpoint(c.get('db'), c.get('program').id, endpointIn(c))
  return redirectWith(c, webhooksPage(c), 'The endpoint is deleted.')
})

webhookPages.post('/programs/:programId/webhooks/:endpointId/test', requireProgram('webhook:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const endpointId = endpointIn(c)
  const messageId = await testEndpoint(c.get('db'), programId, endpointId)
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

/** The most deliveries of one replay. */
const maxReplayed = 10_000

webhookPages.post(
  '/programs/:programId/webhooks/:endpointId/replay',
  requireProgram('webhook:manage'),
  form(rangeForm, endpointPage),
  async (c) => {
    const { since, until, which } = c.req.valid('form')
    if (since && until && since >= until)
      return await refuseForm(c, endpointPage(c), { errors: { until: 'Choose a time after the start.' } })
    const range = { since, until, failedOnly: which === 'failed' }
    const replayed = await replayDeliveries(c.get('db'), c.get('program').id, endpointIn(c), range)
    await wake(c)
    return redirectWith(c, endpointPage(c), repliesOf(replayed))
  },
)

function repliesOf(replayed: number): string {
  if (replayed === 0) return 'There are no such deliveries in this period, so nothing is sent again.'
  if (replayed === maxReplayed)
    return `The oldest ${formatNumber(replayed)} are sent again. Choose a later start for those after them.`
  return replayed === 1 ? 'One delivery is sent again.' : `${formatNumber(replayed)} deliveries are sent again.`
}
