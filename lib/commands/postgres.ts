import { NeonDbError, types } from '@neondatabase/serverless'
import { createHash } from 'node:crypto'
import { DatabaseError, Pool, type PoolClient, type QueryConfig } from 'pg'
import { type Postgres, type SentStatement, type StatementResult, withTimeout } from '../database.ts'

const maxNamedStatements = 500
/** Sessions use UTC, like Neon's. If a process disappears, even without a sign on the network, its session soon releases its locks. */
export const sessionOptions =
  '-c TimeZone=UTC -c client_connection_check_interval=1s -c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3'

export interface PostgresPool extends Postgres {
  /** The numbers of open and idle connections, and of statements that wait for one. */
  readConnections(): { open: number; idle: number; waiting: number }
  /** Closes each connection after its pending statements. */
  end(): Promise<void>
}

/**
 * Keeps connections open. Each connection prepares a statement on its first use. A transaction sends all its statements at once and costs
 * one round trip.
 */
export function openPool(connectionString: string, max = 20): PostgresPool {
  const pool = new Pool({
    connectionString,
    max,
    pipeline: true,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 60_000,
    // A command can end without closing its connections.
    allowExitOnIdle: true,
    options: sessionOptions,
    application_name: 'svc',
  })
  // The statements of a broken connection fail and the pool replaces it, so these events don't need to be handled.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  let names = new Map<string, string>()
  let generation = 0

  /** Names a repeated statement so that each connection prepares it once. Above the limit, statements are parsed each time. */
  function nameOf(text: string): string | undefined {
    const known = names.get(text)
    if (known || names.size >= maxNamedStatements) return known
    const name = `${generation}${createHash('sha1').update(text).digest('base64url')}`
    names.set(text, name)
    return name
  }

  function configOf({ text, parameters }: SentStatement): QueryConfig & { queryMode: 'extended' } {
    const name = nameOf(text)
    return { text, values: parameters, queryMode: 'extended', types: readers, ...(name && { name }) }
  }

  async function send(client: PoolClient, statements: SentStatement[], isTransaction: boolean) {
    const sent = [
      ...(isTransaction ? [client.query('begin isolation level read committed')] : []),
      ...statements.map((statement) => client.query(configOf(statement))),
      ...(isTransaction ? [client.query('commit')] : []),
    ]
    // Waits for all statements, so that the connection is idle when it is released. The first failure explains the others.
    const settled = await Promise.allSettled(sent)
    const results = settled.map((outcome): StatementResult => {
      if (outcome.status === 'rejected') throw outcome.reason
      return outcome.value
    })
    return isTransaction ? results.slice(1, -1) : results
  }

  /** The timeout covers everything, because on a silent network most of the time goes into waiting for a connection. */
  async function attempt(statements: SentStatement[], isTransaction: boolean, timeout_ms: number) {
    const connecting = pool.connect()
    let client: PoolClient | undefined
    let isOver = false
    async function connectAndSend() {
      const connected = await connecting
      if (isOver) {
        connected.release()
        throw new Error('a connection arrived after its timeout')
      }
      client = connected
      return await send(client, statements, isTransaction)
    }
    try {
      const results = await withTimeout(timeout_ms, connectAndSend())
      client?.release()
      return results
    } catch (error) {
      isOver = true
      // The connection is destroyed, unless Postgres refused the statement. Otherwise `pg` and Postgres would wait for the pending
      // statement and keep its locks.
      const isBroken = !(error instanceof DatabaseError && error.severity === 'ERROR')
      if (isBroken) client?.connection.stream.destroy()
      client?.release(isBroken)
      throw error
    }
  }

  return {
    async run(statements, isTransaction, timeout_ms) {
      try {
        return await attempt(statements, isTransaction, timeout_ms)
      } catch (error) {
        if (!isStale(error)) throw asNeonError(error)
      }
      // A migration has changed the result type of a prepared statement. The statement did nothing, so it is
      // prepared again under another name.
      generation += 1
      names = new Map()
      try {
        return await attempt(statements, isTransaction, timeout_ms)
      } catch (error) {
        throw asNeonError(error)
      }
    },
    readConnections: () => ({ open: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    end: () => pool.end(),
  }
}

/** Parses values like Neon's driver. See lib/database.ts. */
const readers = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => types.getTypeParser(oid, format ?? 'text'),
}

const isStale = (error: unknown) =>
  error instanceof DatabaseError && error.code === '0A000' && error.message.includes('cached plan')

/** Converts an error to the type of Neon's driver. The service uses this type to distinguish refusals from broken attempts. */
function asNeonError(error: unknown): NeonDbError {
  const { message } = error instanceof Error ? error : { message: String(error) }
  const converted = new NeonDbError(message)
  if (!(error instanceof DatabaseError)) return converted
  const { severity, code, detail, hint, where, schema, table, column, dataType, constraint, routine } = error
  return Object.assign(converted, {
    severity,
    code,
    detail,
    hint,
    where,
    schema,
    table,
    column,
    dataType,
    constraint,
    routine,
  })
}
