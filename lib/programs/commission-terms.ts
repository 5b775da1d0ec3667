import * as z from 'zod/mini'
import { maxAmountCents } from '../money.ts'

/** Messages about invalid terms, either for API callers or next to the fields of a form. */
interface Texts {
  percentage: string
  highPercentage: string
  amount: string
  highAmount: string
  months: string
  product: string
  saleType: string
  productOrType: string
  leadOfProduct: string
}

const apiTexts: Texts = {
  percentage: 'must be hundredths of a percent, from 0 to 10000',
  highPercentage: 'must be hundredths of a percent, from 0 to 10000',
  amount: `must be an integer from 0 to ${maxAmountCents}`,
  highAmount: `must be an integer from 0 to ${maxAmountCents}`,
  months: 'must be 1 to 1200 months',
  product: 'must be the id of a product or of a price, such as prod_NWjs8kKbJWmuuc',
  saleType: 'must be a sale_type: 1 to 64 characters',
  productOrType: 'must not be combined with product_id: a rule is for one or the other',
  leadOfProduct: 'belongs in a rule for every sale, because a lead has no product',
}

const formTexts: Texts = {
  percentage: 'Enter a percentage with at most two decimals.',
  highPercentage: 'A commission can be at most 100%.',
  amount: 'Enter an amount in the program’s currency.',
  highAmount: 'Enter a smaller amount.',
  months: 'Enter 1 to 1200 months.',
  product: 'Enter an id such as prod_NWjs8kKbJWmuuc.',
  saleType: 'Enter 1 to 64 characters.',
  productOrType: 'Enter a product or a type: a rule is for one or the other.',
  leadOfProduct: 'A signup has no product. Enter this in a rule for every sale.',
}

const termsSchema = (texts: Texts) => ({
  /** Hundredths of a percent. */
  percentage: () => z.int(texts.percentage).check(z.gte(0, texts.percentage), z.lte(10_000, texts.highPercentage)),
  /** In the program's currency. */
  amount: () => z.int(texts.amount).check(z.gte(0, texts.amount), z.lte(maxAmountCents, texts.highAmount)),
  months: () => z.int(texts.months).check(z.gte(1, texts.months), z.lte(1200, texts.months)),
})

/** The fields of terms in the forms of the dashboard. */
export const typedTerms = termsSchema(formTexts)

function ruleSchema(texts: Texts) {
  const { percentage, amount, months } = termsSchema(texts)
  return z
    .strictObject({
      /** The processor's id of a product or of a price. */
      product_id: z.nullish(z.string().check(z.regex(/^[\w-]{1,255}$/, texts.product))),
      sale_type: z.nullish(z.string().check(z.regex(/^\P{C}{1,64}$/u, texts.saleType))),
      commission_bp: z.optional(percentage()),
      /** Per sale, in addition to the percentage. */
      commission_fixed_cents: z.optional(amount()),
      lifetime_cap_cents: z.nullish(amount()),
      commission_duration_months: z.nullish(months()),
      lead_commission_cents: z.nullish(amount()),
    })
    .check(
      z.refine(({ product_id, sale_type }) => !product_id || !sale_type, {
        path: ['sale_type'],
        error: texts.productOrType,
      }),
      z.refine((rule) => !(rule.product_id ?? rule.sale_type) || (rule.lead_commission_cents ?? null) === null, {
        path: ['lead_commission_cents'],
        error: texts.leadOfProduct,
      }),
    )
}

/** A rule: all terms for a product, for a type of sale, or (if neither is given) for every sale. */
const commissionRule = ruleSchema(apiTexts)
export type CommissionRule = z.output<typeof commissionRule>

/** A rule in the form of the dashboard. */
export const typedRule = ruleSchema(formTexts)

/** The rules of one group or partner, or of everybody. */
export const commissionRules = z.array(commissionRule).check(
  z.maxLength(50, 'must be 50 rules at most'),
  z.refine(
    (rules) => new Set(rules.map((rule) => `${rule.product_id ?? ''} ${rule.sale_type ?? ''}`)).size === rules.length,
    'must have at most one rule for each product or sale_type',
  ),
)

/** Each rule for all partners needs a product, because the program's own terms cover all products. */
export const everybodysRules = commissionRules.check(
  z.refine(
    (rules) => rules.every((rule) => rule.product_id ?? rule.sale_type),
    'must each have a product_id or a sale_type: the terms of the program are the rule for all products',
  ),
)
