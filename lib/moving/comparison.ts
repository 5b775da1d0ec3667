import { refuse } from '../constraints.ts'
import { call, type Database, retryOnce } from '../database.ts'
import type { DatabaseFunctions } from '../schema.ts'

/** The sums of a partner in one currency: what the former service and the program would pay. */
export type ComparedPartner = ReturnType<typeof asComparedPartner>

/** A sale for which the two sides pay differently. A missing side is null. */
export type Difference = ReturnType<typeof asDifference>

// A database function does not declare which columns are never null.
const asComparedPartner = (row: DatabaseFunctions['compare_partners']['row']) => ({
  partner_id: row.partner_id ?? 0,
  partner_name: row.partner_name ?? '',
  currency: row.currency ?? '',
  former_commissions: row.former_commissions ?? 0,
  former_cents: row.former_cents ?? 0,
  commissions: row.commissions ?? 0,
  cents: row.cents ?? 0,
  differences: row.differences ?? 0,
})
const asDifference = (row: DatabaseFunctions['list_differences']['row']) => ({
  ...row,
  key: row.key ?? '',
  at: row.at ?? new Date(0),
  at_us: row.at_us ?? 0,
  reasons: row.reasons ?? [],
})

/** The longest compared period. */
export const maxComparedDays = 100

/** A period in UTC, without its end. */
export interface Period {
  from: Date
  until: Date
}

/** The position in the list of partners: the values of a page's last row. */
export interface PartnerPosition {
  gapCents: number
  partnerId: number
  currency: string
}

/** Returns the position of a row in the list of partners. */
export function partnerPosition({ former_cents, cents, partner_id, currency }: ComparedPartner): PartnerPosition {
  return { gapCents: Math.abs(former_cents - cents), partnerId: partner_id, currency }
}

/** Sums up a period by partner and currency, the largest difference first. */
export async function comparePartners(
  db: Database,
  programId: number,
  { from, until }: Period,
  { limit, before }: { limit: number; before?: PartnerPosition | undefined },
): Promise<ComparedPartner[]> {
  const rows = await db.query(
    call('compare_partners', {
      of_program_id: programId,
      from_time: from,
      until,
      before_gap_cents: before?.gapCents ?? null,
      before_partner_id: before?.partnerId ?? null,
      before_currency: before?.currency ?? null,
      max_rows: limit,
    }),
  )
  return rows.map(asComparedPartner)
}

/** The position in the list of differences. */
export interface DifferencePosition {
  atMicroseconds: number
  key: string
}

interface DifferenceList {
  limit: number
  before?: DifferencePosition | undefined
  /** Only differences of this partner, on either side. */
  partner_id?: number | undefined
  /** Only differences with this reason, a code of differences.ts. */
  reason?: string | undefined
}

/** Lists the differences of a period, newest first. */
export async function listDifferences(
  db: Database,
  programId: number,
  { from, until }: Period,
  { limit, before, partner_id, reason }: DifferenceList,
): Promise<Difference[]> {
  const rows = await db.query(
    call('list_differences', {
      of_program_id: programId,
      from_time: from,
      until,
      of_partner_id: partner_id ?? null,
      of_reason: reason ?? null,
      before_us: before?.atMicroseconds ?? null,
      before_key: before?.key ?? null,
      max_rows: limit,
    }),
  )
  return rows.map(asDifference)
}

/** A commission of the former service. */
export interface FormerCommission {
  id: string
  partner?: string | undefined
  partner_id?: number | undefined
  customer_key?: string | undefined
  amount_cents: number
  currency: string
  status: 'pending' | 'approved' | 'paid' | 'rejected'
  sale_cents?: number | undefined
  payment_id?: string | undefined
  earned_at: string
}

/**
 * Stores commissions of the former service as read-only history. A commission with a known id is replaced. Refuses all of them with
 * `not_found` if the program does not know a partner.
 */
export async function storeFormerCommissions(
  db: Database,
  programId: number,
  commissions: FormerCommission[],
): Promise<void> {
  const rows = JSON.stringify(commissions)
  const store = call('store_former_commissions', { of_program_id: programId, rows })
  await retryOnce(() => db.query(store)).catch(refuse)
}
