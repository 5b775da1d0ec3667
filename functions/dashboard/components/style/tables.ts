const css = String.raw

/** Tables, whose rows become cards or two lines on narrow screens. */
export const tables = css`
  table {
    width: 100%;
    border-collapse: collapse;
    font-size: var(--small);
  }
  caption {
    text-align: start;
  }
  th {
    text-align: start;
    font-size: var(--tiny);
    font-weight: 550;
    color: var(--muted);
    padding: 0.4375rem 0.625rem;
    white-space: nowrap;
  }
  .select {
    width: 2.25rem;
  }
  th a {
    color: inherit;
    text-decoration: none;
  }
  th a:hover {
    text-decoration: underline;
  }
  /* A row with one line is 40 pixels high. */
  td {
    height: 2.5rem;
    padding: 0.375rem 0.625rem;
    border-top: 1px solid var(--line);
    vertical-align: middle;
    overflow-wrap: anywhere;
  }
  tbody tr:hover {
    background: var(--sunken);
  }
  td strong {
    font-weight: 550;
  }
  td a:has(> strong) {
    color: inherit;
    text-decoration: none;
  }
  td a:has(> strong):hover {
    text-decoration: underline;
  }
  .list {
    display: grid;
    grid-template-columns: minmax(0, 1fr);
    gap: 0.75rem;
    border-top: 1px solid var(--line);
  }
  .list > h2 {
    padding-top: var(--gap);
  }
  .list tbody tr:last-child td {
    border-bottom: 1px solid var(--line);
  }
  .toolbar {
    display: flex;
    flex-wrap: wrap;
    align-items: center;
    justify-content: space-between;
    gap: 0.5rem var(--gap);
  }
  .toolbar > form {
    flex: none;
    max-width: 100%;
  }
  .toolbar + .list {
    margin-top: -0.75rem;
  }
  /* The filters and the table header stay visible while the page scrolls. */
  @media (min-width: 60rem) {
    .toolbar {
      position: sticky;
      top: 0;
      z-index: 2;
      padding-block: 0.5rem;
      background: var(--page);
    }
    .list thead th {
      position: sticky;
      top: 0;
      z-index: 1;
      background: var(--page);
      box-shadow: inset 0 -1px var(--line);
    }
    .toolbar ~ .list thead th {
      top: 3rem;
    }
  }
  .name-with-note {
    display: flex;
    flex-wrap: wrap;
    align-items: baseline;
    gap: 0 0.5rem;
  }
  /* Times and short words stay on one line. Addresses may wrap, and names wrap only if most of the name does not fit. */
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
    /* The filters and the states scroll sideways. */
    .toolbar > :is(form, nav) {
      flex: 1 1 100%;
      flex-wrap: nowrap;
      margin-inline: -1rem;
      padding-inline: 1rem;
      overflow-x: auto;
      scrollbar-width: none;
    }
    .toolbar > form {
      max-width: none;
    }
    .toolbar > nav {
      max-width: none;
      border-radius: 0;
    }
    .toolbar > form.row.end.find > .field {
      flex: none;
    }
    .toolbar > form.inline > .field > :is(select, input[type='date']) {
      width: auto;
    }
    .toolbar > form.row.end.find > .field:has(> [type='search']) {
      flex: 0 0 12rem;
    }
    .phone-off {
      display: none;
    }
    :is(.cards-on-phone, .lines-on-phone) thead {
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
      height: auto;
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
    .lines-on-phone tr {
      display: flex;
      flex-wrap: wrap;
      align-items: baseline;
      gap: 0 0.75rem;
      padding: 0.5rem 0;
      border-top: 1px solid var(--line);
    }
    .lines-on-phone tr::after {
      content: '';
      order: 2;
      flex-basis: 100%;
    }
    .lines-on-phone td {
      display: flex;
      align-items: baseline;
      gap: 0.25rem;
      order: 3;
      height: auto;
      min-width: 0;
      padding: 0;
      border: 0;
      font-size: var(--tiny);
    }
    .list :is(.cards-on-phone, .lines-on-phone) tbody tr:last-child td {
      border: 0;
    }
    .lines-on-phone td:not([data-label=''], .phone-title, .phone-amount, .phone-plain, :has(> input))::before {
      content: attr(data-label);
      flex: none;
      color: var(--muted);
    }
    .lines-on-phone td.right {
      white-space: normal;
      text-align: start;
    }
    .lines-on-phone td:has(> input) {
      order: 0;
      width: auto;
    }
    .lines-on-phone .phone-title {
      order: 1;
      flex: 1 1 8rem;
      font-size: var(--base);
    }
    .lines-on-phone td.phone-amount {
      order: 2;
      font-size: var(--base);
      text-align: end;
    }
    .lines-on-phone td[data-label='']:last-child {
      margin-inline-start: auto;
    }
    .lines-on-phone :is(.phone-hidden, td:empty) {
      display: none;
    }
    td details.switcher[open] {
      width: 100%;
    }
    td .switcher summary {
      width: fit-content;
    }
    td .switcher > .menu {
      position: static;
      width: 100%;
      box-shadow: none;
    }
  }
`
