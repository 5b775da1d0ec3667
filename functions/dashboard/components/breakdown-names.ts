import type { PageTexts } from './text.tsx'
import { type BreakdownName, isNamedById } from '../../../lib/tracking/overview.ts'

/** Names of the breakdowns, and the text for rows without a value. */
export const breakdownTexts: Record<BreakdownName, { title: string; one: string; none: string }> = {
  partner: { title: 'Partners', one: 'Partner', none: 'No partner' },
  link: { title: 'Links', one: 'Link', none: 'No link' },
  code: { title: 'Codes', one: 'Code', none: 'No code' },
  referrer: { title: 'Referring sites', one: 'Site', none: 'Direct or unknown' },
  country: { title: 'Countries', one: 'Country', none: 'Unknown' },
  device: { title: 'Devices', one: 'Device', none: 'Unknown' },
  page: { title: 'Landing pages', one: 'Page', none: 'Unknown' },
  utm_source: { title: 'Campaign sources', one: 'Source', none: 'No utm_source' },
  utm_medium: { title: 'Campaign media', one: 'Medium', none: 'No utm_medium' },
  utm_campaign: { title: 'Campaigns', one: 'Campaign', none: 'No utm_campaign' },
  utm_term: { title: 'Campaign terms', one: 'Term', none: 'No utm_term' },
  utm_content: { title: 'Campaign contents', one: 'Content', none: 'No utm_content' },
  sub1: { title: 'Sub-id 1', one: 'sub1', none: 'No sub1' },
  sub2: { title: 'Sub-id 2', one: 'sub2', none: 'No sub2' },
  sub3: { title: 'Sub-id 3', one: 'sub3', none: 'No sub3' },
}

const countries = new Intl.DisplayNames('en', { type: 'region', fallback: 'code' })

/** Formats a value for display. */
export function nameOfValue(
  name: BreakdownName,
  value: string | null,
  label?: string | null,
  texts?: PageTexts,
): string {
  const fixed = texts?.fixed ?? String
  if (value === null) return fixed(breakdownTexts[name].none)
  if (value === '') return fixed('All others')
  if (isNamedById(name)) return label ?? `${fixed(breakdownTexts[name].one)} ${value}`
  if (name === 'country') return /^[A-Z]{2}$/.test(value) ? (countries.of(value) ?? value) : value
  if (name === 'device') return value[0]?.toUpperCase() + value.slice(1)
  return name === 'page' ? value.replace(/^https?:\/\//, '') : value
}
