import { request as send } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterAll } from 'vitest'
import { selfSigned } from './self-signed.ts'

export interface TlsProxy {
  port: number
  /** Chromium's switch that sends every host name here. */
  browserArg: string
}

/**
 * The proxy in front of `npm run serve`. It forwards HTTPS requests for `host` as HTTP to the port on this machine. It
 * appends the caller's address, which is always `visitor` here, to `X-Forwarded-For`. Every other host shows a page.
 */
export async function startTlsProxy(options: {
  host: string
  port: number
  visitor: string
  page: () => string
}): Promise<TlsProxy> {
  const { host, port, visitor, page } = options
  const server = createServer(selfSigned([host]), (incoming, outgoing) => {
    if (incoming.headers.host !== host) {
      outgoing.writeHead(200, { 'content-type': 'text/html' }).end(page())
      return
    }
    const { method, url, headers } = incoming
    const chain = [headers['x-forwarded-for'], visitor].filter((part) => part !== undefined).join(', ')
    const passed = send({ port, method, path: url, headers: { ...headers, 'x-forwarded-for': chain } }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(outgoing)
    })
    passed.on('error', () => outgoing.writeHead(502).end())
    incoming.pipe(passed)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port: own } = server.address() as AddressInfo
  return { port: own, browserArg: `--host-resolver-rules=MAP * 127.0.0.1:${own}` }
}
