import { deflateSync } from 'node:zlib'

const ascii = (text: string) => Buffer.from(text, 'latin1')
const bigEndian = (value: number, bytes: number) => {
  const buffer = Buffer.alloc(bytes)
  buffer.writeUIntBE(value, 0, bytes)
  return buffer
}
const littleEndian = (value: number, bytes: number) => Buffer.from(bigEndian(value, bytes).toReversed())

/** A PNG image with a comment and text after its end. Its checksums are wrong, but nobody reads them. */
export function pngOf(width: number, height: number): Buffer {
  const chunk = (name: string, data: Buffer) =>
    Buffer.concat([bigEndian(data.length, 4), ascii(name), data, Buffer.alloc(4)])
  const size = Buffer.concat([bigEndian(width, 4), bigEndian(height, 4), Buffer.from([8, 0, 0, 0, 0])])
  return Buffer.concat([
    ascii('\x89PNG\r\n\x1a\n'),
    chunk('IHDR', size),
    chunk('tEXt', ascii('Comment\0secret')),
    chunk('IDAT', deflateSync(Buffer.alloc(height * (width + 1)))),
    chunk('IEND', Buffer.alloc(0)),
    ascii('<script>secret</script>'),
  ])
}

/** A JPEG image with an Exif segment, a comment and text after its end. */
export function jpegOf(width: number, height: number): Buffer {
  const segment = (marker: number, data: Buffer) =>
    Buffer.concat([Buffer.from([0xff, marker]), bigEndian(data.length + 2, 2), data])
  const frame = Buffer.concat([Buffer.from([8]), bigEndian(height, 2), bigEndian(width, 2), Buffer.from([1, 1, 17, 0])])
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    segment(0xe0, Buffer.concat([ascii('JFIF\0'), Buffer.from([1, 1, 0, 0, 1, 0, 1, 0, 0])])),
    segment(0xe0, ascii('JFXX\0secret')),
    segment(0xee, ascii('Adobe\0\0secret')),
    segment(0xe1, ascii('Exif\0\0secret')),
    segment(0xfe, ascii('secret')),
    segment(0xc0, frame),
    segment(0xda, Buffer.from([1, 1, 0, 0, 63, 0])),
    Buffer.from([1, 0xff, 0, 2, 0xff, 0xd0, 3, 0xff, 0xd9]),
    ascii('secret'),
  ])
}

/** A WebP image with an Exif chunk. `more` is the name of another chunk. `pixels` is the width of the pixels behind the header. */
export function webpOf(width: number, height: number, more = 'XMP ', pixels = width): Buffer {
  const chunk = (name: string, data: Buffer) =>
    Buffer.concat([ascii(name), littleEndian(data.length, 4), data, Buffer.alloc(data.length % 2)])
  const header = Buffer.concat([Buffer.from([0x3e, 0, 0, 0]), littleEndian(width - 1, 3), littleEndian(height - 1, 3)])
  const body = Buffer.concat([
    ascii('WEBP'),
    chunk('VP8X', header),
    chunk('VP8L', Buffer.concat([Buffer.from([0x2f]), littleEndian(pixels - 1 + (height - 1) * 2 ** 14, 4)])),
    chunk('EXIF', ascii('secret')),
    chunk(more, ascii('secret')),
  ])
  return Buffer.concat([ascii('RIFF'), littleEndian(body.length, 4), body])
}
