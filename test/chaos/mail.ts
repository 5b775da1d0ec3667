import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { seeded } from './random.ts'

interface Sent {
  to: string[]
  text: string
}

export interface FaultyMail {
  url: string
  /** While false, every mail is accepted. */
  faulty: boolean
  faults: number
  /** The accepted mails, by their keys. */
  taken: Map<string, Sent>
  /** The rules that the sender has violated. */
  wrong: string[]
  close(): Promise<void>
}

/** The worst possible mail API. It disappears, is busy, and accepts mails without an answer. It recognizes a repeated mail by its key. */
export async function startFaultyMail(seed: number, faultRate: number): Promise<FaultyMail> {
  const random = seeded(seed, 78)
  function take(key: string, mail: Sent): void {
    const before = api.taken.get(key)
    if (before && before.text !== mail.text) api.wrong.push(`two mails have the key ${key}`)
    api.taken.set(key, mail)
  }
  const server = createServer((request, response) => {
    void (async () => {
      const mail = (await json(request)) as Sent
      const isFaulty = api.faulty && random.chance(faultRate)
      if (isFaulty) api.faults += 1
      const fault = isFaulty ? random.pick(['gone', 'busy', 'silent'] as const) : null
      if (fault !== 'gone' && fault !== 'busy') take(String(request.headers['idempotency-key']), mail)
      if (fault === 'busy') response.writeHead(503).end('{}')
      else if (fault === null) response.writeHead(200).end('{}')
      else request.socket.destroy()
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const api: FaultyMail = {
    url: `http://127.0.0.1:${port}/emails`,
    faulty: true,
    faults: 0,
    taken: new Map(),
    wrong: [],
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return api
}

/** Returns the number of notifications that each address received by mail. */
export function mailedTo({ taken }: FaultyMail): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { to, text } of taken.values()) {
    const lines = Array.from(text.matchAll(/^- .*?(?: \((\d+) times\))?$/gm), ([, times = '1']) => Number(times))
    const more = Number(/^And (\d+) more/m.exec(text)?.[1] ?? 0)
    for (const address of to)
      counts.set(
        address,
        lines.reduce((sum, times) => sum + times, (counts.get(address) ?? 0) + more),
      )
  }
  return counts
}
