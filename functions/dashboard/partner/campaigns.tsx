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
import { PartnerPage } from '../components/layout.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { Find } from '../components/list.tsx'
import { Text, useTexts } from '../components/text.tsx'

/** Figures of a partner's links, by link and by campaign name. Partners use campaign names to distinguish their own pages and mails. */
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
  const { t } = c.get('texts')
  const kept: Kept = { program: program && String(program.id), days: String(days), ...filters }
  return c.render(
    <PartnerPage
      title={t('Campaigns')}
      current="/campaigns"
      lead={t('The results of your links, by link and campaign. Days are in UTC.')}
      actions={
        <Segments
          label={t('Period')}
          items={campaignDays.map((one) => ({
            href: addressWith(kept, { days: String(one) }),
            text: t('{days} days', { days: one }),
            current: one === days,
          }))}
        />
      }
    >
      {programs.length > 1 && (
        <Find
          address={address}
          query={{ days: String(days), program: String(program?.id) }}
          choices={[{ name: 'program', label: t('Program'), options: optionsOf(programs) }]}
        />
      )}
      {program && campaigns && (
        <Figures
          campaigns={campaigns}
          filters={filters}
          kept={kept}
          currency={program.currency}
          hasFewerDays={days > Math.min(...campaignDays)}
        />
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
  hasFewerDays: boolean
}

function Figures({ campaigns, filters, kept, currency, hasFewerDays }: FiguresProps) {
  const { total, totalFrom, breakdowns } = campaigns
  const { t, number, money, time } = useTexts()
  const names = partnerBreakdowns.filter((name) => filters[name] === undefined)
  const isNamed = breakdowns.some(({ name }) => name !== 'link')
  return (
    <>
      <Filters campaigns={campaigns} filters={filters} kept={kept} />
      {totalFrom && (
        <p class="message warn">
          {t('These figures begin at {time} UTC, because the period has too many clicks to filter.', {
            time: time(totalFrom),
          })}
          {hasFewerDays && ` ${t('Choose fewer days to see all of them.')}`}
        </p>
      )}
      <dl class="cards">
        <Metric label={t('Clicks')} value={number(total.clicks)} />
        <Metric label={t('Leads')} value={number(total.leads)} />
        <Metric label={t('Sales')} value={number(total.sales)} />
        <Metric label={t('Commission')} value={money(total.commission_cents, currency)} />
      </dl>
      <Card>
        {breakdowns.length === 0 ? (
          <Empty title={t('Nothing in this period')}>
            <p>
              <Text
                of="Share one of your <a>links</a> with your audience."
                a={(text) => <a href="/partner/links">{text}</a>}
              />
            </p>
          </Empty>
        ) : (
          <CampaignTables
            campaigns={campaigns}
            names={names}
            currency={currency}
            heading="h2"
            hasFewerDays={hasFewerDays}
            addressWith={(name, value) => addressWith(kept, { [name]: value })}
          />
        )}
        {!isNamed && (
          <p class="muted">
            <Text
              of="To compare your pages and e-mails, add {sub1}, {sub2} or {sub3} with a name of your choice to a link, such as {example}. The parameters {utm} are counted too."
              sub1={<code>&sub1=</code>}
              sub2={<code>&sub2=</code>}
              sub3={<code>&sub3=</code>}
              example={<code>&sub1=newsletter</code>}
              utm={<code>utm_source, utm_medium, utm_campaign, utm_term, utm_content</code>}
            />
          </p>
        )}
      </Card>
      <CountingHelp
        names={['Clicks', 'Leads', 'Sales', 'Commission']}
        note={t(
          'A customer counts for the link that referred them, and for its campaign names. Sales through your codes are listed under commissions. Leads, sales and commission appear within a minute.',
        )}
      />
    </>
  )
}

/** The active filters, each with a link that removes it. */
function Filters({ campaigns, filters, kept }: Omit<FiguresProps, 'currency' | 'hasFewerDays'>) {
  const names = partnerBreakdowns.filter((name) => filters[name] !== undefined)
  if (names.length === 0) return null
  const labelOf = (name: PartnerBreakdown) => (name === 'link' ? campaigns.linkLabel : undefined)
  const without = (name: PartnerBreakdown) => addressWith(kept, { [name]: undefined })
  return (
    <nav class="row" aria-label={useTexts().t('Filters')}>
      {names.map((name) => (
        <FilterChip href={without(name)} name={name} value={filters[name] ?? null} label={labelOf(name)} />
      ))}
    </nav>
  )
}
