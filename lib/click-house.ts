import { NoAnswerError, withTimeout } from './database.ts'

/** The variables of an optional ClickHouse server. */
export interface ClickHouseEnv {
  /** `https://user@host:8443/database`. Without it, Postgres answers all reads. */
  CLICKHOUSE_URL?: string
  CLICKHOUSE_PASSWORD?: string
}

/** Parameters of a query, for its placeholders `{name:Type}`. */
type Parameters = Record<string, string | number | boolean | readonly (string | number)[]>

/** An error that the server answered, with ClickHouse's own code, or 0 if it did not answer. */
export class ClickHouseError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.name = 'ClickHouseError'
    this.code = code
  }
}

/** The code of ClickHouse for a query on a table that does not exist. */
export const unknownTable = 60

/** Numbers as JSON numbers. The server answers after it has the whole result, so that the status is right. */
const settings = { output_format_json_quote_64bit_integers: '0', wait_end_of_query: '1' }

/** Sends queries to a ClickHouse server over its HTTP interface. */
export class ClickHouse {
  readonly #url: URL
  readonly #headers: Record<string, string>
  /** Until then, reads fail at once, because the server let an earlier one wait. In milliseconds of `Date.now()`. */
  #silentUntil = 0

  constructor(url: string, password: string) {
    const { origin, pathname, username } = new URL(url)
    this.#url = new URL(origin)
    const database = decodeURIComponent(pathname.slice(1)) || 'default'
    for (const [name, value] of Object.entries({ ...settings, database })) this.#url.searchParams.set(name, value)
    this.#headers = {
      'X-ClickHouse-User': decodeURIComponent(username) || 'default',
      'X-ClickHouse-Key': password,
    }
  }

  /** Runs a statement without a result. */
  async run(sql: string): Promise<void> {
    await this.#send(sql, {}, slowMilliseconds)
  }

  /** Inserts lines of JSON into a table. */
  async insert(table: string, lines: string): Promise<void> {
    await this.#send(lines, { query: `INSERT INTO ${table} FORMAT JSONEachRow` }, slowMilliseconds)
  }

  /**
   * Runs a query and returns its rows, unchecked. A read for a page uses the short default timeout. If the server hangs, later reads fail at
   * once for half a minute.
   */
  async read(sql: string, parameters: Parameters, within_ms = readMilliseconds): Promise<unknown[]> {
    if (Date.now() < this.#silentUntil) throw new ClickHouseError(0, 'ClickHouse did not answer an earlier read')
    const named = Object.entries(parameters).map(([name, value]) => [`param_${name}`, asText(value)])
    const text = await this.#send(`${sql} FORMAT JSONEachRow`, Object.fromEntries(named), within_ms)
    return text
      .split('\n')
      .filter(Boolean)
      .map((line): unknown => JSON.parse(line))
  }

  /** @throws ClickHouseError if the server refuses the query, is unreachable, or doesn't respond in time. */
  async #send(body: string, parameters: Record<string, string>, within_ms: number): Promise<string> {
    const url = new URL(this.#url)
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    const abort = new AbortController()
    const answer = async () => {
      const response = await fetch(url, { method: 'POST', headers: this.#headers, body, signal: abort.signal })
      const text = await response.text()
      if (response.ok) return text
      const code = Number(response.headers.get('x-clickhouse-exception-code') ?? 0)
      throw new ClickHouseError(code, `ClickHouse answered ${response.status}: ${text.slice(0, 500)}`)
    }
    try {
      return await withTimeout(within_ms, answer())
    } catch (error) {
      if (error instanceof ClickHouseError) throw error
      if (error instanceof NoAnswerError) this.#silentUntil = Date.now() + silentMilliseconds
      throw new ClickHouseError(
        0,
        `ClickHouse did not answer: ${error instanceof Error ? error.message : String(error)}`,
      )
    } finally {
      abort.abort()
    }
  }
}

const readMilliseconds = 2000
const silentMilliseconds = 30_000
/** The timeout of writes, and of reads of whole tables. */
export const slowMilliseconds = 30_000

/** Writes a parameter as ClickHouse reads it: text with escapes, and an array as a literal. */
function asText(value: Parameters[string]): string {
  if (typeof value === 'string') return value.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n')
  if (typeof value !== 'object') return String(value)
  return `[${value.map((item) => (typeof item === 'number' ? item : quoted(item))).join(',')}]`
}

const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", String.raw`\'`)}'`

let opened: { url: string; password: string; server: ClickHouse } | undefined

/** Returns the isolate's server, or undefined if none is configured. */
export function openClickHouse({ CLICKHOUSE_URL: url, CLICKHOUSE_PASSWORD: password = '' }: ClickHouseEnv) {
  if (!url) return undefined
  if (opened?.url !== url || opened.password !== password)
    opened = { url, password, server: new ClickHouse(url, password) }
  return opened.server
}
