import { connect, type Socket } from 'node:net'
import type { Carrier } from './driver.ts'

/** The bytes of a request. */
export type HttpCall = Buffer

/** A request as browsers and integrators' servers send it. */
export function httpCall(
  method: string,
  url: string,
  { headers = {}, body }: { headers?: Record<string, string>; body?: object } = {},
): HttpCall {
  const { host, pathname, search } = new URL(url)
  const text = body === undefined ? '' : JSON.stringify(body)
  const lines = [
    `${method} ${pathname}${search} HTTP/1.1`,
    `host: ${host}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined ? [] : ['content-type: application/json', `content-length: ${Buffer.byteLength(text)}`]),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${text}`)
}

/**
 * A persistent HTTP/1.1 connection with the least possible client work, because the client shares two cores with the
 * service. It only reads the status of an answer and finds its end. Every status except 2xx is an error.
 */
export class HttpConnection implements Carrier<HttpCall> {
  readonly #baseUrl: URL
  #socket: Socket
  #buffer: Buffer = Buffer.alloc(0)
  #settle: ((error: string | undefined) => void) | undefined

  constructor(baseUrl: string) {
    this.#baseUrl = new URL(baseUrl)
    this.#socket = this.#connect()
  }

  #connect(): Socket {
    const socket = connect(Number(this.#baseUrl.port), this.#baseUrl.hostname)
    socket.setNoDelay(true)
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', () => {})
    socket.on('close', () => {
      if (socket === this.#socket) this.#finish('the connection was closed')
    })
    return socket
  }

  send(call: HttpCall, settle: (error: string | undefined) => void): void {
    // The server closes connections that are idle for some seconds.
    if (!this.#socket.writable) this.#socket = this.#connect()
    this.#settle = settle
    this.#socket.write(call)
  }

  close(): void {
    this.#settle = undefined
    this.#socket.destroy()
  }

  #finish(error: string | undefined): void {
    const settle = this.#settle
    this.#settle = undefined
    settle?.(error)
  }

  #read(chunk: Buffer): void {
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk])
    const headEnd = this.#buffer.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const head = this.#buffer.toString('latin1', 0, headEnd)
    const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1]
    const complete =
      length === undefined
        ? this.#buffer.subarray(-5).equals(lastChunk)
        : this.#buffer.length >= headEnd + 4 + Number(length)
    if (!complete) return
    const answer = this.#buffer
    this.#buffer = Buffer.alloc(0)
    this.#finish(/^HTTP\/1.1 2/.test(head) ? undefined : answer.toString())
  }
}

const lastChunk = Buffer.from('0\r\n\r\n')
