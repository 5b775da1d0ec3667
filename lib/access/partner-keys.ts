import type { InferResult } from 'kysely'
import { call, type Database, hexBytes, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { generateApiKey } from './api-keys.ts'

/** Read-only API keys with which partners read their own data in one program. */

/** A person, as the partner of a program. */
interface PartnerPerson {
  programId: number
  userId: string
}

/** A stored key. `hint` contains its last four characters. `last_used_at` is rounded to the hour. */
export type StoredPartnerKey = InferResult<ReturnType<typeof keysOf>>[number]

/** The maximum number of keys of a partner in a program. */
export const maxPartnerKeys = 5

function keysOf({ programId, userId }: PartnerPerson) {
  return kysely
    .selectFrom('partner_keys')
    .select(['id', 'hint', 'created_at', 'last_used_at'])
    .where('program_id', '=', programId)
    .where('user_id', '=', userId)
}

/** Lists a person's keys for a program, newest first. */
export async function listPartnerKeys(db: Database, of: PartnerPerson): Promise<StoredPartnerKey[]> {
  return await db.query(keysOf(of).orderBy('id', 'desc'))
}

/**
 * Creates a key and returns it. The key isn't stored and can't be shown again. Throws `conflict` if the partnership ended or has too many
 * keys.
 */
export async function createPartnerKey(db: Database, of: PartnerPerson): Promise<string> {
  const { key, keyHash, hint } = await generateApiKey('partner')
  const partner = kysely
    .selectFrom('partners as p')
    .where('p.program_id', '=', of.programId)
    .where('p.user_id', '=', of.userId)
    .where('p.ended_at', 'is', null)
  const [, added] = await db.batch([
    // This waits for concurrent creations, so that they count toward the limit.
    partner.select('p.id').forNoKeyUpdate(),
    kysely
      .insertInto('partner_keys')
      .columns(['program_id', 'partner_id', 'user_id', 'key_hash', 'hint'])
      .expression(
        partner
          .select((eb) => [
            'p.program_id',
            'p.id',
            eb.val(of.userId).as('user_id'),
            eb.val(hexBytes(keyHash)).as('key_hash'),
          ])
          .select((eb) => eb.val(hint).as('hint'))
          .where(
            keysOf(of)
              .clearSelect()
              .select((eb) => eb.fn.countAll().as('keys')),
            '<',
            maxPartnerKeys,
          ),
      )
      .returning('id'),
  ])
  if (added.length > 0) return key
  throw new ApiError('conflict', 'You can have at most 5 API keys per program. Revoke one first.')
}

/** Revokes a key permanently. Throws `not_found` for somebody else's key. */
export async function revokePartnerKey(db: Database, of: PartnerPerson, keyId: number): Promise<void> {
  const deleted = await db.query(
    kysely
      .deleteFrom('partner_keys')
      .where('program_id', '=', of.programId)
      .where('user_id', '=', of.userId)
      .where('id', '=', keyId)
      .returning('id'),
  )
  if (deleted.length === 0) throw new ApiError('not_found', 'You have no API key with this id.')
}

/** Finds the partner of a key. Throws `unauthorized` for a key that is unknown or revoked, or that belongs to an ended partnership. */
export async function checkPartnerKey(
  db: Database,
  keyHash: string,
): Promise<{ programId: number; partnerId: number; currency: string }> {
  const [row] = await retryOnce(() => db.query(call('check_partner_key', { hash: hexBytes(keyHash) })))
  const { program_id: programId = null, partner_id: partnerId = null, currency = null } = row ?? {}
  if (programId === null || partnerId === null || currency === null) {
    throw new ApiError(
      'unauthorized',
      'The API key is not valid: it was revoked, it was copied incorrectly, or your partnership ended. Create a new one in the portal.',
    )
  }
  return { programId, partnerId, currency }
}
