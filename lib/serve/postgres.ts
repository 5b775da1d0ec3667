import { NeonDbError, types } from '@neondatabase/serverless'
import { createHash } from 'node:crypto'
import { DatabaseError, Pool, type PoolClient, type QueryConfig } from 'pg'
import { type Postgres, type SentStatement, type StatementResult, withTimeout } from '../database.ts'

const maxNamedStatements = 500
/** Sessions speak UTC as Neon's do, and one whose process is gone gives its locks back soon, also where the network says nothing. */
export const sessionOptions =
  '-c TimeZone=UTC -c client_connection_check_interval=1s -c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3'

export interface PostgresPool extends Postgres {
  /** Ends the connections, each when its statements have been answered. */
  end(): Promise<void>
}

/**
 * Connections that are held open. A statement is prepared the first time that a connection meets it, and what belongs together is
 * written at once and waited for once: a transaction of several statements is one round trip as well.
 */
export function openPool(connectionString: string, max = 20): PostgresPool {
  const pool = new Pool({
    connectionString,
    max,
    pipeline: true,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 60_000,
    options: sessionOptions,
    application_name: 'svc',
  })
  // A connection that breaks fails its statements and is replaced by the pool; these events carry nothing more.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  let names = new Map<string, string>()
  let generation = 0

  /** Statements that come again are prepared once a connection. Those beyond the bound are parsed each time. */
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
    // Each is waited for, so that a connection that is given back has nothing under way. The first that failed says why.
    const settled = await Promise.allSettled(sent)
    const results = settled.map((outcome): StatementResult => {
      if (outcome.status === 'rejected') throw outcome.reason
      return outcome.value
    })
    return isTransaction ? results.slice(1, -1) : results
  }

  /** The time is for all of it: where nothing comes back from the network, waiting for a connection is what takes longest. */
  async function attempt(statements: SentStatement[], isTransaction: boolean, timeout_ms: number) {
    const connecting = pool.connect()
    let client: PoolClient | undefined
    let isOver = false
    async function connectAndSend() {
      const connected = await connecting
      if (isOver) {
        connected.release()
        throw new Error('a connection came when its time was over')
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
      // A connection that did more than refuse a statement is not given to the next. It is cut: `pg` would wait for the answer to what
      // it has under way, and so would Postgres, with its locks.
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
      // A migration changed what a prepared statement answers. It did nothing, and is prepared anew under another name.
      generation += 1
      names = new Map()
      try {
        return await attempt(statements, isTransaction, timeout_ms)
      } catch (error) {
        throw asNeonError(error)
      }
    },
    end: () => pool.end(),
  }
}

/** Values are read as Neon's driver reads them; see lib/database.ts. */
const readers = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => types.getTypeParser(oid, format ?? 'text'),
}

const isStale = (error: unknown) =>
  error instanceof DatabaseError && error.code === '0A000' && error.message.includes('cached plan')

/** The error as Neon's driver has it, by which the service tells a refusal from a try that broke. */
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
