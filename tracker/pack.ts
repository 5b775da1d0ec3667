/**
 * Packs the package for integrators. The bytes depend only on the files, so a version has one checksum, and `npm ci` always accepts it.
 * npm's own tarballs change with the version of npm and zlib.
 */
import { gunzipSync, gzipSync } from 'fflate'

/** The text of each file by its path in the package. All files in the package are text. */
export type Files = Record<string, string>

/** Placeholders for the address of the service and the version until a package is served. */
export const placeholders = { baseUrl: '{{svc_base_url}}', version: '{{svc_version}}' }

export const fillIn = (text: string, { baseUrl, version }: typeof placeholders) =>
  text.replaceAll(placeholders.baseUrl, baseUrl).replaceAll(placeholders.version, version)

/** Builds the package of a service from a package with placeholders. */
export const packFor = (template: Uint8Array, values: typeof placeholders): Buffer =>
  pack(Object.fromEntries(Object.entries(unpack(template)).map(([path, text]) => [path, fillIn(text, values)])))

export const fileName = (version: string) => `svc-tracker-${version}.tgz`

const block = 512

/** Packs files into a tarball that npm installs. */
export function pack(files: Files): Buffer {
  const blocks = Object.entries(files)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([path, text]) => {
      const content = Buffer.from(text)
      return [header(path, content.length), content, Buffer.alloc(-content.length & (block - 1))]
    })
  return Buffer.from(gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * block)]), { level: 9, mtime: 0 }))
}

const octal = (value: number, length: number) => value.toString(8).padStart(length - 1, '0')

function header(path: string, size: number): Buffer {
  const bytes = Buffer.alloc(block)
  bytes.write(`package/${path}`, 0)
  bytes.write(octal(path === 'dist/svc.js' ? 0o755 : 0o644, 8), 100)
  bytes.write(octal(0, 8), 108)
  bytes.write(octal(0, 8), 116)
  bytes.write(octal(size, 12), 124)
  // The date that npm uses too, because some tools refuse dates before 1980.
  bytes.write(octal(499_162_500, 12), 136)
  bytes.write('        0', 148)
  bytes.write('ustar\u000000', 257)
  const checksum = bytes.reduce((sum, byte) => sum + byte, 0)
  bytes.write(`${octal(checksum, 7)}\u0000 `, 148)
  return bytes
}

/** Reads a tarball that `pack` wrote. */
export function unpack(tarball: Uint8Array): Files {
  const bytes = Buffer.from(gunzipSync(tarball))
  const files: Files = {}
  for (let at = 0; bytes[at];) {
    const field = (start: number, length: number) =>
      bytes.toString('utf8', at + start, at + start + length).replace(/\0.*$/, '')
    const size = parseInt(field(124, 12), 8)
    const start = at + block
    files[field(0, 100).replace('package/', '')] = bytes.toString('utf8', start, start + size)
    at = start + Math.ceil(size / block) * block
  }
  return files
}
