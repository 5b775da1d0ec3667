import { isIPv4 } from 'node:net'

type Value = string | number | Value[] | { [name: string]: Value }

/** Builds a file in the MaxMind DB format with these networks: an IPv6 tree with 24-bit records. */
export function mmdb(networks: [address: string, prefix: number, value: Value][]): Buffer {
  type Node = [Node | number | undefined, Node | number | undefined]
  const root: Node = [undefined, undefined]
  const data: Buffer[] = []
  let dataLength = 0
  for (const [address, prefix, value] of networks) {
    const bits = isIPv4(address)
      ? '0'.repeat(96) +
        address
          .split('.')
          .map((part) => Number(part).toString(2).padStart(8, '0'))
          .join('')
      : groupsOf(address)
          .map((group) => Number.parseInt(group, 16).toString(2).padStart(16, '0'))
          .join('')
    const path = bits
      .slice(0, prefix + (isIPv4(address) ? 96 : 0))
      .split('')
      .map(Number)
    const last = path.pop() ?? 0
    let node = root
    for (const bit of path) {
      const next = node[bit]
      const created: Node = typeof next === 'object' ? next : [undefined, undefined]
      node[bit] = created
      node = created
    }
    // Negative until the number of nodes is known.
    node[last] = -1 - dataLength
    const encoded = encode(value)
    data.push(encoded)
    dataLength += encoded.length
  }
  const nodes: Node[] = []
  const number = (node: Node): void => {
    nodes.push(node)
    for (const next of node) if (typeof next === 'object') number(next)
  }
  number(root)
  const recordOf = (next: Node | number | undefined) =>
    next === undefined ? nodes.length : typeof next === 'number' ? nodes.length + 16 - 1 - next : nodes.indexOf(next)
  const tree = nodes.map((node) =>
    Buffer.from(node.map((next) => recordOf(next).toString(16).padStart(6, '0')).join(''), 'hex'),
  )
  const metadata = encode({ node_count: nodes.length, record_size: 24, ip_version: 6, database_type: 'City' })
  const marker = Buffer.concat([Buffer.from([0xab, 0xcd, 0xef]), Buffer.from('MaxMind.com')])
  return Buffer.concat([...tree, Buffer.alloc(16), ...data, marker, metadata])
}

function groupsOf(address: string): string[] {
  const [first = '', last = ''] = address.split('::')
  const [before, after] = [first.split(':').filter(Boolean), last.split(':').filter(Boolean)]
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after]
}

/** Returns the type and size that precede a value. */
function head(type: number, size: number): Buffer {
  const sizes = size < 29 ? [size] : [29, size - 29]
  return Buffer.from(
    type < 8 ? [(type << 5) | (sizes[0] ?? 0), ...sizes.slice(1)] : [sizes[0] ?? 0, type - 7, ...sizes.slice(1)],
  )
}

function encode(value: Value): Buffer {
  if (typeof value === 'string') return Buffer.concat([head(2, Buffer.byteLength(value)), Buffer.from(value)])
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(value)
    return Buffer.concat([head(6, 4), bytes])
  }
  if (Array.isArray(value)) return Buffer.concat([head(11, value.length), ...value.map(encode)])
  const entries = Object.entries(value)
  return Buffer.concat([head(7, entries.length), ...entries.flatMap(([name, entry]) => [encode(name), encode(entry)])])
}
