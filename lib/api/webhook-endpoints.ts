import * as z from 'zod/mini'
import { failingDays } from '../notifications/failing-days.ts'
import {
  type EndpointWithSecret,
  maxEndpoints,
  rotationHours,
  type WebhookEndpoint,
} from '../notifications/webhook-endpoints.ts'
import type { WebhookAttempt, WebhookDelivery } from '../notifications/webhook-log.ts'
import { messageOfWebhookId, webhookId, webhookPayload, webhookTypes } from '../notifications/webhook-types.ts'
import { cursorOf, idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { answered, answeredCreated, body, type Operation, refused } from './operation.ts'
import { answerOf, resource } from './resource.ts'
import { count, id, text, time } from '../response-fields.ts'
import { webhookExample } from './webhook-payloads.ts'

const endpointStates = ['active', 'inactive'] as const
const deliveryStates = ['pending', 'delivered', 'failed', 'to_fetch'] as const

export const endpointsQuery = listQuery({})
export const endpointPath = z.object({ webhook_endpoint_id: idIn() })

const address = () => z.string().check(z.maxLength(2000))
const description = () => z.nullish(z.string().check(z.maxLength(200)))
const types = () =>
  z.array(oneOf(webhookTypes)).check(
    z.minLength(1, 'must name at least one type'),
    z.refine((names) => new Set(names).size === names.length, 'must name each type once'),
  )

/** Body of POST /api/v1/webhook-endpoints. */
export const newEndpoint = z.strictObject({ url: z.nullable(address()), description: description(), types: types() })

/** Body of PATCH /api/v1/webhook-endpoints/{webhook_endpoint_id}. */
export const endpointChanges = z.strictObject({
  url: z.optional(address()),
  description: description(),
  types: z.optional(types()),
  status: z.optional(oneOf(endpointStates)),
})

const deliveryId = () =>
  z.pipe(
    z.string(),
    z.transform((value: string, context) => {
      const messageId = messageOfWebhookId(value)
      if (messageId !== undefined) return messageId
      context.issues.push({ code: 'custom', message: 'must be an id such as evt_1', input: value })
      return z.NEVER
    }),
  )

export const deliveriesQuery = listQuery({ status: z.optional(oneOf(deliveryStates)) })
export const deliveryPath = z.object({ webhook_endpoint_id: idIn(), delivery_id: deliveryId() })
export const deliveryCursorOf = ({ message_id }: { message_id: number }) => cursorOf(message_id)

const notATime = 'must be an ISO 8601 time with its offset, for example 2026-01-31T12:00:00Z'
const moment = () =>
  z.pipe(
    z.iso.datetime({ offset: true, error: notATime }).check(z.refine((at) => at >= '1970', notATime)),
    z.transform((at: string) => new Date(at)),
  )

/** Body of POST /api/v1/webhook-endpoints/{webhook_endpoint_id}/replay: one delivery, or all deliveries of a period. */
export const replayRequest = z
  .strictObject({
    delivery_id: z.optional(deliveryId()),
    since: z.optional(moment()),
    until: z.optional(moment()),
    failed_only: z.optional(z.boolean()),
  })
  .check(
    z.refine(({ delivery_id: delivery, since }) => delivery !== undefined || since !== undefined, {
      path: ['since'],
      error: 'is missing: send since, or one delivery_id',
    }),
    z.refine(
      ({ delivery_id: delivery, since, until, failed_only: failedOnly }) =>
        delivery === undefined || (since ?? until ?? failedOnly) === undefined,
      { path: ['delivery_id'], error: "selects one delivery and can't be combined with since, until or failed_only" },
    ),
    z.refine(({ since, until }) => !since || !until || since < until, {
      path: ['until'],
      error: 'must be after since',
    }),
  )

const isoTime = (at: Date | string | null) => at && new Date(at).toISOString()

/** Renders an endpoint. */
export function asEndpoint(endpoint: WebhookEndpoint | EndpointWithSecret) {
  const { created_at: created, previous_secret_until: until, disabled_at: disabled, failing_since: failing } = endpoint
  return {
    id: endpoint.id,
    url: endpoint.url,
    description: endpoint.description,
    types: endpoint.types,
    status: disabled ? 'inactive' : 'active',
    inactive_because: endpoint.disabled_because,
    failing_since: isoTime(failing),
    previous_secret_until: until && new Date(until) > new Date() ? isoTime(until) : null,
    created_at: isoTime(created),
  }
}

export const asNewEndpoint = (endpoint: EndpointWithSecret) => ({ ...asEndpoint(endpoint), secret: endpoint.secret })

/** Renders a delivery. `payload` is the body that was sent. */
export const asDelivery = (delivery: WebhookDelivery) => ({
  id: webhookId(delivery.message_id),
  type: delivery.type,
  status: delivery.status,
  attempt_count: delivery.attempt_count,
  next_attempt_at: isoTime(delivery.next_attempt_at),
  finished_at: isoTime(delivery.finished_at),
  payload: webhookPayload(delivery),
})

export const asWholeDelivery = ({ attempts, ...delivery }: WebhookDelivery & { attempts: WebhookAttempt[] }) => ({
  ...asDelivery(delivery),
  attempts: attempts.map((attempt) => ({ ...attempt, attempted_at: isoTime(attempt.attempted_at) })),
})

const endpoint = () =>
  z.object({
    id: id(),
    url: text(),
    description: z.string(),
    types: z.array(z.enum(webhookTypes)),
    status: z.enum(endpointStates),
    inactive_because: z.nullable(z.enum(['owner', 'failures'])),
    failing_since: z.nullable(time()),
    previous_secret_until: z.nullable(time()),
    created_at: time(),
  })
const withSecret = () => z.extend(endpoint(), { secret: z.string() })

const delivery = () =>
  z.object({
    id: z.string(),
    type: z.string(),
    status: z.enum(deliveryStates),
    attempt_count: count(),
    next_attempt_at: z.nullable(time()),
    finished_at: z.nullable(time()),
    payload: z.object({
      id: z.string(),
      type: z.string(),
      timestamp: time(),
      sequence: count(),
      data: z.record(z.string(), z.unknown()),
    }),
  })
const wholeDelivery = () =>
  z.extend(delivery(), {
    attempts: z.array(
      z.object({
        attempted_at: time(),
        duration_ms: count(),
        status: z.nullable(z.int()),
        error: text(),
        answer: text(),
      }),
    ),
  })

const example = {
  id: 1,
  url: 'https://shop.example.com/webhooks',
  description: 'Orders',
  types: ['sale.created', 'sale.refunded'],
  status: 'active',
  inactive_because: null,
  failing_since: null,
  previous_secret_until: null,
  created_at: '2026-01-01T12:00:00.000Z',
}
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='
const deliveryExample = {
  id: 'evt_1',
  type: 'webhook.test',
  status: 'pending',
  attempt_count: 0,
  next_attempt_at: '2026-01-01T12:05:00.000Z',
  finished_at: null,
  payload: webhookExample('webhook.test'),
}

const fields = {
  url: 'Null if you fetch the deliveries yourself, as `svc listen` does.',
  inactive_because: `\`owner\`: you disabled it. \`failures\`: every attempt failed for ${failingDays} days.`,
  failing_since: 'The first failed attempt after the last successful one.',
  previous_secret_until: 'Until this time, webhooks are also signed with the previous secret.',
}
const secretField = {
  ...fields,
  secret:
    'The signing secret of the webhooks. It is only shown in this response, and if you repeat the request with its Idempotency-Key.',
}
const deliveryFields = {
  status:
    '`pending` until the delivery has succeeded or failed. `to_fetch` if the endpoint has no `url`, because the service does not know whether it was fetched.',
  payload: 'The body as sent.',
}
const attemptFields = {
  ...deliveryFields,
  attempts:
    'Each attempt: the HTTP `status` with the first 4 KB of the `answer`, or the `error` if there was no response.',
}
const urlText =
  'The target of the webhooks: `https://` on a public host. Deliveries to host names with a private address are refused, and redirects are not followed.'
const typesText = `The event types to send: ${webhookTypes.map((type) => `\`${type}\``).join(', ')}.`
const descriptionText = 'Your own note, at most 200 characters.'

/** Describes webhook endpoints for the reference. */
export function webhookEndpointOperations(): Operation[] {
  const path = '/api/v1/webhook-endpoints'
  const inPath = idParameter('webhook_endpoint_id', 'Id of the endpoint.')
  const inDeliveryPath = {
    ...inPath,
    fields: {
      ...inPath.fields,
      delivery_id: {
        description: 'Id of the webhook, from its header `webhook-id`.',
        example: 'evt_1',
        values: { type: 'string' },
      },
    },
  }
  const { create, list, get, change, act, remove } = resource({
    path,
    name: 'webhook_endpoint',
    plural: 'webhook endpoints',
    item: endpoint(),
    fields,
    example,
    inPath,
  })
  const deliveries = resource({
    path: `${path}/{webhook_endpoint_id}/deliveries`,
    name: 'delivery',
    plural: 'deliveries',
    item: delivery(),
    fields: deliveryFields,
    example: deliveryExample,
  })
  const answersSecret = {
    schemas: [answerOf('webhook_endpoint', withSecret())],
    description: 'The endpoint with its secret.',
    fields: secretField,
  }
  return [
    create({
      id: 'createWebhookEndpoint',
      summary: 'Add a webhook endpoint',
      description: `Adds a URL of your server that receives events. They are signed according to Standard Webhooks. Returns \`conflict\` if the program already has ${maxEndpoints} endpoints.`,
      body: body(newEndpoint, {
        url: `${urlText} Null if you fetch the deliveries yourself, as \`svc listen\` does. Such an endpoint is deleted after a day.`,
        description: descriptionText,
        types: typesText,
      }),
      success: answersSecret,
      errors: ['conflict'],
      examples: [
        answeredCreated(
          'created',
          'An endpoint for sales',
          { webhook_endpoint: { ...example, secret } },
          { url: example.url, description: example.description, types: example.types },
        ),
        refused(
          'invalid_request',
          'A private address',
          {
            code: 'invalid_request',
            message: 'url must be a public address.',
            details: [{ field: 'url', message: 'must be a public address' }],
          },
          { url: 'https://10.0.0.1/webhooks', types: ['sale.created'] },
        ),
      ],
    }),
    list({
      id: 'listWebhookEndpoints',
      summary: 'List webhook endpoints',
      description: 'The webhook endpoints of the program, newest first, without their secrets.',
      query: endpointsQuery,
    }),
    get({
      id: 'getWebhookEndpoint',
      summary: 'Read a webhook endpoint',
      description: 'One endpoint, without its secret.',
    }),
    change({
      id: 'updateWebhookEndpoint',
      summary: 'Change a webhook endpoint',
      description:
        'Changes the fields that you send (JSON Merge Patch). Enabling the endpoint or changing its URL resets its failures. Returns `conflict` if you set a URL for an endpoint that has none.',
      body: body(endpointChanges, {
        url: urlText,
        description: `${descriptionText} Null removes it.`,
        types: typesText,
        status: 'Enables or disables the endpoint. It never receives events that happen while it is disabled.',
      }),
      errors: ['conflict'],
      examples: [
        answered(
          'changed',
          'Other types',
          { webhook_endpoint: { ...example, types: ['sale.created', 'commission.created'] } },
          { types: ['sale.created', 'commission.created'] },
        ),
      ],
    }),
    act({
      at: '/rotate-secret',
      id: 'rotateWebhookSecret',
      summary: 'Rotate a webhook secret',
      description: `Gives the endpoint a new secret. For ${rotationHours} hours, webhooks are signed with both the new secret and the previous one. Older secrets stop working immediately.`,
      idempotent: true,
      success: answersSecret,
      examples: [
        answered('rotated', 'A new secret', {
          webhook_endpoint: { ...example, previous_secret_until: '2026-01-02T12:00:00.000Z', secret },
        }),
      ],
    }),
    act({
      at: '/test',
      id: 'testWebhookEndpoint',
      summary: 'Send a test event',
      description:
        'Immediately sends a webhook of the type `webhook.test`, even if the endpoint does not subscribe to it. Returns `not_found` if the endpoint is disabled.',
      success: {
        schemas: [answerOf('delivery_id', z.string())],
        description: 'The delivery’s id.',
        fields: { delivery_id: 'The `webhook-id`, which you can use to read the delivery.' },
      },
      examples: [answered('sent', 'A test event', { delivery_id: 'evt_1' })],
    }),
    deliveries.list({
      id: 'listWebhookDeliveries',
      summary: 'List webhook deliveries',
      description: 'The endpoint’s deliveries of the last 30 days, newest first.',
      query: deliveriesQuery,
      filters: { status: 'Only deliveries in this state.' },
      parameters: [inPath],
    }),
    deliveries.get({
      id: 'getWebhookDelivery',
      summary: 'Read a webhook delivery',
      description: 'One delivery with each attempt and its response.',
      path: `${path}/{webhook_endpoint_id}/deliveries/{delivery_id}`,
      parameters: [inDeliveryPath],
      success: {
        schemas: [answerOf('delivery', wholeDelivery())],
        description: 'The delivery.',
        fields: attemptFields,
      },
      examples: [
        answered('found', 'A successful delivery', {
          delivery: {
            ...deliveryExample,
            status: 'delivered',
            attempt_count: 1,
            next_attempt_at: null,
            finished_at: '2026-01-01T12:05:01.000Z',
            attempts: [
              { attempted_at: '2026-01-01T12:05:00.500Z', duration_ms: 120, status: 204, error: null, answer: '' },
            ],
          },
        }),
      ],
    }),
    act({
      at: '/replay',
      id: 'replayWebhooks',
      summary: 'Send webhooks again',
      description:
        'Sends one delivery again, or all deliveries of a period, up to 10,000 and oldest first. They keep their ids. Pending deliveries do not change. Returns `not_found` if the endpoint is disabled or has no URL.',
      body: body(replayRequest, {
        delivery_id: 'One delivery, such as `evt_1`.',
        since: 'Instead of `delivery_id`: all events since this time (ISO 8601).',
        until: 'Only events before this time.',
        failed_only: 'Only deliveries for which every attempt failed.',
      }),
      success: {
        schemas: [answerOf('replayed', count())],
        description: 'The number of deliveries to send again.',
        fields: { replayed: 'The number of deliveries to send again.' },
      },
      examples: [
        answered('one', 'One delivery', { replayed: 1 }, { delivery_id: 'evt_1' }),
        answered(
          'range',
          "One day's failed deliveries",
          { replayed: 12 },
          { since: '2026-01-01T00:00:00Z', until: '2026-01-02T00:00:00Z', failed_only: true },
        ),
      ],
    }),
    remove({
      id: 'deleteWebhookEndpoint',
      summary: 'Delete a webhook endpoint',
      description: "Deletes the endpoint and its deliveries. It won't get any more events.",
      examples: [answered('deleted', 'It was deleted', { deleted_id: 1 })],
    }),
  ]
}
