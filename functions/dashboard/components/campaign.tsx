import { type Campaign, campaignNames } from '../../../lib/tracking/campaign.ts'
import { formatMoney } from '../../../lib/money.ts'
import {
  type PartnerBreakdown,
  partnerBreakdowns,
  type PartnerCampaigns,
  type PartnerFilters,
} from '../../../lib/tracking/partner-campaigns.ts'
import { cut, positiveInteger } from './address.ts'
import { breakdownTexts, nameOfValue } from './breakdown-names.ts'
import { formatNumber, formatTime } from './format.tsx'
import { Table } from './table.tsx'

/** What the link of a click named: its `utm_*` and sub-ids. */
export function CampaignText({ campaign }: { campaign: Campaign | null }) {
  if (!campaign) return null
  return (
    <div class="muted small">
      {campaignNames
        .filter((name) => campaign[name] !== undefined)
        .map((name, index) => (
          <>
            {index > 0 && ', '}
            {name} <bdi>{campaign[name]}</bdi>
          </>
        ))}
    </div>
  )
}

interface CampaignTablesProps {
  campaigns: PartnerCampaigns
  /** The breakdowns that stand here, of those that have values. */
  names: readonly PartnerBreakdown[]
  currency: string
  /** The figures of one value alone; an empty one is what named none. */
  addressWith: (name: PartnerBreakdown, value: string) => string
}

/** What a partner's links named, with what each value brought. */
export function CampaignTables({ campaigns, names, currency, addressWith }: CampaignTablesProps) {
  const shown = campaigns.breakdowns.filter(({ name }) => names.includes(name))
  return (
    <>
      {shown.map(({ name, rows, count }) => (
        <section class="stack tight">
          <h3>{breakdownTexts[name].title}</h3>
          <Table
            caption={`Figures by ${breakdownTexts[name].one}`}
            rows={rows}
            columns={[
              {
                label: breakdownTexts[name].one,
                cell: ({ value, label }) => (
                  <a href={addressWith(name, value ?? '')}>
                    <bdi>{nameOfValue(name, value, label)}</bdi>
                  </a>
                ),
              },
              { label: 'Clicks', right: true, cell: ({ clicks }) => formatNumber(clicks) },
              { label: 'Leads', right: true, cell: ({ leads }) => formatNumber(leads) },
              { label: 'Sales', right: true, cell: ({ sales }) => formatNumber(sales) },
              { label: 'Commission', right: true, cell: ({ commission_cents: cents }) => formatMoney(cents, currency) },
            ]}
          />
          {count > rows.length && <p class="muted small">and {formatNumber(count - rows.length)} more</p>}
        </section>
      ))}
      {campaigns.readFrom && (
        <p class="muted small">
          What came since {formatTime(campaigns.readFrom)}. These days have more than can be read at once.
        </p>
      )}
    </>
  )
}

/** What a query filters a partner's figures by. A parameter that is empty filters by what named none. */
export function partnerFiltersIn(query: Record<string, string>): PartnerFilters {
  const filters: PartnerFilters = {}
  for (const name of partnerBreakdowns) {
    const given = query[name]
    if (given === undefined) continue
    const text = cut(given, 200)
    if (name !== 'link') filters[name] = text === '' ? null : text
    else if (positiveInteger(text) !== undefined) filters[name] = text
  }
  return filters
}
