/** Counts the selected rows, selects all rows of the page, and selects a range while Shift is pressed. */
export const selection = String.raw`
const rowBoxes = () => [...document.querySelectorAll('main td.select > input')]
const countSelected = () => {
  const boxes = rowBoxes()
  const count = boxes.filter((box) => box.checked).length
  for (const output of document.querySelectorAll('main [data-selected]')) output.textContent = count + ' selected'
  const all = document.querySelector('main [data-select-all]')
  if (!all) return
  all.hidden = false
  all.checked = count > 0 && count === boxes.length
  all.indeterminate = count > 0 && count < boxes.length
}
prepare(countSelected)
let latestBox
document.addEventListener('click', ({ target, shiftKey }) => {
  if (target.matches('main [data-select-all]')) for (const box of rowBoxes()) box.checked = target.checked
  else if (!target.matches('main td.select > input')) return
  const boxes = rowBoxes()
  const [from, to] = [boxes.indexOf(latestBox), boxes.indexOf(target)].sort((a, b) => a - b)
  if (shiftKey && from >= 0) for (const box of boxes.slice(from, to + 1)) box.checked = target.checked
  latestBox = target
  countSelected()
})
`
