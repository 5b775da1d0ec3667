const css = String.raw

export const style = css`
  :root {
    color-scheme: light dark;
    --page: light-dark(#ffffff, #111214);
    --sunken: light-dark(#f4f3f0, #1a1c20);
    --line: light-dark(#dfddd8, #2d3036);
    --text: light-dark(#1b1a18, #ececea);
    --muted: light-dark(#5c5953, #a6a8ae);
    --accent: light-dark(#3049d8, #96a6ff);
    --get: light-dark(#0b6b41, #62d6a0);
    --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace;
  }
  * {
    box-sizing: border-box;
  }
  html {
    scroll-padding-top: 1rem;
    -webkit-text-size-adjust: 100%;
    text-size-adjust: 100%;
  }
  body {
    margin: 0;
    display: grid;
    grid-template-columns: 17rem minmax(0, 1fr);
    background: var(--page);
    color: var(--text);
    font:
      0.9375rem / 1.55 system-ui,
      -apple-system,
      'Segoe UI',
      Roboto,
      'Liberation Sans',
      Arial,
      sans-serif;
  }
  nav {
    position: sticky;
    top: 0;
    height: 100vh;
    overflow: auto;
    padding: 1.5rem 1rem;
    border-right: 1px solid var(--line);
    background: var(--sunken);
  }
  nav ul {
    list-style: none;
    margin: 1rem 0 0;
    padding: 0;
  }
  nav a {
    display: block;
    padding: 0.35rem 0.5rem;
    border-radius: 0.375rem;
    color: var(--text);
    text-decoration: none;
  }
  nav a:hover {
    background: var(--line);
  }
  nav a[aria-current] {
    font-weight: 650;
    background: var(--line);
  }
  input[type='search'] {
    width: 100%;
    padding: 0.45rem 0.6rem;
    border: 1px solid var(--muted);
    border-radius: 0.375rem;
    background: var(--page);
    color: var(--text);
    font: inherit;
  }
  .anchor {
    color: var(--muted);
    text-decoration: none;
    opacity: 0;
  }
  :is(h2, h3):hover .anchor,
  .anchor:focus-visible {
    opacity: 1;
  }
  figure {
    margin: 1rem 0;
  }
  figcaption {
    color: var(--muted);
    font: 0.8125rem var(--mono);
  }
  pre code {
    padding: 0;
    background: none;
    overflow-wrap: normal;
  }
  .home {
    font-weight: 650;
  }
  main {
    max-width: 60rem;
    padding: 1.5rem clamp(1rem, 4vw, 3rem) 6rem;
  }
  section {
    margin-top: 3rem;
    padding-top: 2rem;
    border-top: 1px solid var(--line);
  }
  h1 {
    font-size: 1.75rem;
    margin: 0 0 1rem;
  }
  h2 {
    font-size: 1.3rem;
    margin: 0 0 0.5rem;
  }
  h3 {
    font-size: 1rem;
    margin: 1.5rem 0 0.5rem;
  }
  a {
    color: var(--accent);
  }
  :focus-visible {
    outline: 2px solid var(--accent);
    outline-offset: 2px;
  }
  code,
  pre {
    font-family: var(--mono);
    font-size: 0.8125rem;
  }
  code {
    overflow-wrap: anywhere;
    padding: 0.1em 0.3em;
    border-radius: 0.25rem;
    background: var(--sunken);
  }
  td:first-child code {
    overflow-wrap: normal;
    white-space: nowrap;
  }
  pre {
    margin: 0.5rem 0;
    padding: 0.75rem 1rem;
    overflow: auto;
    border: 1px solid var(--line);
    border-radius: 0.5rem;
    background: var(--sunken);
  }
  .method {
    font: 600 0.6875rem var(--mono);
    color: var(--accent);
  }
  .method.get {
    color: var(--get);
  }
  .auth,
  .status,
  .required,
  caption {
    color: var(--muted);
  }
  .required {
    font-size: 0.75rem;
  }
  .table {
    overflow-x: auto;
    margin: 1rem 0;
  }
  table {
    border-collapse: collapse;
    width: 100%;
    min-width: 32rem;
  }
  caption {
    text-align: left;
    font-weight: 600;
    padding-bottom: 0.25rem;
  }
  th,
  td {
    text-align: left;
    vertical-align: top;
    padding: 0.45rem 0.75rem 0.45rem 0;
    border-bottom: 1px solid var(--line);
  }
  summary {
    cursor: pointer;
    padding: 0.35rem 0;
  }
  @media (max-width: 48rem) {
    body {
      display: block;
    }
    nav {
      position: static;
      height: auto;
      border-right: 0;
      border-bottom: 1px solid var(--line);
    }
    nav {
      padding: 0.75rem 1rem;
    }
    table:not(:has(th:nth-child(3))) {
      min-width: 0;
    }
    nav ul {
      display: flex;
      flex-wrap: wrap;
      gap: 0 0.25rem;
      margin-top: 0.5rem;
    }
  }
`
