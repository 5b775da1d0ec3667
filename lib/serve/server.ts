import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, type BlockList, Server as NetServer } from 'node:net'
import { setImmediate as polled } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import { maxBodyBytes, maxEventBytes, maxImportBytes } from '../api/app.ts'
import { rateLimited } from '../api/rate-limits.ts'
import { ApiError, errorResponse } from '../errors.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { openBodyReader } from './bodies.ts'
import type { Context, Service } from './functions.ts'
import type { Place } from './geo.ts'
import { isTrusted, visitorAddress } from './visitor-address.ts'
import type { Use, VisitorBudget } from './visitor-budget.ts'

/** Each connection takes some kilobytes, and a proxy opens one for each request in progress. */
const mostConnections = 4000

/** Processors' events may be larger than other bodies. */
const eventPaths = '/api/v1/webhooks/'

/** Headers that only the edge or a proxy may set, and headers about a body that this server has already read. */
const notForFunctions =
  /^(cf-|cloudfront-|x-forwarded-|x-geo-|x-program-host$|x-real-ip$|forwarded$|true-client-ip$|content-length$|transfer-encoding$)/i

export interface RunningServer {
  port: number
  /** Stops accepting connections, then waits for open requests and their background work until a deadline. */
  stop(): Promise<void>
}

/** This is shorter than the timeouts of systemd and the compose file. */
const stopWithinMilliseconds = 25_000
const backgroundWithinMilliseconds = 10_000

/** The address to listen on. `socket` is an inherited listening socket, which keeps new connections while the service restarts. */
export interface Listening {
  host: string
  port: number
  socket?: number | undefined
}

/** Starts to listen. The server emits `listening` or `error`. */
export function listen(server: Server, { host, port, socket }: Listening): void {
  server.listen({ ...(socket === undefined ? { host, port } : { fd: socket }), backlog: mostConnections })
}

/**
 * Serves the functions over HTTP/1.1. A proxy terminates TLS. A visitor's address and place come from the connection or a trusted proxy,
 * never from the visitor. A given server may already listen, and is taken over.
 */
export async function startServer(
  options: Listening & {
    server?: Server
    service: Pick<Service, 'answer' | 'isProgramHost'>
    budget: VisitorBudget
    baseUrl: string
    trusted: BlockList
    placeOf: (address: string) => Place
    /** Returns whether the operator blocks this address. */
    isBlocked: (address: string) => boolean
  },
): Promise<RunningServer> {
  const { service, budget, baseUrl, trusted, placeOf, isBlocked, server = createServer() } = options
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
  const readBody = openBodyReader()
  let stopping = false
  let requests = 0
  let connections = 0
  const open = new Set<IncomingMessage>()

  server.removeAllListeners('request')
  server.on('request', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    open.add(incoming)
    requests++
    incoming.on('error', () => {})
    outgoing.on('error', () => {})
    const address = addressOf(incoming, baseUrl, trusted)
    const answer = async (request: Request): Promise<Response> => {
      if (address === undefined) return badRequest()
      const asked = hostAskedBy(incoming, new URL(address), trusted)
      if (asked !== undefined) return new Response(null, { status: (await service.isProgramHost(asked)) ? 200 : 404 })
      if (isBlocked(visitorAddress(incoming.socket.remoteAddress ?? '', incoming.headers, trusted))) return blocked()
      const use = useOf(incoming, address)
      const cf = await prepare(incoming, use, { trusted, placeOf, readBody, budget })
      if (!cf) return errorResponse(rateLimited())
      const response = await service.answer(Object.assign(request, { cf }), context)
      // The answer to a preflight says nothing about its key.
      if (response.ok && incoming.method !== 'OPTIONS') budget.know(use)
      return response
    }
    incoming.url = address ?? baseUrl
    const listener = getRequestListener(
      async (request) => {
        const response = await answer(request).catch((error: unknown) => {
          // If a body is interrupted, it is the client's fault.
          if (incoming.complete && !outgoing.destroyed) logFailure('request', error)
          return internalError()
        })
        // A client can't reuse a connection with an unread body, and must not reuse a connection to a process that is stopping.
        if (stopping || !incoming.complete) outgoing.setHeader('connection', 'close')
        if (!incoming.complete) outgoing.on('finish', () => incoming.destroy())
        return response
      },
      { autoCleanupIncoming: false },
    )
    void listener(incoming, outgoing).finally(() => open.delete(incoming))
  })
  server.on('connection', () => connections++)
  // Caddy uses an idle connection for up to two minutes, and nginx for one. A proxy must not send a request into a connection that has just
  // been closed.
  server.keepAliveTimeout = 150_000
  server.requestTimeout = 60_000
  server.maxConnections = mostConnections
  if (!server.listening) {
    listen(server, options)
    try {
      await once(server, 'listening')
    } catch (error) {
      throw new OperatorError(whyNotListening(options, error))
    }
  }
  // oxlint-disable-next-line no-unsafe-type-assertion -- it listens on a port
  const { port } = server.address() as AddressInfo
  return {
    port,
    async stop() {
      const end = performance.now() + stopWithinMilliseconds
      // The system resets connections that are waiting to be accepted, so the server stops listening when none are waiting. Each round of
      // the event loop accepts one, and rounds can take long on a slow machine. So this waits until a round accepts none.
      await quiet(() => connections, 5, performance.now() + 1000)
      for (let accepted = -1; accepted !== connections && performance.now() < end;) {
        accepted = connections
        await polled()
      }
      const closed = once(server, 'close')
      // This only stops listening. `server.close()` also closes idle connections, on which a proxy may be sending a request.
      NetServer.prototype.close.call(server)
      stopping = true
      // From now on, each response closes its connection. Connections without a request for a second are idle.
      await quiet(() => (open.size > 0 ? NaN : requests), 50, end)
      server.closeAllConnections()
      await closed
      const last = Math.min(end, performance.now() + backgroundWithinMilliseconds)
      while (background.size > 0 && performance.now() < last) await pause(20)
      if (open.size + background.size > 0)
        console.error(JSON.stringify({ error: 'stopped_early', requests: open.size, background: background.size }))
    },
  }
}

/** Returns the problem with the address and its remedy. */
function whyNotListening({ host, port }: Listening, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  const advices: Record<string, string> = {
    EADDRINUSE: `Port ${port} of ${host} is in use by another process. Stop it, or set PORT to another port and change the proxy.`,
    EACCES: `Port ${port} is reserved for root. Set PORT to a number above 1023. The proxy uses 80 and 443.`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Set HOST to 127.0.0.1 if the proxy is on this machine, or to 0.0.0.0.`,
    ENOTFOUND: `The name ${host} in HOST has no address. Set HOST to an address of this machine, such as 127.0.0.1.`,
  }
  return advices[code] ?? `The service cannot listen on ${host}, port ${port}: ${code}. Change HOST or PORT.`
}

/**
 * Resolves when a value hasn't changed for this many rounds of 20 ms, or at a deadline. It counts rounds instead of time, because the
 * event loop reads sockets between the rounds, but may have been blocked for some time. It resolves right after the event loop has read
 * the sockets, so that nothing can have arrived since then.
 */
async function quiet(read: () => number, rounds: number, until: number): Promise<void> {
  let [last, same] = [read(), 0]
  while (same < rounds && performance.now() < until) {
    await pause(20)
    await polled()
    const now = read()
    same = now === last ? same + 1 : 0
    last = now
  }
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

const internalError = () => errorResponse(new ApiError('internal_error', 'Something went wrong on our side.'))
const blocked = () =>
  errorResponse(
    new ApiError('forbidden', 'The operator of this service has blocked your network. Ask them for the reason.'),
  )
const badRequest = () =>
  errorResponse(new ApiError('invalid_request', 'The address or method of this request is invalid. Correct it.'))

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/**
 * Returns the request's URL, or undefined if functions can't handle the request. Its origin is the service's own, or the program's host
 * on which a trusted proxy received the request.
 */
function addressOf(incoming: IncomingMessage, baseUrl: string, trusted: BlockList): string | undefined {
  const { method = 'GET', url = '/', headers, socket } = incoming
  const host = isTrusted(socket.remoteAddress ?? '', trusted) ? headers['x-program-host'] : undefined
  if (host !== undefined && !/^[a-z0-9.-]{1,253}$/i.test(String(host))) return undefined
  const origin = host === undefined ? baseUrl : `https://${String(host)}`
  const address = methods.has(method) && url.startsWith('/') ? URL.parse(origin + url) : null
  return address ? address.origin + address.pathname + address.search : undefined
}

/** Caddy calls this path to ask whether it may get a certificate for `?domain=`. */
const askPath = '/internal/program-host'

/** Returns the host that the proxy itself asks about. Visitors' requests contain the proxy's `X-Forwarded-For`. */
function hostAskedBy(
  { headers, socket }: IncomingMessage,
  { pathname, searchParams }: URL,
  trusted: BlockList,
): string | undefined {
  const isProxy = isTrusted(socket.remoteAddress ?? '', trusted) && headers['x-forwarded-for'] === undefined
  return pathname === askPath && isProxy ? (searchParams.get('domain') ?? '') : undefined
}

/** The API route and the page that receive the files of an import. */
const importPath = /^(\/api\/v1|\/programs\/\d+)\/imports(\/\d+\/parts)?$/

/** The largest body that a path's function accepts. */
function largestBody(pathname: string): number {
  if (importPath.test(pathname)) return maxImportBytes
  return pathname.startsWith(eventPaths) ? maxEventBytes : maxBodyBytes
}

/** Returns a request in the format that the budget counts. A body of unknown length counts as the largest allowed one. */
function useOf({ headers }: IncomingMessage, url: string): Use {
  const { pathname } = new URL(url)
  const most = largestBody(pathname)
  const declared = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : most
  return { pathname, authorization: headers.authorization, bodyBytes: Math.min(declared, most) }
}

/** Reads the body and replaces the headers that only the edge may set. Returns the visitor's place, or undefined if their budget is used up. */
async function prepare(
  incoming: IncomingMessage,
  use: Use,
  {
    trusted,
    placeOf,
    readBody,
    budget,
  }: {
    trusted: BlockList
    placeOf: (address: string) => Place
    readBody: ReturnType<typeof openBodyReader>
    budget: VisitorBudget
  },
): Promise<Place | undefined> {
  const { headers, rawHeaders, method } = incoming
  const from = incoming.socket.remoteAddress ?? ''
  const address = visitorAddress(from, headers, trusted)
  // If the proxy is missing in TRUST_PROXY, all visitors have an address of this machine, so that address is counted like any other.
  const isOfThisMachine = address === '::1' || address.startsWith('127.')
  const own: Record<string, string> = {
    'cf-connecting-ip': isOfThisMachine ? `::ffff:${address === '::1' ? '127.0.0.1' : address}` : address,
  }
  const place = isTrusted(from, trusted) ? { ...placeOf(address), ...proxiedPlace(headers) } : placeOf(address)
  if (!budget.take(address, use)) return undefined
  const most = largestBody(use.pathname)
  const declared = Number(headers['content-length'] ?? 0)
  if (method !== 'GET' && method !== 'HEAD') {
    // The function refuses the body because of its declared length.
    const rawBody = declared > most ? Buffer.alloc(0) : await readBody(incoming, most)
    own['content-length'] = String(Math.max(declared, rawBody.length))
    Object.assign(incoming, { rawBody })
  }
  // Functions read some headers from `headers` and others from `rawHeaders`.
  const kept = Object.entries(headers).filter(([name]) => !notForFunctions.test(name))
  incoming.headers = { ...Object.fromEntries(kept), ...own }
  incoming.rawHeaders = rawHeaders.filter((_, at) => !notForFunctions.test(rawHeaders[at - (at % 2)] ?? ''))
  incoming.rawHeaders.push(...Object.entries(own).flat())
  return place
}

/** Reads the place that the proxy sent, in UTF-8. */
function proxiedPlace(headers: IncomingHttpHeaders): Place {
  const named = (['country', 'region', 'city'] as const).flatMap((name) => {
    const value = headers[`x-geo-${name}`]
    return typeof value === 'string' && value !== '' ? [[name, Buffer.from(value, 'latin1').toString('utf8')]] : []
  })
  return Object.fromEntries(named)
}

/** Logs the name and stack of an error, never its message, which can quote a row. */
export function logFailure(what: string, error: unknown): void {
  const { name, stack } = error instanceof Error ? error : { name: typeof error, stack: undefined }
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const frames = stack?.split('\n').filter((line) => line.trimStart().startsWith('at '))
  console.error(JSON.stringify({ error: what, name, code, frames }))
}
