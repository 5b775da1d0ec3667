import { jsonArrayFrom } from 'kysely/helpers/postgres'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { linksOf, refuseTakenCode, suggestCode } from './links.ts'

/**
 * Adds a partner to a program with a referral link. Somebody who is a partner of another program already is found by their
 * e-mail address, so that they see all their programs in one place. `code` null makes one up. Refuses a taken code with `conflict`.
 */
export async function addPartner(
  db: Database,
  partner: { programId: number; name: string; email: string | null; code: string | null },
): Promise<{ partnerId: number; code: string }> {
  const { programId, name, email } = partner
  const code = partner.code ?? suggestCode(name)
  const [added] = await db
    .query(
      kysely
        .with('found', (cte) =>
          cte
            .selectFrom('partners')
            .select('id')
            .where((eb) =>
              eb(eb.fn<string>('lower', ['email']), '=', eb.fn<string>('lower', [eb.cast(eb.val(email), 'text')])),
            ),
        )
        .with('made', (cte) =>
          cte
            .insertInto('partners')
            .columns(['name', 'email'])
            .expression((eb) =>
              kysely
                .selectNoFrom([eb.val(name).as('name'), eb.val(email).as('email')])
                .where(eb.not(eb.exists(eb.selectFrom('found')))),
            )
            .returning('id'),
        )
        .with('joined', (cte) =>
          cte
            .insertInto('partner_programs')
            .columns(['program_id', 'partner_id'])
            .expression((eb) =>
              eb
                .selectFrom(
                  eb.selectFrom('found').select('id').unionAll(eb.selectFrom('made').select('id')).as('partner'),
                )
                .select([eb.val(programId).as('program_id'), 'partner.id']),
            )
            .onConflict((oc) => oc.columns(['program_id', 'partner_id']).doUpdateSet({ is_active: true }))
            .returning(['program_id', 'partner_id']),
        )
        .insertInto('referral_links')
        .columns(['code', 'program_id', 'partner_id'])
        .expression((eb) => eb.selectFrom('joined').select([eb.val(code).as('code'), 'program_id', 'partner_id']))
        .returning((eb) => eb.ref('partner_id').$notNull().as('partner_id')),
    )
    .catch(refuseTakenCode)
  if (!added) throw new Error('a partner was added without an answer')
  return { partnerId: added.partner_id, code }
}

/** Switches a partner of a program on or off, with all their links there: clicks on a link that is off are refused. */
export async function setPartnerActive(
  db: Database,
  programId: number,
  partnerId: number,
  active: boolean,
): Promise<void> {
  await db.batch([
    kysely
      .updateTable('partner_programs')
      .set({ is_active: active })
      .where('program_id', '=', programId)
      .where('partner_id', '=', partnerId),
    kysely
      .updateTable('referral_links')
      .set({ is_active: active })
      .where('program_id', '=', programId)
      .where('partner_id', '=', partnerId),
  ])
}

export type PartnerOfProgram = Awaited<ReturnType<typeof listPartners>>[number]

/**
 * Partners of a program with what they brought, the newest first: `limit` of them at most, below the id `before` where one is
 * given. `partnerId` asks for one alone. `has_account` is true once somebody signs in as the partner, `sales` counts those that
 * earned a commission.
 */
export async function listPartners(
  db: Database,
  programId: number,
  options: { limit: number; before?: number | undefined; partnerId?: number },
) {
  const { limit, before, partnerId } = options
  let query = kysely
    .selectFrom('partner_programs as m')
    .innerJoin('partners as p', 'p.id', 'm.partner_id')
    .select((eb) => [
      'p.id',
      'p.name',
      'p.email',
      'm.is_active',
      eb('p.user_id', 'is not', null).$castTo<boolean>().as('has_account'),
      'm.created_at',
      linksOf(eb.ref('m.program_id'), eb.ref('m.partner_id')).as('links'),
      eb
        .selectFrom('commissions as c')
        .select((sold) => sold.fn.countAll<number>().as('sales'))
        .whereRef('c.program_id', '=', 'm.program_id')
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
          .whereRef('b.program_id', '=', 'm.program_id')
          .whereRef('b.partner_id', '=', 'p.id')
          .orderBy('b.currency'),
      ).as('balances'),
    ])
    .where('m.program_id', '=', programId)
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
      .innerJoin('partners as p', 'p.id', 'top.partner_id')
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

export type ProgramOfPartner = Awaited<ReturnType<typeof listProgramsOfPartner>>[number]

/** The programs that a partner belongs to, with the partner's own links. */
export async function listProgramsOfPartner(db: Database, partnerId: number) {
  return await db.query(
    kysely
      .selectFrom('partner_programs as m')
      .innerJoin('programs as g', 'g.id', 'm.program_id')
      .select(['g.id', 'g.name', 'g.domain', 'g.currency', 'g.commission_bp', 'm.is_active'])
      .select((eb) => linksOf(eb.ref('m.program_id'), eb.ref('m.partner_id')).as('links'))
      .where('m.partner_id', '=', partnerId)
      .orderBy('g.name')
      .orderBy('g.id'),
  )
}

/** Where a partner wants to be paid; null is their e-mail address. */
export async function setPayoutEmail(db: Database, partnerId: number, payoutEmail: string | null): Promise<void> {
  await db.query(kysely.updateTable('partners').set({ payout_email: payoutEmail }).where('id', '=', partnerId))
}
