import { countedAddress } from '../access/counted-address.ts'

/** The usage of one address in a minute, summed over all routes without a rate limit. */
const most = { requests: 3000, bodyBytes: 32 * 1024 * 1024 }
/** Invented addresses make the process forget counts instead of growing. */
const mostAddresses = 100_000

/**
 * Returns a function that counts a request and its body for a visitor's address, and returns whether the address has budget left. It
 * protects routes without a rate limit, such as scripts and events with a wrong signature. On Cloudflare, the edge protects them.
 */
export function openVisitorBudget(now = Date.now): (address: string, bodyBytes: number) => boolean {
  let minute = 0
  let used = new Map<string, { requests: number; bodyBytes: number }>()
  return (address, bodyBytes) => {
    const counted = countedAddress(address)
    if (counted === undefined) return true
    const current = Math.floor(now() / 60_000)
    if (current !== minute || used.size >= mostAddresses) used = new Map()
    minute = current
    const { requests = 0, bodyBytes: bytes = 0 } = used.get(counted) ?? {}
    const sum = { requests: requests + 1, bodyBytes: bytes + bodyBytes }
    used.set(counted, sum)
    return sum.requests <= most.requests && sum.bodyBytes <= most.bodyBytes
  }
}
