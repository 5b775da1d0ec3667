import { type Expression, type InferResult, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import * as z from 'zod/mini'
import { refuse } from '../constraints.ts'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { terms as messages } from '../texts/messages/terms.ts'
import { createTexts, type Texts } from '../texts/texts.ts'
import type { CommissionRule } from './commission-terms.ts'

/** The scope of rules: a group, one partner, or all partners. */
export type RuleHolder = { groupId: number } | { partnerId: number } | 'everybody'

const holderOf = (holder: RuleHolder) => ({
  of_group_id: typeof holder === 'object' && 'groupId' in holder ? holder.groupId : null,
  of_partner_id: typeof holder === 'object' && 'partnerId' in holder ? holder.partnerId : null,
})

/**
 * The statement that replaces the current rules, effective now. See save_rules in migrations/functions/3_commissions/commission-rules.sql.
 */
const saveRulesStatement = (programId: number, holder: RuleHolder, rules: CommissionRule[]) =>
  call('save_rules', { of_program_id: programId, ...holderOf(holder), rules: JSON.stringify(rules) })

/**
 * Replaces the current rules in its own transaction. Returns whether anything changed. The database refuses groups and partners of
 * other programs.
 */
export async function saveRules(
  db: Database,
  programId: number,
  holder: RuleHolder,
  rules: CommissionRule[],
): Promise<boolean> {
  const [saved] = await db.query(saveRulesStatement(programId, holder, rules))
  return saved?.save_rules ?? false
}

/**
 * Ends a rule, or starts a rule that replaces the existing one for the same product or sale type, or does both. Doesn't change other
 * rules. Throws `conflict` for more than 50 rules, and `not_found` for an unknown group or partner.
 */
export async function changeRule(
  db: Database,
  programId: number,
  holder: RuleHolder,
  { ends, begins }: RuleChange,
): Promise<void> {
  const of = { of_program_id: programId, ...holderOf(holder) }
  await db
    .query(call('change_rule', { ...of, ended_id: ends ?? null, added: begins ? JSON.stringify(begins) : null }))
    .catch(refuse)
}

export interface RuleChange {
  /** The id of the rule to end. */
  ends?: number | undefined
  begins?: CommissionRule | undefined
}

/** A calendar month in UTC: `2026-01`. */
export const previewedMonth = z.string().check(z.regex(/^20\d\d-(0[1-9]|1[0-2])$/, 'must be a month such as 2026-01'))

/** Returns the month before the month of `at`. */
export function monthBefore(at: Date): string {
  return new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - 1)).toISOString().slice(0, 7)
}

/** The effect of a rule change on a past month, before refunds. Amounts are in the currency's minor unit. */
export interface RulePreview {
  month: string
  /** One entry for each currency of the month's sales. */
  totals: PreviewedAmounts[]
  /** Up to a hundred partners whose amounts differ, largest differences first. */
  partners: (PreviewedAmounts & { partner_id: number; name: string })[]
}

interface PreviewedAmounts {
  currency: string
  /** The commissions under the rules at that time. */
  actual_cents: number
  /** The commissions under the current rules, and under the changed rules. */
  now_cents: number
  then_cents: number
}

/**
 * Computes the commissions of a month's sales and leads with changed rules. It uses each partner's current group, and the same functions
 * as real commissions. Changes nothing. Throws `not_found` if the program does not have the group or partner.
 */
export async function previewRules(
  db: Database,
  programId: number,
  holder: RuleHolder,
  change: RuleChange | CommissionRule[],
  of: string = monthBefore(new Date()),
): Promise<RulePreview> {
  const from_time = new Date(`${of}-01T00:00:00Z`)
  const until = new Date(Date.UTC(from_time.getUTCFullYear(), from_time.getUTCMonth() + 1))
  const args = { of_program_id: programId, ...holderOf(holder), from_time, until }
  const statement = Array.isArray(change)
    ? call('preview_rules', { ...args, rules: JSON.stringify(change) })
    : call('preview_rule', {
        ...args,
        ended_id: change.ends ?? null,
        added: change.begins ? JSON.stringify(change.begins) : null,
      })
  const rows = await db.query(statement).catch(refuse)
  const preview: RulePreview = { month: of, totals: [], partners: [] }
  for (const { partner_id, partner_name: name, currency, actual_cents, now_cents, then_cents } of rows) {
    const amounts = {
      currency: currency ?? '',
      actual_cents: actual_cents ?? 0,
      now_cents: now_cents ?? 0,
      then_cents: then_cents ?? 0,
    }
    if (partner_id === null || name === null) preview.totals.push(amounts)
    else preview.partners.push({ partner_id, name, ...amounts })
  }
  return preview
}

/** The statement of `defaultTermsNow`. */
export const defaultTermsStatement = (programId: number) =>
  rulesStatement(programId).where('c.group_id', 'is', null).where('c.partner_id', 'is', null)

/** Reads the current rules for all partners. */
export async function defaultTermsNow(db: Database, programId: number): Promise<StoredRule[]> {
  return await db.query(defaultTermsStatement(programId))
}

/** Replaces the rules for all partners from now on, and returns the new rules. */
export async function changeRules(db: Database, programId: number, rules: CommissionRule[]): Promise<StoredRule[]> {
  const [, saved] = await db.batch([
    saveRulesStatement(programId, 'everybody', rules),
    defaultTermsStatement(programId),
  ])
  return saved
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

/**
 * Selects the current rules of a program, for its groups, for single partners and for everybody. Rules for every sale come first. Amounts
 * are in `currency`.
 */
function rulesStatement(programId: number) {
  return kysely
    .selectFrom('commission_rules as c')
    .innerJoin('programs', 'programs.id', 'c.program_id')
    .select([...ruleColumns, 'programs.currency'])
    .where('c.program_id', '=', programId)
    .where('c.ended_at', 'is', null)
    .orderBy(sql`num_nonnulls(c.product_id, c.sale_type)`)
    .orderBy('c.product_id')
    .orderBy('c.sale_type')
    .orderBy('c.id')
}

/**
 * Selects the rules that may apply to a partner now, in order of precedence. See terms_of in
 * migrations/functions/3_commissions/terms.sql.
 */
export function rulesForPartner(
  programId: Expression<number>,
  partnerId: Expression<number>,
  groupId: Expression<number | null>,
) {
  return currentRulesOf(programId)
    .where((eb) => eb.or([eb('c.partner_id', 'is', null), eb('c.partner_id', '=', partnerId)]))
    .where((eb) => eb.or([eb('c.group_id', 'is', null), eb('c.group_id', '=', groupId)]))
    .orderBy('c.partner_id')
    .orderBy('c.group_id')
    .orderBy('c.product_id')
    .orderBy('c.sale_type')
}

/** Selects the rules that apply to a new partner now, in order of precedence. */
export function rulesForEverybody(programId: Expression<number>) {
  return currentRulesOf(programId)
    .where('c.partner_id', 'is', null)
    .where('c.group_id', 'is', null)
    .orderBy('c.product_id')
    .orderBy('c.sale_type')
}

function currentRulesOf(programId: Expression<number>) {
  return kysely
    .selectFrom('commission_rules as c')
    .select(ruleColumns)
    .where('c.program_id', '=', programId)
    .where('c.ended_at', 'is', null)
}

type TermTexts = Pick<Texts<typeof messages>, 't' | 'money' | 'percent'>
const english = createTexts(messages, 'en')

/** Describes terms as text: `30% and $5.00 of each sale for 12 months`. */
function termsText(
  terms: Pick<StoredRule, 'commission_bp' | 'commission_duration_months'> &
    Partial<Pick<StoredRule, 'commission_fixed_cents' | 'lifetime_cap_cents' | 'product_id' | 'sale_type'>>,
  currency: string,
  { t, money, percent }: TermTexts,
): string {
  const { commission_bp: bp, commission_duration_months: months, commission_fixed_cents: fixed = 0 } = terms
  const { product_id: product, sale_type: type, lifetime_cap_cents: cap } = terms
  const hasPercent = bp > 0 || fixed === 0
  const share = !hasPercent
    ? money(fixed, currency)
    : fixed > 0
      ? t('{share} and {amount}', { share: percent(bp), amount: money(fixed, currency) })
      : percent(bp)
  let text = hasPercent ? t('{share} of each sale', { share }) : t('{share} for each sale', { share })
  if (product) {
    const values = { share, product }
    text = hasPercent ? t('{share} of each sale of {product}', values) : t('{share} for each sale of {product}', values)
  } else if (type) {
    const values = { share, type }
    text = hasPercent
      ? t('{share} of each sale of the type {type}', values)
      : t('{share} for each sale of the type {type}', values)
  }
  if (months !== null)
    text = t('{terms} for {count} months after a customer’s first purchase', { terms: text, count: months })
  if (typeof cap === 'number')
    text = t('{terms}, up to {amount} for a customer', { terms: text, amount: money(cap, currency) })
  return text
}

/** Describes all terms of a rule as text, including the amount per signup. */
export function ruleText(rule: Terms, currency: string): string {
  const lead = rule.lead_commission_cents
  const sales = termsText(rule, currency, english)
  return lead === null
    ? sales
    : `${sales}; ${english.t('{amount} for each signup', { amount: english.money(lead, currency) })}`
}

const whatOf = (terms: Pick<Terms, 'product_id' | 'sale_type'>) => `${terms.product_id ?? ''} ${terms.sale_type ?? ''}`

/**
 * Describes a partner's current terms, for products with their own rule and for all other products. `rules` comes from `rulesForPartner`.
 */
export function termsOfPartner(
  program: {
    currency: string
    commission_bp: number
    commission_duration_months: number | null
    lead_commission_cents: number
  },
  rules: Terms[],
  texts: TermTexts = english,
): string[] {
  const first = rules.findIndex((rule) => !rule.product_id && !rule.sale_type)
  const applicable =
    first === -1 ? [...rules, { ...program, product_id: null, sale_type: null }] : rules.slice(0, first + 1)
  const kinds = applicable.map(whatOf)
  const lead =
    rules.find((rule) => rule.lead_commission_cents !== null)?.lead_commission_cents ?? program.lead_commission_cents
  return [
    ...applicable
      .filter((terms, index) => kinds.indexOf(whatOf(terms)) === index)
      .map((terms) => termsText(terms, program.currency, texts)),
    ...(lead > 0 ? [texts.t('{amount} for each signup', { amount: texts.money(lead, program.currency) })] : []),
  ]
}

/** Column: the current rules of a group or a partner, in the order of `rulesStatement`. */
export const rulesOf = (programId: number, holder: 'c.group_id' | 'c.partner_id', id: Expression<number>) =>
  jsonArrayFrom(rulesStatement(programId).where(holder, '=', id))

export type StoredRule = InferResult<ReturnType<typeof rulesStatement>>[number]
/** Describes a rule. */
type Terms = Omit<StoredRule, 'id' | 'created_at' | 'currency'>
