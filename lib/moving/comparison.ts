import { refuse } from '../constraints.ts'
import { call, type Database, retryOnce } from '../database.ts'

/** The sums of a partner in one currency: what the former service and the program would pay. */
export interface ComparedPartner {
  partner_id: number
  partner_name: string
  currency: string
  former_commissions: number
  former_cents: number
  commissions: number
  cents: number
  differences: number
}

/** A sale for which the two sides pay differently. A missing side is null. */
export interface Difference {
  key: string
  /** The time in microseconds. */
  at_us: number
  former_external_id: string | null
  former_partner_id: number | null
  former_partner_name: string | null
  former_currency: string | null
  former_payment_id: string | null
  former_sale_cents: number | null
  former_cents: number | null
  former_pays_cents: number | null
  commission_id: number | null
  transaction_id: string | null
  partner_id: number | null
  partner_name: string | null
  currency: string | null
  state: string | null
  sale_cents: number | null
  base_cents: number | null
  fee_cents: number | null
  cents: number | null
  pays_cents: number | null
  reasons: string[]
}

/** Returns the time of a difference as a `Date`. */
export const timeOf = ({ at_us: microseconds }: Difference) => new Date(microseconds / 1000)

/** The longest compared period. */
export const maxComparedDays = 100

/** A period in UTC, excluding its end. */
export interface Period {
  from: Date
  until: Date
}

/** The position in the list of partners, as the values of a page's last row. */
export interface PartnerPosition {
  gapCents: number
  partnerId: number
  currency: string
}

/** Returns the position of a row in the list of partners. */
export function partnerPosition({ former_cents, cents, partner_id, currency }: ComparedPartner): PartnerPosition {
  return { gapCents: Math.abs(former_cents - cents), partnerId: partner_id, currency }
}

interface PartnerPart {
  limit: number
  before?: PartnerPosition | undefined
}

/** The position in the list of differences. */
export interface DifferencePosition {
  atMicroseconds: number
  key: string
}

interface DifferencePart {
  limit: number
  before?: DifferencePosition | undefined
  /** Only differences for this partner, on either side. */
  partner_id?: number | undefined
  /** Only differences with this reason, a code of differences.ts. */
  reason?: string | undefined
}

interface Comparison {
  partners: ComparedPartner[]
  differences: Difference[]
  /** The number of all differences that match, on every page. */
  difference_count: number
}

/**
 * Compares a period once, and returns a page of each list in `parts`: the sums by partner and currency, largest difference first, and the
 * differences, newest first. A list that is not requested is empty.
 */
export async function compareSides(
  db: Database,
  programId: number,
  { from, until }: Period,
  parts: { partners?: PartnerPart; differences?: DifferencePart },
): Promise<Comparison> {
  const { partners, differences } = parts
  const [row]: unknown[] = await db.query(
    call('compare_with_former', {
      of_program_id: programId,
      from_time: from,
      until,
      max_partners: partners?.limit ?? 0,
      before_gap_cents: partners?.before?.gapCents ?? null,
      before_partner_id: partners?.before?.partnerId ?? null,
      before_currency: partners?.before?.currency ?? null,
      max_differences: differences?.limit ?? 0,
      before_us: differences?.before?.atMicroseconds ?? null,
      before_key: differences?.before?.key ?? null,
      of_partner_id: differences?.partner_id ?? null,
      of_reason: differences?.reason ?? null,
    }),
  )
  // oxlint-disable-next-line no-unsafe-type-assertion -- compare_with_former wrote them
  return row as Comparison
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
 * Stores commissions of the former service as read-only history. Replaces commissions with known ids. Throws `not_found` and stores
 * nothing if a partner doesn't exist in the program.
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
