import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

type Item = Record<string, unknown>

/** One program in the formats of six services: partners with a link each, their customers, and a commission for each customer. */
interface Size {
  partners: number
  customers: number
}

export interface Services {
  /** The value of `IMPORT_API_URL`. */
  url: string
  /** Paths of the calls, in order. */
  calls: string[]
  /** Answers the next calls with these statuses. */
  failures: number[]
  /** If true, every list returns its first page again and again. */
  repeats: boolean
  close(): Promise<void>
}

/** The partner of a customer. Both numbers start at 0. */
const partnerOf = (customer: number, { partners }: Size) => customer % partners
const email = (partner: number) => `partner${partner}@example.com`
const at = '2025-03-04T05:06:07Z'
const list = (count: number, item: (index: number) => Item) => Array.from({ length: count }, (_, index) => item(index))

/**
 * The lists of each service by path, in the format of the service's API. They contain only the fields that an import reads. The last part
 * of a path can be `*`.
 */
function listsOf(size: Size): Record<string, Record<string, Item[]>> {
  const { partners, customers } = size
  const owner = (customer: number) => partnerOf(customer, size)
  return {
    rewardful: {
      '/campaigns': [
        {
          id: 'camp',
          name: 'Main',
          reward_type: 'percent',
          commission_percent: 25,
          max_commission_period_months: 12,
          max_commissions: null,
        },
      ],
      '/affiliates': list(partners, (n) => ({
        id: `aff-${n}`,
        first_name: 'Partner',
        last_name: String(n),
        email: email(n),
        state: 'active',
        campaign: { id: 'camp' },
        links: [{ id: `link-${n}`, token: `token-${n}`, url: `https://shop.example.com/?via=token-${n}` }],
      })),
      '/affiliate_coupons': [{ id: 'coupon', token: 'SAVE10', affiliate_id: 'aff-0' }],
      '/referrals': list(customers, (n) => ({
        id: `ref-${n}`,
        affiliate: { id: `aff-${owner(n)}` },
        link: { token: `token-${owner(n)}` },
        customer: { email: `buyer${n}@example.com` },
        stripe_customer_id: `cus_rw_${n}`,
        became_lead_at: at,
        became_conversion_at: at,
      })),
      '/commissions': list(customers, (n) => ({
        id: `com-${n}`,
        amount: 1000,
        currency: 'USD',
        state: n % 2 ? 'paid' : 'due',
        created_at: at,
        sale: {
          sale_amount_cents: 4000,
          stripe_charge_id: `ch_${n}`,
          charged_at: at,
          referral: { id: `ref-${n}` },
          affiliate: { id: `aff-${owner(n)}` },
        },
      })),
    },
    tolt: {
      '/partners': list(partners, (n) => ({
        id: `part_${n}`,
        email: email(n),
        first_name: 'Partner',
        last_name: String(n),
        status: 'active',
        program: { id: 'prg_1', currency_code: 'USD' },
      })),
      '/links': list(partners, (n) => ({
        id: `lnk_${n}`,
        param: 'via',
        value: `token-${n}`,
        partner: { id: `part_${n}` },
      })),
      '/customers': list(customers, (n) => ({
        id: `cust_${n}`,
        customer_id: `user-${n}`,
        email: `buyer${n}@example.com`,
        created_at: at,
        partner: { id: `part_${owner(n)}` },
      })),
      '/commissions': list(customers, (n) => ({
        id: `comm_${n}`,
        amount: '1000',
        revenue: '4000',
        charge_id: `ch_${n}`,
        status: n % 2 ? 'paid' : 'approved',
        created_at: at,
        partner: { id: `part_${owner(n)}` },
        customer: { id: `cust_${n}` },
      })),
    },
    firstpromoter: {
      '/promoters': list(partners, (n) => ({
        id: n + 1,
        email: email(n),
        name: `Partner ${n}`,
        archived_at: null,
        promoter_campaigns: [
          { state: 'accepted', coupon: null, ref_token: `token-${n}`, campaign: { id: 7, name: 'Main' } },
        ],
      })),
      '/referrals': list(customers, (n) => ({
        id: n + 1,
        email: `buyer${n}@example.com`,
        uid: `user-${n}`,
        created_at: at,
        customer_since: at,
        promoter_campaign: { promoter: { email: email(owner(n)) } },
      })),
      '/commissions': list(customers, (n) => ({
        id: n + 1,
        status: 'approved',
        is_paid: n % 2 === 1,
        unit: 'cash',
        amount: 1000,
        sale_amount: 4000,
        created_at: at,
        referral: { uid: `user-${n}`, email: `buyer${n}@example.com` },
        promoter_campaign: { promoter: { email: email(owner(n)) } },
      })),
    },
    partnerstack: {
      '/groups': [{ key: 'grp', name: 'Main', slug: 'main', default: true }],
      '/partnerships': list(partners, (n) => ({
        key: `ps_${n}`,
        email: email(n),
        first_name: 'Partner',
        last_name: String(n),
        approved_status: 'approved',
        group: { slug: 'main' },
      })),
      '/links/partnership/*': list(partners, (n) => ({
        key: `lk_${n}`,
        of: `ps_${n}`,
        dest: 'https://shop.example.com/',
        url: `https://shop.partnerlinks.io/token-${n}`,
      })),
      '/customers': list(customers, (n) => ({
        key: `pc_${n}`,
        email: `buyer${n}@example.com`,
        provider_key: `cus_ps_${n}`,
        customer_key: `user-${n}`,
        test: false,
        partnership_key: `ps_${owner(n)}`,
        created_at: Date.parse(at),
      })),
      '/rewards': list(customers, (n) => ({
        key: `rw_${n}`,
        amount: 1000,
        currency: 'USD',
        created_at: Date.parse(at),
        reward_status: n % 2 ? 'paid' : 'approved',
        customer: { external_key: `user-${n}` },
        transaction: { amount: 4000, currency: 'USD' },
        partnership: { email: email(owner(n)) },
      })),
    },
    tapfiliate: {
      '/affiliate-groups/': [{ id: 'grp', title: 'Main', affiliate_count: partners }],
      '/programs/main/affiliates/': list(partners, (n) => ({
        id: `ta_${n}`,
        email: email(n),
        firstname: 'Partner',
        lastname: String(n),
        affiliate_group_id: 'grp',
        approved: true,
        referral_link: { link: `https://shop.example.com/?ref=token-${n}` },
        coupon: null,
      })),
      '/customers/': list(customers, (n) => ({
        id: `tc_${n}`,
        customer_id: `user-${n}`,
        created_at: at,
        affiliate: { id: `ta_${owner(n)}` },
      })),
      '/conversions/': list(customers, (n) => ({
        id: n + 1,
        external_id: `ch_${n}`,
        affiliate: { id: `ta_${owner(n)}` },
        customer: { customer_id: `user-${n}` },
        commissions: [
          {
            id: n + 1,
            amount: '10.00',
            currency: 'USD',
            approved: n % 2 ? true : null,
            conversion_sub_amount: 40,
            created_at: at,
          },
        ],
      })),
    },
    dub: {
      '/partners': list(partners, (n) => ({
        id: `pn_${n}`,
        name: `Partner ${n}`,
        email: email(n),
        status: 'approved',
        links: [
          {
            id: `link_${n}`,
            domain: 'go.example.com',
            key: `token-${n}`,
            shortLink: `https://go.example.com/token-${n}`,
          },
        ],
      })),
      '/commissions': list(customers, (n) => ({
        id: `cm_${n}`,
        type: 'sale',
        amount: 4000,
        earnings: 1000,
        currency: 'usd',
        status: n % 2 ? 'paid' : 'pending',
        invoiceId: `in_${n}`,
        createdAt: at,
        partner: { id: `pn_${owner(n)}` },
        customer: {
          id: `dc_${n}`,
          email: `buyer${n}@example.com`,
          externalId: `user-${n}`,
          stripeCustomerId: `cus_dub_${n}`,
        },
      })),
    },
  }
}

/** The credentials that each fake accepts, in the format of the service's API. */
const credentials: Record<string, (headers: Record<string, unknown>) => boolean> = {
  rewardful: (headers) => headers['authorization'] === `Basic ${btoa('key:')}`,
  tolt: (headers) => headers['authorization'] === 'Bearer key',
  firstpromoter: (headers) => headers['authorization'] === 'Bearer key' && headers['account-id'] === 'main',
  partnerstack: (headers) => headers['authorization'] === `Basic ${btoa('public:secret')}`,
  tapfiliate: (headers) => headers['x-api-key'] === 'key',
  dub: (headers) => headers['authorization'] === 'Bearer key',
}

/** Wraps a page of a list as the service's response does. */
function answerOf(service: string, path: string, items: Item[], query: URLSearchParams): unknown {
  const idOf = (item: Item) => item['id'] ?? item['key']
  const size = Number(query.get('limit') ?? query.get('per_page') ?? query.get('pageSize') ?? 25)
  const after = query.get('starting_after')
  const start =
    after === null ? (Number(query.get('page') ?? 1) - 1) * size : items.findIndex((item) => idOf(item) === after) + 1
  const page = items.slice(start, start + size)
  switch (service) {
    case 'rewardful':
      return { data: page, pagination: { current_page: 1, total_count: items.length } }
    case 'tolt':
      return { success: true, data: path === '/customers' ? { data: page } : page }
    case 'partnerstack':
      return { data: { items: page, has_more: start + size < items.length } }
    default:
      return page
  }
}

/**
 * Starts fakes of the six services' APIs on this machine. They serve only the lists that an import reads. They are based on the services'
 * public documentation, not on live accounts.
 */
export async function startServices(size: Size): Promise<Services> {
  const lists = listsOf(size)
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
    const [, service = '', ...rest] = pathname.split('/')
    const path = `/${rest.join('/')}`
    running.calls.push(pathname)
    if (running.repeats) searchParams.delete('page')
    const found =
      lists[service]?.[path] ??
      lists[service]?.[path.replace(/[^/]+$/, '*')]?.filter((item) => item['of'] === rest.at(-1))
    const isAllowed = credentials[service]?.(request.headers) ?? false
    const status = running.failures.shift() ?? (isAllowed ? (found ? 200 : 404) : 401)
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify(status === 200 ? answerOf(service, path, found ?? [], searchParams) : { error: status }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const running: Services = {
    url: `http://127.0.0.1:${port}`,
    calls: [],
    failures: [],
    repeats: false,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
  return running
}
