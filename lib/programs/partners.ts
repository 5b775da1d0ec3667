import { type RawBuilder, sql } from 'kysely'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { hashToken, newToken } from '../access/tokens.ts'

const invitationDays = 14

/** A code for people who did not choose one: the name's letters and four random digits. */
function suggestCode(name: string): string {
  const letters = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '')
    .slice(0, 20)
  const [random = 0] = crypto.getRandomValues(new Uint16Array(1))
  return `${letters || 'partner'}${1000 + (random % 9000)}`
}

function refuseTakenCode(error: unknown): never {
  if (violatedConstraint(error) === 'referral_links_code_key') {
    throw new ApiError('conflict', 'This code is taken. Codes are unique over all programs: choose another.')
  }
  if (violatedConstraint(error) === 'referral_links_code_check') {
    throw new ApiError('invalid_request', 'A code has 1 to 64 letters, digits and . _ @ - only. Choose another.')
  }
  throw error
}

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

/** Adds another link to a partner of a program. `pageUrl` is the page its copied address opens; null is the program's domain. */
export async function addLink(
  db: Database,
  link: { programId: number; partnerId: number; code: string; pageUrl: string | null },
): Promise<void> {
  await db
    .query(
      sql`insert into referral_links (code, program_id, partner_id, page_url)
        select ${link.code}, program_id, partner_id, ${link.pageUrl} from partner_programs
        where program_id = ${link.programId} and partner_id = ${link.partnerId} and is_active`,
    )
    .catch(refuseTakenCode)
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

/** Makes the secret for the link by which a partner takes over their account, or undefined where somebody has already. */
export async function invitePartner(
  db: Database,
  partnerId: number,
): Promise<{ token: string; email: string } | undefined> {
  const token = newToken()
  const [invited] = await db.query<{ email: string }>(sql`
    with invitation as (
      insert into partner_invitations (partner_id, token_hash, expires_at)
      select id, ${await hashToken(token)}, now() + make_interval(days => ${invitationDays})
      from partners where id = ${partnerId} and user_id is null and email is not null
      returning partner_id
    )
    select email from partners join invitation on partner_id = id`)
  return invited && { token, email: invited.email }
}

/** The partner an invitation's link is for, or undefined where the link is used up or too old. */
export async function findPartnerInvitation(
  db: Database,
  token: string,
): Promise<{ name: string; email: string } | undefined> {
  const [partner] = await db.query<{ name: string; email: string }>(sql`
    select p.name, p.email from partner_invitations i join partners p on p.id = i.partner_id
    where i.token_hash = ${await hashToken(token)} and i.accepted_at is null and i.expires_at > now() and p.user_id is null`)
  return partner
}

/** Ties a partner account to the signed-in user. Refuses a link that is used up, and users who are another partner already. */
export async function acceptPartnerInvitation(db: Database, token: string, userId: string): Promise<void> {
  const accepted = await db
    .query(
      sql`
      with invitation as (
        update partner_invitations i set accepted_at = now() from partners p
        where i.token_hash = ${await hashToken(token)} and i.accepted_at is null and i.expires_at > now()
          and p.id = i.partner_id and p.user_id is null
        returning i.partner_id
      )
      update partners set user_id = ${userId} from invitation where id = partner_id returning id`,
    )
    .catch((error: unknown) => {
      if (violatedConstraint(error) !== 'partners_user_id_key') throw error
      throw new ApiError(
        'conflict',
        'You are signed in as another partner already. Sign out, then open the link again.',
      )
    })
  if (accepted.length === 0) {
    throw new ApiError('forbidden', 'This invitation was used or left too long. Ask for a new one.')
  }
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

/** Column `links.links`: a partner's links in a program, each with its clicks, as JSON. */
function linksOf(programId: RawBuilder<unknown>, partnerId: RawBuilder<unknown>) {
  return sql`cross join lateral (
      select coalesce(json_agg(json_build_object(
        'id', l.id, 'code', l.code, 'page_url', l.page_url, 'is_active', l.is_active,
        'clicks', coalesce((select k.clicks from link_click_counts k where k.program_id = l.program_id and k.link_id = l.id), 0)
      ) order by l.id), '[]') as links
      from referral_links l where l.program_id = ${programId} and l.partner_id = ${partnerId}
    ) links`
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

/** Whether `page` is a page of the site at `domain`, its subdomains included. */
export function isPageOf(page: string, domain: string): boolean {
  if (!URL.canParse(page)) return false
  const { protocol, host } = new URL(page)
  return /^https?:$/.test(protocol) && (host === domain || host.endsWith(`.${domain}`))
}

/** The address a partner puts on their pages: `pageUrl`, or the program's site, with the partner's code. */
export function linkAddress(domain: string, code: string, pageUrl: string | null): string {
  const local = /^(localhost|127\.0\.0\.1)(:|$)/.test(domain)
  const url = new URL(pageUrl ?? `${local ? 'http' : 'https'}://${domain}/`)
  url.searchParams.set('aff', code)
  return url.href
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
