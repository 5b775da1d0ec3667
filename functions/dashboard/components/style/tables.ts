const css = String.raw

/** Tables, which become cards on narrow screens. */
export const tables = css`
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
  th a {
    color: inherit;
  }
  td {
    padding: 0.5625rem 0.625rem;
    border-top: 1px solid var(--line);
    vertical-align: top;
    overflow-wrap: anywhere;
  }
  /* Times and short words stay on one line. Addresses may wrap, and names wrap only if most of them does not fit. */
  td time,
  td .words {
    overflow-wrap: normal;
  }
  td .name {
    display: inline-block;
    min-width: 5rem;
  }
  @media (min-width: 64rem) {
    td .name {
      min-width: 9rem;
    }
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
  td.right > .stack {
    grid-template-columns: max-content;
    justify-content: end;
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
      align-items: baseline;
      gap: 1rem;
      border: 0;
      padding: 0.1875rem 0;
      text-align: end;
      white-space: normal;
    }
    table.cards-on-phone td:is(:empty, :has(> .name:only-child:empty)) {
      display: none;
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
`
