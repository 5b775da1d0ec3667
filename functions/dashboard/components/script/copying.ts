/** Copies the text of a button with `data-copy`, and shows for a moment that it did. */
export const copying = String.raw`
async function copyText(button) {
  await navigator.clipboard.writeText(button.dataset.copy)
  const copied = button.dataset.copied ?? 'Copied'
  const { textContent: text, ariaLabel: name } = button
  // Another click must not take the message for the label.
  if (text === copied) return
  button.textContent = copied
  // Screen readers read the name, not the text.
  if (name) button.ariaLabel = copied
  setTimeout(() => { button.textContent = text; button.ariaLabel = name }, 1500)
}
`
