import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** Returns a tag byte, the length, and the content: ASN.1 in DER. */
function der(tag: number, ...parts: (Buffer | string)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)))
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: Buffer[]) => der(0x30, ...parts)
const identifier = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
/** YYMMDDHHMMSSZ */
const utcTime = (date: Date) => der(0x17, `${date.toISOString().slice(2, 19).replaceAll(/\D/g, '')}Z`)

/**
 * Creates a key and a self-signed certificate (RFC 5280) for these hosts, valid for a day. Node can read certificates
 * but not create them.
 */
export function selfSigned(hosts: string[]): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const ecdsaWithSha256 = sequence(identifier('2a8648ce3d040302'))
  const name = sequence(der(0x31, sequence(identifier('550403'), der(0x0c, 'a proxy of the tests'))))
  const names = sequence(...hosts.map((host) => der(0x82, host)))
  const day = 24 * 60 * 60 * 1000
  const certified = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1]), randomBytes(8)),
    ecdsaWithSha256,
    name,
    sequence(utcTime(new Date(Date.now() - day)), utcTime(new Date(Date.now() + day))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(identifier('551d11'), der(0x04, names)))),
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', certified, privateKey))
  const lines = sequence(certified, ecdsaWithSha256, signature)
    .toString('base64')
    .replaceAll(/.{64}(?!$)/g, '$&\n')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  }
}
