import { createHmac } from 'node:crypto'
import type { Client } from 'pg'
import { withClient } from './migrate.ts'
import { OperatorError } from './operator-error.ts'

/** Secrets on which stored data depends, or of which programs have copies. */
const storedWith = ['AUTH_SECRET', 'EMAIL_HASH_KEY', 'PROXY_SECRET', 'WEBHOOK_SECRET'] as const

/** Fingerprints in hex, by the secret's name. */
type Fingerprints = ReadonlyMap<string, string>

/** The length of a fingerprint's prefix in `REPLACED_SECRETS`. It is long enough to identify one secret. */
const namedLength = 12

const fingerprintOf = (secret: string) => createHmac('sha256', secret).update('fingerprint of a secret').digest('hex')

export async function readFingerprints(client: Pick<Client, 'query'>): Promise<Fingerprints> {
  const { rows } = await client.query<{ name: string; hex: string }>(
    `select name, encode(fingerprint, 'hex') as hex from secret_fingerprints`,
  )
  return new Map(rows.map(({ name, hex }) => [name, hex]))
}

/**
 * Checks that the service uses the secrets of its database, and stores their fingerprints on first use. A secret in `replaced` (the
 * variable `REPLACED_SECRETS`) gets a new fingerprint.
 * @throws if another secret differs, with its name and a remedy. In that case, nothing is changed.
 */
export async function checkSecrets(
  databaseUrl: string,
  environment: Record<string, string | undefined>,
  replaced: string | undefined,
): Promise<void> {
  const current: Fingerprints = new Map(storedWith.map((name) => [name, fingerprintOf(environment[name] ?? '')]))
  await withClient(databaseUrl, 'svc-secrets', async (client) => {
    // Existing rows win, including rows of a process that starts at the same moment.
    await client.query(
      `insert into secret_fingerprints (name, fingerprint)
      select name, decode(hex, 'hex') from unnest($1::text[], $2::text[]) as current (name, hex) on conflict do nothing`,
      [[...current.keys()], [...current.values()]],
    )
    const noted = await readFingerprints(client)
    const differing = refuseOthers(noted, current, replaced)
    for (const name of differing) {
      await client.query(
        `update secret_fingerprints set fingerprint = decode($2, 'hex'), noted_at = now() where name = $1`,
        [name, current.get(name)],
      )
    }
  })
}

/**
 * Returns the names of the secrets that differ from `noted` because somebody replaced them on purpose.
 * @throws if another secret differs.
 */
export function refuseOthers(noted: Fingerprints, current: Fingerprints, replaced: string | undefined): string[] {
  const differing = [...current].filter(([name, hex]) => (noted.get(name) ?? hex) !== hex)
  const accepted = new Set(replaced?.split(/[\s,]+/))
  const named = differing.map(([name, hex]) => `${name}:${hex.slice(0, namedLength)}`)
  if (named.some((text) => !accepted.has(text))) {
    const names = differing.map(([name]) => name).join(' and another ')
    throw new OperatorError(
      `This database was used with another ${names}. Put back the old value, in secrets.json or as a variable. If you replaced it on purpose, set REPLACED_SECRETS=${named.join(',')}.`,
    )
  }
  return differing.map(([name]) => name)
}
