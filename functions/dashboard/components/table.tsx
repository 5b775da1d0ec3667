import type { Child, PropsWithChildren } from 'hono/jsx'
import { Card } from './blocks.tsx'

export interface Column<Row> {
  /** A column without a label holds the actions on a row. */
  label?: string
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
          {shown.map(({ label, right = !label }) => (
            <th scope="col" class={right ? 'right' : undefined}>
              {label ?? <span class="hidden">Actions</span>}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {shown.map(({ label, cell, right = !label }) => (
              <td data-label={label ?? ''} class={right ? 'right' : undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

interface TableCardProps<Row> {
  title: string
  aside?: Child
  caption: string
  rows: Row[]
  columns: (Column<Row> | false)[]
  /** The text if there are no rows. */
  none?: Child
}

/** A card with a short table. */
export function TableCard<Row>(props: PropsWithChildren<TableCardProps<Row>>) {
  const { title, aside, none = 'None yet.', children, ...table } = props
  return (
    <Card title={title} aside={aside}>
      {table.rows.length === 0 ? <p class="muted">{none}</p> : <Table {...table} />}
      {children}
    </Card>
  )
}
