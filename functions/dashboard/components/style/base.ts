const css = String.raw

/** The tokens, then styles of plain elements, then utility classes. */
export const base = css`
  :root {
    color-scheme: light dark;
    --page: light-dark(#ffffff, #131417);
    --surface: light-dark(#ffffff, #191b1f);
    --sunken: light-dark(#f5f5f4, #0d0e10);
    --line: light-dark(#e5e4e1, #2b2e34);
    --strong-line: light-dark(#8b8881, #70747d);
    --soft-line: light-dark(#d3d1cc, #3e424a);
    --text: light-dark(#1b1a18, #ececea);
    --muted: light-dark(#5c5953, #a6a8ae);
    --accent: light-dark(#3049d8, #96a6ff);
    --on-accent: light-dark(#ffffff, #0d1130);
    --accent-soft: light-dark(#e9ecfd, #232a4d);
    --button: var(--accent);
    --on-button: var(--on-accent);
    --button-hover: var(--text);
    --good: light-dark(#0b6b41, #62d6a0);
    --good-soft: light-dark(#dff3e8, #12311f);
    --warn: light-dark(#80510a, #f1bf66);
    --warn-soft: light-dark(#fbeed3, #392a0d);
    --bad: light-dark(#a9231b, #ff9990);
    --bad-soft: light-dark(#fde5e2, #43191a);
    --tiny: 0.75rem;
    --small: 0.8125rem;
    --base: 0.875rem;
    --large: 1rem;
    --huge: 1.375rem;
    --gap: 1rem;
    --control: 2rem;
    --radius: 0.5rem;
    --corner: 0.375rem;
    --shadow: 0 0.5rem 1.5rem rgb(0 0 0 / 0.16);
    --sans: 'Inter Variable', system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif;
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
    font: var(--base) / 1.5 var(--sans);
    overflow-wrap: break-word;
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
    font-weight: 620;
    letter-spacing: -0.015em;
  }
  h2 {
    font-size: var(--large);
    line-height: 1.3;
    font-weight: 600;
  }
  h3 {
    font-size: var(--base);
    font-weight: 600;
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
    inset-inline-start: -999rem;
  }
  .skip:focus {
    inset-inline-start: 1rem;
    top: 0.5rem;
    z-index: 2;
    padding: 0.5rem 0.75rem;
    background: var(--surface);
  }
  [hidden] {
    display: none;
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
  .tiny,
  table .small {
    font-size: var(--tiny);
  }
  .lines {
    white-space: pre-line;
    overflow-wrap: anywhere;
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
`
