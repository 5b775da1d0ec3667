const css = String.raw

/** The frame of a page: brand, navigation and the program menu. */
export const frame = css`
  .frame {
    min-height: 100vh;
  }
  .frame > aside {
    background: var(--sunken);
    border-bottom: 1px solid var(--line);
    padding: 0.75rem 1rem;
  }
  .frame nav ul {
    list-style: none;
    display: grid;
    gap: 0.125rem;
    margin: 0;
    padding: 0;
  }
  .frame nav .group {
    padding: 0.75rem 0.625rem 0.25rem;
    font-size: var(--tiny);
    font-weight: 600;
    color: var(--muted);
  }
  .frame nav .group:empty {
    padding: 0.25rem 0 0;
  }
  /* On phones, the navigation is four tabs at the bottom. "More" opens all entries above the tabs. */
  .frame nav[popover] {
    inset: auto 0.5rem 4rem;
    width: auto;
    max-height: 70vh;
    padding: 0.5rem;
    border: 1px solid var(--line);
    border-radius: var(--radius);
    background: var(--surface);
    color: var(--text);
  }
  .frame .tabs {
    position: fixed;
    inset: auto 0 0;
    z-index: 1;
    border-top: 1px solid var(--line);
    background: var(--surface);
  }
  .frame .tabs ul {
    grid-auto-flow: column;
    grid-auto-columns: 1fr;
  }
  .frame .tabs :is(a, button) {
    width: 100%;
    flex-direction: column;
    justify-content: center;
    gap: 0.125rem;
    padding: 0.5rem 0.25rem;
    border: 0;
    background: none;
    color: var(--muted);
    font-size: var(--tiny);
  }
  .icon {
    flex: none;
    width: 1rem;
    height: 1rem;
    fill: none;
    stroke: currentColor;
    stroke-width: 2;
    stroke-linecap: round;
    stroke-linejoin: round;
  }
  .frame nav a {
    display: flex;
    align-items: center;
    gap: 0.5rem;
    padding: 0.375rem 0.625rem;
    border-radius: var(--corner);
    color: var(--muted);
    text-decoration: none;
    white-space: nowrap;
  }
  .frame :is([popover], .tabs, .queue) a:hover,
  .frame nav a[aria-current='page'] {
    background: var(--line);
    color: var(--text);
  }
  .frame nav a[aria-current='page'] {
    font-weight: 600;
  }
  .frame main {
    padding: 1.25rem 1rem 6rem;
    max-width: 80rem;
    width: 100%;
    margin: 0 auto;
    min-width: 0;
  }
  .frame nav .badge {
    margin-inline-start: auto;
  }
  .search-link {
    justify-content: start;
    color: var(--muted);
    font-weight: 400;
  }
  .search-link kbd {
    margin-inline-start: auto;
  }
  @media (pointer: coarse) {
    .search-link kbd {
      display: none;
    }
  }
  .results {
    list-style: none;
  }
  .results a {
    display: flex;
    justify-content: space-between;
    gap: 0.75rem;
    padding: 0.375rem 0.625rem;
    border-radius: var(--corner);
    color: var(--text);
    text-decoration: none;
  }
  .results a:is(:hover, :focus-visible) {
    background: var(--accent-soft);
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
    border-radius: var(--corner);
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
    z-index: 4;
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
    box-shadow: var(--shadow);
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
  .menu :is(button, a).bad {
    color: var(--bad);
  }
  .menu .check::before {
    content: '';
    display: inline-block;
    width: 1.25rem;
  }
  .menu .check[aria-current]::before {
    content: '✓' / 'shown:';
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
    padding: 0.125rem 0.5rem;
    min-height: 1.75rem;
    font-size: var(--tiny);
    font-weight: 550;
    border-color: var(--soft-line);
  }
  .bulk .switcher summary {
    padding: 0.125rem 0.5rem;
    font-size: var(--tiny);
  }
  .switcher summary.button {
    min-height: var(--control);
    padding: 0.25rem 0.75rem;
  }
  .switcher summary.primary::after {
    border-color: currentColor;
  }
  .menu.panel {
    width: min(26rem, 88vw);
    padding: 1rem;
  }
  .menu.panel button {
    justify-content: center;
    border: 1px solid var(--soft-line);
  }
  .menu.panel button.primary {
    background: var(--button);
    color: var(--on-button);
  }
  .stack > .switcher {
    justify-self: start;
  }
  td > .switcher {
    width: fit-content;
    margin-inline-start: auto;
  }
  .stack > .switcher > .menu {
    inset-inline: 0 auto;
  }
  .row-menu {
    display: inline-block;
  }
  .switcher.row-menu > summary {
    padding: 0.3125rem;
    border-color: transparent;
    color: var(--muted);
  }
  .row-menu[open] > summary,
  .row-menu > summary:hover {
    border-color: var(--soft-line);
    color: var(--text);
  }
  .row-menu > summary::after {
    content: none;
  }
  .row-menu .menu {
    min-width: 11rem;
    text-align: start;
    white-space: nowrap;
  }
  .row-menu .menu :is(a, button) {
    width: 100%;
    min-height: 0;
    font-size: var(--small);
    font-weight: 450;
  }
  .row-menu .menu .switcher {
    position: static;
  }
  .row-menu .menu .switcher > summary {
    justify-content: start;
    padding: 0.375rem 0.625rem;
    border: 0;
    font-size: var(--small);
    font-weight: 450;
  }
  .row-menu .menu .switcher > summary:hover {
    background: var(--sunken);
  }
  .row-menu .menu .switcher > .menu {
    position: static;
    padding: 0.375rem 0.625rem;
    border: 0;
    box-shadow: none;
  }
  .crumb {
    font-size: var(--small);
    color: var(--muted);
    text-decoration: none;
  }
  .crumb:hover {
    text-decoration: underline;
  }
  .menu.views ul {
    display: grid;
    gap: 0.25rem;
    margin: 0 0 0.75rem;
    padding: 0;
    list-style: none;
  }
  .menu.views a {
    flex: 1;
  }
  .menu .label {
    padding: 0.375rem 0.625rem 0.125rem;
  }
  @media (min-width: 60rem) {
    .frame {
      display: grid;
      grid-template-columns: 14rem minmax(0, 1fr);
    }
    .frame > aside {
      position: sticky;
      top: 0;
      height: 100vh;
      overflow-y: auto;
      border-bottom: 0;
      border-inline-end: 1px solid var(--line);
      padding: 1rem 0.75rem;
      display: flex;
      flex-direction: column;
      gap: var(--gap);
    }
    .frame > aside > .row {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: var(--gap);
    }
    .frame nav[popover] {
      display: block;
      position: static;
      flex: none;
      max-height: none;
      margin: 0;
      padding: 0;
      border: 0;
      background: none;
      overflow: visible;
    }
    .frame nav ul {
      grid-template-columns: minmax(0, 1fr);
    }
    .frame nav a {
      padding-block: 0.25rem;
      white-space: normal;
      overflow-wrap: anywhere;
      hyphens: auto;
    }
    .frame .tabs {
      display: none;
    }
    .frame main {
      padding: 1.5rem 2rem 5rem;
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
  .plain ul {
    padding-inline-start: 1.25rem;
  }
  .logo {
    height: 2rem;
    max-width: 8rem;
    width: auto;
    object-fit: contain;
  }
  .centre.wide {
    align-content: start;
  }
  .centre.wide > main {
    width: min(60rem, 100%);
  }
  .centre.wide h1 {
    font-size: 1.75rem;
  }
  .join {
    display: grid;
    gap: 1.5rem;
    align-items: start;
  }
  .rate {
    font-size: var(--huge);
    font-weight: 620;
    line-height: 1.25;
  }
  @media (min-width: 50rem) {
    .join {
      grid-template-columns: minmax(0, 1fr) 25rem;
      grid-template-rows: repeat(2, auto) 1fr;
      column-gap: 3rem;
    }
    .join > :nth-child(2) {
      grid-area: 1 / 2 / span 3;
    }
  }
`
