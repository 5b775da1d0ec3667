import { formatMoney } from '../../../lib/money.ts'
import { type LinkFigures, linkAddress } from '../../../lib/programs/links.ts'
import { Badge } from './blocks.tsx'
import { formatNumber } from './format.tsx'
import type { Column } from './table.tsx'

/** The columns of a list of a partner's links. */
export function linkColumns({ domain, currency }: { domain: string; currency: string }): Column<LinkFigures>[] {
  return [
    { label: 'Link', cell: (link) => <Link link={link} domain={domain} /> },
    { label: 'Clicks', right: true, cell: (link) => <Clicks link={link} /> },
    { label: 'Leads', right: true, cell: ({ leads }) => formatNumber(leads) },
    { label: 'Sales', right: true, cell: ({ sales }) => formatNumber(sales) },
    { label: 'Commission', right: true, cell: ({ commission_cents: cents }) => formatMoney(cents, currency) },
  ]
}

/** The code of a link, with a button that copies the link. */
export function CopyLink({ domain, code, pageUrl }: { domain: string; code: string; pageUrl: string | null }) {
  return (
    <>
      <code>{code}</code>
      <button
        type="button"
        class="compact"
        data-copy={linkAddress(domain, code, pageUrl)}
        aria-label={`Copy link with the code ${code}`}
      >
        Copy link
      </button>
    </>
  )
}

function Link({
  link: { code, page_url: pageUrl, is_active: isActive },
  domain,
}: {
  link: LinkFigures
  domain: string
}) {
  return (
    <div class="stack tight">
      <div class="row">
        <CopyLink domain={domain} code={code} pageUrl={pageUrl} />
        {!isActive && <Badge tone="bad">Disabled</Badge>}
      </div>
      {pageUrl && <span class="muted small">opens {pageUrl}</span>}
    </div>
  )
}

function Clicks({ link: { clicks, bot_clicks: botClicks } }: { link: LinkFigures }) {
  return (
    <div>
      {formatNumber(clicks)}
      {botClicks > 0 && <div class="muted small">and {formatNumber(botClicks)} from bots</div>}
    </div>
  )
}
