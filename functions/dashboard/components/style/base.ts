const css = String.raw

/** The tokens, then styles of plain elements, then utility classes. */
export const base = css`
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
`
