import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { seeded } from './random.ts'

const jsonType = 'application/x-amz-json-1.0'

export interface FaultyQueue {
  /** The address that replaces the queue's endpoint. */
  url: string
  /** While false, the proxy behaves like the real queue. */
  faulty: boolean
  /** The number of requests that it has disturbed. */
  faults: number
  /** The bodies of all messages that passed through. */
  bodies: string[]
  close(): Promise<void>
}

/**
 * A proxy that turns the emulator into the worst possible queue. It disappears, accepts messages without an answer, stores them twice,
 * and forgets deletions. It delivers messages in any order, and again while they are being processed.
 */
export async function startFaultyQueue(endpoint: string, seed: number, faultRate: number): Promise<FaultyQueue> {
  const random = seeded(seed, 77)
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readText(request)
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(([name]) => !['host', 'content-length', 'connection'].includes(name)),
    ) as Record<string, string>
    const forward = (text: string) => fetch(endpoint + (request.url ?? '/'), { method: 'POST', headers, body: text })
    const action = String(request.headers['x-amz-target']).split('.').at(-1)
    const faulty = queue.faulty && random.chance(faultRate)
    if (faulty) queue.faults += 1
    if (action === 'SendMessageBatch') queue.bodies.push(body)
    if (faulty && random.chance(0.4)) return void request.socket.destroy()
    if (faulty && action === 'SendMessageBatch') await forward(body)
    if (faulty && action === 'DeleteMessageBatch') {
      const { Entries } = JSON.parse(body) as { Entries: { Id: string }[] }
      response.writeHead(200, { 'content-type': jsonType })
      return void response.end(JSON.stringify({ Successful: Entries.map(({ Id }) => ({ Id })), Failed: [] }))
    }
    if (action !== 'ReceiveMessage') {
      const answered = await forward(body)
      const text = await answered.text()
      if (faulty && random.chance(0.5)) return void request.socket.destroy()
      response.writeHead(answered.status, { 'content-type': jsonType })
      return void response.end(text)
    }
    // A message without a visibility timeout is delivered to the next reader at once.
    const changed = { ...(JSON.parse(body) as object), WaitTimeSeconds: 0, ...(faulty && { VisibilityTimeout: 0 }) }
    const answered = await forward(JSON.stringify(changed))
    const { Messages = [], ...rest } = (await answered.json()) as { Messages?: object[] }
    const shuffled = Messages.map((message) => ({ message, place: random.next() })).toSorted(
      (a, b) => a.place - b.place,
    )
    response.writeHead(answered.status, { 'content-type': jsonType })
    response.end(JSON.stringify({ ...rest, Messages: shuffled.map(({ message }) => message) }))
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => request.socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error("The queue's port is unknown.")
  const queue: FaultyQueue = {
    url: `http://127.0.0.1:${address.port}`,
    faulty: true,
    faults: 0,
    bodies: [],
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
  return queue
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
