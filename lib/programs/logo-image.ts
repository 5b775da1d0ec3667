import { ApiError } from '../errors.ts'

/** Uploaded logos. They are copied without metadata, so that an image contains nothing but its pixels. */

export const maxLogoBytes = 512 * 1024
const [minPixels, maxPixels] = [16, 2000]

export type LogoType = 'png' | 'jpeg' | 'webp'
export interface LogoImage {
  type: LogoType
  bytes: Uint8Array<ArrayBuffer>
}

interface Parsed {
  width: number
  height: number
  /** The parts of the file that are kept, in order. */
  parts: Uint8Array[]
}

const damaged = 'The file is damaged. Save the image again, and then upload it.'

/**
 * Reads a PNG, JPEG or WebP image and returns it without metadata, comments, and anything after its end. The type is that of the content,
 * no matter what the file's name says. Throws `invalid_request` with a sentence for the uploader.
 */
export function readLogo(file: Uint8Array): LogoImage {
  if (file.length > maxLogoBytes) throw refusal(`The image can have ${maxLogoBytes / 1024} KiB at most.`)
  const type = typeOf(file)
  const { width, height, parts } = readers[type](file)
  if (Math.min(width, height) < minPixels || Math.max(width, height) > maxPixels) {
    throw refusal(
      `The image has ${width} × ${height} pixels. Each side must have ${minPixels} to ${maxPixels.toLocaleString('en-US')}.`,
    )
  }
  return { type, bytes: joined(parts) }
}

const refusal = (message: string) => new ApiError('invalid_request', message)

function typeOf(file: Uint8Array): LogoType {
  if (text(file, 0, 8) === '\u0089PNG\r\n\u001A\n') return 'png'
  if (file[0] === 0xff && file[1] === 0xd8 && file[2] === 0xff) return 'jpeg'
  if (text(file, 0, 4) === 'RIFF' && text(file, 8, 12) === 'WEBP') return 'webp'
  if (/^(\uFEFF)?\s*<(\?xml|svg|!doctype svg|!--)/i.test(new TextDecoder().decode(file.subarray(0, 200))))
    throw refusal('An SVG file can contain scripts. Upload the logo as PNG, JPEG or WebP.')
  throw refusal('This is not a PNG, JPEG or WebP image.')
}

function text(file: Uint8Array, from: number, to: number): string {
  return String.fromCodePoint(...file.subarray(from, to))
}

function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

/** Reads big-endian or little-endian integers from a file. Throws if the file is too short. */
function numbersOf(file: Uint8Array) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength)
  const read = (at: number, bytes: number, isLittle = false): number => {
    if (at + bytes > file.length) throw refusal(damaged)
    let value = 0
    for (let index = 0; index < bytes; index++)
      value = value * 256 + view.getUint8(at + (isLittle ? bytes - 1 - index : index))
    return value
  }
  return read
}

/** The chunks that change pixels. Text, time, profiles and animations are dropped. */
const pngChunks = new Set(['IHDR', 'PLTE', 'tRNS', 'IDAT', 'IEND'])

function readPng(file: Uint8Array): Parsed {
  const read = numbersOf(file)
  const parts = [file.subarray(0, 8)]
  let [at, name] = [8, '']
  while (name !== 'IEND') {
    const end = at + 12 + read(at, 4)
    name = text(file, at + 4, at + 8)
    if (end > file.length || (at === 8) !== (name === 'IHDR')) throw refusal(damaged)
    if (pngChunks.has(name)) parts.push(file.subarray(at, end))
    at = end
  }
  return { width: read(16, 4), height: read(20, 4), parts }
}

const isJpegData = (next: number) => next === 0 || (next >= 0xd0 && next <= 0xd7)
/** JFIF and Adobe segments say how to read the colors. All other application segments and comments are metadata. */
const isJpegMetadata = (marker: number, segment: Uint8Array) =>
  marker === 0xfe ||
  (marker >= 0xe0 &&
    marker <= 0xef &&
    !(marker === 0xe0 && segment.length === 18 && text(segment, 4, 9) === 'JFIF\0') &&
    !(marker === 0xee && segment.length === 16 && text(segment, 4, 9) === 'Adobe'))
/** The start of a frame, without the tables and extensions in the same range. */
const isJpegFrame = (marker: number) => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)

function readJpeg(file: Uint8Array): Parsed {
  const read = numbersOf(file)
  const parts = [file.subarray(0, 2)]
  let [at, width, height] = [2, 0, 0]
  for (;;) {
    if (read(at, 1) !== 0xff) throw refusal(damaged)
    const marker = read(at + 1, 1)
    if (marker === 0xff) {
      at += 1
      continue
    }
    if (marker === 0xd9) {
      parts.push(file.subarray(at, at + 2))
      return { width, height, parts }
    }
    let end = at + 2 + read(at + 2, 2)
    if (isJpegFrame(marker)) {
      if (width > 0) throw refusal(damaged)
      ;[height, width] = [read(at + 5, 2), read(at + 7, 2)]
    }
    // The data of a scan follows its header, up to the next marker that isn't a stuffed byte or a restart.
    if (marker === 0xda) {
      while (read(end, 1) !== 0xff || isJpegData(read(end + 1, 1))) end += 1
    }
    if (end > file.length) throw refusal(damaged)
    if (!isJpegMetadata(marker, file.subarray(at, end))) parts.push(file.subarray(at, end))
    at = end
  }
}

function readWebp(file: Uint8Array): Parsed {
  const read = numbersOf(file)
  const parts: Uint8Array[] = []
  let [width, height, hasPixels] = [0, 0, false]
  // The size in the header is that of the image behind it. Otherwise, a small header could hide a huge image.
  const setSize = (size: [width: number, height: number]) => {
    if (width > 0 && (width !== size[0] || height !== size[1])) throw refusal(damaged)
    ;[width, height] = size
  }
  const end = 8 + read(4, 4, true)
  if (end > file.length) throw refusal(damaged)
  for (let at = 12; at + 8 <= end;) {
    const [name, bytes] = [text(file, at, at + 4), read(at + 4, 4, true)]
    const next = at + 8 + bytes + (bytes % 2)
    if (at + 8 + bytes > end) throw refusal(damaged)
    if (name === 'ANIM' || name === 'ANMF') throw refusal('A logo cannot be animated. Upload a single image.')
    if (name === 'VP8X') {
      setSize([read(at + 12, 3, true) + 1, read(at + 15, 3, true) + 1])
      const header = file.slice(at, next)
      // Keeps the transparency flag. The other flags announce metadata.
      header[8] = (header[8] ?? 0) & 0x10
      parts.push(header)
    }
    if (name === 'VP8 ') setSize([read(at + 14, 2, true) & 0x3fff, read(at + 16, 2, true) & 0x3fff])
    if (name === 'VP8L') {
      const size = read(at + 9, 4, true)
      setSize([(size & 0x3fff) + 1, ((size >>> 14) & 0x3fff) + 1])
    }
    hasPixels ||= name === 'VP8 ' || name === 'VP8L'
    if (name === 'VP8 ' || name === 'VP8L' || name === 'ALPH') parts.push(file.slice(at, next))
    at = next
  }
  if (!hasPixels) throw refusal(damaged)
  const body = joined(parts)
  const header = new Uint8Array(12)
  header.set(file.subarray(0, 12))
  new DataView(header.buffer).setUint32(4, body.length + 4, true)
  return { width, height, parts: [header, body] }
}

const readers: Record<LogoType, (file: Uint8Array) => Parsed> = {
  png: readPng,
  jpeg: readJpeg,
  webp: readWebp,
}
