import { type InferResult, sql } from 'kysely'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { maxAmountCents } from '../money.ts'
import type { SecretsEnv } from '../processors/connections.ts'
import { seal, unseal } from '../processors/seal.ts'
import { partyFields } from './document-parties.ts'

/** The US tax forms that partners can file. */
export const taxFormNames = {
  w9: 'W-9 (US person)',
  w8ben: 'W-8BEN (individual outside the US)',
  w8bene: 'W-8BEN-E (company outside the US)',
} as const
const kinds = ['w9', 'w8ben', 'w8bene'] as const satisfies (keyof typeof taxFormNames)[]

const line = (length: number) => z.string().check(z.trim(), z.maxLength(length, `Use at most ${length} characters.`))

/** The fields of a form. They are stored encrypted. */
const fields = z.object({
  kind: z.enum(kinds, 'Choose a form.'),
  legal_name: partyFields.legal_name,
  address: partyFields.address,
  country: partyFields.country,
  /** The tax classification, or the status under chapters 3 and 4. */
  classification: line(200),
  tax_id: z.string().check(
    z.maxLength(40, 'Use at most 30 letters and digits.'),
    z.overwrite((text) => text.toUpperCase().replaceAll(/[ .\-/]/g, '')),
    z.regex(/^([A-Z0-9]{4,30})?$/, 'Use 4 to 30 letters and digits.'),
  ),
  /** Empty, except on a W-8BEN. */
  birth_date: z.string().check(z.regex(/^(\d{4}-\d{2}-\d{2})?$/, 'Enter a date.')),
  signature: line(200).check(z.minLength(1, 'Type your name to sign.')),
})
export type TaxFormFields = z.output<typeof fields>

export const taxFormForm = fields.check(
  z.refine(({ kind, tax_id: taxId }) => kind !== 'w9' || /^\d{9}$/.test(taxId), {
    error: 'A W-9 needs the nine digits of your SSN or EIN.',
    path: ['tax_id'],
  }),
  z.refine(({ kind, country }) => (kind === 'w9') === (country === 'US'), {
    error: 'A W-9 is for the United States, and a W-8 for other countries.',
    path: ['country'],
  }),
)

/** Stores a person's form, signed now (UTC). Replaces an earlier form. */
export async function saveTaxForm(db: Database, env: SecretsEnv, userId: string, form: TaxFormFields): Promise<void> {
  const sealed = await seal(env.EMAIL_HASH_KEY, 'tax form', userId, JSON.stringify(form))
  const values = {
    kind: form.kind,
    fields: sql<Uint8Array>`${sealed}::bytea`,
    tax_id_hint: form.tax_id === '' ? null : form.tax_id.slice(-4),
    signed_on: sql<Date>`(now() at time zone 'UTC')::date`,
  }
  await db.query(
    kysely
      .insertInto('tax_forms')
      .values({ user_id: userId, ...values })
      .onConflict((conflict) => conflict.column('user_id').doUpdateSet(values)),
  )
}

/** Reads the form of a program's partner without its encrypted fields. `kind` is null if there is none. Throws `not_found`. */
export async function readPartnerTaxForm(db: Database, programId: number, partnerId: number) {
  const [partner] = await db.query(
    kysely
      .selectFrom('partners as p')
      .leftJoin('tax_forms as f', 'f.user_id', 'p.user_id')
      .select(['p.name', 'f.kind', 'f.tax_id_hint', 'f.signed_on', 'f.expires_on'])
      .where('p.program_id', '=', programId)
      .where('p.id', '=', partnerId),
  )
  if (!partner) throw new ApiError('not_found', 'This program has no such partner.')
  return partner
}

const isValid = sql<boolean>`coalesce(f.expires_on >= (now() at time zone 'UTC')::date, true)`

/** Reads a person's form without its encrypted fields, and the amounts that are waiting for a form. */
export async function readTaxForm(db: Database, userId: string) {
  const [[form], held] = await db.batch([
    kysely
      .selectFrom('tax_forms as f')
      .select(['f.kind', 'f.tax_id_hint', 'f.signed_on', 'f.expires_on', isValid.as('is_valid')])
      .where('f.user_id', '=', userId),
    kysely
      .selectFrom('payouts_due as d')
      .innerJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'd.program_id').onRef('p.id', '=', 'd.partner_id'),
      )
      .innerJoin('programs as g', 'g.id', 'd.program_id')
      .select([
        'g.name as program_name',
        sql<string>`d.currency`.as('currency'),
        sql<number>`d.payable_cents`.as('payable_cents'),
      ])
      .where('p.user_id', '=', userId)
      .where('d.exclusion_reason', '=', 'no_tax_form'),
  ])
  return { form, held }
}

/** Decrypts the fields of a person's form. Returns null if EMAIL_HASH_KEY has changed. */
export async function unsealTaxForm(secret: string, userId: string, sealed: string): Promise<TaxFormFields | null> {
  const text = await unseal(secret, 'tax form', userId, sealed)
  return text === undefined ? null : z.parse(fields, JSON.parse(text))
}

/** Decrypts the form of a program's partner, and records this in the audit log. Throws `not_found`. */
export async function openTaxForm(
  db: Database,
  env: SecretsEnv,
  reader: { userId: string; programId: number },
  partnerId: number,
): Promise<TaxFormFields> {
  const [form] = await db.query(
    kysely
      .selectFrom('tax_forms as f')
      .innerJoin('partners as p', 'p.user_id', 'f.user_id')
      .select(['f.user_id', sql<string>`f.fields::text`.as('fields')])
      .where('p.program_id', '=', reader.programId)
      .where('p.id', '=', partnerId),
  )
  const opened = form && (await unsealTaxForm(env.EMAIL_HASH_KEY, form.user_id, form.fields))
  if (!opened) throw new ApiError('not_found', 'This partner has no readable tax form.')
  await db.actingAs(reader.userId).query(
    call('write_program_audit', {
      of_program_id: reader.programId,
      of_action: 'payout.tax_form_opened',
      of_subject: String(partnerId),
      of_details: null,
    }),
  )
  return opened
}

export type TaxFormLimit = InferResult<ReturnType<typeof limitsStatement>>[number]

function limitsStatement(programId: number) {
  return kysely
    .selectFrom('tax_form_limits')
    .select(['currency', 'above_cents'])
    .where('program_id', '=', programId)
    .orderBy('currency')
}

/** Reads the yearly amounts above which payouts wait for a tax form. */
export async function readTaxFormLimits(db: Database, programId: number): Promise<TaxFormLimit[]> {
  return await db.query(limitsStatement(programId))
}

/** Sets this amount for a currency, or removes it if `aboveCents` is null. */
export async function setTaxFormLimit(
  db: Database,
  programId: number,
  currency: string,
  aboveCents: number | null,
): Promise<void> {
  if (aboveCents === null) {
    const limits = kysely.deleteFrom('tax_form_limits').where('program_id', '=', programId)
    await db.query(limits.where('currency', '=', currency))
    return
  }
  if (!(aboveCents >= 0 && aboveCents <= maxAmountCents)) throw new ApiError('invalid_request', 'Enter an amount.')
  await db.query(
    kysely
      .insertInto('tax_form_limits')
      .values({ program_id: programId, currency, above_cents: aboveCents })
      .onConflict((conflict) => conflict.columns(['program_id', 'currency']).doUpdateSet({ above_cents: aboveCents })),
  )
}

export type YearlyPayments = InferResult<ReturnType<typeof yearlyPaymentsStatement>>[number]

/** Lists the payments of a calendar year by partner and currency. Excludes returned payments. */
export async function listYearlyPayments(db: Database, programId: number, year: number): Promise<YearlyPayments[]> {
  return await db.query(yearlyPaymentsStatement(programId, year))
}

export function yearlyPaymentsStatement(programId: number, year: number) {
  return kysely
    .selectFrom('payouts as w')
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'w.program_id').onRef('p.id', '=', 'w.partner_id'),
    )
    .leftJoin('payee_details as d', 'd.user_id', 'p.user_id')
    .leftJoin('tax_forms as f', 'f.user_id', 'p.user_id')
    .select(['p.id as partner_id', 'p.name as partner_name', 'd.legal_name', 'd.country', 'd.vat_id'])
    .select(['f.kind as tax_form', 'f.tax_id_hint', 'f.expires_on', 'w.currency'])
    .select((eb) => [
      eb.cast<number>(eb.fn.countAll(), 'integer').as('payments'),
      eb.cast<number>(eb.fn.sum('w.amount_cents'), 'bigint').as('paid_cents'),
    ])
    .where('w.program_id', '=', programId)
    .where('w.status', '=', 'paid')
    .where('w.paid_on', '>=', sql<Date>`make_date(${year}::integer, 1, 1)`)
    .where('w.paid_on', '<', sql<Date>`make_date(${year}::integer + 1, 1, 1)`)
    .groupBy(['p.id', 'p.name', 'd.user_id', 'f.user_id', 'w.currency'])
    .orderBy('p.id')
    .orderBy('w.currency')
}
