import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeEach } from 'vitest'
import { asRequest } from './shop.ts'

/** The server's answer to one request: a status and body, a broken connection, or silence. */
export type Answer = { status: number; body?: unknown; headers?: Record<string, string> } | 'drop' | 'hang'

interface Received {
  path: string
  headers: Headers
  body: unknown
}

export interface StandIn {
  baseUrl: string
  /** The answers to the next requests in turn. Later requests succeed. Empty before each test, like `received`. */
  answers: Answer[]
  received: Received[]
}

export const ok = (body: object = {}): Answer => ({ status: 200, body: { success: true, ...body } })

export const refusal = (
  status: number,
  code: string,
  more: object = {},
  headers: Record<string, string> = {},
): Answer => ({
  status,
  body: { success: false, error: { code, message: 'Because.', ...more } },
  headers,
})

/** A fake service for one test file that returns the responses that a test sets. */
export async function openStandIn(): Promise<StandIn> {
  const server = createServer((incoming, outgoing) => {
    void asRequest(incoming).then(async (request) => {
      const text = await request.text()
      const { pathname } = new URL(request.url)
      standIn.received.push({ path: pathname, headers: request.headers, body: text && JSON.parse(text) })
      const answer = standIn.answers.shift() ?? ok()
      if (answer === 'drop') return incoming.socket.destroy()
      if (answer === 'hang') return undefined
      const { status, body, headers } = answer
      outgoing.writeHead(status, { 'content-type': 'application/json', ...headers })
      return outgoing.end(typeof body === 'string' ? body : JSON.stringify(body))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const standIn: StandIn = { baseUrl: `http://127.0.0.1:${port}`, answers: [], received: [] }
  beforeEach(() => Object.assign(standIn, { answers: [], received: [] }))
  afterAll(() => {
    server.close()
    server.closeAllConnections()
  })
  return standIn
}
