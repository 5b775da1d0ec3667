import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, BlockList } from 'node:net'
import { ApiError, errorResponse } from '../errors.ts'
import { OperatorError } from '../commands/operator-error.ts'
import type { Context, Service } from './functions.ts'
import type { Place } from './geo.ts'
import { LightHeaders, LightResponse, makeRequest, useLightMessages } from './messages.ts'
import { signInOwnThread } from './signatures.ts'
import { isTrusted, visitorAddress } from './visitor-address.ts'

/** A byte more than any function takes, which is how it learns that there was more. */
const mostBodyBytes = 1024 * 1024 + 1

/** What only the edge may say, and what a proxy says to this process alone. */
const notFromVisitors = /^(cf-|cloudfront-|x-forwarded-|x-geo-|x-real-ip$|forwarded$|true-client-ip$)/

export interface RunningServer {
  port: number
  /** Takes no more, and resolves when what was taken is answered and what goes on after it is done, or time is over. */
  stop(): Promise<void>
}

/** How long a stop waits: systemd and the compose file give it more. */
const stopWithinMilliseconds = 25_000
const backgroundWithinMilliseconds = 10_000

/**
 * The service over HTTP/1.1. TLS is the proxy's: what a request's visitor is, its address and place, comes from the connection, or from a
 * proxy that is trusted, and never from the visitor.
 */
export async function startServer(options: {
  service: Pick<Service, 'answer'>
  baseUrl: string
  host: string
  port: number
  trusted: BlockList
  placeOf: (address: string) => Place
}): Promise<RunningServer> {
  const { service, baseUrl, trusted, placeOf } = options
  useLightMessages()
  signInOwnThread()
  const background = new Set<Promise<unknown>>()
  const context: Context = {
    waitUntil(work) {
      const settled = work
        .catch((error: unknown) => logFailure('background', error))
        .finally(() => background.delete(settled))
      background.add(settled)
    },
    passThroughOnException() {},
  }
  let stopping = false
  const open = new Set<IncomingMessage>()

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { request, isWhole } = await requestOf(incoming, { baseUrl, trusted, placeOf })
    const response = request ? await service.answer(request, context) : badRequest()
    // A connection with a body that nobody read is of no use, and one of a process that stops is not to be used again.
    await write(response, outgoing, !isWhole || stopping)
    if (!isWhole) incoming.destroy()
  }

  const server = createServer((incoming, outgoing) => {
    open.add(incoming)
    incoming.on('error', () => {})
    outgoing.on('error', () => {})
    answer(incoming, outgoing)
      .catch((error: unknown) => {
        if (incoming.errored || outgoing.destroyed) return
        logFailure('request', error)
        if (outgoing.headersSent) outgoing.destroy()
        else outgoing.writeHead(500, { 'content-type': 'application/json' }).end(internalError)
      })
      .finally(() => open.delete(incoming))
  })
  // Longer than proxies keep theirs, so that none sends into a connection that is just closed.
  server.keepAliveTimeout = 75_000
  server.requestTimeout = 60_000
  server.listen(options.port, options.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw new OperatorError(whyNotListening(options, error))
  }
  // oxlint-disable-next-line no-unsafe-type-assertion -- it listens on a port
  const { port } = server.address() as AddressInfo
  return {
    port,
    async stop() {
      stopping = true
      const end = Date.now() + stopWithinMilliseconds
      const closed = closeServer(server)
      while (open.size > 0 && Date.now() < end) await pause(20)
      server.closeAllConnections()
      await closed
      const last = Math.min(end, Date.now() + backgroundWithinMilliseconds)
      while (background.size > 0 && Date.now() < last) await pause(20)
      if (open.size + background.size > 0)
        console.error(JSON.stringify({ error: 'stopped_early', requests: open.size, background: background.size }))
    },
  }
}

/** What is wrong with the address, and what to do. */
function whyNotListening({ host, port }: { host: string; port: number }, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  const advices: Record<string, string> = {
    EADDRINUSE: `Port ${port} of ${host} is taken by another process. Stop that one, or set PORT to another port and have the proxy ask there.`,
    EACCES: `Port ${port} is not for this user to listen on. Set PORT to one above 1023; the proxy has 80 and 443.`,
    EADDRNOTAVAIL: `${host} is no address of this machine. Set HOST to one that is: 127.0.0.1 for a proxy beside it, 0.0.0.0 for all.`,
    ENOTFOUND: `HOST names ${host}, which leads nowhere. Set it to an address of this machine, such as 127.0.0.1.`,
  }
  return (
    advices[code] ?? `The service cannot listen on ${host}, port ${port}: ${code}. Set HOST and PORT to where it can.`
  )
}

async function closeServer(server: Server): Promise<void> {
  server.close()
  server.closeIdleConnections()
  await once(server, 'close')
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

const internalError = JSON.stringify({
  success: false,
  error: { code: 'internal_error', message: 'Something went wrong on our side.' },
})

const badRequest = () =>
  errorResponse(new ApiError('invalid_request', 'The address or method of this request cannot be read.'))

/** The request as functions take it; undefined where it cannot be one. `isWhole` tells whether its body was read to the end. */
async function requestOf(
  incoming: IncomingMessage,
  { baseUrl, trusted, placeOf }: { baseUrl: string; trusted: BlockList; placeOf: (address: string) => Place },
): Promise<{ request: Request | undefined; isWhole: boolean }> {
  const { method, rawHeaders } = incoming
  const from = incoming.socket.remoteAddress ?? ''
  const isFromProxy = isTrusted(from, trusted)
  const address = visitorAddress(from, incoming.headers, trusted)
  const { body, isWhole } =
    method === 'GET' || method === 'HEAD' ? { body: null, isWhole: true } : await readBody(incoming)
  const values = new Map<string, string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? '').toLowerCase()
    if (notFromVisitors.test(name)) continue
    const value = rawHeaders[index + 1] ?? ''
    const before = values.get(name)
    values.set(name, before === undefined ? value : `${before}${name === 'cookie' ? ';' : ','} ${value}`)
  }
  // Its body has been read, however it came.
  values.delete('transfer-encoding')
  if (body) values.set('content-length', String(body.length))
  // An address of this machine is counted like any other: all visitors have it where the proxy is not told of.
  const isOfThisMachine = address === '::1' || address.startsWith('127.')
  values.set('cf-connecting-ip', isOfThisMachine ? `::ffff:${address === '::1' ? '127.0.0.1' : address}` : address)
  const cf = isFromProxy ? { ...placeOf(address), ...toldPlace(incoming) } : placeOf(address)
  return { request: makeRequest(incoming, baseUrl, { headers: new LightHeaders(values), body, cf }), isWhole }
}

/** Where the proxy says that the visitor is, in UTF-8. */
function toldPlace({ headers }: IncomingMessage): Place {
  const told = (['country', 'region', 'city'] as const).flatMap((name) => {
    const value = headers[`x-geo-${name}`]
    return typeof value === 'string' && value !== '' ? [[name, Buffer.from(value, 'latin1').toString('utf8')]] : []
  })
  return Object.fromEntries(told)
}

function readBody(incoming: IncomingMessage): Promise<{ body: Buffer<ArrayBuffer>; isWhole: boolean }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ body: Buffer<ArrayBuffer>; isWhole: boolean }>()
  const chunks: Buffer<ArrayBuffer>[] = []
  let length = 0
  const bodyOf = () => (chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks))
  incoming.on('data', (chunk: Buffer<ArrayBuffer>) => {
    if (length >= mostBodyBytes) return
    chunks.push(chunk)
    length += chunk.length
    if (length < mostBodyBytes) return
    incoming.pause()
    resolve({ body: bodyOf(), isWhole: false })
  })
  incoming.on('end', () => resolve({ body: bodyOf(), isWhole: true }))
  incoming.on('error', reject)
  incoming.on('close', () => {
    if (!incoming.complete) reject(new Error('The connection was closed before the body was there.'))
  })
  return promise
}

async function write(response: Response, outgoing: ServerResponse, closes: boolean): Promise<void> {
  const parts = LightResponse.partsOf(response)
  if (parts) {
    const { status, headers, body } = parts
    if (closes) headers.push('connection', 'close')
    outgoing.writeHead(status, headers).end(body ?? undefined)
    return
  }
  if (closes) outgoing.setHeader('connection', 'close')
  for (const [name, value] of response.headers) if (name !== 'set-cookie') outgoing.setHeader(name, value)
  const cookies = response.headers.getSetCookie()
  if (cookies.length > 0) outgoing.setHeader('set-cookie', cookies)
  outgoing.writeHead(response.status)
  if (response.body) {
    for await (const chunk of response.body) {
      if (!outgoing.write(chunk)) await Promise.race([once(outgoing, 'drain'), once(outgoing, 'close')])
      if (outgoing.destroyed) return
    }
  }
  outgoing.end()
}

/** The name and place of an error, never its message, which can quote a row. */
export function logFailure(what: string, error: unknown): void {
  const { name, stack } = error instanceof Error ? error : { name: typeof error, stack: undefined }
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const frames = stack?.split('\n').filter((line) => line.trimStart().startsWith('at '))
  console.error(JSON.stringify({ error: what, name, code, frames }))
}
