import { createHmac } from 'node:crypto'
import type { Client } from 'pg'
import { withClient } from './migrate.ts'
import { OperatorError } from './operator-error.ts'

/** Those that what is stored, or what programs hold, was made with. */
const storedWith = ['AUTH_SECRET', 'EMAIL_HASH_KEY', 'PROXY_SECRET', 'WEBHOOK_SECRET'] as const

/** By the secret's name, in hex. */
type Fingerprints = ReadonlyMap<string, string>

/** How much of a fingerprint `REPLACED_SECRETS` repeats: enough that another secret is not meant by it. */
const namedLength = 12

const fingerprintOf = (secret: string) => createHmac('sha256', secret).update('fingerprint of a secret').digest('hex')

export async function readFingerprints(client: Pick<Client, 'query'>): Promise<Fingerprints> {
  const { rows } = await client.query<{ name: string; hex: string }>(
    `select name, encode(fingerprint, 'hex') as hex from secret_fingerprints`,
  )
  return new Map(rows.map(({ name, hex }) => [name, hex]))
}

/**
 * Sees that a database is used with the secrets that it was first used with, which are noted then as fingerprints. One that `replaced`
 * (the variable `REPLACED_SECRETS`) says to be new on purpose is noted in place of the old one.
 * @throws where another differs, with its name and what to do; nothing was changed then.
 */
export async function checkSecrets(
  databaseUrl: string,
  environment: Record<string, string | undefined>,
  replaced: string | undefined,
): Promise<void> {
  const given: Fingerprints = new Map(storedWith.map((name) => [name, fingerprintOf(environment[name] ?? '')]))
  await withClient(databaseUrl, 'svc-secrets', async (client) => {
    // What stands there stays, also that of a process which starts in the same moment.
    await client.query(
      `insert into secret_fingerprints (name, fingerprint)
      select name, decode(hex, 'hex') from unnest($1::text[], $2::text[]) as given (name, hex) on conflict do nothing`,
      [[...given.keys()], [...given.values()]],
    )
    const noted = await readFingerprints(client)
    const differing = refuseOthers(noted, given, replaced)
    for (const name of differing) {
      await client.query(
        `update secret_fingerprints set fingerprint = decode($2, 'hex'), noted_at = now() where name = $1`,
        [name, given.get(name)],
      )
    }
  })
}

/**
 * The names of the secrets that are `given` and differ from those that were `noted`, all of them on purpose.
 * @throws where one is not.
 */
export function refuseOthers(noted: Fingerprints, given: Fingerprints, replaced: string | undefined): string[] {
  const differing = [...given].filter(([name, hex]) => (noted.get(name) ?? hex) !== hex)
  const accepted = new Set(replaced?.split(/[\s,]+/))
  const named = differing.map(([name, hex]) => `${name}:${hex.slice(0, namedLength)}`)
  if (named.some((text) => !accepted.has(text))) {
    const names = differing.map(([name]) => name).join(' and another ')
    throw new OperatorError(
      `What this database holds was made with another ${names}. Put back what it was then, in secrets.json or as a variable; or, where it is new on purpose, set REPLACED_SECRETS=${named.join(',')}.`,
    )
  }
  return differing.map(([name]) => name)
}
