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

/** What a list is shown by, as it stands in an address. */
export type Query = Record<string, string | undefined>

/** How many rows a CSV file has at most. */
export const csvRows = 10_000

/** A part of a list, and the addresses of the parts before and after it. */
export interface Page<Row> {
  rows: Row[]
  newer?: string | undefined
  older?: string | undefined
}

interface PageRequest<Row, Cursor> {
  address: string
  /** What chooses the rows, in the query of every page. */
  filters?: Query
  /** Where in the list it is: below the row that the page above ended with, or above the row that the page below began with. */
  place: Place<Cursor>
  cursorOf: (row: Row) => Cursor
}
type Place<Cursor> = Omit<Part<Cursor>, 'limit'>

/** Where in a list of ids the query is. */
export function placeIn(c: Context): Place<number> {
  return { before: positiveInteger(c.req.query('before')), after: positiveInteger(c.req.query('after')) }
}

/** A page of a list in the order of its ids. */
export async function readPageById<Row extends { id: number }>(
  c: Context,
  address: string,
  read: (part: Part) => Promise<Row[]>,
  filters: Query = {},
): Promise<Page<Row>> {
  return await readPage({ address, filters, place: placeIn(c), cursorOf: ({ id }: Row) => id }, read)
}

/** A page of a list that `read` reads: from the top on, below a row, or, from the nearest up, above one. Its first page where nothing is there. */
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
  /** What it lists, for screen readers. */
  caption: string
  columns: (Column<Row> | false)[]
  /** What stands where there is nothing. */
  empty: { title: string; text: Child }
  /** Where in the list this is. */
  position?: Child
}

/** A list: its rows or what stands where there are none, and the way to older and newer ones. */
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
  /** What its rows are called: `payouts`. */
  rows: string
  /** The states that its rows are chosen by. */
  states?: States<string>
  /** The address of the rows as a file, if that holds all rows whatever the query. */
  csv?: string
  filter?: Child
  actions?: Child
}

/** A page that is a list. `children` stand above the rows. */
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

/** What leads to the same rows as a file. */
export function ExportLink({ href }: { href: string }) {
  return (
    <a class="button" href={href}>
      Export CSV
    </a>
  )
}

/** What the query of a list searches for. */
export const searchIn = (c: Context) => cut((c.req.query('q') ?? '').trim(), 100) || undefined

/** What the query of a list asks for: `q`, what to look for, `sort`, one of its orders, and `partner`, the id of one. */
export function askedOf<Sort extends string>(c: Context, sorts: Record<Sort, string>) {
  const isSort = (text: string): text is Sort => Object.hasOwn(sorts, text)
  const sort = c.req.query('sort') ?? ''
  return {
    search: searchIn(c),
    sort: isSort(sort) ? sort : undefined,
    partner_id: positiveInteger(c.req.query('partner')),
  }
}

/** The same as it stands in an address. */
export function asQuery({ search, sort, partner_id: partner }: ReturnType<typeof askedOf>) {
  return { q: search, sort, partner: partner?.toString() }
}

interface FindProps {
  /** The list without any query. */
  address: string
  /** The query that the list is shown by, of which this form sets `q` and `sort`. */
  query: Query
  /** What to look for; where none is given, rows are only chosen. */
  what?: string | undefined
  sorts?: Record<string, string> | undefined
  sortLabel?: string
  /** What else it chooses rows by, each a parameter of the query. */
  choices?: Choice[] | undefined
}

/** A field that chooses rows of a list: a text, a day, or one of the options. */
export interface Choice {
  name: string
  label: string
  type?: 'date'
  placeholder?: string
  options?: readonly (readonly [value: string, label: string])[]
}

/** The days from and to which a list shows its rows, both among them. */
export const dayChoices: Choice[] = [
  { name: 'dateFrom', label: 'From', type: 'date' },
  { name: 'dateTo', label: 'To', type: 'date' },
]

/** The days that the query asks for, by the moments (UTC) that they begin and end with: `to` is no part of the range. */
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

/** The same as they stand in an address. */
export function asDays({ from, to }: ReturnType<typeof daysIn>) {
  return {
    dateFrom: from?.toISOString().slice(0, 10),
    dateTo: to && new Date(to.getTime() - dayMs).toISOString().slice(0, 10),
  }
}

/** Looks for something in a list, and chooses its rows and their order. */
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

/** The states that rows of a list can be in, as people read them. */
export type States<Status extends string> = Record<Status, { name: string; tone: Tone }>

/** The state that the query asks for, or undefined where it asks for all or for none that is. */
export function stateIn<Status extends string>(c: Context, states: States<Status>): Status | undefined {
  const isState = (text: string): text is Status => Object.hasOwn(states, text)
  const asked = c.req.query('status') ?? ''
  return isState(asked) ? asked : undefined
}

/** Links to the rows in any state, or in one. */
export function StateFilter({ address, query, states }: { address: string; query: Query; states: States<string> }) {
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

/** What stands where no row is what was asked for. */
export function noneFits(address: string, what: string): ListProps<never>['empty'] {
  return { title: 'No results', text: <a href={address}>Show all {what}</a> }
}

/** A CSV file of a program for the reader to keep, which the audit log notes before they have it. */
export async function exportCsv(c: ProgramContext, name: string, text: string): Promise<Response> {
  await noteExport(c.get('db'), c.get('viewer').user.id, c.get('program').id, name)
  return csvResponse(c, name, text)
}

/** A CSV file for the reader to keep. */
export function csvResponse(c: Context, name: string, text: string): Response {
  return c.body(text, 200, {
    'Content-Type': 'text/csv; charset=utf-8',
    'Content-Disposition': `attachment; filename="${name}.csv"`,
  })
}

/** The ways to newer and older rows. */
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
