import {
  type BreakdownName,
  type BreakdownRow,
  type ChartMetric,
  isNamedById,
  type Overview,
} from '../../../lib/tracking/overview.ts'
import { ratio } from '../../../lib/tracking/performance-answer.ts'
import { Card } from '../parts/blocks.tsx'
import { formatNumber } from '../parts/format.tsx'

/** What breakdowns are called, and what stands in them for what had no value. */
export const breakdownTexts: Record<BreakdownName, { title: string; one: string; none: string }> = {
  partner: { title: 'Partners', one: 'Partner', none: 'No partner' },
  link: { title: 'Links', one: 'Link', none: 'No link' },
  code: { title: 'Codes', one: 'Code', none: 'No code' },
  referrer: { title: 'Referring sites', one: 'Site', none: 'Direct or unknown' },
  utm_source: { title: 'Campaign sources', one: 'Source', none: 'No utm_source' },
  country: { title: 'Countries', one: 'Country', none: 'Unknown' },
  device: { title: 'Devices', one: 'Device', none: 'Unknown' },
  page: { title: 'Landing pages', one: 'Page', none: 'Unknown' },
}

const countries = new Intl.DisplayNames('en', { type: 'region', fallback: 'code' })

/** A value as people read it. */
export function nameOfValue(name: BreakdownName, value: string | null, label?: string | null): string {
  if (value === null) return breakdownTexts[name].none
  if (value === '') return 'All others'
  if (isNamedById(name)) return label ?? `${breakdownTexts[name].one} ${value}`
  if (name === 'country') return /^[A-Z]{2}$/.test(value) ? (countries.of(value) ?? value) : value
  if (name === 'device') return value[0]?.toUpperCase() + value.slice(1)
  return name === 'page' ? value.replace(/^https?:\/\//, '') : value
}

interface BreakdownsProps {
  names: BreakdownName[]
  overview: Overview
  /** A figure of the metric as people read it. */
  format: (value: number) => string
  /** Which values are filters, and the page with one more filter. */
  isFilter: (name: BreakdownName) => boolean
  addressWith: (name: BreakdownName, value: string) => string
  /** Of a list of all partners. */
  allPartners: string
}

/** The values that come first by the metric, each a link that filters the page by it. */
export function Breakdowns({ names, overview, format, isFilter, addressWith, allPartners }: BreakdownsProps) {
  const { metric } = overview
  return (
    <div class="halves">
      {names
        .filter((name) => !isFilter(name))
        // Many programs have no codes, and clicks and leads are by none.
        .filter((name) => name !== 'code' || overview.breakdowns.code.rows.some(({ value }) => value !== null))
        .map((name) => {
          const { rows, count } = overview.breakdowns[name]
          const most = Math.max(...rows.map(({ amount }) => amount), 1)
          const more = count - rows.length
          return (
            <Card
              title={breakdownTexts[name].title}
              aside={name === 'partner' && <a href={allPartners}>All partners</a>}
            >
              {rows.length === 0 ? (
                <p class="muted small">None in this time.</p>
              ) : (
                <ol class="breakdown">
                  {rows.map((row) => (
                    <li>
                      <Row
                        name={nameOfValue(name, row.value, row.label)}
                        share={row.amount / most}
                        figure={figureOf(row, metric, format)}
                        href={row.value === '' ? undefined : addressWith(name, row.value ?? '')}
                      />
                    </li>
                  ))}
                </ol>
              )}
              {more > 0 && <p class="muted small">and {formatNumber(more)} more</p>}
            </Card>
          )
        })}
    </div>
  )
}

function figureOf({ amount, clicks }: BreakdownRow, metric: ChartMetric, format: (value: number) => string): string {
  return metric === 'conversion'
    ? `${format(ratio(amount * 100, clicks, 2))} of ${formatNumber(clicks)}`
    : format(amount)
}

function Row({ name, share, figure, href }: { name: string; share: number; figure: string; href: string | undefined }) {
  const inside = (
    <>
      <svg aria-hidden="true">
        <rect height="100%" width={`${Math.max(Math.round(share * 100), 0)}%`} />
      </svg>
      <span>
        <bdi>{name}</bdi>
      </span>
      <span>{figure}</span>
    </>
  )
  return href ? <a href={href}>{inside}</a> : <div>{inside}</div>
}
