export const scriptPath = '/docs/docs.js'

/**
 * Adds copy buttons to the code of a page, and shows the languages of a call as tabs. Without the script, a page shows all languages. Fills
 * the examples with the values of the program that the reader last opened in the dashboard. The browser stores these values, so that every
 * reader gets the same cached page.
 */
export const script = String.raw`
for (const figure of document.querySelectorAll('figure.code')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(figure.querySelector('code').textContent)
    button.textContent = 'Copied'
    setTimeout(() => (button.textContent = 'Copy'), 2000)
  })
  figure.append(button)
}

const isTab = (element) => element?.matches('figure[data-tab]')
const groups = [...document.querySelectorAll('figure[data-tab]')]
  .filter((figure) => !isTab(figure.previousElementSibling))
  .map((first) => {
    const group = [first]
    while (isTab(group.at(-1).nextElementSibling)) group.push(group.at(-1).nextElementSibling)
    return group
  })
function choose(language) {
  for (const group of groups) {
    const chosen = group.find((figure) => figure.dataset.tab === language)
    if (!chosen) continue
    for (const figure of group) figure.hidden = figure !== chosen
    for (const tab of group.tabs) tab.setAttribute('aria-pressed', tab.textContent === language)
  }
}
for (const group of groups) {
  const bar = document.createElement('div')
  bar.className = 'tabs'
  bar.setAttribute('role', 'group')
  bar.setAttribute('aria-label', 'Language')
  group.tabs = group.map((figure) => {
    const tab = document.createElement('button')
    tab.type = 'button'
    tab.textContent = figure.dataset.tab
    tab.addEventListener('click', () => {
      localStorage.setItem('docs-language', tab.textContent)
      choose(tab.textContent)
    })
    return tab
  })
  bar.append(...group.tabs)
  group[0].before(bar)
}
if (groups[0]) {
  choose(groups[0][0].dataset.tab)
  choose(localStorage.getItem('docs-language'))
}

const values = JSON.parse(localStorage.getItem('docs-values') ?? '{}')
const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT)
let isFilled = false
while (texts.nextNode()) {
  const text = texts.currentNode
  if (!text.parentElement.closest('code, figcaption')) continue
  const filled = text.data.replaceAll(/\b(PROGRAM_ID|PROGRAM_CURRENCY|YOUR_PATH|shop\.example\.com)\b/g, (name) => values[name] ?? name)
  isFilled ||= filled !== text.data
  text.data = filled
}
if (isFilled) {
  const note = document.createElement('p')
  note.className = 'auth'
  note.textContent = 'The examples are filled in for ' + values['shop.example.com'] + ', which you last opened in the dashboard.'
  document.querySelector('main h1').after(note)
}
`
