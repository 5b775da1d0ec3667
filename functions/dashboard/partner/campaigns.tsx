import { formatMoney } from '../../../lib/money.ts'
import { listProgramNames } from '../../../lib/programs/partnerships.ts'
import {
  campaignDays,
  type PartnerBreakdown,
  partnerBreakdowns,
  type PartnerCampaigns,
  type PartnerFilters,
  readPartnerCampaigns,
} from '../../../lib/tracking/partner-campaigns.ts'
import { Card, Empty, Metric, Segments } from '../components/blocks.tsx'
import { CampaignTables, FilterChip, partnerFiltersIn } from '../components/campaign.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { optionsOf } from '../components/fields.tsx'
import { formatNumber, formatTime } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { Find } from '../components/list.tsx'

/** Figures of a partner's links, by link and by campaign name. The names distinguish a partner's own pages and mails. */
export const pages = createPages()

const address = '/partner/campaigns'

pages.get(address, requirePartner, async (c) => {
  const programs = await listProgramNames(c.get('db'), c.get('viewer').user.id)
  const query = c.req.query()
  const program = programs.find(({ id }) => String(id) === query['program']) ?? programs[0]
  const days = campaignDays.find((one) => String(one) === query['days']) ?? 30
  const filters = partnerFiltersIn(query)
  const campaigns =
    program &&
    (await readPartnerCampaigns(c.get('db'), {
      programId: program.id,
      partnerId: program.partner_id,
      currency: program.currency,
      days,
      filters,
    }))
  const kept: Kept = { program: program && String(program.id), days: String(days), ...filters }
  return c.render(
    <PartnerPage
      title="Campaigns"
      current="/campaigns"
      lead="The results of your links, by link and campaign. Days are in UTC."
      actions={
        <Segments
          label="Period"
          items={campaignDays.map((one) => ({
            href: addressWith(kept, { days: String(one) }),
            text: `${one} days`,
            current: one === days,
          }))}
        />
      }
    >
      {programs.length > 1 && (
        <Find
          address={address}
          query={{ days: String(days), program: String(program?.id) }}
          choices={[{ name: 'program', label: 'Program', options: optionsOf(programs) }]}
        />
      )}
      {program && campaigns && (
        <Figures campaigns={campaigns} filters={filters} kept={kept} currency={program.currency} />
      )}
    </PartnerPage>,
  )
})

type Kept = Record<string, string | null | undefined>

/** Returns the page's address with changed parameters. Undefined removes a parameter, and null sets an empty one. */
function addressWith(kept: Kept, changes: Kept): string {
  const entries = Object.entries({ ...kept, ...changes }).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value ?? '']],
  )
  return `${address}?${new URLSearchParams(entries).toString()}`
}

interface FiguresProps {
  campaigns: PartnerCampaigns
  filters: PartnerFilters
  kept: Kept
  currency: string
}

function Figures({ campaigns, filters, kept, currency }: FiguresProps) {
  const { total, totalFrom, breakdowns } = campaigns
  const names = partnerBreakdowns.filter((name) => filters[name] === undefined)
  const isNamed = breakdowns.some(({ name }) => name !== 'link')
  return (
    <>
      <Filters campaigns={campaigns} filters={filters} kept={kept} />
      {totalFrom && (
        <p class="message warn">
          These figures begin at {formatTime(totalFrom)}, because the period has too many clicks to filter. Choose fewer
          days to see all of them.
        </p>
      )}
      <dl class="cards">
        <Metric label="Clicks" value={formatNumber(total.clicks)} />
        <Metric label="Leads" value={formatNumber(total.leads)} />
        <Metric label="Sales" value={formatNumber(total.sales)} />
        <Metric label="Commission" value={formatMoney(total.commission_cents, currency)} />
      </dl>
      <Card>
        {breakdowns.length === 0 ? (
          <Empty title="Nothing in this period">
            <p>
              Share one of your <a href="/partner/links">links</a> with your audience.
            </p>
          </Empty>
        ) : (
          <CampaignTables
            campaigns={campaigns}
            names={names}
            currency={currency}
            addressWith={(name, value) => addressWith(kept, { [name]: value })}
          />
        )}
        {!isNamed && (
          <p class="muted">
            To compare your pages and e-mails, add <code>&sub1=</code>, <code>&sub2=</code> or <code>&sub3=</code> with
            a name of your choice to a link, such as <code>&sub1=newsletter</code>. The parameters{' '}
            <code>utm_source</code>, <code>utm_medium</code>, <code>utm_campaign</code>, <code>utm_term</code> and{' '}
            <code>utm_content</code> are counted too.
          </p>
        )}
      </Card>
      <CountingHelp
        names={['Clicks', 'Leads', 'Sales', 'Commission']}
        note="A customer counts for the link that referred them, and for its campaign names. Sales through your codes are listed under commissions. Leads, sales and commission appear within a minute."
      />
    </>
  )
}

/** The active filters, each with a link that removes it. */
function Filters({ campaigns, filters, kept }: Omit<FiguresProps, 'currency'>) {
  const names = partnerBreakdowns.filter((name) => filters[name] !== undefined)
  if (names.length === 0) return null
  const labelOf = (name: PartnerBreakdown) => (name === 'link' ? campaigns.linkLabel : undefined)
  const without = (name: PartnerBreakdown) => addressWith(kept, { [name]: undefined })
  return (
    <nav class="row" aria-label="Filters">
      {names.map((name) => (
        <FilterChip href={without(name)} name={name} value={filters[name] ?? null} label={labelOf(name)} />
      ))}
    </nav>
  )
}
