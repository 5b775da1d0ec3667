import { type InferResult, sql } from 'kysely'
import { refuse } from '../constraints.ts'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError, notOfProgram } from '../errors.ts'
import { storeCreated, type Created } from '../idempotency.ts'
import { type Filters, type Part, partOf, totalsOf } from '../keyset.ts'
import { hasWords, kysely } from '../kysely.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'

export type Adjustment = InferResult<ReturnType<typeof adjustmentsStatement>>[number]

/** A manual change to a partner's balance by the program. */
interface NewAdjustment {
  partnerId: number
  /** An amount in the currency's minor unit. Negative for a deduction. */
  amountCents: number
  /** The program's currency if undefined. */
  currency?: string | undefined
  /** The reason, 1 to 1,000 characters. The partner sees it. */
  note: string
  /** The live sale that the adjustment belongs to. */
  transactionId?: string | undefined
  /** The integrator's own id of the adjustment, unique within the program. */
  externalId?: string | undefined
}

/**
 * Adds to a partner's balance or deducts from it, immediately and permanently. The partner sees the note. Like a reversal, a deduction may
 * leave the balance below zero. In that case, it reduces open payouts and notifies the advertiser. `requestId` (uuid) identifies the
 * request. Repeating the request creates nothing. Messages to send are added to `outbox`.
 *
 * Throws `not_found` if the program has no such partner or sale. Throws `conflict` if the partner's account is erased or
 * another adjustment has the external id.
 */
export async function createAdjustment(
  db: Database,
  programId: number,
  adjustment: NewAdjustment,
  requestId: string,
  outbox: RelayMessage[],
): Promise<Created<Adjustment>> {
  const make = call('create_adjustment', {
    of_program_id: programId,
    of_partner_id: adjustment.partnerId,
    of_currency: adjustment.currency ?? null,
    of_cents: adjustment.amountCents,
    of_note: adjustment.note,
    of_transaction_id: adjustment.transactionId ?? null,
    of_external_id: adjustment.externalId ?? null,
    request: requestId,
  })
  const read = storeCreated(adjustmentsStatement({ programId }, { limit: 1, requestId }))
  const [[row], [created], [written]] = await retryOnce(() => db.batch([make, read, writtenMessages()])).catch(refuse)
  if (!created?.created) throw refusalOf(row?.outcome ?? null)
  outbox.push(...messagesAbout({ program_id: programId, ...written }))
  return created.created
}

function refusalOf(outcome: string | null): Error {
  switch (outcome) {
    case 'no_partner':
      return notOfProgram('partner_id', 'partner')
    case 'no_sale':
      return new ApiError(
        'not_found',
        'This program has no such sale. Omit transaction_id if the adjustment is not about a sale.',
        {
          details: [{ field: 'transaction_id', message: 'must be that of a live sale of the program' }],
        },
      )
    case 'closed':
      return new ApiError('conflict', 'This partner erased their account, so their balance is closed.')
    case null:
    default:
      return new Error('an adjustment was created without a result')
  }
}

interface AdjustmentList extends Part {
  partner_id?: number | undefined
  external_id?: string | undefined
  /** Searches the partner's name and the note, or matches the whole transaction id. */
  search?: string | undefined
  requestId?: string | undefined
}

/** Lists adjustments of a program, or of a person in all their programs as a partner, newest first. */
export async function listAdjustments(
  db: Database,
  of: { programId: number } | { userId: string },
  list: AdjustmentList,
): Promise<Adjustment[]> {
  return await db.query(adjustmentsStatement(of, list))
}

export const adjustmentTotals = (of: { programId: number } | { userId: string }, filters: Filters<AdjustmentList>) =>
  totalsOf(adjustmentsStatement(of, { ...filters, limit: 0 }), sql<number>`amount_cents`)

export function adjustmentsStatement(of: { programId: number } | { userId: string }, list: AdjustmentList) {
  const { partner_id, external_id, search, requestId, ...part } = list
  let query = kysely
    .selectFrom('adjustments as a')
    .innerJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'a.program_id').onRef('p.id', '=', 'a.partner_id'),
    )
    .innerJoin('programs as g', 'g.id', 'a.program_id')
    .leftJoin('sales as s', (join) => join.onRef('s.program_id', '=', 'a.program_id').onRef('s.id', '=', 'a.sale_id'))
    .select([
      'a.program_id',
      'g.name as program_name',
      'a.id',
      'a.partner_id',
      'p.name as partner_name',
      'a.currency',
      /** Negative for a deduction. */
      'a.amount_cents',
      /** Null if the customer of the named sale was erased. */
      'a.note',
      /** The sale that the adjustment belongs to, if any. */
      's.transaction_id',
      's.partner_id as sale_partner_id',
      'a.external_id',
      'a.paid_at',
      'a.created_at',
    ])
  query = 'programId' in of ? query.where('a.program_id', '=', of.programId) : query.where('p.user_id', '=', of.userId)
  if (partner_id !== undefined) query = query.where('a.partner_id', '=', partner_id)
  if (external_id !== undefined) query = query.where('a.external_id', '=', external_id)
  if (requestId !== undefined) query = query.where('a.request_id', '=', requestId)
  if (search !== undefined) {
    const text = sql<string>`concat_ws(' ', p.name, a.note)`
    query = query.where((eb) => eb.or([hasWords(text, search), eb('s.transaction_id', '=', search)]))
  }
  return partOf(query, sql.ref<number>('a.id'), part)
}
