import { expect } from 'vitest'
import { errorCodes } from '../../lib/errors.ts'
import { createSandbox, type Sandbox } from '../../lib/local/sandbox.ts'
import type { ProgramSettings } from '../../lib/programs/programs.ts'
import { type StackOptions, startStack, type TestStack, type WorkersStack } from './stack.ts'

export interface Answer {
  status: number
  headers: Headers
  // oxlint-disable-next-line no-explicit-any -- each test knows its answers
  body: any
}

interface CallOptions {
  /** A program's API key, if the call contains one. */
  key?: string
  headers?: Record<string, string>
  method?: string
}

export interface TrackingApi {
  stack: TestStack
  /** Creates a program in its own workspace, with a key, a partner and a link. */
  program(settings?: Partial<ProgramSettings>): Promise<Sandbox>
  /**
   * Sends one request and checks its answer: a request id, the error envelope, and the number of database requests. By default, there
   * must be one request, or at most one for a refusal.
   */
  call(path: string, body: unknown, options?: CallOptions & { databaseRequests?: number }): Promise<Answer>
  /** Sends all requests at once. Their order depends on the database, so requests are not counted. */
  callAll(path: string, bodies: unknown[], options?: CallOptions): Promise<Answer[]>
  click(program: Sandbox, body?: Record<string, unknown>): Promise<string>
  /** Reads rows, to check the effect of a call. */
  // oxlint-disable-next-line no-explicit-any -- as above
  rows(query: string, values?: unknown[]): Promise<any[]>
}

export const clickPath = '/api/v1/track/click'
export const leadPath = '/api/v1/track/lead'
export const salePath = '/api/v1/track/sale'
export const refundPath = '/api/v1/track/refund'
export const statusPath = '/api/v1/cli/status'

export const keyedPaths = [leadPath, salePath, refundPath] as const

/** Starts the tracking functions for one test file. */
export async function startTrackingApi(
  options: StackOptions & { on: 'workers' },
): Promise<TrackingApi & { stack: WorkersStack }>
export async function startTrackingApi(options?: StackOptions): Promise<TrackingApi>
export async function startTrackingApi(options: StackOptions = {}): Promise<TrackingApi> {
  const functions = ['track-click', 'track-lead', 'track-sale', 'track-refund', 'cli-status']
  const stack = await startStack({ functions, ...options })
  const env = { ...stack.env, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }

  async function send(path: string, body: unknown, { key, headers, method = 'POST' }: CallOptions): Promise<Answer> {
    const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
    const response = await fetch(stack.baseUrl + path, {
      method,
      headers: {
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        // Refusing an unread body closes its connection, which the next call would otherwise reuse.
        connection: 'close',
        ...headers,
      },
      ...(text !== undefined && { body: text }),
    })
    const answer = await response.text()
    const parsed: unknown = answer === '' ? null : JSON.parse(answer)
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    if (response.status >= 400 && answer !== '') expectEnvelope(response, parsed)
    return { status: response.status, headers: response.headers, body: parsed }
  }

  const api: TrackingApi = {
    stack,
    program: (settings = {}) => createSandbox(stack.db, env, settings),
    async call(path, body, callOptions = {}) {
      const before = stack.neon.requests
      const answer = await send(path, body, callOptions)
      const requests = stack.neon.requests - before
      const expected = callOptions.databaseRequests ?? (answer.status === 200 ? 1 : Math.min(requests, 1))
      expect(requests, stack.neon.recent.join('\n')).toBe(expected)
      return answer
    },
    callAll: (path, bodies, callOptions = {}) => Promise.all(bodies.map((body) => send(path, body, callOptions))),
    async click(program, body = {}) {
      const affiliate_url = `https://shop.example.com/?aff=${program.partnerCode}`
      const answer = await api.call(clickPath, { affiliate_url, ...body })
      expect(answer.status).toBe(200)
      return String(answer.body.click_id)
    },
    rows: async (query, values = []) => (await stack.sql.query(query, values)).rows,
  }
  return api
}

/** Creates valid bodies, each with its own customer, and the key that each call needs. */
export function goodCalls(api: TrackingApi, program: Sandbox) {
  const key = { key: program.apiKey }
  let number = 0
  return {
    goodBody: async (path: string): Promise<Record<string, unknown>> => {
      const id = `r${(number += 1)}`
      if (path === clickPath) return { affiliate_url: `https://shop.example.com/?aff=${program.partnerCode}` }
      const click_id = await api.click(program)
      const sale = { transaction_id: id, customer_key: id, click_id, amount_cents: 1000 }
      if (path === leadPath) return { customer_key: id, click_id }
      if (path === salePath) return sale
      await api.call(salePath, sale, key)
      return { transaction_id: id, refund_amount_cents: 100 }
    },
    keyOf: (path: string) => (path === clickPath ? {} : key),
  }
}

/** Checks the envelope, and that the status matches the error code. */
function expectEnvelope(response: Response, body: unknown): void {
  expect(body).toMatchObject({ success: false, error: { code: expect.any(String), message: expect.any(String) } })
  const { code } = (body as { error: { code: keyof typeof errorCodes } }).error
  expect(errorCodes[code].status).toBe(response.status)
  if (code === 'api_key_retired' || code === 'rate_limited') {
    expect(response.headers.get('content-type')).toBe('application/problem+json')
    expect(body).toMatchObject({
      type: `urn:svc:error:${code}`,
      title: errorCodes[code].title,
      status: response.status,
      detail: expect.any(String),
    })
  } else expect(response.headers.get('content-type')).toMatch(/^application\/json/)
}

/** Returns the same value `count` times, or `count` results of `make`. */
export function times<Item>(count: number, make: (index: number) => Item): Item[] {
  return Array.from({ length: count }, (_, index) => make(index))
}
