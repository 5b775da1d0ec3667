/** A record of a table: its line in the file (starting at 1) and its cells. */
export interface TableRecord {
  line: number
  cells: string[]
  /** True if the file ends in a quoted cell, so the record contains all later lines. */
  isUnclosed: boolean
}

/**
 * Decodes a file that was saved by a spreadsheet, as UTF-8 or UTF-16, with or without a byte order mark. Otherwise, decodes it as
 * Windows-1252.
 */
export function decodeTable(bytes: Uint8Array): string {
  const [first, second] = bytes
  if (first === 0xfe && second === 0xff) return new TextDecoder('utf-16be').decode(bytes)
  // In UTF-16, every second byte of Latin text is NUL.
  if ((first === 0xff && second === 0xfe) || second === 0) return new TextDecoder('utf-16le').decode(bytes)
  try {
    // In a file that was cut off, the last character can be incomplete.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
  } catch {
    return new TextDecoder('windows-1252').decode(bytes)
  }
}

/** Further columns and longer cells are cut off. */
const maxColumns = 1000
const maxCellLength = 10_000

/** A cell with millions of characters would take a gigabyte of memory. */
const longer = (cell: string, character: string) => (cell.length < maxCellLength ? cell + character : cell)

const separators = [',', ';', '\t', '|']

/** After this many characters, other requests get their turn. */
const charactersAtOnce = 256 * 1024

/** Reads the records of a table one by one, headings first. Skips empty lines. */
export async function* readTable(text: string): AsyncGenerator<TableRecord> {
  const { start, separator } = startOf(text)
  let line = text.slice(0, start).includes('\n') ? 2 : 1
  let lineOfRecord = line
  let cells: string[] = []
  let cell = ''
  /** Whether the cell has more than blanks. */
  let hasText = false
  let isQuoted = false
  const add = (character: string) => {
    cell = longer(cell, character)
    hasText ||= character.trim() !== ''
  }
  let pause = charactersAtOnce
  for (let place = start; place <= text.length; place++) {
    if (place >= pause) {
      pause = place + charactersAtOnce
      await new Promise((resolve) => setTimeout(resolve))
    }
    const character = text[place]
    if (isQuoted && character !== undefined) {
      if (character === '\n') line++
      if (character !== '"') add(character)
      else if (text[place + 1] === '"') add(text[++place] ?? '')
      else isQuoted = false
    } else if (character === '"' && !hasText) {
      cell = ''
      isQuoted = true
    } else if (character === separator || character === '\n' || character === '\r' || character === undefined) {
      if (cells.length < maxColumns) cells.push(cell.trim())
      cell = ''
      hasText = false
      if (character === separator) continue
      if (character === '\r' && text[place + 1] === '\n') place++
      line++
      if (cells.some(Boolean)) yield { line: lineOfRecord, cells, isUnclosed: isQuoted }
      cells = []
      lineOfRecord = line
    } else add(character)
  }
}

/** Finds the separator: the character in Excel's first line `sep=;`, or else the most frequent separator in the headings. */
function startOf(text: string): { start: number; separator: string } {
  const beginning = text.slice(text.startsWith('\uFEFF') ? 1 : 0, 10_000)
  const byteOrderMark = text.startsWith('\uFEFF') ? 1 : 0
  const [named, separator] = /^sep=([,;\t|])\r?\n/i.exec(beginning) ?? []
  if (named !== undefined && separator !== undefined) return { start: byteOrderMark + named.length, separator }
  const headings = (/[^\r\n]+/.exec(beginning)?.[0] ?? '').replaceAll(/"[^"]*"/g, '')
  const counted = separators.map((one) => ({ one, count: headings.split(one).length }))
  return {
    start: byteOrderMark,
    separator: counted.reduce((best, next) => (next.count > best.count ? next : best)).one,
  }
}
