import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import { linkAddress } from '../../../lib/programs/links.ts'
import type { PartnerOfProgram } from '../../../lib/programs/partners.ts'
import { Badge } from '../parts/blocks.tsx'
import { formatNumber } from '../parts/format.tsx'
import type { Column } from '../parts/table.tsx'

/** What a program's list of partners says of each. */
export function partnerColumns(program: ViewerProgram): Column<PartnerOfProgram>[] {
  return [
    { label: 'Partner', cell: (partner) => <PartnerName partner={partner} email={emailOf(program, partner)} /> },
    { label: 'Links', cell: (partner) => <Links partner={partner} domain={program.domain} /> },
    { label: 'Clicks', right: true, cell: (partner) => <Clicks links={partner.links} /> },
    { label: 'Sales', right: true, cell: ({ sales }) => formatNumber(sales) },
    { label: 'Balance', right: true, cell: (partner) => <Balances partner={partner} currency={program.currency} /> },
  ]
}

/** A partner as a row of a CSV file. */
export function partnerRow(program: ViewerProgram, partner: PartnerOfProgram) {
  return {
    id: partner.id,
    name: partner.name,
    email: emailOf(program, partner),
    active: partner.is_active,
    codes: partner.links.map(({ code }) => code).join(' '),
    clicks: clicksOf(partner, 'clicks'),
    bot_clicks: clicksOf(partner, 'bot_clicks'),
    sales: partner.sales,
    balance: partner.balances.map((b) => `${majorUnits(b.balance_cents, b.currency)} ${b.currency}`).join(' '),
    added: partner.created_at,
  }
}

/** A partner is paid to their e-mail address unless they said another, so it is for those who may see payout addresses. */
function emailOf({ roles }: ViewerProgram, { email }: PartnerOfProgram): string | null {
  return may(roles, 'payout-address:read') ? email : null
}

function clicksOf({ links }: Pick<PartnerOfProgram, 'links'>, counter: 'clicks' | 'bot_clicks'): number {
  return links.reduce((sum, link) => sum + link[counter], 0)
}

function Clicks({ links }: Pick<PartnerOfProgram, 'links'>) {
  const botClicks = clicksOf({ links }, 'bot_clicks')
  return (
    <div>
      {formatNumber(clicksOf({ links }, 'clicks'))}
      {botClicks > 0 && <div class="muted small">and {formatNumber(botClicks)} of bots</div>}
    </div>
  )
}

const ends = { paused: 'Off', program: 'Ended', partner: 'Left' }

function PartnerName({ partner, email }: { partner: PartnerOfProgram; email: string | null }) {
  return (
    <div>
      <strong>{partner.name}</strong>
      {!partner.is_active && (
        <>
          {' '}
          <Badge tone="bad">{ends[partner.ended_by ?? 'paused']}</Badge>
        </>
      )}
      {partner.invited && (
        <>
          {' '}
          <Badge>Invited</Badge>
        </>
      )}
      {email && <div class="muted small">{email}</div>}
    </div>
  )
}

function Links({ partner, domain }: { partner: PartnerOfProgram; domain: string }) {
  return (
    <div class="stack tight">
      {partner.links.map(({ code, page_url: pageUrl }) => (
        <div class="row">
          <code>{code}</code>
          <button
            type="button"
            class="compact"
            data-copy={linkAddress(domain, code, pageUrl)}
            aria-label={`Copy link with the code ${code}`}
          >
            Copy link
          </button>
        </div>
      ))}
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
