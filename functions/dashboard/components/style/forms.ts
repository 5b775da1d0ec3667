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
    border-radius: 0.4375rem;
    padding: 0.4375rem 0.625rem;
    width: 100%;
    min-width: 0;
    min-height: 2.375rem;
  }
  /* A date picker is taller than a line of text, so all fields get its height. */
  input[type='date'] {
    height: 2.375rem;
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
  button,
  .button {
    display: inline-flex;
    align-items: center;
    justify-content: center;
    gap: 0.375rem;
    min-height: 2.375rem;
    padding: 0.375rem 0.875rem;
    border-radius: 0.4375rem;
    border: 1px solid var(--soft-line);
    background: var(--surface);
    color: var(--text);
    font: inherit;
    font-weight: 500;
    text-decoration: none;
    cursor: pointer;
    white-space: nowrap;
  }
  button:hover,
  .button:hover {
    background: var(--sunken);
  }
  .primary {
    background: var(--accent);
    border-color: var(--accent);
    color: var(--on-accent);
  }
  .primary:hover {
    background: color-mix(in oklab, var(--accent) 88%, var(--text));
  }
  .danger {
    color: var(--bad);
    border-color: var(--bad);
  }
  .compact {
    min-height: 1.875rem;
    padding: 0.1875rem 0.625rem;
    font-size: var(--small);
  }
  .wide-button {
    width: 100%;
  }
  .segments {
    display: inline-flex;
    max-width: 100%;
    flex-wrap: wrap;
    border: 1px solid var(--line);
    border-radius: 0.5rem;
    background: var(--surface);
    padding: 0.1875rem;
    gap: 0.125rem;
  }
  .segments a {
    padding: 0.25rem 0.6875rem;
    border-radius: 0.375rem;
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
    background: var(--accent-soft);
    color: var(--accent);
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
    border-radius: 0.4375rem;
    background: var(--sunken);
    overflow-x: auto;
  }
  .copy > code,
  .copy > pre:not(.wrap) {
    white-space: pre;
  }
  .copy > button {
    flex: none;
    min-height: 2.125rem;
  }
`
