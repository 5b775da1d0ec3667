import { type Expression, type InferResult, sql } from 'kysely'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { ApiError, found, notOfProgram } from '../errors.ts'
import { storeCreated, type Created } from '../idempotency.ts'
import { type Filters, type Part, partOf, totalsOf } from '../keyset.ts'
import { containing, kysely } from '../kysely.ts'
import { isName } from '../names.ts'

/** A typed code: up to 64 characters of any script, without spaces. */
export const codeText = z.string('must be a code').check(
  z.trim(),
  z.normalize(),
  z.refine(
    (text: string) => isName(text) && Array.from(text).length <= 64 && !/\s/u.test(text),
    'must be 1 to 64 characters without spaces',
  ),
)

export type PartnerCode = InferResult<ReturnType<typeof codesStatement>>[number]

interface CodeList extends Part {
  codeId?: number | undefined
  partnerId?: number | undefined
  /** Matches a whole code, ignoring case. */
  code?: string | undefined
  /** Searches within the code. */
  search?: string | undefined
  /** Whether to include revoked codes. Default: true. */
  isRevoked?: boolean | undefined
}

/** Lists the codes of a program's partners, newest first. */
function codesStatement(programId: number, list: CodeList) {
  const { codeId, partnerId, code, search, isRevoked, ...part } = list
  let query = kysely
    .selectFrom('partner_codes as k')
    .innerJoin('partners as r', (join) =>
      join.onRef('r.program_id', '=', 'k.program_id').onRef('r.id', '=', 'k.partner_id'),
    )
    .innerJoin('programs as g', 'g.id', 'k.program_id')
    .select((eb) => eb('g.processor_account_id', '=', eb.ref('k.account_id')).as('is_connected'))
    .select(['k.id', 'k.code', 'k.partner_id', 'r.name as partner_name', 'k.promotion_code_id', 'k.account_id'])
    .select(['k.created_at', 'k.revoked_at'])
    .where('k.program_id', '=', programId)
  if (codeId !== undefined) query = query.where('k.id', '=', codeId)
  if (partnerId !== undefined) query = query.where('k.partner_id', '=', partnerId)
  if (code !== undefined) query = query.where(isCode(code))
  if (search !== undefined) query = query.where('k.code', 'ilike', containing(search))
  if (isRevoked !== undefined) query = query.where('k.revoked_at', isRevoked ? 'is not' : 'is', null)
  return partOf(query, sql.ref<number>('k.id'), part)
}

const isCode = (code: string) => sql<boolean>`lower(normalize(k.code)) = lower(normalize(${code}::text))`

export async function listCodes(db: Database, programId: number, list: CodeList): Promise<PartnerCode[]> {
  return await db.query(codesStatement(programId, list))
}

export const codeTotals = (programId: number, filters: Filters<CodeList>) =>
  totalsOf(codesStatement(programId, { ...filters, limit: 0 }))

/**
 * Lists codes with all-time figures that are up to a minute old: sales (in any currency) and commission (after reversals, in the program's
 * currency). If a code matches the search exactly, it comes first.
 */
export async function listCodeFigures(db: Database, programId: number, list: CodeList) {
  const { search, before, after, limit } = list
  if (search === undefined) return await db.query(codeFiguresStatement(programId, list))
  const others = codeFiguresStatement(programId, list).where((eb) => eb.not(isCode(search)))
  if ((before ?? after) !== undefined) return await db.query(others)
  const named = codeFiguresStatement(programId, { ...list, search: undefined, code: search })
  const [first, rest] = await db.batch([named, others])
  return [...first, ...rest].slice(0, limit)
}
export type CodeWithFigures = InferResult<ReturnType<typeof codeFiguresStatement>>[number]

export const codeFiguresStatement = (programId: number, list: CodeList) =>
  codesStatement(programId, list).select(figures)

const figures = [totalOf('sales').as('sales'), totalOf('commission_cents').as('commission_cents')] as const

/** Sums a metric of the code `k` over all days. Counts only money in the program's currency. */
function totalOf(metric: 'sales' | 'commission_cents') {
  const currency = sql` and t.currency = (select p.currency from programs p where p.id = k.program_id)`
  return sql<number>`(
    select coalesce(sum(t.${sql.ref(metric)}), 0)::bigint from grouped_totals t
    where t.program_id = k.program_id and t.grouping_name = 'code' and t.span = 'month' and t.value = k.id::text${metric === 'sales' ? sql`` : currency}
  )`
}

/** Selects a partner's valid codes with the same figures, oldest first. */
export function codesOf(programId: Expression<number>, partnerId: Expression<number>) {
  return kysely
    .selectFrom('partner_codes as k')
    .select(['k.id', 'k.code', ...figures])
    .where('k.program_id', '=', programId)
    .where('k.partner_id', '=', partnerId)
    .where('k.revoked_at', 'is', null)
    .orderBy('k.id')
    .limit(sql.lit(100))
}

/** Reads a code. Throws `not_found`. */
export async function readCode(db: Database, programId: number, codeId: number): Promise<PartnerCode> {
  return found((await listCodes(db, programId, { limit: 1, codeId }))[0], 'code')
}

/** A new code, with its Stripe promotion code and account if it has one. */
interface NewCode {
  partner_id: number
  code: string
  promotion_code_id: string | null
  account_id: string | null
}

/**
 * Gives a partner a code, or restores a revoked one. Throws `not_found` if the program has no such partner. Throws `conflict`
 * if another partner has or had the code, because a code must identify one person in late reports and in the books.
 */
export async function createCode(db: Database, programId: number, code: NewCode): Promise<Created<PartnerCode>> {
  const [[answer], [created]] = await db.batch([
    call('create_code', {
      of_program_id: programId,
      of_partner_id: code.partner_id,
      new_code: code.code,
      of_promotion_code_id: code.promotion_code_id,
      of_account_id: code.account_id,
    }),
    storeCreated(codesStatement(programId, { limit: 1, code: code.code, partnerId: code.partner_id })),
  ])
  if (answer?.refusal) refuse(answer.refusal, answer.held_by)
  return found(created?.created, 'code')
}

function refuse(refusal: string, heldBy: string | null): never {
  if (refusal === 'no_partner') throw notOfProgram('partner_id', 'partner')
  const [field, message, rule] =
    refusal === 'promotion_code_taken'
      ? [
          'promotion_code_id',
          'This promotion code already belongs to another code here.',
          'must not belong to another code',
        ]
      : refusal === 'revoked'
        ? [
            'code',
            `This code belonged to ${heldBy} and is revoked. A code stays with its partner.`,
            'must never have been a code of another partner',
          ]
        : ['code', `${heldBy} has this code.`, 'must be unique among the partners of the program']
  throw new ApiError('conflict', message, { details: [{ field, message: rule }] })
}

/** Revokes a code and returns it. The code attributes no later purchases. Repeating this changes nothing. Throws `not_found`. */
export async function revokeCode(db: Database, programId: number, codeId: number): Promise<PartnerCode> {
  const [, [code]] = await db.batch([
    call('revoke_code', { of_program_id: programId, of_code_id: codeId }),
    codesStatement(programId, { limit: 1, codeId }),
  ])
  return found(code, 'code')
}
