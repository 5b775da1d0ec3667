/**
 * Returns the key under which every limit counts a visitor's address: a whole IPv4 address, or an IPv6 /64 because one visitor controls all of it.
 * It is never stored beyond the limit's window. Undefined for calls of the local stack from its own machine, which all visitors share.
 */
export function countedAddress(address: string | null): string | undefined {
  if (!address || address === '127.0.0.1' || address === '::1') return undefined
  if (!address.includes(':')) return address
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1]
  if (mapped) return mapped
  const [before = [], after = []] = address.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0')
  const network = [...before, ...zeros, ...after].slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}
