import type { InferResult } from 'kysely'
import { type Database, hexBytes } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import { generateApiKey } from './api-keys.ts'

/** A key as it is stored. `hint` is its last four characters. */
export type StoredApiKey = InferResult<ReturnType<typeof apiKeysStatement>>[number]

/** Makes an API key for a program and returns it. It is not kept and cannot be shown again. */
export async function createApiKey(db: Database, programId: number, name: string): Promise<string> {
  const { key, keyHash, hint } = await generateApiKey()
  const row = { program_id: programId, key_hash: hexBytes(keyHash), name, hint }
  await db.query(kysely.insertInto('api_keys').values(row))
  return key
}

/** A program's keys, the newest first, retired ones last. */
export async function listApiKeys(db: Database, programId: number): Promise<StoredApiKey[]> {
  return await db.query(apiKeysStatement(programId))
}

function apiKeysStatement(programId: number) {
  return kysely
    .selectFrom('api_keys')
    .select(['id', 'name', 'hint', 'created_at', 'retired_at'])
    .where('program_id', '=', programId)
    .orderBy((eb) => eb('retired_at', 'is not', null))
    .orderBy('id', 'desc')
}

/** Retires a key for good: calls that use it are refused with `api_key_retired` from now on. */
export async function retireApiKey(db: Database, programId: number, keyId: number): Promise<void> {
  await db.query(
    kysely
      .updateTable('api_keys')
      .set({ retired_at: now })
      .where('program_id', '=', programId)
      .where('id', '=', keyId)
      .where('retired_at', 'is', null),
  )
}
