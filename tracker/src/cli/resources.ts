import type { Command } from 'commander'
import type { ApiOperations } from '../api-types.ts'
import { decideApplications, decideCommissions, decidePayouts, decideReviews } from './decisions.ts'
import {
  create,
  type Flags,
  optionValues,
  hundredths,
  type Print,
  signedNumber,
  type Subcommand,
  wholeNumber,
} from './flags.ts'
import { balancesOf, codesOf, lists, type Partner, type Row } from './lists.ts'
import { explained } from './sale-explanation.ts'
import { type Connection, connect, request } from './service.ts'
import { day, type Fields, green, inLines, money, plain } from './text.ts'

const fieldsOfPartner = (partner: Partner): Fields => [
  ['id', partner.id],
  ['name', partner.name],
  ['e-mail', partner.email],
  ['status', partner.status],
  ['has an account', partner.has_account ? 'yes' : 'no'],
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
  ['bot clicks', link.bot_clicks],
  ['last click', link.last_clicked_at],
  ['since', day(link.created_at)],
  ...Object.entries(link.metadata),
]

/** The commands that read and change a program: `svc partners list`, `svc links create`. */
export function addResources(svc: Command, subcommand: Subcommand, print: Print): Map<string, Command> {
  const nouns = new Map<string, Command>()
  for (const list of lists) {
    const noun = svc
      .command(list.noun)
      .description(`The program's ${list.noun}. The key needs the scope read, and also manage for changes.`)
      .helpOption('-h, --help', 'Show this help.')
    nouns.set(list.noun, noun)
    list.addTo(noun, subcommand, print)
  }
  const of = (noun: string) => {
    const command = nouns.get(noun)
    if (!command) throw new Error(`There is no list of ${noun}.`)
    return command
  }
  const [partners, groups, codes, links] = [of('partners'), of('groups'), of('codes'), of('links')]
  decideApplications(of('applications'), subcommand, print)
  decideCommissions(of('commissions'), subcommand, print)
  decidePayouts(of('payouts'), subcommand, print)
  decideReviews(of('reviews'), subcommand, print)

  subcommand(
    of('sales'),
    'explain',
    'Explain why a sale has its partner and its commission, or why a payment has none.',
  )
    .argument('<transaction_id>', 'Id of the sale, or a Stripe id of the payment or its event.')
    .option('--test', 'The sale is a test sale.')
    .addHelpText('after', '\nExamples:\n  $ svc sales explain order-1001\n  $ svc sales explain evt_1Q2w3e --json')
    .action(async (id: string, flags: Flags) => {
      const path = `/api/v1/sales/${encodeURIComponent(id)}/explanation${flags['test'] === true ? '?test=true' : ''}`
      const answer = await request<ApiOperations['explainSale']['answer']>(connect(flags), path)
      print(flags, answer, explained(answer))
    })

  subcommand(partners, 'create', 'Add a partner with a link. Sends no e-mail.')
    .requiredOption('--name <name>', 'Name of the partner.')
    .option('--email <address>', 'Their address.')
    .option('--code <code>', 'The code in their link, after aff=. Generated if omitted.')
    .option('--external-id <id>', 'Your own id.')
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc partners create --name "Nora Field" --code nora --email nora@example.com',
    )
    .action(async (flags: Flags) => {
      const body = optionValues(flags, ['name', 'email', 'code', 'external-id'])
      const created = await create<ApiOperations['createPartner']['answer']>(flags, 'partners', body)
      const { id, name, links: own } = created.partner
      print(
        flags,
        created,
        `${green('✓')} Partner ${id}, ${plain(name)}, code ${own.map(({ code }) => code).join(', ')}`,
      )
    })

  const update = async (id: number, flags: Flags, noun: string, options: string[], more = {}) => {
    const changes = { ...optionValues(flags, options), ...more }
    const body = Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, value === '' ? null : value]))
    const answer = await request<object>(connect(flags), `/api/v1/${noun}/${id}`, { method: 'PATCH', body })
    print(flags, answer, `${green('✓')} ${noun === 'partners' ? 'Partner' : 'Link'} ${id} was changed.`)
  }
  const unset = 'Empty text removes a value.'

  subcommand(partners, 'update', `Change a partner. ${unset}`)
    .argument('<id>', 'Id of the partner.', wholeNumber)
    .option('--name <name>', 'Name, if the partner has no account.')
    .option('--email <address>', 'E-mail address, if the partner has no account.')
    .option('--status <status>', 'active or inactive, for the partner and all their links.')
    .option('--external-id <id>', 'Your own id.')
    .option('--group-id <id>', 'Group of the partner.', wholeNumber)
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc partners update 2 --status inactive\n  $ svc partners update 2 --email ""',
    )
    .action(async (id: number, flags: Flags & { groupId?: number }) =>
      update(id, flags, 'partners', ['name', 'email', 'status', 'external-id'], {
        ...(flags.groupId !== undefined && { group_id: flags.groupId }),
      }),
    )

  subcommand(links, 'update', `Change a link. ${unset}`)
    .argument('<id>', 'Id of the link.', wholeNumber)
    .option('--status <status>', 'active or inactive.')
    .option('--page-url <address>', "The page it opens, on the program's domain.")
    .option('--external-id <id>', 'Your own id.')
    .addHelpText('after', '\nExamples:\n  $ svc links update 4 --page-url https://shop.example.com/spring')
    .action(async (id: number, flags: Flags) => update(id, flags, 'links', ['status', 'page-url', 'external-id']))

  subcommand(groups, 'create', 'Add a group of partners with a commission rule.')
    .requiredOption('--name <name>', 'Name of the group.')
    .option('--percent <number>', 'Percentage of each sale, with at most two decimals.', hundredths, 0)
    .option(
      '--fixed-cents <amount>',
      "Amount for each sale, in the smallest unit of the program's currency.",
      wholeNumber,
    )
    .option('--cap-cents <amount>', 'Cap for all sales to one customer.', wholeNumber)
    .option('--months <number>', "Months after a customer's first purchase.", wholeNumber)
    .option('--lead-cents <amount>', 'Amount for each lead.', wholeNumber)
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
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
        const created = await create<ApiOperations['createGroup']['answer']>(flags, 'groups', body)
        print(flags, created, `${green('✓')} Group ${created.group.id}, ${plain(created.group.name)}`)
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

  subcommand(groups, 'delete', 'Remove a group. From now on, its partners earn under the terms of the program.')
    .argument('<group_id>', 'Id of the group.', wholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc groups delete 3')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<ApiOperations['deleteGroup']['answer']>(connect(flags), `/api/v1/groups/${id}`, {
        method: 'DELETE',
      })
      print(flags, answer, `${green('✓')} Group ${id} was removed.`)
    })

  subcommand(codes, 'create', 'Create a code for a partner, who gets every sale with this code.')
    .requiredOption('--partner-id <id>', 'Id of the partner.', wholeNumber)
    .option('--code <code>', '1 to 64 characters without spaces.')
    .option('--stripe-promotion-code <id>', 'An existing promotion code in Stripe, instead of --code.')
    .option('--stripe-coupon <id>', 'Create a promotion code for this Stripe coupon.')
    .option('--percent-off <number>', 'Create a Stripe coupon and promotion code with this discount.', hundredths)
    .option('--duration <duration>', 'Duration of that coupon: once, forever, or a number of months.', 'once')
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
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
        const body = { ...optionValues(flags, ['code']), partner_id: flags.partnerId, ...(stripe && { stripe }) }
        const created = await create<ApiOperations['createCode']['answer']>(flags, 'codes', body)
        print(flags, created, `${green('✓')} Code ${created.code.id}, ${plain(created.code.code)}`)
      },
    )

  subcommand(codes, 'revoke', 'Revoke a code. Its partner keeps its sales.')
    .argument('<id>', 'Id of the code.', wholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc codes revoke 7')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<ApiOperations['revokeCode']['answer']>(connect(flags), `/api/v1/codes/${id}`, {
        method: 'DELETE',
      })
      print(flags, answer, `${green('✓')} Code ${plain(answer.code.code)} was revoked.`)
    })

  subcommand(links, 'create', 'Add a link to a partner.')
    .requiredOption('--partner-id <id>', 'Id of the partner.', wholeNumber)
    .option('--code <code>', 'The code in the link, after aff=. Generated if omitted.')
    .option('--page-url <address>', "The page it opens, on the program's domain.")
    .option('--external-id <id>', 'Your own id.')
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
    .addHelpText('after', '\nExamples:\n  $ svc links create --partner-id 2 --code nora-spring')
    .action(async (flags: Flags & { partnerId: number }) => {
      const body = { ...optionValues(flags, ['code', 'page-url', 'external-id']), partner_id: flags.partnerId }
      const created = await create<ApiOperations['createLink']['answer']>(flags, 'links', body)
      print(flags, created, `${green('✓')} Link ${created.link.id}: ${created.link.url}`)
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

  subcommand(of('adjustments'), 'create', "Add an amount to a partner's balance, or deduct it.")
    .requiredOption('--partner-id <id>', 'Id of the partner.', wholeNumber)
    .requiredOption(
      '--amount-cents <amount>',
      'Amount in the smallest unit of the currency; negative to deduct.',
      signedNumber,
    )
    .requiredOption('--note <text>', 'Reason, shown to the partner.')
    .option('--currency <code>', "Default: the program's currency.")
    .option('--transaction-id <id>', 'The related sale.')
    .option('--external-id <id>', 'Your own id. The service refuses a repeat.')
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc adjustments create --partner-id 2 --amount-cents 5000 --note "Bonus for May"\n  $ svc adjustments create --partner-id 2 --amount-cents -1200 --note "Paid twice in April"',
    )
    .action(async (flags: Flags & { partnerId: number; amountCents: number }) => {
      const body = {
        ...optionValues(flags, ['note', 'currency', 'transaction-id', 'external-id']),
        partner_id: flags.partnerId,
        amount_cents: flags.amountCents,
      }
      const created = await create<ApiOperations['createAdjustment']['answer']>(flags, 'adjustments', body)
      const { id, partner_id: partner, amount_cents: cents, currency } = created.adjustment
      const text = cents < 0 ? `deducted from partner ${partner}` : `added to the balance of partner ${partner}`
      print(flags, created, `${green('✓')} Adjustment ${id}: ${money(Math.abs(cents), currency)} ${text}`)
    })

  return nouns
}
