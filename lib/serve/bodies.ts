import type { IncomingMessage } from 'node:http'

const limits = {
  /** The memory limit for all bodies that are being read. */
  bytes: 64 * 1024 * 1024,
  bodies: 1000,
  /** A client that sends nothing for this long has disappeared, or is blocking the connection on purpose. */
  idleMilliseconds: 10_000,
}

/**
 * Returns a function that reads a body, up to one byte more than `most`. If all bodies together use too much memory, it closes the oldest
 * connections. Normal bodies arrive quickly, so the oldest ones are stalled.
 */
export function openBodyReader({ bytes: mostBytes, bodies: mostBodies, idleMilliseconds } = limits): (
  incoming: IncomingMessage,
  most: number,
) => Promise<Buffer> {
  /** The bytes of each body, oldest first. */
  const open = new Map<IncomingMessage, number>()
  let together = 0

  function count(incoming: IncomingMessage, bytes: number): void {
    together += bytes - (open.get(incoming) ?? 0)
    open.set(incoming, bytes)
    for (const oldest of open.keys()) {
      if (together <= mostBytes && open.size <= mostBodies) return
      forget(oldest)
      oldest.destroy()
    }
  }

  function forget(incoming: IncomingMessage): void {
    together -= open.get(incoming) ?? 0
    open.delete(incoming)
  }

  return async (incoming, most) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // One buffer grows by doubling, because a chunk can be a single byte.
    let body = Buffer.alloc(0)
    let length = 0
    count(incoming, 0)
    incoming.setTimeout(idleMilliseconds, () => incoming.destroy())
    incoming.on('data', (chunk: Buffer) => {
      if (length + chunk.length > body.length) {
        const larger = Buffer.allocUnsafe(Math.max(2 * body.length, length + chunk.length))
        body.copy(larger)
        body = larger
        count(incoming, body.length)
      }
      chunk.copy(body, length)
      length += chunk.length
      if (length <= most) return
      incoming.pause()
      resolve()
    })
    incoming.on('end', resolve)
    incoming.on('error', reject)
    // A destroyed body doesn't always have an error.
    incoming.on('close', () => reject(new Error('The body ended early.')))
    try {
      await promise
    } finally {
      forget(incoming)
      incoming.setTimeout(0)
    }
    return body.subarray(0, length)
  }
}
