/** Opens the search as a dialog. */
export const search = String.raw`
// Search results load into the dialog while somebody types. Without a script, the form leads to the search page.
const search = document.querySelector('dialog#search')
function openSearch(event) {
  event.preventDefault()
  search.showModal()
}
if (search) {
  if (!/Mac|iP/.test(navigator.platform)) document.querySelector('[data-search] kbd').textContent = 'Ctrl K'
  let latestAddress
  document.querySelector('[data-search]').addEventListener('click', openSearch)
  document.addEventListener('keydown', (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') openSearch(event)
  })
  search.addEventListener('input', async ({ target }) => {
    const address = target.form.action + '?q=' + encodeURIComponent(target.value)
    latestAddress = address
    await new Promise((resolve) => setTimeout(resolve, 200))
    if (latestAddress !== address) return
    const response = await fetch(address, { headers: { accept: 'text/html' } })
    if (!response.ok || latestAddress !== address) return
    const page = await parse(response)
    search.querySelector('[data-results]').replaceChildren(...page.querySelector('main [data-results]').childNodes)
  })
}
`
