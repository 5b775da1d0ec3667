/** One cell: quoted where it has to be, and with an apostrophe before what a spreadsheet would take for a formula, in full-width signs too. */
function cell(value: Value): string {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = value instanceof Date ? value.toISOString() : String(value)
  const inert = /^[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert
}

type Value = string | number | boolean | Date | null

/** RFC 4180 text of `rows`, without a header. */
export function csvLines(rows: readonly (readonly Value[])[]): string {
  return [...rows.map((row) => row.map(cell).join(',')), ''].join('\r\n')
}

/** The same with the keys of the columns as its first line; a cell that a row does not have is empty. */
export function toCsv<Column extends string>(
  columns: readonly Column[],
  rows: readonly Partial<Record<Column, Value>>[],
): string {
  return csvLines([columns, ...rows.map((row) => columns.map((column) => row[column] ?? null))])
}

/** The same with cells that functions read from the rows: all of `cells`, or the named columns of them. */
export function csvOf<Row>(
  rows: readonly Row[],
  cells: Record<string, (row: Row) => Value>,
  columns = Object.keys(cells),
): string {
  return csvLines([columns, ...rows.map((row) => columns.map((column) => cells[column]?.(row) ?? null))])
}
