const consonants = 'bcdfghjklmnpqrstvwxz'

/**
 * Returns the path at which a program's site serves the tracker. It never changes. It has eight letters, so that it isn't on any block
 * list, and no vowels, so that it doesn't contain a word.
 */
export async function proxyPath({ id, domain }: { id: number; domain: string }): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(`${id} ${domain}`))
  return Array.from(new Uint8Array(digest, 0, 8), (byte) => consonants[byte % consonants.length]).join('')
}
