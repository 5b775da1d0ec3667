import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { type AddressEnv, resolve } from '../notifications/public-address.ts'

/**
 * The TXT record that proves that a domain belongs to a program. Its name has a prefix, because a domain with a CNAME can't have other
 * records.
 */
export const proofOf = (programId: number, domain: string) => ({
  name: `_svc.${hostOf(domain)}`,
  value: `svc-program-id=${programId}`,
})

const hostOf = (domain: string) => domain.split(':', 1)[0] ?? ''

const longestMilliseconds = 5000

/** Looks for the TXT record of a program's domain. Returns whether the record exists. Throws if the name service does not respond. */
export async function findsProof(env: AddressEnv, programId: number, domain: string): Promise<boolean> {
  const { name, value } = proofOf(programId, domain)
  const records = await resolve(name, 'TXT', env, AbortSignal.timeout(longestMilliseconds))
  // The name service puts quotes around the text.
  return records.some((record) => record.replaceAll('"', '').trim() === value)
}

/**
 * Looks for the TXT record of a program's domain, and stores the proof if the record belongs to the program. Returns whether it
 * belongs to the program. Throws if the name service does not respond.
 */
export async function proveDomain(
  db: Database,
  env: AddressEnv,
  { id, domain }: { id: number; domain: string },
): Promise<boolean> {
  if (!(await findsProof(env, id, domain))) return false
  await db.query(
    kysely
      .updateTable('programs')
      .set({
        domain_proven_at: (eb) => eb.fn<Date>('now'),
        domain_verified_at: (eb) => eb.fn.coalesce('domain_verified_at', eb.fn<Date>('now')),
      })
      .where('id', '=', id)
      .where('domain', '=', domain),
  )
  return true
}
