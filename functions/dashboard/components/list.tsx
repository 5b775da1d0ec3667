import type { Context } from 'hono'
import type { Child, PropsWithChildren } from 'hono/jsx'
import { noteExport } from '../../../lib/access/audit-log.ts'
import type { Part } from '../../../lib/keyset.ts'
import { addressOf, cut, positiveInteger } from './address.ts'
import { Card, Empty, Heading, Segments, type Tone } from './blocks.tsx'
import { Field } from './fields.tsx'
import { emptyForm } from './form.ts'
import type { ProgramContext } from './page.ts'
import { type Column, Table } from './table.tsx'

const pageSize = 50

/** The parameters of a list, as its address has them. */
export type Query = Record<string, string | undefined>

/** Rows of one query of a CSV file. */
const csvPageSize = 2000

/** One page of a list, with the addresses of the pages before and after it. */
export interface Page<Row> {
  rows: Row[]
  newer?: string | undefined
  older?: string | undefined
}

interface PageRequest<Row, Cursor> {
  address: string
  /** The filters, which every page keeps in its query. */
  filters?: Query
  /** The position in the list: below the last row of the previous page, or above the first row of the next one. */
  place: Place<Cursor>
  cursorOf: (row: Row) => Cursor
}
type Place<Cursor> = Omit<Part<Cursor>, 'limit'>

/** Reads the position in a list sorted by id. */
export function placeIn(c: Context): Place<number> {
  return { before: positiveInteger(c.req.query('before')), after: positiveInteger(c.req.query('after')) }
}

/** Reads a page of a list sorted by id. */
export async function readPageById<Row extends { id: number }>(
  c: Context,
  address: string,
  read: (part: Part) => Promise<Row[]>,
  filters: Query = {},
): Promise<Page<Row>> {
  return await readPage({ address, filters, place: placeIn(c), cursorOf: idOf }, read)
}

/** Reads a page of a list: from the top, below a row, or above a row (nearest first). Reads the first page if the requested one is empty. */
export async function readPage<Row, Cursor>(
  { address, filters = {}, place, cursorOf }: PageRequest<Row, Cursor>,
  read: (part: Part<Cursor>) => Promise<Row[]>,
): Promise<Page<Row>> {
  const isUpwards = place.after !== undefined
  const isTop = !isUpwards && place.before === undefined
  const rows = await read({ limit: pageSize + 1, ...place })
  if (rows.length === 0 && !isTop) return await readPage({ address, filters, place: {}, cursorOf }, read)
  const goesOn = rows.length > pageSize
  const nearest = rows.slice(0, pageSize)
  const shown = isUpwards ? nearest.toReversed() : nearest
  const [first, last] = [shown[0], shown.at(-1)]
  const at = (end: 'before' | 'after', row: Row) => addressOf(address, { ...filters, [end]: String(cursorOf(row)) })
  return {
    rows: shown,
    newer: first && (isUpwards ? goesOn : !isTop) ? at('after', first) : undefined,
    older: last && (isUpwards || goesOn) ? at('before', last) : undefined,
  }
}

interface ListProps<Row> {
  page: Page<Row>
  /** The name of the list for screen readers. */
  caption: string
  columns: (Column<Row> | false)[]
  /** The message if the list is empty. */
  empty: { title: string; text: Child }
  /** Describes the position in the list. */
  position?: Child
}

/** A list with links to older and newer rows, or a message if it is empty. */
export function List<Row>({ title, page, caption, columns, empty, position }: ListProps<Row> & { title?: string }) {
  const { rows, newer, older } = page
  return (
    <Card title={title}>
      {rows.length === 0 ? (
        <Empty title={empty.title}>
          <p>{empty.text}</p>
        </Empty>
      ) : (
        <>
          <Table caption={caption} rows={rows} columns={columns} />
          <Pager newer={newer} older={older}>
            {position}
          </Pager>
        </>
      )}
    </Card>
  )
}

interface ListPageProps<Row> extends ListProps<Row>, Omit<FindProps, 'query'> {
  title: string
  lead: Child
  query?: Query
  /** The plural of a row's name: `payouts`. */
  rows: string
  /** The states that filter the rows. */
  states?: States<string>
  /** The address of the CSV file, if the file ignores the filters. */
  csv?: string
  filter?: Child
  actions?: Child
}

/** A page with one list. `children` come above the rows. */
export function ListPage<Row>({
  title,
  lead,
  address,
  query = {},
  rows,
  states,
  csv = addressOf(`${address}.csv`, query),
  filter,
  what,
  sorts,
  choices,
  actions,
  children,
  empty,
  ...list
}: PropsWithChildren<ListPageProps<Row>>) {
  const isFiltered = Object.entries(query).some(([name, value]) => value && name !== 'sort')
  return (
    <>
      <Heading title={title} lead={lead}>
        {filter}
        {states && <StateFilter address={address} query={query} states={states} />}
        {list.page.rows.length > 0 && <ExportLink href={csv} />}
        {actions}
      </Heading>
      {children}
      {(what ?? choices) && <Find address={address} query={query} what={what} sorts={sorts} choices={choices} />}
      <List empty={isFiltered ? noneFits(address, rows) : empty} {...list} />
    </>
  )
}

export function ExportLink({ href }: { href: string }) {
  return (
    <a class="button" href={href}>
      Export CSV
    </a>
  )
}

export const searchIn = (c: Context) => cut((c.req.query('q') ?? '').trim(), 100) || undefined

/** Reads the query of a list: `q` (search text), `sort` (one of its orders), and `partner` (an id). */
export function askedOf<Sort extends string>(c: Context, sorts: Record<Sort, string>) {
  const isSort = (text: string): text is Sort => Object.hasOwn(sorts, text)
  const sort = c.req.query('sort') ?? ''
  return {
    search: searchIn(c),
    sort: isSort(sort) ? sort : undefined,
    partner_id: positiveInteger(c.req.query('partner')),
  }
}

/** Turns these back into a query. */
export function asQuery({ search, sort, partner_id: partner }: ReturnType<typeof askedOf>) {
  return { q: search, sort, partner: partner?.toString() }
}

interface FindProps {
  /** The list without a query. */
  address: string
  /** The current query. This form sets `q` and `sort`. */
  query: Query
  /** The placeholder of the search, which names its targets. Without it, the form only filters. */
  what?: string | undefined
  sorts?: Record<string, string> | undefined
  sortLabel?: string
  /** More filters, each a parameter of the query. */
  choices?: Choice[] | undefined
}

/** A filter of a list: a text, a day, or one of the options. */
export interface Choice {
  name: string
  label: string
  type?: 'date'
  placeholder?: string
  options?: readonly (readonly [value: string, label: string])[]
}

/** The first and the last day of a list, inclusive. */
export const dayChoices: Choice[] = [
  { name: 'dateFrom', label: 'From', type: 'date' },
  { name: 'dateTo', label: 'To', type: 'date' },
]

/** Reads the days from the query. `from` is their start in UTC, `to` is their end (exclusive). */
export function daysIn(c: Context): { from: Date | undefined; to: Date | undefined } {
  const from = dayOf(c.req.query('dateFrom'))
  const last = dayOf(c.req.query('dateTo'))
  return { from, to: last && new Date(last.getTime() + dayMs) }
}

const dayMs = 86_400_000

function dayOf(text: string | undefined): Date | undefined {
  if (!text || !/^20\d\d-\d\d-\d\d/.test(text)) return undefined
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  return Number.isNaN(day.getTime()) ? undefined : day
}

/** Turns these back into a query. */
export function asDays({ from, to }: ReturnType<typeof daysIn>) {
  return {
    dateFrom: from?.toISOString().slice(0, 10),
    dateTo: to && new Date(to.getTime() - dayMs).toISOString().slice(0, 10),
  }
}

/** Searches, filters and sorts a list. */
export function Find({ address, query, what, sorts, sortLabel = 'Order', choices = [] }: FindProps) {
  const own = new Set(['q', 'sort', ...choices.map(({ name }) => name)])
  const kept = Object.entries(query).filter(([name, value]) => value && !own.has(name))
  return (
    <form method="get" action={address} role="search" class="row end inline find">
      {kept.map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      {what && <Field name="q" type="search" label="Search" placeholder={what} value={query['q']} form={emptyForm} />}
      {choices.map((choice) => (
        <Field {...choice} value={query[choice.name]} form={emptyForm} />
      ))}
      {sorts && (
        <Field name="sort" label={sortLabel} options={Object.entries(sorts)} value={query['sort']} form={emptyForm} />
      )}
      <button type="submit">Show</button>
      {Object.values(query).some(Boolean) && (
        <a class="button" href={address}>
          Clear
        </a>
      )}
    </form>
  )
}

/** The states of a list's rows, as people read them. */
export type States<Status extends string> = Record<Status, { name: string; tone: Tone }>

/** Reads the state from the query. Returns undefined for all states. */
export function stateIn<Status extends string>(c: Context, states: States<Status>): Status | undefined {
  const isState = (text: string): text is Status => Object.hasOwn(states, text)
  const asked = c.req.query('status') ?? ''
  return isState(asked) ? asked : undefined
}

/** Links that filter a list by state. */
function StateFilter({ address, query, states }: { address: string; query: Query; states: States<string> }) {
  const { status: current, ...others } = query
  return (
    <Segments
      label="State"
      items={[
        { href: addressOf(address, others), text: 'All', current: current === undefined },
        ...Object.entries(states).map(([status, { name }]) => ({
          href: addressOf(address, { ...others, status }),
          text: name,
          current: status === current,
        })),
      ]}
    />
  )
}

/** The message of a list if no row matches. */
export function noneFits(address: string, what: string): ListProps<never>['empty'] {
  return { title: 'No results', text: <a href={address}>Show all {what}</a> }
}

interface CsvList<Row, Cursor> {
  /** The name of the file without its ending. Called after the first read. */
  nameOf: () => string
  read: (part: Part<Cursor>) => Promise<Row[]>
  cursorOf: (row: Row) => Cursor
  /** Writes rows with a header line. */
  write: (rows: Row[]) => string
}

/** Streams all rows of a program's list as a CSV file. Writes an audit log entry first. */
export async function exportList<Row, Cursor>(c: ProgramContext, list: CsvList<Row, Cursor>): Promise<Response> {
  const response = await listResponse(c, list)
  await noteExport(c.get('db'), c.get('viewer').user.id, c.get('program').id, list.nameOf())
  return response
}

/** Streams all rows of a list as a CSV file, page by page. If a query fails, the download fails too. */
export async function listResponse<Row, Cursor>(
  c: Context,
  { nameOf, read, cursorOf, write }: CsvList<Row, Cursor>,
): Promise<Response> {
  const text = new TextEncoder()
  let rows = await read({ limit: csvPageSize })
  let isFirst = true
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const lines = write(rows)
      const chunk = isFirst ? lines : lines.slice(lines.indexOf('\n') + 1)
      if (chunk) controller.enqueue(text.encode(chunk))
      isFirst = false
      const last = rows.at(-1)
      if (rows.length < csvPageSize || last === undefined) {
        controller.close()
        return
      }
      rows = await read({ limit: csvPageSize, before: cursorOf(last) })
    },
  })
  return c.body(stream, 200, csvHeaders(nameOf()))
}

/** The id of a row, as the cursor of its list. */
export const idOf = ({ id }: { id: number }) => id

/** Answers with a CSV file of a program. Writes an audit log entry first. */
export async function exportCsv(c: ProgramContext, name: string, text: string): Promise<Response> {
  await noteExport(c.get('db'), c.get('viewer').user.id, c.get('program').id, name)
  return c.body(text, 200, csvHeaders(name))
}

const csvHeaders = (name: string) => ({
  'Content-Type': 'text/csv; charset=utf-8',
  'Content-Disposition': `attachment; filename="${name}.csv"`,
})

/** Links to newer and older rows. */
export function Pager({
  newer,
  older,
  children,
}: PropsWithChildren<{ newer?: string | undefined; older?: string | undefined }>) {
  if (!newer && !older && !children) return null
  return (
    <div class="row apart">
      <p class="muted small">{children}</p>
      <div class="row">
        {newer && (
          <a class="button compact" href={newer} rel="prev">
            Newer
          </a>
        )}
        {older && (
          <a class="button compact" href={older} rel="next">
            Older
          </a>
        )}
      </div>
    </div>
  )
}
