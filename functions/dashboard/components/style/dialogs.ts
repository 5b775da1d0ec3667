const css = String.raw

/** The search, the question before an action, the drawer, and the progress bar of a loading page. */
export const dialogs = css`
  dialog {
    width: min(36rem, 92vw);
    margin-top: 12vh;
    padding: 0.75rem;
    border: 1px solid var(--line);
    border-radius: var(--radius);
    background: var(--surface);
    color: var(--text);
    box-shadow: var(--shadow);
  }
  dialog::backdrop {
    background: rgb(0 0 0 / 0.4);
  }
  #question {
    width: min(26rem, 92vw);
    padding: 1.25rem;
  }
  #question .row {
    justify-content: end;
  }
  #question .danger {
    background: var(--bad);
    border-color: var(--bad);
    color: var(--page);
  }
  .drawer {
    width: min(46rem, 100vw);
    max-width: none;
    height: 100dvh;
    max-height: none;
    inset: 0 0 0 auto;
    margin: 0;
    padding: 0 1.5rem 3rem;
    border-width: 0;
    border-inline-start-width: 1px;
    border-radius: 0;
    background: var(--page);
    overflow-y: auto;
  }
  .drawer::backdrop {
    background: rgb(0 0 0 / 0.2);
  }
  .drawer .bar {
    position: sticky;
    top: 0;
    z-index: 2;
    margin-inline: -1.5rem;
    padding: 0.5rem 1.5rem;
    border-bottom: 1px solid var(--line);
    background: var(--page);
  }
  .drawer [data-content] {
    padding-top: 1.25rem;
    outline: none;
  }
  @media (max-width: 44rem) {
    .drawer {
      padding-inline: 1rem;
    }
    .drawer .bar {
      margin-inline: -1rem;
      padding-inline: 1rem;
    }
  }
  body:has(main[aria-busy='true'])::before {
    content: '';
    position: fixed;
    inset: 0 0 auto;
    z-index: 4;
    height: 2px;
    background: var(--accent);
    transform-origin: 0 0;
    animation: loading 8s cubic-bezier(0.1, 0.7, 0.3, 1) 0.15s both;
  }
  @keyframes loading {
    from {
      transform: scaleX(0);
    }
    to {
      transform: scaleX(0.95);
    }
  }
  @media (prefers-reduced-motion: no-preference) {
    dialog {
      transition:
        opacity 0.12s,
        translate 0.12s;
      @starting-style {
        opacity: 0;
        translate: 0 0.375rem;
      }
    }
    .drawer {
      transition: translate 0.16s ease-out;
      @starting-style {
        opacity: 1;
        translate: 2rem 0;
      }
    }
  }
`
