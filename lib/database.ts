import { neon, NeonDbError, neonConfig, types } from '@neondatabase/serverless'
import type { Compilable, RawNode } from 'kysely'
import { isTransient } from './errors.ts'
import { type DatabaseFunctions, functionCalls } from './schema.ts'

/** The variables by which a function reaches the database. */
export interface DatabaseEnv {
  /** A Postgres connection string; on Neon the pooled one. */
  DATABASE_URL: string
  /** Address of a Neon HTTP endpoint other than Neon's own, as the local stack has one. */
  NEON_ENDPOINT?: string
  /** The way there, where a function is given one: miniflare puts a Worker of its own before every other fetch. */
  NEON?: { fetch: typeof fetch }
  /** Connections that this process holds open, which then are the way. */
  POSTGRES?: Postgres
}

/** A statement as it is sent. */
export interface SentStatement {
  text: string
  parameters: unknown[]
}

export interface StatementResult {
  rows: unknown[]
  rowCount: number | null
}

/** Postgres without Neon's HTTP in between. It refuses and fails with `NeonDbError` as that does, and reads values with `types`. */
export interface Postgres {
  /** Runs statements in order in one round trip: one by itself, several in a transaction of READ COMMITTED if asked for. */
  run(statements: SentStatement[], isTransaction: boolean, timeout_ms: number): Promise<StatementResult[]>
}

/** A query of `kysely` in lib/kysely.ts, or a call of a database function. */
export type Statement<Row> = Compilable<Row>

type RowsOf<Statements extends readonly Statement<unknown>[]> = {
  -readonly [Index in keyof Statements]: Statements[Index] extends Statement<infer Row> ? Row[] : never
}

/**
 * `bigint` arrives as a number, and an array of them (of one dimension, without nulls) as numbers, as lib/schema.ts says. Ids,
 * cents and counts are far below 2^53; what is not is refused here and not rounded.
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

/** A form by its one-time token, and the request that it came with (both uuid). */
export interface SentForm {
  token: string
  requestId: string
}

/** A request that makes something: the token by which it is known when it is sent again, and the SHA-256 of what it asks for. */
export interface SentRequest {
  token: string
  hash: Uint8Array
}

/**
 * Postgres over Neon's HTTP driver, where `query` and `batch` are one HTTP request each, or over connections that the process holds. Statements are built with `kysely` of
 * lib/kysely.ts; this file does without the builder and its compiler, which keeps 23 kilobytes (gzip) out of functions that only
 * call functions of the database. Nothing is held open, so one instance serves an isolate for life.
 */
export class Database {
  readonly #connection: Connection
  readonly #env: DatabaseEnv
  /** Says, first in each transaction, who acts. */
  readonly #actor: SentStatement | undefined

  constructor(env: DatabaseEnv, timeout_ms?: number, actor?: SentStatement) {
    this.#connection = connect(env, timeout_ms)
    this.#env = env
    this.#actor = actor
  }

  /**
   * The same database; the audit log puts down what is done by it to this user. Where they sent a form, the first transaction takes it,
   * and all fail (constraint `used_forms_pkey`) where another request did before. See migrations/functions/1_base/audit-log.sql.
   */
  actingAs(userId: string | null, form?: SentForm): Database {
    return this.#after('select act_as($1, $2, $3)', [userId, form?.token, form?.requestId])
  }

  /**
   * The same of a program's API key. A request that makes something is done once: it fails (constraint `idempotency_keys_pkey`, or
   * `idempotency_mismatch` where it asks for something else) where one with its token was done before. See lib/idempotency.ts.
   */
  actingByKey(key: { keyId: number; programId: number }, request?: SentRequest): Database {
    return this.#after('select act_by_key($1, $2, $3, $4)', [key.keyId, key.programId, request?.token, request?.hash])
  }

  #after(text: string, parameters: unknown[]): Database {
    return new Database(this.#env, undefined, { text, parameters })
  }

  /** Runs one statement and returns its rows. `bigint` columns arrive as numbers, `numeric` ones as text, timestamps as `Date`. */
  async query<Row>(statement: Statement<Row>): Promise<Row[]> {
    if (this.#actor !== undefined) return (await this.batch([statement]))[0]
    const { rows } = await this.#connection.query(sent(statement))
    // oxlint-disable-next-line no-unsafe-type-assertion -- the statement says what its rows are
    return rows as Row[]
  }

  /**
   * Runs statements in order as one transaction in one HTTP request. The isolation is READ COMMITTED: a later statement
   * sees what an earlier one waited for, which is what [lock][write] batches rely on.
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

/** What only the builder's plugins look at. Given here, since reading `kysely` is reading 255 files. */
const nothing: RawNode = { kind: 'RawNode', sqlFragments: [], parameters: [] }
const queryId = { queryId: '' }

/**
 * A call of a database function, whose arguments and row are typed as the database declares them (lib/schema.ts). Give `json` and
 * `jsonb` as JSON text, and `bytea` as bytes. The arguments go by their order, because Postgres takes as long for names as for a
 * tenth of a lead.
 */
export function call<Name extends keyof DatabaseFunctions>(
  name: Name,
  args: DatabaseFunctions[Name]['arguments'],
): Statement<DatabaseFunctions[Name]['row']> {
  const { text, names } = functionCalls[name]
  const parameters = names.map((argument) => args[argument])
  return { compile: () => ({ sql: text, parameters, query: nothing, queryId }) }
}

/** The bytes that hexadecimal digits stand for, as a `bytea` parameter. */
export function hexBytes(digits: string): Uint8Array {
  return Uint8Array.from(digits.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
}

/** A database that hangs is one that broke in transit: the try ends here, and whether it was committed is not known. */
const answerWithinMilliseconds = 10_000

/** A way to the database: one statement, or several as a transaction. */
export interface Connection {
  query(statement: SentStatement): Promise<StatementResult>
  transaction(statements: SentStatement[]): Promise<StatementResult[]>
}

/** The way to the environment's database: connections of this process where it has them, else Neon's HTTP driver. */
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
  // The driver takes only what fails in here for a broken try, so the answer is read to its end here. It is no Response,
  // because making one and reading it again costs workerd as much as the click's own code.
  const send = async (url: string, request: RequestInit) => {
    const response = await (NEON ?? globalThis).fetch(url, request)
    const text = await response.text()
    return { ok: response.ok, status: response.status, text: () => text, json: (): unknown => JSON.parse(text) }
  }
  neonConfig.fetchFunction = (url: string, request: RequestInit) => withTimeout(timeout_ms, send(url, request))
  if (NEON_ENDPOINT) neonConfig.fetchEndpoint = () => NEON_ENDPOINT
  const driver = neon(DATABASE_URL, { fullResults: true })
  const query = ({ text, parameters }: SentStatement) => driver.query(text, parameters)
  return {
    query,
    transaction: (statements) => driver.transaction(statements.map(query), { isolationLevel: 'ReadCommitted' }),
  }
}

/**
 * What `promise` gives, or an error after that many milliseconds. The timer is taken back: one that stays, as that of
 * `AbortSignal.timeout` does, keeps everything of the request in workerd's memory until it goes off.
 */
export async function withTimeout<Result>(milliseconds: number, promise: Promise<Result>): Promise<Result> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${milliseconds} ms`)), milliseconds)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

let opened: { url: string; db: Database } | undefined

/** The isolate's database. */
export function openDatabase(env: DatabaseEnv): Database {
  if (opened?.url !== env.DATABASE_URL) opened = { url: env.DATABASE_URL, db: new Database(env) }
  return opened.db
}

/** The name of the constraint that refused a statement, or undefined where the error was another one. */
export function violatedConstraint(error: unknown): string | undefined {
  return error instanceof NeonDbError ? error.constraint : undefined
}

/**
 * Runs `attempt`, and once more where the first try broke in transit or met a lock conflict. Only for statements that
 * a natural key makes repeatable: after a broken try nobody knows whether it was committed.
 */
export async function retryOnce<Result>(attempt: () => Promise<Result>): Promise<Result> {
  try {
    return await attempt()
  } catch (error) {
    if (!isTransient(error)) throw error
    return await attempt()
  }
}
