import { type InferResult, sql } from 'kysely'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { storeCreated, type Created } from '../idempotency.ts'
import { type Part, partOf } from '../keyset.ts'
import { kysely, now } from '../kysely.ts'
import { type LoopbackEnv, refusalOfAddress } from './public-address.ts'
import { webhookSecret, type WebhookSecretEnv } from './webhook-secrets.ts'
import type { WebhookType } from './webhook-types.ts'

/** The settings of an endpoint. Its deliveries stay unsent if `url` is null: `svc listen` fetches them. */
export interface EndpointSettings {
  url: string | null
  description: string
  types: WebhookType[]
}

/** The variables that changing endpoints needs. */
export type EndpointEnv = LoopbackEnv & WebhookSecretEnv

export type WebhookEndpoint = InferResult<ReturnType<typeof endpointsOf>>[number]

/** The most endpoints of a program, including disabled ones. */
export const maxEndpoints = 20
/** How long the previous secret also signs after a rotation. */
export const rotationHours = 24

const endpointColumns = [
  'webhook_endpoints.id',
  'url',
  'description',
  // The driver reads an array of a domain as text.
  sql<WebhookType[]>`types::text[]`.as('types'),
  'webhook_endpoints.created_at',
  'failing_since',
  'disabled_at',
  'disabled_because',
  'secret_number',
  'previous_secret_until',
] as const

function endpointsOf(programId: number) {
  return kysely
    .selectFrom('webhook_endpoints')
    .select(endpointColumns)
    .where('webhook_endpoints.program_id', '=', programId)
    .where('deleted_at', 'is', null)
}

/** Lists the endpoints of a program, newest first. */
export async function listEndpoints(db: Database, programId: number, part: Part): Promise<WebhookEndpoint[]> {
  return await db.query(partOf(endpointsOf(programId), sql.ref<number>('webhook_endpoints.id'), part))
}

export type EndpointWithLatest = Awaited<ReturnType<typeof listEndpointsWithLatest>>[number]

/** Lists all endpoints of a program with the last message to each, newest first. */
export async function listEndpointsWithLatest(db: Database, programId: number) {
  const latest = kysely
    .selectFrom('webhook_deliveries as d')
    .innerJoin('webhook_messages as m', (join) =>
      join.onRef('m.program_id', '=', 'd.program_id').onRef('m.id', '=', 'd.message_id'),
    )
    .select(['d.message_id as latest_message_id', 'd.status as latest_status', 'm.created_at as latest_at'])
    .whereRef('d.program_id', '=', sql.ref('webhook_endpoints.program_id'))
    .whereRef('d.endpoint_id', '=', sql.ref('webhook_endpoints.id'))
    .orderBy('d.message_id', 'desc')
    .limit(1)
    .as('latest')
  return await db.query(
    endpointsOf(programId)
      .leftJoinLateral(latest, (join) => join.onTrue())
      .select(['latest_message_id', 'latest_status', 'latest_at'])
      .orderBy('webhook_endpoints.id', 'desc'),
  )
}

export const noEndpoint = () => new ApiError('not_found', 'This program has no webhook endpoint with this id.')

export async function findEndpoint(db: Database, programId: number, endpointId: number): Promise<WebhookEndpoint> {
  const [endpoint] = await db.query(endpointsOf(programId).where('id', '=', endpointId))
  if (!endpoint) throw noEndpoint()
  return endpoint
}

/** Throws if webhooks cannot go to an address. The error names the field `url`. */
function requireAddress(url: string | null, env: LoopbackEnv): void {
  const wrong = url === null ? undefined : refusalOfAddress(url, env)
  if (wrong === undefined) return
  throw new ApiError('invalid_request', `url ${wrong}.`, { details: [{ field: 'url', message: wrong }] })
}

/** An endpoint with its secret, in its state when the secret was created. */
export type EndpointWithSecret = Created<WebhookEndpoint> & { secret: string }

/** Runs a creation: directly, or through `createOnce` of lib/idempotency.ts if the request may be repeated. */
type Making = <Result>(make: () => Promise<Result>) => Promise<Result>
const atOnce: Making = (make) => make()

/**
 * Creates an endpoint and returns it with its secret, which is shown once. Throws `conflict` if the program has 20. A request with the same
 * Idempotency-Key gets the same secret, which derives from the endpoint and is not stored.
 */
export async function createEndpoint(
  db: Database,
  env: EndpointEnv,
  programId: number,
  settings: EndpointSettings,
  making = atOnce,
): Promise<EndpointWithSecret> {
  requireAddress(settings.url, env)
  const endpoint = await making(() => insertEndpoint(db, programId, settings))
  return { ...endpoint, secret: await secretOf(env, programId, endpoint) }
}

async function insertEndpoint(
  db: Database,
  programId: number,
  settings: EndpointSettings,
): Promise<Created<WebhookEndpoint>> {
  const [, added, [endpoint]] = await db.batch([
    // Wait for concurrent creations, so that the limit counts them.
    kysely.selectFrom('programs').select('id').where('id', '=', programId).forNoKeyUpdate(),
    kysely
      .insertInto('webhook_endpoints')
      .columns(['program_id', 'url', 'description', 'types'])
      .expression(
        kysely
          .selectFrom('programs')
          .select((eb) => [
            'id',
            eb.val(settings.url).as('url'),
            eb.val(settings.description).as('description'),
            sql<WebhookType[]>`${settings.types}::webhook_type[]`.as('types'),
          ])
          .where('id', '=', programId)
          .where('deleted_at', 'is', null)
          .where(
            kysely
              .selectFrom('webhook_endpoints')
              .select((eb) => eb.fn.countAll().as('endpoints'))
              .where('program_id', '=', programId)
              .where('deleted_at', 'is', null),
            '<',
            maxEndpoints,
          ),
      )
      .returning('id'),
    // The program is locked, so an endpoint created at this moment is the new one.
    storeCreated(endpointsOf(programId).where('created_at', '=', now).orderBy('id', 'desc').limit(1)),
  ])
  if (added.length === 0 || !endpoint?.created) {
    throw new ApiError('conflict', `A program can have at most ${maxEndpoints} webhook endpoints. Delete one first.`)
  }
  return endpoint.created
}

async function secretOf(
  env: WebhookSecretEnv,
  programId: number,
  { id, secret_number }: Pick<WebhookEndpoint, 'id' | 'secret_number'>,
): Promise<string> {
  return await webhookSecret(env, { program_id: programId, endpoint_id: id, secret_number })
}

/** Changes the given settings. Enabling an endpoint or changing its address resets its failures. */
export async function changeEndpoint(
  db: Database,
  env: LoopbackEnv,
  programId: number,
  endpointId: number,
  changes: Partial<EndpointSettings> & { enabled?: boolean | undefined },
): Promise<WebhookEndpoint> {
  const { url, description, types, enabled } = changes
  requireAddress(url ?? null, env)
  const [[endpoint], [found]] = await db.batch([
    kysely
      .updateTable('webhook_endpoints')
      .set({
        ...(url !== undefined && { url }),
        ...(description !== undefined && { description }),
        ...(types !== undefined && { types: sql<WebhookType[]>`${types}::webhook_type[]` }),
        ...(enabled === false && {
          disabled_at: sql<Date>`coalesce(disabled_at, now())`,
          disabled_because: sql<'owner'>`coalesce(disabled_because, 'owner')`,
        }),
        ...(enabled === true && { disabled_at: null, disabled_because: null }),
        ...((enabled === true || url !== undefined) && { failing_since: null, failures: 0, rests_until: null }),
        // An empty change must also update the row.
        ...(Object.values(changes).every((value) => value === undefined) && {
          secret_number: sql<number>`secret_number`,
        }),
      })
      .where('program_id', '=', programId)
      .where('id', '=', endpointId)
      .where('deleted_at', 'is', null)
      // Whether an endpoint has an address is fixed at its creation.
      .$if(url !== undefined, (query) => query.where('url', url === null ? 'is' : 'is not', null))
      .returning(endpointColumns),
    endpointsOf(programId).where('id', '=', endpointId),
  ])
  if (!found) throw noEndpoint()
  if (!endpoint) {
    throw new ApiError(
      'conflict',
      found.url === null
        ? 'This endpoint has no address: `svc listen` fetches its deliveries. Create another endpoint.'
        : 'This endpoint has an address, and its webhooks are sent there. Use another address, or create another endpoint.',
    )
  }
  return endpoint
}

/** Deletes an endpoint, which then receives nothing. Past deliveries stay for their term and are not shown. Deleting it again changes nothing. */
export async function deleteEndpoint(db: Database, programId: number, endpointId: number): Promise<void> {
  const [endpoint] = await db.query(
    kysely
      .updateTable('webhook_endpoints')
      .set({ deleted_at: sql<Date>`coalesce(deleted_at, now())` })
      .where('program_id', '=', programId)
      .where('id', '=', endpointId)
      .returning('id'),
  )
  if (!endpoint) throw noEndpoint()
}

/**
 * Gives an endpoint a new secret, which is shown once. The previous secret also signs for a day, and an older one ends at once. Answers a
 * repeated request like `createEndpoint`.
 */
export async function rotateSecret(
  db: Database,
  env: WebhookSecretEnv,
  programId: number,
  endpointId: number,
  making = atOnce,
): Promise<EndpointWithSecret> {
  const endpoint = await making(async () => {
    const [, [rotated]] = await db.batch([
      kysely
        .updateTable('webhook_endpoints')
        .set({
          secret_number: sql<number>`secret_number + 1`,
          previous_secret_until: sql<Date>`now() + make_interval(hours => ${rotationHours})`,
        })
        .where('program_id', '=', programId)
        .where('id', '=', endpointId)
        .where('deleted_at', 'is', null),
      storeCreated(endpointsOf(programId).where('id', '=', endpointId)),
    ])
    if (!rotated?.created) throw noEndpoint()
    return rotated.created
  })
  return { ...endpoint, secret: await secretOf(env, programId, endpoint) }
}

const notThere = () =>
  new ApiError(
    'not_found',
    'This program has no enabled webhook endpoint with this id. Check the id, or enable the endpoint first.',
  )

/** Writes a test message for an endpoint and returns its number. Throws `not_found` if the endpoint is disabled. */
export async function testEndpoint(db: Database, programId: number, endpointId: number): Promise<number> {
  const [row] = await db.query(call('test_webhook', { of_program_id: programId, of_endpoint_id: endpointId }))
  if (row?.test_webhook == null) throw notThere()
  return row.test_webhook
}

/** The deliveries to replay: one message, or a period. */
export interface Replay {
  messageId?: number | undefined
  since?: Date | undefined
  until?: Date | undefined
  failedOnly: boolean
}

export const noDelivery = () => new ApiError('not_found', 'This webhook endpoint has no delivery with this id.')

/**
 * Replays up to 10,000 deliveries of an endpoint and returns their number. Throws `not_found` if the endpoint is disabled or has no such delivery.
 */
export async function replayDeliveries(
  db: Database,
  programId: number,
  endpointId: number,
  { messageId, since, until, failedOnly }: Replay,
): Promise<number> {
  const [[row], [delivery]] = await db.batch([
    call('replay_webhooks', {
      of_program_id: programId,
      of_endpoint_id: endpointId,
      of_message_id: messageId ?? null,
      since: since ?? null,
      until: until ?? null,
      failed_only: failedOnly,
    }),
    kysely
      .selectFrom('webhook_deliveries')
      .select('message_id')
      .where('program_id', '=', programId)
      .where('endpoint_id', '=', endpointId)
      .where('message_id', '=', messageId ?? 0),
  ])
  if (row?.replay_webhooks == null) throw notThere()
  if (messageId !== undefined && !delivery) throw noDelivery()
  return row.replay_webhooks
}
