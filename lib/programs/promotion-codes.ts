import { sql } from 'kysely'
import { Stripe } from 'stripe'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { createCode, type PartnerCode, revokeCode } from './codes.ts'
import type { Created } from '../idempotency.ts'
import { onAccount, openStripe, type StripeEnv } from '../processors/stripe/client.ts'

/** The discount of a code in Stripe: an existing promotion code, an existing coupon, or a new coupon. */
export type Promotion =
  | { promotion_code_id: string }
  | { coupon_id: string }
  | {
      percent_off?: number | undefined
      /** In the program's currency. */
      amount_off_cents?: number | undefined
      duration: 'once' | 'repeating' | 'forever'
      duration_in_months?: number | undefined
    }

/** A requested code. With a promotion, the code also exists in Stripe. */
interface AskedCode {
  partner_id: number
  /** For an existing promotion code, the text comes from Stripe. */
  code?: string | undefined
  stripe?: Promotion | undefined
}

interface Account {
  id: string
  currency: string
}

/**
 * Gives a partner a code like `createCode`, optionally with a promotion code of the connected account. Creates the code in Stripe first,
 * because a code that the account refuses must not exist here. If the code can't be stored here, disables it in Stripe again. Throws
 * `conflict` if Stripe refuses or the service may only read the account.
 */
export async function createPartnerCode(
  db: Database,
  env: StripeEnv,
  programId: number,
  { partner_id, code, stripe: promotion }: AskedCode,
): Promise<Created<PartnerCode>> {
  if (!promotion) {
    return createCode(db, programId, { partner_id, code: code ?? '', promotion_code_id: null, account_id: null })
  }
  const account = await accountOf(db, programId)
  const stripe = openStripe(env)
  const [{ id, code: text }, isNew] = await tried(() =>
    'promotion_code_id' in promotion
      ? enter(stripe, account, promotion.promotion_code_id)
      : open(stripe, account, { programId, partner_id, code: code ?? '' }, promotion),
  )
  try {
    return await createCode(db, programId, { partner_id, code: text, promotion_code_id: id, account_id: account.id })
  } catch (error) {
    if (isNew && error instanceof ApiError) await switchTo(stripe, account.id, id, false)
    throw error
  }
}

/**
 * Revokes a code like `revokeCode` and disables its promotion code in Stripe, even after a failed attempt. Throws Stripe's errors, but
 * revokes the code here in any case. `disableRevoked` repeats calls that got no response.
 */
export async function revokePartnerCode(
  db: Database,
  env: StripeEnv,
  programId: number,
  codeId: number,
): Promise<PartnerCode> {
  const code = await revokeCode(db, programId, codeId)
  const { promotion_code_id: promotionCodeId, account_id: accountId } = code
  // Stripe refuses calls for a disconnected account.
  if (promotionCodeId !== null && accountId !== null && code.is_connected) {
    await tried(() => switchTo(openStripe(env), accountId, promotionCodeId, false))
    await db.query(disabledCode({ program_id: programId, id: codeId, promotion_code_id: promotionCodeId }))
  }
  return code
}

/**
 * Disables up to `limit` revoked codes in Stripe. Codes are also revoked when a partnership ends, an account is erased or a workspace is
 * deleted. Without `accountIds`, covers the accounts of connected and deleted programs. For thirty days, calls to Stripe that got no
 * response are repeated, but not calls that Stripe refused. Returns the number of settled codes.
 */
export async function disableRevoked(
  db: Database,
  env: StripeEnv,
  { limit, accountIds }: { limit: number; accountIds?: string[] },
): Promise<number> {
  let due = kysely
    .selectFrom('partner_codes as k')
    .innerJoin('programs as g', 'g.id', 'k.program_id')
    .select(['k.program_id', 'k.id', 'k.account_id', 'k.promotion_code_id'])
    .where('k.promotion_code_id', 'is not', null)
    .where('k.disabled_at_processor_at', 'is', null)
    .where('k.revoked_at', '>', sql<Date>`now() - interval '30 days'`)
    .orderBy('k.program_id')
    .orderBy('k.id')
    .limit(limit)
  due =
    accountIds === undefined
      ? due.where((eb) =>
          eb.or([eb('g.deleted_at', 'is not', null), eb('g.processor_account_id', '=', eb.ref('k.account_id'))]),
        )
      : due.where('k.account_id', 'in', accountIds)
  const stripe = openStripe(env)
  let settled = 0
  for (const code of await db.query(due)) {
    const { account_id: accountId, promotion_code_id: promotionCodeId } = code
    if (accountId === null || promotionCodeId === null) continue
    try {
      await tried(() => switchTo(stripe, accountId, promotionCodeId, false))
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      // The other accounts continue.
      if (error.code === 'unavailable') continue
      console.error(
        JSON.stringify({ error: 'promotion_code_left_active', program_id: code.program_id, code_id: code.id }),
      )
    }
    const [kept] = await db.query(disabledCode({ ...code, promotion_code_id: promotionCodeId }))
    if (kept) settled += 1
    // The code has been given to its partner again in the meantime.
    else await tried(() => switchTo(stripe, accountId, promotionCodeId, true))
  }
  return settled
}

/** Records that Stripe disabled a revoked code. A code that is valid again has no such record. */
function disabledCode(code: { program_id: number; id: number; promotion_code_id: string }) {
  return kysely
    .updateTable('partner_codes')
    .set({ disabled_at_processor_at: now })
    .where('program_id', '=', code.program_id)
    .where('id', '=', code.id)
    .where('promotion_code_id', '=', code.promotion_code_id)
    .where('revoked_at', 'is not', null)
    .returning('id')
}

async function accountOf(db: Database, programId: number): Promise<Account> {
  const [program] = await db.query(
    kysely.selectFrom('programs').select(['processor_account_id as id', 'currency']).where('id', '=', programId),
  )
  if (!program?.id)
    throw new ApiError('conflict', 'This program is not connected to Stripe. Connect it in its settings.')
  return { id: program.id, currency: program.currency }
}

type Found = [code: Pick<Stripe.PromotionCode, 'id' | 'code'>, isNew: boolean]

async function enter(stripe: Stripe, { id }: Account, promotionCodeId: string): Promise<Found> {
  return [await stripe.promotionCodes.retrieve(promotionCodeId, {}, onAccount(id)), false]
}

/** Reuses the promotion code of an earlier attempt. */
async function open(
  stripe: Stripe,
  { id: accountId, currency }: Account,
  { programId, partner_id, code }: { programId: number; partner_id: number; code: string },
  promotion: Exclude<Promotion, { promotion_code_id: string }>,
): Promise<Found> {
  const metadata = { program_id: String(programId), svc_partner_id: String(partner_id) }
  const { data } = await stripe.promotionCodes.list({ code, active: true, limit: 1 }, onAccount(accountId))
  const [there] = data
  if (there) {
    if (
      there.metadata?.['svc_partner_id'] === metadata.svc_partner_id &&
      there.metadata['program_id'] === metadata.program_id
    ) {
      return [there, false]
    }
    throw new ApiError(
      'conflict',
      `Stripe already has an active promotion code ${there.code}: give it to the partner by its id, ${there.id}.`,
    )
  }
  const coupon =
    'coupon_id' in promotion
      ? promotion.coupon_id
      : (
          await stripe.coupons.create(
            {
              name: code.slice(0, 40),
              duration: promotion.duration,
              ...(promotion.duration_in_months !== undefined && { duration_in_months: promotion.duration_in_months }),
              ...(promotion.percent_off !== undefined && { percent_off: promotion.percent_off }),
              ...(promotion.amount_off_cents !== undefined && { amount_off: promotion.amount_off_cents, currency }),
              metadata,
            },
            onAccount(accountId),
          )
        ).id
  const created = await stripe.promotionCodes.create(
    { promotion: { type: 'coupon', coupon }, code, metadata },
    onAccount(accountId),
  )
  return [created, true]
}

async function switchTo(stripe: Stripe, accountId: string, promotionCodeId: string, active: boolean): Promise<void> {
  await stripe.promotionCodes.update(promotionCodeId, { active }, onAccount(accountId))
}

/** Converts a refusal by Stripe to `conflict` with Stripe's own words, and a missing response to `unavailable`. */
async function tried<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call()
  } catch (error) {
    const { errors } = Stripe
    if (error instanceof errors.StripePermissionError || error instanceof errors.StripeAuthenticationError) {
      throw new ApiError(
        'conflict',
        'The access to the Stripe account does not allow this. Connect Stripe again and allow promotion codes, or create the promotion code in Stripe and enter its id.',
      )
    }
    if (error instanceof errors.StripeInvalidRequestError)
      throw new ApiError('conflict', `Stripe refused: ${error.message}`)
    if (!(error instanceof errors.StripeError)) throw error
    console.error(JSON.stringify({ error: 'stripe_unavailable', type: error.type, status: error.statusCode }))
    throw new ApiError('unavailable', "Stripe's API did not respond. Try again.", { headers: { 'Retry-After': '60' } })
  }
}
