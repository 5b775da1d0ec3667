import { type InferResult, sql } from 'kysely'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { storeCreated, type Created } from '../idempotency.ts'
import { type Part, partOf } from '../keyset.ts'
import { kysely, now } from '../kysely.ts'
import { refusalOfTemplate } from './postbacks.ts'
import { type LoopbackEnv, refusalOfAddress } from './public-address.ts'
import { webhookSecret, type WebhookSecretEnv } from './webhook-secrets.ts'
import type { PostbackEvent, WebhookType } from './webhook-types.ts'

/** The owner of endpoints: a program, or one partner for postbacks. Neither can see the endpoints of the other. */
export interface EndpointOwner {
  programId: number
  partnerId: number | null
}
export const programOwner = (programId: number): EndpointOwner => ({ programId, partnerId: null })

/** The settings of an endpoint. If `url` is null, deliveries aren't sent, because `svc listen` fetches them. */
export interface EndpointSettings {
  url: string | null
  description: string
  types: EventType[]
  /** A partner can also choose a GET request to `url`, which is a template with placeholders. */
  method?: 'POST' | 'GET'
}
type EventType = WebhookType | PostbackEvent

/** The variables that are needed to change endpoints. */
export type EndpointEnv = LoopbackEnv & WebhookSecretEnv

export type WebhookEndpoint = InferResult<ReturnType<typeof endpointsOf>>[number]

/** The maximum number of endpoints of a program, and of each partner, including disabled ones. */
export const maxEndpoints = 20
export const maxPostbacks = 5
/** How long the previous secret still signs after a rotation. */
export const rotationHours = 24

const endpointColumns = [
  'webhook_endpoints.id',
  'url',
  'method',
  'description',
  // The driver returns an array of a domain as text.
  sql<EventType[]>`types::text[]`.as('types'),
  'webhook_endpoints.created_at',
  'failing_since',
  'disabled_at',
  'disabled_because',
  'secret_number',
  'previous_secret_until',
] as const

/** True for the endpoints of an owner. */
export const ownedBy = ({ partnerId }: EndpointOwner) => sql<boolean>`partner_id is not distinct from ${partnerId}`

function endpointsOf(owner: EndpointOwner) {
  return kysely
    .selectFrom('webhook_endpoints')
    .select(endpointColumns)
    .where('webhook_endpoints.program_id', '=', owner.programId)
    .where(ownedBy(owner))
    .where('deleted_at', 'is', null)
}

/** Lists the endpoints of an owner, newest first. */
export async function listEndpoints(db: Database, owner: EndpointOwner, part: Part): Promise<WebhookEndpoint[]> {
  return await db.query(partOf(endpointsOf(owner), sql.ref<number>('webhook_endpoints.id'), part))
}

export type EndpointWithLatest = Awaited<ReturnType<typeof listEndpointsWithLatest>>[number]

/** Lists all endpoints of an owner with the last message to each, newest first. */
export async function listEndpointsWithLatest(db: Database, owner: EndpointOwner) {
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
    endpointsOf(owner)
      .leftJoinLateral(latest, (join) => join.onTrue())
      .select(['latest_message_id', 'latest_status', 'latest_at'])
      .orderBy('webhook_endpoints.id', 'desc'),
  )
}

export const noEndpoint = ({ partnerId }: Pick<EndpointOwner, 'partnerId'>) =>
  new ApiError(
    'not_found',
    partnerId === null ? 'This program has no webhook endpoint with this id.' : 'You have no postback with this id.',
  )

export async function findEndpoint(db: Database, owner: EndpointOwner, endpointId: number): Promise<WebhookEndpoint> {
  const [endpoint] = await db.query(endpointsOf(owner).where('id', '=', endpointId))
  if (!endpoint) throw noEndpoint(owner)
  return endpoint
}

/** Throws if webhooks can't be sent to an address. The error names the field `url`. */
function requireAddress(url: string | null, method: 'POST' | 'GET', env: LoopbackEnv): void {
  const refusalOf = method === 'GET' ? refusalOfTemplate : refusalOfAddress
  const wrong = url === null ? undefined : refusalOf(url, env)
  if (wrong === undefined) return
  throw new ApiError('invalid_request', `url ${wrong}.`, { details: [{ field: 'url', message: wrong }] })
}

/** An endpoint with its secret, in its state when the secret was created. */
export type EndpointWithSecret = Created<WebhookEndpoint> & { secret: string }

/** Creates something, through `createOnce` of lib/idempotency.ts if the request may be repeated. */
type Making = <Result>(make: () => Promise<Result>) => Promise<Result>
const atOnce: Making = (make) => make()

/**
 * Creates an endpoint and returns it with its secret, which is shown once. Throws `conflict` if the owner has too many. A request with the
 * same Idempotency-Key gets the same secret, because the secret is derived from the endpoint and not stored.
 */
export async function createEndpoint(
  db: Database,
  env: EndpointEnv,
  owner: EndpointOwner,
  settings: EndpointSettings,
  making = atOnce,
): Promise<EndpointWithSecret> {
  requireAddress(settings.url, settings.method ?? 'POST', env)
  const endpoint = await making(() => insertEndpoint(db, owner, settings))
  return { ...endpoint, secret: await secretOf(env, owner.programId, endpoint) }
}

async function insertEndpoint(
  db: Database,
  owner: EndpointOwner,
  settings: EndpointSettings,
): Promise<Created<WebhookEndpoint>> {
  const { programId, partnerId } = owner
  const most = partnerId === null ? maxEndpoints : maxPostbacks
  const [, added, [endpoint]] = await db.batch([
    // Waits for concurrent creations, so that they count toward the limit.
    kysely.selectFrom('programs').select('id').where('id', '=', programId).forNoKeyUpdate(),
    kysely
      .insertInto('webhook_endpoints')
      .columns(['program_id', 'url', 'method', 'partner_id', 'description', 'types'])
      .expression(
        kysely
          .selectFrom('programs')
          .select((eb) => [
            'id',
            eb.val(settings.url).as('url'),
            eb.val(settings.method ?? 'POST').as('method'),
            eb.val(partnerId).as('partner_id'),
            eb.val(settings.description).as('description'),
            sql<EventType[]>`${settings.types}::webhook_type[]`.as('types'),
          ])
          .where('id', '=', programId)
          .where('deleted_at', 'is', null)
          .where(
            kysely
              .selectFrom('webhook_endpoints')
              .select((eb) => eb.fn.countAll().as('endpoints'))
              .where('program_id', '=', programId)
              .where(ownedBy(owner))
              .where('deleted_at', 'is', null),
            '<',
            most,
          ),
      )
      .returning('id'),
    // The program is locked, so an endpoint that was created at this moment is the new one.
    storeCreated(endpointsOf(owner).where('created_at', '=', now).orderBy('id', 'desc').limit(1)),
  ])
  if (added.length === 0 || !endpoint?.created) {
    const limit =
      partnerId === null
        ? `A program can have at most ${most} webhook endpoints`
        : `You can have at most ${most} postbacks per program`
    throw new ApiError('conflict', `${limit}. Delete one first.`)
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

/** Changes the given settings. Enabling an endpoint or changing its address clears its failures. */
export async function changeEndpoint(
  db: Database,
  env: LoopbackEnv,
  owner: EndpointOwner,
  endpointId: number,
  changes: Partial<EndpointSettings> & { enabled?: boolean | undefined },
): Promise<WebhookEndpoint> {
  const { url, description, types, enabled } = changes
  requireAddress(url ?? null, 'POST', env)
  const [[endpoint], [found]] = await db.batch([
    kysely
      .updateTable('webhook_endpoints')
      .set({
        ...(url !== undefined && { url }),
        ...(description !== undefined && { description }),
        ...(types !== undefined && { types: sql<EventType[]>`${types}::webhook_type[]` }),
        ...(enabled === false && {
          disabled_at: sql<Date>`coalesce(disabled_at, now())`,
          disabled_because: sql<'owner'>`coalesce(disabled_because, 'owner')`,
        }),
        ...(enabled === true && { disabled_at: null, disabled_because: null }),
        ...((enabled === true || url !== undefined) && { failing_since: null, failures: 0, rests_until: null }),
        // A request without changes must also update the row.
        ...(Object.values(changes).every((value) => value === undefined) && {
          secret_number: sql<number>`secret_number`,
        }),
      })
      .where('program_id', '=', owner.programId)
      .where(ownedBy(owner))
      .where('id', '=', endpointId)
      .where('deleted_at', 'is', null)
      // An endpoint without an address never gets one, and an endpoint with an address always has one.
      .$if(url !== undefined, (query) => query.where('url', url === null ? 'is' : 'is not', null))
      .returning(endpointColumns),
    endpointsOf(owner).where('id', '=', endpointId),
  ])
  if (!found) throw noEndpoint(owner)
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

/**
 * Deletes an endpoint, so that it doesn't receive anything else. Past deliveries are kept for their retention period, but lists
 * don't show them. Deleting it again changes nothing.
 */
export async function deleteEndpoint(db: Database, owner: EndpointOwner, endpointId: number): Promise<void> {
  const [endpoint] = await db.query(
    kysely
      .updateTable('webhook_endpoints')
      .set({ deleted_at: sql<Date>`coalesce(deleted_at, now())` })
      .where('program_id', '=', owner.programId)
      .where(ownedBy(owner))
      .where('id', '=', endpointId)
      .returning('id'),
  )
  if (!endpoint) throw noEndpoint(owner)
}

/**
 * Gives an endpoint a new secret, which is shown once. The previous secret still signs for a day. An older secret becomes invalid at once.
 * Handles a repeated request like `createEndpoint`.
 */
export async function rotateSecret(
  db: Database,
  env: WebhookSecretEnv,
  owner: EndpointOwner,
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
        .where('program_id', '=', owner.programId)
        .where(ownedBy(owner))
        .where('id', '=', endpointId)
        .where('deleted_at', 'is', null),
      storeCreated(endpointsOf(owner).where('id', '=', endpointId)),
    ])
    if (!rotated?.created) throw noEndpoint(owner)
    return rotated.created
  })
  return { ...endpoint, secret: await secretOf(env, owner.programId, endpoint) }
}

const notThere = () =>
  new ApiError(
    'not_found',
    'This program has no enabled webhook endpoint with this id. Check the id, or enable the endpoint first.',
  )

/** Writes a test message for an endpoint and returns its number. Throws `not_found` if the endpoint is disabled. */
export async function testEndpoint(db: Database, owner: EndpointOwner, endpointId: number): Promise<number> {
  const { programId, partnerId } = owner
  const of = { of_program_id: programId, of_partner_id: partnerId, of_endpoint_id: endpointId }
  const [row] = await db.query(call('test_webhook', of))
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
  { programId, partnerId }: EndpointOwner,
  endpointId: number,
  { messageId, since, until, failedOnly }: Replay,
): Promise<number> {
  const [[row], [delivery]] = await db.batch([
    call('replay_webhooks', {
      of_program_id: programId,
      of_partner_id: partnerId,
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
