import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { linksFollow, linksOf, refuseTakenCode, suggestCode } from './links.ts'
import { openInvitationOf } from './partner-invitations.ts'

/**
 * Adds a partner to a program with a referral link. The partner is the program's own: whether others know the address makes no
 * difference. `code` null makes one up, a digit longer for each try that was taken. Refuses with `conflict` a taken code, and an
 * address that another partner of the program has.
 */
export async function addPartner(
  db: Database,
  partner: { programId: number; name: string; email: string | null; code: string | null },
): Promise<{ partnerId: number; code: string }> {
  const { programId, name, email } = partner
  for (let digits = 4; ; digits++) {
    const code = partner.code ?? suggestCode(name, digits)
    try {
      const [added] = await db.query(
        kysely
          .with('made', (cte) =>
            cte.insertInto('partners').values({ program_id: programId, name, email }).returning(['program_id', 'id']),
          )
          .insertInto('referral_links')
          .columns(['code', 'program_id', 'partner_id'])
          .expression((eb) => eb.selectFrom('made').select([eb.val(code).as('code'), 'program_id', 'id']))
          .returning((eb) => eb.ref('partner_id').$notNull().as('partner_id')),
      )
      if (!added) throw new Error('a partner was added without an answer')
      return { partnerId: added.partner_id, code }
    } catch (error) {
      const violated = violatedConstraint(error)
      if (violated === 'referral_links_code_key' && partner.code === null && digits < 9) continue
      if (violated !== 'partners_email_key') return refuseTakenCode(error)
      throw new ApiError('conflict', 'Another partner of this program has this address.', {
        details: [{ field: 'email', message: 'must be of no other partner of the program' }],
      })
    }
  }
}

/**
 * Switches a partner of a program on or off, with all their links there: clicks on a link that is off are refused. One who ended
 * is switched on where nobody signs in as them; others have to be invited again, and `conflict` says so.
 */
export async function setPartnerActive(
  db: Database,
  programId: number,
  partnerId: number,
  active: boolean,
): Promise<void> {
  const [changed] = await db.batch([
    kysely
      .updateTable('partners')
      .set({ is_active: active, ...(active && { ended_at: null, ended_by: null }) })
      .where('program_id', '=', programId)
      .where('id', '=', partnerId)
      .where((eb) => eb.or([eb('closed_at', 'is', null), eb.lit(!active)]))
      .where((eb) => eb.or([eb('ended_at', 'is', null), eb('user_id', 'is', null), eb.lit(!active)]))
      .returning('id'),
    linksFollow({ programId, partnerId }),
  ])
  if (changed.length === 0) {
    throw new ApiError('conflict', 'This partnership ended. Invite them again: it goes on when they accept.')
  }
}

export type PartnerOfProgram = Awaited<ReturnType<typeof listPartners>>[number]

/**
 * Partners of a program with what they brought, the newest first: `limit` of them at most, below the id `before` where one is
 * given. `partnerId` asks for one alone. `has_account` is true once somebody signs in as the partner, `invited` while an invitation is open,
 * `sales` counts those that earned a commission.
 */
export async function listPartners(
  db: Database,
  programId: number,
  options: { limit: number; before?: number | undefined; partnerId?: number },
) {
  const { limit, before, partnerId } = options
  let query = kysely
    .selectFrom('partners as p')
    .select((eb) => [
      'p.id',
      'p.name',
      'p.email',
      'p.is_active',
      'p.ended_at',
      'p.ended_by',
      eb('p.user_id', 'is not', null).$castTo<boolean>().as('has_account'),
      openInvitationOf(eb.ref('p.program_id'), eb.ref('p.id')).as('invited'),
      'p.created_at',
      linksOf(eb.ref('p.program_id'), eb.ref('p.id')).as('links'),
      eb
        .selectFrom('commissions as c')
        .select((sold) => sold.fn.countAll<number>().as('sales'))
        .whereRef('c.program_id', '=', 'p.program_id')
        .whereRef('c.partner_id', '=', 'p.id')
        .where('c.kind', '=', 'sale')
        // One of 0 is of a sale that brought nothing after all.
        .where('c.amount_cents', '>', 0)
        .$asScalar()
        .$notNull()
        .as('sales'),
      jsonArrayFrom(
        eb
          .selectFrom('balances as b')
          .select(['b.currency', 'b.balance_cents'])
          .whereRef('b.program_id', '=', 'p.program_id')
          .whereRef('b.partner_id', '=', 'p.id')
          .orderBy('b.currency'),
      ).as('balances'),
    ])
    .where('p.program_id', '=', programId)
    .orderBy('p.id', 'desc')
    .limit(limit)
  if (before !== undefined) query = query.where('p.id', '<', before)
  if (partnerId !== undefined) query = query.where('p.id', '=', partnerId)
  return await db.query(query)
}

/**
 * The partners whose sales earned most in a range, in the program's currency, with what is left of their commissions after reversals
 * and the revenue of their sales. Both bounds belong to the range, to the millisecond. It costs by the commissions of the range.
 */
export async function topPartners(
  db: Database,
  program: { id: number; currency: string },
  range: { from: Date; to: Date },
  limit: number,
) {
  return await db.query(
    kysely
      .with(
        (cte) => cte('made').notMaterialized(),
        (cte) =>
          cte
            .selectFrom('commissions')
            .select(['partner_id', 'sale_id'])
            .select((eb) => eb('amount_cents', '-', eb.ref('reversed_cents')).as('commission_cents'))
            .where('program_id', '=', program.id)
            .where('currency', '=', program.currency)
            .where('amount_cents', '>', 0)
            .where('created_at', '>=', range.from)
            .where('created_at', '<', new Date(range.to.getTime() + 1)),
      )
      // Sales are looked up for those alone who are shown.
      .with('top', (cte) =>
        cte
          .selectFrom('made')
          .select('partner_id')
          .select((eb) => eb.cast<number>(eb.fn.sum('commission_cents'), 'bigint').as('commission_cents'))
          .groupBy('partner_id')
          .orderBy('commission_cents', 'desc')
          .orderBy('partner_id')
          .limit(limit),
      )
      .with('sold', (cte) =>
        cte
          .selectFrom('top')
          .innerJoin('made', 'made.partner_id', 'top.partner_id')
          .innerJoin('sales as s', (join) =>
            join.on('s.program_id', '=', program.id).onRef('s.id', '=', 'made.sale_id'),
          )
          .select('top.partner_id')
          .select((eb) => [
            eb.fn.countAll<number>().as('sales'),
            eb.cast<number>(eb.fn.sum('s.amount_cents'), 'bigint').as('revenue_cents'),
          ])
          .groupBy('top.partner_id'),
      )
      .selectFrom('top')
      .innerJoin('partners as p', (join) =>
        join.on('p.program_id', '=', program.id).onRef('p.id', '=', 'top.partner_id'),
      )
      .leftJoin('sold', 'sold.partner_id', 'top.partner_id')
      .select(['p.id', 'p.name'])
      .select((eb) => [
        eb.fn.coalesce('sold.sales', eb.lit(0)).as('sales'),
        eb.fn.coalesce('sold.revenue_cents', eb.lit(0)).as('revenue_cents'),
        'top.commission_cents',
      ])
      .orderBy('top.commission_cents', 'desc')
      .orderBy('p.id'),
  )
}
