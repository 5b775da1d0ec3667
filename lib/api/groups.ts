import * as z from 'zod/mini'
import { nameOf } from '../names.ts'
import { previewedMonth, type StoredRule } from '../programs/commission-rules.ts'
import { commissionRules, everybodysRules } from '../programs/commission-terms.ts'
import type { PartnerGroup } from '../programs/groups.ts'
import type { Made } from '../idempotency.ts'
import { idIn, idParameter, listParameters, listQuery, listResponse } from './lists.ts'
import { answered, body, type Operation, refused } from './operation.ts'
import { positiveInteger } from './request-fields.ts'
import { cents, count, currency, id, success, text, time } from '../response-fields.ts'

export const groupsQuery = listQuery({})
export const groupPath = z.object({ group_id: idIn() })

const name = nameOf('group')

/** Body of POST /api/v1/groups. */
export const newGroup = z.strictObject({ name, rules: z.optional(commissionRules) })

/** Body of PATCH /api/v1/groups/{group_id}. */
export const groupChanges = z.strictObject({ name: z.optional(name), rules: z.optional(commissionRules) })

const partnerIds = z
  .array(positiveInteger('must be the id of a partner'), 'must be ids of partners')
  .check(z.minLength(1, 'must be one partner at least'), z.maxLength(100, 'must be 100 partners at most'))

/** Body of POST /api/v1/groups/{group_id}/partners. */
export const movedPartners = z.strictObject({ partner_ids: partnerIds })

/** Body of PATCH /api/v1/rules. */
export const rulesChange = z.strictObject({ rules: everybodysRules })

const holderId = z.optional(positiveInteger('must be an id'))

/** Body of POST /api/v1/rules/preview. */
export const rulesPreview = z
  .strictObject({ group_id: holderId, partner_id: holderId, rules: commissionRules, month: z.optional(previewedMonth) })
  .check(
    z.refine(({ group_id: group, partner_id: partner }) => group === undefined || partner === undefined, {
      path: ['partner_id'],
      error: 'goes without a group_id: the rules are of one of them',
    }),
    z.refine(
      ({ group_id: group, partner_id: partner, rules }) =>
        (group ?? partner) !== undefined || everybodysRules.safeParse(rules).success,
      { path: ['rules'], error: 'must each name a product_id or a sale_type where they are everybody’s' },
    ),
  )

/** A rule as the API answers it. */
export const asRule = ({ created_at: since, ...rule }: StoredRule | Made<StoredRule>) => ({
  ...rule,
  since: new Date(since).toISOString(),
})

/** A group as the API answers it, read just now or as it was made. */
export const asGroup = ({ rules, created_at: made, ...group }: PartnerGroup | Made<PartnerGroup>) => ({
  ...group,
  rules: rules.map(asRule),
  created_at: new Date(made).toISOString(),
})

export const rule = () =>
  z.object({
    id: id(),
    product_id: text(),
    sale_type: text(),
    commission_bp: count(),
    currency: currency(),
    commission_fixed_cents: cents(),
    lifetime_cap_cents: z.nullable(cents()),
    commission_duration_months: z.nullable(count()),
    lead_commission_cents: z.nullable(cents()),
    since: time(),
  })

const group = () =>
  z.object({ id: id(), name: z.string(), partners: count(), rules: z.array(rule()), created_at: time() })
const one = () => z.object({ success: success(), group: group() })

const ruleExample = {
  id: 1,
  product_id: null,
  sale_type: null,
  commission_bp: 3000,
  currency: 'usd',
  commission_fixed_cents: 0,
  lifetime_cap_cents: 50000,
  commission_duration_months: 12,
  lead_commission_cents: null,
  since: '2026-01-01T12:00:00.000Z',
}
const example = { id: 1, name: 'Gold', partners: 0, rules: [ruleExample], created_at: '2026-01-01T12:00:00.000Z' }

export const ruleFields = {
  product_id: "For sales of this product or price of Stripe's alone, as their invoice names it.",
  sale_type: 'For sales of this `sale_type` alone.',
  commission_bp: 'Hundredths of a percent of what is paid without tax: 3000 is 30 %.',
  currency: "The program's: of the amounts of the rule.",
  commission_fixed_cents:
    "For each sale, beside the percentage, in the program's currency. A sale in another currency earns the percentage alone.",
  lifetime_cap_cents:
    "What all sales of one customer may bring, before reversals, in the program's currency. Null: no end.",
  commission_duration_months: 'For so many months after a customer’s first purchase. Null: for ever.',
  lead_commission_cents: 'For each lead. Null: as it is without this rule.',
  since: 'Since when it holds. Sales before it keep the terms they had.',
}
const fields = { partners: 'Who have not ended.', ...ruleFields }
export const rulesText =
  'All rules, each with all its terms, that hold from now on; one for every sale and one for each product or `sale_type` at most. What is not among them ends, and sales before keep their terms.'
const path = '/api/v1/groups'
const pathParameter = () => idParameter('group_id', 'Id of the group.')
const common = { auth: 'key' as const, success: { schemas: [one()], description: 'The group.', fields } }
const taken = refused(
  'conflict',
  'A name that another group has',
  {
    code: 'conflict',
    message: 'Another group of this program has this name.',
    details: [{ field: 'name', message: 'must be of no other group of the program' }],
  },
  { name: 'Gold' },
)
const amounts = () => ({ currency: currency(), brought_cents: cents(), now_cents: cents(), then_cents: cents() })
const preview = () =>
  z.object({
    month: z.string(),
    totals: z.array(z.object(amounts())),
    partners: z.array(z.object({ partner_id: id(), name: z.string(), ...amounts() })),
  })
const previewFields = {
  month: 'The month of the calendar that is looked at, in UTC.',
  totals: 'One for each currency that was sold in.',
  partners: 'Whose amounts differ, the largest differences first, a hundred at most.',
  brought_cents: 'What the month brought by the rules of its time, before refunds.',
  now_cents: 'What it would have brought by the rules that hold now, with partners in the groups they are in now.',
  then_cents: 'The same with the change.',
}
const everybodys = '/api/v1/rules'
const everybodysExample = { ...ruleExample, product_id: 'prod_NWjs8kKbJWmuuc', commission_bp: 1000 }

const rulesSent = [{ commission_bp: 3000, lifetime_cap_cents: 50000, commission_duration_months: 12 }]

/** The groups of a program as the reference shows them. */
export const groupOperations = (): Operation[] => [
  {
    ...common,
    id: 'createGroup',
    method: 'post',
    path,
    summary: 'Add a group',
    description:
      "Adds a group of partners with the rules of what they earn. A partner's own rules come before those of their group, rules for the product before those for every sale; where none is for it, a sale earns by the terms of the program. `conflict` where another group has the name.",
    scope: 'manage',
    idempotent: true,
    body: body(newGroup, { name: '1 to 80 characters, unique in the program.', rules: rulesText, ...ruleFields }),
    errors: ['conflict', 'idempotency_mismatch'],
    examples: [
      answered(
        'created',
        '30 % for a year, 500 dollars for a customer at most',
        { group: example },
        { name: 'Gold', rules: rulesSent },
      ),
      taken,
    ],
  },
  {
    ...common,
    id: 'listGroups',
    method: 'get',
    path,
    summary: 'List groups',
    description: 'The groups of the program with the rules that hold now, the newest first.',
    scope: 'read',
    parameters: [listParameters(groupsQuery, {})],
    success: { schemas: [listResponse(group())], description: 'A page of groups.', fields },
    examples: [answered('page', 'The groups', { data: [example], next_cursor: null })],
  },
  {
    ...common,
    id: 'getGroup',
    method: 'get',
    path: `${path}/{group_id}`,
    summary: 'Read a group',
    description: 'One group with the rules that hold now.',
    scope: 'read',
    parameters: [pathParameter()],
    errors: ['not_found'],
    examples: [answered('group', 'A group', { group: example })],
  },
  {
    ...common,
    id: 'updateGroup',
    method: 'patch',
    path: `${path}/{group_id}`,
    summary: 'Change a group',
    description:
      'Changes the fields that are sent, as JSON Merge Patch does, and leaves the others. New rules hold for sales from now on. `conflict` where another group has the name.',
    scope: 'manage',
    parameters: [pathParameter()],
    body: body(groupChanges, { name: 'A new name.', rules: rulesText, ...ruleFields }),
    errors: ['not_found', 'conflict'],
    examples: [
      answered(
        'changed',
        'No rules any more: the terms of the program',
        { group: { ...example, rules: [] } },
        { rules: [] },
      ),
    ],
  },
  {
    ...common,
    id: 'movePartners',
    method: 'post',
    path: `${path}/{group_id}/partners`,
    summary: 'Move partners to a group',
    description:
      'Up to 100 partners at once, from whatever group they were in; one who is there stays. They earn by its rules from now on. A single partner is moved by `group_id`, and out of every group by null.',
    scope: 'manage',
    parameters: [pathParameter()],
    body: body(movedPartners, { partner_ids: 'Ids of partners of the program. Others are left out.' }),
    success: {
      schemas: [z.object({ success: success(), partners: count() })],
      description: 'How many of them the program has; they are in the group.',
      fields: { partners: 'How many of them the program has.' },
    },
    errors: ['not_found'],
    examples: [answered('moved', 'Two partners', { partners: 2 }, { partner_ids: [1, 2] })],
  },
  {
    ...common,
    id: 'listRules',
    method: 'get',
    path: everybodys,
    summary: 'Read the rules for everybody',
    description:
      'What every partner earns for a product or a `sale_type`, where no rule of their own or of their group says otherwise. Rules of groups and partners are read with them.',
    scope: 'read',
    success: {
      schemas: [z.object({ success: success(), rules: z.array(rule()) })],
      description: 'The rules that hold now.',
      fields: ruleFields,
    },
    examples: [answered('rules', 'One rule', { rules: [everybodysExample] })],
  },
  {
    ...common,
    id: 'updateRules',
    method: 'patch',
    path: everybodys,
    summary: 'Change the rules for everybody',
    description: 'Each names a product or a `sale_type`; for all others the terms of the program hold.',
    scope: 'manage',
    body: body(rulesChange, { rules: rulesText }),
    success: {
      schemas: [z.object({ success: success(), rules: z.array(rule()) })],
      description: 'The rules that hold from now on.',
      fields: ruleFields,
    },
    examples: [
      answered(
        'changed',
        '10 % of upgrades',
        {
          rules: [{ ...everybodysExample, product_id: null, sale_type: 'upgrade', lifetime_cap_cents: null }],
        },
        { rules: [{ sale_type: 'upgrade', commission_bp: 1000 }] },
      ),
    ],
  },
  {
    ...common,
    id: 'previewRules',
    method: 'post',
    path: `${everybodys}/preview`,
    summary: 'Preview a change of rules',
    description:
      'What the sales and leads of a month would have brought with these rules of a group, of a partner or, where neither is named, of everybody. Computed by what computes commissions. It changes nothing.',
    scope: 'manage',
    body: body(rulesPreview, {
      group_id: 'Whose rules they would be.',
      partner_id: 'Whose rules they would be.',
      rules: 'All rules that would hold instead of those that do.',
      month: 'Such as 2026-01, in UTC. The month before this one where it is not given.',
    }),
    success: {
      schemas: [z.object({ success: success(), preview: preview() })],
      description: 'What would have been.',
      fields: previewFields,
    },
    errors: ['not_found'],
    examples: [
      answered(
        'preview',
        'Upgrades at 40 %',
        {
          preview: {
            month: '2026-01',
            totals: [{ currency: 'usd', brought_cents: 10000, now_cents: 10000, then_cents: 20000 }],
            partners: [
              {
                partner_id: 1,
                name: 'Ada Lovelace',
                currency: 'usd',
                brought_cents: 10000,
                now_cents: 10000,
                then_cents: 20000,
              },
            ],
          },
        },
        { rules: [{ sale_type: 'upgrade', commission_bp: 4000 }], month: '2026-01' },
      ),
    ],
  },
  {
    ...common,
    id: 'deleteGroup',
    method: 'delete',
    path: `${path}/{group_id}`,
    summary: 'Remove a group',
    description:
      'Its rules end, and its partners are in no group: they earn by the terms of the program from now on. Sales before keep their terms.',
    scope: 'manage',
    parameters: [pathParameter()],
    success: {
      schemas: [z.object({ success: success(), deleted_id: id() })],
      description: 'It is gone.',
      fields: { deleted_id: 'Id of the group.' },
    },
    errors: ['not_found'],
    examples: [answered('deleted', 'It is gone', { deleted_id: 1 })],
  },
]
