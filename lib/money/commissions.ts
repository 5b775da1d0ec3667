import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { commissionsStatement, type ListedCommission } from './commission-list.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'

/**
 * Credits commissions whose hold has ended to their partners' balances, the longest waiting `limit` of them, and returns how
 * many it credited and whether more may wait. What a refund took before is not credited. It can be stopped anywhere, and run
 * twice at once: a run waits for the other's batch and passes over what that one credited.
 */
export async function approveDueCommissions(db: Database, limit: number): Promise<{ credited: number; more: boolean }> {
  const [row] = await retryOnce(() => db.query(call('approve_due_commissions', { at_most: limit })))
  return { credited: row?.approved ?? 0, more: row?.more ?? false }
}

/**
 * Credits commissions of a program before their hold ends, and returns how many. Those that are credited, rejected or fully
 * reversed already, or are not the program's, stay as they are. What is to be sent is added to `outbox`.
 */
export async function approveCommissions(
  db: Database,
  programId: number,
  commissionIds: number[],
  outbox: RelayMessage[] = [],
): Promise<number> {
  return (await decideCommissions(db, programId, commissionIds, undefined, outbox)).changed
}

/**
 * The same of one commission, which it returns as it is then, with the messages to send. Refuses with `not_found`, and with `conflict` where it was rejected or fully
 * reversed already; one that is credited stays so.
 */
export async function approveCommission(
  db: Database,
  programId: number,
  commissionId: number,
): Promise<{ commission: ListedCommission; outbox: RelayMessage[] }> {
  const approve = call('approve_commissions', { program_ids: [programId], commission_ids: [commissionId] })
  const [, [commission], [told]] = await retryOnce(() =>
    db.batch([approve, oneCommission(programId, commissionId), writtenMessages()]),
  )
  if (!commission) throw noCommission()
  if (commission.credited_at === null || commission.rejected_at !== null) {
    throw new ApiError(
      'conflict',
      commission.held_at === null
        ? 'This commission was approved or rejected already, or refunds reversed it fully.'
        : 'This commission is held for review. Release or reject it there.',
    )
  }
  return { commission, outbox: messagesAbout({ program_id: programId, ...told }) }
}

/**
 * Rejects commissions of a program for good, all with one reason, and returns how many. Those that are rejected or fully reversed already, or are
 * not the program's, stay as they are. What is to be sent is added to `outbox`.
 */
export async function rejectCommissions(
  db: Database,
  programId: number,
  commissionIds: number[],
  reason: string,
  outbox: RelayMessage[] = [],
): Promise<number> {
  return (await decideCommissions(db, programId, commissionIds, reason, outbox)).changed
}

/**
 * Approves several commissions, or rejects them where a reason is given, and returns how many that changed and all of them that the program
 * has, as they are then, the newest first.
 */
export async function decideCommissions(
  db: Database,
  programId: number,
  commissionIds: number[],
  reason: string | undefined,
  outbox: RelayMessage[],
): Promise<{ changed: number; commissions: ListedCommission[] }> {
  const list = commissionsStatement({ programId }, { limit: commissionIds.length, commissionIds })
  if (reason === undefined) {
    const approve = call('approve_commissions', {
      program_ids: commissionIds.map(() => programId),
      commission_ids: commissionIds,
    })
    const [[row], commissions, [told]] = await retryOnce(() => db.batch([approve, list, writtenMessages()]))
    outbox.push(...messagesAbout({ program_id: programId, ...told }))
    return { changed: row?.approved ?? 0, commissions }
  }
  const reject = call('reject_commissions', {
    of_program_id: programId,
    commission_ids: commissionIds,
    because: reason,
  })
  const [[row], commissions, [told]] = await retryOnce(() => db.batch([reject, list, writtenMessages()]))
  outbox.push(...messagesAbout({ program_id: programId, ...told }))
  return { changed: row?.rejected ?? 0, commissions }
}

const noCommission = () => new ApiError('not_found', 'This program has no such commission.')
const oneCommission = (programId: number, commissionId: number) =>
  commissionsStatement({ programId }, { limit: 1, commissionId })

/**
 * Rejects a commission of a program for good, at any time: what is left of it is reversed, deducted from the balance where it
 * was credited, and the partner is told the reason. A rejected commission stays rejected whatever happens to its sale.
 * Returns the commission as it is then, what was deducted and the messages to send; rejecting it again changes nothing and deducts 0. Refuses with
 * `not_found`, and with `conflict` where refunds reversed it fully already.
 */
export async function rejectCommission(
  db: Database,
  programId: number,
  commissionId: number,
  reason: string,
): Promise<{ commission: ListedCommission; deduction_cents: number; currency: string; outbox: RelayMessage[] }> {
  const statement = call('reject_commission', {
    of_program_id: programId,
    of_commission_id: commissionId,
    because: reason,
  })
  const [[row], [commission], [told]] = await retryOnce(() =>
    db.batch([statement, oneCommission(programId, commissionId), writtenMessages()]),
  )
  if (!commission || !row?.outcome || row.currency === null) throw noCommission()
  if (row.outcome === 'reversed') {
    throw new ApiError('conflict', 'Refunds reversed this commission fully already, so there is nothing to reject.')
  }
  const outbox = messagesAbout({ program_id: programId, ...told })
  return { commission, deduction_cents: row.deduction_cents ?? 0, currency: row.currency, outbox }
}
