/**
 * Filters, sorting, paging, tabs and the actions of a list replace the content of a page without reloading it. A visit is a link or form
 * that leads to the same page with another query, or to the next or previous page in a part marked `data-visits`. A page without this
 * script reloads.
 */
export const visits = String.raw`
const main = document.querySelector('main')
const pathOf = ({ pathname, search }) => pathname + search
let shown = pathOf(location)
let loading

const isNear = (address, element) =>
  address.origin === location.origin &&
  (address.pathname === location.pathname || element.closest('[data-visits]') !== null) &&
  !/\.csv$/.test(address.pathname)

/** Remembers the position of the focused element, because the new page has a different element there. */
function placeOf(element) {
  if (element?.id && main.contains(element)) return '#' + CSS.escape(element.id)
  const steps = []
  for (let one = element; one && one !== main; one = one.parentElement) {
    if (one === document.body) return undefined
    steps.unshift(one.tagName + ':nth-child(' + ([...one.parentElement.children].indexOf(one) + 1) + ')')
  }
  return steps.length > 0 ? 'main > ' + steps.join(' > ') : undefined
}

/** Shows another page in place of this one. */
function show(page, address) {
  const next = page.querySelector('main')
  if (!next) return location.assign(address)
  const focused = placeOf(document.activeElement)
  const selection = document.activeElement?.selectionStart
  document.title = page.title
  main.replaceChildren(...next.childNodes)
  enhance(main)
  const again = main.querySelector('[autofocus]') ?? (focused && document.querySelector(focused))
  again?.focus({ preventScroll: true })
  if (again?.type === 'search') again.setSelectionRange(selection, selection)
}

/** Loads an address and shows its page. Falls back to the browser if that fails. */
async function visit(address, { isNew = true, toTop = false } = {}) {
  loading?.abort()
  const current = loading = new AbortController()
  main.setAttribute('aria-busy', 'true')
  try {
    const response = await fetch(address, { headers: { accept: 'text/html' }, signal: current.signal })
    const page = await parse(response)
    const reached = new URL(response.url)
    if (reached.pathname !== new URL(address, location).pathname) return location.assign(response.url)
    if (isNew) history.pushState(null, '', reached)
    shown = pathOf(location)
    show(page, address)
    if (toTop) scrollTo(0, 0)
  } catch (error) {
    if (error.name !== 'AbortError') location.assign(address)
  } finally {
    if (loading === current) main.removeAttribute('aria-busy')
  }
}

/** Sends a form. The response's header x-location contains the address of the next page. */
const sendForm = (form, submitter) =>
  fetch(submitter?.getAttribute('formaction') ?? form.getAttribute('action'), {
    method: 'POST',
    body: new URLSearchParams(new FormData(form, submitter)),
    headers: { 'x-visit': '1' },
  })

/** Sends a form. If the next page is the same one, it isn't reloaded. */
async function post(form, submitter) {
  main.setAttribute('aria-busy', 'true')
  try {
    const response = await sendForm(form, submitter)
    const next = response.headers.get('x-location')
    if (next === null) return show(await parse(response), location.href)
    const address = new URL(next, location)
    if (isNear(address, form)) await visit(address.href, { isNew: pathOf(address) !== shown })
    else location.assign(address)
  } catch {
    // The browser sends the form itself. This is safe even if the service received the first request, because the form has a token.
    plain = form
    delete form.dataset.sent
    form.requestSubmit(submitter)
  } finally {
    main.removeAttribute('aria-busy')
  }
}
let plain

document.addEventListener('click', (event) => {
  const link = event.target.closest('main a[href]')
  if (!link || link.dataset.drawer !== undefined || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
  const address = new URL(link.href)
  if (link.target || link.hasAttribute('download') || address.hash || !isNear(address, link)) return
  event.preventDefault()
  visit(link.href, { toTop: /^(next|prev)$/.test(link.rel) || address.pathname !== location.pathname })
})

document.addEventListener('submit', (event) => {
  const { target: form, submitter } = event
  if (event.defaultPrevented || plain === form || !main.contains(form)) return
  const address = new URL(form.getAttribute('action'), location)
  if (form.method === 'get' && isNear(address, form)) {
    event.preventDefault()
    const filled = [...new FormData(form, submitter)].filter(([, value]) => value !== '')
    address.search = new URLSearchParams(filled)
    visit(address.href)
  } else if (form.method === 'post' && form.closest('.list, .bulk, .toast, [data-visits]')) {
    event.preventDefault()
    post(form, submitter)
  }
})

// The browser goes back or forward to a page that this script showed.
addEventListener('popstate', () => {
  if (pathOf(location) !== shown) visit(location.href, { isNew: false })
})

// Filters apply when they change, and a search applies while somebody types.
document.addEventListener('change', ({ target }) => {
  if (target.matches('form.find select')) target.form.requestSubmit()
})
let typing
const waits = { search: 300, date: 900 }
document.addEventListener('input', ({ target }) => {
  const { form, type, value } = target
  if (!form?.matches('main form.find') || !waits[type]) return
  clearTimeout(typing)
  // While somebody types a year, it has fewer than four digits.
  if (type === 'date' && /^0/.test(value)) return
  typing = setTimeout(() => { if (form.isConnected && form.checkValidity()) form.requestSubmit() }, waits[type])
})
`
