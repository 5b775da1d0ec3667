import { isSignedByProxy, type ProxyEnv, readProxyKeyName } from '../access/proxy-keys.ts'

/** A visitor, as described by the proxy on an integrator's own domain. See tracker/src/proxy.ts. */
export interface ProxiedVisitor {
  /** The program whose key signed the header, and the number of that key. */
  programId: number
  keyNumber: number
  /** Empty if the proxy doesn't know the address. */
  address: string
  country: string | null
  region: string | null
  city: string | null
}

export const visitorHeader = 'svc-visitor'

const toleranceSeconds = 300

/**
 * Reads the visitor from the header, a query string that ends with `&signature=<64 hexadecimal digits>`. Returns undefined if no key of the
 * stated program signed it, or if its time (Unix seconds) is more than five minutes away. Doesn't check whether the key has expired.
 */
export async function readProxiedVisitor(
  header: string | null,
  env: ProxyEnv,
  now = Date.now(),
): Promise<ProxiedVisitor | undefined> {
  if (header === null) return undefined
  const [, text = '', signature = ''] = /^(.{1,2048})&signature=([0-9a-f]{64})$/.exec(header) ?? []
  const fields = new URLSearchParams(text)
  const field = (name: string) => fields.get(name) ?? ''
  const key = readProxyKeyName(field('program'))
  const age = Math.abs(now / 1000 - Number(field('time') || Number.NaN))
  if (!key || !(age <= toleranceSeconds)) return undefined
  if (!(await isSignedByProxy(env, key, text, signature))) return undefined
  // Cutting the text can split a character.
  const kept = (name: string) => field(name).replaceAll('\0', '').slice(0, 255).toWellFormed()
  return {
    ...key,
    address: kept('address'),
    country: kept('country') || null,
    region: kept('region') || null,
    city: kept('city') || null,
  }
}
