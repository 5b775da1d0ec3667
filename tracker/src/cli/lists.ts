import type { Command } from 'commander'
import type { ApiOperations } from '../api-types.ts'
import { webhookTypes } from '../webhook-types.ts'
import { type Flags, optionValues, type Print, type Subcommand, wholeNumber } from './flags.ts'
import { type Connection, connect, request } from './service.ts'
import { day, money, plain, style, table } from './text.ts'

/** An item of an API list. */
export type Row<Id extends keyof ApiOperations> = ApiOperations[Id]['answer'] extends { data: (infer Of)[] }
  ? Of
  : never
export type Column<Of> = [title: string, cell: (row: Of) => string | number | null]

/** The columns and options of `svc … list` for one kind of item. */
interface List<Of> {
  noun: string
  /** The item's name in the API, if it differs from the noun. */
  path?: string
  /** The values of each filter, by its option. */
  filters?: Record<string, string>
  /** The sort orders of the list, if there are several. */
  sorts?: string
  columns: Column<Of>[]
}

/** Describes a rule in words. */
export function ruleInWords(rule: Row<'listGroups'>['rules'][number]): string {
  const { commission_bp: bp, commission_fixed_cents: fixed } = rule
  const amount = (cents: number) => money(cents, rule.currency)
  const share = [bp > 0 || fixed === 0 ? `${bp / 100}%` : '', fixed > 0 ? amount(fixed) : ''].filter(Boolean)
  return [
    `${rule.product_id ?? rule.sale_type ?? 'every sale'}: ${share.join(' and ')}`,
    rule.commission_duration_months === null ? '' : `for ${rule.commission_duration_months} months`,
    rule.lifetime_cap_cents === null ? '' : `up to ${amount(rule.lifetime_cap_cents)} for a customer`,
    rule.lead_commission_cents === null ? '' : `with ${amount(rule.lead_commission_cents)} for a signup`,
  ]
    .filter(Boolean)
    .join(' ')
}

export type Partner = Row<'listPartners'>
export const codesOf = ({ links, has_more_links: more }: Partner) =>
  [...links.map(({ code }) => code), ...(more ? ['…'] : [])].join(', ')
export const balancesOf = ({ balances }: Partner) =>
  balances.map(({ balance_cents: cents, currency }) => money(cents, currency)).join(', ')

/** Creates a list with a method that adds the command `list`. */
const listOf = <Of>(list: List<Of>) => ({
  noun: list.noun,
  addTo(parent: Command, subcommand: Subcommand, print: Print) {
    const { noun } = list
    addListOptions(subcommand(parent, 'list', `List ${noun}, newest first.`), list)
      .addHelpText('after', `\nExamples:\n  $ svc ${noun} list --limit 50\n  $ svc ${noun} list --json`)
      .action(async (flags: ListFlags) => await printList(list, flags, print))
  },
})

const range = { from: 'first day or time', to: 'last day or time', 'updated-since': 'time of the last change' }

export const lists = [
  listOf<Row<'listPartners'>>({
    noun: 'partners',
    filters: {
      status: 'active, inactive or ended',
      email: 'address',
      'external-id': 'your id',
      'group-id': 'id of the group',
      search: 'text in name, address or code',
    },
    sorts: 'newest, oldest, name, clicks, sales or balance',
    columns: [
      ['ID', ({ id }) => id],
      ['NAME', ({ name }) => name],
      ['E-MAIL', ({ email }) => email],
      ['CODES', codesOf],
      ['STATUS', ({ status }) => status],
      ['SALES', ({ sales }) => sales],
      ['BALANCE', balancesOf],
    ],
  }),
  listOf<Row<'listGroups'>>({
    noun: 'groups',
    columns: [
      ['ID', ({ id }) => id],
      ['NAME', ({ name }) => name],
      ['PARTNERS', ({ partners }) => partners],
      ['RULES', ({ rules }) => rules.map(ruleInWords).join(', ')],
    ],
  }),
  listOf<Row<'listApplications'>>({
    noun: 'applications',
    filters: { status: 'unverified, waiting, approved or rejected', email: 'address' },
    columns: [
      ['ID', ({ id }) => id],
      ['APPLIED', ({ applied_at: at }) => day(at)],
      ['NAME', ({ name }) => name],
      ['E-MAIL', ({ email }) => email],
      ['STATUS', ({ status }) => status],
      ['PARTNER', ({ partner_id: partner }) => partner],
    ],
  }),
  listOf<Row<'listCodes'>>({
    noun: 'codes',
    filters: { 'partner-id': 'id of the partner', code: 'the code', status: 'active or revoked' },
    columns: [
      ['ID', ({ id }) => id],
      ['CODE', ({ code }) => code],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['STATUS', ({ status }) => status],
      ['STRIPE', ({ promotion_code_id: promotion }) => promotion],
    ],
  }),
  listOf<Row<'listLinks'>>({
    noun: 'links',
    filters: {
      status: 'active or inactive',
      'partner-id': 'id of the partner',
      'external-id': 'id of yours',
      search: 'text in code or page',
    },
    columns: [
      ['ID', ({ id }) => id],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['ADDRESS', ({ url }) => url],
      ['STATUS', ({ status }) => status],
      ['CLICKS', ({ clicks }) => clicks],
      ['LAST CLICK', ({ last_clicked_at: at }) => day(at)],
    ],
  }),
  listOf<Row<'listCustomers'>>({
    noun: 'customers',
    filters: {
      status: 'click, lead or conversion',
      'customer-key': 'id of the customer',
      'partner-id': 'id of the partner',
      ...range,
    },
    columns: [
      ['ID', ({ id }) => id],
      ['CUSTOMER', ({ customer_key: key }) => key],
      ['CLICK', ({ click_id: click }) => click],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['STATUS', ({ status }) => status],
      ['SIGNED UP', ({ signup_date: at }) => day(at)],
      ['BOUGHT', ({ first_purchase_date: at }) => day(at)],
    ],
  }),
  listOf<Row<'listSales'>>({
    noun: 'sales',
    filters: {
      'customer-key': 'id of the customer',
      'click-id': 'click id',
      'partner-id': 'id of the partner',
      test: 'true for test sales',
      ...range,
    },
    columns: [
      ['DATE', ({ sale_date: date }) => day(date)],
      ['TRANSACTION', ({ transaction_id: id }) => id],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['REFUNDED', ({ refunded_cents: cents, currency }) => (cents === 0 ? '' : money(cents, currency))],
      ['COMMISSION', ({ commission, currency }) => commission && money(commission.amount_cents, currency)],
      ['STATUS', ({ commission }) => commission && commission.status],
    ],
  }),
  listOf<Row<'listCommissions'>>({
    noun: 'commissions',
    filters: {
      status: 'pending, approved, paid, refunded or reversed',
      'partner-id': 'id of the partner',
      'transaction-id': 'the sale',
      ...range,
    },
    sorts: 'newest, oldest, amount or hold',
    columns: [
      ['ID', ({ id }) => id],
      ['CREATED', ({ created_at: at }) => day(at)],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['TRANSACTION', ({ transaction_id: id, kind }) => id ?? kind],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['REVERSED', ({ reversed_cents: cents, currency }) => (cents === 0 ? '' : money(cents, currency))],
      ['STATUS', ({ status }) => status],
    ],
  }),
  listOf<Row<'listReviews'>>({
    noun: 'reviews',
    filters: { state: 'waiting or decided', 'partner-id': 'id of the partner' },
    columns: [
      ['COMMISSION', ({ commission_id: id }) => id],
      ['HELD', ({ flagged_at: at }) => day(at)],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['TRANSACTION', ({ transaction_id: id, kind }) => id ?? kind],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['FOUND', ({ flags }) => flags.map(({ rule }) => rule).join(', ')],
      ['DECISION', ({ decision }) => decision],
    ],
  }),
  listOf<Row<'listAdjustments'>>({
    noun: 'adjustments',
    filters: { 'partner-id': 'id of the partner', 'external-id': 'id of yours' },
    columns: [
      ['ID', ({ id }) => id],
      ['CREATED', ({ created_at: at }) => day(at)],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['SALE', ({ transaction_id: id }) => id],
      ['PAID', ({ paid_at: at }) => day(at)],
      ['NOTE', ({ note }) => note],
    ],
  }),
  listOf<Row<'listPayouts'>>({
    noun: 'payouts',
    filters: {
      status: 'requested, in_run, sent, unclaimed, paid, returned, failed, refused or canceled',
      'partner-id': 'id of the partner',
      'payout-run-id': 'id of the run',
      ...range,
    },
    sorts: 'newest, oldest or amount',
    columns: [
      ['ID', ({ id }) => id],
      ['CREATED', ({ created_at: at }) => day(at)],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['TO', ({ payout_address: address }) => address],
      ['RUN', ({ payout_run_id: run }) => run],
      ['STATUS', ({ status }) => status],
      ['PAID', ({ paid_on: paid }) => paid],
    ],
  }),
  listOf<Row<'listWebhookEndpoints'>>({
    noun: 'webhooks',
    path: 'webhook-endpoints',
    columns: [
      ['ID', ({ id }) => id],
      ['ADDRESS', ({ url }) => url ?? 'svc listen'],
      ['TYPES', ({ types }) => (webhookTypes.every((type) => types.includes(type)) ? 'all' : types.join(', '))],
      ['STATUS', ({ status }) => status],
      ['FAILING SINCE', ({ failing_since: at }) => at],
      ['NOTE', ({ description }) => description],
    ],
  }),
]

interface Page<Of> {
  data: Of[]
  next_cursor: string | null
}

/** Reads up to `limit` rows of a list, page by page. */
async function readList<Of>(
  connection: Connection,
  path: string,
  filters: Record<string, string>,
  limit: number,
  cursor?: string,
): Promise<Page<Of>> {
  const page: Page<Of> = { data: [], next_cursor: cursor ?? null }
  do {
    const search = new URLSearchParams({
      ...filters,
      limit: String(Math.min(limit - page.data.length, 100)),
      ...(page.next_cursor && { cursor: page.next_cursor }),
    })
    const next = await request<Page<Of>>(connection, `/api/v1/${path}?${search}`)
    page.data.push(...next.data)
    page.next_cursor = next.next_cursor
  } while (page.next_cursor !== null && page.data.length < limit)
  return page
}

export const tableOf = <Of>(columns: Column<Of>[], rows: Of[]) =>
  table(
    columns.map(([title]) => title),
    rows.map((row) => columns.map(([, cell]) => plain(cell(row)))),
  )

/** The option values of `addListOptions`. */
export type ListFlags = Flags & { limit: number; cursor?: string }

/** Adds the options of a list: limit, cursor, filters and order. */
export function addListOptions(command: Command, { filters = {}, sorts }: Pick<List<never>, 'filters' | 'sorts'>) {
  command
    .option('--limit <number>', 'Maximum number of rows.', wholeNumber, 25)
    .option('--cursor <cursor>', 'Continue after the `next_cursor` of an earlier response.')
  for (const [option, what] of Object.entries(filters)) command.option(`--${option} <${option}>`, `Filter: ${what}.`)
  if (sorts) command.option('--sort <sort>', `Sort order: ${sorts}.`)
  return command
}

/** Prints a list as a table, with the options for the next page if there is one. */
export async function printList<Of>(list: List<Of>, flags: ListFlags, print: Print): Promise<void> {
  const { noun, path = noun, filters = {}, columns } = list
  const wanted = optionValues(flags, [...Object.keys(filters), 'sort'])
  const page = await readList<Of>(connect(flags), path, wanted, flags.limit, flags.cursor)
  const text = page.data.length === 0 ? `No ${noun}.` : tableOf(columns, page.data)
  const more =
    page.next_cursor && `\n${style('dim', `More: --limit ${flags.limit * 2}, or --cursor ${page.next_cursor}`)}`
  print(flags, page, text + (more ?? ''))
}
