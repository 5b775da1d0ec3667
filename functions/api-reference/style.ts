import { fontFace } from '../dashboard/components/font-face.ts'
import { base } from '../dashboard/components/style/base.ts'

/** The path of the font, which the documentation serves. */
export const fontPath = '/docs/inter.woff2'

const css = String.raw

/** The tokens and plain elements of the dashboard, then the styles of long texts. */
export const style = css`
  ${fontFace(fontPath)}
  ${base}
  html {
    scroll-padding-top: 1rem;
  }
  body {
    display: grid;
    grid-template-columns: 17rem minmax(0, 1fr);
    background: var(--surface);
  }
  aside {
    position: sticky;
    top: 0;
    height: 100vh;
    overflow: auto;
    padding: 1rem 0.75rem;
    border-inline-end: 1px solid var(--line);
    background: var(--sunken);
  }
  .top {
    display: flex;
    align-items: center;
    justify-content: space-between;
    padding: 0 0.5rem;
  }
  .menu-button {
    display: none;
  }
  nav[popover] {
    display: block;
    position: static;
    width: auto;
    margin: 0;
    padding: 1rem 0 0;
    border: 0;
    background: none;
    color: inherit;
    overflow: visible;
  }
  button {
    min-height: var(--control);
    padding: 0.25rem 0.75rem;
    border: 1px solid var(--soft-line);
    border-radius: var(--corner);
    background: var(--surface);
    color: var(--text);
    font: inherit;
    font-size: var(--small);
    font-weight: 550;
    cursor: pointer;
  }
  button:hover {
    background: var(--sunken);
  }
  nav ul {
    list-style: none;
    margin: 1rem 0 0;
    padding: 0;
  }
  nav a {
    display: block;
    padding: 0.25rem 0.5rem;
    border-radius: var(--corner);
    color: var(--muted);
    text-decoration: none;
  }
  nav a:hover {
    background: var(--line);
  }
  nav a[aria-current] {
    font-weight: 600;
    color: var(--text);
    background: var(--line);
  }
  input[type='search'] {
    width: 100%;
    min-height: var(--control);
    padding: 0.25rem 0.625rem;
    border: 1px solid var(--strong-line);
    border-radius: var(--corner);
    background: var(--surface);
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
  figure.code {
    position: relative;
  }
  figure.code:has(> button) > pre {
    padding-bottom: 3.25rem;
  }
  figure.code > button {
    position: absolute;
    right: 0.5rem;
    bottom: 0.5rem;
  }
  .tabs {
    display: flex;
    flex-wrap: wrap;
    gap: 0.25rem;
    margin: 1rem 0 -0.5rem;
  }
  .tabs button[aria-pressed='true'] {
    font-weight: 650;
    background: var(--line);
  }
  nav h2 {
    margin: 1.25rem 0 0;
    padding: 0 0.5rem;
    color: var(--muted);
    font-size: 0.8125rem;
  }
  nav h2 + ul {
    margin-top: 0.25rem;
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
    margin-bottom: 1rem;
  }
  :is(main, article) > :is(p, ul, ol, dl),
  section > :is(p, ul, ol) {
    margin: 0.75rem 0;
  }
  main :is(ul, ol) {
    padding-inline-start: 1.5rem;
  }
  h2 {
    font-size: 1.3rem;
    margin: 0 0 0.5rem;
  }
  h3 {
    font-size: 1rem;
    margin: 1.5rem 0 0.5rem;
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
    color: var(--good);
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
    aside {
      position: static;
      height: auto;
      padding: 0.75rem 0.5rem;
      border-inline-end: 0;
      border-bottom: 1px solid var(--line);
    }
    .menu-button {
      display: block;
    }
    nav[popover]:not(:popover-open) {
      display: none;
    }
    nav[popover]:popover-open {
      position: fixed;
      inset: 3.5rem 0.5rem 0.5rem;
      padding: 0.75rem;
      border: 1px solid var(--line);
      border-radius: var(--radius);
      background: var(--surface);
      overflow: auto;
    }
    table:not(:has(th:nth-child(3))) {
      min-width: 0;
    }
  }
`
