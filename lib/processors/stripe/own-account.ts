import { sql } from 'kysely'
import { newToken } from '../../access/tokens.ts'
import type { Database } from '../../database.ts'
import { ApiError } from '../../errors.ts'
import { kysely, now } from '../../kysely.ts'
import { reasonText } from '../../processor-reasons.ts'
import { ownAccount, type StripeEnv } from './client.ts'
import { ownershipEventTypes } from './read-ownership.ts'

export const ownAccountIsTaken =
  'The Stripe account of this deployment is connected to another program. Disconnect it there first.'

/** The owner's next step and the result of the last attempt. */
export interface OwnAccountState {
  /** The account that the program is connected to. */
  account_id: string | null
  /** Null if nobody has requested a code, or if the code has expired or was used. */
  code: string | null
  needs_livemode: boolean | null
  expires_at: Date | null
  /** The reason why the last event with this program's code did not connect it. */
  refusal: string | null
}

/**
 * Creates a program's code. An owner writes it into the metadata of a product in the deployment's own Stripe account. This proves that they
 * own the account. Stripe sends the code in an event without a connected account, signed with the deployment's secret. The code works once,
 * for a day, while that person is an owner. A new code replaces the previous one. Throws `conflict` if another program has the
 * account.
 */
export async function askOwnAccountCode(
  db: Database,
  { STRIPE_SECRET_KEY }: StripeEnv,
  programId: number,
  userId: string,
): Promise<void> {
  const newCode = {
    code: newToken(),
    requested_by: userId,
    needs_livemode: /^[a-z]+_live_/.test(STRIPE_SECRET_KEY),
    expires_at: sql<Date>`now() + interval '1 day'`,
  }
  const rows = await db.query(
    kysely
      .insertInto('own_account_codes')
      .columns(['program_id', 'code', 'requested_by', 'needs_livemode', 'expires_at'])
      .expression(
        kysely
          .selectNoFrom((eb) => [
            eb.cast<number>(eb.val(programId), 'bigint').as('program_id'),
            eb.val(newCode.code).as('code'),
            eb.val(newCode.requested_by).as('requested_by'),
            eb.cast<boolean>(eb.val(newCode.needs_livemode), 'boolean').as('needs_livemode'),
            newCode.expires_at.as('expires_at'),
          ])
          .where((eb) =>
            eb.not(
              eb.exists(
                kysely
                  .selectFrom('programs')
                  .select('id')
                  .where('processor_account_id', '=', ownAccount)
                  .where('id', '<>', programId),
              ),
            ),
          ),
      )
      .onConflict((conflict) => conflict.column('program_id').doUpdateSet(newCode))
      .returning('program_id'),
  )
  if (rows.length === 0) throw new ApiError('conflict', ownAccountIsTaken)
}

export async function readOwnAccountState(db: Database, programId: number): Promise<OwnAccountState | undefined> {
  const [state] = await db.query(
    kysely
      .selectFrom('programs as p')
      .leftJoin('own_account_codes as c', (join) =>
        join.onRef('c.program_id', '=', 'p.id').on('c.expires_at', '>', now),
      )
      .select((eb) => [
        'p.processor_account_id as account_id',
        'c.code',
        'c.needs_livemode',
        'c.expires_at',
        eb
          .selectFrom('processor_events as e')
          .select('e.reason')
          .whereRef('e.program_id', '=', 'p.id')
          .where('e.event_type', 'in', ownershipEventTypes)
          .where('e.received_at', '>', sql<Date>`${eb.ref('c.expires_at')} - interval '1 day'`)
          .orderBy('e.received_at', 'desc')
          .limit(1)
          .as('refusal'),
      ])
      .where('p.id', '=', programId),
  )
  return state && { ...state, refusal: reasonText(state.refusal) }
}
