import { styleText } from 'node:util'
import { type Command, InvalidArgumentError } from 'commander'
import { type Connection, connect, type ConnectionFlags, request } from './service.ts'
import type { ApiOperations } from '../api-types.ts'
import { webhookTypes } from '../webhook-types.ts'

export type Row<Id extends keyof ApiOperations> = ApiOperations[Id]['answer'] extends { data: (infer Of)[] }
  ? Of
  : never
type Column<Of> = [title: string, cell: (row: Of) => string | number | null]

interface List<Of> {
  noun: string
  path: string
  /** Filters of the list, by their option. */
  filters: Record<string, string>
  /** Its orders, where it has several. */
  sorts?: string
  columns: Column<Of>[]
}

/** The amount in the currency's own unit, with its code. */
export function money(cents: number, currency: string): string {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency, currencyDisplay: 'code' })
  return format.format(cents / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2))
}

/** A rule in words. */
export function ruleInWords(rule: Row<'listGroups'>['rules'][number]): string {
  const { commission_bp: bp, commission_fixed_cents: fixed } = rule
  const amount = (cents: number) => money(cents, rule.currency)
  const share = [bp > 0 || fixed === 0 ? `${bp / 100} %` : '', fixed > 0 ? amount(fixed) : ''].filter(Boolean)
  return [
    `${rule.product_id ?? rule.sale_type ?? 'every sale'}: ${share.join(' and ')}`,
    rule.commission_duration_months === null ? '' : `for ${rule.commission_duration_months} months`,
    rule.lifetime_cap_cents === null ? '' : `up to ${amount(rule.lifetime_cap_cents)} for a customer`,
    rule.lead_commission_cents === null ? '' : `with ${amount(rule.lead_commission_cents)} for a signup`,
  ]
    .filter(Boolean)
    .join(' ')
}

type Partner = Row<'listPartners'>
const codesOf = ({ links, has_more_links: more }: Partner) =>
  [...links.map(({ code }) => code), ...(more ? ['…'] : [])].join(', ')
const balancesOf = ({ balances }: Partner) =>
  balances.map(({ balance_cents: cents, currency }) => money(cents, currency)).join(', ')

const fieldsOfPartner = (partner: Partner): Fields => [
  ['id', partner.id],
  ['name', partner.name],
  ['e-mail', partner.email],
  ['status', partner.status],
  ['signs in', partner.has_account ? 'yes' : 'no'],
  ['group', partner.group_id],
  ['your id', partner.external_id],
  ['codes', codesOf(partner)],
  ['sales', partner.sales],
  ['balance', balancesOf(partner)],
  ['since', day(partner.created_at)],
  ...Object.entries(partner.metadata),
]

const fieldsOfLink = (link: Row<'listLinks'>): Fields => [
  ['id', link.id],
  ['partner', link.partner_id],
  ['code', link.code],
  ['address', link.url],
  ['status', link.status],
  ['your id', link.external_id],
  ['clicks', link.clicks],
  ['of bots', link.bot_clicks],
  ['last click', link.last_clicked_at],
  ['since', day(link.created_at)],
  ...Object.entries(link.metadata),
]

const day = (time: string | null) => time && time.slice(0, 10)
const kinds = <Of>(list: List<Of>) => list

const lists = [
  kinds<Row<'listPartners'>>({
    noun: 'partners',
    path: 'partners',
    filters: {
      status: 'active, inactive or ended',
      email: 'address',
      'external-id': 'id of yours',
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
  kinds<Row<'listGroups'>>({
    noun: 'groups',
    path: 'groups',
    filters: {},
    columns: [
      ['ID', ({ id }) => id],
      ['NAME', ({ name }) => name],
      ['PARTNERS', ({ partners }) => partners],
      ['RULES', ({ rules }) => rules.map(ruleInWords).join(', ')],
    ],
  }),
  kinds<Row<'listApplications'>>({
    noun: 'applications',
    path: 'applications',
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
  kinds<Row<'listCodes'>>({
    noun: 'codes',
    path: 'codes',
    filters: { 'partner-id': "a partner's id", code: 'a code', status: 'active or revoked' },
    columns: [
      ['ID', ({ id }) => id],
      ['CODE', ({ code }) => code],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['STATUS', ({ status }) => status],
      ['STRIPE', ({ promotion_code_id: promotion }) => promotion],
    ],
  }),
  kinds<Row<'listLinks'>>({
    noun: 'links',
    path: 'links',
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
  kinds<Row<'listSales'>>({
    noun: 'sales',
    path: 'sales',
    filters: { 'customer-key': 'id of the customer', 'click-id': 'click id', test: 'true for test sales' },
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
  kinds<Row<'listCommissions'>>({
    noun: 'commissions',
    path: 'commissions',
    filters: {
      status: 'pending, approved, paid, refunded or reversed',
      'partner-id': 'id of the partner',
      'transaction-id': 'the sale',
    },
    sorts: 'newest, oldest, amount or hold',
    columns: [
      ['ID', ({ id }) => id],
      ['MADE', ({ created_at: at }) => day(at)],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['TRANSACTION', ({ transaction_id: id, kind }) => id ?? kind],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['REVERSED', ({ reversed_cents: cents, currency }) => (cents === 0 ? '' : money(cents, currency))],
      ['STATUS', ({ status }) => status],
    ],
  }),
  kinds<Row<'listReviews'>>({
    noun: 'reviews',
    path: 'reviews',
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
  kinds<Row<'listAdjustments'>>({
    noun: 'adjustments',
    path: 'adjustments',
    filters: { 'partner-id': 'id of the partner', 'external-id': 'id of yours' },
    columns: [
      ['ID', ({ id }) => id],
      ['MADE', ({ created_at: at }) => day(at)],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['SALE', ({ transaction_id: id }) => id],
      ['PAID', ({ paid_at: at }) => day(at)],
      ['NOTE', ({ note }) => note],
    ],
  }),
  kinds<Row<'listPayouts'>>({
    noun: 'payouts',
    path: 'payouts',
    filters: {
      status: 'requested, paid, refused or cancelled',
      'partner-id': 'id of the partner',
      'payout-run-id': 'id of the run',
    },
    sorts: 'newest, oldest or amount',
    columns: [
      ['ID', ({ id }) => id],
      ['MADE', ({ created_at: at }) => day(at)],
      ['PARTNER', ({ partner_id: partner }) => partner],
      ['AMOUNT', ({ amount_cents: cents, currency }) => money(cents, currency)],
      ['TO', ({ payout_address: address }) => address],
      ['RUN', ({ payout_run_id: run }) => run],
      ['STATUS', ({ status }) => status],
      ['PAID', ({ paid_on: paid }) => paid],
    ],
  }),
  kinds<Row<'listWebhookEndpoints'>>({
    noun: 'webhooks',
    path: 'webhook-endpoints',
    filters: {},
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

const tones = {
  active: 'green',
  approved: 'green',
  paid: 'green',
  delivered: 'green',
  pending: 'yellow',
  waiting: 'yellow',
  unverified: 'dim',
  rejected: 'red',
  requested: 'yellow',
  inactive: 'dim',
  ended: 'dim',
  cancelled: 'dim',
  reversed: 'red',
  refunded: 'red',
  refused: 'red',
  failed: 'red',
} as const satisfies Record<string, Parameters<typeof styleText>[0]>
const isTone = (text: string): text is keyof typeof tones => Object.hasOwn(tones, text)

const style = (tone: Parameters<typeof styleText>[0], text: string) => styleText(tone, text, { stream: process.stdout })
export const green = (text: string) => style('green', text)
export const red = (text: string) => style('red', text)
/** What others typed goes to a terminal without what would move its cursor or colour it. */
export const plain = (value: string | number | null) => String(value ?? '').replaceAll(/\p{Cc}|\p{Cf}/gu, '')

/** Rows as a table: as wide as its cells, states in their colour where there are colours. */
export function table(titles: string[], rows: string[][]): string {
  const widths = titles.map((title, index) => Math.max(title.length, ...rows.map((row) => row[index]?.length ?? 0)))
  const line = (cells: string[], tone: (cell: string) => string) =>
    cells
      .map((cell, index) => tone(cell) + ' '.repeat((widths[index] ?? 0) - cell.length))
      .join('  ')
      .trimEnd()
  return [
    line(titles, (title) => style('dim', title)),
    ...rows.map((row) => line(row, (cell) => (isTone(cell) ? style(tones[cell], cell) : cell))),
  ].join('\n')
}

type Fields = [name: string, value: string | number | null][]

/** One thing, a line for each field that it has. */
function inLines(fields: Fields): string {
  const there = fields.filter(([, value]) => value !== null && value !== '')
  const width = Math.max(...there.map(([name]) => name.length))
  return there.map(([name, value]) => `${style('dim', plain(name).padEnd(width))}  ${plain(value)}`).join('\n')
}

interface Page<Of> {
  data: Of[]
  next_cursor: string | null
}

/** Up to `limit` rows of a list, page after page. */
export async function readList<Of>(
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

export function wholeNumber(text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number <= 0) throw new InvalidArgumentError('It is a positive whole number.')
  return number
}

const eachWholeNumber = (text: string, before: number[] = []) => [...before, wholeNumber(text)]

/** A percentage as hundredths of a percent. */
function hundredths(text: string): number {
  const number = Math.round(Number(text) * 100)
  if (!/^\d{1,3}(\.\d{1,2})?$/.test(text) || number > 10_000)
    throw new InvalidArgumentError('It is a percentage from 0 to 100 with two decimals at most.')
  return number
}

export type Flags = ConnectionFlags & Record<string, unknown>
export type Print = (flags: ConnectionFlags, data: object, text: string) => void
export type Subcommand = (parent: Command, name: string, description: string) => Command

const camel = (option: string) => option.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
export const given = (flags: Flags, options: string[]) =>
  Object.fromEntries(
    options.flatMap((option) => {
      const value = flags[camel(option)]
      return typeof value === 'string' ? [[option.replaceAll('-', '_'), value]] : []
    }),
  )

function addList<Of>(parent: Command, list: List<Of>, subcommand: Subcommand, print: Print): void {
  const { noun, path, filters, sorts, columns } = list
  const command = subcommand(parent, 'list', `List ${noun}, the newest first.`)
    .option('--limit <number>', 'How many at most.', wholeNumber, 25)
    .option('--cursor <cursor>', 'Begin after the `next_cursor` of an earlier answer.')
  for (const [option, what] of Object.entries(filters))
    command.option(`--${option} <${option}>`, `Only with this: ${what}.`)
  if (sorts) command.option('--sort <sort>', `In this order: ${sorts}.`)
  command
    .addHelpText('after', `\nExamples:\n  $ svc ${noun} list --limit 50\n  $ svc ${noun} list --json`)
    .action(async (flags: Flags & { limit: number; cursor?: string }) => {
      const wanted = given(flags, [...Object.keys(filters), 'sort'])
      const page = await readList<Of>(connect(flags), path, wanted, flags.limit, flags.cursor)
      const rows = page.data.map((row) => columns.map(([, cell]) => plain(cell(row))))
      const text =
        rows.length === 0
          ? `No ${noun}.`
          : table(
              columns.map(([title]) => title),
              rows,
            )
      const more =
        page.next_cursor && `\n${style('dim', `More: --limit ${flags.limit * 2}, or --cursor ${page.next_cursor}`)}`
      print(flags, page, text + (more ?? ''))
    })
}

/** The commands that read and change a program: `svc partners list`, `svc links create`. */
export function addResources(svc: Command, subcommand: Subcommand, print: Print): Map<string, Command> {
  const nouns = new Map<string, Command>()
  for (const list of lists) {
    const noun = svc
      .command(list.noun)
      .description(`The program's ${list.noun}. The key needs the scope read, and manage to change them.`)
      .helpOption('-h, --help', 'Show this help.')
    nouns.set(list.noun, noun)
    // oxlint-disable-next-line no-unsafe-type-assertion -- each list's columns are of its own rows
    addList(noun, list as List<unknown>, subcommand, print)
  }
  const [partners, groups, codes, links] = ['partners', 'groups', 'codes', 'links'].map((noun) => nouns.get(noun))
  const applications = nouns.get('applications')
  if (!partners || !groups || !codes || !links || !applications)
    throw new Error('partners, groups, codes, links or applications are missing')
  addDecisions(applications, subcommand, print)

  const sales = nouns.get('sales')
  if (!sales) throw new Error('sales are missing')
  subcommand(sales, 'explain', 'Say why a sale has its partner and its commission, or why a payment has none.')
    .argument('<transaction_id>', 'Of the sale, or an id that Stripe has for the payment or its event.')
    .option('--test', 'A test sale.')
    .addHelpText('after', '\nExamples:\n  $ svc sales explain order-1001\n  $ svc sales explain evt_1Q2w3e --json')
    .action(async (id: string, flags: Flags) => {
      const path = `/api/v1/sales/${encodeURIComponent(id)}/explanation${flags['test'] === true ? '?test=true' : ''}`
      const answer = await request<ApiOperations['explainSale']['answer']>(connect(flags), path)
      print(flags, answer, explained(answer))
    })

  subcommand(partners, 'create', 'Add a partner with a link. Nobody is mailed.')
    .requiredOption('--name <name>', 'What the program calls them.')
    .option('--email <address>', 'Their address.')
    .option('--code <code>', 'Part of their link, as aff. Without it one is generated.')
    .option('--external-id <id>', 'An id of yours.')
    .option('--idempotency-key <key>', 'Running the command again creates nothing twice.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc partners create --name "Nora Field" --code nora --email nora@example.com',
    )
    .action(async (flags: Flags) => {
      const body = given(flags, ['name', 'email', 'code', 'external-id'])
      const made = await create<ApiOperations['createPartner']['answer']>(flags, 'partners', body)
      const { id, name, links: own } = made.partner
      print(flags, made, `${green('✓')} Partner ${id}, ${plain(name)}, code ${own.map(({ code }) => code).join(', ')}`)
    })

  subcommand(groups, 'create', 'Add a group of partners with what they earn.')
    .requiredOption('--name <name>', 'What the program calls it.')
    .option('--percent <number>', 'Of each sale, with two decimals at most.', hundredths, 0)
    .option('--fixed-cents <amount>', "For each sale, in the smallest unit of the program's currency.", wholeNumber)
    .option('--cap-cents <amount>', 'What all sales of one customer may bring.', wholeNumber)
    .option('--months <number>', "How long after a customer's first purchase.", wholeNumber)
    .option('--lead-cents <amount>', 'For each lead.', wholeNumber)
    .option('--idempotency-key <key>', 'Makes nothing twice where the command is run again.')
    .addHelpText('after', '\nExamples:\n  $ svc groups create --name Gold --percent 30 --months 12')
    .action(
      async (
        flags: Flags & {
          percent: number
          fixedCents?: number
          capCents?: number
          months?: number
          leadCents?: number
        },
      ) => {
        const rule = {
          commission_bp: flags.percent,
          commission_fixed_cents: flags.fixedCents,
          lifetime_cap_cents: flags.capCents,
          commission_duration_months: flags.months,
          lead_commission_cents: flags.leadCents,
        }
        const body = { name: flags['name'], rules: [rule] }
        const made = await create<ApiOperations['createGroup']['answer']>(flags, 'groups', body)
        print(flags, made, `${green('✓')} Group ${made.group.id}, ${plain(made.group.name)}`)
      },
    )

  subcommand(groups, 'move', 'Move partners to a group, up to 100 at once.')
    .argument('<group_id>', 'Id of the group.', wholeNumber)
    .argument('<partner_ids...>', 'Ids of the partners.')
    .addHelpText('after', '\nExamples:\n  $ svc groups move 3 12 15 16')
    .action(async (id: number, partnerIds: string[], flags: Flags) => {
      const body = { partner_ids: partnerIds.map(wholeNumber) }
      const moved = await create<ApiOperations['movePartners']['answer']>(flags, `groups/${id}/partners`, body)
      print(flags, moved, `${green('✓')} ${moved.partners} of ${partnerIds.length} are in group ${id}`)
    })

  subcommand(groups, 'delete', 'Remove a group. Its partners earn by the terms of the program from now on.')
    .argument('<group_id>', 'Id of the group.', wholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc groups delete 3')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<ApiOperations['deleteGroup']['answer']>(connect(flags), `/api/v1/groups/${id}`, {
        method: 'DELETE',
      })
      print(flags, answer, `${green('✓')} Group ${id} is removed.`)
    })

  subcommand(codes, 'create', 'Give a partner a code; a sale that names it is theirs.')
    .requiredOption('--partner-id <id>', 'Whose code it is.', wholeNumber)
    .option('--code <code>', '1 to 64 characters without spaces.')
    .option('--stripe-promotion-code <id>', 'An existing promotion code of Stripe, in place of --code.')
    .option('--stripe-coupon <id>', 'Create a promotion code of this coupon of Stripe.')
    .option(
      '--percent-off <number>',
      'Create a coupon and a promotion code of Stripe that take so much off.',
      hundredths,
    )
    .option('--duration <duration>', 'Of that coupon: once, forever, or a number of months.', 'once')
    .option('--idempotency-key <key>', 'Running the command again creates nothing twice.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc codes create --partner-id 2 --code JANE20\n  $ svc codes create --partner-id 2 --code JANE20 --percent-off 20',
    )
    .action(
      async (
        flags: Flags & {
          partnerId: number
          stripePromotionCode?: string
          stripeCoupon?: string
          percentOff?: number
          duration: string
        },
      ) => {
        const { stripePromotionCode: promotion, stripeCoupon: coupon, percentOff: percent, duration } = flags
        const months = Number(duration)
        const stripe = promotion
          ? { promotion_code_id: promotion }
          : coupon
            ? { coupon_id: coupon }
            : percent !== undefined && {
                percent_off: percent / 100,
                ...(months > 0 ? { duration: 'repeating', duration_in_months: months } : { duration }),
              }
        const body = { ...given(flags, ['code']), partner_id: flags.partnerId, ...(stripe && { stripe }) }
        const made = await create<ApiOperations['createCode']['answer']>(flags, 'codes', body)
        print(flags, made, `${green('✓')} Code ${made.code.id}, ${plain(made.code.code)}`)
      },
    )

  subcommand(codes, 'revoke', 'End a code. What it attributed stays its partner’s.')
    .argument('<id>', 'Of the code.', wholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc codes revoke 7')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<ApiOperations['revokeCode']['answer']>(connect(flags), `/api/v1/codes/${id}`, {
        method: 'DELETE',
      })
      print(flags, answer, `${green('✓')} Code ${plain(answer.code.code)} is revoked.`)
    })

  subcommand(links, 'create', 'Add a link to a partner.')
    .requiredOption('--partner-id <id>', 'Whose link it is.', wholeNumber)
    .option('--code <code>', 'Part of the link, as aff. Without it one is generated.')
    .option('--page-url <address>', "The page it opens, on the program's domain.")
    .option('--external-id <id>', 'An id of yours.')
    .option('--idempotency-key <key>', 'Running the command again creates nothing twice.')
    .addHelpText('after', '\nExamples:\n  $ svc links create --partner-id 2 --code nora-spring')
    .action(async (flags: Flags & { partnerId: number }) => {
      const body = { ...given(flags, ['code', 'page-url', 'external-id']), partner_id: flags.partnerId }
      const made = await create<ApiOperations['createLink']['answer']>(flags, 'links', body)
      print(flags, made, `${green('✓')} Link ${made.link.id}: ${made.link.url}`)
    })

  const show = (
    noun: string,
    parent: Command,
    read: (connection: Connection, path: string) => Promise<[answer: object, fields: Fields]>,
  ) =>
    subcommand(parent, 'show', `Show one of the ${noun}.`)
      .argument('<id>', 'Its id.', wholeNumber)
      .addHelpText('after', `\nExamples:\n  $ svc ${noun} show 2\n  $ svc ${noun} show 2 --json`)
      .action(async (id: number, flags: Flags) => {
        const [answer, fields] = await read(connect(flags), `/api/v1/${noun}/${id}`)
        print(flags, answer, inLines(fields))
      })
  show('partners', partners, async (connection, path) => {
    const answer = await request<ApiOperations['getPartner']['answer']>(connection, path)
    return [answer, fieldsOfPartner(answer.partner)]
  })
  show('links', links, async (connection, path) => {
    const answer = await request<ApiOperations['getLink']['answer']>(connection, path)
    return [answer, fieldsOfLink(answer.link)]
  })

  const [adjustments, commissions] = [nouns.get('adjustments'), nouns.get('commissions')]
  if (!adjustments || !commissions) throw new Error('adjustments or commissions are missing')
  subcommand(adjustments, 'create', "Add to a partner's balance by hand, or deduct from it with --deduct.")
    .requiredOption('--partner-id <id>', 'Whose balance.', wholeNumber)
    .requiredOption('--amount-cents <amount>', 'How much, in the smallest unit of the currency.', wholeNumber)
    .requiredOption('--note <text>', 'Why. The partner reads it.')
    .option('--deduct', 'Take the amount instead.')
    .option('--currency <code>', "Without it the program's own.")
    .option('--transaction-id <id>', 'The sale that it is about.')
    .option('--external-id <id>', 'An id of yours: one that was used before is refused.')
    .option('--idempotency-key <key>', 'Makes nothing twice where the command is run again.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc adjustments create --partner-id 2 --amount-cents 5000 --note "Bonus for May"\n  $ svc adjustments create --partner-id 2 --amount-cents 1200 --deduct --note "Paid twice in April"',
    )
    .action(async (flags: Flags & { partnerId: number; amountCents: number }) => {
      const body = {
        ...given(flags, ['note', 'currency', 'transaction-id', 'external-id']),
        partner_id: flags.partnerId,
        amount_cents: flags['deduct'] === true ? -flags.amountCents : flags.amountCents,
      }
      const made = await create<ApiOperations['createAdjustment']['answer']>(flags, 'adjustments', body)
      const { id, partner_id: partner, amount_cents: cents, currency } = made.adjustment
      const text = cents < 0 ? `deducted from partner ${partner}` : `added to the balance of partner ${partner}`
      print(flags, made, `${green('✓')} Adjustment ${id}: ${money(Math.abs(cents), currency)} ${text}`)
    })

  const decide = async (flags: Flags, ids: number[], body: object, word: string) => {
    const input = { body: { ids, ...body }, method: 'PATCH' }
    const answer = await request<ApiOperations['decideCommissions']['answer']>(
      connect(flags),
      '/api/v1/commissions',
      input,
    )
    const left = ids.length - answer.changed
    const rest = left === 0 ? '' : `; ${left} had been decided or reversed already, or are not the program's`
    print(flags, answer, `${green('✓')} ${answer.changed} ${word}${rest}`)
  }
  const reviews = nouns.get('reviews')
  if (!reviews) throw new Error('reviews are missing')
  for (const [verb, decision, what] of [
    ['release', 'released', 'Release held commissions, to be credited when their hold ends.'],
    ['reject', 'rejected', 'Reject held commissions permanently.'],
  ] as const) {
    subcommand(reviews, verb, what)
      .argument('<id...>', 'Ids of commissions, 100 at most.', eachWholeNumber)
      .requiredOption('--note <text>', 'Why. It is kept; the partner reads that of a rejection.')
      .addHelpText('after', `\nExamples:\n  $ svc reviews ${verb} 12 13 --note "Looked at the orders"`)
      .action(async (ids: number[], flags: Flags) => {
        const body = { commission_ids: ids, decision, note: flags['note'] }
        const input = { body, method: 'PATCH' }
        const answer = await request<ApiOperations['decideReviews']['answer']>(connect(flags), '/api/v1/reviews', input)
        const left = ids.length - answer.changed
        print(flags, answer, `${green('✓')} ${answer.changed} ${decision}${left === 0 ? '' : `; ${left} are not held`}`)
      })
  }
  subcommand(commissions, 'approve', 'Credit commissions before their hold ends.')
    .argument('<id...>', 'Ids of commissions, 100 at most.', eachWholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc commissions approve 12 13 14')
    .action((ids: number[], flags: Flags) => decide(flags, ids, { status: 'approved' }, 'approved'))
  subcommand(commissions, 'reject', 'Reject commissions permanently.')
    .argument('<id...>', 'Ids of commissions, 100 at most.', eachWholeNumber)
    .requiredOption('--reason <text>', 'Why. The partners read it.')
    .addHelpText('after', '\nExamples:\n  $ svc commissions reject 12 13 --reason "Orders were never shipped"')
    .action((ids: number[], flags: Flags) =>
      decide(flags, ids, { status: 'rejected', reason: flags['reason'] }, 'rejected'),
    )
  return nouns
}

/** `svc applications show`, `approve`, `reject` and `delete`. */
function addDecisions(applications: Command, subcommand: Subcommand, print: Print): void {
  type Answer = ApiOperations['getApplication']['answer']
  const named = (parent: Command) => parent.argument('<id>', 'Of the application.', wholeNumber)
  named(subcommand(applications, 'show', 'Show an application with its answers.'))
    .addHelpText('after', '\nExamples:\n  $ svc applications show 7')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<Answer>(connect(flags), `/api/v1/applications/${id}`)
      const { name, email, status, applied_at: at, answers, terms_version: terms } = answer.application
      const lines = [
        `${plain(name)}, ${plain(email)}: ${status}, applied ${day(at)}${terms === null ? '' : `, accepted version ${terms} of the terms`}`,
        ...answers.map(({ question, answer: said }) => `\n${style('bold', plain(question))}\n${plain(said)}`),
      ]
      print(flags, answer, lines.join('\n'))
    })
  const decide = async (id: number, flags: Flags, body: object) => {
    const answer = await request<Answer>(connect(flags), `/api/v1/applications/${id}`, { method: 'PATCH', body })
    const { name, status, partner_id: partner } = answer.application
    const became = partner === null ? '' : `, partner ${partner}`
    print(flags, answer, `${green('✓')} Application ${id} of ${plain(name)} is ${status}${became}`)
  }
  named(subcommand(applications, 'approve', 'Approve an application: the person is a partner and is mailed.'))
    .option('--group-id <id>', 'The group that they come into.', wholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc applications approve 7 --group-id 2')
    .action((id: number, flags: Flags & { groupId?: number }) =>
      decide(id, flags, { status: 'approved', group_id: flags.groupId }),
    )
  named(subcommand(applications, 'reject', 'Reject an application. Nobody is mailed, unless you say so.'))
    .option('--note <text>', 'Why, for yourself.')
    .option('--notify', 'Mail the person.')
    .addHelpText('after', '\nExamples:\n  $ svc applications reject 7 --note "A site of coupons" --notify')
    .action((id: number, flags: Flags & { notify?: boolean }) =>
      decide(id, flags, { status: 'rejected', ...given(flags, ['note']), notify: flags.notify }),
    )
  named(subcommand(applications, 'delete', 'Delete an application that was rejected or never confirmed.'))
    .addHelpText('after', '\nExamples:\n  $ svc applications delete 7')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<ApiOperations['deleteApplication']['answer']>(
        connect(flags),
        `/api/v1/applications/${id}`,
        { method: 'DELETE' },
      )
      print(flags, answer, `${green('✓')} Application ${id} is deleted.`)
    })
}

const part = (title: string, rows: string[][], titles: string[]) =>
  rows.length === 0 ? [] : ['', style('bold', title), table(titles, rows)]

/** Why a sale has its partner, in lines. */
function explained({ explanation }: ApiOperations['explainSale']['answer']): string {
  const { summary, steps, click, history, sale, deliveries } = explanation
  const signed = (cents: number) =>
    cents === 0 || !sale ? '' : `${cents > 0 ? '+' : ''}${money(cents, sale.currency)}`
  return [
    plain(summary),
    ...part(
      'Tried',
      steps.map(({ step, found, text }) => [step, found, text].map(plain)),
      ['STEP', 'FOUND', 'MEANS'],
    ),
    ...(click ? ['', plain(click.text)] : []),
    ...part(
      'After it',
      history.map(({ at, kind, text, change_cents: change }) => [plain(day(at)), kind, signed(change), plain(text)]),
      ['DATE', 'WHAT', 'COMMISSION', 'IN WORDS'],
    ),
    ...part(
      'Stripe events',
      deliveries.map(({ received_at: at, event_type: type, outcome, reason }) =>
        [at, type, outcome, reason].map(plain),
      ),
      ['RECEIVED', 'EVENT', 'OUTCOME', 'WHY'],
    ),
  ].join('\n')
}

export async function create<Answer>(flags: Flags, path: string, body: object): Promise<Answer> {
  const key = typeof flags['idempotencyKey'] === 'string' ? flags['idempotencyKey'] : crypto.randomUUID()
  return await request<Answer>(connect(flags), `/api/v1/${path}`, { body, headers: { 'idempotency-key': key } })
}
