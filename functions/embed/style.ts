import { base } from '../dashboard/components/style/base.ts'
import { spacing } from '../dashboard/components/style/spacing.ts'
import { surfaces } from '../dashboard/components/style/surfaces.ts'
import { tables } from '../dashboard/components/style/tables.ts'

const css = String.raw

/** The parts of the dashboard's style that the portal uses, without its font. */
export const style = [
  base,
  spacing,
  surfaces,
  tables,
  css`
    html {
      overflow: hidden;
    }
    main {
      padding: 1px;
    }
    button,
    input {
      font: inherit;
      font-size: var(--small);
      min-height: var(--control);
      padding: 0 0.75rem;
      border: 1px solid var(--soft-line);
      border-radius: var(--corner);
      background: var(--surface);
      color: var(--text);
    }
    button {
      cursor: pointer;
    }
    button.primary {
      border-color: transparent;
      background: var(--button);
      color: var(--on-button);
    }
    input {
      border-color: var(--strong-line);
      width: 20rem;
      max-width: 100%;
    }
    .copy {
      display: flex;
      flex-wrap: wrap;
      gap: 0.5rem;
    }
    .copy pre {
      flex: 1 1 12rem;
      min-width: 0;
      margin: 0;
      padding: 0.375rem 0.625rem;
      overflow-x: auto;
      border-radius: var(--corner);
      background: var(--sunken);
    }
    /* A page can set only the accent color. Text on and beside that color stays readable in light and dark mode. */
    @supports (color: oklch(from red l c h)) {
      :root {
        --on-accent: oklch(from var(--accent) clamp(0, (0.7 - l) * 1000, 1) 0 0);
        --accent-soft: color-mix(in oklab, var(--accent) 20%, var(--surface));
      }
    }
    .badge.accent {
      color: var(--text);
    }
    @media (pointer: coarse) {
      :root {
        --control: 2.5rem;
      }
    }
  `,
].join('')
