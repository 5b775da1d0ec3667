import { copying } from './copying.ts'

/** Copies and shares text, shows local times, asks for confirmation, sends each form once, closes menus, and lets keys press buttons. */
export const basics = String.raw`${copying}
document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-copy]')
  if (button) copyText(button)
})

document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-share]')
  // Closing the share sheet is not an error.
  if (button) navigator.share({ url: button.dataset.share }).catch(() => {})
})
prepare((part) => {
  for (const button of part.querySelectorAll('[data-share]')) button.hidden = !navigator.share
})

// The page's language, in the reader's regional variant. Some systems report variants that browsers don't accept, such as en-US@posix.
const { lang } = document.documentElement
const locale = navigator.languages.find((one) => one.split('-')[0] === lang && /^[\w-]+$/.test(one)) ?? lang
const localTime = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' })
const zone = document.querySelector('meta[name=time-zone]')?.content
const ownZone = localTime.resolvedOptions().timeZone
// The next pages show times in this zone without the script.
if (zone !== undefined && zone !== ownZone) document.cookie = 'svc_time_zone=' + ownZone + '; path=/; max-age=31536000; samesite=lax; secure'
prepare((part) => {
  for (const time of part.querySelectorAll('time[data-local]')) time.textContent = localTime.format(new Date(time.dateTime))
})

const question = document.querySelector('dialog#question')
let confirmed
/** Asks in a dialog, then presses the button again. */
function ask(text, form, submitter) {
  question.querySelector('p').textContent = text
  const [, yes] = question.querySelectorAll('button')
  yes.textContent = submitter.textContent.trim()
  yes.className = /\b(danger|bad)\b/.test(submitter.className) ? 'danger' : 'primary'
  question.returnValue = ''
  question.showModal()
  question.onclose = () => {
    if (question.returnValue !== 'yes') return
    confirmed = form
    form.requestSubmit(submitter)
  }
}

document.addEventListener('submit', (event) => {
  const { target: form, submitter } = event
  const text = submitter?.dataset.confirm ?? form.dataset.confirm
  if (text && confirmed !== form) {
    event.preventDefault()
    if (question) ask(text, form, submitter)
    else if (confirm(text)) { confirmed = form; form.requestSubmit(submitter) }
    return
  }
  confirmed = undefined
  if (form.dataset.sent) return event.preventDefault()
  if (form.method === 'post') form.dataset.sent = 'yes'
})

// Lets people send forms again when the browser shows a cached page.
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

// A key presses the link or button that declares it, unless somebody is typing or a dialog is open.
document.addEventListener('keydown', (event) => {
  if (event.target.closest?.('input:not([type=checkbox]), select, textarea, dialog') || event.ctrlKey || event.metaKey || event.altKey) return
  if (/^[a-z]$/.test(event.key)) document.querySelector('[data-key="' + event.key + '"]')?.click()
})
`
