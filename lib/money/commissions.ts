import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { emailHash } from '../tracking/customers.ts'
import { commissionsStatement, type ListedCommission } from './commission-list.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'
import { hashPartnerEmails } from './partner-hashes.ts'

/**
 * Credits up to `limit` commissions whose hold has ended to the partners' balances, longest waiting first. Parts that are already
 * refunded aren't credited. Returns the number of credited commissions and whether more may be waiting. A run can stop at any point. If
 * two runs overlap, one waits for the other's batch and skips its commissions.
 */
export async function approveDueCommissions(
  db: Database,
  limit: number,
  programId: number | null = null,
): Promise<{ credited: number; more: boolean }> {
  const due = call('approve_due_commissions', { at_most: limit, of_program_id: programId })
  const [row] = await retryOnce(() => db.query(due))
  return { credited: row?.approved ?? 0, more: row?.more ?? false }
}

/**
 * Credits commissions of a program before their hold ends, and returns their number. Skips credited, rejected and fully reversed
 * commissions, and commissions of other programs. Adds the messages to send to `outbox`.
 */
export async function approveCommissions(
  db: Database,
  programId: number,
  commissionIds: number[],
  outbox: RelayMessage[] = [],
  emailHashKey?: string,
): Promise<number> {
  return (await approve(db, programId, commissionIds, outbox, emailHashKey)).changed
}

/**
 * Credits one commission, and returns it with the messages to send. A credited commission stays unchanged. Throws `not_found`, and
 * `conflict` if the commission is rejected or fully reversed.
 */
export async function approveCommission(
  db: Database,
  programId: number,
  commissionId: number,
  emailHashKey?: string,
): Promise<{ commission: ListedCommission; outbox: RelayMessage[] }> {
  const outbox: RelayMessage[] = []
  const {
    commissions: [commission],
  } = await approve(db, programId, [commissionId], outbox, emailHashKey)
  if (!commission) throw noCommission()
  if (commission.credited_at === null || commission.rejected_at !== null) {
    throw new ApiError('conflict', whyNotApproved(commission))
  }
  return { commission, outbox }
}

function whyNotApproved({
  is_shadow,
  held_at,
  credited_at,
  rejected_at,
  amount_cents,
  reversed_cents,
}: ListedCommission) {
  if (is_shadow)
    return 'This commission was computed in shadow mode. The former service pays it, so it is never credited.'
  if (held_at !== null) return 'This commission is held for review. Release or reject it under Reviews.'
  const isOpen = credited_at === null && rejected_at === null && reversed_cents < amount_cents
  if (isOpen) return 'This program is in shadow mode and credits nothing. Leave shadow mode first.'
  return 'This commission was already approved or rejected, or fully reversed by refunds.'
}

/**
 * Permanently rejects commissions of a program, all with one reason, and returns their number. Skips rejected and fully reversed
 * commissions, and commissions of other programs. Adds the messages to send to `outbox`.
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
 * Approves several commissions, or rejects them if a reason is given. Returns the number of changed commissions, and all requested
 * commissions of the program, newest first.
 */
export async function decideCommissions(
  db: Database,
  programId: number,
  commissionIds: number[],
  reason: string | undefined,
  outbox: RelayMessage[],
  emailHashKey?: string,
): Promise<{ changed: number; commissions: ListedCommission[] }> {
  const list = commissionsStatement({ programId }, { limit: commissionIds.length, commissionIds })
  if (reason === undefined) return await approve(db, programId, commissionIds, outbox, emailHashKey)
  const reject = call('reject_commissions', {
    of_program_id: programId,
    commission_ids: commissionIds,
    because: reason,
  })
  const [[row], commissions, [written]] = await retryOnce(() => db.batch([reject, list, writtenMessages()]))
  outbox.push(...messagesAbout({ program_id: programId, ...written }))
  return { changed: row?.rejected ?? 0, commissions }
}

/**
 * Approves commissions in one transaction. With `emailHashKey`, first hashes the addresses of partners that aren't hashed yet, so that
 * each buyer with a known address is compared with the partner.
 */
async function approve(
  db: Database,
  programId: number,
  commissionIds: number[],
  outbox: RelayMessage[],
  emailHashKey: string | undefined,
): Promise<{ changed: number; commissions: ListedCommission[] }> {
  if (emailHashKey !== undefined) {
    const of = { programId, commissionIds }
    const hash = (address: string) => emailHash(emailHashKey, address)
    await retryOnce(() => hashPartnerEmails(db, hash, commissionIds.length, of))
  }
  const statement = call('credit_commissions', {
    program_ids: commissionIds.map(() => programId),
    commission_ids: commissionIds,
    compares: emailHashKey !== undefined,
  })
  const list = commissionsStatement({ programId }, { limit: commissionIds.length, commissionIds })
  const [[row], commissions, [written]] = await retryOnce(() => db.batch([statement, list, writtenMessages()]))
  outbox.push(...messagesAbout({ program_id: programId, ...written }))
  return { changed: row?.credit_commissions ?? 0, commissions }
}

const noCommission = () => new ApiError('not_found', 'This program has no such commission.')
const oneCommission = (programId: number, commissionId: number) =>
  commissionsStatement({ programId }, { limit: 1, commissionId })

/**
 * Permanently rejects a commission of a program, at any time. Reverses the rest of the commission, deducts it from the balance if it was
 * credited, and sends the partner the reason. A rejected commission stays rejected, even if its sale changes.
 *
 * Returns the commission, the deducted amount and the messages to send. Rejecting it again changes nothing and deducts 0. Throws
 * `not_found`, and `conflict` if refunds have already reversed it in full.
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
  const [[row], [commission], [written]] = await retryOnce(() =>
    db.batch([statement, oneCommission(programId, commissionId), writtenMessages()]),
  )
  if (!commission || !row?.outcome || row.currency === null) throw noCommission()
  if (row.outcome === 'reversed') {
    throw new ApiError(
      'conflict',
      'Refunds have already reversed this commission fully, so there is nothing to reject.',
    )
  }
  const outbox = messagesAbout({ program_id: programId, ...written })
  return { commission, deduction_cents: row.deduction_cents ?? 0, currency: row.currency, outbox }
}
