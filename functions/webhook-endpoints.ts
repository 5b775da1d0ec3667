import { createOnce } from '../lib/idempotency.ts'
import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withIdempotency, withKey, withoutFields } from '../lib/api/program-key.ts'
import {
  asDelivery,
  asEndpoint,
  asNewEndpoint,
  asWholeDelivery,
  deliveriesQuery,
  deliveryCursorOf,
  deliveryPath,
  endpointChanges,
  endpointPath,
  endpointsQuery,
  newEndpoint,
  replayRequest,
} from '../lib/api/webhook-endpoints.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import {
  changeEndpoint,
  deleteEndpoint,
  type EndpointEnv,
  findEndpoint,
  listEndpoints,
  createEndpoint,
  programOwner,
  replayDeliveries,
  rotateSecret,
  testEndpoint,
} from '../lib/notifications/webhook-endpoints.ts'
import { findDelivery, listDeliveries } from '../lib/notifications/webhook-log.ts'
import { webhookId } from '../lib/notifications/webhook-types.ts'

const app = createProgramApi<RelayEnv & EndpointEnv>()
const all = '/api/v1/webhook-endpoints'
const one = `${all}/:webhook_endpoint_id` as const
const deliveries = `${one}/deliveries` as const
const named = accept('param', endpointPath, known)

app.get(all, withKey('read'), accept('query', endpointsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const endpoints = await listEndpoints(c.get('db'), programOwner(c.get('programId')), pageOf(query))
  return c.json(listed(endpoints, query.limit, asEndpoint, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), accept('json', newEndpoint, known), withIdempotency, async (c) => {
  const { url, description, types } = c.req.valid('json')
  const settings = { url, description: description ?? '', types }
  const created = await createEndpoint(c.get('db'), c.env, programOwner(c.get('programId')), settings, createOnce)
  return c.json({ success: true, webhook_endpoint: asNewEndpoint(created) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), named, async (c) => {
  const endpoint = await findEndpoint(
    c.get('db'),
    programOwner(c.get('programId')),
    c.req.valid('param').webhook_endpoint_id,
  )
  return c.json({ success: true, webhook_endpoint: asEndpoint(endpoint) })
})

app.patch(one, limitBody, withKey('manage'), named, accept('json', endpointChanges, known), async (c) => {
  const { status, description, ...rest } = c.req.valid('json')
  const id = c.req.valid('param').webhook_endpoint_id
  const changes = {
    ...rest,
    description: description === null ? '' : description,
    enabled: status && status === 'active',
  }
  const endpoint = await changeEndpoint(c.get('db'), c.env, programOwner(c.get('programId')), id, changes)
  c.executionCtx.waitUntil(sendSoon(c.env, [{ program_id: c.get('programId'), due_at: 0 }]))
  return c.json({ success: true, webhook_endpoint: asEndpoint(endpoint) })
})

app.delete(one, withKey('manage'), named, async (c) => {
  const { webhook_endpoint_id: id } = c.req.valid('param')
  await deleteEndpoint(c.get('db'), programOwner(c.get('programId')), id)
  return c.json({ success: true, deleted_id: id })
})
app.all(one, onlyMethods('GET', 'HEAD', 'PATCH', 'DELETE'))

const rotation = `${one}/rotate-secret` as const
app.post(rotation, limitBody, withKey('manage'), named, withoutFields, withIdempotency, async (c) => {
  const id = c.req.valid('param').webhook_endpoint_id
  const rotated = await rotateSecret(c.get('db'), c.env, programOwner(c.get('programId')), id, createOnce)
  return c.json({ success: true, webhook_endpoint: asNewEndpoint(rotated) })
})
app.all(rotation, onlyMethods('POST'))

const test = `${one}/test` as const
app.post(test, limitBody, withKey('manage'), named, withoutFields, async (c) => {
  const [programId, id] = [c.get('programId'), c.req.valid('param').webhook_endpoint_id]
  const messageId = await testEndpoint(c.get('db'), programOwner(c.get('programId')), id)
  c.executionCtx.waitUntil(sendSoon(c.env, [{ program_id: programId, due_at: 0 }]))
  return c.json({ success: true, delivery_id: webhookId(messageId) })
})
app.all(test, onlyMethods('POST'))

app.get(deliveries, withKey('read'), named, accept('query', deliveriesQuery, known), async (c) => {
  const [query, id] = [c.req.valid('query'), c.req.valid('param').webhook_endpoint_id]
  const found = await listDeliveries(c.get('db'), programOwner(c.get('programId')), id, pageOf(query))
  return c.json(listed(found, query.limit, asDelivery, deliveryCursorOf))
})
app.all(deliveries, onlyMethods('GET', 'HEAD'))

const delivery = `${deliveries}/:delivery_id` as const
app.get(delivery, withKey('read'), accept('param', deliveryPath, known), async (c) => {
  const { webhook_endpoint_id: id, delivery_id: messageId } = c.req.valid('param')
  return c.json({
    success: true,
    delivery: asWholeDelivery(await findDelivery(c.get('db'), programOwner(c.get('programId')), id, messageId)),
  })
})
app.all(delivery, onlyMethods('GET', 'HEAD'))

const replay = `${one}/replay` as const
app.post(replay, limitBody, withKey('manage'), named, accept('json', replayRequest, known), async (c) => {
  const { delivery_id: messageId, since, until, failed_only: failedOnly = false } = c.req.valid('json')
  const [programId, id] = [c.get('programId'), c.req.valid('param').webhook_endpoint_id]
  const replayed = await replayDeliveries(c.get('db'), programOwner(c.get('programId')), id, {
    messageId,
    since,
    until,
    failedOnly,
  })
  c.executionCtx.waitUntil(sendSoon(c.env, [{ program_id: programId, due_at: 0 }]))
  return c.json({ success: true, replayed })
})
app.all(replay, onlyMethods('POST'))

export default app
