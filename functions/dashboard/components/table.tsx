import type { Child, PropsWithChildren } from 'hono/jsx'
import { Card } from './blocks.tsx'
import { useTexts } from './text.tsx'

export interface Column<Row> {
  /** The English label, which the table translates. A column without a label contains the actions on a row. */
  label?: string
  cell: (row: Row) => Child
  right?: boolean
  /** Whether the list hides the column until the reader chooses it. */
  isOptional?: boolean
  /** The orders of the list that use this column. */
  sorts?: { ascending?: string; descending?: string }
  /**
   * The column's place on a phone. The title and the amount are in the first line of a row, and all other columns are in the second.
   * `plain` columns have no label on a phone.
   */
  phone?: 'title' | 'amount' | 'plain' | 'hidden'
}

/** The current order of a list, and the list's address in another order. */
export interface Sorting {
  sort: string
  addressBy: (sort: string) => string
}

/** The label of the column with the checkboxes of `SelectRow`. */
export const selectLabel = 'Select'

const classOf = <Row,>({ label, right = !label, phone }: Column<Row>) =>
  [label === selectLabel && 'select', right && 'right', phone && `phone-${phone}`].filter(Boolean).join(' ') ||
  undefined

/**
 * A table. On a phone, each row has two lines if one of the columns is the title. Otherwise, each row has a line for each column. `caption`
 * is the table's name for screen readers.
 */
export function Table<Row>({
  caption,
  columns,
  rows,
  sorting,
}: {
  caption: string
  columns: (Column<Row> | false)[]
  rows: Row[]
  sorting?: Sorting | undefined
}) {
  const shown = columns.filter((column) => column !== false)
  const { t, fixed, zone } = useTexts()
  // Columns of times say UTC, but partners see times in their own zone.
  const labelOf = (label: string | undefined) =>
    label && (zone === undefined ? fixed(label) : fixed(label).replace(' (UTC)', ''))
  const hasTitle = shown.some(({ phone }) => phone === 'title')
  return (
    <table class={hasTitle ? 'lines-on-phone' : 'cards-on-phone'}>
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {shown.map(({ label, sorts, ...column }) => (
            <th
              scope="col"
              class={classOf({ label, ...column })}
              aria-sort={sorts && sorting && directionOf(sorts, sorting)}
            >
              {label === selectLabel ? (
                <SelectAll label={fixed(selectLabel)} />
              ) : sorts && sorting ? (
                <SortLink sorts={sorts} sorting={sorting} label={labelOf(label)} />
              ) : (
                (labelOf(label) ?? <span class="hidden">{t('Actions')}</span>)
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {shown.map((column) => (
              <td data-label={labelOf(column.label) ?? ''} class={classOf(column)}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** A checkbox that selects all rows of the page. Only the script shows it. */
function SelectAll({ label }: { label: string }) {
  return (
    <>
      <span class="hidden">{label}</span>
      <input type="checkbox" data-select-all aria-label="Select all on this page" hidden />
    </>
  )
}

type Sorts = NonNullable<Column<never>['sorts']>

function directionOf({ ascending, descending }: Sorts, { sort }: Sorting): 'ascending' | 'descending' | undefined {
  if (sort === ascending) return 'ascending'
  return sort === descending ? 'descending' : undefined
}

/** Sorts the list by a column, or reverses the order if the list is already sorted by it. */
function SortLink({ sorts, sorting, label }: { sorts: Sorts; sorting: Sorting; label: string | undefined }) {
  const direction = directionOf(sorts, sorting)
  const { descending, ascending } = sorts
  const next = direction === 'descending' ? (ascending ?? descending) : (descending ?? ascending)
  return (
    <a href={sorting.addressBy(next ?? '')}>
      {label}
      {direction && <span aria-hidden="true">{direction === 'ascending' ? ' ↑' : ' ↓'}</span>}
    </a>
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
