import { type InferResult, sql } from 'kysely'
import { type Database, hexBytes } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import { generateApiKey, type KeyScope } from './api-keys.ts'

/** A stored key. `hint` contains its last four characters. `last_used_at` is rounded to the hour. */
export type StoredApiKey = InferResult<ReturnType<typeof apiKeysStatement>>[number]

/** Creates an API key for a program and returns it. The key isn't stored and can't be shown again. Without `days`, it never expires. */
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
  const row = {
    program_id: programId,
    key_hash: hexBytes(keyHash),
    name,
    hint,
    scopes: [...scopes],
    created_by: createdBy,
    expires_at: days === undefined ? null : sql<Date>`now() + make_interval(days => ${days})`,
  }
  await db.query(kysely.insertInto('api_keys').values(row))
  return key
}

/** Lists a program's keys, newest first, and revoked keys last. */
export async function listApiKeys(db: Database, programId: number): Promise<StoredApiKey[]> {
  return await db.query(apiKeysStatement(programId))
}

/** The statement of `listApiKeys`. */
export function apiKeysStatement(programId: number) {
  return kysely
    .selectFrom('api_keys as k')
    .leftJoin('users as u', 'u.id', 'k.created_by')
    .select(['k.id', 'k.name', 'k.hint', 'k.scopes', 'k.created_at', 'k.expires_at', 'k.last_used_at', 'k.revoked_at'])
    .select((eb) => ['u.name as creator', eb('k.expires_at', '<=', now).as('is_expired')])
    .where('k.program_id', '=', programId)
    .orderBy((eb) => eb('k.revoked_at', 'is not', null))
    .orderBy('k.id', 'desc')
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
