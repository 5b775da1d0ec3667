import { readFileSync } from 'node:fs'
import { isIPv4, SocketAddress } from 'node:net'

/** Where an address is, as far as it is known. */
export interface Place {
  country?: string
  region?: string
  city?: string
}

const marker = Buffer.from([0xab, 0xcd, 0xef, ...Buffer.from('MaxMind.com')])
const mostMetadataBytes = 128 * 1024

/**
 * Reads a file in the format MaxMind DB with cities or countries (GeoLite2, DB-IP and others have such).
 * @see https://maxmind.github.io/MaxMind-DB/
 */
export function openGeoFile(file: string): (address: string) => Place {
  const bytes = readFileSync(file)
  const start = bytes.lastIndexOf(marker)
  if (start === -1 || start < bytes.length - mostMetadataBytes) throw new Error(`${file} is no MaxMind DB.`)
  const metadata = new Decoder(bytes.subarray(start + marker.length)).read(0).value
  const nodes = numberOf(metadata, 'node_count')
  const recordBits = numberOf(metadata, 'record_size')
  const version = numberOf(metadata, 'ip_version')
  if (![24, 28, 32].includes(recordBits) || ![4, 6].includes(version)) throw new Error(`${file} is of an unknown kind.`)
  const nodeBytes = recordBits / 4
  const treeBytes = nodes * nodeBytes
  // Sixteen bytes of zeros separate the tree from the data.
  const data = new Decoder(bytes.subarray(treeBytes + 16, start))

  function child(node: number, bit: number): number {
    const at = node * nodeBytes
    if (recordBits === 24) return bytes.readUIntBE(at + bit * 3, 3)
    if (recordBits === 32) return bytes.readUInt32BE(at + bit * 4)
    // The middle byte holds the four highest bits of both.
    const middle = bytes.readUInt8(at + 3)
    return bit === 0
      ? ((middle & 0xf0) << 20) | bytes.readUIntBE(at, 3)
      : ((middle & 0x0f) << 24) | bytes.readUIntBE(at + 4, 3)
  }

  return (address) => {
    const bits = addressBytes(address, version)
    if (!bits) return {}
    let node = 0
    for (let index = 0; index < bits.length * 8 && node < nodes; index++) {
      node = child(node, ((bits[index >> 3] ?? 0) >> (7 - (index & 7))) & 1)
    }
    return node > nodes ? placeOf(data.read(node - nodes - 16).value) : {}
  }
}

/** Four or sixteen bytes; an IPv4 address stands in a tree of IPv6 below its lowest 32 bits. */
function addressBytes(address: string, version: number): Buffer | undefined {
  if (isIPv4(address)) {
    const four = Buffer.from(address.split('.').map(Number))
    return version === 4 ? four : Buffer.concat([Buffer.alloc(12), four])
  }
  if (version === 4) return undefined
  try {
    const [head = '', tail] = new SocketAddress({ address, family: 'ipv6' }).address.split('::')
    const [before, after] = [groups(head), groups(tail ?? '')]
    const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
    const sixteen = Buffer.alloc(16)
    for (const [index, group] of [...before, ...zeros, ...after].entries())
      sixteen.writeUInt16BE(Number.parseInt(group, 16), index * 2)
    return sixteen
  } catch {
    return undefined
  }
}

const groups = (part: string) => part.split(':').filter(Boolean)

class Decoder {
  readonly #bytes: Buffer

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /** The value at a place and where the next one begins. */
  read(at: number): { value: unknown; next: number } {
    const control = this.#bytes.readUInt8(at)
    let type = control >> 5
    let next = at + 1
    if (type === 1) return this.#pointer(control, next)
    if (type === 0) type = 7 + this.#bytes.readUInt8(next++)
    let size = control & 0x1f
    if (size > 28) {
      const extra = size - 28
      size = [29, 285, 65_821][extra - 1] ?? 0
      size += this.#bytes.readUIntBE(next, extra)
      next += extra
    }
    if (type === 7) return this.#map(size, next)
    if (type === 11) return this.#array(size, next)
    // A boolean has its value where others have their size.
    if (type === 14) return { value: size === 1, next }
    const content = this.#bytes.subarray(next, next + size)
    return { value: scalar(type, content), next: next + size }
  }

  #pointer(control: number, next: number): { value: unknown; next: number } {
    const size = (control >> 3) & 3
    const high = control & 7
    const rest = this.#bytes.readUIntBE(next, size + 1)
    const target = size === 3 ? rest : high * 256 ** (size + 1) + rest + ([0, 2048, 526_336][size] ?? 0)
    return { value: this.read(target).value, next: next + size + 1 }
  }

  #map(size: number, start: number): { value: unknown; next: number } {
    const value: Record<string, unknown> = {}
    let next = start
    for (let count = 0; count < size; count++) {
      const key = this.read(next)
      const entry = this.read(key.next)
      value[String(key.value)] = entry.value
      next = entry.next
    }
    return { value, next }
  }

  #array(size: number, start: number): { value: unknown; next: number } {
    const value: unknown[] = []
    let next = start
    for (let count = 0; count < size; count++) {
      const entry = this.read(next)
      value.push(entry.value)
      next = entry.next
    }
    return { value, next }
  }
}

/** Text and the numbers that are needed; of the other types the bytes. */
function scalar(type: number, content: Buffer): unknown {
  if (type === 2) return content.toString('utf8')
  if (type === 3) return content.readDoubleBE()
  if ((type === 5 || type === 6) && content.length > 0) return content.readUIntBE(0, content.length)
  if (type === 5 || type === 6) return 0
  return content
}

/** `{country: {iso_code}, subdivisions: [{names: {en}}], city: {names: {en}}}`, as far as a file has it. */
function placeOf(record: unknown): Place {
  const country = text(record, 'country', 'iso_code')
  const region = text(record, 'subdivisions', '0', 'names', 'en')
  const city = text(record, 'city', 'names', 'en')
  return { ...(country && { country }), ...(region && { region }), ...(city && { city }) }
}

function inside(value: unknown, names: string[]): unknown {
  return names.reduce<unknown>(
    (found, name) =>
      typeof found === 'object' && found !== null ? Object.getOwnPropertyDescriptor(found, name)?.value : undefined,
    value,
  )
}

function text(value: unknown, ...names: string[]): string | undefined {
  const found = inside(value, names)
  return typeof found === 'string' ? found : undefined
}

function numberOf(value: unknown, name: string): number {
  return Number(inside(value, [name]))
}
