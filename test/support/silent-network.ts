import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A connection to a server on this machine whose network can go silent. */
export interface SilentNetwork {
  port: number
  /** Silences the network: on existing and new connections, nothing arrives and nothing is refused. */
  silence(): void
  /** Restores the network: new connections reach the server, and older connections end because they have lost data. */
  speak(): void
  close(): void
}

export async function startSilentNetwork(target: { host: string; port: number }): Promise<SilentNetwork> {
  const pairs = new Set<[Socket, Socket?]>()
  let isSilent = false

  function join(near: Socket, far: Socket, pair: [Socket, Socket?]): void {
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('data', (bytes) => void (isSilent || to.write(bytes)))
      from.on('error', () => {})
      from.on('close', () => {
        // In the meantime, neither side can see that the other side has closed the connection.
        if (isSilent) return
        to.destroy()
        pairs.delete(pair)
      })
    }
  }

  const server = createServer((near) => {
    if (isSilent) {
      near.on('error', () => {})
      pairs.add([near.resume()])
      return
    }
    const far = connect({ ...target, noDelay: true })
    const pair: [Socket, Socket] = [near.setNoDelay(), far]
    pairs.add(pair)
    join(near, far, pair)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  function endAll(): void {
    for (const pair of pairs) for (const socket of pair) socket?.destroy()
    pairs.clear()
  }
  const { port } = server.address() as AddressInfo
  return {
    port,
    silence() {
      isSilent = true
    },
    speak() {
      isSilent = false
      endAll()
    },
    close() {
      server.close()
      endAll()
    },
  }
}
