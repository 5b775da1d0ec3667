import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { csvOf } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import { linksListed } from '../../../lib/programs/links.ts'
import type { PartnerOfProgram, PartnerWithCodes } from '../../../lib/programs/partners.ts'
import { Badge } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { formatNumber } from '../components/format.tsx'
import { CopyLink } from '../components/link.tsx'
import type { ProgramContext } from '../components/page.ts'
import type { Column } from '../components/table.tsx'
import { optionalText } from '../components/form.ts'
import { idInPath, positiveInteger } from '../components/address.ts'

/** The columns of a program's list of partners. */
export function partnerColumns(program: ViewerProgram): Column<PartnerWithCodes>[] {
  return [
    {
      label: 'Partner',
      sorts: { ascending: 'name' },
      cell: (partner) => <PartnerName program={program} partner={partner} />,
    },
    { label: 'Links', cell: (partner) => <Links program={program} partner={partner} /> },
    {
      label: 'Clicks',
      right: true,
      sorts: { descending: 'clicks' },
      cell: (partner) => <Clicks clicks={partner.all_links} />,
    },
    { label: 'Sales', right: true, sorts: { descending: 'sales' }, cell: ({ sales }) => formatNumber(sales) },
    {
      label: 'Balance',
      right: true,
      sorts: { descending: 'balance' },
      cell: (partner) => <Balances partner={partner} currency={program.currency} />,
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
    balance: ({ balances }) =>
      balances.map((b) => `${majorUnits(b.balance_cents, b.currency)} ${b.currency}`).join(' '),
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

/** The column that links to the row's partner. */
export const partnerColumn = (programId: number) => ({
  label: 'Partner',
  cell: ({ partner_id: id, partner_name: name }: { partner_id: number; partner_name: string }) => (
    <a href={partnerAddress(programId, id)}>
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

/** Returns the address of the partner's page for a post below it. */
export const partnerPageOf = (c: { req: ProgramContext['req'] }) =>
  partnerAddress(Number(c.req.param('programId')), Number(c.req.param('partnerId')))

function PartnerName({ program, partner }: { program: ViewerProgram; partner: PartnerOfProgram }) {
  const email = emailOf(program, partner)
  return (
    <div>
      <a href={partnerAddress(program.id, partner.id)}>
        <strong>{partner.name}</strong>
      </a>{' '}
      <PartnerState partner={partner} />
      {email && <div class="muted small">{email}</div>}
      {partner.group_name !== null && <div class="muted small">Group {partner.group_name}</div>}
    </div>
  )
}

/** Marks a deactivated partner and an open invitation. */
export function PartnerState({ partner }: { partner: Pick<PartnerOfProgram, 'is_active' | 'ended_by' | 'invited'> }) {
  return (
    <>
      {!partner.is_active && <Badge tone="bad">{ends[partner.ended_by ?? 'paused']}</Badge>}{' '}
      {partner.invited && <Badge>Invited</Badge>}
    </>
  )
}

function Links({ program, partner }: { program: ViewerProgram; partner: PartnerOfProgram }) {
  return (
    <div class="stack tight">
      {partner.links.slice(0, linksListed).map(({ code, page_url: pageUrl }) => (
        <div class="row">
          <CopyLink domain={program.domain} code={code} pageUrl={pageUrl} />
        </div>
      ))}
      {partner.links.length > linksListed && <a href={partnerAddress(program.id, partner.id)}>All links</a>}
    </div>
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

/** The actions on a partner. They post below `address`, the list of partners. */
export function PartnerActions({ partner, address }: { partner: PartnerOfProgram; address: string }) {
  const { id, name, is_active: isActive } = partner
  const ended = partner.ended_at !== null
  const invite = partner.invited ? 'Invite again' : 'Invite'
  return (
    <div class="row right">
      {(!partner.has_account || ended) && partner.email && (
        <PostButton action={`${address}/${id}/invite`} class="compact" label={`${invite} ${name}`} text={invite} />
      )}
      {isActive ? (
        <PostButton
          action={`${address}/${id}/deactivate`}
          class="compact"
          label={`Deactivate ${name}`}
          confirm={`Deactivate ${name}? Clicks on their links will be refused.`}
          text="Deactivate"
        />
      ) : (
        !(ended && partner.has_account) && (
          <PostButton action={`${address}/${id}/activate`} class="compact" label={`Activate ${name}`} text="Activate" />
        )
      )}
      {!ended && (
        <PostButton
          action={`${address}/${id}/end`}
          class="compact danger"
          label={`End the partnership with ${name}`}
          confirm={`End the partnership with ${name}? Their links, codes and invitations stop working. They keep their earnings.`}
          text="End"
        />
      )}
    </div>
  )
}
