import { neon, NeonDbError, neonConfig, types } from '@neondatabase/serverless'
import type { Compilable, RawNode } from 'kysely'
import { isTransient } from './errors.ts'
import { type DatabaseFunctions, functionCalls } from './schema.ts'

/** The variables that a function needs to reach the database. */
export interface DatabaseEnv {
  /** A Postgres connection string. On Neon, use the pooled one. */
  DATABASE_URL: string
  /** Address of a Neon HTTP endpoint other than Neon's own, as in the local stack. */
  NEON_ENDPOINT?: string
  /** A service binding to that endpoint. Miniflare routes every other fetch through its own Worker. */
  NEON?: { fetch: typeof fetch }
  /** Open connections of this process. If they are set, statements run over them. */
  POSTGRES?: Postgres
}

/** A compiled statement. */
export interface SentStatement {
  text: string
  parameters: unknown[]
}

export interface StatementResult {
  rows: unknown[]
  rowCount: number | null
}

/** Postgres without Neon's HTTP proxy in between. Like Neon's driver, it throws `NeonDbError` and parses values with `types`. */
export interface Postgres {
  /**
   * Runs statements in order in one round trip. A single statement runs by itself. Several statements run in a READ COMMITTED transaction
   * if requested.
   */
  run(statements: SentStatement[], isTransaction: boolean, timeout_ms: number): Promise<StatementResult[]>
  /** Returns the time of the database's clock in milliseconds since 1970. */
  now?: () => number
}

/** A query built with `kysely` from lib/kysely.ts, or a call to a database function. */
export type Statement<Row> = Compilable<Row>

type RowsOf<Statements extends readonly Statement<unknown>[]> = {
  -readonly [Index in keyof Statements]: Statements[Index] extends Statement<infer Row> ? Row[] : never
}

/**
 * Reads `bigint` as a number, and a one-dimensional `bigint[]` without nulls as numbers, as lib/schema.ts declares them. Ids, cents and
 * counts are far below 2^53. Larger values are refused instead of rounded.
 */
const int8Oid = 20
const int8ArrayOid = 1016
types.setTypeParser(int8Oid, safeInteger)
types.setTypeParser(int8ArrayOid, (text: string) =>
  text === '{}' ? [] : text.slice(1, -1).split(',').map(safeInteger),
)

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new Error(`a bigint of the database is above 2^53: ${text}`)
  return value
}

/** A form's one-time token and the id of the request that sent it (both uuid). */
export interface SentForm {
  token: string
  requestId: string
}

/** A request that creates something. The token identifies repeated requests, and the SHA-256 covers the content. */
export interface SentRequest {
  token: string
  hash: Uint8Array
}

/**
 * Runs statements over Neon's HTTP driver or over open connections of this process. Over HTTP, `query` and `batch` are one request each and
 * nothing stays open, so an isolate needs only one instance. This file does not import the query builder. This saves 23 kilobytes (gzip) in
 * functions that only call database functions.
 */
export class Database {
  readonly #connection: Connection
  readonly #env: DatabaseEnv
  /** The first statement of each transaction. It sets the actor. */
  readonly #actor: SentStatement | undefined

  constructor(env: DatabaseEnv, timeout_ms?: number, actor?: SentStatement) {
    this.#connection = connect(env, timeout_ms)
    this.#env = env
    this.#actor = actor
  }

  /**
   * Returns the same database for a user: the audit log records this user as the actor. If they sent a form, the first
   * transaction uses up its token. If another request has already used the token, all transactions fail (constraint
   * `used_forms_pkey`). See migrations/functions/1_base/audit-log.sql.
   */
  actingAs(userId: string | null, form?: SentForm): Database {
    return this.#after('select act_as($1, $2, $3)', [userId, form?.token, form?.requestId])
  }

  /**
   * Returns the same database for a program's API key. A request that creates something runs once. If a request with
   * its token ran before, it fails with constraint `idempotency_keys_pkey`, or with `idempotency_mismatch` if its
   * content differs. See lib/idempotency.ts.
   */
  actingByKey(key: { keyId: number; programId: number }, request?: SentRequest): Database {
    return this.#after('select act_by_key($1, $2, $3, $4)', [key.keyId, key.programId, request?.token, request?.hash])
  }

  /**
   * Returns the same database for a part of a bulk job. The job stores the changed rows, and its single audit log entry replaces theirs. See
   * migrations/functions/1_base/bulk-jobs.sql.
   */
  inJob(jobId: number): Database {
    const { text, parameters } = this.#actor ?? { text: 'select', parameters: [] }
    const setting = `${parameters.length === 0 ? '' : ','} set_config('svc.job', $${parameters.length + 1}, true)`
    return this.#after(text + setting, [...parameters, String(jobId)])
  }

  /** Returns the time of a new event in milliseconds since 1970. On one box, it is the time of the database's clock. */
  now(): number {
    return this.#env.POSTGRES?.now?.() ?? Date.now()
  }

  /** Returns the same database with this timeout for statements. */
  waiting(timeout_ms: number): Database {
    return new Database(this.#env, timeout_ms, this.#actor)
  }

  #after(text: string, parameters: unknown[]): Database {
    return new Database(this.#env, undefined, { text, parameters })
  }

  /** Runs one statement and returns its rows. `bigint` columns arrive as numbers, `numeric` ones as text, timestamps as `Date`. */
  async query<Row>(statement: Statement<Row>): Promise<Row[]> {
    if (this.#actor !== undefined) return (await this.batch([statement]))[0]
    const { rows } = await this.#connection.query(sent(statement))
    // oxlint-disable-next-line no-unsafe-type-assertion -- the statement's type determines the type of its rows
    return rows as Row[]
  }

  /**
   * Runs statements in order as one transaction in one HTTP request. The isolation is READ COMMITTED: a later statement sees the rows that
   * an earlier one waited for. Batches that lock first and then write rely on that.
   */
  async batch<const Statements extends readonly Statement<unknown>[]>(
    statements: Statements,
  ): Promise<RowsOf<Statements>> {
    const actor = this.#actor === undefined ? [] : [this.#actor]
    const results = await this.#connection.transaction([...actor, ...statements.map(sent)])
    // oxlint-disable-next-line no-unsafe-type-assertion -- as above, for each statement
    return results.slice(actor.length).map(({ rows }) => rows) as RowsOf<Statements>
  }
}

function sent(statement: Statement<unknown>): SentStatement {
  const { sql: text, parameters } = statement.compile()
  return { text, parameters: [...parameters] }
}

/** Only plugins of the query builder read these fields. They are declared here, because importing `kysely` loads 255 files. */
const nothing: RawNode = { kind: 'RawNode', sqlFragments: [], parameters: [] }
const queryId = { queryId: '' }

/**
 * Builds a call to a database function. The schema (lib/schema.ts) contains the types of its arguments and its row. Pass `json` and `jsonb`
 * as JSON text, and `bytea` as bytes. Arguments are passed by position, because with named arguments, Postgres would take 10% longer to
 * record a lead.
 */
export function call<Name extends keyof DatabaseFunctions>(
  name: Name,
  args: DatabaseFunctions[Name]['arguments'],
): Statement<DatabaseFunctions[Name]['row']> {
  const { text, names } = functionCalls[name]
  return statementOf(
    text,
    names.map((argument) => args[argument]),
  )
}

/** Builds a statement from its text, if the tables and columns come from a list. The text never contains outside data. */
export function statementOf<Row = object>(text: string, parameters: unknown[]): Statement<Row> {
  return { compile: () => ({ sql: text, parameters, query: nothing, queryId }) }
}

/** Parses hexadecimal digits to bytes, for `bytea` parameters. */
export function hexBytes(digits: string): Uint8Array {
  return Uint8Array.from(digits.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
}

/** If the database hangs, this counts as a broken connection. The attempt ends, and it is unknown whether it was committed. */
const answerWithinMilliseconds = 10_000

/** Sends one statement, or several as a transaction. */
export interface Connection {
  query(statement: SentStatement): Promise<StatementResult>
  transaction(statements: SentStatement[]): Promise<StatementResult[]>
}

/** Connects to the environment's database: over connections of this process if it has them, or else over Neon's HTTP driver. */
export function connect(env: DatabaseEnv, timeout_ms = answerWithinMilliseconds): Connection {
  const { DATABASE_URL, NEON_ENDPOINT, NEON, POSTGRES } = env
  if (POSTGRES) {
    return {
      async query(statement) {
        const [result] = await POSTGRES.run([statement], false, timeout_ms)
        return result ?? { rows: [], rowCount: 0 }
      },
      transaction: (statements) => POSTGRES.run(statements, true, timeout_ms),
    }
  }
  // The driver treats an error as a broken connection only inside this function, so the function reads the whole response. It doesn't
  // return a Response, because creating and reading one costs workerd as much as the click's own code.
  const send = async (url: string, request: RequestInit) => {
    const response = await (NEON ?? globalThis).fetch(url, request)
    const text = await response.text()
    return { ok: response.ok, status: response.status, text: () => text, json: (): unknown => JSON.parse(text) }
  }
  // All databases of the isolate share the configuration, so each driver passes its own timeout.
  neonConfig.fetchFunction = (url: string, { within_ms, ...request }: RequestInit & { within_ms: number }) =>
    withTimeout(within_ms, send(url, request))
  if (NEON_ENDPOINT) neonConfig.fetchEndpoint = () => NEON_ENDPOINT
  const driver = neon(DATABASE_URL, { fullResults: true, fetchOptions: { within_ms: timeout_ms } })
  const query = ({ text, parameters }: SentStatement) => driver.query(text, parameters)
  return {
    query,
    transaction: (statements) => driver.transaction(statements.map(query), { isolationLevel: 'ReadCommitted' }),
  }
}

/** Nothing was answered in the given time. */
export class NoAnswerError extends Error {}

/**
 * Returns the result of `promise`, or throws NoAnswerError after that many milliseconds. Clears the timer, because workerd
 * keeps everything of the request in memory until a timer fires, as with `AbortSignal.timeout`.
 */
export async function withTimeout<Result>(milliseconds: number, promise: Promise<Result>): Promise<Result> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NoAnswerError(`no answer within ${milliseconds} ms`)), milliseconds)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

let opened: { url: string; db: Database } | undefined

/** Returns the isolate's database. */
export function openDatabase(env: DatabaseEnv): Database {
  if (opened?.url !== env.DATABASE_URL) opened = { url: env.DATABASE_URL, db: new Database(env) }
  return opened.db
}

/** Returns the name of the constraint that refused a statement, or undefined for any other error. */
export function violatedConstraint(error: unknown): string | undefined {
  return error instanceof NeonDbError ? error.constraint : undefined
}

/** Returns whether a statement failed because it waited longer than its `lock_timeout`. */
export const isLockTimeout = (error: unknown): boolean => error instanceof NeonDbError && error.code === '55P03'

/**
 * Runs `attempt`, and repeats it once after a broken connection or a lock conflict. Use it only for statements that a natural key makes
 * safe to repeat, because after a broken connection, it is unknown whether the first attempt was committed.
 */
export async function retryOnce<Result>(attempt: () => Promise<Result>): Promise<Result> {
  try {
    return await attempt()
  } catch (error) {
    if (!isTransient(error)) throw error
    return await attempt()
  }
}
