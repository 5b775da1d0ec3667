/** Creates a secret for a link: 256 random bits, base64url. */
export function newToken(): string {
  return base64Url(crypto.getRandomValues(new Uint8Array(32)))
}

/** Returns bytes as base64url without padding. */
export function base64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

/** Returns the SHA-256 of a token. The database stores only this hash. */
export async function hashToken(token: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(token)))
}

/** Compares two texts in constant time. */
export async function sameHash(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([hashToken(one), hashToken(other)])
  return a.reduce((difference, byte, index) => difference | (byte ^ (b[index] ?? 0)), 0) === 0
}
