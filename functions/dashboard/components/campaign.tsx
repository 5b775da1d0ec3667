import { type Language, languages } from '../../../lib/languages.ts'
import { type Campaign, campaignNames } from '../../../lib/tracking/campaign.ts'
import type { BreakdownName } from '../../../lib/tracking/overview.ts'
import {
  type PartnerBreakdown,
  partnerBreakdowns,
  type PartnerCampaigns,
  type PartnerFilters,
} from '../../../lib/tracking/partner-campaigns.ts'
import { cut, positiveInteger } from './address.ts'
import { breakdownTexts, nameOfValue } from './breakdown-names.ts'
import { Table } from './table.tsx'
import { useTexts } from './text.tsx'

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
  const texts = useTexts()
  return (
    <a class="chip" href={href}>
      <span>
        <span class="hidden">{texts.t('Remove the filter')} </span>
        {texts.fixed(breakdownTexts[name].one)}: <bdi>{nameOfValue(name, value, label, texts)}</bdi>
      </span>
    </a>
  )
}

/** A name inside a sentence. Only German capitalizes all nouns. */
const inSentence = (name: string, language: Language) =>
  language === 'de' ? name : name.toLocaleLowerCase(languages[language].locale)

interface CampaignTablesProps {
  campaigns: PartnerCampaigns
  /** The breakdowns that the page shows if they have values. */
  names: readonly PartnerBreakdown[]
  currency: string
  /** The level below the heading above the tables. */
  heading: 'h2' | 'h3'
  /** Whether the reader can choose a shorter period. */
  hasFewerDays: boolean
  /** The address of the value's figures. An empty value selects clicks without a value. */
  addressWith: (name: PartnerBreakdown, value: string) => string
}

/** One table for each breakdown, with the figures of each value. */
export function CampaignTables({
  campaigns,
  names,
  currency,
  heading: Heading,
  hasFewerDays,
  addressWith,
}: CampaignTablesProps) {
  const texts = useTexts()
  const { t, fixed, number, money, time, language } = texts
  const shown = campaigns.breakdowns.filter(({ name }) => names.includes(name))
  return (
    <>
      {shown.map(({ name, from, rows, count }) => (
        <section class="stack tight">
          <Heading>{fixed(breakdownTexts[name].title)}</Heading>
          {from && (
            <p class="muted small">
              {t('Since {time} UTC only, because the period has too many clicks.', { time: time(from) })}
              {hasFewerDays && ` ${t('Choose fewer days to see all of them.')}`}
            </p>
          )}
          <Table
            caption={t('Figures by {name}', { name: inSentence(fixed(breakdownTexts[name].one), language) })}
            rows={rows}
            columns={[
              {
                label: breakdownTexts[name].one,
                phone: 'title',
                cell: ({ value, label }) => (
                  <a href={addressWith(name, value ?? '')}>
                    <bdi>{nameOfValue(name, value, label, texts)}</bdi>
                  </a>
                ),
              },
              { label: 'Clicks', right: true, cell: ({ clicks }) => number(clicks) },
              { label: 'Leads', right: true, cell: ({ leads }) => number(leads) },
              { label: 'Sales', right: true, cell: ({ sales }) => number(sales) },
              {
                label: 'Commission',
                right: true,
                phone: 'amount',
                cell: ({ commission_cents: cents }) => money(cents, currency),
              },
            ]}
          />
          {count > rows.length && <p class="muted small">{t('and {count} more', { count: count - rows.length })}</p>}
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
