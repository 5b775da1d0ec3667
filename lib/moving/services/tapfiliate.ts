import * as z from 'zod/mini'
import { groupRow } from '../read-files.ts'
import { codeRow, linkRow } from '../rows.ts'
import { codeOfLink, readDecimal, readCurrency } from '../values.ts'
import { type Access, anId, ask, aText, aTime, type List } from './ask.ts'
import { commissionRow, customerRow, partnerRow } from './shared.ts'

/** The service chooses the size of a page. The list ends with an empty page. */
async function page<Item extends z.ZodMiniType>(
  item: Item,
  { url, key }: Access,
  path: string,
  cursor: string | undefined,
) {
  const mark = path.includes('?') ? '&' : '?'
  const items = await ask(z.array(item), `${url}/${path}${mark}page=${cursor ?? 1}`, { 'x-api-key': key })
  return { items, next: items.length === 0 ? undefined : String(Number(cursor ?? 1) + 1) }
}

const group = z.object({ id: anId, title: z.string() })

const groups: List = async (access, _context, cursor) => {
  const { items, next } = await page(group, access, 'affiliate-groups/', cursor)
  return { rows: items.map(({ id, title }) => groupRow('affiliate-groups', id, title, {}, undefined)), next }
}

const affiliate = z.object({
  id: anId,
  email: aText,
  firstname: aText,
  lastname: aText,
  affiliate_group_id: aText,
  approved: z.prefault(z.nullish(z.boolean()), null),
  referral_link: z.prefault(z.nullish(z.union([z.string(), z.object({ link: aText })])), null),
  coupon: aText,
})

const affiliates: List = async (access, _context, cursor) => {
  const { items, next } = await page(
    affiliate,
    access,
    `programs/${encodeURIComponent(access.account)}/affiliates/`,
    cursor,
  )
  const rows = items.flatMap(({ id, referral_link: referralLink, coupon, ...one }) => {
    const link = typeof referralLink === 'string' ? referralLink : referralLink?.link
    return [
      partnerRow('affiliates', {
        id,
        names: [one.firstname, one.lastname],
        email: one.email,
        group: one.affiliate_group_id,
        status: one.approved === false ? 'rejected' : 'active',
      }),
      ...(link ? [linkRow('affiliates', { partner: id, code: codeOfLink(link, ['ref']) })] : []),
      ...(coupon ? [codeRow('affiliates', { partner: id, code: coupon })] : []),
    ]
  })
  return { rows, next }
}

const owner = z.prefault(z.nullish(z.object({ id: anId })), null)
const customer = z.object({ id: anId, customer_id: aText, created_at: aTime, affiliate: owner })

const customers: List = async (access, context, cursor) => {
  const { items, next } = await page(
    customer,
    access,
    `customers/?program_id=${encodeURIComponent(access.account)}`,
    cursor,
  )
  const rows = await Promise.all(
    items.map((one) =>
      customerRow('customers', context, {
        id: one.customer_id ?? one.id,
        partner: one.affiliate?.id,
        ...(one.customer_id?.startsWith('cus_') ? { processorId: one.customer_id } : { key: one.customer_id }),
        signup: one.created_at,
      }),
    ),
  )
  return { rows, next }
}

const amount = z.union([z.string(), z.number()])
const conversion = z.object({
  id: anId,
  external_id: aText,
  affiliate: owner,
  customer: z.prefault(z.nullish(z.object({ customer_id: aText })), null),
  commissions: z.array(
    z.object({
      id: anId,
      amount,
      currency: aText,
      approved: z.prefault(z.nullish(z.boolean()), null),
      conversion_sub_amount: z.prefault(z.nullish(amount), null),
      created_at: aTime,
    }),
  ),
})

const conversions: List = async (access, { currency: own }, cursor) => {
  const { items, next } = await page(
    conversion,
    access,
    `conversions/?program_id=${encodeURIComponent(access.account)}`,
    cursor,
  )
  const rows = items.flatMap(({ commissions, affiliate: partner, customer: buyer, external_id: payment }) =>
    commissions.map((one) => {
      const currency = readCurrency(one.currency ?? own)
      return commissionRow('conversions', {
        id: one.id,
        partner: partner?.id,
        customer: buyer?.customer_id,
        cents: currency === undefined ? undefined : readDecimal(String(one.amount), currency),
        currency,
        status: one.approved === null || one.approved === undefined ? 'pending' : String(one.approved),
        saleCents:
          currency !== undefined && one.conversion_sub_amount !== null
            ? readDecimal(String(one.conversion_sub_amount), currency)
            : undefined,
        paymentId: payment,
        earnedAt: one.created_at,
      })
    }),
  )
  return { rows, next }
}

export const tapfiliate = { groups, affiliates, customers, conversions }
