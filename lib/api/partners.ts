import * as z from 'zod/mini'
import { type PartnerOfProgram, partnerSorts, partnerStates } from '../programs/partners.ts'
import { linksListed } from '../programs/links.ts'
import type { Made } from '../idempotency.ts'
import { nameOf } from '../names.ts'
import { commissionRules } from '../programs/commission-terms.ts'
import { asRule, rule, ruleFields, rulesText } from './groups.ts'
import { idIn, idParameter, listParameters, listQuery, listResponse, oneOf } from './lists.ts'
import { externalId, externalIdText, metadata, metadataChanges, metadataChangesText, metadataText } from './metadata.ts'
import { answered, body, type Operation, refused } from './operation.ts'
import { positiveInteger } from './request-fields.ts'
import { count, currency, id, success, text, time } from '../response-fields.ts'

export const partnersQuery = listQuery({
  status: z.optional(oneOf(partnerStates)),
  email: z.optional(z.string()),
  external_id: z.optional(z.string()),
  group_id: z.optional(idIn()),
  code: z.optional(z.string()),
  search: z.optional(z.string()),
  sort: z.optional(oneOf(partnerSorts)),
})

export const partnerPath = z.object({ partner_id: idIn() })

const name = nameOf('partner')
const email = z.nullish(z.email('must be an e-mail address').check(z.maxLength(320)))

const groupId = () => z.nullish(positiveInteger('must be the id of a group, or null'))

/** Body of POST /api/v1/partners. */
export const newPartner = z.strictObject({
  name,
  email,
  code: z.optional(z.string()),
  external_id: externalId(),
  group_id: groupId(),
  metadata: metadata(),
})

/** Body of PATCH /api/v1/partners/{partner_id}. */
export const partnerChanges = z.strictObject({
  name: z.optional(name),
  email,
  status: z.optional(oneOf(['active', 'inactive'])),
  external_id: externalId(),
  group_id: groupId(),
  rules: z.optional(commissionRules),
  metadata: metadataChanges(),
})

/** A partner as the API answers them, read just now or as they were made. */
export function asPartner(partner: PartnerOfProgram | Made<PartnerOfProgram>) {
  const { id: partnerId, ended_at: endedAt, links, balances, sales } = partner
  return {
    id: partnerId,
    name: partner.name,
    email: partner.email,
    status: endedAt !== null ? 'ended' : partner.is_active ? 'active' : 'inactive',
    has_account: partner.has_account,
    external_id: partner.external_id,
    group_id: partner.group_id,
    rules: partner.rules.map(asRule),
    metadata: partner.metadata,
    links: links.slice(0, linksListed).map(({ id: linkId, code, page_url, is_active, clicks }) => ({
      id: linkId,
      code,
      page_url,
      status: is_active ? 'active' : 'inactive',
      clicks,
    })),
    has_more_links: links.length > linksListed,
    sales,
    balances,
    created_at: new Date(partner.created_at).toISOString(),
  }
}

const partner = () =>
  z.object({
    id: id(),
    name: z.string(),
    email: text(),
    status: z.enum(partnerStates),
    has_account: z.boolean(),
    external_id: text(),
    group_id: z.nullable(id()),
    rules: z.array(rule()),
    metadata: z.record(z.string(), z.string()),
    links: z.array(
      z.object({
        id: id(),
        code: z.string(),
        page_url: text(),
        status: z.enum(['active', 'inactive']),
        clicks: count(),
      }),
    ),
    has_more_links: z.boolean(),
    sales: count(),
    balances: z.array(z.object({ currency: currency(), balance_cents: z.int() })),
    created_at: time(),
  })

const one = () => z.object({ success: success(), partner: partner() })

const example = {
  id: 2,
  name: 'Nora Field',
  email: 'nora@example.com',
  status: 'active',
  has_account: false,
  external_id: 'aff-7',
  group_id: null,
  rules: [],
  metadata: { tier: 'gold' },
  links: [{ id: 2, code: 'nora', page_url: null, status: 'active', clicks: 0 }],
  has_more_links: false,
  sales: 0,
  balances: [],
  created_at: '2026-01-01T12:00:00.000Z',
}
const fields = {
  status: '`ended` where the program or the partner ended it; it goes on when they accept a new invitation.',
  has_account: 'Whether somebody signs in as the partner. Their name and e-mail address are their own then.',
  rules: 'Their own, which come before those of their group.',
  ...ruleFields,
  links: `Their ${linksListed} oldest links. Where \`has_more_links\` is true, \`GET /api/v1/links?partner_id=\` has all of them.`,
  clicks: 'Counted within a minute. Test clicks do not count.',
  sales: 'Paid sales with this partner, in any currency, whether or not they earned a commission.',
  balance_cents: 'What was credited and not paid; below zero after reversals of what was paid.',
}
const groupText =
  'The group by whose rules they are paid; null for none. `not_found` where the program has none of this id.'
const path = '/api/v1/partners'
const pathParameter = () => idParameter('partner_id', 'Id of the partner.', 2)
const common = { auth: 'key' as const, success: { schemas: [one()], description: 'The partner.', fields } }

/** The partners of a program as the reference shows them. */
export const partnerOperations = (): Operation[] => [
  {
    ...common,
    id: 'createPartner',
    method: 'post',
    path,
    summary: 'Add a partner',
    description:
      'Adds a partner with a referral link. Nobody is mailed: invite them from the dashboard. `conflict` where another partner of the program has the address or the `external_id`, or where the code is taken.',
    scope: 'manage',
    idempotent: true,
    body: body(newPartner, {
      name: 'What the program calls them: 1 to 80 characters.',
      email: 'Where an invitation goes, and the money where they name no other address.',
      code: 'Stands in their link as `aff`: 1 to 64 letters, digits and `. _ @ -`, unique over all programs. Absent: one is made up.',
      external_id: externalIdText,
      group_id: groupText,
      metadata: metadataText,
    }),
    errors: ['not_found', 'conflict', 'idempotency_mismatch'],
    examples: [
      answered(
        'created',
        'A partner with a code of their own',
        { partner: example },
        {
          name: 'Nora Field',
          email: 'nora@example.com',
          code: 'nora',
          external_id: 'aff-7',
          metadata: { tier: 'gold' },
        },
      ),
      refused(
        'conflict',
        'An address that another partner has',
        {
          code: 'conflict',
          message: 'Another partner of this program has this address.',
          details: [{ field: 'email', message: 'must be of no other partner of the program' }],
        },
        { name: 'Nora F.', email: 'nora@example.com' },
      ),
    ],
  },
  {
    ...common,
    id: 'listPartners',
    method: 'get',
    path,
    summary: 'List partners',
    description: 'The partners of the program, the newest first.',
    scope: 'read',
    parameters: [
      listParameters(partnersQuery, {
        status: { description: 'Only partners in this state.' },
        email: { description: 'Only the partner with this address, in letters of either case.' },
        external_id: { description: 'Only the partner with this id of yours.' },
        group_id: { description: 'Only partners of this group.' },
        code: { description: 'Only the partner whose link has this code, in letters of either case.' },
        search: { description: 'Only partners with this text in their name, address or a code.' },
        sort: {
          description:
            '`newest` first, where it is not given; by `name`; most `clicks`, `sales` or `balance` in the program’s currency first.',
        },
      }),
    ],
    success: { schemas: [listResponse(partner())], description: 'A page of partners.', fields },
    examples: [answered('page', 'The newest partners', { data: [example], next_cursor: null })],
  },
  {
    ...common,
    id: 'getPartner',
    method: 'get',
    path: `${path}/{partner_id}`,
    summary: 'Read a partner',
    description: 'One partner of the program.',
    scope: 'read',
    parameters: [pathParameter()],
    errors: ['not_found'],
    examples: [answered('partner', 'A partner', { partner: example })],
  },
  {
    ...common,
    id: 'updatePartner',
    method: 'patch',
    path: `${path}/{partner_id}`,
    summary: 'Change a partner',
    description:
      'Changes the fields that are sent, as JSON Merge Patch does, and leaves the others. `inactive` switches all their links off: clicks on them answer 410. `conflict` where the name or address is of somebody who signs in, or where the partnership ended and they have to be invited again.',
    scope: 'manage',
    parameters: [pathParameter()],
    body: body(partnerChanges, {
      name: 'A new name, where nobody signs in as the partner.',
      email:
        'A new address, or null for none, where nobody signs in as the partner. An open invitation to the previous address is revoked.',
      status: 'Switches the partner with all their links on or off.',
      external_id: `${externalIdText} Null takes it away.`,
      group_id: `${groupText} What they earn from now on.`,
      rules: rulesText,
      ...ruleFields,
      metadata: metadataChangesText,
    }),
    errors: ['not_found', 'conflict'],
    examples: [
      answered(
        'changed',
        'Another tier, and a note less',
        { partner: { ...example, metadata: { tier: 'silver' } } },
        { metadata: { tier: 'silver', note: null } },
      ),
    ],
  },
]
