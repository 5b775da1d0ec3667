/** Crockford's base 32. `readRecoveryCode` unifies the characters that look alike. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'

/** Generates ten recovery codes of 50 random bits each, such as `x7k2m-9qd4t`. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: 10 }, () => {
    const signs = Array.from(crypto.getRandomValues(new Uint8Array(10)), (byte) => alphabet[byte % 32])
    return `${signs.slice(0, 5).join('')}-${signs.slice(5).join('')}`
  })
}

/** Normalizes a typed recovery code: `X7K2M 9QDO1` becomes `x7k2m-9qd01`. */
export function readRecoveryCode(typed: string): string {
  const signs = typed
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
    .replaceAll('o', '0')
    .replaceAll(/[il]/g, '1')
  return `${signs.slice(0, 5)}-${signs.slice(5)}`
}
