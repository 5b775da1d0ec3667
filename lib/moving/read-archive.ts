import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { Unzip, UnzipInflate } from 'fflate'
import * as z from 'zod/mini'
import { maxLogoBytes } from '../programs/logo-image.ts'
import { accepts } from './archive-fields.ts'
import { archiveVersion, kindNames, kindOf, type KindName } from './archive-kinds.ts'

/** The reason why the service refused an archive, for its owner. */
export class RefusedArchive extends Error {}

/** A row of an archive, in the order of its file. */
export interface ArchiveRow {
  kind: KindName
  fields: Record<string, unknown>
}

/** The bytes of an archive in parts, because a large archive doesn't fit into memory or into one request. Parts are numbered from 1. */
export interface ArchiveParts {
  count: number
  read(part: number): Promise<Uint8Array>
}

/** An archive in one part. */
export const wholeArchive = (content: Uint8Array): ArchiveParts => ({ count: 1, read: async () => content })

/** Decodes base64. `Uint8Array.from` with a function would take four seconds for the largest file, and all other requests would wait. */
export function fromBase64(encoded: string): Uint8Array {
  const characters = atob(encoded)
  const bytes = new Uint8Array(characters.length)
  for (let at = 0; at < bytes.length; at++) bytes[at] = characters.charCodeAt(at)
  return bytes
}

const most = {
  manifestBytes: 64 * 1024,
  rows: 1_000_000,
  bytes: 1024 ** 3,
  /** Real rows expand to at most about thirty times their compressed bytes. A small archive could otherwise take half a minute to unpack. */
  expansion: 100,
  alwaysUnpacked: 16 * 1024 * 1024,
  /** The longest line has a logo, with two hexadecimal digits for each byte. */
  lineLength: 2 * maxLogoBytes + 64 * 1024,
}
/** The number of compressed bytes that are unpacked at once. They expand to at most a thousand times as many bytes. */
const sliceBytes = 4 * 1024
/** After unpacking this much, other requests get their turn. */
const bytesAtOnce = 4 * 1024 * 1024

const size = z.number().check(z.int(), z.minimum(0))
const manifestSchema = z.object({
  format: z.literal('program-archive'),
  version: z.literal(archiveVersion),
  email_key: z.string().check(z.maxLength(200)),
  files: z
    .array(z.object({ name: z.string(), rows: size, bytes: size, sha256: z.string().check(z.length(64)) }))
    .check(z.maxLength(100)),
})
export type ReadManifest = z.output<typeof manifestSchema>

const names = new Map<string, KindName | undefined>(
  kindNames.flatMap((kind) => [
    [`data/${kind}.jsonl`, kind] as const,
    // The same rows for people and spreadsheets. Only their hash is checked.
    [`csv/${kind}.csv`, undefined] as const,
  ]),
)

/** Reads and checks an archive's manifest, which is its last file. Throws RefusedArchive. */
export async function readManifest(parts: ArchiveParts): Promise<ReadManifest> {
  let manifest: unknown
  try {
    manifest = JSON.parse(manifestIn(await endOf(parts)))
  } catch (error) {
    if (error instanceof RefusedArchive) throw error
  }
  const version = z.object({ format: z.literal('program-archive'), version: z.number() }).safeParse(manifest)
  if (!version.success) throw new RefusedArchive('The archive has no readable manifest.json. Export the program again.')
  if (version.data.version !== archiveVersion) {
    throw new RefusedArchive(
      `The archive has version ${version.data.version}, and this instance reads version ${archiveVersion}. Update the older instance, then export again.`,
    )
  }
  const read = manifestSchema.safeParse(manifest)
  if (!read.success) throw new RefusedArchive('The manifest of the archive is damaged. Export the program again.')
  checkFiles(read.data)
  return read.data
}

/** Returns the last two parts of an archive, because the last part can be only a few bytes. */
async function endOf(parts: ArchiveParts): Promise<Uint8Array> {
  const last = await parts.read(parts.count)
  if (parts.count === 1) return last
  const before = await parts.read(parts.count - 1)
  const end = new Uint8Array(before.length + last.length)
  end.set(before)
  end.set(last, before.length)
  return end
}

const header = Uint8Array.of(0x50, 0x4b, 3, 4)
const endRecord = Uint8Array.of(0x50, 0x4b, 5, 6)
const [headerBytes, endRecordBytes] = [30, 22]
const manifestName = new TextEncoder().encode('manifest.json')
/** The compressed manifest and the directory of at most 100 files. A search in more bytes would let a hostile file take minutes. */
const tailBytes = 128 * 1024

/** Unpacks the last entry named manifest.json, up to the maximum size of a manifest. Returns an empty text if there is none. */
function manifestIn(archive: Uint8Array): string {
  const end = archive.subarray(-tailBytes)
  const has = (bytes: Uint8Array, at: number) => bytes.every((byte, n) => end[at + n] === byte)
  if (!has(endRecord, end.length - endRecordBytes))
    throw new RefusedArchive('The file is not a complete ZIP archive. Download it again.')
  let at = end.length - endRecordBytes
  while (at >= 0 && !(end[at] === header[0] && has(header, at) && has(manifestName, at + headerBytes))) at--
  if (at < 0) return ''
  let text = ''
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const unzip = new Unzip((entry) => {
    if (entry.name !== 'manifest.json') return
    entry.ondata = (error, data, isLast) => {
      if (error) throw error
      text += decoder.decode(data, { stream: !isLast })
      if (text.length > most.manifestBytes) throw new RangeError('The manifest is too large.')
    }
    entry.start()
  })
  unzip.register(UnzipInflate)
  for (let from = at; from < end.length; from += sliceBytes) {
    unzip.push(end.subarray(from, from + sliceBytes))
  }
  return text
}

function checkFiles({ files }: ReadManifest): void {
  const fileNames = new Set(files.map(({ name }) => name))
  const unknown = files.find(({ name }) => !names.has(name))
  if (unknown) throw new RefusedArchive(`The archive has an unknown file: ${shown(unknown.name)}.`)
  const missing = kindNames.find((kind) => !fileNames.has(`data/${kind}.jsonl`))
  if (missing) throw new RefusedArchive(`The archive has no file data/${missing}.jsonl. Export the program again.`)
  const rows = files.reduce((sum, file) => sum + (names.get(file.name) ? file.rows : 0), 0)
  if (rows > most.rows) throw new RefusedArchive('The archive has more than 1,000,000 rows, which is too many.')
  if (bytesOfFiles({ files }) > most.bytes)
    throw new RefusedArchive('The files of the archive have more than 1 GiB, which is too large.')
}

/** Returns the size of the files of an archive. */
export const bytesOfFiles = ({ files }: Pick<ReadManifest, 'files'>) => files.reduce((sum, { bytes }) => sum + bytes, 0)

const shown = (name: string) => JSON.stringify(name.slice(0, 100))

/**
 * Reads the rows of an archive, page by page, and compares each file with the manifest. It keeps no more than the rows of one slice in
 * memory. Throws RefusedArchive, perhaps after it returned rows.
 */
export async function* readArchive(parts: ArchiveParts, { files }: ReadManifest): AsyncGenerator<ArchiveRow[], void> {
  let rows: ArchiveRow[] = []
  let [packed, unpackedInAll, unpacked] = [0, 0, 0]
  const manifest = { name: 'manifest.json', rows: 0, bytes: most.manifestBytes, sha256: '' }
  const open = new Map([...files, manifest].map((file) => [file.name, file]))
  const unzip = new Unzip((entry) => {
    const { name } = entry
    // Each file occurs once. Otherwise a hostile archive could have hundreds of thousands of entries.
    const file = open.get(name)
    if (!file) throw new RefusedArchive(`The archive has a file that its manifest does not list: ${shown(name)}.`)
    open.delete(name)
    const reader = lineReader(names.get(name), (row) => rows.push(row))
    const hash = sha256.create()
    let bytes = 0
    entry.ondata = (error, data, isLast) => {
      // The unpacker also passes on errors that this function has thrown.
      if (error) throw error instanceof RefusedArchive ? error : damaged(name)
      bytes += data.length
      unpacked += data.length
      unpackedInAll += data.length
      if (bytes > file.bytes) throw damaged(name)
      if (unpackedInAll > most.alwaysUnpacked + most.expansion * packed)
        throw new RefusedArchive('The archive expands to more than a hundred times its size. Export the program again.')
      hash.update(data)
      const read = reader(data, isLast)
      if (
        isLast &&
        file !== manifest &&
        (bytesToHex(hash.digest()) !== file.sha256 || (names.get(name) && read !== file.rows))
      )
        throw damaged(name)
    }
    entry.start()
  })
  unzip.register(UnzipInflate)
  for (let part = 1; part <= parts.count; part++) {
    const content = await parts.read(part)
    for (let at = 0; at < content.length; at += sliceBytes) {
      const end = Math.min(at + sliceBytes, content.length)
      packed += end - at
      try {
        unzip.push(content.subarray(at, end), part === parts.count && end === content.length)
      } catch (error) {
        throw error instanceof RefusedArchive ? error : damaged('archive')
      }
      if (rows.length > 0) yield rows
      rows = []
      if (unpacked < bytesAtOnce) continue
      unpacked = 0
      await new Promise((resolve) => setTimeout(resolve))
    }
  }
  const [missing] = open.keys()
  if (missing !== undefined) throw damaged(missing)
}

const damaged = (name: string) =>
  new RefusedArchive(`The archive is damaged: ${shown(name)} differs from the manifest. Download it again.`)

/** Returns a function that takes the next bytes of a file and returns the number of lines so far. Files without a kind have no lines. */
function lineReader(kind: KindName | undefined, take: (row: ArchiveRow) => void) {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let rest = ''
  let read = 0
  return (data: Uint8Array, isLast: boolean): number => {
    if (kind === undefined) return 0
    try {
      rest += decoder.decode(data, { stream: !isLast })
    } catch {
      throw damaged(`data/${kind}.jsonl`)
    }
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > most.lineLength || (isLast && rest !== '')) throw damaged(`data/${kind}.jsonl`)
    for (const line of lines) {
      read += 1
      take({ kind, fields: fieldsIn(kind, line, read) })
    }
    return read
  }
}

function fieldsIn(kind: KindName, line: string, number: number): Record<string, unknown> {
  const at = `Line ${number} of data/${kind}.jsonl`
  let parsed: unknown
  try {
    parsed = JSON.parse(line)
  } catch {
    throw new RefusedArchive(`${at} is not JSON. Export the program again.`)
  }
  const read = z.record(z.string(), z.unknown()).safeParse(parsed)
  if (!read.success) throw new RefusedArchive(`${at} is not an object. Export the program again.`)
  const { fields } = kindOf(kind)
  const unknown = Object.keys(read.data).find((field) => !Object.hasOwn(fields, field))
  if (unknown !== undefined) throw new RefusedArchive(`${at} has an unknown field: ${shown(unknown)}.`)
  const wrong = Object.keys(fields).find((field) => !accepts(kindOf(kind), field, read.data[field]))
  if (wrong !== undefined) throw new RefusedArchive(`${at} has no valid ${wrong}. Export the program again.`)
  return read.data
}
