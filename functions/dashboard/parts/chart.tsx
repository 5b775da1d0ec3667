/** One bar: its first day, and its value as a number and as people read it. */
export interface Bar {
  label: string
  value: number
  text: string
}

const width = 1000
const height = 200

/** The smallest of 1, 2, 4 and 5 times a power of ten that is not below `value`, so that axes end at round numbers. */
function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 4, 5, 10].find((step) => step * power >= value) ?? 10) * power
}

/**
 * Bars over days, drawn on the server. Each bar names its day and value when pointed at, and the same numbers stand in a
 * table for those who do not see the picture.
 */
export function BarChart({ title, bars, format }: { title: string; bars: Bar[]; format: (value: number) => string }) {
  // Four at least, so that the middle of a scale of counts is a whole number.
  const top = niceCeiling(Math.max(...bars.map(({ value }) => value), 4))
  const step = width / Math.max(bars.length, 1)
  const gap = Math.min(step * 0.25, 8)
  const highest = bars.reduce<Bar | undefined>((best, bar) => (best && best.value >= bar.value ? best : bar), undefined)
  return (
    <figure class="chart stack tight">
      <div class="plot">
        <div class="scale" aria-hidden="true">
          <span>{format(top)}</span>
          <span>{format(top / 2)}</span>
          <span>{format(0)}</span>
        </div>
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title} by day${highest && highest.value > 0 ? `, at most ${highest.text} on ${highest.label}` : ': none yet'}`}
        >
          {[0.5, height / 2, height - 0.5].map((y) => (
            <line class="grid" x1="0" x2={width} y1={y} y2={y} />
          ))}
          {bars.map(({ label, value, text }, index) => {
            const tall = (Math.max(value, 0) / top) * height
            return (
              <g>
                <title>{`${label}: ${text}`}</title>
                <rect class="hit" x={index * step} y="0" width={step} height={height} />
                <rect class="bar" x={index * step + gap / 2} y={height - tall} width={step - gap} height={tall} />
              </g>
            )
          })}
        </svg>
      </div>
      <div class="axis" aria-hidden="true">
        <span>{bars[0]?.label}</span>
        <span>{bars.at(-1)?.label}</span>
      </div>
      <details class="more small">
        <summary>As a table</summary>
        <div class="scroll-y" tabindex={0} role="region" aria-label={`${title} by day`}>
          <table>
            <thead>
              <tr>
                <th scope="col">Day</th>
                <th scope="col" class="right">
                  {title}
                </th>
              </tr>
            </thead>
            <tbody>
              {bars.toReversed().map(({ label, text }) => (
                <tr>
                  <td>{label}</td>
                  <td class="right">{text}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  )
}
