/** Functions that all parts of the script share: `enhance` prepares new parts of a page, and `parse` reads a page. */
export const start = String.raw`
const parse = async (response) => new DOMParser().parseFromString(await response.text(), 'text/html')

/** The functions that prepare a page, or a part that replaced another one. */
const preparations = []
const prepare = (run) => { preparations.push(run); run(document) }
const enhance = (part) => preparations.forEach((run) => run(part))
`
