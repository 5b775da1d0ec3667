import * as z from 'zod/mini'
import { nameOf } from '../names.ts'
import { previewedMonth, type StoredRule } from '../programs/commission-rules.ts'
import { commissionRules, everybodysRules } from '../programs/commission-terms.ts'
import type { PartnerGroup } from '../programs/groups.ts'
import type { Created } from '../idempotency.ts'
import { idIn, idParameter, listQuery } from './lists.ts'
import { answered, answeredCreated, body, type Operation, refused } from './operation.ts'
import { positiveInteger } from './request-fields.ts'
import { answerOf, resource } from './resource.ts'
import { cents, count, currency, id, text, time } from '../response-fields.ts'

export const groupsQuery = listQuery({})
export const groupPath = z.object({ group_id: idIn() })

const name = nameOf('group')

/** Body of POST /api/v1/groups. */
export const newGroup = z.strictObject({ name, rules: z.optional(commissionRules) })

/** Body of PATCH /api/v1/groups/{group_id}. */
export const groupChanges = z.strictObject({ name: z.optional(name), rules: z.optional(commissionRules) })

const partnerIds = z
  .array(positiveInteger('must be the id of a partner'), 'must be ids of partners')
  .check(z.minLength(1, 'must have at least one partner'), z.maxLength(100, 'must have at most 100 partners'))

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
      error: 'must not be given with group_id: rules belong to one of them',
    }),
    z.refine(
      ({ group_id: group, partner_id: partner, rules }) =>
        (group ?? partner) !== undefined || everybodysRules.safeParse(rules).success,
      { path: ['rules'], error: 'must each have a product_id or a sale_type if they are for all partners' },
    ),
  )

/** Renders a rule. */
export const asRule = ({ created_at: since, ...rule }: StoredRule | Created<StoredRule>) => ({
  ...rule,
  since: new Date(since).toISOString(),
})

/** Renders a group: a new row, or the stored result of a repeated request. */
export const asGroup = ({ rules, created_at: created, ...group }: PartnerGroup | Created<PartnerGroup>) => ({
  ...group,
  rules: rules.map(asRule),
  created_at: new Date(created).toISOString(),
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
  product_id: 'Only for sales of this product or price of the processor, according to the lines of the payment.',
  sale_type: 'Only for sales of this `sale_type`.',
  commission_bp: 'Hundredths of a percent of the amount without tax: 3000 is 30%.',
  currency: 'The program’s currency. The amounts of the rule are in this currency.',
  commission_fixed_cents:
    "A fixed amount for each sale, added to the percentage, in the program's currency. A sale in another currency only earns the percentage.",
  lifetime_cap_cents:
    'The maximum for all sales to one customer, before reversals, in the program’s currency. Null for no limit.',
  commission_duration_months:
    'The number of months after a customer’s first purchase in which sales earn a commission. Null for no limit.',
  lead_commission_cents: 'The amount for each lead. If it is null, the next rule or the program’s terms apply.',
  since: 'When the rule took effect. Earlier sales keep their terms.',
}
const fields = { partners: 'The number of partners in the group, without ended partnerships.', ...ruleFields }
export const rulesText =
  'The complete list of rules from now on, each with all its terms. There can be one rule for every sale, and one for each product or `sale_type`. Rules that are not in the list end. Earlier sales keep their terms.'
const taken = refused(
  'conflict',
  'The name belongs to another group',
  {
    code: 'conflict',
    message: 'Another group of this program has this name.',
    details: [{ field: 'name', message: 'must be unique in the program' }],
  },
  { name: 'Gold' },
)
const amounts = () => ({ currency: currency(), actual_cents: cents(), now_cents: cents(), then_cents: cents() })
const preview = () =>
  z.object({
    month: z.string(),
    totals: z.array(z.object(amounts())),
    partners: z.array(z.object({ partner_id: id(), name: z.string(), ...amounts() })),
  })
const previewFields = {
  month: 'The calendar month of the preview, in UTC.',
  totals: 'One entry per currency of the month’s sales.',
  partners: 'Up to a hundred partners with different amounts, largest difference first.',
  actual_cents: 'The month’s commissions under the rules at that time, before refunds.',
  now_cents: 'Commissions under the current rules and the partners’ current groups.',
  then_cents: 'Commissions under the changed rules.',
}
const previewExample = { currency: 'usd', actual_cents: 10000, now_cents: 10000, then_cents: 20000 }
const everybodysExample = { ...ruleExample, product_id: 'prod_NWjs8kKbJWmuuc', commission_bp: 1000 }

const rulesSent = [{ commission_bp: 3000, lifetime_cap_cents: 50000, commission_duration_months: 12 }]

/** Describes groups and rules for the reference. */
export function groupOperations(): Operation[] {
  const { create, list, get, change, act, remove } = resource({
    path: '/api/v1/groups',
    name: 'group',
    plural: 'groups',
    item: group(),
    fields,
    example,
    inPath: idParameter('group_id', 'Id of the group.'),
  })
  const everybodys = resource({
    path: '/api/v1/rules',
    name: 'rules',
    plural: 'rules',
    item: z.array(rule()),
    fields: ruleFields,
    example: [everybodysExample],
  })
  return [
    create({
      id: 'createGroup',
      summary: 'Add a group',
      description:
        "Adds a group of partners with its commission rules. A partner's own rules come before the group's, and rules for a product come before rules for every sale. If no rule matches a sale, the program’s terms apply. Returns `conflict` if another group has the name.",
      body: body(newGroup, { name: '1 to 80 characters, unique in the program.', rules: rulesText, ...ruleFields }),
      errors: ['conflict'],
      examples: [
        answeredCreated(
          'created',
          '30% for a year, up to 500 dollars per customer',
          { group: example },
          { name: 'Gold', rules: rulesSent },
        ),
        taken,
      ],
    }),
    list({
      id: 'listGroups',
      summary: 'List groups',
      description: 'The groups of the program with their current rules, newest first.',
      query: groupsQuery,
    }),
    get({ id: 'getGroup', summary: 'Read a group', description: 'One group with its current rules.' }),
    change({
      id: 'updateGroup',
      summary: 'Change a group',
      description:
        'Changes the fields that you send (JSON Merge Patch). New rules apply to future sales. Returns `conflict` if another group has the name.',
      body: body(groupChanges, { name: 'A new name.', rules: rulesText, ...ruleFields }),
      errors: ['conflict'],
      examples: [
        answered(
          'changed',
          'Without rules the program’s terms apply',
          { group: { ...example, rules: [] } },
          { rules: [] },
        ),
      ],
    }),
    act({
      at: '/partners',
      id: 'movePartners',
      summary: 'Move partners to a group',
      description:
        'Moves up to 100 partners from any group. From now on, they earn under its rules. To move a single partner, change their `group_id`. To remove a partner from their group, set it to null.',
      body: body(movedPartners, { partner_ids: 'Ids of partners of the program. Unknown ids are skipped.' }),
      success: {
        schemas: [answerOf('partners', count())],
        description: 'The partners are now in the group.',
        fields: { partners: 'How many of these partners belong to the program.' },
      },
      examples: [answered('moved', 'Two partners', { partners: 2 }, { partner_ids: [1, 2] })],
    }),
    everybodys.get({
      id: 'listRules',
      summary: 'Read the rules for all partners',
      description:
        'The rules for a product or a `sale_type` that apply if neither the partner nor their group has a rule for it. To read the rules of a group or a partner, read the group or the partner.',
    }),
    everybodys.change({
      id: 'updateRules',
      summary: 'Change the rules for all partners',
      description: 'Each rule is for a product or a `sale_type`. The program’s terms apply to everything else.',
      body: body(rulesChange, { rules: rulesText }),
      examples: [
        answered(
          'changed',
          '10% of upgrades',
          {
            rules: [{ ...everybodysExample, product_id: null, sale_type: 'upgrade', lifetime_cap_cents: null }],
          },
          { rules: [{ sale_type: 'upgrade', commission_bp: 1000 }] },
        ),
      ],
    }),
    everybodys.act({
      at: '/preview',
      id: 'previewRules',
      summary: 'Preview a change of rules',
      description:
        'Calculates the commissions for a month’s sales and leads with these rules, for a group, for a partner, or otherwise for all partners. It uses the same code as for real commissions, and does not change anything.',
      body: body(rulesPreview, {
        group_id: 'The group that these rules belong to.',
        partner_id: 'The partner that these rules belong to.',
        rules: 'All rules that would replace the current ones.',
        month: 'The month in UTC, such as 2026-01. Default: the previous month.',
      }),
      success: { schemas: [answerOf('preview', preview())], description: 'The preview.', fields: previewFields },
      errors: ['not_found'],
      examples: [
        answered(
          'preview',
          'Upgrades at 40%',
          {
            preview: {
              month: '2026-01',
              totals: [previewExample],
              partners: [{ partner_id: 1, name: 'Ada Lovelace', ...previewExample }],
            },
          },
          { rules: [{ sale_type: 'upgrade', commission_bp: 4000 }], month: '2026-01' },
        ),
      ],
    }),
    remove({
      id: 'deleteGroup',
      summary: 'Remove a group',
      description:
        'Deletes the group and its rules. From now on, its partners earn under the program’s terms. Earlier sales keep their terms.',
      examples: [answered('deleted', 'It was deleted', { deleted_id: 1 })],
    }),
  ]
}
