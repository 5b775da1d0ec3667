import { call, type Database } from '../database.ts'
import type { DatabaseFunctions } from '../schema.ts'
import { campaignNames } from './campaign.ts'
import { dayMs, startOfDay } from './performance-range.ts'

/** By what a partner's figures are broken down: their links, and what these named. */
export const partnerBreakdowns = ['link', ...campaignNames] as const
export type PartnerBreakdown = (typeof partnerBreakdowns)[number]

/** What is counted alone: null is what named no such value. Ids of links as text. */
export type PartnerFilters = { [Name in PartnerBreakdown]?: string | null }

/** How many days (UTC) are counted, today among them. */
export const campaignDays = [7, 30, 90] as const
type CampaignDays = (typeof campaignDays)[number]

/** Money in minor units of the currency asked for, after reversals. */
interface CampaignFigures {
  clicks: number
  leads: number
  sales: number
  commission_cents: number
}

export interface PartnerCampaigns {
  total: CampaignFigures
  /** Where there is too much to be read: since when it was. */
  readFrom: Date | undefined
  /** The values that come first by commission and how many there are, of what has any: null is what named none. */
  breakdowns: {
    name: PartnerBreakdown
    count: number
    rows: (CampaignFigures & { value: string | null; label: string | null })[]
  }[]
  /** What the link is called that it is filtered by. */
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

/** The statement whose rows `asPartnerCampaigns` reads, for the same query and `now`. */
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

export function asPartnerCampaigns(rows: Row[], { days }: { days: CampaignDays }, now: number): PartnerCampaigns {
  const figuresOf = (row: Row | undefined): CampaignFigures => ({
    clicks: row?.clicks ?? 0,
    leads: row?.leads ?? 0,
    sales: row?.sales ?? 0,
    commission_cents: row?.commission_cents ?? 0,
  })
  const of = (name: string) => rows.filter(({ breakdown }) => breakdown === name)
  const read = Date.parse(of('read_from')[0]?.value ?? '')
  return {
    total: figuresOf(of('all')[0]),
    readFrom: read > firstDay(days, now) ? new Date(read) : undefined,
    breakdowns: partnerBreakdowns.flatMap((name) => {
      const found = of(name)
      if (found.length === 0) return []
      const values = found.map((row) => ({ value: row.value, label: row.label, ...figuresOf(row) }))
      return [{ name, count: found[0]?.values ?? 0, rows: values }]
    }),
    linkLabel: of('label')[0]?.label ?? undefined,
  }
}

/** What a partner's links brought in some days. One request. */
export async function readPartnerCampaigns(db: Database, query: CampaignsQuery): Promise<PartnerCampaigns> {
  const now = Date.now()
  return asPartnerCampaigns(await db.query(partnerCampaignsStatement(query, now)), query, now)
}
