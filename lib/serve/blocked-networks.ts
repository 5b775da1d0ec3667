import { BlockList, isIP } from 'node:net'
import { readBlocks } from '../access/blocks.ts'
import type { Database } from '../database.ts'
import { logFailure } from './server.ts'

const everyMilliseconds = 5000

export interface BlockedNetworks {
  has(address: string): boolean
  stop(): void
}

/**
 * Keeps a list of the networks that the operator blocks (`npm run block`). Reads the list every five seconds. If this fails, the last list
 * is used.
 */
export function watchBlockedNetworks(db: Database): BlockedNetworks {
  let blocked = new BlockList()
  const read = async () => {
    const latest = new BlockList()
    for (const { network } of await readBlocks(db)) {
      const [address = '', prefix] = network?.split('/') ?? []
      const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
      if (isIP(address) !== 0) latest.addSubnet(address, Number(prefix ?? (family === 'ipv4' ? 32 : 128)), family)
    }
    blocked = latest
  }
  const readQuietly = () => void read().catch((error: unknown) => logFailure('blocks', error))
  readQuietly()
  const timer = setInterval(readQuietly, everyMilliseconds)
  timer.unref()
  return {
    has: (address) => isIP(address) !== 0 && blocked.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6'),
    stop: () => clearInterval(timer),
  }
}
