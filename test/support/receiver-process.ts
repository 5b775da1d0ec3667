import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'

/**
 * A process that receives webhooks like an integrator's server, and verifies each with the Standard Webhooks library. The path contains the
 * receiver's name and behavior: `/<name>/ok`, `500`, `down` (refuses each address once), `300ms`, `slow`, `hang`, `redirect`, `long`. It
 * reports each webhook to the parent, which sends it the secrets.
 */
const secrets = new Map<string, string>()
process.on('message', ({ name, secret }: { name?: string; secret?: string }) => {
  if (name !== undefined && secret !== undefined) secrets.set(name, secret)
  // All earlier webhooks have been reported.
  else process.send?.({ settled: true })
})

/** Returns whether the library verifies the webhook with the parent's secret for this name. */
function isSigned(name: string, body: string, headers: IncomingMessage['headers']): boolean {
  try {
    const given = { ...headers } as Record<string, string>
    new Webhook(secrets.get(name) ?? '').verify(body, given)
    return true
  } catch {
    return false
  }
}

/** The addresses that `down` has refused. */
const refused = new Set<string>()

const server = createServer((incoming, outgoing) => {
  void (async () => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks).toString()
    const { pathname, search } = new URL(incoming.url ?? '', 'http://x')
    const [, name = '', behaviour] = pathname.split('/')
    const isDown = behaviour === 'down' && !refused.has(incoming.url ?? '')
    refused.add(incoming.url ?? '')
    const signed = isSigned(name, body, incoming.headers)
    process.send?.({
      name,
      behaviour,
      signed,
      at: Date.now(),
      method: incoming.method,
      search,
      id: incoming.headers['webhook-id'],
      headers: incoming.headers,
      body,
    })
    if (behaviour === 'hang') return
    if (behaviour === '300ms') await sleep(300)
    if (behaviour === 'slow') await sleep(700)
    if (behaviour === 'redirect') outgoing.setHeader('location', 'http://169.254.169.254/latest/meta-data/')
    outgoing.statusCode = isDown || behaviour === '500' ? 500 : behaviour === 'redirect' ? 302 : 200
    outgoing.end(behaviour === 'long' ? 'x'.repeat(100_000) : `${behaviour}: ${body.length} bytes`)
  })()
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.({ port: (server.address() as AddressInfo).port })
process.on('disconnect', () => process.exit())
