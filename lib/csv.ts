/** Writes one cell. Quotes the cell if needed, and puts an apostrophe before text that a spreadsheet could mistake for a formula. */
function cell(value: Value): string {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = value instanceof Date ? value.toISOString() : String(value)
  // Negative amounts are not formulas.
  return /^-\d+(\.\d+)?$/.test(text) ? text : quoted(withoutFormula(text))
}

/**
 * Puts an apostrophe before text that a spreadsheet could mistake for a formula. This includes full-width characters, and text after a
 * semicolon, a tab or a line break, because spreadsheets in many languages split cells there.
 */
export const withoutFormula = (text: string) =>
  text.replace(/^(?=[=+\-@\t\r\n＝＋－＠])/, "'").replaceAll(/([;\t\r\n])(?=["' ]*[=+\-@＝＋－＠])/g, "$1'")

const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

/** Writes rows as RFC 4180 text for other programs, without changing the cells. A spreadsheet could mistake a cell for a formula. */
export function machineCsv(rows: readonly (readonly string[])[]): string {
  return [...rows.map((row) => row.map(quoted).join(',')), ''].join('\r\n')
}

type Value = string | number | boolean | Date | null

/** Writes rows of a report for spreadsheets as RFC 4180 text, without a header. */
function csvLines(rows: readonly (readonly Value[])[]): string {
  return [...rows.map((row) => row.map(cell).join(',')), ''].join('\r\n')
}

/** Writes a header of column keys, then the rows. A cell is empty if its row has no value. */
export function toCsv<Column extends string>(
  columns: readonly Column[],
  rows: readonly Partial<Record<Column, Value>>[],
): string {
  return csvLines([columns, ...rows.map((row) => columns.map((column) => row[column] ?? null))])
}

/**
 * Writes a header and rows, with a function for each column that computes the cell from a row: all of `cells`, or only the listed columns.
 */
export function csvOf<Row>(
  rows: readonly Row[],
  cells: Record<string, (row: Row) => Value>,
  columns = Object.keys(cells),
): string {
  return csvLines([columns, ...rows.map((row) => columns.map((column) => cells[column]?.(row) ?? null))])
}
