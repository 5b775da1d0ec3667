import { type RawBuilder, sql } from 'kysely'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'

/** A code for people who did not choose one: the name's letters and four random digits. */
export function suggestCode(name: string): string {
  const letters = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '')
    .slice(0, 20)
  const [random = 0] = crypto.getRandomValues(new Uint16Array(1))
  return `${letters || 'partner'}${1000 + (random % 9000)}`
}

export function refuseTakenCode(error: unknown): never {
  if (violatedConstraint(error) === 'referral_links_code_key') {
    throw new ApiError('conflict', 'This code is taken. Codes are unique over all programs: choose another.')
  }
  if (violatedConstraint(error) === 'referral_links_code_check') {
    throw new ApiError('invalid_request', 'A code has 1 to 64 letters, digits and . _ @ - only. Choose another.')
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
      sql`insert into referral_links (code, program_id, partner_id, page_url)
        select ${link.code}, program_id, partner_id, ${link.pageUrl} from partner_programs
        where program_id = ${link.programId} and partner_id = ${link.partnerId} and is_active`,
    )
    .catch(refuseTakenCode)
}

/** Column `links.links`: a partner's links in a program, each with its clicks, as JSON. */
export function linksOf(programId: RawBuilder<unknown>, partnerId: RawBuilder<unknown>) {
  return sql`cross join lateral (
      select coalesce(json_agg(json_build_object(
        'id', l.id, 'code', l.code, 'page_url', l.page_url, 'is_active', l.is_active,
        'clicks', coalesce((select k.clicks from link_click_counts k where k.program_id = l.program_id and k.link_id = l.id), 0)
      ) order by l.id), '[]') as links
      from referral_links l where l.program_id = ${programId} and l.partner_id = ${partnerId}
    ) links`
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
