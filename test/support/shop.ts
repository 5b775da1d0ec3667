import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll } from 'vitest'

/** A call that a page made to the service through {@link Shop}. */
export interface ShopCall {
  method: string
  path: string
  /** JSON text, which is empty for a GET. */
  body: string
}

export interface Shop {
  /** Chromium's switch that sends every host name to this server, so that a page can be on any domain. */
  browserArg: string
  /** The page at every path of every host except `api.svc.test`. */
  html: string
  /** Answers a request to a shop's host instead of the page. */
  handler?: ((request: Request) => Promise<Response | undefined>) | undefined
  /**
   * The fault of the next calls to the service: `drop` breaks the connection, `page` answers 200 with a page, and a
   * number is the answer's status.
   */
  fault?: 'drop' | 'page' | number | undefined
  /** The delay of the service's answers, in milliseconds. */
  delayMs: number
  calls: ShopCall[]
}

/**
 * A web server for the shops of a test file. Every host shows `html`. `api.svc.test` is the service at `serviceUrl`, with recorded calls
 * and optional faults.
 */
export async function startShop(serviceUrl: string): Promise<Shop> {
  const shop: Shop = { browserArg: '', html: '', calls: [], delayMs: 0 }
  const server = createServer((incoming, outgoing) => {
    void answer(incoming).then(async (response) => {
      if (response === 'drop') return incoming.socket.destroy()
      outgoing.writeHead(response.status, [...response.headers].flat())
      return outgoing.end(Buffer.from(await response.arrayBuffer()))
    })
  })

  async function answer(incoming: IncomingMessage): Promise<Response | 'drop'> {
    const request = await asRequest(incoming)
    const { hostname, pathname, search } = new URL(request.url)
    if (hostname !== 'api.svc.test') {
      const handled = await shop.handler?.(request.clone())
      return handled ?? new Response(shop.html, { headers: { 'content-type': 'text/html' } })
    }
    if (request.method === 'POST') {
      shop.calls.push({ method: request.method, path: pathname, body: await request.clone().text() })
      if (shop.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, shop.delayMs))
      if (shop.fault === 'drop') return 'drop'
      const headers = { 'access-control-allow-origin': '*' }
      if (shop.fault === 'page') return new Response('<h1>Shop</h1>', { headers })
      if (shop.fault) return new Response('{}', { status: shop.fault, headers })
    }
    const headers = new Headers(request.headers)
    for (const name of ['host', 'connection', 'content-length']) headers.delete(name)
    const body = request.method === 'POST' ? await request.text() : null
    const response = await fetch(serviceUrl + pathname + search, { method: request.method, headers, body })
    const passed = new Headers(response.headers)
    for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) passed.delete(name)
    return new Response([204, 304].includes(response.status) ? null : await response.arrayBuffer(), {
      status: response.status,
      headers: passed,
    })
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(() => {
    server.close()
    server.closeAllConnections()
  })
  shop.browserArg = `--host-resolver-rules=MAP * 127.0.0.1:${(server.address() as AddressInfo).port}`
  return shop
}

/** Converts a request to Node's server into a Fetch API request. */
export async function asRequest(incoming: IncomingMessage): Promise<Request> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  const headers = new Headers()
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    headers.append(incoming.rawHeaders[i] ?? '', incoming.rawHeaders[i + 1] ?? '')
  }
  return new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method ?? 'GET',
    headers,
    body: chunks.length > 0 ? Buffer.concat(chunks) : null,
  })
}
