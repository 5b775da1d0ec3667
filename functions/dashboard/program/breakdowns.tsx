import { campaignNames } from '../../../lib/tracking/campaign.ts'
import type { BreakdownName, BreakdownRow, ChartMetric, Overview } from '../../../lib/tracking/overview.ts'
import { ratio } from '../../../lib/tracking/performance-answer.ts'
import { Card } from '../components/blocks.tsx'
import { breakdownTexts, nameOfValue } from '../components/breakdown-names.ts'
import { formatNumber } from '../components/format.tsx'

/** Breakdowns that many programs don't use. The page shows them only if they have a value. */
const rare: readonly BreakdownName[] = ['code', ...campaignNames]

interface BreakdownsProps {
  names: BreakdownName[]
  overview: Overview
  format: (value: number) => string
  /** Checks whether a breakdown has a filter, and builds the address with one more filter. */
  isFilter: (name: BreakdownName) => boolean
  addressWith: (name: BreakdownName, value: string) => string
  /** The address of the list of all partners. */
  allPartners: string
}

/** The top values by this metric. Each value links to the page filtered by it. */
export function Breakdowns({ names, overview, format, isFilter, addressWith, allPartners }: BreakdownsProps) {
  const { metric } = overview
  return (
    <div class="halves">
      {names
        .filter((name) => !isFilter(name))
        .filter((name) => !rare.includes(name) || overview.breakdowns[name].rows.some(({ value }) => value !== null))
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
                <p class="muted small">None in this period.</p>
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
