import * as z from 'zod/mini'
import { groupRow } from '../read-files.ts'
import { codeRow, linkRow } from '../rows.ts'
import { readEmail } from '../values.ts'
import { type Access, anId, ask, aText, aTime, bearer, type List, nextNumber, someCents } from './ask.ts'
import { commissionRow, customerRow, partnerRow } from './shared.ts'

const size = 100

/** The service returns a list as an array, or as an object with the array in `data`. */
async function page<Item extends z.ZodMiniType>(
  item: Item,
  { url, key, account }: Access,
  path: string,
  cursor: string | undefined,
) {
  const address = `${url}/${path}?per_page=${size}&page=${cursor ?? 1}`
  const schema = z.union([z.array(item), z.object({ data: z.array(item) })])
  const answer = await ask(schema, address, { ...bearer(key), 'account-id': account })
  const data = Array.isArray(answer) ? answer : answer.data
  return { data, next: nextNumber(cursor, data, size) }
}

const promoter = z.object({
  id: anId,
  email: aText,
  name: aText,
  archived_at: aText,
  profile: z.prefault(z.nullish(z.object({ first_name: aText, last_name: aText, paypal_email: aText })), null),
  promoter_campaigns: z.prefault(
    z.nullish(
      z.array(
        z.object({
          state: aText,
          coupon: aText,
          ref_token: aText,
          campaign: z.prefault(z.nullish(z.object({ id: anId, name: z.string() })), null),
        }),
      ),
    ),
    null,
  ),
})

const promoters: List = async (access, _context, cursor) => {
  const { data, next } = await page(promoter, access, 'promoters', cursor)
  const rows = data.flatMap(({ id, profile, promoter_campaigns: listed, ...one }) => {
    const campaigns = listed ?? []
    const isActive =
      campaigns.length === 0 || campaigns.some(({ state }) => !/rejected|blocked|inactive/.test(state ?? ''))
    return [
      // The service has no API call for terms, so the groups have no terms.
      ...campaigns.flatMap(({ campaign }) =>
        campaign ? [groupRow('promoters', campaign.id, campaign.name, {}, undefined)] : [],
      ),
      partnerRow('promoters', {
        id,
        names: one.name ? [one.name] : [profile?.first_name, profile?.last_name],
        email: one.email,
        payoutEmail: profile?.paypal_email,
        group: campaigns[0]?.campaign?.id,
        status: one.archived_at !== null || !isActive ? 'archived' : 'active',
      }),
      ...campaigns.flatMap(({ ref_token: code }) => (code ? [linkRow('promoters', { partner: id, code })] : [])),
      ...campaigns.flatMap(({ coupon: code }) => (code ? [codeRow('promoters', { partner: id, code })] : [])),
    ]
  })
  return { rows, next }
}

const referral = z.object({
  id: anId,
  email: aText,
  uid: aText,
  created_at: aTime,
  customer_since: aTime,
  promoter_campaign: z.prefault(
    z.nullish(z.object({ promoter: z.prefault(z.nullish(z.object({ email: aText })), null) })),
    null,
  ),
})

/** The id of a referral in the service's commissions: the customer's key, or the hashed address. */
async function customerIdOf(
  context: Parameters<List>[1],
  { uid, email }: { uid: string | null | undefined; email: string | null | undefined },
) {
  const address = readEmail(email ?? '')
  return uid ?? (address === undefined ? undefined : ((await context.hash(address)).email_hash ?? undefined))
}

const referrals: List = async (access, context, cursor) => {
  const { data, next } = await page(referral, access, 'referrals', cursor)
  const rows = await Promise.all(
    data.map(async (one) =>
      customerRow('referrals', context, {
        id: (await customerIdOf(context, { uid: one.uid, email: one.email })) ?? one.id,
        partner: one.promoter_campaign?.promoter?.email,
        key: one.uid,
        email: one.email,
        signup: one.created_at,
        purchase: one.customer_since,
      }),
    ),
  )
  return { rows, next }
}

const commission = z.object({
  id: anId,
  status: aText,
  is_paid: z.prefault(z.nullish(z.boolean()), null),
  unit: aText,
  amount: someCents,
  sale_amount: someCents,
  event_id: aText,
  created_at: aTime,
  referral: z.prefault(z.nullish(z.object({ email: aText, uid: aText })), null),
  promoter_campaign: z.prefault(
    z.nullish(z.object({ promoter: z.prefault(z.nullish(z.object({ email: aText })), null) })),
    null,
  ),
})

const commissions: List = async (access, context, cursor) => {
  const { data, next } = await page(commission, access, 'commissions', cursor)
  const rows = await Promise.all(
    data.map(async (one) =>
      commissionRow('commissions', {
        id: one.id,
        partner: one.promoter_campaign?.promoter?.email,
        customer: one.referral && (await customerIdOf(context, { uid: one.referral.uid, email: one.referral.email })),
        cents: one.amount,
        currency: context.currency,
        status: one.is_paid ? 'paid' : one.status,
        saleCents: one.sale_amount,
        paymentId: one.event_id,
        earnedAt: one.created_at,
        isMoney: (one.unit ?? 'cash') === 'cash',
      }),
    ),
  )
  return { rows, next }
}

export const firstpromoter = { promoters, referrals, commissions }
