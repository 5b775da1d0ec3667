/** Stores the program's values for the examples of the documentation. */
export const docsValues = String.raw`
// A browser that blocks storage throws, so this comes last.
const values = document.querySelector('[data-docs]')
if (values) localStorage.setItem('docs-values', values.dataset.docs)
else if (location.pathname === '/sign-in') localStorage.removeItem('docs-values')
`
