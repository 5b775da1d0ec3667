import * as z from 'zod/mini'
import { linkRow } from '../rows.ts'
import { type Access, anId, ask, aText, aTime, bearer, type List, RefusedByService, someCents } from './ask.ts'
import { commissionRow, customerRow, partnerRow } from './shared.ts'

const size = 100

const owner = z.prefault(z.nullish(z.union([z.string(), z.object({ id: anId })])), null)
const idOf = (reference: z.output<typeof owner>) => (typeof reference === 'string' ? reference : reference?.id)

/** The service returns lists in `data`, and customers in `data.data`. */
async function page<Item extends z.ZodMiniType<{ id: string }>>(
  item: Item,
  { url, key, account }: Access,
  path: string,
  cursor: string | undefined,
) {
  const query = new URLSearchParams({
    program_id: account,
    limit: String(size),
    ...(cursor !== undefined && { starting_after: cursor }),
  })
  const schema = z.object({ data: z.union([z.array(item), z.object({ data: z.array(item) })]) })
  const { data: list } = await ask(schema, `${url}/${path}?${query}&expand[]=partner&expand[]=customer`, bearer(key))
  const data = Array.isArray(list) ? list : list.data
  return { data, next: data.length < size ? undefined : data.at(-1)?.id }
}

const partner = z.object({
  id: anId,
  email: aText,
  first_name: aText,
  last_name: aText,
  company_name: aText,
  status: aText,
  program: z.prefault(z.nullish(z.object({ currency_code: aText })), null),
})

const partners: List = async (access, { currency }, cursor) => {
  const { data, next } = await page(partner, access, 'partners', cursor)
  // Commissions have no currency of their own.
  const other = data.map((one) => one.program?.currency_code?.toLowerCase()).find((code) => code && code !== currency)
  if (other) {
    throw new RefusedByService(
      `Your program at Tolt is in ${other.toUpperCase()}, but this program is in ${currency.toUpperCase()}. Create a program in the same currency, or import files with a currency column.`,
    )
  }
  const rows = data.map((one) =>
    partnerRow('partners', {
      id: one.id,
      names: one.first_name || one.last_name ? [one.first_name, one.last_name] : [one.company_name],
      email: one.email,
      status: one.status,
    }),
  )
  return { rows, next }
}

const link = z.object({ id: anId, value: z.string(), partner: owner })

const links: List = async (access, _context, cursor) => {
  const { data, next } = await page(link, access, 'links', cursor)
  return {
    rows: data.map((one) => linkRow('links', { id: one.id, partner: idOf(one.partner) ?? '', code: one.value })),
    next,
  }
}

const customer = z.object({ id: anId, customer_id: aText, email: aText, created_at: aTime, partner: owner })

const customers: List = async (access, context, cursor) => {
  const { data, next } = await page(customer, access, 'customers', cursor)
  const rows = await Promise.all(
    data.map((one) =>
      customerRow('customers', context, {
        id: one.id,
        partner: idOf(one.partner),
        // Programs with Stripe often use Stripe's customer id.
        ...(one.customer_id?.startsWith('cus_') ? { processorId: one.customer_id } : { key: one.customer_id }),
        email: one.email,
        signup: one.created_at,
      }),
    ),
  )
  return { rows, next }
}

const commission = z.object({
  id: anId,
  amount: someCents,
  revenue: someCents,
  charge_id: aText,
  transaction_id: aText,
  status: aText,
  created_at: aTime,
  partner: owner,
  customer: owner,
})

const commissions: List = async (access, { currency }, cursor) => {
  const { data, next } = await page(commission, access, 'commissions', cursor)
  const rows = data.map((one) =>
    commissionRow('commissions', {
      id: one.id,
      partner: idOf(one.partner),
      customer: idOf(one.customer),
      cents: one.amount,
      currency,
      status: one.status,
      saleCents: one.revenue,
      paymentId: one.charge_id ?? one.transaction_id,
      earnedAt: one.created_at,
    }),
  )
  return { rows, next }
}

export const tolt = { partners, links, customers, commissions }
