import { copying } from '../dashboard/components/script/copying.ts'

/**
 * The script inside the frame. It asks the page around it for a token, loads the portal with it, and reports its height. The page must
 * have one of the program's origins, which are listed in `data-origins`. The browser enforces the same list (`frame-ancestors`).
 */
export const script = String.raw`${copying}
const { origins, program } = document.body.dataset
const main = document.querySelector('main')
let page // the origin of the page around the frame
let language // the language of that page
let token
let query = ''
let attempts = 0
let waiting

const say = (message) => parent.postMessage(message, page ?? '*')
function askForToken() {
  attempts += 1
  // The page may have no callback, or one that never answers.
  waiting = setTimeout(() => fail(main.dataset.failed), 10_000)
  // This message contains nothing secret, and the page's origin is unknown before its first answer.
  say({ svc: 'token' })
}
function fail(text) {
  const message = document.createElement('p')
  message.className = 'message bad'
  message.setAttribute('role', 'alert')
  message.textContent = text
  main.replaceChildren(message)
}

addEventListener('message', ({ source, origin, data }) => {
  if (source !== parent || !origins.split(' ').includes(origin)) return
  if (data?.svc === 'theme') {
    page = origin
    language = /^[a-z]{2}$/.test(data.language) ? data.language : ''
    applyTheme(data)
    reportHeight()
  }
  if (data?.svc === 'token') {
    page = origin
    clearTimeout(waiting)
    token = data.token
    if (typeof token === 'string') load()
    else fail(main.dataset.failed)
  }
})

function applyTheme({ isDark, colors, font }) {
  const { style } = document.documentElement
  style.colorScheme = isDark ? 'dark' : 'light'
  for (const [name, value] of Object.entries(colors ?? {})) {
    if (/^[a-z-]+$/.test(name) && CSS.supports('color', value)) style.setProperty('--' + name, value)
  }
  if (CSS.supports('font-family', font)) style.setProperty('--sans', font)
}

async function load() {
  let response, text
  try {
    response = await fetch('/embed/' + program + '/portal' + query, {
      headers: { authorization: 'Bearer ' + token, 'svc-page-origin': page, 'svc-page-language': language },
      credentials: 'omit',
    })
    text = await response.text()
  } catch {
    return fail(main.dataset.failed)
  }
  if (response.status === 401 && attempts < 2) return askForToken()
  if (!response.ok) return fail(response.status === 403 ? JSON.parse(text).error.message : main.dataset.failed)
  attempts = 0
  main.replaceChildren(...new DOMParser().parseFromString(text, 'text/html').body.childNodes)
}

addEventListener('click', ({ target }) => {
  const button = target.closest('button')
  if (button?.dataset.copy) copyText(button)
  if (button?.dataset.load !== undefined) {
    query = button.dataset.load
    load()
  }
})
addEventListener('submit', (event) => {
  event.preventDefault()
  query = '?' + new URLSearchParams(new FormData(event.target))
  load()
})

// The page gets the height only after a message from an allowed origin.
const reportHeight = () => page && say({ svc: 'height', height: Math.ceil(main.getBoundingClientRect().height) })
new ResizeObserver(reportHeight).observe(main)

if (parent === self) fail(main.dataset.alone)
else askForToken()
`
