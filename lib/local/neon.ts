import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError, Pool, type PoolClient, type QueryArrayConfig, type QueryResult } from 'pg'
import { refusePages } from './pages.ts'

/**
 * An injected fault:
 * - `drop-before` breaks the connection before it runs anything;
 * - `drop-after` commits, then breaks the connection;
 * - `cut` commits, then breaks the connection in the middle of its response;
 * - `unavailable` returns 503 without running anything;
 * - `delay` waits `delay_ms`, then continues;
 * - `kill-backend` ends the Postgres backend before it commits.
 */
export interface Fault {
  action: 'drop-before' | 'drop-after' | 'cut' | 'unavailable' | 'delay' | 'kill-backend'
  /** The number of requests that fail. Default 1. */
  times?: number
  delay_ms?: number
  /** If set, only requests with this text in a statement fail. */
  matching?: string
}

export interface NeonEndpoint {
  /** The value of `NEON_ENDPOINT`. */
  url: string
  /** The number of requests to `/sql`. Each is one round trip of a function. */
  requests: number
  /** The number of statements in these requests. */
  statements: number
  /** Bytes of the answers to these requests, without their headers. */
  answered_bytes: number
  /** Summaries of the last requests with their errors, for tests that count an unexpected number of requests. */
  recent: string[]
  /** The header with the token for faults and `/control`. */
  control: { 'Control-Token': string }
  inject(fault: Fault): void
  /** The number of remaining faults. */
  faults(): number
  clearFaults(): void
  close(): Promise<void>
}

interface Query {
  query: string
  params: unknown[]
}

/** All pools share Postgres' 200 connections. */
const maxPools = 50
const maxNamedStatements = 500

/**
 * Starts the endpoint that `@neondatabase/serverless` calls over HTTP, in front of Postgres. Its path `/sql` accepts one statement, or
 * several in one transaction. Rows are arrays of text in Postgres' own format, as the driver requests. The header `Neon-Connection-String`
 * selects the database.
 *
 * Tests count requests and inject faults through the returned object or over HTTP: `GET /control` returns the counters, `POST
 * /control/faults` takes a {@link Fault}, `DELETE /control` resets everything. The header `Inject-Fault` holds a fault for one request, as
 * JSON. All of these need the header `Control-Token`. Web pages are refused.
 *
 * @param maxConnections of each database
 * @see https://github.com/neondatabase/neon/blob/main/proxy/README.md for the protocol
 */
export async function startNeonEndpoint(maxConnections = 24): Promise<NeonEndpoint> {
  const pools = new Map<string, Pool>()
  const statementNames = new Map<string, string>()
  let faults: Required<Fault>[] = []
  const controlToken = randomBytes(32).toString('base64url')

  function mayControl(request: IncomingMessage): boolean {
    const token = Buffer.from(String(request.headers['control-token'] ?? ''))
    const wanted = Buffer.from(controlToken)
    return token.length === wanted.length && timingSafeEqual(token, wanted)
  }

  function poolOf(connectionString: string): Pool {
    const known = pools.get(connectionString)
    pools.delete(connectionString)
    const pool = known ?? openPool(connectionString, maxConnections)
    pools.set(connectionString, pool)
    const [oldest] = pools.keys()
    if (pools.size > maxPools && oldest) {
      void pools.get(oldest)?.end()
      pools.delete(oldest)
    }
    return pool
  }

  /** Repeated statements are prepared once per connection. Above the limit, statements are parsed each time. */
  function nameOf(sql: string): string | undefined {
    const known = statementNames.get(sql)
    if (known || statementNames.size >= maxNamedStatements) return known
    const name = createHash('sha1').update(sql).digest('base64url')
    statementNames.set(sql, name)
    return name
  }

  function queryConfig({ query, params }: Query): QueryArrayConfig & { queryMode: 'extended' } {
    const name = nameOf(query)
    return {
      text: query,
      values: params,
      rowMode: 'array',
      types: rawText,
      queryMode: 'extended',
      ...(name && { name }),
    }
  }

  /** Sends everything at once and waits once, so that a batch costs only one round trip to Postgres. */
  async function run(client: PoolClient, queries: Query[], begin: string | undefined, kill: boolean) {
    const open = begin ?? (kill ? 'begin' : undefined)
    const sent = [
      ...(open ? [client.query({ text: open })] : []),
      ...queries.map((query) => client.query(queryConfig(query))),
      ...(kill ? [client.query('select pg_terminate_backend(pg_backend_pid())')] : []),
      ...(open ? [client.query({ text: 'commit' })] : []),
    ]
    const settled = await Promise.allSettled(sent)
    const results = settled.map((outcome) => {
      if (outcome.status === 'rejected') throw outcome.reason
      return outcome.value
    })
    return results
      .slice(open ? 1 : 0)
      .slice(0, queries.length)
      .map(render)
  }

  async function answerSql(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body: Query | { queries: Query[] } = JSON.parse(await text(request))
    const queries = 'queries' in body ? body.queries : [body]
    endpoint.requests += 1
    endpoint.statements += queries.length

    const own = request.headers['inject-fault']
    if (own !== undefined && !mayControl(request)) return needsToken(response)
    endpoint.recent = [...endpoint.recent.slice(-7), queries.map(({ query }) => query.slice(0, 60)).join('; ')]
    const fault: Fault | undefined = typeof own === 'string' ? JSON.parse(own) : takeFault(queries)
    if (fault?.action === 'drop-before') return void request.socket.destroy()
    if (fault?.action === 'unavailable') return void reply(response, 503, { message: 'Service unavailable.' })
    if (fault?.action === 'delay') await delay(fault.delay_ms ?? 0)

    const connectionString = request.headers['neon-connection-string']
    if (typeof connectionString !== 'string') {
      return void reply(response, 400, { message: 'The header Neon-Connection-String is missing.' })
    }
    const client = await poolOf(connectionString).connect()
    let failure: unknown
    try {
      const begin = 'queries' in body ? beginStatement(request) : undefined
      const results = await run(client, queries, begin, fault?.action === 'kill-backend')
      if (fault?.action === 'drop-after') return void request.socket.destroy()
      const answer = 'queries' in body ? { results } : results[0]
      if (fault?.action === 'cut') return cut(response, answer)
      endpoint.answered_bytes += reply(response, 200, answer)
    } catch (error) {
      failure = error
      throw error
    } finally {
      // The connection isn't reused after a failure, unless Postgres only refused the statement.
      client.release(failure !== undefined && !(failure instanceof DatabaseError && failure.severity === 'ERROR'))
    }
  }

  function takeFault(queries: Query[]): Required<Fault> | undefined {
    const fault = faults.find(({ matching }) => queries.some(({ query }) => query.includes(matching)))
    if (fault) fault.times -= 1
    faults = faults.filter(({ times }) => times > 0)
    return fault
  }

  async function answerControl(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!mayControl(request)) return needsToken(response)
    if (request.method === 'POST' && request.url === '/control/faults') {
      endpoint.inject(JSON.parse(await text(request)))
    } else if (request.method === 'DELETE') {
      endpoint.clearFaults()
      endpoint.requests = 0
      endpoint.statements = 0
      endpoint.answered_bytes = 0
    }
    const { requests, statements, answered_bytes } = endpoint
    reply(response, 200, { requests, statements, answered_bytes, faults })
  }

  const server = createServer((request, response) => {
    if (refusePages(request, response)) return
    const answer = request.url === '/sql' ? answerSql : answerControl
    answer(request, response).catch((error: unknown) => {
      const { message } = error instanceof Error ? error : { message: String(error) }
      endpoint.recent.push(`failed: ${message}`)
      // Neon's proxy only passes on the codes of Postgres errors. Other errors have no code.
      reply(response, 400, error instanceof DatabaseError ? Object.assign({ message }, error) : { message, code: '' })
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The endpoint has no port.')

  const endpoint: NeonEndpoint = {
    url: `http://127.0.0.1:${address.port}/sql`,
    requests: 0,
    statements: 0,
    answered_bytes: 0,
    recent: [],
    control: { 'Control-Token': controlToken },
    inject: (fault) => void faults.push({ times: 1, delay_ms: 0, matching: '', ...fault }),
    faults: () => faults.reduce((left, { times }) => left + times, 0),
    clearFaults: () => void (faults = []),
    async close() {
      server.close()
      server.closeAllConnections()
      await Promise.all([...pools.values()].map((pool) => pool.end()))
    },
  }
  return endpoint
}

/** Waits exactly this long. Node's timers are up to a millisecond late, so the last two milliseconds are a busy wait. */
async function delay(milliseconds: number): Promise<void> {
  const due = performance.now() + milliseconds
  if (milliseconds > 2) await sleep(milliseconds - 2)
  while (performance.now() < due) await turn()
}

function openPool(connectionString: string, max: number): Pool {
  // A new connection plans everything again, so connections stay open during a pause.
  const pool = new Pool({ connectionString, max, pipeline: true, idleTimeoutMillis: 60_000 })
  // The statements of a broken connection fail and the pool replaces it, so these events don't need to be handled.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

const rawText = { getTypeParser: () => (value: string | Buffer) => value.toString() }

const isolationLevels: Record<string, string> = {
  ReadUncommitted: 'isolation level read uncommitted',
  ReadCommitted: 'isolation level read committed',
  RepeatableRead: 'isolation level repeatable read',
  Serializable: 'isolation level serializable',
}

function beginStatement(request: IncomingMessage): string {
  const header = (name: string) => String(request.headers[name] ?? '')
  return [
    'begin',
    isolationLevels[header('neon-batch-isolation-level')] ?? '',
    header('neon-batch-read-only') === 'true' ? 'read only' : '',
    header('neon-batch-deferrable') === 'true' ? 'deferrable' : '',
  ].join(' ')
}

function render({ fields, rows, command, rowCount }: QueryResult) {
  return {
    fields: fields.map(({ name, dataTypeID, tableID, columnID, dataTypeSize, dataTypeModifier, format }) => ({
      name,
      dataTypeID,
      tableID,
      columnID,
      dataTypeSize,
      dataTypeModifier,
      format,
    })),
    rows: rows as unknown[],
    command,
    rowCount,
    rowAsArray: true,
  }
}

/** Returns the number of bytes in the body. */
function reply(response: ServerResponse, status: number, body: unknown): number {
  const json = JSON.stringify(body)
  const bytes = Buffer.byteLength(json)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes })
  response.end(json)
  return bytes
}

function needsToken(response: ServerResponse): void {
  reply(response, 403, { message: 'The header Control-Token is missing or wrong.' })
}

function cut(response: ServerResponse, body: unknown): void {
  const json = JSON.stringify(body)
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) })
  response.write(json.slice(0, json.length / 2), () => response.destroy())
}
