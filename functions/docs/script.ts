export const scriptPath = '/docs/docs.js'

/** Adds copy buttons to the code of a page, and shows the languages of a call as tabs. Without it, a page shows all of them. */
export const script = `
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
`
