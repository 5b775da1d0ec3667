import * as z from 'zod/mini'
import { groupRow, withPartner } from '../read-files.ts'
import { codeRow, linkRow } from '../rows.ts'
import { type Access, anId, ask, aText, aTime, basic, type List, nextNumber, someCents } from './ask.ts'
import { commissionRow, customerRow, partnerRow } from './shared.ts'

const size = 100

async function page<Item extends z.ZodMiniType>(
  item: Item,
  { url, key }: Access,
  path: string,
  cursor: string | undefined,
) {
  const mark = path.includes('?') ? '&' : '?'
  const address = `${url}/${path}${mark}limit=${size}&page=${cursor ?? 1}`
  const { data } = await ask(z.object({ data: z.array(item) }), address, basic(key, ''))
  return { data, next: nextNumber(cursor, data, size) }
}

const withId = z.object({ id: anId })

const campaign = z.object({
  id: anId,
  name: z.string(),
  reward_type: aText,
  commission_percent: z.prefault(z.nullish(z.number()), null),
  commission_amount_cents: someCents,
  commission_amount_currency: aText,
  max_commission_period_months: z.prefault(z.nullish(z.number()), null),
  max_commissions: z.prefault(z.nullish(z.number()), null),
})

const campaigns: List = async (access, { currency }, cursor) => {
  const { data, next } = await page(campaign, access, 'campaigns', cursor)
  const rows = data.map((one) => {
    const isAmount = one.reward_type === 'amount'
    const isOther = isAmount && (one.commission_amount_currency ?? currency).toLowerCase() !== currency
    const terms = isAmount
      ? { commission_fixed_cents: isOther ? undefined : one.commission_amount_cents }
      : {
          commission_bp:
            one.commission_percent === null || one.commission_percent === undefined
              ? undefined
              : Math.round(one.commission_percent * 100),
        }
    const isFirstOnly = one.max_commissions === 1 || one.max_commission_period_months === 0
    const months = isFirstOnly ? 1 : (one.max_commission_period_months ?? undefined)
    return groupRow(
      'campaigns',
      one.id,
      one.name,
      terms,
      months,
      isOther,
      isFirstOnly ? 'first_sale_as_one_month' : undefined,
    )
  })
  return { rows, next }
}

const affiliate = z.object({
  id: anId,
  first_name: aText,
  last_name: aText,
  email: aText,
  paypal_email: aText,
  state: aText,
  campaign: z.prefault(z.nullish(withId), null),
  links: z.prefault(z.nullish(z.array(z.object({ id: anId, token: z.string() }))), null),
})

const affiliates: List = async (access, _context, cursor) => {
  const { data, next } = await page(affiliate, access, 'affiliates?expand[]=campaign&expand[]=links', cursor)
  const rows = data.flatMap(({ id, links, ...one }) => [
    partnerRow('affiliates', {
      id,
      names: [one.first_name, one.last_name],
      email: one.email,
      payoutEmail: one.paypal_email,
      group: one.campaign?.id,
      status: one.state,
    }),
    ...(links ?? []).map((link) => linkRow('affiliates', { id: link.id, partner: id, code: link.token })),
  ])
  return { rows, next }
}

const coupon = z.object({
  id: anId,
  token: aText,
  code: aText,
  affiliate_id: aText,
  affiliate: z.prefault(z.nullish(withId), null),
})

const coupons: List = async (access, _context, cursor) => {
  const { data, next } = await page(coupon, access, 'affiliate_coupons', cursor)
  const rows = data.map((one) =>
    withPartner(
      codeRow('affiliate_coupons', {
        id: one.id,
        partner: one.affiliate_id ?? one.affiliate?.id ?? '',
        code: one.token ?? one.code ?? '',
      }),
    ),
  )
  return { rows, next }
}

const referral = z.object({
  id: anId,
  affiliate: z.prefault(z.nullish(withId), null),
  link: z.prefault(z.nullish(z.object({ token: aText })), null),
  customer: z.prefault(z.nullish(z.object({ email: aText })), null),
  stripe_customer_id: aText,
  became_lead_at: aTime,
  became_conversion_at: aTime,
})

const referrals: List = async (access, context, cursor) => {
  const path = 'referrals?expand[]=affiliate&conversion_state[]=lead&conversion_state[]=conversion'
  const { data, next } = await page(referral, access, path, cursor)
  const rows = await Promise.all(
    data.map((one) =>
      customerRow('referrals', context, {
        id: one.id,
        partner: one.affiliate?.id,
        link: one.link?.token,
        processorId: one.stripe_customer_id,
        email: one.customer?.email,
        signup: one.became_lead_at,
        purchase: one.became_conversion_at,
      }),
    ),
  )
  return { rows, next }
}

const commission = z.object({
  id: anId,
  amount: someCents,
  currency: aText,
  state: aText,
  created_at: aTime,
  sale: z.prefault(
    z.nullish(
      z.object({
        sale_amount_cents: someCents,
        stripe_charge_id: aText,
        charged_at: aTime,
        referral: z.prefault(z.nullish(withId), null),
        affiliate: z.prefault(z.nullish(withId), null),
      }),
    ),
    null,
  ),
})

const commissions: List = async (access, _context, cursor) => {
  const { data, next } = await page(commission, access, 'commissions?expand[]=sale&expand[]=campaign', cursor)
  const rows = data.map(({ sale, ...one }) =>
    commissionRow('commissions', {
      id: one.id,
      partner: sale?.affiliate?.id,
      customer: sale?.referral?.id,
      cents: one.amount,
      currency: one.currency,
      status: one.state,
      saleCents: sale?.sale_amount_cents,
      paymentId: sale?.stripe_charge_id,
      earnedAt: sale?.charged_at ?? one.created_at,
    }),
  )
  return { rows, next }
}

export const rewardful = { campaigns, affiliates, coupons, referrals, commissions }
