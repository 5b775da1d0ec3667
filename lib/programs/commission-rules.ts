import { type Expression, type InferResult, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { formatMoney, maxAmountCents } from '../money.ts'

const wholeNumber = (minimum: number, maximum: number, message: string) =>
  z.int(message).check(z.gte(minimum, message), z.lte(maximum, message))
const amount = () => wholeNumber(0, maxAmountCents, `must be an integer from 0 to ${maxAmountCents}`)

/** A rule as it is typed: all the terms of a sale, for a product, a type of sale, or (neither given) for every sale. */
export const commissionRule = z
  .strictObject({
    /** The processor's id of a product or of a price. */
    product_id: z.nullish(
      z
        .string()
        .check(z.regex(/^[\w-]{1,255}$/, 'must be the id of a product or of a price, such as prod_NWjs8kKbJWmuuc')),
    ),
    sale_type: z.nullish(z.string().check(z.regex(/^\P{C}{1,64}$/u, 'must be a sale_type: 1 to 64 characters'))),
    commission_bp: z.optional(wholeNumber(0, 10_000, 'must be hundredths of a percent, from 0 to 10000')),
    /** For each sale. As the two amounts below it is in the program's currency. */
    commission_fixed_cents: z.optional(amount()),
    lifetime_cap_cents: z.nullish(amount()),
    commission_duration_months: z.nullish(wholeNumber(1, 1200, 'must be 1 to 1200 months')),
    lead_commission_cents: z.nullish(amount()),
  })
  .check(
    z.refine(({ product_id, sale_type }) => !product_id || !sale_type, {
      path: ['sale_type'],
      error: 'goes without a product_id: a rule is for one or the other',
    }),
    z.refine((rule) => !(rule.product_id ?? rule.sale_type) || (rule.lead_commission_cents ?? null) === null, {
      path: ['lead_commission_cents'],
      error: 'is of a rule for every sale: a lead has no product',
    }),
  )
export type CommissionRule = z.output<typeof commissionRule>

/** The rules of one group or partner, or of everybody. */
export const commissionRules = z.array(commissionRule).check(
  z.maxLength(50, 'must be 50 rules at most'),
  z.refine(
    (rules) => new Set(rules.map((rule) => `${rule.product_id ?? ''} ${rule.sale_type ?? ''}`)).size === rules.length,
    'must be one rule at most for each product or sale_type',
  ),
)

/** Everybody's are for one product each: for all products the program's own terms hold. */
export const everybodysRules = commissionRules.check(
  z.refine(
    (rules) => rules.every((rule) => rule.product_id ?? rule.sale_type),
    'must each name a product_id or a sale_type: what everybody is paid for all of them are the terms of the program',
  ),
)

/** Whose rules: a group's, a partner's own, or everybody's. */
export type RuleHolder = { groupId: number } | { partnerId: number } | 'everybody'

const holderOf = (holder: RuleHolder) => ({
  of_group_id: typeof holder === 'object' && 'groupId' in holder ? holder.groupId : null,
  of_partner_id: typeof holder === 'object' && 'partnerId' in holder ? holder.partnerId : null,
})

/** Has these rules hold from now on, in place of those that did: see save_rules in migrations/functions/commission-rules.sql. */
export const saveRulesStatement = (programId: number, holder: RuleHolder, rules: CommissionRule[]) =>
  call('save_rules', { of_program_id: programId, ...holderOf(holder), rules: JSON.stringify(rules) })

/** The same by itself. Says whether anything changed; a group or a partner that the program does not have is refused by the database. */
export async function saveRules(
  db: Database,
  programId: number,
  holder: RuleHolder,
  rules: CommissionRule[],
): Promise<boolean> {
  const [saved] = await db.query(saveRulesStatement(programId, holder, rules))
  return saved?.save_rules ?? false
}

const ruleColumns = [
  'c.id',
  'c.product_id',
  'c.sale_type',
  'c.commission_bp',
  'c.commission_fixed_cents',
  'c.lifetime_cap_cents',
  'c.commission_duration_months',
  'c.lead_commission_cents',
  'c.created_at',
] as const

/** Rules that hold now, of a program's groups, partners and everybody; those for every sale first. */
export function rulesStatement(programId: number) {
  return kysely
    .selectFrom('commission_rules as c')
    .select([...ruleColumns, 'c.group_id', 'c.partner_id'])
    .where('c.program_id', '=', programId)
    .where('c.ended_at', 'is', null)
    .orderBy(sql`num_nonnulls(c.product_id, c.sale_type)`)
    .orderBy('c.product_id')
    .orderBy('c.sale_type')
    .orderBy('c.id')
}

/** The rules that a partner may be paid by now, in the order in which they are asked: see terms_of in migrations/functions/commission-rules.sql. */
export function rulesForPartner(
  programId: Expression<number>,
  partnerId: Expression<number>,
  groupId: Expression<number | null>,
) {
  return kysely
    .selectFrom('commission_rules as c')
    .select(ruleColumns)
    .where('c.program_id', '=', programId)
    .where('c.ended_at', 'is', null)
    .where((eb) => eb.or([eb('c.partner_id', 'is', null), eb('c.partner_id', '=', partnerId)]))
    .where((eb) => eb.or([eb('c.group_id', 'is', null), eb('c.group_id', '=', groupId)]))
    .orderBy('c.partner_id')
    .orderBy('c.group_id')
    .orderBy('c.product_id')
    .orderBy('c.sale_type')
}

/** Terms in words: `30 % and $5.00 of each sale for 12 months`. */
export function termsText(
  terms: Pick<StoredRule, 'commission_bp' | 'commission_duration_months'> &
    Partial<Pick<StoredRule, 'commission_fixed_cents' | 'lifetime_cap_cents' | 'product_id' | 'sale_type'>>,
  currency: string,
): string {
  const { commission_bp: bp, commission_duration_months: months, commission_fixed_cents: fixed = 0 } = terms
  const share = [bp > 0 || fixed === 0 ? `${bp / 100} %` : '', fixed > 0 ? formatMoney(fixed, currency) : '']
  const of = terms.product_id
    ? `each sale of ${terms.product_id}`
    : terms.sale_type
      ? `each sale of the type ${terms.sale_type}`
      : 'each sale'
  const cap = terms.lifetime_cap_cents ?? null
  return [
    `${share.filter(Boolean).join(' and ')} ${bp > 0 || fixed === 0 ? 'of' : 'for'} ${of}`,
    months === null ? '' : ` for ${months} months after a customer’s first purchase`,
    cap === null ? '' : `, up to ${formatMoney(cap, currency)} for a customer`,
  ].join('')
}

/** What a partner is paid now, in words: of what is named first, and of the rest; `rules` as `rulesForPartner` has them. */
export function termsOfPartner(
  program: {
    currency: string
    commission_bp: number
    commission_duration_months: number | null
    lead_commission_cents: number
  },
  rules: Omit<StoredRule, 'created_at'>[],
): string[] {
  const first = rules.findIndex((rule) => !rule.product_id && !rule.sale_type)
  const asked = first === -1 ? [...rules, { ...program, product_id: null, sale_type: null }] : rules.slice(0, first + 1)
  const whatOf = (terms: Pick<StoredRule, 'product_id' | 'sale_type'>) =>
    `${terms.product_id ?? ''} ${terms.sale_type ?? ''}`
  const kinds = asked.map(whatOf)
  const lead =
    rules.find((rule) => rule.lead_commission_cents !== null)?.lead_commission_cents ?? program.lead_commission_cents
  return [
    ...asked
      .filter((terms, index) => kinds.indexOf(whatOf(terms)) === index)
      .map((terms) => termsText(terms, program.currency)),
    ...(lead > 0 ? [`${formatMoney(lead, program.currency)} for each signup`] : []),
  ]
}

/** Column: the rules that hold now of a group or of a partner, as `rulesStatement` orders them. */
export const rulesOf = (programId: number, holder: 'c.group_id' | 'c.partner_id', id: Expression<number>) =>
  jsonArrayFrom(rulesStatement(programId).clearSelect().select(ruleColumns).where(holder, '=', id))

export type StoredRule = Omit<InferResult<ReturnType<typeof rulesStatement>>[number], 'group_id' | 'partner_id'>
