import { type InferResult, sql } from 'kysely'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { countedPart, countStatement, type Filters, type Part, partOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'
import { terms } from '../retention.ts'
import { type EndpointOwner, noDelivery, noEndpoint, ownedBy, programOwner } from './webhook-endpoints.ts'
import type { testType, WebhookType } from './webhook-types.ts'

export type WebhookDelivery = InferResult<ReturnType<typeof deliveriesOf>>[number]
export type DeliveryStatus = WebhookDelivery['status']

function deliveriesOf(owner: EndpointOwner, endpointId: number) {
  return deliveriesIn(owner).where('d.endpoint_id', '=', endpointId)
}

function deliveriesIn(owner: EndpointOwner) {
  return kysely
    .selectFrom('webhook_deliveries as d')
    .innerJoin('webhook_messages as m', (join) =>
      join.onRef('m.program_id', '=', 'd.program_id').onRef('m.id', '=', 'd.message_id'),
    )
    .innerJoin('webhook_endpoints as e', (join) =>
      join
        .onRef('e.program_id', '=', 'd.program_id')
        .onRef('e.id', '=', 'd.endpoint_id')
        .on('e.deleted_at', 'is', null),
    )
    .select([
      'd.message_id',
      'm.type',
      'm.data',
      'm.created_at',
      'd.status',
      'd.attempt_count',
      'd.next_attempt_at',
      'd.finished_at',
    ])
    .where('d.program_id', '=', owner.programId)
    .where(ownedBy(owner))
}

/** Counts the deliveries of an endpoint, up to 10,000. */
export const deliveryTotals = (owner: EndpointOwner, endpointId: number, status?: DeliveryStatus) =>
  countStatement(deliveryList(owner, endpointId, { ...countedPart, status }))

function deliveryList(
  owner: EndpointOwner,
  endpointId: number,
  { status, ...part }: Part & { status?: DeliveryStatus | undefined },
) {
  const all = deliveriesOf(owner, endpointId)
  return partOf(status === undefined ? all : all.where('d.status', '=', status), sql.ref<number>('d.message_id'), part)
}

/** Lists the deliveries of an endpoint, newest first. Throws `not_found` if the owner has no such endpoint. */
export async function listDeliveries(
  db: Database,
  owner: EndpointOwner,
  endpointId: number,
  list: Part & { status?: DeliveryStatus | undefined },
): Promise<WebhookDelivery[]> {
  const endpoint = kysely
    .selectFrom('webhook_endpoints')
    .select('id')
    .where('program_id', '=', owner.programId)
    .where(ownedBy(owner))
    .where('id', '=', endpointId)
    .where('deleted_at', 'is', null)
  const [found, deliveries] = await db.batch([endpoint, deliveryList(owner, endpointId, list)])
  if (found.length === 0) throw noEndpoint(owner)
  return deliveries
}

export type ProgramDelivery = InferResult<ReturnType<typeof programDeliveries>>[number]

function programDeliveries(programId: number) {
  return deliveriesIn(programOwner(programId)).select(['d.endpoint_id', 'e.url', 'e.description'])
}

interface ProgramDeliveries extends Part<string> {
  endpointId?: number | undefined
  type?: WebhookType | typeof testType | undefined
  status?: DeliveryStatus | undefined
}

/** A delivery's position in the list of all endpoints, for `before` and `after`: its message and its endpoint. */
export const placeOf = ({ message_id, endpoint_id }: ProgramDelivery) => `${message_id}-${endpoint_id}`
export const isPlace = (text: string) => /^\d{1,15}-\d{1,15}$/.test(text)

/** Lists deliveries of all endpoints of a program, newest message first, optionally of one endpoint, type or status. */
export async function listProgramDeliveries(
  db: Database,
  programId: number,
  list: ProgramDeliveries,
): Promise<ProgramDelivery[]> {
  return await db.query(programDeliveryList(programId, list))
}

/** Counts the same deliveries, up to 10,000. */
export const programDeliveryTotals = (programId: number, filters: Filters<ProgramDeliveries>) =>
  countStatement(programDeliveryList(programId, { ...filters, ...countedPart }))

export function programDeliveryList(
  programId: number,
  { endpointId, type, status, limit, before, after }: ProgramDeliveries,
) {
  let query = programDeliveries(programId)
  if (endpointId !== undefined) query = query.where('d.endpoint_id', '=', endpointId)
  if (type !== undefined) query = query.where('m.type', '=', type)
  if (status !== undefined) query = query.where('d.status', '=', status)
  const [message, endpoint] = (after ?? before)?.split('-').map(Number) ?? []
  const part = after === undefined ? { limit, before: endpoint } : { limit, after: endpoint }
  const value = { by: sql.ref('d.message_id'), of: () => sql`${message}` }
  return partOf(query, sql.ref<number>('d.endpoint_id'), part, { ascending: false, value })
}

const attempt = z.object({
  attempted_at: z.string(),
  duration_ms: z.number(),
  status: z.nullable(z.number()),
  error: z.nullable(z.string()),
  answer: z.nullable(z.string()),
})
export type WebhookAttempt = z.infer<typeof attempt>

/** Reads one delivery with its attempts in order. Throws `not_found`. */
export async function findDelivery(
  db: Database,
  owner: EndpointOwner,
  endpointId: number,
  messageId: number,
): Promise<WebhookDelivery & { attempts: WebhookAttempt[] }> {
  const [row] = await db.query(
    deliveriesOf(owner, endpointId)
      .where('d.message_id', '=', messageId)
      .select(
        sql`coalesce((
          select jsonb_agg(jsonb_build_object('attempted_at', a.attempted_at, 'duration_ms', a.duration_ms, 'status', a.status,
            'error', a.error, 'answer', a.answer) order by a.id)
          from webhook_attempts a
          where a.program_id = d.program_id and a.endpoint_id = d.endpoint_id and a.message_id = d.message_id
        ), '[]')`.as('attempts'),
      ),
  )
  if (!row) throw noDelivery()
  return { ...row, attempts: z.array(attempt).parse(row.attempts) }
}

/** Deletes up to `limit` old messages and returns their number. */
export async function deleteOldWebhooks(db: Database, limit: number): Promise<number> {
  const [row] = await db.query(
    call('expire_webhooks', { max_rows: limit, kept: terms.webhook_messages, fetched_kept: terms.fetched_endpoints }),
  )
  return row?.expire_webhooks ?? 0
}
