import { type Campaign, campaignNames } from '../../../lib/tracking/campaign.ts'
import { formatMoney } from '../../../lib/money.ts'
import type { BreakdownName } from '../../../lib/tracking/overview.ts'
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

/** The `utm_*` parameters and sub-ids of a clicked link. */
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

interface FilterChipProps {
  /** The address without this filter. */
  href: string
  name: BreakdownName
  value: string | null
  label?: string | null | undefined
}

/** An active filter, with a link that removes it. */
export function FilterChip({ href, name, value, label }: FilterChipProps) {
  return (
    <a class="chip" href={href}>
      <span>
        <span class="hidden">Remove the filter </span>
        {breakdownTexts[name].one}: <bdi>{nameOfValue(name, value, label)}</bdi>
      </span>
    </a>
  )
}

interface CampaignTablesProps {
  campaigns: PartnerCampaigns
  /** The breakdowns to show, if they have values. */
  names: readonly PartnerBreakdown[]
  currency: string
  /** The address of this value's figures. An empty value means clicks without a value. */
  addressWith: (name: PartnerBreakdown, value: string) => string
}

/** A table per breakdown, with the figures of each value. */
export function CampaignTables({ campaigns, names, currency, addressWith }: CampaignTablesProps) {
  const shown = campaigns.breakdowns.filter(({ name }) => names.includes(name))
  return (
    <>
      {shown.map(({ name, from, rows, count }) => (
        <section class="stack tight">
          <h3>{breakdownTexts[name].title}</h3>
          {from && (
            <p class="muted small">
              Since {formatTime(from)} only, because the period has too many clicks. Choose fewer days to see all of
              them.
            </p>
          )}
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
    </>
  )
}

/** Reads a partner's filters from the query. An empty parameter selects clicks without a value. */
export function partnerFiltersIn(query: Record<string, string>): PartnerFilters {
  const filters: PartnerFilters = {}
  for (const name of partnerBreakdowns) {
    const value = query[name]
    if (value === undefined) continue
    const text = cut(value, 200)
    if (name !== 'link') filters[name] = text === '' ? null : text
    else if (positiveInteger(text) !== undefined) filters[name] = text
  }
  return filters
}
