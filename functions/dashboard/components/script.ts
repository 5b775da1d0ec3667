/**
 * The dashboard's only script, served as a file. Pages work without it. It copies to the clipboard, shares, and asks for confirmation. It shows
 * times in the reader's time zone, refreshes parts marked `data-poll`, and sets the address from `data-address`. It applies filters,
 * presses buttons by keys, and opens the search. It sends the next part of a job, and large archives in parts. It stores the program's
 * values for the examples of the documentation.
 */
export const script = String.raw`
document.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]')
  if (!button) return
  await navigator.clipboard.writeText(button.dataset.copy)
  const label = button.textContent
  button.textContent = button.dataset.copied ?? 'Copied'
  setTimeout(() => { button.textContent = label }, 1500)
})

for (const button of document.querySelectorAll('[data-share]')) {
  button.hidden = !navigator.share
  // Closing the share sheet is not an error.
  button.addEventListener('click', () => navigator.share({ url: button.dataset.share }).catch(() => {}))
}

// The page's language, in the variant of the reader's browser.
const { lang } = document.documentElement
const locale = navigator.languages.find((one) => one.split('-')[0] === lang) ?? lang
for (const time of document.querySelectorAll('time[data-local]')) {
  const format = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' })
  time.textContent = format.format(new Date(time.dateTime))
}

document.addEventListener('submit', (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm
  if (question && !confirm(question)) return event.preventDefault()
  if (event.target.dataset.sent) return event.preventDefault()
  if (event.target.method === 'post') event.target.dataset.sent = 'yes'
})

// Filters apply when they change.
document.addEventListener('change', ({ target }) => {
  if (target.matches('form.find select')) target.form.requestSubmit()
})

// Makes forms sendable again if the browser shows a cached page.
addEventListener('pageshow', () => {
  for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent
})

document.addEventListener('click', (event) => {
  for (const menu of document.querySelectorAll('details.switcher[open]')) {
    if (!menu.contains(event.target)) menu.open = false
  }
})

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return
  for (const menu of document.querySelectorAll('details.switcher[open]')) {
    menu.open = false
    menu.querySelector('summary').focus()
  }
})

// A key presses the link or button that declares it, unless somebody is typing.
document.addEventListener('keydown', (event) => {
  if (event.target.closest?.('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return
  if (/^[a-z]$/.test(event.key)) document.querySelector('[data-key="' + event.key + '"]')?.click()
})

async function poll(part) {
  while (part.isConnected && part.dataset.poll) {
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 10000 : 2500))
    try {
      const response = await fetch(part.dataset.poll, { headers: { accept: 'text/html' } })
      if (!response.ok) return
      const next = new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('[data-part]')
      if (!next) return
      if (next.innerHTML !== part.innerHTML) part.replaceChildren(...next.childNodes)
      if (!next.dataset.poll) return
    } catch {
      // If the network is down, the next round tries again.
    }
  }
}
for (const part of document.querySelectorAll('[data-poll]')) poll(part)

// Prevents the browser from sending the form again when somebody reloads or revisits a page with a one-time secret.
const answered = document.querySelector('[data-address]')
if (answered) history.replaceState(null, '', answered.dataset.address)
// A job with several requests continues automatically.
document.querySelector('form[data-continue]')?.requestSubmit()

// A request cannot contain a large archive, so its parts follow one by one. Each part can be sent again.
async function send(address, fields, attempts) {
  const response = await fetch(address, { method: 'POST', body: new URLSearchParams(fields) }).catch(() => undefined)
  if (response && response.status < 500) return response
  if (attempts === 1) throw new Error('The upload was interrupted. Send it again.')
  await new Promise((resolve) => setTimeout(resolve, 2500))
  return await send(address, fields, attempts - 1)
}
async function refusalIn(response) {
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  return new Error(page.querySelector('[role=alert], p.bad')?.textContent ?? 'The upload was refused. Reload this page.')
}
async function sendInParts(form, archive) {
  const size = Number(form.dataset.partBytes)
  const parts = Math.ceil(archive.size / size)
  const [upload, bar, status] = ['[data-upload]', 'progress', '[role=status]'].map((one) => form.querySelector(one))
  upload.hidden = false
  const fields = new FormData(form)
  fields.delete('files')
  fields.set('parts', parts)
  try {
    const created = await send(form.action, fields, 4)
    if (!/\/imports\/\d+$/.test(created.url)) throw await refusalIn(created)
    for (let part = 1; part <= parts; part++) {
      bar.value = (part - 1) / parts
      status.textContent = part < parts ? 'Part ' + part + ' of ' + parts : 'The archive is being read. This can take minutes.'
      const reader = new FileReader()
      reader.readAsDataURL(archive.slice((part - 1) * size, part * size))
      await new Promise((resolve) => { reader.onloadend = resolve })
      const sent = await send(created.url + '/parts', { part, content_base64: reader.result.split(',')[1] }, 4)
      if (sent.status !== 204) throw await refusalIn(sent)
    }
    location.assign(created.url)
  } catch (error) {
    status.textContent = error.message
    delete form.dataset.sent
  }
}
document.addEventListener('submit', (event) => {
  const form = event.target
  const [archive, ...others] = form.querySelector('input[type=file]')?.files ?? []
  const isLarge = archive?.size > form.dataset.partBytes && form.source.value === 'archive'
  if (event.defaultPrevented || !isLarge || others.length > 0) return
  event.preventDefault()
  sendInParts(form, archive)
})

// Search results load into the dialog while somebody types. Without a script, the form leads to the search page.
const search = document.querySelector('dialog#search')
function openSearch(event) {
  event.preventDefault()
  search.showModal()
}
if (search) {
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
    const page = new DOMParser().parseFromString(await response.text(), 'text/html')
    search.querySelector('[data-results]').replaceChildren(...page.querySelector('main [data-results]').childNodes)
  })
}

// A browser that blocks storage throws, so this comes last.
const values = document.querySelector('[data-docs]')
if (values) localStorage.setItem('docs-values', values.dataset.docs)
else if (location.pathname === '/sign-in') localStorage.removeItem('docs-values')
`
