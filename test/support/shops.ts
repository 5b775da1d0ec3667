import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { newClickIdPrefix } from '../../lib/tracking/clicks.ts'
import type { Generation, Shop } from '../../lib/local/stripe-events.ts'

export interface TestShop extends Shop {
  partnerId: number
  /** The partner and link of a second partner in the same program. */
  otherPartnerId: number
  otherLinkId: number
  linkId: number
}

/**
 * Creates programs in one statement. Each is connected to its own account, and has two partners and a customer who
 * clicked the first partner's link. Commissions are 20%.
 */
export async function createShops(
  client: pg.Client,
  count: number,
  settings: { generation?: Generation; holdDays?: number; leadCommissionCents?: number } = {},
): Promise<TestShop[]> {
  const tag = randomUUID().slice(0, 8)
  const { rows } = await client.query<{
    id: string
    account: string
    partners: string[]
    links: string[]
    click_id: string
  }>(
    `with workspace as (insert into workspaces (name) values ('Shops') returning id),
    program as (
      insert into programs (workspace_id, name, domain, hold_days, lead_commission_cents, processor_account_id)
      select w.id, 'Shop', 'shop.example.com', $2, $3, 'acct_' || $4 || n from workspace w, generate_series(1, $1::integer) n
      returning id, processor_account_id
    ),
    -- They have no address that could be the customer's.
    partner as (
      insert into partners (program_id, name, email_hashes) select id, 'Partner', '{}' from program, generate_series(1, 2) returning program_id, id
    ),
    link as (
      insert into referral_links (code, program_id, partner_id) select $4 || '-' || id, program_id, id from partner
      returning id, program_id, partner_id
    ),
    visitor as (
      insert into customers (program_id, click_id, link_id, partner_id, last_click_at)
      select program_id, $5 || program_id, min(id), min(partner_id), now() from link group by program_id
      returning program_id, click_id
    )
    select p.id, p.processor_account_id as account, array_agg(l.partner_id order by l.partner_id) as partners,
      array_agg(l.id order by l.partner_id) as links, v.click_id
    from program p join link l on l.program_id = p.id join visitor v on v.program_id = p.id
    group by p.id, p.processor_account_id, v.click_id order by p.id`,
    [count, settings.holdDays ?? 30, settings.leadCommissionCents ?? 0, tag, newClickIdPrefix(Date.now())],
  )
  return rows.map((row) => ({
    generation: settings.generation ?? 'new',
    account: row.account,
    programId: Number(row.id),
    clickId: row.click_id,
    customerKey: 'user-1',
    email: 'ann@example.com',
    customer: 'cus_ann',
    livemode: true,
    now: Math.floor(Date.now() / 1000),
    partnerId: Number(row.partners[0]),
    otherPartnerId: Number(row.partners[1]),
    linkId: Number(row.links[0]),
    otherLinkId: Number(row.links[1]),
  }))
}

/** Creates one such program. */
export async function createShop(
  client: pg.Client,
  settings: Parameters<typeof createShops>[2] = {},
): Promise<TestShop> {
  const [shop] = await createShops(client, 1, settings)
  if (!shop) throw new Error('the shop is missing')
  return shop
}
