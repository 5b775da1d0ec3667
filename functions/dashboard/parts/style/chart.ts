const css = String.raw

/** The chart, and what waits. */
export const chart = css`
  .chart .plot {
    display: grid;
    grid-template-columns: auto minmax(0, 1fr);
    gap: 0.625rem;
    height: 12rem;
  }
  .chart .scale {
    display: flex;
    flex-direction: column;
    justify-content: space-between;
    align-items: end;
    margin: -0.5rem 0;
    min-width: 2.5rem;
  }
  .chart .scale,
  .chart .axis {
    font-size: 0.75rem;
    color: var(--muted);
    font-variant-numeric: tabular-nums;
  }
  .chart svg {
    display: block;
    width: 100%;
    height: 100%;
  }
  .chart .grid {
    stroke: var(--line);
    stroke-width: 1;
    vector-effect: non-scaling-stroke;
  }
  .chart .bar {
    fill: var(--accent);
    opacity: 0.72;
  }
  .chart g:hover .bar {
    opacity: 1;
  }
  .chart .hit {
    fill: transparent;
  }
  .chart g:hover .hit {
    fill: var(--accent-soft);
  }
  .chart .axis {
    display: flex;
    justify-content: space-between;
    padding-inline-start: 3.125rem;
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
