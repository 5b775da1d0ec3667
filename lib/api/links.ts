import * as z from 'zod/mini'
import type { Created } from '../idempotency.ts'
import { isPageOf, linkAddress, type ListedLink, linkStates } from '../programs/links.ts'
import { ApiError } from '../errors.ts'
import { filterText, idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { externalId, externalIdText, metadata, metadataChanges, metadataChangesText, metadataText } from './metadata.ts'
import { answered, answeredCreated, body, type Operation, refused } from './operation.ts'
import { positiveInteger } from './request-fields.ts'
import { resource } from './resource.ts'
import { count, id, text, time } from '../response-fields.ts'

export const linksQuery = listQuery({
  status: z.optional(oneOf(linkStates)),
  partner_id: z.optional(idIn()),
  external_id: filterText(),
  code: filterText(),
  search: filterText(),
})

export const linkPath = z.object({ link_id: idIn() })

const page = () => z.nullish(z.string().check(z.maxLength(2048)))

/** Body of POST /api/v1/links. */
export const newLink = z.strictObject({
  partner_id: positiveInteger(),
  code: z.optional(z.string()),
  page_url: page(),
  external_id: externalId(),
  metadata: metadata(),
})

/** Body of PATCH /api/v1/links/{link_id}. */
export const linkChanges = z.strictObject({
  status: z.optional(oneOf(linkStates)),
  page_url: page(),
  external_id: externalId(),
  metadata: metadataChanges(),
})

/** Refuses a page outside the program's site. */
export function requireOwnPage(pageUrl: string | null | undefined, domain: string): void {
  if (pageUrl === null || pageUrl === undefined || isPageOf(pageUrl, domain)) return
  throw new ApiError('invalid_request', `page_url must be a page of ${domain}, the program's domain.`, {
    details: [{ field: 'page_url', message: `must be a page of ${domain}` }],
  })
}

/** Renders a link: a new row, or the stored result of a repeated request. */
export function asLink(link: ListedLink | Created<ListedLink>) {
  const { domain, is_active, last_clicked_at: lastClick, created_at: created, ...rest } = link
  return {
    ...rest,
    url: linkAddress(domain, link.code, link.page_url),
    status: is_active ? 'active' : 'inactive',
    last_clicked_at: lastClick && new Date(lastClick).toISOString(),
    created_at: new Date(created).toISOString(),
  }
}

const link = () =>
  z.object({
    id: id(),
    partner_id: z.nullable(id()),
    code: z.string(),
    url: z.string(),
    page_url: text(),
    status: z.enum(linkStates),
    external_id: text(),
    metadata: z.record(z.string(), z.string()),
    clicks: count(),
    bot_clicks: count(),
    last_clicked_at: z.nullable(time()),
    created_at: time(),
  })

const example = {
  id: 4,
  partner_id: 2,
  code: 'nora-spring',
  url: 'https://shop.example.com/?aff=nora-spring',
  page_url: null,
  status: 'active',
  external_id: null,
  metadata: { campaign: 'spring' },
  clicks: 0,
  bot_clicks: 0,
  last_clicked_at: null,
  created_at: '2026-01-01T12:00:00.000Z',
}
const fields = {
  url: 'The URL that the partner shares: `page_url` or the program’s site, with the code.',
  clicks: 'Updated within a minute, without test clicks.',
  bot_clicks: 'Clicks by bots, which are not included in `clicks`.',
}
const pageText = 'The page on the program’s domain that the link opens. Null for the home page.'

/** Describes links for the reference. */
export function linkOperations(): Operation[] {
  const { create, list, get, change } = resource({
    path: '/api/v1/links',
    name: 'link',
    plural: 'links',
    item: link(),
    fields,
    example,
    inPath: idParameter('link_id', 'Id of the link.', 4),
  })
  return [
    create({
      id: 'createLink',
      summary: 'Add a link',
      description:
        'Adds another referral link to an active partner. Returns `conflict` if the code or the `external_id` is taken or the partner is not active, and `not_found` if the program has no such partner.',
      body: body(newLink, {
        partner_id: 'The partner.',
        code: 'The `aff` value of the link: 1 to 64 letters, digits and `. _ @ -`, unique in the program. Generated if absent.',
        page_url: pageText,
        external_id: externalIdText,
        metadata: metadataText,
      }),
      errors: ['not_found', 'conflict'],
      examples: [
        answeredCreated(
          'created',
          'A link for a campaign',
          { link: example },
          { partner_id: 2, code: 'nora-spring', metadata: { campaign: 'spring' } },
        ),
        refused(
          'conflict',
          'A code that is taken',
          { code: 'conflict', message: 'Another link of this program has this code. Choose another.' },
          { partner_id: 2, code: 'nora-spring' },
        ),
      ],
    }),
    list({
      id: 'listLinks',
      summary: 'List links',
      description: 'The referral links of the program, newest first.',
      query: linksQuery,
      filters: {
        status: 'Only links in this state.',
        partner_id: 'Only links of this partner.',
        external_id: 'Only the link with your id.',
        code: 'Only the link with this code; case does not matter.',
        search: 'Only links with this text in their code or page.',
      },
    }),
    get({ id: 'getLink', summary: 'Read a link', description: 'One referral link of the program.' }),
    change({
      id: 'updateLink',
      summary: 'Change a link',
      description:
        'Changes the fields that you send (JSON Merge Patch). Clicks on an inactive link get a 410. Returns `conflict` if you activate the link of an inactive partner.',
      body: body(linkChanges, {
        status: 'Enables or disables the link.',
        page_url: pageText,
        external_id: `${externalIdText} Null removes it.`,
        metadata: metadataChangesText,
      }),
      errors: ['conflict'],
      examples: [
        answered(
          'changed',
          'Your other id',
          { link: { ...example, external_id: 'link-1' } },
          { external_id: 'link-1' },
        ),
      ],
    }),
  ]
}
