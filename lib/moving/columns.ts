import { processors } from '../processors/processors.ts'

/** The tables that files can contain, with their fields. `columnsOf` finds the columns. */
export const tables = {
  groups: ['id', 'name', 'commission_percent', 'commission_amount', 'currency', 'duration_months'],
  partners: [
    'id',
    'name',
    'first_name',
    'last_name',
    'email',
    'payout_email',
    'group',
    'status',
    'link',
    'code',
    'balance',
    'currency',
  ],
  links: ['id', 'partner', 'link', 'page_url'],
  codes: ['id', 'partner', 'code'],
  customers: [
    'id',
    'partner',
    'link',
    'processor_customer_id',
    'customer_key',
    'email',
    'signup_date',
    'first_purchase_date',
    'partner_email',
    'partner_first_name',
    'partner_last_name',
    'partner_payout_email',
  ],
  balances: ['partner', 'balance', 'currency'],
  commissions: [
    'id',
    'partner',
    'customer',
    'amount',
    'amount_cents',
    'currency',
    'status',
    'sale_amount',
    'payment_id',
    'earned_at',
  ],
} as const

export type Table = keyof typeof tables
export type Field = (typeof tables)[Table][number]

const partner =
  'partner, partner id, partner key, partnership key, partner email, affiliate, affiliate id, affiliate email, promoter, promoter id, promoter email, referred by, referrer'
const currency = 'currency, currency code'
const processorCustomerIds = Object.values(processors)
  .map(({ title }) => `${title.toLowerCase()} customer id`)
  .join(', ')

/** Headings that services and people use for each field, most common first. The comparison ignores case, blanks and punctuation. */
const headings: Record<Table, Partial<Record<Field, string>>> = {
  groups: {
    id: 'id, group id, campaign id, program id, key, slug',
    name: 'name, group, group name, campaign, campaign name, program, title',
    commission_percent: 'commission percent, commission percentage, percent, percentage, commission rate, rate',
    commission_amount: 'commission amount, fixed amount, flat amount, amount',
    currency,
    duration_months: 'duration months, months, max commission period months, commission duration months, duration',
  },
  partners: {
    id: 'id, partner id, partner key, affiliate id, promoter id, external id, imported id',
    name: 'name, full name, partner name, affiliate name, promoter name, partner',
    first_name: 'first name, firstname, partner first, partner first name, affiliate first name, given name',
    last_name: 'last name, lastname, partner last, partner last name, affiliate last name, surname, family name',
    email: 'email, e mail, email address, partner email, affiliate email, promoter email',
    payout_email: 'payout email, paypal email, affiliate paypal email, paypal, paypal email address, payout address',
    group: 'group, group name, partner group, campaign, campaign name, campaign id, program, affiliate group',
    status: 'status, state, partner status',
    link: 'link, links, token, tokens, ref token, referral code, ref id, cust ref, ref, via, slug, tracking parameter, referral link, ref link, url, link code, param value, code',
    code: 'coupon, coupons, coupon code, promo code, promotion code, discount code',
    balance:
      'balance, unpaid, unpaid balance, amount owed, owed, due, unpaid commissions, amount due, open balance, outstanding balance, balance due',
    currency,
  },
  links: {
    id: 'id, link id, link key, key',
    partner,
    link: 'link, token, value, code, slug, url, short link, ref token, referral link, link code',
    page_url: 'page url, destination, dest, destination url, landing page, page',
  },
  codes: {
    id: 'id, code id, coupon id',
    partner,
    code: 'code, coupon, coupon code, promo code, promotion code, token, discount code',
  },
  customers: {
    id: 'id, referral id, lead id, key',
    partner,
    link: 'link, link code, token, ref token, via, ref, slug',
    processor_customer_id: `stripe customer id, imported id, processor customer id, provider key, stripe id, customer stripe id, payment provider id, ${processorCustomerIds}`,
    customer_key: 'customer key, customer id, user id, uid, external id, customer external id, external key, username',
    email: 'email, customer email, e mail, email address, user email',
    signup_date: 'signup date, signed up at, became lead at, created at, signup, created, date, lead date',
    first_purchase_date:
      'first purchase date, became conversion at, customer since, first sale date, converted at, first purchase, conversion date',
    partner_email: '',
    partner_first_name: 'affiliate first name, partner first name',
    partner_last_name: 'affiliate last name, partner last name',
    partner_payout_email: 'affiliate paypal email, paypal email',
  },
  balances: {
    partner: `${partner}, email, e mail, id`,
    balance:
      'balance, unpaid, unpaid balance, amount owed, owed, due, amount, amount due, open balance, outstanding balance, balance due',
    currency,
  },
  commissions: {
    id: 'id, commission id, reward id, reward key, transaction id, external id, key',
    partner,
    customer:
      'customer, customer id, customer key, referral, referral id, customer external id, customer email, referral email',
    amount: 'commission, commission amount, earnings, reward, reward amount, amount, payout amount',
    amount_cents: 'amount cents, commission cents',
    currency,
    status: 'status, state, commission status, reward status',
    sale_amount: 'sale amount, revenue, transaction amount, total cost, sale',
    payment_id: 'payment id, charge id, stripe charge id, invoice id, stripe invoice id, charge, payment, invoice',
    earned_at: 'created at, earned at, date, created, sale date',
  },
}

/** Rewardful's template, which other services export too, has a line for each customer with the partner's name and address. */
const templateHeadings: Partial<Record<Field, string>> = {
  ...headings.customers,
  id: '',
  customer_key: 'customer id, customer key',
  email: 'customer email',
  partner_email: 'affiliate email, partner email, email',
  partner_first_name: 'affiliate first name, partner first name, first name',
  partner_last_name: 'affiliate last name, partner last name, last name',
  partner_payout_email: 'affiliate paypal email, paypal email, wise email',
}

const plain = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()

/** Returns the table in a file, identified by the file's name or else by its headings. */
export function tableOf(fileName: string, fileHeadings: readonly string[]): Table {
  const name = fileName.toLowerCase()
  const byName: [RegExp, Table][] = [
    [/commission|reward|conversion|earning/, 'commissions'],
    [/customer|referral|lead/, 'customers'],
    [/balance/, 'balances'],
    [/link/, 'links'],
    [/coupon|promo_?codes?\b|\bcodes?\b/, 'codes'],
    [/partner|affiliate|promoter/, 'partners'],
    [/group|campaign|program/, 'groups'],
  ]
  const named = byName.find(([pattern]) => pattern.test(name))
  if (named) return named[1]
  const has = (table: Table, ...fields: Field[]) => {
    const found = columnsOf(table, fileHeadings)
    return fields.every((field) => found.has(field))
  }
  if (isTemplate(fileHeadings) || (has('customers', 'processor_customer_id') && has('customers', 'partner')))
    return 'customers'
  if (has('commissions', 'partner', 'amount', 'status') || has('commissions', 'partner', 'amount', 'earned_at'))
    return 'commissions'
  if (has('groups', 'name', 'commission_percent') && !has('partners', 'email')) return 'groups'
  if (has('partners', 'email') && !fileHeadings.some((heading) => /customer|user/i.test(heading))) return 'partners'
  if (has('customers', 'customer_key', 'partner')) return 'customers'
  if (has('links', 'partner', 'link')) return 'links'
  return 'partners'
}

const isTemplate = (fileHeadings: readonly string[]) => {
  const known = new Set(fileHeadings.map(plain))
  const hasAddress =
    known.has('affiliate email') || (known.has('email') && (known.has('token') || known.has('paypal email')))
  return (known.has('stripe customer id') || known.has('imported id')) && hasAddress && !known.has('affiliate id')
}

/** The heading that a person chose for each field. */
export type Mapping = Partial<Record<Field, string>>

/** Finds the column of each field: by the mapping, or else by its headings. A column is used for only one field. */
export function columnsOf(table: Table, fileHeadings: readonly string[], mapping: Mapping = {}): Map<Field, number> {
  const names = fileHeadings.map(plain)
  const known = table === 'customers' && isTemplate(fileHeadings) ? templateHeadings : headings[table]
  const found = new Map<Field, number>()
  const mapped = tables[table].filter((field) => mapping[field] !== undefined)
  for (const field of mapped) {
    const column = names.indexOf(plain(mapping[field] ?? ''))
    if (column >= 0) found.set(field, column)
  }
  const used = new Set(found.values())
  for (const field of tables[table]) {
    if (mapping[field] !== undefined) continue
    const column = (known[field] ?? '')
      .split(', ')
      .map((heading) => names.indexOf(heading))
      .find((place) => place >= 0 && !used.has(place))
    if (column === undefined) continue
    found.set(field, column)
    used.add(column)
  }
  return found
}
