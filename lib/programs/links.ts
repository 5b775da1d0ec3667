import type { Expression } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'

/** A code for people who did not choose one: the name's letters and `digits` random digits, 4 to 9. */
export function suggestCode(name: string, digits: number): string {
  const letters = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '')
    .slice(0, 20)
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1))
  const first = 10 ** (digits - 1)
  return `${letters || 'partner'}${first + (random % (9 * first))}`
}

export function refuseTakenCode(error: unknown): never {
  if (violatedConstraint(error) === 'referral_links_code_key') {
    throw new ApiError('conflict', 'This code is taken. Codes are unique over all programs: choose another.')
  }
  if (violatedConstraint(error) === 'referral_links_code_check') {
    throw new ApiError(
      'invalid_request',
      'A code has 1 to 64 letters, digits and . _ @ - only, and does not begin with svc-test-. Choose another.',
    )
  }
  throw error
}

/** Adds another link to a partner of a program. `pageUrl` is the page its copied address opens; null is the program's domain. */
export async function addLink(
  db: Database,
  link: { programId: number; partnerId: number; code: string; pageUrl: string | null },
): Promise<void> {
  await db
    .query(
      kysely
        .insertInto('referral_links')
        .columns(['code', 'program_id', 'partner_id', 'page_url'])
        .expression((eb) =>
          eb
            .selectFrom('partners')
            .select([eb.val(link.code).as('code'), 'program_id', 'id', eb.val(link.pageUrl).as('page_url')])
            .where('program_id', '=', link.programId)
            .where('id', '=', link.partnerId)
            .where('is_active', '=', true),
        ),
    )
    .catch(refuseTakenCode)
}

/** Switches all links of a partner as the partner is, for the transaction that switched them. */
export function linksFollow(of: { programId: number; partnerId: number } | { programId: number; userId: string }) {
  return kysely
    .updateTable('referral_links as l')
    .from('partners as p')
    .set({ is_active: (eb) => eb.ref('p.is_active') })
    .where('l.program_id', '=', of.programId)
    .whereRef('p.program_id', '=', 'l.program_id')
    .whereRef('p.id', '=', 'l.partner_id')
    .where((eb) => ('userId' in of ? eb('p.user_id', '=', of.userId) : eb('p.id', '=', of.partnerId)))
}

/** The partner of a program who has the link of this code. */
export function partnerOfCode(programId: number, code: string) {
  return kysely
    .selectFrom('referral_links as l')
    .select('l.partner_id')
    .where('l.program_id', '=', programId)
    .where((eb) => eb(eb.fn('lower', ['l.code']), '=', code.toLowerCase()))
    .$asScalar()
}

/** Column: a partner's links in a program, the oldest first, each with its clicks; those of bots apart. */
export function linksOf(programId: Expression<number>, partnerId: Expression<number>) {
  return jsonArrayFrom(
    kysely
      .selectFrom('referral_links as l')
      .leftJoinLateral(
        (eb) =>
          eb
            .selectFrom('link_click_counts as c')
            .select((count) => [
              count.cast<number>('c.clicks', 'bigint').as('clicks'),
              count.cast<number>('c.bot_clicks', 'bigint').as('bot_clicks'),
            ])
            .whereRef('c.program_id', '=', 'l.program_id')
            .whereRef('c.link_id', '=', 'l.id')
            .as('k'),
        (join) => join.onTrue(),
      )
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
      .orderBy('l.id'),
  )
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
