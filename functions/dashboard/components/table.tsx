import type { Child } from 'hono/jsx'

export interface Column<Row> {
  label: string
  cell: (row: Row) => Child
  right?: boolean
}

/** A table that becomes cards on a phone. `caption` is its name for screen readers. */
export function Table<Row>({
  caption,
  columns,
  rows,
}: {
  caption: string
  columns: (Column<Row> | false)[]
  rows: Row[]
}) {
  const shown = columns.filter((column) => column !== false)
  return (
    <table class="cards-on-phone">
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {shown.map(({ label, right }) => (
            <th scope="col" class={right ? 'right' : undefined}>
              {label === '' ? <span class="hidden">Actions</span> : label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {shown.map(({ label, cell, right }) => (
              <td data-label={label} class={right ? 'right' : undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
