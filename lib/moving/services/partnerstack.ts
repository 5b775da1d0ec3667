import * as z from 'zod/mini'
import { groupRow } from '../read-files.ts'
import { linkRow } from '../rows.ts'
import { codeOfLink } from '../values.ts'
import { type Access, ask, aText, aTime, basic, type List, someCents } from './ask.ts'
import { commissionRow, customerRow, partnerRow } from './shared.ts'

/** Each partner's links need a separate call, so a page has few partners. */
const size = 25

async function page<Item extends z.ZodMiniType<{ key: string }>>(
  item: Item,
  { url, key }: Access,
  path: string,
  cursor: string | undefined,
) {
  const [user = '', password = ''] = key.split(':')
  const query = new URLSearchParams({ limit: String(size), ...(cursor !== undefined && { starting_after: cursor }) })
  const schema = z.object({
    data: z.object({ items: z.array(item), has_more: z.prefault(z.nullish(z.boolean()), null) }),
  })
  const { data } = await ask(schema, `${url}/${path}?${query}`, basic(user, password))
  return { items: data.items, next: data.has_more ? data.items.at(-1)?.key : undefined }
}

const group = z.object({ key: z.string(), name: z.string(), slug: aText })

const groups: List = async (access, _context, cursor) => {
  const { items, next } = await page(group, access, 'groups', cursor)
  return { rows: items.map((one) => groupRow('groups', one.slug ?? one.key, one.name, {}, undefined)), next }
}

const partnership = z.object({
  key: z.string(),
  email: aText,
  first_name: aText,
  last_name: aText,
  approved_status: aText,
  group: z.prefault(z.nullish(z.object({ slug: aText })), null),
})
const link = z.object({ key: z.string(), url: aText, dest: aText })

const partnerships: List = async (access, _context, cursor) => {
  const { items, next } = await page(partnership, access, 'partnerships', cursor)
  const rows = []
  for (const one of items) {
    rows.push(
      partnerRow('partnerships', {
        id: one.key,
        names: [one.first_name, one.last_name],
        email: one.email,
        group: one.group?.slug,
        status: one.approved_status,
      }),
    )
    const links = await page(link, access, `links/partnership/${encodeURIComponent(one.key)}`, undefined)
    for (const { key, url, dest } of links.items) {
      const page_url = dest && URL.canParse(dest) ? dest : undefined
      rows.push(linkRow('links', { id: key, partner: one.key, code: codeOfLink(url ?? key, []), page_url }))
    }
  }
  return { rows, next }
}

const customer = z.object({
  key: z.string(),
  email: aText,
  provider_key: aText,
  customer_key: aText,
  test: z.prefault(z.nullish(z.boolean()), null),
  partnership_key: aText,
  created_at: aTime,
})

const customers: List = async (access, context, cursor) => {
  const { items, next } = await page(customer, access, 'customers', cursor)
  const rows = await Promise.all(
    items
      .filter(({ test }) => !test)
      .map((one) =>
        customerRow('customers', context, {
          id: one.customer_key ?? one.key,
          partner: one.partnership_key,
          processorId: one.provider_key,
          key: one.customer_key,
          email: one.email,
          signup: one.created_at,
        }),
      ),
  )
  return { rows, next }
}

const reward = z.object({
  key: z.string(),
  amount: someCents,
  currency: aText,
  created_at: aTime,
  reward_status: aText,
  customer: z.prefault(z.nullish(z.object({ external_key: aText })), null),
  transaction: z.prefault(z.nullish(z.object({ amount: someCents, currency: aText })), null),
  partnership: z.prefault(z.nullish(z.object({ email: aText })), null),
})

const rewards: List = async (access, _context, cursor) => {
  const { items, next } = await page(reward, access, 'rewards', cursor)
  const rows = items.map((one) => {
    const currency = one.currency ?? 'usd'
    return commissionRow('rewards', {
      id: one.key,
      partner: one.partnership?.email,
      customer: one.customer?.external_key,
      cents: one.amount,
      currency,
      status: one.reward_status,
      // If a sale isn't in its reward's currency, the amount stays empty, because amounts aren't converted.
      saleCents:
        one.transaction?.currency?.toLowerCase() === currency.toLowerCase() ? one.transaction.amount : undefined,
      earnedAt: one.created_at,
    })
  })
  return { rows, next }
}

export const partnerstack = { groups, partnerships, customers, rewards }
