import { sql } from 'kysely'
import { eraseAccount } from '../access/account.ts'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { seal, unseal } from '../processors/seal.ts'
import type { Texts } from '../texts/texts.ts'
import { type TaxFormFields, unsealTaxForm } from './tax-forms.ts'

/** The identity of a partner that a program paid. */
export interface Payee {
  name: string
  email: string | null
  payout_email: string | null
  account_name: string
  account_email: string
  /** The addresses that received their payouts. */
  paid_to: string[]
  /** The payer is required to keep the tax form. */
  tax_form: TaxFormFields | null
}

const rowOf = (programId: number, partnerId: number) => `payee ${programId} ${partnerId}`

/**
 * Erases a person's account with `eraseAccount`. For programs that paid them, or to which they owe money, keeps their identity as long as
 * the books, encrypted with `secret` (EMAIL_HASH_KEY). `texts` is the language of errors.
 */
export async function erasePayee(
  db: Database,
  secret: string,
  userId: string,
  texts?: Pick<Texts, 'fixed'>,
): Promise<void> {
  const erase = async () => await eraseAccount(db, userId, await sealPayees(db, secret, userId), texts)
  await erase().catch(async (error: unknown) => {
    // Somebody was paid in the meantime. Nothing was erased.
    if (violatedConstraint(error) !== 'erased_payees_complete') throw error
    await erase()
  })
}

async function sealPayees(db: Database, secret: string, userId: string): Promise<string> {
  const partners = await db.query(
    kysely
      .selectFrom('partners as r')
      .innerJoin('users as u', 'u.id', 'r.user_id')
      .leftJoin('tax_forms as f', 'f.user_id', 'u.id')
      .select(['r.program_id', 'r.id', 'r.name', 'r.email', 'r.payout_email'])
      .select(['u.name as account_name', 'u.email as account_email'])
      .select(sql<string | null>`f.fields::text`.as('sealed_form'))
      .select(
        sql<string[]>`to_jsonb(array(
          select distinct w.payout_address from payouts w
          where w.program_id = r.program_id and w.partner_id = r.id and w.payout_address is not null order by 1
        ))`.as('paid_to'),
      )
      .where('r.user_id', '=', userId)
      .where(
        sql<boolean>`exists (select from balance_entries e where e.program_id = r.program_id and e.partner_id = r.id
          and (e.cause = 'payout_paid' or e.balance_after_cents < 0))`,
      ),
  )
  const sealed = partners.map(async ({ program_id, id, sealed_form: form, ...known }) => {
    const payee: Payee = { ...known, tax_form: form === null ? null : await unsealTaxForm(secret, userId, form) }
    const identity = await seal(secret, 'payee', rowOf(program_id, id), JSON.stringify(payee))
    return { program_id, partner_id: id, identity }
  })
  return JSON.stringify(await Promise.all(sealed))
}

/** Decrypts the identity of an erased partner, for the tax office or a court. Throws `not_found`. */
export async function readPayee(db: Database, secret: string, programId: number, partnerId: number): Promise<string> {
  const [row] = await db.query(
    kysely
      .selectFrom('erased_payees')
      .select(sql<string>`identity::text`.as('identity'))
      .where('program_id', '=', programId)
      .where('partner_id', '=', partnerId),
  )
  const identity = row && (await unseal(secret, 'payee', rowOf(programId, partnerId), row.identity))
  if (identity === undefined)
    throw new ApiError(
      'not_found',
      'There is no erased partner with payments and these ids, or EMAIL_HASH_KEY has changed.',
    )
  return identity
}
