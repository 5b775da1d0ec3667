import * as z from 'zod/mini'
import { linkRow } from '../rows.ts'
import { type Access, anId, ask, aText, aTime, bearer, type List, nextNumber, someCents } from './ask.ts'
import { commissionRow, customerRow, partnerRow } from './shared.ts'

const size = 100

async function page<Item extends z.ZodMiniType>(
  item: Item,
  { url, key }: Access,
  path: string,
  cursor: string | undefined,
) {
  const items = await ask(
    z.array(item),
    `${url}/${path}?pageSize=${size}&page=${cursor ?? 1}&sortBy=createdAt&sortOrder=asc`,
    bearer(key),
  )
  return { items, next: nextNumber(cursor, items, size) }
}

const partner = z.object({
  id: anId,
  name: aText,
  email: aText,
  status: aText,
  links: z.prefault(z.nullish(z.array(z.object({ id: aText, key: z.string(), url: aText }))), null),
})

const partners: List = async (access, _context, cursor) => {
  const { items, next } = await page(partner, access, 'partners', cursor)
  const rows = items.flatMap(({ id, links, ...one }) => [
    partnerRow('partners', { id, names: [one.name], email: one.email, status: one.status }),
    ...(links ?? []).map((link) => linkRow('partners', { id: link.id ?? undefined, partner: id, code: link.key })),
  ])
  return { rows, next }
}

const commission = z.object({
  id: anId,
  type: aText,
  amount: someCents,
  earnings: someCents,
  currency: aText,
  status: aText,
  invoiceId: aText,
  createdAt: aTime,
  partner: z.prefault(z.nullish(z.object({ id: anId })), null),
  customer: z.prefault(
    z.nullish(z.object({ id: anId, email: aText, externalId: aText, stripeCustomerId: aText })),
    null,
  ),
})

/** Commissions are listed oldest first and contain their customers, so a customer's first commission is their first purchase. */
const commissions: List = async (access, context, cursor) => {
  const { items, next } = await page(commission, access, 'commissions', cursor)
  const rows = []
  for (const { customer, ...one } of items) {
    if (customer) {
      rows.push(
        await customerRow('commissions', context, {
          id: customer.id,
          partner: one.partner?.id,
          processorId: customer.stripeCustomerId,
          key: customer.externalId,
          email: customer.email,
          ...(one.type === 'sale' ? { purchase: one.createdAt } : { signup: one.createdAt }),
        }),
      )
    }
    rows.push(
      commissionRow('commissions', {
        id: one.id,
        partner: one.partner?.id,
        customer: customer?.id,
        cents: one.earnings,
        currency: one.currency ?? context.currency,
        status: one.status,
        saleCents: one.amount,
        paymentId: one.invoiceId,
        earnedAt: one.createdAt,
      }),
    )
  }
  return { rows, next }
}

export const dub = { partners, commissions }
