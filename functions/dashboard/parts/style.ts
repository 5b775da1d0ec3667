const css = String.raw

/** The design system: tokens first, then the few parts that pages are made of. */
export const style = css`
  :root {
    color-scheme: light dark;
    --page: light-dark(#f6f6f4, #111214);
    --surface: light-dark(#ffffff, #191b1f);
    --sunken: light-dark(#efeeeb, #0c0d0f);
    --line: light-dark(#dfddd8, #2d3036);
    --strong-line: light-dark(#8b8881, #70747d);
    --soft-line: light-dark(#c9c6bf, #43474f);
    --text: light-dark(#1b1a18, #ececea);
    --muted: light-dark(#5c5953, #a6a8ae);
    --accent: light-dark(#3049d8, #96a6ff);
    --on-accent: light-dark(#ffffff, #0d1130);
    --accent-soft: light-dark(#e9ecfd, #232a4d);
    --good: light-dark(#0b6b41, #62d6a0);
    --good-soft: light-dark(#dff3e8, #12311f);
    --warn: light-dark(#80510a, #f1bf66);
    --warn-soft: light-dark(#fbeed3, #392a0d);
    --bad: light-dark(#a9231b, #ff9990);
    --bad-soft: light-dark(#fde5e2, #43191a);
    --small: 0.8125rem;
    --huge: 1.625rem;
    --gap: 1rem;
    --radius: 0.625rem;
    --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace;
  }

  * {
    box-sizing: border-box;
  }
  html {
    -webkit-text-size-adjust: 100%;
    text-size-adjust: 100%;
  }
  body {
    margin: 0;
    background: var(--page);
    color: var(--text);
    font:
      0.9375rem / 1.5 system-ui,
      -apple-system,
      'Segoe UI',
      Roboto,
      'Helvetica Neue',
      'Liberation Sans',
      Arial,
      sans-serif;
  }
  h1,
  h2,
  h3,
  p,
  ul,
  ol,
  dl,
  dd,
  figure {
    margin: 0;
    padding: 0;
  }
  h1 {
    font-size: var(--huge);
    line-height: 1.2;
    letter-spacing: -0.015em;
  }
  h2 {
    font-size: 1.0625rem;
    line-height: 1.3;
  }
  h3 {
    font-size: 0.9375rem;
  }
  a {
    color: var(--accent);
    text-underline-offset: 0.2em;
  }
  code,
  pre {
    font-family: var(--mono);
    font-size: var(--small);
  }
  :focus-visible {
    outline: 2px solid var(--accent);
    outline-offset: 2px;
    border-radius: 4px;
  }
  .skip {
    position: absolute;
    left: -999rem;
  }
  .skip:focus {
    left: 1rem;
    top: 0.5rem;
    z-index: 2;
    padding: 0.5rem 0.75rem;
    background: var(--surface);
  }
  .hidden {
    position: absolute;
    width: 1px;
    height: 1px;
    overflow: hidden;
    clip-path: inset(50%);
    white-space: nowrap;
  }
  .muted {
    color: var(--muted);
  }
  .small {
    font-size: var(--small);
  }
  .number {
    font-variant-numeric: tabular-nums;
    white-space: nowrap;
  }
  .good {
    color: var(--good);
  }
  .bad {
    color: var(--bad);
  }

  /* Rows and columns of things with the one gap. */
  .stack {
    display: grid;
    grid-template-columns: minmax(0, 1fr);
    gap: var(--gap);
    align-content: start;
  }
  .stack.tight {
    gap: 0.375rem;
  }
  .stack.loose {
    gap: 1.5rem;
  }
  .row {
    display: flex;
    flex-wrap: wrap;
    gap: 0.5rem;
    align-items: center;
  }
  .row > * {
    min-width: 0;
    max-width: 100%;
  }
  .row.apart {
    justify-content: space-between;
    gap: 0.75rem var(--gap);
  }
  .row.end {
    align-items: end;
  }
  .cards {
    display: grid;
    gap: var(--gap);
    grid-template-columns: repeat(auto-fill, minmax(min(9.25rem, 100%), 1fr));
  }
  .halves {
    display: grid;
    gap: var(--gap);
    grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr));
    align-items: start;
  }

  /* The frame. */
  .frame {
    min-height: 100vh;
  }
  .frame > aside {
    background: var(--surface);
    border-bottom: 1px solid var(--line);
    padding: 0.75rem 1rem 0;
  }
  .brand {
    display: inline-flex;
    align-items: center;
    gap: 0.5rem;
    font-weight: 650;
    color: var(--text);
    text-decoration: none;
  }
  .brand svg {
    width: 1.375rem;
    height: 1.375rem;
    color: var(--accent);
  }
  .frame nav ul {
    position: relative;
    list-style: none;
    display: flex;
    gap: 0.25rem;
    overflow-x: auto;
    margin: 0.5rem -1rem 0;
    padding: 0 1rem 0.5rem;
    scrollbar-width: thin;
  }
  .frame nav a {
    display: flex;
    align-items: center;
    justify-content: space-between;
    gap: 0.5rem;
    padding: 0.4375rem 0.625rem;
    border-radius: 0.4375rem;
    color: var(--muted);
    text-decoration: none;
    white-space: nowrap;
  }
  .frame nav a:hover {
    background: var(--sunken);
    color: var(--text);
  }
  .frame nav a[aria-current='page'] {
    background: var(--accent-soft);
    color: var(--accent);
    font-weight: 600;
  }
  .frame main {
    padding: 1.25rem 1rem 4rem;
    max-width: 76rem;
    width: 100%;
    margin: 0 auto;
    min-width: 0;
  }
  .switcher {
    position: relative;
  }
  .switcher summary {
    list-style: none;
    cursor: pointer;
    display: flex;
    align-items: center;
    justify-content: space-between;
    gap: 0.5rem;
    padding: 0.4375rem 0.625rem;
    border: 1px solid var(--line);
    border-radius: 0.4375rem;
    max-width: 100%;
  }
  .switcher summary::-webkit-details-marker {
    display: none;
  }
  .switcher summary > span {
    overflow: hidden;
    text-overflow: ellipsis;
    white-space: nowrap;
  }
  .switcher summary::after {
    content: '';
    flex: none;
    width: 0.4375rem;
    height: 0.4375rem;
    margin-top: -0.1875rem;
    border: solid var(--muted);
    border-width: 0 1.5px 1.5px 0;
    rotate: 45deg;
  }
  .menu {
    position: absolute;
    z-index: 1;
    inset-inline-end: 0;
    margin-top: 0.25rem;
    min-width: min(15rem, 80vw);
    max-height: 70vh;
    overflow: auto;
    padding: 0.375rem;
    display: grid;
    background: var(--surface);
    border: 1px solid var(--line);
    border-radius: var(--radius);
    box-shadow: 0 0.5rem 1.5rem rgb(0 0 0 / 0.18);
  }
  .menu a,
  .menu button {
    padding: 0.4375rem 0.625rem;
    border-radius: 0.375rem;
    border: 0;
    background: none;
    color: var(--text);
    font: inherit;
    justify-content: start;
    text-align: start;
    text-decoration: none;
    overflow-wrap: anywhere;
    cursor: pointer;
  }
  .menu a:hover,
  .menu button:hover {
    background: var(--sunken);
  }
  .menu hr {
    border: 0;
    border-top: 1px solid var(--line);
    margin: 0.375rem 0;
    width: 100%;
  }
  form.menu {
    padding: 0.75rem;
    width: min(20rem, 80vw);
    text-align: start;
    white-space: normal;
  }
  form.menu button {
    justify-content: center;
    border: 1px solid var(--bad);
    color: var(--bad);
  }
  .switcher summary.compact {
    padding: 0.1875rem 0.625rem;
    min-height: 1.875rem;
    font-size: var(--small);
    font-weight: 500;
    border-color: var(--soft-line);
  }
  .menu .label {
    padding: 0.375rem 0.625rem 0.125rem;
  }
  @media (min-width: 60rem) {
    .frame {
      display: grid;
      grid-template-columns: 15rem minmax(0, 1fr);
    }
    .frame > aside {
      position: sticky;
      top: 0;
      height: 100vh;
      overflow-y: auto;
      border-bottom: 0;
      border-inline-end: 1px solid var(--line);
      padding: 1.25rem 0.875rem;
      display: flex;
      flex-direction: column;
      gap: var(--gap);
    }
    .frame > aside > .row {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: var(--gap);
    }
    .frame nav ul {
      display: grid;
      gap: 0.125rem;
      margin: 0;
      padding: 0;
      overflow: visible;
    }
    .frame main {
      padding: 2rem 2.5rem 5rem;
    }
    .frame > aside .menu {
      inset-inline: 0 auto;
      min-width: 100%;
    }
  }
  .centre {
    min-height: 100vh;
    display: grid;
    align-content: center;
    justify-items: center;
    gap: 1.5rem;
    padding: 2rem 1rem;
  }
  .centre > main {
    width: min(25rem, 100%);
  }

  /* Surfaces. */
  .card {
    background: var(--surface);
    border: 1px solid var(--line);
    border-radius: var(--radius);
    padding: 1.125rem;
    min-width: 0;
  }
  .metric {
    display: grid;
    gap: 0.25rem;
    padding: 0.875rem 1rem;
    align-content: start;
  }
  .metric dt {
    color: var(--muted);
    font-size: var(--small);
  }
  .metric dd.value {
    font-size: 1.375rem;
    line-height: 1.25;
    font-weight: 620;
    letter-spacing: -0.01em;
    font-variant-numeric: tabular-nums;
    overflow-wrap: anywhere;
  }
  .metric dd.trend {
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
  .notice {
    border-radius: var(--radius);
    padding: 0.75rem 1rem;
    border: 1px solid var(--line);
    background: var(--surface);
  }
  .notice.good {
    background: var(--good-soft);
    border-color: transparent;
  }
  .notice.bad {
    background: var(--bad-soft);
    border-color: transparent;
  }
  .notice.warn {
    background: var(--warn-soft);
    color: var(--warn);
    border-color: transparent;
  }
  .empty {
    display: grid;
    justify-items: center;
    gap: 0.5rem;
    padding: 2.5rem 1rem;
    text-align: center;
  }
  .empty p {
    max-width: 32rem;
    color: var(--muted);
  }
  .badge {
    display: inline-block;
    padding: 0.0625rem 0.5rem;
    border-radius: 1rem;
    font-size: 0.75rem;
    font-weight: 600;
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

  /* Forms. */
  form {
    margin: 0;
  }
  .field {
    display: grid;
    gap: 0.25rem;
    align-content: start;
    min-width: 0;
  }
  .field > label {
    font-size: var(--small);
    font-weight: 600;
    padding: 0;
  }
  .field .hint {
    font-size: var(--small);
    color: var(--muted);
  }
  .fields {
    display: grid;
    gap: var(--gap);
    grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr));
  }
  input:not([type='checkbox'], [type='radio']),
  select {
    font: inherit;
    color: inherit;
    background: var(--surface);
    border: 1px solid var(--strong-line);
    border-radius: 0.4375rem;
    padding: 0.4375rem 0.625rem;
    width: 100%;
    min-width: 0;
    min-height: 2.375rem;
  }
  input[aria-invalid='true'] {
    border-color: var(--bad);
  }
  .inline input:not([type='checkbox'], [type='radio']),
  .inline select {
    width: auto;
  }
  button,
  .button {
    display: inline-flex;
    align-items: center;
    justify-content: center;
    gap: 0.375rem;
    min-height: 2.375rem;
    padding: 0.375rem 0.875rem;
    border-radius: 0.4375rem;
    border: 1px solid var(--soft-line);
    background: var(--surface);
    color: var(--text);
    font: inherit;
    font-weight: 500;
    text-decoration: none;
    cursor: pointer;
    white-space: nowrap;
  }
  button:hover,
  .button:hover {
    background: var(--sunken);
  }
  .primary {
    background: var(--accent);
    border-color: var(--accent);
    color: var(--on-accent);
  }
  .primary:hover {
    background: color-mix(in oklab, var(--accent) 88%, var(--text));
  }
  .danger {
    color: var(--bad);
    border-color: var(--bad);
  }
  .compact {
    min-height: 1.875rem;
    padding: 0.1875rem 0.625rem;
    font-size: var(--small);
  }
  .wide-button {
    width: 100%;
  }
  .segments {
    display: inline-flex;
    max-width: 100%;
    overflow-x: auto;
    border: 1px solid var(--line);
    border-radius: 0.5rem;
    background: var(--surface);
    padding: 0.1875rem;
    gap: 0.125rem;
  }
  .segments a {
    padding: 0.25rem 0.6875rem;
    border-radius: 0.375rem;
    color: var(--muted);
    text-decoration: none;
    white-space: nowrap;
    font-size: var(--small);
    font-weight: 550;
  }
  .segments a:hover {
    color: var(--text);
  }
  .segments a[aria-current] {
    background: var(--accent-soft);
    color: var(--accent);
  }
  details.more > summary {
    cursor: pointer;
    color: var(--accent);
    font-weight: 550;
    width: fit-content;
  }
  details.more[open] > summary {
    margin-bottom: 0.75rem;
  }
  .copy {
    display: flex;
    gap: 0.5rem;
    align-items: start;
    min-width: 0;
  }
  .copy > code,
  .copy > pre {
    flex: 1;
    min-width: 0;
    margin: 0;
    padding: 0.4375rem 0.625rem;
    border-radius: 0.4375rem;
    background: var(--sunken);
    overflow-x: auto;
    white-space: pre;
  }
  .copy > button {
    flex: none;
    min-height: 2.125rem;
  }

  /* Tables, which become cards where there is no room for columns. */
  table {
    width: 100%;
    border-collapse: collapse;
  }
  caption {
    text-align: start;
  }
  th {
    text-align: start;
    font-size: var(--small);
    font-weight: 600;
    color: var(--muted);
    padding: 0.375rem 0.625rem;
    white-space: nowrap;
  }
  td {
    padding: 0.5625rem 0.625rem;
    border-top: 1px solid var(--line);
    vertical-align: top;
    overflow-wrap: anywhere;
  }
  th:first-child,
  td:first-child {
    padding-inline-start: 0;
  }
  th:last-child,
  td:last-child {
    padding-inline-end: 0;
  }
  th.right,
  td.right {
    text-align: end;
  }
  td.right {
    font-variant-numeric: tabular-nums;
    white-space: nowrap;
  }
  td .row.right {
    justify-content: end;
    flex-wrap: nowrap;
  }
  @media (max-width: 44rem) {
    table.cards-on-phone thead {
      position: absolute;
      width: 1px;
      height: 1px;
      overflow: hidden;
      clip-path: inset(50%);
    }
    table.cards-on-phone,
    table.cards-on-phone tbody,
    table.cards-on-phone tr,
    table.cards-on-phone td {
      display: block;
      width: 100%;
    }
    table.cards-on-phone tr {
      padding: 0.75rem 0;
      border-top: 1px solid var(--line);
    }
    table.cards-on-phone tr:first-child {
      border-top: 0;
    }
    table.cards-on-phone td {
      display: flex;
      justify-content: space-between;
      gap: 1rem;
      border: 0;
      padding: 0.1875rem 0;
      text-align: end;
      white-space: normal;
    }
    table.cards-on-phone td::before {
      content: attr(data-label);
      flex: none;
      color: var(--muted);
      font-size: var(--small);
      text-align: start;
    }
    table.cards-on-phone td[data-label='']::before {
      content: none;
    }
    table.cards-on-phone td > .row {
      justify-content: end;
      flex-wrap: wrap;
    }
    table.cards-on-phone td > .row.right {
      justify-content: start;
    }
    td details.switcher[open] {
      width: 100%;
    }
    td .switcher summary {
      width: fit-content;
    }
    td form.menu {
      position: static;
      width: 100%;
      box-shadow: none;
    }
  }

  /* The chart. */
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
