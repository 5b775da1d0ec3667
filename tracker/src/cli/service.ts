import { existsSync, readFileSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { parseEnv } from 'node:util'

/** The address that the package was built for, or empty if it is unknown. See build.ts. */
declare const SVC_BASE_URL: string

/** A failure that the user sees: the cause and the remedy. */
export class CommandError extends Error {
  readonly code: string
  readonly hint: string

  constructor(code: string, message: string, hint: string) {
    super(message)
    this.code = code
    this.hint = hint
  }
}

/** The service's address and the key. */
export interface Connection {
  apiKey: string
  baseUrl: string
}

/** The flags of every subcommand. */
export interface ConnectionFlags {
  apiKey?: string
  baseUrl?: string
  json?: boolean
}

interface LastSeen {
  live: string | null
  test: string | null
}

/** The response of GET /api/v1/cli/status. */
export interface Status {
  program: {
    id: number
    name: string
    domain: string
    currency: string
    commission_percent: number
    cookie_window_days: number
    lead_auth_policy: string
  }
  /** Null for a key without the scope `track`. */
  proxy_path: string
  proxy_key: string | null
  processor: { connected: boolean; account_id: string | null }
  /** Refused calls since the last successful call of the same kind, newest first. */
  refusals: { call: string; code: string; refused_at: string; message: string }[]
  /** ISO 8601, or null. */
  activity: Record<'last_click' | 'last_lead' | 'last_sale' | 'last_webhook', LastSeen>
  checks: { name: string; ok: boolean; message: string }[]
}

export const envFile = '.svc/.env'

/** The values of `.svc/.env` in the current folder. Empty without this file. */
function readEnvFile(): Record<string, string | undefined> {
  return existsSync(envFile) ? parseEnv(readFileSync(envFile, 'utf8')) : {}
}

/** The API key, if there is one: flag, then environment, then `.svc/.env`. */
export function findApiKey(flags: ConnectionFlags): string | undefined {
  return (flags.apiKey ?? process.env['SVC_API_KEY'] ?? readEnvFile()['SVC_API_KEY'])?.trim() || undefined
}

/** The service's address: flag, then environment, then `.svc/.env`, then the one the package was built for. */
export function findBaseUrl(flags: ConnectionFlags): string {
  const configured = flags.baseUrl ?? process.env['SVC_BASE_URL'] ?? readEnvFile()['SVC_BASE_URL']
  const baseUrl = (configured?.trim() || SVC_BASE_URL).replace(/\/+$/, '')
  if (!/^https?:$/.test(URL.parse(baseUrl)?.protocol ?? '')) {
    throw new CommandError(
      'invalid_base_url',
      `"${baseUrl}" is not the address of a service.`,
      'Pass one such as https://api.example.com with --base-url or SVC_BASE_URL.',
    )
  }
  return baseUrl
}

/** Returns the key and the address. Throws if there is no key. */
export function connect(flags: ConnectionFlags): Connection {
  const apiKey = findApiKey(flags)
  if (!apiKey) {
    throw new CommandError(
      'no_api_key',
      'There is no API key.',
      `Create one in the dashboard under API keys, then set SVC_API_KEY or use --api-key. \`svc init\` keeps it in ${envFile}.`,
    )
  }
  return { apiKey, baseUrl: findBaseUrl(flags) }
}

interface RequestOptions {
  body?: object
  headers?: Record<string, string>
  method?: string
  timeoutSeconds?: number
}

/**
 * Sends one request and returns the response's JSON. The default method is GET, or POST with a `body`. Throws a CommandError if the
 * request fails.
 */
export async function request<Data>(connection: Connection, path: string, options: RequestOptions = {}): Promise<Data> {
  const [response, text] = await send(connection, path, options, async (answer) => await answer.text())
  // oxlint-disable-next-line no-unsafe-type-assertion -- the caller knows the response of its path
  return read(connection.baseUrl + path, response, text) as Data
}

/**
 * Sends a GET request and writes the response's bytes to a new file. If the request fails, throws a CommandError and doesn't leave a file
 * behind.
 */
export async function download(connection: Connection, path: string, file: string): Promise<void> {
  if (existsSync(file)) {
    throw new CommandError('file_exists', `The file ${file} already exists.`, 'Choose another name.')
  }
  try {
    const [response, text] = await send(connection, path, { timeoutSeconds: 3600 }, async (answer) => {
      if (!answer.ok || !answer.body) return await answer.text()
      await writeFile(file, answer.body)
      return undefined
    })
    if (text !== undefined) read(connection.baseUrl + path, response, text)
  } catch (error) {
    rmSync(file, { force: true })
    throw error
  }
}

async function send<Result>(
  connection: Connection,
  path: string,
  { body, headers, method = body ? 'POST' : 'GET', timeoutSeconds = 15 }: RequestOptions,
  take: (response: Response) => Promise<Result>,
): Promise<[Response, Result]> {
  try {
    const response = await fetch(connection.baseUrl + path, {
      method,
      headers: {
        authorization: `Bearer ${connection.apiKey}`,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutSeconds * 1000),
      ...(body && { body: JSON.stringify(body) }),
    })
    return [response, await take(response)]
  } catch (error) {
    const { name, cause } = error instanceof Error ? error : new Error(String(error))
    const code = cause instanceof Error && 'code' in cause ? cause.code : name
    throw new CommandError(
      'network_error',
      `${connection.baseUrl} did not respond (${String(code)}).`,
      'Check the address (--base-url or SVC_BASE_URL) and your connection, then run the command again.',
    )
  }
}

function read(url: string, response: Response, text: string): object {
  const answer = parse(text)
  if (response.ok && answer?.success) return answer
  const { code, message } = answer?.error ?? {}
  if (!code) {
    throw new CommandError(
      'invalid_response',
      `${url} answered ${response.status}, but it is not this service.`,
      'Check the address: --base-url or SVC_BASE_URL.',
    )
  }
  throw new CommandError(code, message ?? `The service answered ${response.status} ${code}.`, hintFor(code, response))
}

function hintFor(code: string, response: Response): string {
  if (code === 'insufficient_scope') {
    return 'Create a key for reading and changing the program in the dashboard under API keys; then pass it with --api-key or SVC_API_KEY.'
  }
  if (code === 'unauthorized' || code === 'api_key_retired' || code === 'api_key_expired') {
    return 'Copy the key again, or create one in the dashboard under API keys; then pass it with --api-key or SVC_API_KEY.'
  }
  const seconds = response.headers.get('retry-after')
  if (seconds) return `Run the command again in ${seconds} s.`
  return response.status >= 500
    ? `Run the command again. If it fails again, send support the request id ${response.headers.get('x-request-id')}.`
    : 'Correct the problem in the message, then run the command again.'
}

interface Answer {
  success?: boolean
  error?: { code?: string; message?: string }
}

function parse(text: string): Answer | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the address of the program's site. It uses plain HTTP if the service does, as on a local machine. */
export const siteAddress = ({ baseUrl }: Connection, { domain }: Status['program']) =>
  `${baseUrl.startsWith('http:') ? 'http' : 'https'}://${domain}`

export const fetchStatus = (connection: Connection) => request<Status>(connection, '/api/v1/cli/status')
