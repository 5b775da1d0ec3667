import { type InferResult, sql } from 'kysely'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { keepMade, type Made } from '../idempotency.ts'
import { kysely, now } from '../kysely.ts'
import { type LoopbackEnv, refusalOfAddress } from './public-address.ts'
import { webhookSecret, type WebhookSecretEnv } from './webhook-secrets.ts'
import type { WebhookType } from './webhook-types.ts'

/** What a program says of an endpoint. Without a `url` its deliveries are not sent: `svc listen` fetches them. */
export interface EndpointSettings {
  url: string | null
  description: string
  types: WebhookType[]
}

/** What a function needs that makes and changes endpoints. */
export type EndpointEnv = LoopbackEnv & WebhookSecretEnv

export type WebhookEndpoint = InferResult<ReturnType<typeof endpointsOf>>[number]

/** How many endpoints a program has at most, those that are off included. */
export const maxEndpoints = 20
/** How long the secret before signs too, after a rotation. */
export const rotationHours = 24

const endpointColumns = [
  'webhook_endpoints.id',
  'url',
  'description',
  // The driver takes an array of a domain for text.
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

/** A program's endpoints, the newest first: `limit` of them at most, below the id `before` where one is given. */
export async function listEndpoints(
  db: Database,
  programId: number,
  options: { limit: number; before?: number | undefined },
): Promise<WebhookEndpoint[]> {
  const query = endpointsOf(programId).orderBy('id', 'desc').limit(options.limit)
  return await db.query(options.before === undefined ? query : query.where('id', '<', options.before))
}

export type EndpointWithLatest = Awaited<ReturnType<typeof listEndpointsWithLatest>>[number]

/** All endpoints of a program, the newest first, each with the last message that there was for it. */
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

/** Refuses an address that webhooks do not go to; the field is `url`. */
function requireAddress(url: string | null, env: LoopbackEnv): void {
  const wrong = url === null ? undefined : refusalOfAddress(url, env)
  if (wrong === undefined) return
  throw new ApiError('invalid_request', `url ${wrong}.`, { details: [{ field: 'url', message: wrong }] })
}

/** An endpoint with its secret, as it was when it got that. */
export type EndpointWithSecret = Made<WebhookEndpoint> & { secret: string }

/** How something is made: at once, or by `makeOnce` of lib/idempotency.ts where the request may come again. */
type Making = <Result>(make: () => Promise<Result>) => Promise<Result>
const atOnce: Making = (make) => make()

/**
 * Makes an endpoint and returns it with its secret, which is shown once. Refuses with `conflict` where the program has 20. A request that comes
 * again by its Idempotency-Key is answered with the same secret, which follows from what was made and is kept nowhere.
 */
export async function makeEndpoint(
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
): Promise<Made<WebhookEndpoint>> {
  const [, added, [endpoint]] = await db.batch([
    // Whoever makes another one at this moment is waited for, so that both count.
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
    // The program is locked, so what was made in this moment is what was just added.
    keepMade(endpointsOf(programId).where('created_at', '=', now).orderBy('id', 'desc').limit(1)),
  ])
  if (added.length === 0 || !endpoint?.made) {
    throw new ApiError('conflict', `A program has ${maxEndpoints} webhook endpoints at most. Delete one first.`)
  }
  return endpoint.made
}

async function secretOf(
  env: WebhookSecretEnv,
  programId: number,
  { id, secret_number }: Pick<WebhookEndpoint, 'id' | 'secret_number'>,
): Promise<string> {
  return await webhookSecret(env, { program_id: programId, endpoint_id: id, secret_number })
}

/** Changes what is given. Turning an endpoint on, or giving it another address, forgets that it failed. */
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
        // So that a change of nothing is one too.
        ...(Object.values(changes).every((value) => value === undefined) && {
          secret_number: sql<number>`secret_number`,
        }),
      })
      .where('program_id', '=', programId)
      .where('id', '=', endpointId)
      .where('deleted_at', 'is', null)
      // Whether there is somewhere to send to is said when an endpoint is made.
      .$if(url !== undefined, (query) => query.where('url', url === null ? 'is' : 'is not', null))
      .returning(endpointColumns),
    endpointsOf(programId).where('id', '=', endpointId),
  ])
  if (!found) throw noEndpoint()
  if (!endpoint) {
    throw new ApiError(
      'conflict',
      found.url === null
        ? 'This endpoint has no address: what is there for it is fetched, as `svc listen` does. Make another one.'
        : 'This endpoint has an address, and its webhooks are sent. Give another address, or create another endpoint.',
    )
  }
  return endpoint
}

/**
 * Deletes an endpoint: nothing is sent to it any more. What was sent is kept for its term, and nobody is shown it. Deleting it again changes
 * nothing.
 */
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
 * Gives an endpoint a new secret, which is shown once. For a day the one before signs beside it; an older one ends at once. What goes for a
 * request that comes again goes as in `makeEndpoint`.
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
      keepMade(endpointsOf(programId).where('id', '=', endpointId)),
    ])
    if (!rotated?.made) throw noEndpoint()
    return rotated.made
  })
  return { ...endpoint, secret: await secretOf(env, programId, endpoint) }
}

const notThere = () =>
  new ApiError(
    'not_found',
    'This program has no webhook endpoint with this id that is enabled. Check the id, or enable the endpoint first.',
  )

/** Writes a test message for an endpoint and returns its number. Refuses with `not_found` where the endpoint is disabled. */
export async function testEndpoint(db: Database, programId: number, endpointId: number): Promise<number> {
  const [row] = await db.query(call('test_webhook', { of_program_id: programId, of_endpoint_id: endpointId }))
  if (row?.test_webhook == null) throw notThere()
  return row.test_webhook
}

/** Which deliveries are sent again: one message's, or those of a time. */
export interface Replay {
  messageId?: number | undefined
  since?: Date | undefined
  until?: Date | undefined
  failedOnly: boolean
}

export const noDelivery = () => new ApiError('not_found', 'This webhook endpoint has no delivery with this id.')

/**
 * Sends deliveries of an endpoint again, 10,000 at most, and returns how many. Refuses with `not_found` where the endpoint is disabled, or has no such
 * delivery.
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
