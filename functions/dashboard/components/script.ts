/**
 * The dashboard's only script, served as a file. Pages work without it. It copies to the clipboard, asks for confirmation, refreshes parts
 * marked `data-poll`, sets the address from `data-address`, and scrolls the current page into view in the navigation.
 */
export const script = String.raw`
document.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]')
  if (!button) return
  await navigator.clipboard.writeText(button.dataset.copy)
  const label = button.textContent
  button.textContent = 'Copied'
  setTimeout(() => { button.textContent = label }, 1500)
})

document.addEventListener('submit', (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm
  if (question && !confirm(question)) return event.preventDefault()
  if (event.target.dataset.sent) return event.preventDefault()
  if (event.target.method === 'post') event.target.dataset.sent = 'yes'
})

// If the browser shows a cached page again, its forms can be sent again.
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

// So reloading or revisiting a secret that is shown once sends nothing again.
const answered = document.querySelector('[data-address]')
if (answered) history.replaceState(null, '', answered.dataset.address)

// With scrollIntoView, the Tab key would start behind the link.
const current = document.querySelector('nav [aria-current="page"]')
const list = current?.closest('ul')
if (list) {
  const [own, around] = [current.getBoundingClientRect(), list.getBoundingClientRect()]
  list.scrollLeft += own.left + own.width / 2 - around.left - around.width / 2
}
`
