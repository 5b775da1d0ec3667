import { call, type Database } from '../database.ts'
import type { DatabaseFunctions } from '../schema.ts'
import { campaignNames } from './campaign.ts'
import { dayMs, startOfDay } from './performance-range.ts'

/** The breakdowns of a partner's figures: their links and the campaign parameters. */
export const partnerBreakdowns = ['link', ...campaignNames] as const
export type PartnerBreakdown = (typeof partnerBreakdowns)[number]

/** The only values to count. Null counts clicks without a value. Ids of links are text. */
export type PartnerFilters = { [Name in PartnerBreakdown]?: string | null }

/** The possible numbers of UTC days, including today. */
export const campaignDays = [7, 30, 90] as const
type CampaignDays = (typeof campaignDays)[number]

/** Money is in minor units of the requested currency, after reversals. */
interface CampaignFigures {
  clicks: number
  leads: number
  sales: number
  commission_cents: number
}

export interface PartnerCampaigns {
  total: CampaignFigures
  /** The start of the total, if a filter by campaign matches too many clicks to cover the whole period. */
  totalFrom: Date | undefined
  /** The top values by commission and the number of values, for breakdowns with any value. Null means clicks without a value. */
  breakdowns: {
    name: PartnerBreakdown
    /** The start of these figures, if they don't cover the whole period. Figures of links without a filter by campaign always do. */
    from: Date | undefined
    count: number
    rows: (CampaignFigures & { value: string | null; label: string | null })[]
  }[]
  /** The code of the link in the filter. */
  linkLabel: string | undefined
}

interface CampaignsQuery {
  programId: number
  partnerId: number
  days: CampaignDays
  filters: PartnerFilters
  currency: string
}

const rowsOfBreakdown = 20

const firstDay = (days: number, now: number) => startOfDay(now) - (days - 1) * dayMs

/** Builds the statement for `asPartnerCampaigns` with the same query and `now`. */
export function partnerCampaignsStatement(query: CampaignsQuery, now: number) {
  return call('read_partner_campaigns', {
    of_program_id: query.programId,
    of_partner_id: query.partnerId,
    filters: JSON.stringify(query.filters),
    from_time: new Date(firstDay(query.days, now)),
    until: new Date(startOfDay(now) + dayMs),
    of_currency: query.currency,
    max_values: rowsOfBreakdown,
  })
}

type Row = DatabaseFunctions['read_partner_campaigns']['row']

export function asPartnerCampaigns(
  rows: Row[],
  { days, filters }: Pick<CampaignsQuery, 'days' | 'filters'>,
  now: number,
): PartnerCampaigns {
  const figuresOf = (row: Row | undefined): CampaignFigures => ({
    clicks: row?.clicks ?? 0,
    leads: row?.leads ?? 0,
    sales: row?.sales ?? 0,
    commission_cents: row?.commission_cents ?? 0,
  })
  const of = (name: string) => rows.filter(({ breakdown }) => breakdown === name)
  const read = Date.parse(of('read_from')[0]?.value ?? '')
  const readFrom = read > firstDay(days, now) ? new Date(read) : undefined
  const totalFrom = campaignNames.some((name) => filters[name] !== undefined) ? readFrom : undefined
  return {
    total: figuresOf(of('all')[0]),
    totalFrom,
    breakdowns: partnerBreakdowns.flatMap((name) => {
      const found = of(name)
      if (found.length === 0) return []
      const values = found.map((row) => ({ value: row.value, label: row.label, ...figuresOf(row) }))
      return [{ name, from: name === 'link' ? totalFrom : readFrom, count: found[0]?.values ?? 0, rows: values }]
    }),
    linkLabel: of('label')[0]?.label ?? undefined,
  }
}

/** Reads the figures of a partner's links in a range of days, in one request. */
export async function readPartnerCampaigns(db: Database, query: CampaignsQuery): Promise<PartnerCampaigns> {
  const now = Date.now()
  return asPartnerCampaigns(await db.query(partnerCampaignsStatement(query, now)), query, now)
}
