import { sql } from 'kysely'
import { Stripe } from 'stripe'
import { call, type Database } from '../../database.ts'
import { ApiError } from '../../errors.ts'
import { kysely, now } from '../../kysely.ts'
import { hashToken, newToken } from '../../access/tokens.ts'
import { openStripe, ownAccount, type StripeEnv } from './client.ts'
import { ownAccountIsTaken } from './own-account.ts'

/** The variables of Stripe Connect, which lets advertisers connect their account. Without it, they enter the account's id. */
export interface ConnectEnv extends StripeEnv {
  /** `ca_…`, from the platform's Connect settings. */
  STRIPE_CLIENT_ID?: string
}

const stateMinutes = 15

/**
 * Returns the address of Stripe's consent page, which redirects to `returnAddress` with `code` and `state`. The state is a random secret.
 * It works once, for 15 minutes, in the session that requested it. So nobody can be tricked into connecting someone else's account. The
 * access is read-only, unless `write` is true because the service creates promotion codes.
 */
export async function connectAddress(
  db: Database,
  env: ConnectEnv,
  programId: number,
  sessionToken: string,
  returnAddress: string,
  { write = false } = {},
): Promise<string> {
  const state = newToken()
  await db.query(
    kysely.insertInto('processor_connect_states').values({
      state_hash: await hashToken(state),
      program_id: programId,
      session_hash: await hashToken(sessionToken),
      expires_at: sql<Date>`now() + make_interval(mins => ${stateMinutes})`,
    }),
  )
  const address = new URL('https://connect.stripe.com/oauth/authorize')
  address.searchParams.set('response_type', 'code')
  address.searchParams.set('client_id', env.STRIPE_CLIENT_ID ?? '')
  address.searchParams.set('scope', write ? 'read_write' : 'read_only')
  address.searchParams.set('redirect_uri', returnAddress)
  address.searchParams.set('state', state)
  return address.href
}

/** Consumes a state and returns its program, or undefined if the state does not work in this session. */
export async function takeConnectState(db: Database, state: string, sessionToken: string): Promise<number | undefined> {
  const session = await hashToken(sessionToken)
  const [taken] = await db.query(
    kysely
      .deleteFrom('processor_connect_states')
      .where('state_hash', '=', await hashToken(state))
      .returning((eb) => [
        'program_id',
        eb.and([eb('session_hash', '=', session), eb('expires_at', '>', now)]).as('works'),
      ]),
  )
  return taken?.works ? taken.program_id : undefined
}

/**
 * Connects a program to the account that a callback's `code` identifies, and returns that account. A code works only once, and for five
 * minutes.
 */
export async function connectByCode(db: Database, env: ConnectEnv, programId: number, code: string): Promise<string> {
  let token: Awaited<ReturnType<Stripe['oauth']['token']>>
  try {
    token = await openStripe(env).oauth.token({ grant_type: 'authorization_code', code })
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError)) throw error
    console.error(JSON.stringify({ error: 'connect_refused', type: error.type, status: error.statusCode }))
    throw new ApiError('conflict', 'Stripe did not confirm the connection. Connect again from the settings.')
  }
  if (!token.stripe_user_id) throw new Error('Stripe confirmed a connection without naming its account')
  await connectProcessor(db, programId, token.stripe_user_id, token.livemode ?? true)
  return token.stripe_user_id
}

/**
 * Connects a program to an account at the payment processor. An account belongs to only one workspace, so that nobody can read another
 * company's payments by entering its account. The deployment's own account belongs to only one program. Otherwise, throws `conflict`.
 * `applyParkedEvents` applies the events that arrived while the account was disconnected.
 */
export async function connectProcessor(
  db: Database,
  programId: number,
  accountId: string,
  livemode = true,
): Promise<void> {
  const [row] = await db.query(
    call('connect_processor', { of_program_id: programId, of_account_id: accountId, is_live: livemode }),
  )
  if (row?.connect_processor) return
  throw new ApiError(
    'conflict',
    accountId === ownAccount
      ? ownAccountIsTaken
      : 'This account is connected in another workspace. Disconnect it there first.',
  )
}

/**
 * Disconnects the payment processor. Its events are parked until the account is connected again. If this was the account's last program,
 * revokes the service's access in Stripe. If Stripe refuses the call, the advertiser can revoke the access in Stripe's dashboard.
 */
export async function disconnectProcessor(db: Database, env: ConnectEnv, programId: number): Promise<void> {
  const account = sql<string | null>`old.processor_account_id`
  const [row] = await db.query(
    kysely
      .updateTable('programs as p')
      .set({
        processor_account_id: null,
        processor_former_account_id: sql<string | null>`last_account_of(p)`,
        processor_connected_at: null,
      })
      .where('p.id', '=', programId)
      .returning((eb) => [
        account.as('account_id'),
        eb
          .not(
            eb.exists(
              eb
                .selectFrom('programs as other')
                .where('other.processor_account_id', '=', account)
                .whereRef('other.id', '<>', 'p.id'),
            ),
          )
          .as('is_last'),
      ]),
  )
  if (row?.account_id && row.is_last) await giveAccountBack(env, row.account_id)
}

/** Revokes the service's access to an account that no program uses anymore. */
export async function giveAccountBack(env: ConnectEnv, accountId: string): Promise<void> {
  if (!env.STRIPE_CLIENT_ID || accountId === ownAccount) return
  try {
    await openStripe(env).oauth.deauthorize({ client_id: env.STRIPE_CLIENT_ID, stripe_user_id: accountId })
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError)) throw error
    console.error(JSON.stringify({ error: 'deauthorize_refused', type: error.type, status: error.statusCode }))
  }
}
