import { type InferResult, sql } from 'kysely'
import { type Failures, workOnPrograms } from '../batches.ts'
import { call, type Database, retryOnce } from '../database.ts'
import { type Filters, type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'
import { emailHash } from '../tracking/customers.ts'
import { approveDueCommissions } from './commissions.ts'
import { hashPartnerEmails } from './partner-hashes.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'

export type CommissionReview = InferResult<ReturnType<typeof reviewsStatement>>[number]

interface ReviewList extends Part {
  state?: 'waiting' | 'decided' | undefined
  partner_id?: number | undefined
  commissionIds?: number[] | undefined
}

/** Lists held commissions with their flags and decisions, newest first. */
export async function listReviews(db: Database, programId: number, list: ReviewList): Promise<CommissionReview[]> {
  return await db.query(reviewsStatement(programId, list))
}

/**
 * Counts held commissions and sums them by currency: the remaining amounts of waiting commissions, and the full amounts of decided ones.
 */
export const reviewTotals = (programId: number, list: Filters<ReviewList>) =>
  totalsOf(
    reviewsStatement(programId, { ...list, limit: 0 }),
    list.state === 'decided' ? sql<number>`amount_cents` : sql<number>`amount_cents - reversed_cents`,
  )

function reviewsStatement(programId: number, { state, partner_id, commissionIds, ...part }: ReviewList) {
  let query = kysely
    .selectFrom('commission_reviews as v')
    .innerJoin('commissions as c', (join) =>
      join.onRef('c.program_id', '=', 'v.program_id').onRef('c.id', '=', 'v.commission_id'),
    )
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'c.program_id').onRef('p.id', '=', 'c.partner_id'),
    )
    .leftJoin('sales as s', (join) => join.onRef('s.program_id', '=', 'c.program_id').onRef('s.id', '=', 'c.sale_id'))
    .leftJoin('customers as b', (join) =>
      join.onRef('b.program_id', '=', 'c.program_id').onRef('b.id', '=', 'c.customer_id'),
    )
    .leftJoin('referral_links as l', 'l.id', 'b.link_id')
    .leftJoin('users as u', 'u.id', 'v.decided_by')
    .leftJoin('api_keys as k', 'k.id', 'v.decided_by_key')
    .select([
      'v.commission_id',
      'c.partner_id',
      'p.name as partner_name',
      'c.customer_id',
      's.transaction_id',
      'c.kind',
    ])
    .select(['b.customer_key', 'b.signup_date', 'b.first_purchase_date', 'b.last_click_at', 'l.code as link_code'])
    .select('p.created_at as partner_since')
    .select(['c.status', 'c.currency', 'c.amount_cents', 'c.reversed_cents', 'c.hold_until', 'v.flagged_at'])
    .select(['v.decision', 'v.note', 'v.decided_at'])
    .select(sql<{ rule: string; evidence?: Record<string, string | number> }[]>`v.flags`.as('flags'))
    .select(sql<string | null>`coalesce(u.email, 'API key ' || k.name || ' …' || k.hint)`.as('decided_by'))
    .where('v.program_id', '=', programId)
  if (state === 'waiting') {
    query = query
      .where('c.held_at', 'is not', null)
      .where('c.reversal', '<>', 'full')
      .where('c.is_shadow', '=', sql.lit(false))
  }
  if (state === 'decided') query = query.where('v.decision', 'is not', null)
  if (partner_id !== undefined) query = query.where('c.partner_id', '=', partner_id)
  if (commissionIds !== undefined) query = query.where(sql<boolean>`v.commission_id = any (${commissionIds}::bigint[])`)
  return partOf(query, sql.ref<number>('v.commission_id'), part)
}

/**
 * Decides on held commissions of a program and keeps the note. `released` commissions continue their hold period as usual. `rejected`
 * commissions are reversed permanently, and the partner sees the note. Returns the number of decisions, and all requested commissions. If
 * two people decide on one at the same moment, the first decision wins. Adds the messages to send to `outbox`.
 */
export async function decideReviews(
  db: Database,
  programId: number,
  commissionIds: number[],
  decision: 'released' | 'rejected',
  note: string,
  outbox: RelayMessage[] = [],
): Promise<{ changed: number; reviews: CommissionReview[] }> {
  const statement = call('decide_reviews', {
    of_program_id: programId,
    commission_ids: commissionIds,
    of_decision: decision,
    because: note,
  })
  const list = reviewsStatement(programId, { limit: commissionIds.length, commissionIds })
  const [[row], reviews, [written]] = await retryOnce(() => db.batch([statement, list, writtenMessages()]))
  outbox.push(...messagesAbout({ program_id: programId, ...written }))
  return { changed: row?.decided ?? 0, reviews }
}

/**
 * Checks up to `limit` unchecked commissions, of one program or of all programs. Returns the number of held commissions and whether more
 * may wait.
 */
export async function flagNewCommissions(
  db: Database,
  limit: number,
  programId: number | null = null,
): Promise<{ flagged: number; more: boolean }> {
  const unchecked = call('flag_new_commissions', { at_most: limit, of_program_id: programId })
  const [row] = await retryOnce(() => db.query(unchecked))
  return { flagged: row?.flagged ?? 0, more: row?.more ?? false }
}

/**
 * Holds the commissions that need a review, then credits the due ones, up to `limit` of each. Until a partner's addresses are hashed,
 * commissions on sales to known addresses aren't credited. If a program fails, adds its error to `failures` and goes on with the others.
 */
export async function reviewAndCredit(
  db: Database,
  emailHashKey: string,
  limit: number,
  failures?: Failures,
): Promise<{ credited: number; flagged: number; more: boolean }> {
  const ofPrograms = async <Result>(work: (programId: number | null) => Promise<Result>) =>
    await workOnPrograms(failures, () => programsToCredit(db), work)
  const hash = (address: string) => emailHash(emailHashKey, address)
  const hashed = await ofPrograms((programId) => hashPartnerEmails(db, hash, limit, { programId }))
  const checked = await ofPrograms((programId) => flagNewCommissions(db, limit, programId))
  const approved = await ofPrograms((programId) => approveDueCommissions(db, limit, programId))
  return {
    credited: approved.reduce((sum, { credited }) => sum + credited, 0),
    flagged: checked.reduce((sum, { flagged }) => sum + flagged, 0),
    more: [...approved, ...checked].some(({ more }) => more) || hashed.includes(limit),
  }
}

/** Lists the programs with commissions that are neither credited nor rejected. */
async function programsToCredit(db: Database): Promise<number[]> {
  const rows = await db.query(
    kysely
      .selectFrom('commissions')
      .select('program_id')
      .distinct()
      .where('credited_at', 'is', null)
      .where('rejected_at', 'is', null)
      .where('reversal', '<>', 'full')
      .where('is_shadow', '=', sql.lit(false)),
  )
  return rows.map(({ program_id }) => program_id)
}
