import type { ImportFile } from '../../lib/moving/read-files.ts'
import type { Source } from '../../lib/moving/sources.ts'

interface Size {
  partners: number
  customers: number
}

/** A file: its name, its headings, and a line for each partner or customer. `p` is the customer's partner, as a number. */
type Format = [name: string, headings: string, each: keyof Size, line: (n: number, p: number) => string]

const paid = (n: number) => (n % 2 ? 'paid' : 'approved')

/** The export files of each service, with headings from its public documentation. */
const formats: Record<Exclude<Source, 'csv' | 'archive'>, Format[]> = {
  rewardful: [
    [
      'customers.csv',
      'stripe_customer_id,first_name,last_name,email,paypal_email,wise_email,token',
      'customers',
      (n, p) => `cus_${n},Partner,${p},partner${p}@example.com,,,token-${p}`,
    ],
    [
      'commissions.csv',
      'ID,Affiliate Email,Stripe Customer ID,Amount,Currency,State,Stripe Charge ID,Created At',
      'customers',
      (n, p) => `com-${n},partner${p}@example.com,cus_${n},10.00,USD,${paid(n)},ch_${n},2025-03-04`,
    ],
  ],
  tolt: [
    [
      'partners.csv',
      'ID,Email,First name,Last name,Status,Token',
      'partners',
      (n) => `part_${n},partner${n}@example.com,Partner,${n},active,token-${n}`,
    ],
    [
      'customers.csv',
      'ID,Customer ID,Email,Partner ID,Created at',
      'customers',
      (n, p) => `cust_${n},user-${n},buyer${n}@example.com,part_${p},2025-03-04`,
    ],
    [
      'commissions.csv',
      'ID,Partner ID,Customer ID,Amount,Revenue,Charge ID,Status,Created at',
      'customers',
      (n, p) => `comm_${n},part_${p},cust_${n},10.00,40.00,ch_${n},${paid(n)},2025-03-04`,
    ],
  ],
  firstpromoter: [
    [
      'promoters.csv',
      'id;email;first_name;last_name;cust_ref;campaign',
      'partners',
      (n) => `${n + 1};partner${n}@example.com;Partner;${n};token-${n};Main`,
    ],
    [
      'referrals.csv',
      'id;email;uid;promoter_email;created_at;customer_since',
      'customers',
      (n, p) => `${n + 1};buyer${n}@example.com;user-${n};partner${p}@example.com;04/03/2025;25/03/2025`,
    ],
    [
      'commissions.csv',
      'id;promoter_email;referral_email;amount;sale_amount;status;created_at',
      'customers',
      (n, p) => `${n + 1};partner${p}@example.com;buyer${n}@example.com;10,00;40,00;${paid(n)};04/03/2025`,
    ],
  ],
  partnerstack: [
    [
      'partners.csv',
      'Partner_first,Partner_last,Partner_email,partner_key,Partner_group,Referral link',
      'partners',
      (n) => `Partner,${n},partner${n}@example.com,ps_${n},Main,https://shop.partnerlinks.io/token-${n}`,
    ],
    [
      'customers.csv',
      'key,email,provider_key,customer_key,partner_key,created_at',
      'customers',
      (n, p) => `pc_${n},buyer${n}@example.com,cus_${n},user-${n},ps_${p},1741064767000`,
    ],
    [
      'rewards.csv',
      'key,partner_key,customer,amount,currency,reward_status,created_at',
      'customers',
      (n, p) => `rw_${n},ps_${p},pc_${n},10.00,USD,${paid(n)},1741064767000`,
    ],
  ],
  tapfiliate: [
    [
      'affiliates.csv',
      'id\tfirstname\tlastname\temail\taffiliate_group\treferral_code',
      'partners',
      (n) => `ta_${n}\tPartner\t${n}\tpartner${n}@example.com\tMain\ttoken-${n}`,
    ],
    [
      'customers.csv',
      'customer_id\taffiliate_id\tcreated_at',
      'customers',
      (n, p) => `user-${n}\tta_${p}\t2025-03-04T05:06:07+00:00`,
    ],
    [
      'conversions.csv',
      'external_id\taffiliate_email\tcustomer_id\tcommission_amount\tcurrency\tcommission_status\tcreated_at',
      'customers',
      (n, p) => `ch_${n}\tpartner${p}@example.com\tuser-${n}\t10.00\tUSD\tapproved\t2025-03-04`,
    ],
  ],
  dub: [
    [
      'partners.csv',
      'ID,Name,Email,Country,Status,Group',
      'partners',
      (n) => `pn_${n},Partner ${n},partner${n}@example.com,US,approved,Main`,
    ],
    [
      'links.csv',
      'Link ID,Partner ID,Short link',
      'partners',
      (n) => `l_${n},pn_${n},https://go.example.com/token-${n}`,
    ],
    [
      'customers.csv',
      'ID,External ID,Stripe customer ID,Email,Partner ID,Created at',
      'customers',
      (n, p) => `dc_${n},user-${n},cus_${n},buyer${n}@example.com,pn_${p},2025-03-04`,
    ],
    [
      'commissions.csv',
      'ID,Partner ID,Customer ID,Earnings,Currency,Status,Invoice ID,Created at',
      'customers',
      (n, p) => `cm_${n},pn_${p},dc_${n},10.00,usd,${paid(n)},in_${n},2025-03-04`,
    ],
  ],
}

/** Writes a program of this size in the format of a service's export. */
export function serviceFiles(source: Exclude<Source, 'csv' | 'archive'>, size: Size): ImportFile[] {
  const encoder = new TextEncoder()
  return formats[source].map(([name, headings, each, line]) => ({
    name,
    content: encoder.encode(
      [headings, ...Array.from({ length: size[each] }, (_, n) => line(n, n % size.partners))].join('\r\n'),
    ),
  }))
}
