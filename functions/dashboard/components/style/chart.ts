const css = String.raw

/** The chart, sparklines, the funnel and breakdowns. */
export const chart = css`
  .chart .plot {
    display: grid;
    grid-template: 13rem 1.25rem / auto minmax(0, 1fr);
    gap: 0.375rem 0.625rem;
  }
  .chart .scale {
    display: flex;
    flex-direction: column;
    justify-content: space-between;
    align-items: end;
    margin: -0.5rem 0;
    min-width: 2.5rem;
  }
  .chart .scale > :only-child {
    margin-top: auto;
  }
  .chart .scale,
  .chart .axis {
    font-size: var(--tiny);
    color: var(--muted);
    font-variant-numeric: tabular-nums;
    white-space: nowrap;
  }
  .chart .area {
    position: relative;
    min-width: 0;
  }
  .chart .area > svg {
    position: absolute;
    inset: 0;
    width: 100%;
    height: 100%;
    overflow: visible;
  }
  .chart path,
  .chart .grid {
    fill: none;
    vector-effect: non-scaling-stroke;
  }
  .chart .grid {
    stroke: var(--line);
  }
  .chart .line,
  .chart .before {
    stroke-width: 2;
    stroke-linejoin: round;
    stroke-linecap: round;
  }
  .chart .line {
    stroke: var(--accent);
  }
  .chart .line.open {
    stroke-dasharray: 1 5;
  }
  .chart .before {
    stroke: var(--strong-line);
    stroke-width: 1.5;
    stroke-dasharray: 4 4;
  }
  .chart .fill {
    fill: var(--accent);
    opacity: 0.1;
  }
  .chart .points {
    position: absolute;
    inset: 0;
    display: grid;
    grid-auto-flow: column;
    grid-auto-columns: minmax(0, 1fr);
    overflow-x: clip;
  }
  .chart .points label {
    position: relative;
  }
  .chart .points input {
    position: absolute;
    inset: 0;
    width: 100%;
    height: 100%;
    margin: 0;
    opacity: 0;
    cursor: crosshair;
  }
  .chart .points span {
    opacity: 0;
    position: absolute;
    z-index: 1;
    top: 0.25rem;
    inset-inline-start: calc(50% + 0.5rem);
    padding: 0.375rem 0.625rem;
    border: 1px solid var(--line);
    border-radius: var(--corner);
    background: var(--surface);
    box-shadow: var(--shadow);
    font-size: var(--small);
    font-variant-numeric: tabular-nums;
    white-space: nowrap;
    pointer-events: none;
  }
  .chart .points .late span {
    inset-inline: auto calc(50% + 0.5rem);
  }
  .chart .points b,
  .chart .points i {
    display: block;
    font-style: normal;
  }
  .chart .points i {
    color: var(--muted);
  }
  .chart .points label:is(:hover, :focus-within, :has(:checked)) span {
    opacity: 1;
  }
  .chart .points:hover label:not(:hover) span {
    opacity: 0;
  }
  .chart .points label:is(:hover, :focus-within, :has(:checked))::before {
    content: '';
    position: absolute;
    inset-block: 0;
    inset-inline-start: 50%;
    border-inline-start: 1px solid var(--strong-line);
  }
  .chart .points label:focus-within::before {
    border-inline-start: 2px solid var(--accent);
  }
  .chart .points:hover label:not(:hover)::before {
    content: none;
  }
  .chart .nothing {
    position: absolute;
    inset: 0 0 50%;
    display: grid;
    place-items: center;
    pointer-events: none;
  }
  .chart .axis {
    grid-column: 2;
    width: 100%;
    height: 1.25rem;
    overflow: visible;
  }
  .chart .axis text {
    fill: currentColor;
    text-anchor: middle;
  }
  .chart .legend {
    display: flex;
    flex-wrap: wrap;
    gap: 0.25rem 1rem;
  }
  .chart .legend span::before {
    content: '';
    display: inline-block;
    width: 1.25rem;
    margin-inline-end: 0.375rem;
    vertical-align: middle;
    border-top: 2px solid var(--accent);
  }
  .chart .legend .then::before {
    border-top: 2px dashed var(--strong-line);
  }
  @media (max-width: 44rem) {
    .chart .axis .odd {
      display: none;
    }
  }
  .sparkline {
    display: block;
    width: 100%;
    height: 1.75rem;
  }
  td .sparkline {
    width: 5rem;
    height: 1.25rem;
  }
  .sparkline path {
    fill: none;
    vector-effect: non-scaling-stroke;
  }
  .sparkline .line {
    stroke: var(--accent);
    stroke-width: 1.5;
    stroke-linejoin: round;
  }
  .sparkline .fill {
    fill: var(--accent);
    opacity: 0.1;
  }
  .main-and-side {
    display: grid;
    gap: var(--gap);
  }
  @media (min-width: 64rem) {
    .main-and-side {
      grid-template-columns: minmax(0, 3fr) minmax(0, 1fr);
    }
  }
  .funnel {
    display: grid;
    gap: var(--gap);
    list-style: none;
  }
  .funnel li {
    display: flex;
    flex-wrap: wrap;
    justify-content: space-between;
    gap: 0.25rem;
    font-size: var(--small);
    font-variant-numeric: tabular-nums;
  }
  .funnel svg {
    width: 100%;
    height: 1rem;
  }
  .funnel rect {
    fill: var(--accent);
  }
  .needs {
    display: flex;
    flex-wrap: wrap;
    gap: 0.25rem 1rem;
  }
  .needs ul {
    display: contents;
    list-style: none;
  }
  .needs a {
    color: inherit;
  }
  .breakdown {
    display: grid;
    gap: 0.125rem;
    margin: 0;
    padding: 0;
    list-style: none;
    font-size: var(--small);
  }
  .breakdown li > * {
    position: relative;
    display: flex;
    justify-content: space-between;
    gap: 0.75rem;
    padding: 0.3125rem 0.5rem;
    border-radius: 0.375rem;
    overflow: hidden;
    color: var(--text);
    text-decoration: none;
  }
  .breakdown a:hover {
    background: var(--sunken);
  }
  .breakdown a:hover span:first-of-type {
    text-decoration: underline;
  }
  .breakdown svg {
    position: absolute;
    inset: 0;
    width: 100%;
    height: 100%;
  }
  .breakdown rect {
    fill: var(--accent-soft);
  }
  .breakdown span {
    position: relative;
    min-width: 0;
    overflow: hidden;
    text-overflow: ellipsis;
    white-space: nowrap;
  }
  .breakdown span:last-child {
    flex: none;
    font-variant-numeric: tabular-nums;
  }
  .chip {
    display: inline-flex;
    align-items: center;
    gap: 0.5rem;
    max-width: 100%;
    padding: 0.1875rem 0.625rem;
    border-radius: 1rem;
    background: var(--accent-soft);
    color: var(--accent);
    font-size: var(--small);
    font-weight: 550;
    text-decoration: none;
    overflow-wrap: anywhere;
  }
  .chip::after {
    content: '×';
    font-size: 1.125em;
    line-height: 1;
  }
  .chip:hover {
    text-decoration: underline;
  }
  .bullets {
    display: grid;
    gap: 0.25rem;
    margin: 0;
    padding-inline-start: 1.25rem;
  }
  .terms {
    display: grid;
    grid-template-columns: max-content minmax(0, 1fr);
    gap: 0.25rem 1rem;
    max-width: 44rem;
  }
  .terms dt {
    font-weight: 600;
  }
  .scroll-y {
    max-height: 16rem;
    overflow-y: auto;
  }
  @media (prefers-reduced-motion: no-preference) {
    .waiting::before {
      animation: pulse 1.6s ease-in-out infinite;
    }
    @keyframes pulse {
      50% {
        opacity: 0.25;
      }
    }
  }
  .waiting {
    display: flex;
    align-items: center;
    gap: 0.5rem;
  }
  .waiting::before {
    content: '';
    flex: none;
    width: 0.625rem;
    height: 0.625rem;
    border-radius: 50%;
    background: var(--accent);
  }
`
