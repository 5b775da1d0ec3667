/** Opens links marked `data-drawer` beside the page, in a dialog. Links to other pages leave the drawer. */
export const drawer = String.raw`
const drawer = document.querySelector('dialog#drawer')
let drawn
let isChanged = false

/** Loads a page into the drawer. Its ids get a prefix, because the page below has ids too. */
async function draw(address) {
  const response = await fetch(address, { headers: { accept: 'text/html' } })
  const page = (await parse(response)).querySelector('main')
  if (!response.ok || !page) return location.assign(address)
  for (const one of page.querySelectorAll('[id], [for], [aria-describedby], [popovertarget]')) {
    for (const name of ['id', 'for', 'aria-describedby', 'popovertarget']) {
      if (one.hasAttribute(name)) one.setAttribute(name, one.getAttribute(name).replace(/\S+/g, 'drawer-$&'))
    }
  }
  drawn = new URL(address, location)
  drawer.querySelector('a').href = drawn.href
  const content = drawer.querySelector('[data-content]')
  content.replaceChildren(...page.childNodes)
  drawer.setAttribute('aria-label', content.querySelector('h1')?.textContent ?? '')
  enhance(content)
  if (!drawer.open) drawer.showModal()
  content.focus()
  drawer.scrollTo(0, 0)
}

const isDrawn = (link) => link.hasAttribute('data-drawer') || (drawer.contains(link) && link.pathname === drawn?.pathname && !link.closest('header.bar'))

document.addEventListener('click', (event) => {
  const link = event.target.closest('a[href]')
  if (!drawer || !link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
  if (!isDrawn(link)) return
  event.preventDefault()
  draw(link.href).catch(() => location.assign(link.href))
}, true)

document.addEventListener('submit', async (event) => {
  const { target: form, submitter } = event
  if (event.defaultPrevented || !drawer?.contains(form) || form.method !== 'post') return
  event.preventDefault()
  const response = await sendForm(form, submitter)
  const next = new URL(response.headers.get('x-location') ?? drawn, location)
  if (next.pathname !== drawn.pathname && next.pathname !== location.pathname) return location.assign(next)
  isChanged = true
  await draw(next.pathname === drawn.pathname ? next.href : drawn.href)
})

drawer?.addEventListener('click', ({ target }) => {
  if (target === drawer || target.closest('[data-close]')) drawer.close()
})
// The list below shows what changed.
drawer?.addEventListener('close', () => {
  drawer.querySelector('[data-content]').replaceChildren()
  if (isChanged) visit(location.href, { isNew: false })
  isChanged = false
})
`
