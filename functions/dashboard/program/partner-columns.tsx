import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { csvOf } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { formatMoney, decimalAmount } from '../../../lib/money.ts'
import { linkAddress } from '../../../lib/programs/links.ts'
import { daysOfLine, type PartnerOfProgram, type PartnerWithCodes } from '../../../lib/programs/partners.ts'
import { Badge } from '../components/blocks.tsx'
import { PostButton, RowMenu } from '../components/fields.tsx'
import { Sparkline } from '../components/chart.tsx'
import { Day, formatNumber } from '../components/format.tsx'
import type { ProgramContext } from '../components/page.ts'
import type { Column } from '../components/table.tsx'
import { optionalText } from '../components/form.ts'
import { addressOf, idInPath, positiveInteger } from '../components/address.ts'

/** The columns of a program's list of partners. */
export function partnerColumns(program: ViewerProgram): Column<PartnerWithCodes>[] {
  return [
    {
      label: 'Partner',
      phone: 'title',
      sorts: { ascending: 'name' },
      cell: (partner) => <PartnerName program={program} partner={partner} />,
    },
    { label: 'Status', phone: 'plain', cell: (partner) => <PartnerStatus partner={partner} /> },
    ...(may(program.roles, 'payout-address:read')
      ? [{ label: 'E-mail', isOptional: true, cell: ({ email }: PartnerOfProgram) => email }]
      : []),
    {
      label: 'Group',
      phone: 'hidden',
      cell: ({ group_name: name }) => name ?? <span class="muted">–</span>,
    },
    {
      label: `${daysOfLine} days`,
      phone: 'hidden',
      cell: ({ revenue_by_day: days }) => <Sparkline values={days} />,
    },
    {
      label: 'Clicks',
      right: true,
      sorts: { descending: 'clicks' },
      cell: (partner) => <Clicks clicks={partner.all_links} />,
    },
    { label: 'Sales', right: true, sorts: { descending: 'sales' }, cell: ({ sales }) => formatNumber(sales) },
    {
      label: 'Revenue',
      right: true,
      cell: ({ revenue_cents: cents }) => formatMoney(cents, program.currency),
    },
    {
      label: 'Commission',
      right: true,
      phone: 'hidden',
      cell: ({ commission_cents: cents }) => formatMoney(cents, program.currency),
    },
    {
      label: 'Balance',
      right: true,
      phone: 'amount',
      sorts: { descending: 'balance' },
      cell: (partner) => <Balances partner={partner} currency={program.currency} />,
    },
    {
      label: 'Last sale',
      right: true,
      phone: 'hidden',
      cell: ({ last_sale_at: at }) => (at ? <Day at={at} /> : <span class="muted">–</span>),
    },
  ]
}

export const partnersCsv = (program: ViewerProgram, partners: PartnerWithCodes[]) =>
  csvOf(partners, {
    id: ({ id }) => id,
    name: ({ name }) => name,
    email: (partner) => emailOf(program, partner),
    group: (partner) => partner.group_name,
    active: (partner) => partner.is_active,
    codes: ({ codes }) => codes,
    clicks: (partner) => partner.all_links.clicks,
    bot_clicks: (partner) => partner.all_links.bot_clicks,
    sales: ({ sales }) => sales,
    revenue: (partner) => decimalAmount(partner.revenue_cents, program.currency),
    commission: (partner) => decimalAmount(partner.commission_cents, program.currency),
    last_sale: (partner) => partner.last_sale_at,
    balance: ({ balances }) =>
      balances.map((b) => `${decimalAmount(b.balance_cents, b.currency)} ${b.currency}`).join(' '),
    added: (partner) => partner.created_at,
  })

/** Returns the e-mail address if the reader may see payout addresses, because it is the default payout address. */
function emailOf({ roles }: ViewerProgram, { email }: PartnerOfProgram): string | null {
  return may(roles, 'payout-address:read') ? email : null
}

function Clicks({ clicks: { clicks, bot_clicks: botClicks } }: { clicks: PartnerWithCodes['all_links'] }) {
  return (
    <div>
      {formatNumber(clicks)}
      {botClicks > 0 && <div class="muted small">and {formatNumber(botClicks)} of bots</div>}
    </div>
  )
}

const ends = { paused: 'Deactivated', program: 'Ended', partner: 'Left' }

/** The column with a link to the row's partner. */
export const partnerColumn = (programId: number) => ({
  label: 'Partner',
  cell: ({ partner_id: id, partner_name: name }: { partner_id: number; partner_name: string }) => (
    <a href={partnerAddress(programId, id)} data-drawer>
      <strong>{name}</strong>
    </a>
  ),
})

/** Returns the address of a partner's page. */
export const partnerAddress = (programId: number, partnerId: number) => `/programs/${programId}/partners/${partnerId}`

/** An optional e-mail address in a form. */
export const optionalEmail = z.pipe(
  optionalText,
  z.union([
    z.literal(''),
    z.string().check(z.trim(), z.toLowerCase(), z.maxLength(320), z.email('Enter an e-mail address, or none.')),
  ]),
)

/** Returns the id of the group that somebody chose, or null for none. */
export function groupIn(chosen: string | undefined): number | null {
  if (chosen === '') return null
  const id = positiveInteger(chosen)
  if (id === undefined) throw new ApiError('invalid_request', 'Choose a group.')
  return id
}

/** Returns the id of the partner in the path. */
export const partnerIn = (c: { req: ProgramContext['req'] }) =>
  idInPath(c, 'partnerId', 'This program has no such partner.')

/** The tabs of a partner's page. The first one is at the address of the page itself. */
export const partnerTabs = {
  overview: 'Overview',
  commissions: 'Commissions',
  payouts: 'Payouts',
  links: 'Links & codes',
  activity: 'Activity',
  settings: 'Settings',
} as const
export type PartnerTab = keyof typeof partnerTabs

/** Returns the address of a tab of the partner's page. */
export const partnerTabAddress = (programId: number, partnerId: number, tab: PartnerTab) =>
  addressOf(partnerAddress(programId, partnerId), { tab: tab === 'overview' ? undefined : tab })

/** Returns the address of a tab of the partner's page after a post to an address below that page. */
export const partnerTabOf = (tab: PartnerTab) => (c: { req: ProgramContext['req'] }) =>
  partnerTabAddress(Number(c.req.param('programId')), Number(c.req.param('partnerId')), tab)

function PartnerName({ program, partner }: { program: ViewerProgram; partner: PartnerOfProgram }) {
  return (
    <a href={partnerAddress(program.id, partner.id)} title={emailOf(program, partner) ?? undefined} data-drawer>
      <strong>{partner.name}</strong>
    </a>
  )
}

/** Active partners without an account may have an open invitation. */
function PartnerStatus({ partner }: { partner: PartnerOfProgram }) {
  if (!partner.is_active || partner.invited) return <PartnerState partner={partner} />
  return <Badge tone="good">Active</Badge>
}

/** Marks deactivated partners and open invitations. */
export function PartnerState({ partner }: { partner: Pick<PartnerOfProgram, 'is_active' | 'ended_by' | 'invited'> }) {
  return (
    <>
      {!partner.is_active && <Badge tone="bad">{ends[partner.ended_by ?? 'paused']}</Badge>}{' '}
      {partner.invited && <Badge>Invited</Badge>}
    </>
  )
}

function Balances({ partner, currency }: { partner: PartnerOfProgram; currency: string }) {
  const balances = partner.balances.length > 0 ? partner.balances : [{ currency, balance_cents: 0 }]
  return (
    <div class="stack tight">
      {balances.map((balance) => (
        <span class={balance.balance_cents < 0 ? 'bad' : undefined}>
          {formatMoney(balance.balance_cents, balance.currency)}
        </span>
      ))}
    </div>
  )
}

interface PartnerActionsProps {
  partner: PartnerOfProgram
  address: string
  program: ViewerProgram
}

/** The actions on a partner. Their forms post to addresses below `address`, the list of partners. */
export function PartnerActions({ partner, address, program }: PartnerActionsProps) {
  const { id, name, is_active: isActive, links } = partner
  const [link] = links
  const ended = partner.ended_at !== null
  const invite = partner.invited ? 'Invite again' : 'Invite'
  return (
    <RowMenu label={`Actions on ${name}`}>
      {link && (
        <button type="button" data-copy={linkAddress(program.domain, link.code, link.page_url)}>
          Copy link
        </button>
      )}
      {(!partner.has_account || ended) && partner.email && (
        <PostButton action={`${address}/${id}/invite`} label={`${invite} ${name}`} text={invite} />
      )}
      {isActive ? (
        <PostButton
          action={`${address}/${id}/deactivate`}
          label={`Deactivate ${name}`}
          confirm={`Deactivate ${name}? Clicks on their links will be refused.`}
          text="Deactivate"
        />
      ) : (
        !(ended && partner.has_account) && (
          <PostButton action={`${address}/${id}/activate`} label={`Activate ${name}`} text="Activate" />
        )
      )}
      {!ended && (
        <PostButton
          action={`${address}/${id}/end`}
          class="bad"
          label={`End partnership with ${name}`}
          confirm={`End the partnership with ${name}? Their links, codes and invitations stop working. They keep their earnings.`}
          text="End partnership"
        />
      )}
    </RowMenu>
  )
}
