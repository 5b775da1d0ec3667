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
import { Card, Empty, Heading, Metric, Segments } from '../components/blocks.tsx'
import { breakdownTexts, nameOfValue } from '../components/breakdown-names.ts'
import { CampaignTables, partnerFiltersIn } from '../components/campaign.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { Field } from '../components/fields.tsx'
import { emptyForm } from '../components/form.ts'
import { formatNumber } from '../components/format.tsx'
import { renderPartner } from '../components/layout.tsx'
import { createPages, requirePartner } from '../components/page.ts'

/** What a partner's links brought, by link and by what each named, which tells a partner's own pages and mails apart. */
export const partnerCampaignPages = createPages()

const address = '/partner/campaigns'

partnerCampaignPages.get(address, requirePartner, async (c) => {
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
  return renderPartner(c, c.get('viewer'), {
    title: 'Campaigns',
    current: '/campaigns',
    children: (
      <>
        <Heading title="Campaigns" lead="What your links brought, by what you named in them. Days are UTC.">
          <Segments
            label="Period"
            items={campaignDays.map((one) => ({
              href: addressWith(kept, { days: String(one) }),
              text: `${one} days`,
              current: one === days,
            }))}
          />
        </Heading>
        {programs.length > 1 && (
          <form method="get" action={address} class="row end inline">
            <input type="hidden" name="days" value={String(days)} />
            <Field
              name="program"
              label="Program"
              options={programs.map(({ id, name }) => [String(id), name] as const)}
              value={String(program?.id ?? '')}
              form={emptyForm}
            />
            <button type="submit">Show</button>
          </form>
        )}
        {program && campaigns && (
          <Figures campaigns={campaigns} filters={filters} kept={kept} currency={program.currency} />
        )}
      </>
    ),
  })
})

type Kept = Record<string, string | null | undefined>

/** The page with other parameters; undefined takes one away, and null stands as an empty one. */
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
  const { total, breakdowns } = campaigns
  const names = partnerBreakdowns.filter((name) => filters[name] === undefined)
  const isNamed = breakdowns.some(({ name }) => name !== 'link')
  return (
    <>
      <Filters campaigns={campaigns} filters={filters} kept={kept} />
      <dl class="cards">
        <Metric label="Clicks" value={formatNumber(total.clicks)} />
        <Metric label="Leads" value={formatNumber(total.leads)} />
        <Metric label="Sales" value={formatNumber(total.sales)} />
        <Metric label="Commission" value={formatMoney(total.commission_cents, currency)} />
      </dl>
      <Card>
        {breakdowns.length === 0 ? (
          <Empty title="Nothing in this time">
            <p>
              Put one of your <a href="/partner/links">links</a> where people read you.
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
            To tell your pages and mails apart, add <code>&sub1=</code>, <code>&sub2=</code> or <code>&sub3=</code> with
            a name of your own to a link, as in <code>&sub1=newsletter</code>. The parameters <code>utm_source</code>,{' '}
            <code>utm_medium</code>, <code>utm_campaign</code>, <code>utm_term</code> and <code>utm_content</code> are
            counted too.
          </p>
        )}
      </Card>
      <CountingHelp
        names={['Clicks', 'Leads', 'Sales', 'Commission']}
        note="A customer counts for the link and its names by which they came. What a code of yours brought stands with your commissions. Leads, sales and commission are counted within a minute."
      />
    </>
  )
}

/** What the page is filtered by: each can be taken away. */
function Filters({ campaigns, filters, kept }: Omit<FiguresProps, 'currency'>) {
  const names = partnerBreakdowns.filter((name) => filters[name] !== undefined)
  if (names.length === 0) return null
  const labelOf = (name: PartnerBreakdown) => (name === 'link' ? campaigns.linkLabel : undefined)
  return (
    <nav class="row" aria-label="Filters">
      {names.map((name) => (
        <a class="chip" href={addressWith(kept, { [name]: undefined })}>
          <span>
            <span class="hidden">Remove the filter </span>
            {breakdownTexts[name].one}: <bdi>{nameOfValue(name, filters[name] ?? null, labelOf(name))}</bdi>
          </span>
        </a>
      ))}
    </nav>
  )
}
