import * as z from 'zod/mini'
import { type PartnerOfProgram, partnerSorts, partnerStates } from '../programs/partners.ts'
import { linksListed } from '../programs/links.ts'
import type { Created } from '../idempotency.ts'
import { nameOf } from '../names.ts'
import { commissionRules } from '../programs/commission-terms.ts'
import { asRule, rule, ruleFields, rulesText } from './groups.ts'
import { filterText, idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { externalId, externalIdText, metadata, metadataChanges, metadataChangesText, metadataText } from './metadata.ts'
import { answered, answeredCreated, body, type Operation, refused } from './operation.ts'
import { positiveInteger } from './request-fields.ts'
import { resource } from './resource.ts'
import { count, currency, id, text, time } from '../response-fields.ts'

export const partnersQuery = listQuery({
  status: z.optional(oneOf(partnerStates)),
  email: filterText(),
  external_id: filterText(),
  group_id: z.optional(idIn()),
  code: filterText(),
  search: filterText(),
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

/** Renders a partner: a new row, or the stored result of a repeated request. */
export function asPartner(partner: PartnerOfProgram | Created<PartnerOfProgram>) {
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
  status:
    '`ended` if the program or the partner ended the partnership. The partner can resume it by accepting a new invitation.',
  has_account: 'Whether the partner has an account. If so, only they can change their name and e-mail address.',
  rules: 'The partner’s own rules, which come before the group’s.',
  ...ruleFields,
  links: `The ${linksListed} oldest links. If \`has_more_links\` is true, \`GET /api/v1/links?partner_id=\` lists all of them.`,
  clicks: 'Updated within a minute, without test clicks.',
  sales: 'Paid sales for this partner in any currency, with or without a commission.',
  balance_cents:
    'The amount that was credited but not paid yet. It can be negative after paid commissions are reversed.',
}
const groupText = 'The partner’s group, or null. Returns `not_found` if the program has no such group.'

/** Describes partners for the reference. */
export function partnerOperations(): Operation[] {
  const { create, list, get, change } = resource({
    path: '/api/v1/partners',
    name: 'partner',
    plural: 'partners',
    item: partner(),
    fields,
    example,
    inPath: idParameter('partner_id', 'Id of the partner.', 2),
  })
  return [
    create({
      id: 'createPartner',
      summary: 'Add a partner',
      description:
        'Adds a partner with a referral link. No mail is sent, so invite them from the dashboard. Returns `conflict` if another partner of the program has the address or the `external_id`, or if the code is taken.',
      body: body(newPartner, {
        name: 'The program’s name for the partner, 1 to 80 characters.',
        email: 'The e-mail address for an invitation, and for payouts unless the partner sets another one.',
        code: 'The `aff` value of their link: 1 to 64 letters, digits and `. _ @ -`, unique in the program. Generated if absent.',
        external_id: externalIdText,
        group_id: groupText,
        metadata: metadataText,
      }),
      errors: ['not_found', 'conflict'],
      examples: [
        answeredCreated(
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
            details: [{ field: 'email', message: 'must be unique among the partners of the program' }],
          },
          { name: 'Nora F.', email: 'nora@example.com' },
        ),
      ],
    }),
    list({
      id: 'listPartners',
      summary: 'List partners',
      description: 'The partners of the program, newest first.',
      query: partnersQuery,
      filters: {
        status: 'Only partners in this state.',
        email: 'Only the partner with this address; case does not matter.',
        external_id: 'Only the partner with your id.',
        group_id: 'Only partners of this group.',
        code: 'Only the partner with a link of this code; case does not matter.',
        search: 'Only partners with this text in their name, address or a code.',
        sort: '`newest` first (default); by `name`; most `clicks`, `sales` or `balance` in the program’s currency first.',
      },
    }),
    get({ id: 'getPartner', summary: 'Read a partner', description: 'One partner of the program.' }),
    change({
      id: 'updatePartner',
      summary: 'Change a partner',
      description:
        'Changes the fields that you send (JSON Merge Patch). `inactive` disables all of the partner’s links, and clicks on them get a 410. Returns `conflict` if you change the name or address of a partner with an account. If the partnership has ended, it also returns `conflict`; invite the partner again.',
      body: body(partnerChanges, {
        name: 'A new name, if the partner has no account.',
        email:
          'A new address, or null for none, if the partner has no account. An open invitation to the previous address is revoked.',
        status: 'Enables or disables the partner and all of their links.',
        external_id: `${externalIdText} Null removes it.`,
        group_id: `${groupText} It applies to sales from now on.`,
        rules: rulesText,
        ...ruleFields,
        metadata: metadataChangesText,
      }),
      errors: ['conflict'],
      examples: [
        answered(
          'changed',
          'Another tier, without the note',
          { partner: { ...example, metadata: { tier: 'silver' } } },
          { metadata: { tier: 'silver', note: null } },
        ),
      ],
    }),
  ]
}
