import { sql } from 'kysely'
import type { Database } from '../database.ts'
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
    .query<{ partner_id: string }>(
      sql`
      with found as (
        select id from partners where lower(email) = lower(${email}::text)
      ), made as (
        insert into partners (name, email) select ${name}, ${email} where not exists (select from found) returning id
      ), joined as (
        insert into partner_programs (program_id, partner_id)
        select ${programId}, id from (select id from found union all select id from made) partner
        on conflict (program_id, partner_id) do update set is_active = true
        returning program_id, partner_id
      )
      insert into referral_links (code, program_id, partner_id) select ${code}, program_id, partner_id from joined
      returning partner_id`,
    )
    .catch(refuseTakenCode)
  return { partnerId: Number(added?.partner_id), code }
}

/** Switches a partner of a program on or off, with all their links there: clicks on a link that is off are refused. */
export async function setPartnerActive(
  db: Database,
  programId: number,
  partnerId: number,
  active: boolean,
): Promise<void> {
  await db.batch([
    sql`update partner_programs set is_active = ${active} where program_id = ${programId} and partner_id = ${partnerId}`,
    sql`update referral_links set is_active = ${active} where program_id = ${programId} and partner_id = ${partnerId}`,
  ])
}

export interface PartnerOfProgram {
  id: number
  name: string
  email: string | null
  is_active: boolean
  /** True once somebody signs in as this partner. */
  has_account: boolean
  created_at: Date
  links: { id: number; code: string; page_url: string | null; is_active: boolean; clicks: number }[]
  /** Sales that earned a commission. */
  sales: number
  balances: { currency: string; balance_cents: number }[]
}

/**
 * Partners of a program with what they brought, the newest first: `limit` of them at most, below the id `before` where one is
 * given. `partnerId` asks for one alone.
 */
export async function listPartners(
  db: Database,
  programId: number,
  options: { limit: number; before?: number | undefined; partnerId?: number },
): Promise<PartnerOfProgram[]> {
  const { limit, before = null, partnerId = null } = options
  const rows = await db.query<Omit<PartnerOfProgram, 'id' | 'sales'> & { id: string; sales: string }>(sql`
    select p.id, p.name, p.email, m.is_active, p.user_id is not null as has_account, m.created_at, links.links,
      (select count(*) from commissions c where c.program_id = m.program_id and c.partner_id = p.id and c.kind = 'sale') as sales,
      (
        select coalesce(json_agg(json_build_object('currency', b.currency, 'balance_cents', b.balance_cents) order by b.currency), '[]')
        from balances b where b.program_id = m.program_id and b.partner_id = p.id
      ) as balances
    from partner_programs m
    join partners p on p.id = m.partner_id
    ${linksOf(sql`m.program_id`, sql`m.partner_id`)}
    where m.program_id = ${programId} and p.id < coalesce(${before}::bigint, 9223372036854775807)
      and p.id = coalesce(${partnerId}::bigint, p.id)
    order by p.id desc limit ${limit}`)
  return rows.map((row) => ({ ...row, id: Number(row.id), sales: Number(row.sales) }))
}

export interface TopPartner {
  id: number
  name: string
  sales: number
  /** In the program's currency, and what is left of it after reversals. */
  commission_cents: number
  revenue_cents: number
}

/**
 * The partners whose sales earned most in a range, in the program's currency. Both bounds belong to it, to the
 * millisecond. It costs by the commissions of the range.
 */
export async function topPartners(
  db: Database,
  program: { id: number; currency: string },
  range: { from: Date; to: Date },
  limit: number,
): Promise<TopPartner[]> {
  const rows = await db.query<Record<keyof TopPartner, string>>(sql`
    with made as not materialized (
      select partner_id, sale_id, amount_cents - reversed_cents as commission_cents from commissions
      where program_id = ${program.id} and currency = ${program.currency}
        and created_at >= ${range.from}::timestamptz and created_at < ${new Date(range.to.getTime() + 1)}::timestamptz
    ),
    -- Sales are looked up for those alone who are shown.
    top as (
      select partner_id, sum(commission_cents) as commission_cents from made
      group by partner_id order by commission_cents desc, partner_id limit ${limit}
    ),
    sold as (
      select top.partner_id, count(*) as sales, sum(s.amount_cents) as revenue_cents
      from top join made using (partner_id) join sales s on s.program_id = ${program.id} and s.id = made.sale_id
      group by top.partner_id
    )
    select p.id, p.name, coalesce(sold.sales, 0) as sales, coalesce(sold.revenue_cents, 0) as revenue_cents, top.commission_cents
    from top join partners p on p.id = top.partner_id left join sold on sold.partner_id = top.partner_id
    order by top.commission_cents desc, p.id`)
  return rows.map((row) => ({
    id: Number(row.id),
    name: row.name,
    sales: Number(row.sales),
    revenue_cents: Number(row.revenue_cents),
    commission_cents: Number(row.commission_cents),
  }))
}

export interface ProgramOfPartner {
  id: number
  name: string
  domain: string
  currency: string
  commission_bp: number
  is_active: boolean
  links: PartnerOfProgram['links']
}

/** The programs that a partner belongs to, with the partner's own links. */
export async function listProgramsOfPartner(db: Database, partnerId: number): Promise<ProgramOfPartner[]> {
  const rows = await db.query<Omit<ProgramOfPartner, 'id'> & { id: string }>(sql`
    select g.id, g.name, g.domain, g.currency, g.commission_bp, m.is_active, links.links
    from partner_programs m
    join programs g on g.id = m.program_id
    ${linksOf(sql`m.program_id`, sql`m.partner_id`)}
    where m.partner_id = ${partnerId} order by g.name, g.id`)
  return rows.map((row) => ({ ...row, id: Number(row.id) }))
}

/** Where a partner wants to be paid; null is their e-mail address. */
export async function setPayoutEmail(db: Database, partnerId: number, payoutEmail: string | null): Promise<void> {
  await db.query(sql`update partners set payout_email = ${payoutEmail} where id = ${partnerId}`)
}
