import { type Expression, type ExpressionBuilder, type InferResult, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { storeCreated, type Created } from '../idempotency.ts'
import { refuse } from '../constraints.ts'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError, found, notOfProgram } from '../errors.ts'
import { type Part, partOf } from '../keyset.ts'
import { containing, kysely, lower, now } from '../kysely.ts'
import type { DB, Json } from '../schema.ts'
import { mergedMetadata, type Metadata, type MetadataChanges } from './metadata.ts'

/** Suggests a code from the name's letters and `digits` (4 to 9) random digits. */
export function suggestCode(name: string, digits: number): string {
  const letters = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '')
    .slice(0, 20)
  return `${letters || 'partner'}${randomDigits(digits)}`
}

/** Returns up to 9 random digits for the end of a code. */
export function randomDigits(digits: number): string {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1))
  const first = 10 ** (digits - 1)
  return String(first + (random % (9 * first)))
}

/** The maximum number of a partner's links in a program, including disabled ones. */
export const maxLinks = 500

/**
 * Adds a link to an active partner of a program. The link opens `pageUrl`, or the program's domain if `pageUrl` is null. If `code` is
 * null, it is generated from the partner's id. Throws `conflict` for a taken code or `external_id`, for an inactive partner or if the
 * partner has 500 links. Throws `not_found` for an unknown partner.
 */
export async function addLink(
  db: Database,
  link: {
    programId: number
    partnerId: number
    code: string | null
    pageUrl: string | null
    external_id?: string | null | undefined
    metadata?: Metadata | undefined
  },
): Promise<Created<ListedLink>> {
  const { programId, partnerId, pageUrl, external_id = null, metadata = {} } = link
  for (let digits = 4; ; digits++) {
    const code = link.code ?? suggestCode(`partner${partnerId}x`, digits)
    try {
      const [, [added], [partner]] = await db.batch([
        kysely
          .insertInto('referral_links')
          .columns(['program_id', 'partner_id', 'code', 'page_url', 'external_id', 'metadata'])
          .expression((eb) =>
            eb
              .selectFrom('partners')
              .select(['program_id', 'id'])
              .select([eb.val(code).as('code'), eb.val(pageUrl).as('page_url'), eb.val(external_id).as('external_id')])
              .select(sql<Json>`${JSON.stringify(metadata)}::jsonb`.as('metadata'))
              .where('program_id', '=', programId)
              .where('id', '=', partnerId)
              .where('is_active', '=', true)
              .where(linkCountOf(programId, partnerId), '<', maxLinks),
          ),
        // If the statement didn't add a link, another partner may have the code.
        storeCreated(linksStatement(programId, { limit: 1, code }).where('l.created_at', '=', now)),
        kysely
          .selectFrom('partners')
          .select(['id', linkCountOf(programId, partnerId).$asScalar().$notNull().as('links')])
          .where('program_id', '=', programId)
          .where('id', '=', partnerId),
      ])
      if (added?.created) return added.created
      if (!partner) throw notOfProgram('partner_id', 'partner')
      if (partner.links >= maxLinks)
        throw new ApiError('conflict', `A partner can have at most ${maxLinks} links. Use or change an existing one.`)
    } catch (error) {
      if (violatedConstraint(error) === 'referral_links_code_key' && link.code === null && digits < 9) continue
      refuse(error)
    }
    throw new ApiError(
      'conflict',
      'This partner is not active, so clicks on a new link would be refused. Activate the partner first.',
    )
  }
}

/** The number of a partner's links. */
function linkCountOf(programId: number, partnerId: number) {
  return kysely
    .selectFrom('referral_links')
    .select((eb) => eb.fn.countAll<number>().as('links'))
    .where('program_id', '=', programId)
    .where('partner_id', '=', partnerId)
}

/** Changes the given fields of a link and returns it. Throws `not_found`, and `conflict` when enabling a link of an inactive partner. */
export async function updateLink(
  db: Database,
  programId: number,
  linkId: number,
  changes: {
    is_active?: boolean | undefined
    page_url?: string | null | undefined
    external_id?: string | null | undefined
    metadata?: MetadataChanges
  },
): Promise<ListedLink> {
  const { is_active, page_url, external_id, metadata } = changes
  const [changed, [link]] = await db
    .batch([
      kysely
        .updateTable('referral_links as l')
        .set({
          ...(is_active !== undefined && { is_active }),
          ...(page_url !== undefined && { page_url }),
          ...(external_id !== undefined && { external_id }),
          metadata: (eb) => mergedMetadata(eb.ref('l.metadata'), metadata),
        })
        .where('l.program_id', '=', programId)
        .where('l.id', '=', linkId)
        .where((eb) =>
          eb.or([
            eb.lit(!is_active),
            eb.exists(
              eb
                .selectFrom('partners as p')
                .whereRef('p.program_id', '=', 'l.program_id')
                .whereRef('p.id', '=', 'l.partner_id')
                .where('p.is_active', '=', true),
            ),
          ]),
        )
        .returning('l.id'),
      linksStatement(programId, { limit: 1, linkId }),
    ])
    .catch(refuse)
  const known = found(link, 'link')
  if (changed.length === 0) {
    throw new ApiError(
      'conflict',
      'The partner of this link is deactivated. Activate the partner, and their links become active again.',
    )
  }
  return known
}

/** Reads a link. Throws `not_found`. */
export async function readLink(db: Database, programId: number, linkId: number): Promise<ListedLink> {
  return found((await listLinks(db, programId, { limit: 1, linkId }))[0], 'link')
}

export type ListedLink = InferResult<ReturnType<typeof linksStatement>>[number]
export const linkStates = ['active', 'inactive'] as const

interface LinkList extends Part {
  /** Searches the code and the page. */
  search?: string | undefined
  status?: (typeof linkStates)[number] | undefined
  partner_id?: number | undefined
  external_id?: string | undefined
  code?: string | undefined
  linkId?: number | undefined
}

/** Lists links of a program with their clicks, newest first. */
export async function listLinks(db: Database, programId: number, list: LinkList): Promise<ListedLink[]> {
  return await db.query(linksStatement(programId, list))
}

function linksStatement(programId: number, list: LinkList) {
  const { search, status, partner_id, external_id, code, linkId, ...part } = list
  let query = kysely
    .selectFrom('referral_links as l')
    .innerJoin('programs as g', 'g.id', 'l.program_id')
    .leftJoinLateral(clicksOfLink, (join) => join.onTrue())
    .select((eb) => [
      'l.id',
      'l.code',
      'l.partner_id',
      'g.domain',
      'l.page_url',
      'l.is_active',
      'l.external_id',
      eb.ref('l.metadata').$castTo<Metadata>().as('metadata'),
      eb.fn.coalesce('k.clicks', eb.lit(0)).as('clicks'),
      eb.fn.coalesce('k.bot_clicks', eb.lit(0)).as('bot_clicks'),
      'k.last_clicked_at',
      'l.created_at',
    ])
    .where('l.program_id', '=', programId)
  if (linkId !== undefined) query = query.where('l.id', '=', linkId)
  if (status !== undefined) query = query.where('l.is_active', '=', status === 'active')
  if (partner_id !== undefined) query = query.where('l.partner_id', '=', partner_id)
  if (external_id !== undefined) query = query.where('l.external_id', '=', external_id)
  if (code !== undefined) query = query.where((eb) => eb(eb.fn('lower', ['l.code']), '=', lower(code)))
  if (search !== undefined) {
    const like = containing(search)
    query = query.where((eb) => eb.or([eb('l.code', 'ilike', like), eb('l.page_url', 'ilike', like)]))
  }
  return partOf(query, sql.ref<number>('l.id'), part)
}

/**
 * The clicks of the link `l`, including uncounted ones, with bots counted separately. The limit makes Postgres look up a single link.
 * Without it, Postgres would sum all links of the program for each link.
 */
export const clicksOfLink = (eb: ExpressionBuilder<DB & { l: DB['referral_links'] }, 'l'>) =>
  eb
    .selectFrom('link_click_counts as c')
    .select((count) => [
      count.cast<number>('c.clicks', 'bigint').as('clicks'),
      count.cast<number>('c.bot_clicks', 'bigint').as('bot_clicks'),
      'c.last_clicked_at',
    ])
    .whereRef('c.program_id', '=', 'l.program_id')
    .whereRef('c.link_id', '=', 'l.id')
    .limit(sql.lit(1))
    .as('k')

/** Enables or disables all links of some partners, in the same transaction as the partners themselves. */
export function linksFollow(of: { programId: number; partnerIds: number[] } | { programId: number; userId: string }) {
  return kysely
    .updateTable('referral_links as l')
    .from('partners as p')
    .set({ is_active: (eb) => eb.ref('p.is_active') })
    .where('l.program_id', '=', of.programId)
    .whereRef('p.program_id', '=', 'l.program_id')
    .whereRef('p.id', '=', 'l.partner_id')
    .where((eb) =>
      'userId' in of ? eb('p.user_id', '=', of.userId) : sql<boolean>`p.id = any (${of.partnerIds}::bigint[])`,
    )
}

/** Finds the partner of a program whose link has this code. */
export function partnerOfCode(programId: number, code: string) {
  return kysely
    .selectFrom('referral_links as l')
    .select('l.partner_id')
    .where('l.program_id', '=', programId)
    .where((eb) => eb(eb.fn('lower', ['l.code']), '=', lower(code)))
    .$asScalar()
}

/** A partner's links in a program with their clicks, oldest first. Bots are counted separately. */
function linksOfPartner(programId: Expression<number>, partnerId: Expression<number>) {
  return kysely
    .selectFrom('referral_links as l')
    .leftJoinLateral(clicksOfLink, (join) => join.onTrue())
    .select((eb) => [
      'l.id',
      'l.code',
      'l.page_url',
      'l.is_active',
      eb.fn.coalesce('k.clicks', eb.lit(0)).as('clicks'),
      eb.fn.coalesce('k.bot_clicks', eb.lit(0)).as('bot_clicks'),
    ])
    .where('l.program_id', '=', programId)
    .where('l.partner_id', '=', partnerId)
    .orderBy('l.id')
}

/** The maximum number of links in a list of partners. */
export const linksListed = 10

/** Selects, as a column, the first links of {@link linksOfPartner}, plus one if the list is longer. */
export function linksOf(programId: Expression<number>, partnerId: Expression<number>) {
  return jsonArrayFrom(linksOfPartner(programId, partnerId).limit(sql.lit(linksListed + 1)))
}

export type LinkFigures = InferResult<ReturnType<typeof linkFiguresOf>>[number]

/**
 * A partner's links with their all-time figures: clicks, leads, sales (in any currency) and commission (after reversals, in the program's
 * currency). Totals are up to a minute old.
 */
export function linkFiguresOf(programId: Expression<number>, partnerId: Expression<number>) {
  return linksOfPartner(programId, partnerId).select([
    totalOf('leads').as('leads'),
    totalOf('sales').as('sales'),
    totalOf('commission_cents', ownCurrency).as('commission_cents'),
  ])
}

const ownCurrency = sql<string>`(select g.currency from programs g where g.id = l.program_id)`

/** The all-time total of the link `l`. Includes only money in `currency`. */
function totalOf(metric: 'leads' | 'sales' | 'commission_cents', currency?: Expression<string>) {
  return sql<number>`(
    select coalesce(sum(t.${sql.ref(metric)}), 0)::bigint from grouped_totals t
    where t.program_id = l.program_id and t.grouping_name = 'link' and t.span = 'month' and t.value = l.id::text${currency ? sql` and t.currency = ${currency}` : sql``}
  )`
}

/** Checks that `page` is a page of the site at `domain` or its subdomains. */
export function isPageOf(page: string, domain: string): boolean {
  if (!URL.canParse(page)) return false
  const { protocol, host } = new URL(page)
  return /^https?:$/.test(protocol) && (host === domain || host.endsWith(`.${domain}`))
}

/** Returns the address of a partner's link: `pageUrl` or the program's site, with the partner's code. */
export function linkAddress(domain: string, code: string, pageUrl: string | null): string {
  const local = /^(localhost|127\.0\.0\.1)(:|$)/.test(domain)
  const site = `${local ? 'http' : 'https'}://${domain}/`
  const url = new URL(pageUrl !== null && URL.canParse(pageUrl) ? pageUrl : site)
  url.searchParams.set('aff', code)
  return url.href
}
