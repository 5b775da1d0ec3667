const css = String.raw

/** Rows and columns with the same gap. */
export const spacing = css`
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
  @media (min-width: 60rem) {
    header.row.apart {
      flex-wrap: nowrap;
    }
    header.row.apart > .stack {
      flex: 1 1 18rem;
    }
    header.row.apart > .row {
      flex-wrap: nowrap;
    }
  }
  @media (max-width: 60rem) {
    /* The buttons wrap, so a menu is as wide as the heading instead of ending at its button. */
    header.row.apart > .row {
      position: relative;
    }
    header.row.apart > .row > .switcher {
      position: static;
    }
    header.row.apart > .row > .switcher > .menu {
      inset-inline: 0;
      width: auto;
    }
  }
  .row > .far {
    margin-inline-start: auto;
  }
  .cards {
    display: grid;
    gap: var(--gap);
    grid-template-columns: repeat(auto-fill, minmax(min(9.25rem, 100%), 1fr));
  }
  .cards.five {
    grid-template-columns: repeat(auto-fit, minmax(min(9.25rem, 100%), 1fr));
  }
  .split {
    display: grid;
    gap: 1.5rem;
  }
  .queue {
    order: 1;
  }
  .queue ul {
    list-style: none;
    margin-block: 0.5rem;
  }
  .frame .queue a {
    justify-content: space-between;
    white-space: normal;
    color: var(--text);
  }
  @media (min-width: 64rem) {
    .split {
      grid-template-columns: 16rem minmax(0, 1fr);
    }
    .queue {
      order: 0;
      border-inline-end: 1px solid var(--line);
      padding-inline-end: 1rem;
    }
  }
  .halves {
    display: grid;
    gap: var(--gap);
    grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr));
  }
`
