const css = String.raw

/** Fields, buttons, choices, and text to copy. */
export const forms = css`
  form {
    margin: 0;
  }
  .field {
    display: grid;
    gap: 0.25rem;
    align-content: start;
    min-width: 0;
  }
  .field > label {
    font-size: var(--small);
    font-weight: 600;
    padding: 0;
  }
  .field .hint {
    font-size: var(--small);
    color: var(--muted);
    overflow-wrap: anywhere;
  }
  fieldset {
    border: 0;
    margin: 0;
    padding: 0;
    min-width: 0;
  }
  .choices {
    display: grid;
    gap: 0.375rem;
  }
  legend {
    font-size: var(--small);
    font-weight: 600;
    padding: 0 0 0.25rem;
  }
  .choice {
    display: flex;
    gap: 0.5rem;
    align-items: baseline;
  }
  .fields {
    display: grid;
    gap: var(--gap);
    grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr));
  }
  input:not([type='checkbox'], [type='radio']),
  select,
  textarea {
    font: inherit;
    color: inherit;
    background: var(--surface);
    border: 1px solid var(--strong-line);
    border-radius: var(--corner);
    padding: 0.25rem 0.625rem;
    width: 100%;
    min-width: 0;
    min-height: var(--control);
  }
  /* A date picker is taller than a line of text, so all fields use its height. */
  input[type='date'] {
    height: var(--control);
  }
  /* Phones zoom into fields with smaller text. */
  @media (pointer: coarse) {
    :root {
      --control: 2.5rem;
    }
    input:not([type='checkbox'], [type='radio']),
    select,
    textarea {
      font-size: var(--large);
    }
  }
  textarea {
    resize: vertical;
  }
  :is(input, select, textarea)[aria-invalid='true'] {
    border-color: var(--bad);
  }
  .inline input:not([type='checkbox'], [type='radio']),
  .inline select {
    width: auto;
  }
  .inline select {
    max-width: 14rem;
  }
  /* A hint below a field must not move the button beside the field. */
  form.row.end:has(> .field > :is(.hint, .bad)) {
    align-items: start;
  }
  form.row.end:has(> .field > :is(.hint, .bad)) > :is(button, .choice) {
    margin-top: calc(1.5 * var(--small) + 0.25rem);
  }
  @media (max-width: 44rem) {
    form.row.end > .field {
      flex: 1 1 8.25rem;
    }
    form.row.end.find > .field:has(> select) {
      flex-basis: auto;
    }
    form.row.end:has(> button ~ button) > .field {
      flex-basis: 100%;
    }
    form.row.end:has(> .far) > .field {
      flex-basis: calc(50% - 0.25rem);
    }
    form.row.end:has(> .field > :is(.hint, .bad)) > :is(.field, button, .choice) {
      flex: 1 1 100%;
      margin-top: 0;
    }
    .inline > .field > :is(input, select):not([type='checkbox'], [type='radio']) {
      width: 100%;
      max-width: none;
    }
  }
  /* Filters apply when they change. */
  @media (scripting: enabled) {
    .find > button {
      display: none;
    }
  }
  :is(.find .field:not(:has(> [type='search'])), .bulk .field:has(> select)) {
    display: flex;
    align-items: center;
    min-height: var(--control);
    padding-inline: 0.75rem 0.25rem;
    border: 1px solid var(--soft-line);
    border-radius: 2rem;
    background: var(--surface);
  }
  :is(.find .field, .bulk .field:has(> select)) > label {
    color: var(--muted);
    font-weight: 450;
    white-space: nowrap;
  }
  :is(.find .field, .bulk .field:has(> select)) > :is(select, input:not([type='search'])) {
    height: auto;
    min-height: 0;
    padding: 0 0.25rem;
    border: 0;
    border-radius: 1rem;
    background: none;
    font-size: var(--small);
    font-weight: 550;
  }
  .find .field:has(> [type='search']) > label {
    position: absolute;
    clip-path: inset(50%);
  }
  .find .field > input:not([type='search'], [type='date']) {
    width: 6rem;
  }
  .find .field:has(> [type='search']) {
    width: 16rem;
  }
  .find [type='search'] {
    width: 100%;
  }
  @media (max-width: 44rem) {
    form.find .field:has(> [type='search']) {
      flex: 1 1 100%;
    }
  }
  /* The actions on selected rows float above the page while a row is selected. */
  .bulk {
    position: fixed;
    z-index: 2;
    inset: auto 2rem 1rem;
    width: fit-content;
    margin-inline: auto;
    padding: 0.5rem 0.75rem;
    border: 1px solid var(--line);
    border-radius: var(--radius);
    background: var(--surface);
    box-shadow: var(--shadow);
  }
  main:not(:has(td.select > input:checked)) .bulk {
    display: none;
  }
  .bulk output {
    padding-inline: 0.25rem;
    font-size: var(--small);
    font-weight: 550;
  }
  .bulk output:empty {
    display: none;
  }
  .bulk .menu {
    inset-block: auto calc(100% + 0.25rem);
  }
  @media (min-width: 60rem) {
    .bulk {
      inset-inline-start: 16rem;
    }
  }
  @media (max-width: 60rem) {
    .bulk {
      inset: auto 0.5rem 4.25rem;
    }
    body:has(.bulk) main {
      padding-bottom: 12rem;
    }
  }
  .bulk button,
  .bulk .button {
    min-height: 1.75rem;
    padding: 0.125rem 0.5rem;
    font-size: var(--tiny);
  }
  button,
  .button {
    display: inline-flex;
    align-items: center;
    justify-content: center;
    gap: 0.375rem;
    min-height: var(--control);
    padding: 0.25rem 0.75rem;
    border-radius: var(--corner);
    border: 1px solid var(--soft-line);
    background: var(--surface);
    color: var(--text);
    font: inherit;
    font-size: var(--small);
    font-weight: 550;
    text-decoration: none;
    cursor: pointer;
    white-space: nowrap;
  }
  button:hover,
  .button:hover {
    background: var(--sunken);
  }
  .primary {
    background: var(--button);
    border-color: var(--button);
    color: var(--on-button);
  }
  .primary:hover {
    background: color-mix(in oklab, var(--button) 88%, var(--button-hover));
  }
  .editor {
    display: grid;
    gap: var(--gap);
    align-items: start;
  }
  @media (min-width: 75rem) {
    .editor {
      grid-template-columns: repeat(2, minmax(0, 1fr));
    }
    .editor .preview {
      position: sticky;
      top: 1rem;
      max-height: calc(100vh - 2rem);
      overflow-y: auto;
    }
  }
  /* The preview has the width of a phone, so it has one column. */
  .preview .join {
    grid-template: none / minmax(0, 1fr);
  }
  .preview .join > :nth-child(2) {
    grid-area: auto;
  }
  .bare {
    margin: 0;
    padding: 0;
    border: 0;
    min-width: 0;
  }
  .danger {
    color: var(--bad);
    border-color: var(--bad);
  }
  .compact {
    min-height: 1.75rem;
    padding: 0.125rem 0.5rem;
    font-size: var(--tiny);
  }
  .wide-button {
    width: 100%;
  }
  .segments {
    display: inline-flex;
    justify-self: start;
    max-width: 100%;
    flex-wrap: wrap;
    border-radius: var(--corner);
    background: var(--sunken);
    padding: 0.125rem;
    gap: 0.125rem;
  }
  .segments a {
    padding: 0.25rem 0.625rem;
    border-radius: 0.25rem;
    color: var(--muted);
    text-decoration: none;
    white-space: nowrap;
    font-size: var(--small);
    font-weight: 550;
  }
  .segments a:hover {
    color: var(--text);
  }
  .segments a[aria-current] {
    background: var(--surface);
    color: var(--text);
    box-shadow: 0 0 0 1px var(--line);
  }
  details.more > summary {
    cursor: pointer;
    color: var(--accent);
    font-weight: 550;
    width: fit-content;
  }
  details.more[open] > summary {
    margin-bottom: 0.75rem;
  }
  details.more > p {
    margin-bottom: var(--gap);
  }
  .copy {
    display: flex;
    gap: 0.5rem;
    align-items: start;
    min-width: 0;
  }
  .copy > code,
  .copy > pre {
    flex: 1;
    min-width: 0;
    margin: 0;
    padding: 0.4375rem 0.625rem;
    border-radius: var(--corner);
    background: var(--sunken);
    overflow-x: auto;
  }
  .copy > code,
  .copy > pre:not(.wrap) {
    white-space: pre;
  }
  .copy > button {
    flex: none;
  }
`
