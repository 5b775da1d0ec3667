import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import {
  placeholders,
  postbackBody,
  postbackUrl,
  postbackValues,
  unknownPlaceholder,
} from '../../../lib/notifications/postbacks.ts'
import {
  changeEndpoint,
  createEndpoint,
  deleteEndpoint,
  type EndpointOwner,
  type EndpointWithLatest,
  findEndpoint,
  listEndpointsWithLatest,
  maxPostbacks,
  replayDeliveries,
  rotateSecret,
  testEndpoint,
  type WebhookEndpoint,
} from '../../../lib/notifications/webhook-endpoints.ts'
import {
  deliveryTotals,
  findDelivery,
  listDeliveries,
  type WebhookDelivery,
} from '../../../lib/notifications/webhook-log.ts'
import { type PostbackEvent, postbackEvents, webhookId } from '../../../lib/notifications/webhook-types.ts'
import { idInPath, positiveInteger } from '../components/address.ts'
import { Card, Copy } from '../components/blocks.tsx'
import { Field, FieldError, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, FormRefusal, useForm } from '../components/form.ts'
import { Time } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { List, Pager, readPage } from '../components/list.tsx'
import { createPages, type PartnerContext, requirePartner } from '../components/page.ts'
import { TableCard } from '../components/table.tsx'
import { Attempts, DeliveryState, EndpointState, SigningSecret } from '../program/webhook-parts.tsx'
import { type PageText, Text, useTexts } from '../components/text.tsx'
import { keysAddress } from './api-keys.tsx'
import { ownProgram, readPrograms } from './money.ts'

/** A partner's postbacks in each program: addresses and deliveries. */
export const pages = createPages()

const start = '/partner/postbacks'
const [ofProgram, one] = [`${start}/:programId`, `${start}/:programId/:postbackId`] as const
const events: Record<PostbackEvent, PageText> = {
  lead: 'one of your leads signed up',
  sale: 'one of your sales was recorded',
  commission_approved: 'a commission was credited to your balance',
  commission_reversed: 'a commission was reversed, or a reversal was undone',
  payout_paid: 'you were paid',
}

async function pathOf(c: PartnerContext): Promise<{ owner: EndpointOwner; endpointId: number; address: string }> {
  const program = await ownProgram(c)
  const endpointId = idInPath(c, 'postbackId', 'You have no postback with this id.')
  const owner = { programId: program.id, partnerId: program.partner_id }
  return { owner, endpointId, address: `${start}/${program.id}/${endpointId}` }
}

pages.get(start, requirePartner, async (c) => {
  const page = await readPrograms(c)
  const [program, ...others] = page.rows
  if (program && others.length === 0 && !page.newer) return c.redirect(`${start}/${program.id}`, 303)
  const { t } = c.get('texts')
  return c.render(
    <PartnerPage title={t('Postbacks')} current="/postbacks" lead={t('Choose a program.')}>
      <Card>
        <ul>
          {page.rows.map(({ id, name }) => (
            <li>
              <a href={`${start}/${id}`}>{name}</a>
            </li>
          ))}
        </ul>
      </Card>
      <Pager {...page} />
    </PartnerPage>,
  )
})

pages.get(ofProgram, requirePartner, async (c) => {
  const program = await ownProgram(c)
  const { t } = c.get('texts')
  const endpoints = await listEndpointsWithLatest(c.get('db'), { programId: program.id, partnerId: program.partner_id })
  return c.render(
    <PartnerPage
      title={t('Postbacks')}
      current="/postbacks"
      lead={t('{name} calls your tracker when something happens to your leads, sales and commissions.', {
        name: program.name,
      })}
      actions={<a href={keysAddress(program.id)}>{t('API keys')}</a>}
    >
      <Endpoints programId={program.id} endpoints={endpoints} />
      {endpoints.length < maxPostbacks && <NewPostback programId={program.id} />}
    </PartnerPage>,
  )
})

function Endpoints({ programId, endpoints }: { programId: number; endpoints: EndpointWithLatest[] }) {
  const { t } = useTexts()
  return (
    <TableCard
      title={t('Addresses')}
      caption={t('Your postbacks, newest first')}
      rows={endpoints}
      columns={[
        {
          label: 'Address',
          cell: ({ id, method, url }) => (
            <a href={`${start}/${programId}/${id}`} class="break">
              {method} {url}
            </a>
          ),
        },
        { label: 'Events', cell: ({ types }) => types.join(', ') },
        { label: 'State', cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
        { label: 'Last one', cell: ({ latest_at: at }) => (at ? <Time at={new Date(at)} /> : t('none yet')) },
      ]}
      none={t('None yet. Add the address of your tracker below.')}
    />
  )
}

function NewPostback({ programId }: { programId: number }) {
  const { t } = useTexts()
  return (
    <Card title={t('Add a postback')}>
      <Form action={`${start}/${programId}`} submit={t('Add postback')}>
        <Field
          name="method"
          label={t('Kind')}
          options={[
            ['GET', t('GET with placeholders')],
            ['POST', t('Signed webhook (POST with JSON)')],
          ]}
        />
        <Field
          name="url"
          label={t('Address')}
          type="text"
          inputmode="url"
          placeholder="https://tracker.example.com/postback?cid={sub1}&payout={commission}"
          hint={t('Must start with https:// and reach a public host. Placeholders must come after the question mark.')}
          required
        />
        <EventChoices />
      </Form>
      <p class="muted small">
        {t('Placeholders:')}{' '}
        {placeholders.map((name) => (
          <>
            <code>{`{${name}}`}</code>{' '}
          </>
        ))}
      </p>
      <p class="muted small">
        <Text
          of="{commission} is negative if a commission was reversed. {sub1} is the value of your link's {parameter} parameter. A failed postback is sent again for up to three days."
          commission={<code>{'{commission}'}</code>}
          sub1={<code>{'{sub1}'}</code>}
          parameter={<code>{'sub1'}</code>}
        />
      </p>
    </Card>
  )
}

function EventChoices() {
  const { t, fixed } = useTexts()
  const state = useForm()
  return (
    <fieldset class="choices" aria-describedby={state.errors['events'] && 'events-error'}>
      <legend>{t('Events')}</legend>
      {postbackEvents.map((event) => (
        <label class="choice">
          <input type="checkbox" name={event} checked={state === emptyForm || state.values[event] !== undefined} />
          <span>
            <code>{event}</code> <span class="muted small">{fixed(events[event])}</span>
          </span>
        </label>
      ))}
      <FieldError name="events" />
    </fieldset>
  )
}

const newForm = z.object({
  method: z.enum(['GET', 'POST'], 'Choose a kind.'),
  url: z
    .string('Enter the address.')
    .check(z.trim(), z.minLength(1, 'Enter the address.'), z.maxLength(2000, 'Use at most 2,000 characters.')),
  ...Object.fromEntries(postbackEvents.map((event) => [event, z.optional(z.string())])),
})

pages.post(
  ofProgram,
  requirePartner,
  form(newForm, (c) => `${start}/${positiveInteger(c.req.param('programId')) ?? ''}`),
  async (c) => {
    const program = await ownProgram(c)
    if (program.ended_at) throw new ApiError('conflict', 'Your partnership with this program has ended.')
    const { method, url, ...chosen } = c.req.valid('form')
    const types = postbackEvents.filter((event) => Object.hasOwn(chosen, event))
    if (types.length === 0) throw new FormRefusal({ events: 'Choose at least one event.' })
    const unknown = method === 'GET' ? unknownPlaceholder(url) : undefined
    if (unknown !== undefined) {
      const { t } = c.get('texts')
      throw new FormRefusal({ url: t('The address contains the unknown placeholder {name}.', { name: unknown }) })
    }
    const owner = { programId: program.id, partnerId: program.partner_id }
    const created = await createEndpoint(c.get('db'), c.env, owner, { method, url, types, description: '' }).catch(
      (error: unknown) => {
        const detail = error instanceof ApiError ? error.details?.[0] : undefined
        throw detail?.field === 'url' ? new FormRefusal({ url: `The address ${detail.message}.` }) : error
      },
    )
    const address = `${start}/${program.id}/${created.id}`
    if (method === 'GET') return redirectWith(c, address, 'The postback was added. Send a test to your tracker.')
    return await showSecret(c, owner, address, created)
  },
)

/** Shows a page with a new secret. If the form is repeated, it redirects to the page without the secret. */
async function showSecret(
  c: PartnerContext,
  owner: EndpointOwner,
  address: string,
  { id, secret }: { id: number; secret: string },
) {
  c.header('Content-Location', address)
  return await renderPostback(c, { owner, endpointId: id, address }, secret)
}

pages.get(one, requirePartner, async (c) => await renderPostback(c, await pathOf(c)))

async function renderPostback(
  c: PartnerContext,
  { owner, endpointId, address }: Awaited<ReturnType<typeof pathOf>>,
  secret?: string,
) {
  const cursor = { of: ({ message_id: id }: WebhookDelivery) => id, parse: positiveInteger }
  const [endpoint, page, totals] = await Promise.all([
    findEndpoint(c.get('db'), owner, endpointId),
    readPage(c, cursor, (part) => listDeliveries(c.get('db'), owner, endpointId, part)),
    c.get('db').query(deliveryTotals(owner, endpointId)),
  ])
  const isOff = endpoint.disabled_at !== null
  const { t } = c.get('texts')
  return c.render(
    <PartnerPage
      title={t('Postback')}
      current="/postbacks"
      lead={
        <>
          <code class="break">
            {endpoint.method} {endpoint.url}
          </code>{' '}
          <EndpointState endpoint={endpoint} />
        </>
      }
      actions={
        <>
          {!isOff && <PostButton action={`${address}/test`} class="primary" text={t('Send a test')} />}
          <PostButton action={`${address}/${isOff ? 'on' : 'off'}`} text={isOff ? t('Enable') : t('Disable')} />
          {endpoint.method === 'POST' && (
            <PostButton
              action={`${address}/rotate`}
              confirm={t('Rotate the secret? The current secret keeps signing for a day.')}
              text={t('Rotate secret')}
            />
          )}
          <PostButton
            action={`${address}/delete`}
            class="danger"
            confirm={t('Delete this postback? It will not get any more events.')}
            text={t('Delete')}
          />
        </>
      }
    >
      {secret !== undefined && <SigningSecret secret={secret} />}
      <List
        title={t('Sent in the last 30 days')}
        page={page}
        totals={totals}
        rows={(count) => t('{count} postbacks', { count })}
        caption={t('Postbacks to this address, newest first')}
        columns={[
          {
            label: 'When',
            phone: 'title',
            cell: ({ message_id: id, created_at: at }) => (
              <a href={`${address}/${id}`}>
                <Time at={new Date(at)} />
              </a>
            ),
          },
          { label: 'Event', cell: ({ type }) => <code>{type}</code> },
          { label: 'State', cell: (delivery) => <DeliveryState delivery={delivery} /> },
        ]}
        empty={{ title: t('Nothing has been sent yet'), text: t('A test is sent at once.') }}
      />
    </PartnerPage>,
  )
}

/** Sends due postbacks at once. */
const wake = (c: PartnerContext, { programId }: EndpointOwner) =>
  sendSoon(c.env, [{ program_id: programId, due_at: 0 }])

for (const enabled of [true, false]) {
  pages.post(`${one}/${enabled ? 'on' : 'off'}`, requirePartner, async (c) => {
    const { owner, endpointId, address } = await pathOf(c)
    await changeEndpoint(c.get('db'), c.env, owner, endpointId, { enabled })
    if (enabled) await wake(c, owner)
    return redirectWith(c, address, enabled ? 'The postback is enabled.' : 'The postback was disabled.')
  })
}

pages.post(`${one}/rotate`, requirePartner, async (c) => {
  const { owner, endpointId, address } = await pathOf(c)
  return await showSecret(c, owner, address, await rotateSecret(c.get('db'), c.env, owner, endpointId))
})

pages.post(`${one}/delete`, requirePartner, async (c) => {
  const { owner, endpointId } = await pathOf(c)
  await deleteEndpoint(c.get('db'), owner, endpointId)
  return redirectWith(c, `${start}/${owner.programId}`, 'The postback was deleted.')
})

pages.post(`${one}/test`, requirePartner, async (c) => {
  const { owner, endpointId, address } = await pathOf(c)
  const messageId = await testEndpoint(c.get('db'), owner, endpointId)
  await wake(c, owner)
  return redirectWith(c, `${address}/${messageId}`, 'A test is on its way.')
})

const missing = 'This postback has no delivery with this id.'

pages.get(`${one}/:postbackMessageId`, requirePartner, async (c) => {
  const { owner, endpointId, address } = await pathOf(c)
  const [endpoint, delivery] = await Promise.all([
    findEndpoint(c.get('db'), owner, endpointId),
    findDelivery(c.get('db'), owner, endpointId, idInPath(c, 'postbackMessageId', missing)),
  ])
  const { t } = c.get('texts')
  const maySend = delivery.finished_at !== null && endpoint.disabled_at === null
  return c.render(
    <PartnerPage
      title={t('Postback {id}', { id: webhookId(delivery.message_id) })}
      current="/postbacks"
      lead={
        <a href={address} class="break">
          {endpoint.url}
        </a>
      }
      actions={
        maySend && (
          <PostButton action={`${address}/${delivery.message_id}/replay`} class="primary" text={t('Send again')} />
        )
      }
    >
      <Card title={t('State')}>
        <DeliveryState delivery={delivery} />
      </Card>
      <Card title={t('Request')}>
        <Copy text={requestOf(c, owner, endpoint, delivery)} label={endpoint.method} wrap />
      </Card>
      <Attempts endpoint={endpoint} attempts={delivery.attempts} />
    </PartnerPage>,
  )
})

/** The address or the body that was sent. */
function requestOf(
  c: PartnerContext,
  { programId }: EndpointOwner,
  endpoint: WebhookEndpoint,
  delivery: WebhookDelivery,
) {
  if (endpoint.method === 'POST') return postbackBody(c.env, programId, delivery)
  return postbackUrl(endpoint.url ?? '', postbackValues(c.env, programId, delivery))
}

pages.post(`${one}/:postbackMessageId/replay`, requirePartner, async (c) => {
  const { owner, endpointId, address } = await pathOf(c)
  const messageId = idInPath(c, 'postbackMessageId', missing)
  await replayDeliveries(c.get('db'), owner, endpointId, { messageId, failedOnly: false })
  await wake(c, owner)
  return redirectWith(c, `${address}/${messageId}`, 'It is being sent again.')
})
