const css = String.raw

/** Cards, figures, messages, badges and steps. */
export const surfaces = css`
  .card {
    background: var(--surface);
    border: 1px solid var(--line);
    border-radius: var(--radius);
    padding: 1rem;
    min-width: 0;
  }
  /* A table reaches both edges of its card. */
  .card > table {
    margin-inline: -0.375rem;
    width: calc(100% + 0.75rem);
  }
  .metric {
    display: grid;
    gap: 0.125rem;
    padding: 0.75rem 0.875rem;
    align-content: start;
  }
  .metric dt {
    color: var(--muted);
    font-size: var(--small);
  }
  .metric dd.value {
    font-size: 1.25rem;
    line-height: 1.3;
    font-weight: 600;
    letter-spacing: -0.01em;
    font-variant-numeric: tabular-nums;
    white-space: nowrap;
  }
  .metric.long dd.value {
    font-size: var(--large);
  }
  .metric.huge {
    grid-column: span 2;
  }
  @media (max-width: 44rem) {
    .metric.huge {
      grid-column: 1 / -1;
    }
  }
  /* Secondary figures are on one line, without borders. */
  .cards.more .metric {
    border-color: transparent;
    background: var(--sunken);
    padding-block: 0.5rem;
  }
  .cards.more .metric dd.value {
    font-size: var(--large);
  }
  .metric dd.trend {
    overflow-wrap: anywhere;
    font-size: var(--small);
    color: var(--muted);
  }
  .arrow {
    display: inline-block;
    width: 0.5625rem;
    height: 0.5625rem;
    margin-inline-end: 0.25rem;
    background: currentColor;
    clip-path: polygon(50% 8%, 100% 92%, 0 92%);
  }
  .arrow.down {
    rotate: 180deg;
  }
  .message {
    border-radius: var(--radius);
    padding: 0.5rem 0.75rem;
    border: 1px solid var(--line);
    background: var(--surface);
  }
  /* The result of an action floats above the page and lets clicks through. */
  .frame .toast {
    position: fixed;
    z-index: 3;
    inset: auto 1rem 1rem auto;
    display: flex;
    align-items: center;
    gap: 0.75rem;
    max-width: min(28rem, calc(100vw - 2rem));
    box-shadow: var(--shadow);
    pointer-events: none;
  }
  .toast form {
    pointer-events: auto;
  }
  @media (max-width: 60rem) {
    .frame .toast {
      bottom: 4.5rem;
    }
  }
  .message.good {
    background: var(--good-soft);
    border-color: transparent;
  }
  .message.bad {
    background: var(--bad-soft);
    border-color: transparent;
  }
  .message.warn {
    background: var(--warn-soft);
    color: var(--warn);
    border-color: transparent;
  }
  .money-bar {
    display: block;
    width: 100%;
    height: 0.625rem;
    border-radius: var(--corner);
  }
  .money-bar .pending {
    fill: light-dark(#e3a53b, #f1bf66);
  }
  .money-bar .available {
    fill: var(--accent);
  }
  .money-bar .open {
    fill: var(--strong-line);
  }
  .money-bar .paid {
    fill: var(--good);
  }
  /* Apps only scan dark codes on a light background. */
  .qr {
    width: 13rem;
    max-width: 100%;
    padding: 0.75rem;
    border-radius: var(--corner);
    background: #fff;
  }
  .qr svg {
    display: block;
    width: 100%;
    height: auto;
  }
  pre.wrap {
    margin: 0;
    white-space: pre-wrap;
    overflow-wrap: anywhere;
  }
  .break {
    overflow-wrap: anywhere;
  }
  .empty {
    display: grid;
    justify-items: center;
    gap: 0.5rem;
    padding: 2.5rem 1rem;
    text-align: center;
    overflow-wrap: anywhere;
  }
  .empty p {
    max-width: 32rem;
    color: var(--muted);
  }
  .badge {
    display: inline-block;
    padding: 0.0625rem 0.4375rem;
    border-radius: 1rem;
    font-size: var(--tiny);
    font-weight: 550;
    white-space: nowrap;
    background: var(--sunken);
    color: var(--muted);
  }
  .badge.good {
    background: var(--good-soft);
    color: var(--good);
  }
  .badge.warn {
    background: var(--warn-soft);
    color: var(--warn);
  }
  .badge.bad {
    background: var(--bad-soft);
    color: var(--bad);
  }
  .badge.accent {
    background: var(--accent-soft);
    color: var(--accent);
  }
  .progress {
    list-style: none;
    display: flex;
    flex-wrap: wrap;
    gap: 0.375rem 1.25rem;
    margin: 0;
    padding: 0;
    counter-reset: step;
    font-size: var(--small);
  }
  .progress li {
    counter-increment: step;
    color: var(--muted);
  }
  .progress li::before {
    content: counter(step) '. ';
  }
  .progress li.done::before {
    content: '' / 'done: ';
    display: inline-block;
    width: 0.3125rem;
    height: 0.5625rem;
    margin: 0 0.4375rem 0.125rem 0.125rem;
    border: solid var(--good);
    border-width: 0 1.5px 1.5px 0;
    rotate: 45deg;
  }
  .progress li.now {
    color: var(--text);
    font-weight: 600;
  }
  .progress li.now a {
    color: inherit;
  }
  .steps {
    list-style: none;
    counter-reset: step;
    display: grid;
  }
  .steps > li {
    counter-increment: step;
    display: grid;
    grid-template-columns: 1.75rem minmax(0, 1fr);
    gap: 0.25rem 0.75rem;
    padding: 1rem 0;
    border-top: 1px solid var(--line);
  }
  .steps > li:first-child {
    border-top: 0;
  }
  .steps > li > * {
    grid-column: 2;
  }
  .steps > li::before {
    content: counter(step);
    grid-area: 1 / 1;
    display: grid;
    place-items: center;
    width: 1.625rem;
    height: 1.625rem;
    border-radius: 50%;
    font-size: var(--small);
    font-weight: 650;
    background: var(--sunken);
    color: var(--muted);
  }
  .steps > li.done::before {
    content: '' / 'done';
    background: var(--good-soft);
  }
  .steps > li.done::after {
    content: '';
    grid-area: 1 / 1;
    width: 0.375rem;
    height: 0.6875rem;
    margin: 0.3125rem 0 0 0.625rem;
    border: solid var(--good);
    border-width: 0 2px 2px 0;
    rotate: 45deg;
  }
  .steps > li.now::before {
    background: var(--accent);
    color: var(--on-accent);
  }
`
