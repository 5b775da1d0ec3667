import { type InferResult, sql } from 'kysely'
import * as z from 'zod/mini'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type Filters, type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely, now } from '../kysely.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'
import { checkVatNumber, type Party, partyFields } from './document-parties.ts'

/** The program's details on its documents. Their numbers begin with `series`. `vat_rate` is in percent. */
export const billingForm = z
  .object({
    ...partyFields,
    series: z
      .string()
      .check(
        z.trim(),
        z.toUpperCase(),
        z.regex(/^[A-Z0-9]([A-Z0-9-]{0,8}[A-Z0-9])?$/, 'Use 1 to 10 letters, digits and hyphens.'),
      ),
    vat_rate: z
      .optional(z.string())
      .check(
        z.refine(
          (rate) =>
            rate === undefined ||
            (/^$|^\d{1,2}([.,]\d{1,2})?$/.test(rate.trim()) && Number(rate.replace(',', '.')) <= 50),
          'Enter a percentage up to 50, for example 19.',
        ),
      ),
  })
  .check(checkVatNumber)
export type Billing = z.output<typeof billingForm>

/** The partner's details on documents. */
export const payeeForm = z.object(partyFields).check(checkVatNumber)

const stored = <Details extends { vat_id: string }>(details: Details) => ({
  ...details,
  vat_id: details.vat_id || null,
})

/** Saves the program's details. From now on, documents are issued. Existing documents don't change. */
export async function saveBilling(db: Database, programId: number, billing: Billing): Promise<void> {
  const { vat_rate: rate = '', ...details } = billing
  // An empty rate and 0 mean no VAT.
  const vat_bp = Math.round(Number(rate.replace(',', '.')) * 100) || null
  const values = { ...stored(details), vat_bp }
  await db.query(
    kysely
      .insertInto('program_billing')
      .values({ program_id: programId, ...values })
      .onConflict((conflict) => conflict.column('program_id').doUpdateSet(values)),
  )
}

/** Reads the program's details. Returns undefined if it doesn't issue documents. */
export async function readBilling(db: Database, programId: number) {
  const [billing] = await db.query(
    kysely
      .selectFrom('program_billing')
      .select(['legal_name', 'address', 'country', 'vat_id', 'series', 'vat_bp'])
      .where('program_id', '=', programId),
  )
  return billing
}

/** Saves a person's details for the documents of all their programs. */
export async function savePayee(db: Database, userId: string, payee: z.output<typeof payeeForm>): Promise<void> {
  const values = stored(payee)
  await db.query(
    kysely
      .insertInto('payee_details')
      .values({ user_id: userId, ...values })
      .onConflict((conflict) => conflict.column('user_id').doUpdateSet(values)),
  )
}

/**
 * Reads a person's details, and the programs that use self-billing or have the person's agreement to it. `accepted` is the newest accepted
 * version of the terms with self-billing.
 */
export async function readPayee(db: Database, userId: string) {
  const [[details], programs] = await db.batch([
    kysely
      .selectFrom('payee_details')
      .select(['legal_name', 'address', 'country', 'vat_id'])
      .where('user_id', '=', userId),
    kysely
      .selectFrom('partners as p')
      .innerJoin('programs as g', 'g.id', 'p.program_id')
      .innerJoin('program_billing as b', 'b.program_id', 'g.id')
      .innerJoin('join_pages as j', 'j.program_id', 'g.id')
      .innerJoin('program_terms as t', (join) =>
        join.onRef('t.program_id', '=', 'j.program_id').onRef('t.version', '=', 'j.terms_version'),
      )
      .select(['g.id', 'g.name', 't.version', 't.text', 't.self_billing'])
      .select(sql<number | null>`self_billing_terms(p.program_id, p.id)`.as('accepted'))
      .where('p.user_id', '=', userId)
      .where(sql<boolean>`(t.self_billing or self_billing_terms(p.program_id, p.id) is not null)`)
      .where('g.deleted_at', 'is', null)
      .orderBy('g.id')
      .limit(100),
  ])
  return { details, programs }
}

/** Records that a partner accepts the current terms of a program. Throws `conflict` if `version` is no longer the current one. */
export async function acceptTerms(db: Database, userId: string, programId: number, version: number): Promise<void> {
  const accepted = await db.query(
    kysely
      .insertInto('accepted_terms')
      .columns(['program_id', 'partner_id', 'version'])
      .expression(
        kysely
          .selectFrom('partners as p')
          .innerJoin('join_pages as j', 'j.program_id', 'p.program_id')
          .select(['p.program_id', 'p.id', sql<number>`j.terms_version`.as('version')])
          .where('p.user_id', '=', userId)
          .where('p.program_id', '=', programId)
          .where('j.terms_version', '=', version),
      )
      .onConflict((conflict) =>
        conflict.columns(['program_id', 'partner_id', 'version']).doUpdateSet({ accepted_at: now, withdrawn_at: null }),
      )
      .returning('version'),
  )
  if (accepted.length === 0)
    throw new ApiError('conflict', 'The terms have changed. Read them again, then accept them.')
}

/**
 * Withdraws a partner's agreement to self-billing. Their next payments in the program don't get documents, and the advertiser is notified.
 * Does nothing without an agreement. Returns the messages to send.
 */
export async function withdrawSelfBilling(db: Database, userId: string, programId: number): Promise<RelayMessage[]> {
  const statement = call('withdraw_self_billing', { of_program_id: programId, of_user_id: userId })
  const [, [written]] = await retryOnce(() => db.batch([statement, writtenMessages()]))
  return messagesAbout({ program_id: programId, ...written })
}

export type DocumentRow = InferResult<ReturnType<typeof documentsStatement>>[number]

/** The documents of a program, or of a person in all their programs. */
export type DocumentsOf = { programId: number } | { userId: string }

interface DocumentList extends Part {
  /** Searches the partner's legal name and the document's number. */
  search?: string | undefined
}

/** Lists documents, newest first. */
export async function listDocuments(db: Database, of: DocumentsOf, list: DocumentList): Promise<DocumentRow[]> {
  return await db.query(documentListStatement(of, list))
}

/** Counts documents and sums their amounts. A credit note reduces the sum, and a void document does not change it. */
export const documentTotals = (of: DocumentsOf, filters: Filters<DocumentList>) =>
  totalsOf(
    documentListStatement(of, { ...filters, limit: 0 }),
    sql<number>`case when voided_at is not null then 0 when kind = 'credit_note' then -amount_cents else amount_cents end`,
  )

export function documentListStatement(of: DocumentsOf, { search, ...part }: DocumentList) {
  let query = documentsStatement(of)
  if (search !== undefined) {
    const words = `%${search.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
    query = query.where(
      sql<boolean>`(d.payee->>'legal_name' ilike ${words} or d.series || '-' || d.number ilike ${words})`,
    )
  }
  return partOf(query, sql.ref<number>('d.id'), part)
}

export function documentsStatement(of: DocumentsOf) {
  const query = kysely
    .selectFrom('documents as d')
    .innerJoin('programs as g', 'g.id', 'd.program_id')
    .leftJoin('documents as c', (join) =>
      join.onRef('c.program_id', '=', 'd.program_id').onRef('c.corrects_id', '=', 'd.id'),
    )
    .select(['d.program_id', 'g.name as program_name', 'd.id', 'd.series', 'd.number', 'd.kind', 'd.payout_id'])
    .select(['d.partner_id', 'd.currency', 'd.amount_cents', 'd.vat_bp', 'd.issued_at', 'd.voided_at', 'd.void_reason'])
    .select(['c.number as credit_note'])
    .select(sql<string | null>`d.payee->>'legal_name'`.as('payee_name'))
  if ('programId' in of) return query.where('d.program_id', '=', of.programId)
  return query
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'd.program_id').onRef('p.id', '=', 'd.partner_id'),
    )
    .where('p.user_id', '=', of.userId)
}

/** Returns the VAT in an amount, in minor units, rounded half up. Returns zero without a rate. */
export function containedVat(amountCents: number, vatBp: number | null): number {
  const [amount, rate] = [BigInt(amountCents), BigInt(vatBp ?? 0)]
  const divisor = 2n * (10_000n + rate)
  return Number((2n * amount * rate + divisor / 2n) / divisor)
}

/** A line of a document: an entry of the balance, or all `entries` of a large payment. */
export interface DocumentLine {
  cause: string
  commission_id?: number
  adjustment_id?: number
  posted_on?: string
  entries?: number
  amount_cents: number
}

/** Everything that a document shows. */
export interface StoredDocument extends DocumentRow {
  paid_on: Date
  reference: string
  terms_version: number
  issuer: Party
  payee: Party
  lines: DocumentLine[]
  is_reverse_charge: boolean
  /** The number of the invoice that a credit note corrects. */
  corrects: string | null
}

/** Statement: one document. */
export function documentStatement(of: DocumentsOf, programId: number, documentId: number) {
  return documentsStatement(of)
    .select(['d.paid_on', 'd.reference', 'd.terms_version', 'd.is_reverse_charge'])
    .select([
      sql<Party>`d.issuer`.as('issuer'),
      sql<Party>`d.payee`.as('payee'),
      sql<DocumentLine[]>`d.lines`.as('lines'),
      sql<string | null>`(
        select o.series || '-' || o.number from documents o where o.program_id = d.program_id and o.id = d.corrects_id
      )`.as('corrects'),
    ])
    .where('d.program_id', '=', programId)
    .where('d.id', '=', documentId)
}

/** Issues the missing documents of paid payouts, at most 500. Returns their number. */
export async function issueMissingDocuments(db: Database, programId: number): Promise<number> {
  const [row] = await retryOnce(() => db.query(call('issue_missing_documents', { of_program_id: programId })))
  return row?.issue_missing_documents ?? 0
}

/**
 * Voids an invoice, which keeps its number. Voiding it again changes nothing. Throws `conflict` if a credit note has corrected it.
 */
export async function voidDocument(db: Database, programId: number, documentId: number, reason: string): Promise<void> {
  const statement = call('void_document', { of_program_id: programId, of_document_id: documentId, because: reason })
  const [row] = await retryOnce(() => db.query(statement))
  if (row?.void_document == null) throw new ApiError('not_found', 'This program has no such invoice.')
  if (!row.void_document)
    throw new ApiError('conflict', 'A credit note has corrected this invoice. It cannot be voided.')
}
