/**
 * Returns the key under which every limit counts a visitor's address. It is a whole IPv4 address, or an IPv6 /64, because one visitor
 * controls all of it. The key is never stored longer than the limit's window. Returns undefined for calls from the local stack's own
 * machine, because all its visitors share that address.
 */
export function countedAddress(address: string | null): string | undefined {
  const counted = readAddress(address)
  return Array.isArray(counted) ? `${counted.slice(0, 4).join(':')}::/64` : counted
}

/** Returns the network of a visitor's address, IPv4 /24 or IPv6 /48, for limits that all addresses of one network share. */
export function countedNetwork(address: string | null): string | undefined {
  const counted = readAddress(address)
  if (Array.isArray(counted)) return `${counted.slice(0, 3).join(':')}::/48`
  return counted?.replace(/\.\d+$/, '.0/24')
}

/** Returns an IPv4 address, or the groups of an IPv6 address. Returns undefined for calls from the local stack's own machine. */
function readAddress(address: string | null): string | string[] | undefined {
  if (!address || address === '127.0.0.1' || address === '::1') return undefined
  if (!address.includes(':')) return address
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1]
  if (mapped) return mapped
  const [before = [], after = []] = address.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0')
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16).toString(16))
}
