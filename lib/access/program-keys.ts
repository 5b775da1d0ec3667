import { type InferResult, sql } from 'kysely'
import { type Database, hexBytes } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { generateApiKey, type KeyScope } from './api-keys.ts'

/** A stored key. `hint` contains its last four characters. `last_used_at` is rounded to the hour. */
export type StoredApiKey = InferResult<ReturnType<typeof apiKeysStatement>>[number]

/** The maximum number of keys of a program, without revoked ones. */
export const maxApiKeys = 100
/** The list of keys has all keys that are not revoked, and then the latest revoked ones. */
export const listedApiKeys = 200

/**
 * Creates an API key for a program and returns it. The key isn't stored and can't be shown again. Without `days`, it never expires. Throws
 * `conflict` if the program has too many keys.
 */
export async function createApiKey(
  db: Database,
  programId: number,
  name: string,
  {
    scopes = ['track'],
    days,
    createdBy = null,
  }: { scopes?: readonly KeyScope[]; days?: number; createdBy?: string | null } = {},
): Promise<string> {
  const { key, keyHash, hint } = await generateApiKey()
  const program = kysely.selectFrom('programs as p').where('p.id', '=', programId)
  const others = kysely
    .selectFrom('api_keys')
    .select((eb) => eb.fn.countAll().as('keys'))
    .where('program_id', '=', programId)
    .where('revoked_at', 'is', null)
  const [, added] = await db.batch([
    // This waits for concurrent creations, so that they count toward the limit.
    program.select('p.id').forNoKeyUpdate(),
    kysely
      .insertInto('api_keys')
      .columns(['program_id', 'key_hash', 'name', 'hint', 'scopes', 'created_by', 'expires_at'])
      .expression(
        program
          .select((eb) => [
            'p.id',
            eb.val(hexBytes(keyHash)).as('key_hash'),
            eb.val(name).as('name'),
            eb.val(hint).as('hint'),
            sql<string[]>`${[...scopes]}::text[]`.as('scopes'),
            eb.val(createdBy).as('created_by'),
            sql<Date | null>`now() + make_interval(days => ${days ?? null})`.as('expires_at'),
          ])
          .where(others, '<', maxApiKeys),
      )
      .returning('id'),
  ])
  if (added.length > 0) return key
  throw new ApiError('conflict', `A program can have at most ${maxApiKeys} API keys. Revoke one first.`)
}

/** Selects a program's keys, newest first, and revoked keys last. */
export function apiKeysStatement(programId: number) {
  return kysely
    .selectFrom('api_keys as k')
    .leftJoin('users as u', 'u.id', 'k.created_by')
    .select(['k.id', 'k.name', 'k.hint', 'k.scopes', 'k.created_at', 'k.expires_at', 'k.last_used_at', 'k.revoked_at'])
    .select((eb) => ['u.name as creator', eb('k.expires_at', '<=', now).as('is_expired')])
    .where('k.program_id', '=', programId)
    .orderBy((eb) => eb('k.revoked_at', 'is not', null))
    .orderBy('k.id', 'desc')
    .limit(listedApiKeys)
}

/** The number of days for which the previous proxy key stays valid after a rotation. */
export const proxyRotationDays = 7

/** Gives a program a new proxy key. The current key stays valid for `proxyRotationDays`. An older key expires at once. */
export async function rotateProxyKey(db: Database, programId: number): Promise<void> {
  await db.query(
    kysely
      .updateTable('programs')
      .set({
        proxy_key_number: (eb) => eb('proxy_key_number', '+', 1),
        previous_proxy_key_until: sql<Date>`now() + make_interval(days => ${proxyRotationDays})`,
      })
      .where('id', '=', programId),
  )
}

/** Revokes a key permanently. The service refuses its calls with `api_key_retired` from now on. */
export async function revokeApiKey(db: Database, programId: number, keyId: number): Promise<void> {
  await db.query(
    kysely
      .updateTable('api_keys')
      .set({ revoked_at: now })
      .where('program_id', '=', programId)
      .where('id', '=', keyId)
      .where('revoked_at', 'is', null),
  )
}
