import * as z from 'zod/mini'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { reasonText } from '../processor-reasons.ts'
import type { DeliveryOfPayment } from '../processors/webhook-events.ts'
import { campaignIn } from '../tracking/campaign.ts'
import { type SaleTexts, englishSale } from './sale-texts.ts'
import type { Click, Explanation, Step } from './explanation-fields.ts'
import { type ExplainedSale, readForExplanation, type SaleRequest } from './explanation-read.ts'
import { historyOf, iso, shadowText } from './sale-history.ts'

/**
 * Explains a sale, or a processor payment that is not a sale. `transaction_id` is the sale's id, any of the processor's ids for its payment,
 * or the id of one of its events. A partner sees their own sales, without the customer's data. `texts` chooses the language of the
 * sentences about a sale. One database request. Throws `not_found`.
 */
export async function explainSale(db: Database, request: SaleRequest, texts = englishSale): Promise<Explanation> {
  const { sale, deliveries } = await readForExplanation(db, request)
  if (!sale) return explainPayment(request, deliveries)
  return explain(sale, deliveries, request.withCustomer, texts)
}

const resolutionSchema = z.object({
  steps: z.array(z.tuple([z.string(), z.string()])),
  at: z.optional(z.string()),
  clicked_at: z.nullish(z.string()),
  came_at: z.optional(z.string()),
  window_days: z.optional(z.number()),
  model: z.optional(z.string()),
  hold_days: z.optional(z.number()),
  partner_left: z.optional(z.boolean()),
  expired_click: z.optional(z.object({ clicked_at: z.string(), came_at: z.string(), at: z.string() })),
})
type Resolution = z.output<typeof resolutionSchema>

const resolutionOf = (stored: unknown): Resolution => (stored === null ? { steps: [] } : resolutionSchema.parse(stored))

/** The text for the subject and the outcome of each step, by the words that the database functions store. */
const stepNames: Record<string, string> = {
  metadata: 'Metadata of the payment',
  customer_metadata: 'Metadata of the processor customer',
  program: 'Program',
  known_buyer: 'Known subscription or processor customer',
  setting: 'Setting for known customers',
  session: 'Checkout session',
  click_id: 'Click id',
  email: 'E-mail address',
  processor_customer: 'Processor customer',
  customer_key: 'Customer key',
  unverified_email: 'E-mail address from a browser',
  unverified_customer_key: 'Customer key from a browser',
  same_partner: 'Customer key with the same partner',
  coupon: 'Code',
  code_of_first_purchase: 'Code of the first purchase',
  code_or_click: 'Code or click',
}

/** Returns the label of a step. */
export const stepName = (step: string) => stepNames[step] ?? step

const ofPayment: Record<string, Record<string, string>> = {
  metadata: {
    found: 'The payment itself contains a program, a click or a customer.',
    nothing: "The payment itself doesn't contain a program, a click or a customer.",
  },
  customer_metadata: {
    found: "The processor customer's metadata contains a program, a click or a customer.",
    nothing: "The processor customer's metadata doesn't contain any of these.",
    not_given: 'The payment has no processor customer.',
    not_tried: 'This was not needed, because the payment has its own metadata.',
  },
  program: {
    named: 'The metadata contains this program.',
    by_click: 'The click id belongs to this program.',
    not_connected: 'The program in the metadata is not connected to this processor account.',
    by_code: 'The promotion code belongs to this program.',
    none: 'The metadata contains no program, and there is no click id that leads to one.',
  },
  known_buyer: {
    found: 'An earlier attributed payment belongs to the same subscription or processor customer.',
    unknown: 'No earlier attributed payment belongs to this subscription or processor customer.',
    not_given: 'The payment has neither a subscription nor a processor customer.',
  },
  setting: { off: "At that time the program did not attribute known customers' payments without metadata." },
  session: {
    found: 'The session and its buyer were known before the payment.',
    unknown: 'No session with this id was waiting for payment.',
    not_given: 'The payment has no checkout session.',
  },
  click_id: {
    unknown: 'No visitor of the program has it. A visitor who only clicked is deleted after the attribution window.',
  },
  unverified_email: { unknown: 'No lead from a browser has it.' },
  unverified_customer_key: { unknown: 'No lead from a browser has it.' },
  coupon: {
    found: 'It is a partner’s code.',
    unknown: 'No partner of the program has this code.',
    revoked: 'The code had already been revoked.',
    given_later: 'The partner only received the code later.',
    partner_inactive: 'The partner who has this code is not active.',
  },
  code_of_first_purchase: { found: 'The sale has no valid code, but the first purchase used one.' },
  code_or_click: {
    code: "A click had come through another partner's link, and codes take precedence in this program.",
    click: 'The code belongs to another partner, and clicks take precedence in this program.',
    named_code: "The first purchase used another partner's code, and this sale uses this one.",
  },
  same_partner: { found: 'Another customer of the same partner has this key. That customer is the buyer.' },
}
const ofCustomer: Record<string, string> = {
  found: 'Found the customer.',
  second_customer:
    'Its customer has another key, so a customer with this key was created with the same link and partner.',
  not_given: 'None was given.',
  unknown: 'No customer of the program has this value.',
  expired: 'Its latest click was older than the attribution window.',
  unverified: 'Only a browser had reported it, and server reports take precedence.',
  clicked_later: 'Its customer had not clicked yet when the buyer started the purchase.',
}

function stepsOf({ steps }: Resolution, { fixed }: SaleTexts): Step[] {
  return steps.map(([step, found]) => {
    const text = fixed(ofPayment[step]?.[found] ?? ofCustomer[found] ?? found)
    return { step, found, text }
  })
}

function explain(
  read: ExplainedSale,
  deliveries: DeliveryOfPayment[],
  withCustomer: boolean,
  texts: SaleTexts,
): Explanation {
  const { fixed } = texts
  // Only the program's members see the names of its groups.
  const sale = withCustomer ? read : { ...read, group_name: read.group_name && '' }
  const resolution = resolutionOf(sale.resolution)
  const { currency } = sale
  const wentByCode = resolution.steps.some(([step, found]) => step === 'code_or_click' && found !== 'click')
  // Partners must not see another partner's link.
  const link =
    sale.link_id === null || sale.link_code === null || (wentByCode && !withCustomer)
      ? null
      : { id: sale.link_id, code: sale.link_code }
  const referred =
    wentByCode || link === null
      ? sale.code === null
        ? '{name} referred the buyer.'
        : '{name} referred the buyer with the code {code}.'
      : '{name} referred the buyer through the link {code}.'
  const code = (wentByCode || link === null ? sale.code : link.code) ?? ''
  const attributed = sale.customer_id !== null
  const steps = stepsOf(resolution, texts)
  const commission = commissionOf(sale, resolution, texts)
  return {
    transaction_id: sale.transaction_id,
    is_test: sale.is_test,
    attributed,
    summary: attributed
      ? `${fixed(referred, { name: sale.partner_name ?? '', code })} ${commission?.text ?? ''}`.trim()
      : notAttributed(steps),
    sale: {
      sale_date: iso(sale.sale_date),
      amount_cents: sale.amount_cents,
      tax_cents: taxIn(sale),
      processor_fee_cents: sale.processor_fee_cents ?? 0,
      commission_base_cents: sale.commission_base_cents,
      refunded_cents: sale.refunded_cents,
      currency,
      source: sale.amount_source,
    },
    partner:
      sale.partner_id === null || sale.partner_name === null ? null : { id: sale.partner_id, name: sale.partner_name },
    link,
    code: sale.code_id === null || sale.code === null ? null : { id: sale.code_id, code: sale.code },
    customer:
      !withCustomer || sale.click_id === null ? null : { click_id: sale.click_id, customer_key: sale.customer_key },
    steps,
    click: !attributed
      ? expiredClickOf(resolution)
      : wentByCode && !withCustomer
        ? null
        : clickOf(sale, resolution, withCustomer, texts),
    rule:
      sale.commission_bp === null
        ? null
        : {
            id: sale.commission_rule_id,
            text: ruleText(sale, texts),
            commission_bp: sale.commission_bp,
            commission_percent: sale.commission_bp / 100,
            fixed_cents: sale.commission_fixed_cents ?? 0,
            cap_cents: sale.commission_cap_cents,
            duration_months: sale.commission_months,
            first_purchase_date: sale.first_purchase_date && iso(sale.first_purchase_date),
            hold_days: resolution.hold_days ?? null,
          },
    commission,
    lead_commission: leadCommissionOf(sale, withCustomer, texts),
    payout: sale.payout_id === null ? null : { id: sale.payout_id, payout_run_id: sale.payout_run_id },
    history: historyOf(sale, texts),
    deliveries: deliveries.map(asDelivery),
  }
}

/**
 * If a partner's code decided the sale, the signup can belong to another partner. The code's partner must not see the signup. Partners
 * never see shadow-mode commissions.
 */
function leadCommissionOf(
  { lead_commission: lead, partner_id: partner }: ExplainedSale,
  withCustomer: boolean,
  texts: SaleTexts,
): Explanation['lead_commission'] {
  if (!lead || ((lead.partner_id !== partner || lead.is_shadow) && !withCustomer)) return null
  const to = lead.partner_id === partner ? '' : `${lead.partner_name} `
  return {
    id: lead.id,
    amount_cents: lead.amount_cents,
    reversed_cents: lead.reversed_cents,
    currency: lead.currency,
    text: leadText(lead, to, texts),
  }
}

/** Describes how each step ended. */
function leadText(
  lead: NonNullable<ExplainedSale['lead_commission']>,
  to: string,
  { fixed, money, day }: SaleTexts,
): string {
  const earned = money(lead.amount_cents, lead.currency)
  const on = { day: day(lead.created_at), amount: `${to}${earned}` }
  const ended = { day: on.day, amount: earned, to: to && `of ${to}` }
  if (lead.rejected_at !== null)
    return fixed('The commission {to}for the signup on {day}, {amount}, was rejected.', ended)
  if (lead.status === 'reversed')
    return fixed('The commission {to}for the signup on {day}, {amount}, was reversed.', ended)
  if (lead.paid_at !== null) return fixed('The signup on {day} paid {amount} by itself.', on)
  if (lead.is_shadow) return fixed(`The signup on {day} earned {amount} by itself, ${shadowText}.`, on)
  if (lead.held_at !== null)
    return fixed(
      'The signup on {day} earned {amount} by itself. It is held for review, and not paid until somebody decides.',
      on,
    )
  if (lead.credited_at !== null) return fixed('The signup on {day} earned {amount} by itself.', on)
  const until = day(lead.hold_until)
  return fixed('The signup on {day} earned {amount} by itself, on hold until {until}.', { ...on, until })
}

const asDelivery = ({ event_id, event_type, outcome, reason, received_at }: DeliveryOfPayment) => ({
  event_id,
  event_type,
  outcome,
  reason: reasonText(reason),
  received_at: iso(received_at),
})

/** The ids in a sale or a payment that the steps look up. */
const lookedUpIds: Record<string, string> = {
  coupon: 'a code',
  click_id: 'a click id',
  email: 'an e-mail address',
  processor_customer: 'a processor customer',
  customer_key: 'a customer key',
}
const conjunction = new Intl.ListFormat('en', { type: 'conjunction' })

/** Explains why the sale has no customer: either a customer was found but didn't count, or the given ids are unknown. */
function notAttributed(steps: Step[]): string {
  const noPartner = 'No partner: nothing identified a customer whom a partner referred.'
  const short = steps.find(
    ({ step, found }) => step in lookedUpIds && !['found', 'unknown', 'not_given'].includes(found),
  )
  if (short) return `${noPartner} ${stepName(short.step)}: ${short.text}`
  const unknown = steps.flatMap(({ step, found }) => (found === 'unknown' ? (lookedUpIds[step] ?? []) : []))
  const why =
    unknown.length === 0
      ? 'It contained no click id, customer key or other identifier.'
      : `It contained ${conjunction.format(unknown)}, but ${unknown.length === 1 ? 'no customer of the program has it' : 'no customer of the program has any of them'}.`
  return `${noPartner} ${why}`
}

/** The payment is only in the delivery log. */
function explainPayment(
  { transaction_id, test, partnerUserId }: SaleRequest,
  deliveries: DeliveryOfPayment[],
): Explanation {
  // The event that got furthest explains the most.
  const delivery = deliveries.toSorted((a, b) => stepCount(b) - stepCount(a))[0]
  if (partnerUserId !== undefined) throw new ApiError('not_found', 'You have no such sale.')
  if (delivery === undefined) {
    throw new ApiError(
      'not_found',
      `There is no sale with the transaction_id "${transaction_id}", and no event from the last 90 days refers to such a payment.`,
    )
  }
  const resolution = resolutionOf(delivery.resolution)
  const steps = stepsOf(resolution, englishSale)
  return {
    transaction_id: delivery.payment_id ?? transaction_id,
    is_test: test,
    attributed: false,
    summary: `This payment is not a sale of the program. ${reasonText(delivery.reason) ?? ''}`.trim(),
    sale:
      delivery.amount_cents === null || delivery.currency === null || delivery.paid_at === null
        ? null
        : {
            sale_date: iso(delivery.paid_at),
            amount_cents: delivery.amount_cents,
            tax_cents: 0,
            processor_fee_cents: 0,
            commission_base_cents: 0,
            refunded_cents: 0,
            currency: delivery.currency,
            source: delivery.event_type,
          },
    partner: null,
    link: null,
    code: null,
    customer: null,
    steps,
    click: expiredClickOf(resolution),
    rule: null,
    commission: null,
    lead_commission: null,
    payout: null,
    history: [],
    deliveries: deliveries.map(asDelivery),
  }
}

const stepCount = ({ resolution }: DeliveryOfPayment) => resolutionOf(resolution).steps.length

/** The click in an unattributed payment, if the attribution window was over. */
function expiredClickOf({ expired_click: click, window_days: window, model = 'last_click' }: Resolution): Click | null {
  if (click === undefined || window === undefined) return null
  const timing = timingOf(click.clicked_at, click.came_at, click.at, window, model)
  return { ...timing, text: `${latestText(timing, englishSale)} It was too old to count.`, event: null, campaign: null }
}

function timingOf(clickedAt: string, cameAt: string, at: string, window: number, model: string) {
  const age = Math.floor((Date.parse(at) - Date.parse(clickedAt)) / 1000)
  return {
    // The time in a click id is slightly earlier than the customer's row.
    first_at: iso(Date.parse(cameAt) < Date.parse(clickedAt) ? cameAt : clickedAt),
    latest_at: iso(clickedAt),
    decided_at: iso(at),
    age_seconds: age,
    window_days: window,
    within_window: age < window * 86_400,
    attribution_model: model,
  }
}

const latestText = (
  { age_seconds: age, window_days: window }: Pick<Click, 'age_seconds' | 'window_days'>,
  texts: SaleTexts,
) =>
  texts.fixed('The latest click was {age} and the window was {count} days.', {
    age: ageText(age, texts),
    count: window,
  })

function clickOf(sale: ExplainedSale, resolution: Resolution, withCustomer: boolean, texts: SaleTexts): Click | null {
  const { clicked_at: clickedAt, came_at: cameAt, window_days: window, at } = resolution
  if (typeof clickedAt !== 'string' || cameAt === undefined || window === undefined || at === undefined) return null
  const model = resolution.model ?? 'last_click'
  const timing = timingOf(clickedAt, cameAt, at, window, model)
  const { click, link_code: code } = sale
  const { fixed } = texts
  const stayed =
    model === 'first_click'
      ? 'That click came through {other}, and the customer stayed with {code}: the first click decides in this program.'
      : 'That click came through {other}, and the customer stayed with {code}: they had signed up or bought by then.'
  return {
    ...timing,
    text: [
      latestText(timing, texts),
      timing.within_window
        ? ''
        : fixed('A customer who signed up or bought stays attributed, so the window no longer applied.'),
      click?.code && code && click.code !== code
        ? fixed(stayed, { other: withCustomer ? click.code : fixed('another link'), code })
        : '',
    ]
      .filter(Boolean)
      .join(' '),
    campaign: click && (withCustomer || click.code === code) ? campaignIn(click.campaign) : null,
    event:
      !withCustomer || !click
        ? null
        : {
            page_url: click.page_url,
            referrer_url: click.referrer_url,
            country: click.geo_country,
            device: click.device_type,
          },
  }
}

function ageText(seconds: number, { fixed }: SaleTexts): string {
  if (seconds < 0) return fixed('after it')
  if (seconds < 60) return fixed('less than a minute before')
  if (seconds < 3600) return fixed('{count} minutes before', { count: Math.floor(seconds / 60) })
  if (seconds < 2 * 86_400) return fixed('{count} hours before', { count: Math.floor(seconds / 3600) })
  return fixed('{count} days before', { count: Math.floor(seconds / 86_400) })
}

function commissionOf(sale: ExplainedSale, resolution: Resolution, texts: SaleTexts): Explanation['commission'] {
  const { commission_bp: bp, currency } = sale
  const exact = sale.lines === null ? sale.exact_share : String(sale.commission_cents ?? 0)
  if (bp === null || exact === null) return null
  const amount = sale.commission_cents ?? 0
  const reversed = sale.reversed_cents ?? 0
  return {
    id: sale.commission_id,
    status: sale.status,
    exact,
    amount_cents: amount,
    reversed_cents: reversed,
    left_cents: amount - reversed,
    currency,
    text:
      sale.lines === null || sale.is_test
        ? commissionText(sale, resolution, { bp, exact, amount }, texts)
        : linesText(sale, sale.lines, texts),
    lines: sale.lines,
  }
}

/** Returns the tax in the amount of a sale. The base can exclude the processor's fee too. */
function taxIn(sale: ExplainedSale): number {
  return sale.amount_cents - sale.commission_base_cents - (sale.processor_fee_cents ?? 0)
}

/** Explains the difference between the base and the amount. Returns an empty text if both are the same. */
function baseText(sale: ExplainedSale, { fixed, money: format, list }: SaleTexts): string {
  const money = (cents: number) => format(cents, sale.currency)
  const tax = taxIn(sale)
  const fee = sale.processor_fee_cents ?? 0
  const excluded = [
    ...(tax > 0 ? [fixed('{amount} of tax', { amount: money(tax) })] : []),
    ...(fee > 0 ? [fixed("{amount} of the processor's fee", { amount: money(fee) })] : []),
  ]
  if (excluded.length === 0) return ''
  const values = { amount: money(sale.amount_cents), excluded: list(excluded), base: money(sale.commission_base_cents) }
  return `${fixed('{amount} minus {excluded} is {base}.', values)} `
}

/** Explains how much each part of an invoice earns. */
function linesText(sale: ExplainedSale, lines: NonNullable<ExplainedSale['lines']>, texts: SaleTexts): string {
  const { fixed, percent } = texts
  const money = (cents: number) => texts.money(cents, sale.currency)
  const parts = lines.map(
    ({ product_id: product, commission_bp, fixed_cents: added, base_cents, commission_cents }) => {
      const [ofProduct, ofRest] =
        added > 0
          ? [
              '{percent} of {base} and {fixed} for {product} is {amount}',
              '{percent} of {base} and {fixed} for the rest is {amount}',
            ]
          : ['{percent} of {base} for {product} is {amount}', '{percent} of {base} for the rest is {amount}']
      return fixed(product === null ? ofRest : ofProduct, {
        percent: percent(commission_bp),
        base: money(base_cents),
        fixed: money(added),
        product: product ?? '',
        amount: money(commission_cents),
      })
    },
  )
  const total = lines.reduce((sum, { commission_cents: cents }) => sum + cents, 0)
  const together = fixed('Its products have different rules: {parts}. Together they earn {amount}.', {
    parts: parts.join('; '),
    amount: money(total),
  })
  return `${baseText(sale, texts)}${together}`
}

function commissionText(
  sale: ExplainedSale,
  resolution: Resolution,
  { bp, exact, amount }: { bp: number; exact: string; amount: number },
  texts: SaleTexts,
): string {
  const { currency, commission_base_cents: base, commission_months: months } = sale
  const { fixed: say, percent } = texts
  const money = (cents: number) => texts.money(cents, currency)
  if (sale.is_test) return 'It is a test sale, and earns nothing.'
  if (sale.amount_cents === 0) return say('No payment was required, so it earns nothing.')
  if (resolution.partner_left)
    return say('The partner had erased their account or the workspace was closed, so it earns nothing.')
  const fixed = base > 0 ? (sale.commission_fixed_cents ?? 0) : 0
  const by =
    sale.commission_rule_id === null
      ? ''
      : ` ${say('By {rule}.', { rule: ruleName(sale, texts) })}${otherCurrency(sale, texts)}`
  if (bp === 0 && fixed === 0) {
    return sale.commission_rule_id === null
      ? say('The program paid 0% at that time, so it earns nothing.')
      : `${say('It earns nothing.')}${by}`
  }
  const share = sale.share_cents ?? 0
  const uncapped = share + fixed
  const cap = sale.commission_cap_cents
  const left = Math.max(sale.left_cents ?? 0, 0)
  if (amount === 0 && uncapped > 0 && (cap === null || left > 0)) {
    const late =
      'The sale is more than {count} months after the first purchase, and the program only pays for those months. It earns nothing.'
    return `${say(late, { count: months ?? 0 })}${by}`
  }
  const isExact = exact === String(share)
  const shareValues = { percent: percent(bp), base: money(base), amount: money(share), exact }
  const ofRate =
    bp === 0
      ? ''
      : say(
          isExact
            ? '{percent} of {base} is {amount}.'
            : '{percent} of {base} is {amount}, rounded half up from {exact} minor units.',
          shareValues,
        )
  const withFixed =
    fixed === 0
      ? ofRate
      : bp === 0
        ? say('Each sale earns {amount}.', { amount: money(fixed) })
        : `${ofRate} ${say('With {fixed} for each sale it is {amount}.', { fixed: money(fixed), amount: money(uncapped) })}`
  const capped =
    cap === null || left >= uncapped
      ? ''
      : ` ${say(
          left === 0
            ? 'All sales to a customer can earn {cap} together. Earlier sales earned {earlier}, so this sale earns nothing.'
            : 'All sales to a customer can earn {cap} together. Earlier sales earned {earlier}, so this sale earns {left}.',
          { cap: money(cap), earlier: money(cap - (sale.left_cents ?? 0)), left: money(left) },
        )}`
  return `${baseText(sale, texts)}${withFixed}${capped}${by}`
}

/** Describes the owner and the scope of the sale's rule. */
function ruleText(sale: ExplainedSale, texts: SaleTexts): string {
  if (sale.commission_rule_id === null) return "The program's own terms."
  return `${ruleName(sale, texts).replace(/^the/, 'The')}.${otherCurrency(sale, texts)}`
}

function ruleName(sale: ExplainedSale, { fixed }: SaleTexts): string {
  const { rule_product_id: product, rule_sale_type: type, group_name: group } = sale
  const rule =
    sale.rule_partner_id !== null
      ? fixed("the partner's own rule")
      : group === ''
        ? fixed("the rule of the partner's group")
        : group === null
          ? fixed('the general rule')
          : `the rule of the group ${group}`
  if (product) return fixed('{rule} for the product {product}', { rule, product })
  return type ? fixed('{rule} for sales of the type {type}', { rule, type }) : rule
}

function otherCurrency(sale: ExplainedSale, { fixed }: SaleTexts): string {
  const isOther =
    (sale.rule_fixed_cents !== 0 && sale.commission_fixed_cents === null) ||
    (sale.rule_cap_cents !== null && sale.commission_cap_cents === null)
  const text = "Its fixed amount and cap are not in this sale's currency, so the sale earns only the percentage."
  return isOther ? ` ${fixed(text)}` : ''
}
