import { type InferResult, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'

export type ShadowMode = InferResult<ReturnType<typeof shadowModeStatement>>[number]

/** Reads whether a program is in shadow mode, and how leaving it affects its commissions. */
export async function readShadowMode(db: Database, programId: number): Promise<ShadowMode> {
  return found(await db.query(shadowModeStatement(programId)))
}

/**
 * Enters shadow mode: the program computes everything but credits and pays nothing. Partners don't see these commissions and don't
 * get notifications. Repeating this changes nothing. Throws `conflict` once the program has a payout.
 */
export async function enterShadowMode(db: Database, programId: number): Promise<ShadowMode> {
  const [[entered], rows] = await retryOnce(() =>
    db.batch([call('enter_shadow_mode', { of_program_id: programId }), shadowModeStatement(programId)]),
  )
  if (entered?.outcome === 'paid_out') {
    throw new ApiError('conflict', 'This program has a payout. Shadow mode is possible only before the first payout.')
  }
  return found(rows)
}

/**
 * Leaves shadow mode. The program credits the commissions of later sales and leads. Shadow-mode commissions are never credited, because the
 * former service pays them. Repeating this changes nothing.
 */
export async function leaveShadowMode(db: Database, programId: number): Promise<ShadowMode> {
  const leave = call('leave_shadow_mode', { of_program_id: programId })
  const [, rows] = await retryOnce(() => db.batch([leave, shadowModeStatement(programId)]))
  return found(rows)
}

function found([state]: ShadowMode[]): ShadowMode {
  if (!state) throw new ApiError('not_found', 'There is no such program.')
  return state
}

function shadowModeStatement(programId: number) {
  // Both lists use it, so Postgres reads the commissions once.
  const open = kysely
    .selectFrom('commissions as c')
    .select((eb) => [
      'c.is_shadow',
      'c.currency',
      eb.fn.countAll<number>().as('commissions'),
      eb.cast<number>(eb.fn.sum(eb('c.amount_cents', '-', eb.ref('c.reversed_cents'))), 'bigint').as('amount_cents'),
    ])
    .where('c.program_id', '=', programId)
    .where('c.credited_at', 'is', null)
    .where('c.rejected_at', 'is', null)
    .where('c.reversal', '<>', 'full')
    .groupBy(['c.is_shadow', 'c.currency'])
  return kysely
    .with('open', () => open)
    .selectFrom('programs as p')
    .select((eb) => {
      const sums = (isShadow: boolean) =>
        eb
          .selectFrom('open as o')
          .select(['o.currency', 'o.commissions', 'o.amount_cents'])
          .where('o.is_shadow', '=', sql.lit(isShadow))
          .orderBy('o.currency')
      return [
        sql<boolean>`in_shadow_mode(p.id)`.as('in_shadow_mode'),
        'p.shadow_since',
        'p.shadow_ended_at',
        eb
          .not(
            eb.exists(
              eb
                .selectFrom('payouts as w')
                .whereRef('w.program_id', '=', 'p.id')
                .where('w.status', 'not in', ['refused', 'canceled']),
            ),
          )
          .$castTo<boolean>()
          .as('can_enter'),
        /** Shadow-mode commissions after reversals. They are never credited. */
        jsonArrayFrom(sums(true)).as('never_credited'),
        /** Other open commissions, which are credited after shadow mode when their hold ends. */
        jsonArrayFrom(sums(false)).as('to_credit'),
      ]
    })
    .where('p.id', '=', programId)
}
