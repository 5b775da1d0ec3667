import { type InferResult, sql } from 'kysely'
import * as z from 'zod/mini'
import { newToken } from '../access/tokens.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { type ProcessorName, processors } from './processors.ts'
import type { Receiver } from './read-delivery.ts'
import { seal } from './seal.ts'

/** The secret from which the encryption key of stored secrets is derived. */
export interface SecretsEnv {
  EMAIL_HASH_KEY: string
}

export const isProcessor = (name: string): name is ProcessorName => Object.hasOwn(processors, name)

/** Webhook secrets of processors are printable text without blanks. */
export const processorSecret = z
  .string('Enter the webhook secret.')
  .check(z.trim(), z.regex(/^[!-~]{6,500}$/, 'Enter the webhook secret. It has at least 6 characters and no spaces.'))

export interface NewConnection {
  processor: ProcessorName
  /** True if the connection belongs to the processor's live mode, and false for its sandbox. */
  livemode: boolean
}

/** The maximum number of connections of a program. Disconnected ones count, because they can be connected again. */
const maxConnections = 20

/**
 * Creates a connection of a program and returns its id, which is part of its webhook address. Processors show the webhook secret only after
 * they get this address. So the connection only works once `changeSecret` has stored the secret. Throws `conflict` if the program has too
 * many connections.
 */
export async function createConnection(db: Database, programId: number, connection: NewConnection): Promise<string> {
  const accountId = `conn_${newToken()}`
  const program = kysely.selectFrom('programs as p').where('p.id', '=', programId)
  const others = kysely
    .selectFrom('processor_connections')
    .select((eb) => eb.fn.countAll().as('connections'))
    .where('program_id', '=', programId)
  const [, added] = await db.batch([
    // This waits for concurrent creations, so that they count toward the limit.
    program.select('p.id').forNoKeyUpdate(),
    kysely
      .insertInto('processor_connections')
      .columns(['program_id', 'account_id', 'processor', 'livemode'])
      .expression(
        program
          .select((eb) => [
            'p.id',
            eb.val(accountId).as('account_id'),
            eb.val(connection.processor).as('processor'),
            eb.val(connection.livemode).as('livemode'),
          ])
          .where(others, '<', maxConnections),
      )
      .returning('account_id'),
  ])
  if (added.length > 0) return accountId
  throw new ApiError(
    'conflict',
    `A program can have at most ${maxConnections} connections, including disconnected ones. Connect one of them again.`,
  )
}

/** Stores the secret of a connection, and connects it again if it was disconnected. Throws `not_found`. */
export async function changeSecret(
  db: Database,
  { EMAIL_HASH_KEY }: SecretsEnv,
  programId: number,
  accountId: string,
  secret: string,
): Promise<void> {
  const changed = await db.query(
    kysely
      .updateTable('processor_connections')
      .set({
        secret: sql<Uint8Array>`${await seal(EMAIL_HASH_KEY, 'processor secret', accountId, secret)}::bytea`,
        disconnected_at: null,
        refused_at: null,
        refusal: null,
      })
      .where('program_id', '=', programId)
      .where('account_id', '=', accountId)
      .returning('account_id'),
  )
  if (changed.length === 0) throw new ApiError('not_found', 'This program has no such connection.')
}

/** Disconnects a connection. Later events wait until it is connected again. */
export async function disconnectConnection(db: Database, programId: number, accountId: string): Promise<void> {
  await db.query(
    kysely
      .updateTable('processor_connections')
      .set({ disconnected_at: now })
      .where('program_id', '=', programId)
      .where('account_id', '=', accountId)
      .where('disconnected_at', 'is', null),
  )
}

export type Connection = InferResult<ReturnType<typeof connectionsOf>>[number]

/** Lists the connections of a program, newest first, without their secrets. */
export async function listConnections(db: Database, programId: number): Promise<Connection[]> {
  return await db.query(connectionsOf(programId))
}

function connectionsOf(programId: number) {
  return kysely
    .selectFrom('processor_connections as c')
    .select([
      'c.account_id',
      'c.processor',
      'c.livemode',
      'c.disconnected_at',
      'c.refused_at',
      'c.refusal',
      'c.created_at',
    ])
    .select((eb) => [
      eb('c.secret', 'is not', null).$castTo<boolean>().as('has_secret'),
      eb
        .selectFrom('processor_events as e')
        .select((event) => event.fn.max('e.received_at').as('at'))
        .whereRef('e.account_id', '=', 'c.account_id')
        .as('last_event_at'),
      eb
        .selectFrom('processor_events as e')
        .select((event) => event.fn.countAll<number>().as('waiting'))
        .whereRef('e.account_id', '=', 'c.account_id')
        .where('e.waits_for', '=', 'connection')
        .as('waiting'),
    ])
    .where('c.program_id', '=', programId)
    .orderBy('c.created_at', 'desc')
    .orderBy('c.account_id')
}

export type LatestDelivery = InferResult<ReturnType<typeof latestDeliveries>>[number]

/** Lists the last ten events from a connection, newest first. */
export async function listLatestDeliveries(
  db: Database,
  programId: number,
  accountId: string,
): Promise<LatestDelivery[]> {
  return await db.query(latestDeliveries(programId, accountId))
}

function latestDeliveries(programId: number, accountId: string) {
  return kysely
    .selectFrom('processor_events as e')
    .innerJoin('processor_connections as c', 'c.account_id', 'e.account_id')
    .select(['e.event_id', 'e.event_type', 'e.outcome', 'e.reason', 'e.received_at'])
    .where('c.program_id', '=', programId)
    .where('e.account_id', '=', accountId)
    .orderBy('e.received_at', 'desc')
    .orderBy('e.event_id')
    .limit(10)
}

/** Reads the connection that receives a delivery, with its encrypted secret. */
export async function readReceiverOf(
  db: Database,
  accountId: string,
): Promise<(Receiver & { secret: string | null; refused_at: Date | null }) | undefined> {
  if (!/^conn_[\w-]{43}$/.test(accountId)) return undefined
  const [found] = await db.query(
    kysely
      .selectFrom('processor_connections')
      .select(['account_id', 'program_id', 'processor', 'livemode', sql<string | null>`secret::text`.as('secret')])
      .select('refused_at')
      .where('account_id', '=', accountId),
  )
  return found && isProcessor(found.processor) ? { ...found, processor: found.processor } : undefined
}

/** Records that a connection refused a delivery, at most once a minute. */
export async function noteRefusal(db: Database, accountId: string, refusal: string): Promise<void> {
  await db.query(
    kysely
      .updateTable('processor_connections')
      .set({ refused_at: now, refusal })
      .where('account_id', '=', accountId)
      .where((eb) =>
        eb.or([eb('refused_at', 'is', null), eb('refused_at', '<', sql<Date>`now() - interval '1 minute'`)]),
      ),
  )
}

/** Clears a connection's last refusal, because a later delivery was verified. */
export async function forgetRefusal(db: Database, accountId: string): Promise<void> {
  await db.query(
    kysely
      .updateTable('processor_connections')
      .set({ refused_at: null, refusal: null })
      .where('account_id', '=', accountId),
  )
}
