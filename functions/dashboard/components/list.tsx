import type { Context } from 'hono'
import type { Child, PropsWithChildren } from 'hono/jsx'
import { noteExport, noteWorkspaceExport } from '../../../lib/access/audit-log.ts'
import type { Action } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import type { Database, Statement } from '../../../lib/database.ts'
import { ApiError } from '../../../lib/errors.ts'
import type { Part, Totals } from '../../../lib/keyset.ts'
import { addressOf, cut, positiveInteger } from './address.ts'
import { Badge, Empty, LinkButton, Segments, type Tone } from './blocks.tsx'
import { Field, Hidden } from './fields.tsx'
import { emptyForm, FormContext } from './form.ts'
import { AccountPage, PartnerPage, ProgramPage } from './layout.tsx'
import {
  type createPages,
  type createProgramPages,
  type PartnerContext,
  type ProgramContext,
  requirePartner,
  requireProgram,
  requireWorkspace,
  type WorkspaceContext,
} from './page.ts'
import { SavedViews } from './saved-views.tsx'
import { type Column, selectLabel, type Sorting, Table } from './table.tsx'
import { english, type PageTexts, useTexts } from './text.tsx'

const pageSize = 50

/** The parameters in a list's address. */
export type Query = Record<string, string | undefined>

/** Rows per query for a CSV file. */
const csvPageSize = 2000

/** One page of a list, with the addresses of the previous and the next page. */
export interface Page<Row> {
  rows: Row[]
  newer?: string | undefined
  older?: string | undefined
}

/** Reads the position of a row in its list, from the row and from the address. */
export interface Cursors<Row, Cursor> {
  of: (row: Row) => Cursor
  parse: (text: string | undefined) => Cursor | undefined
  /** Converts the position to text for the address, if the position is not a text or a number. */
  text?: (cursor: Cursor) => string
}

/** The positions in a list that is sorted by id. */
export const byId = { of: ({ id }: { id: number }) => id, parse: positiveInteger }

/**
 * Reads the page that the address selects: the top of the list, or the rows below or above a given row (nearest first). If that page is
 * empty, reads the first page. Every page keeps `query`.
 */
export async function readPage<Row, Cursor>(
  c: Context,
  { of, parse, text = String }: Cursors<Row, Cursor>,
  read: (part: Part<Cursor>) => Promise<Row[]>,
  query: Query = {},
): Promise<Page<Row>> {
  const [before, after] = [parse(c.req.query('before')), parse(c.req.query('after'))]
  const limit = pageSize + 1
  const named = await read({ limit, before, after })
  const reachesTop = before === undefined && (after === undefined || named.length <= pageSize)
  const isTop = named.length === 0 || reachesTop
  const isUpwards = after !== undefined && !isTop
  const rows = isTop && (before ?? after) !== undefined ? await read({ limit }) : named
  const goesOn = rows.length > pageSize
  const nearest = rows.slice(0, pageSize)
  const shown = isUpwards ? nearest.toReversed() : nearest
  const [first, last] = [shown[0], shown.at(-1)]
  const at = (end: 'before' | 'after', row: Row) => addressOf(c.req.path, { ...query, [end]: text(of(row)) })
  return {
    rows: shown,
    newer: first && !isTop ? at('after', first) : undefined,
    older: last && (isUpwards || goesOn) ? at('before', last) : undefined,
  }
}

/** The English name of the rows in the plural, such as `payouts`, or a function that formats the number of rows with their name. */
type RowsName = string | ((count: number) => string)

interface ListProps<Row> {
  page: Page<Row>
  /** The number of all rows and the sums of their amounts, for the line below the list. */
  totals: Totals[]
  rows: RowsName
  /** The name of the list for screen readers. */
  caption: string
  columns: (Column<Row> | false)[]
  /** The message if the list is empty. */
  empty: { title: string; text: Child }
  /** Shown after the totals. */
  note?: Child
  sorting?: Sorting | undefined
}

/** A list with links to older and newer rows, or a message if it is empty. */
export function List<Row>({
  title,
  page,
  totals,
  rows: name,
  empty,
  note,
  ...table
}: ListProps<Row> & { title?: string }) {
  const { rows, newer, older } = page
  return (
    <section class="list">
      {title && <h2>{title}</h2>}
      {rows.length === 0 ? (
        <Empty title={empty.title}>
          <p>{empty.text}</p>
        </Empty>
      ) : (
        <>
          <Table rows={rows} {...table} />
          <Pager newer={newer} older={older}>
            <Sums totals={totals} rows={name} />
            {note && <> · {note}</>}
          </Pager>
        </>
      )}
    </section>
  )
}

/** Rows, or the statement that reads them. Two statements are one database request. */
type Reading<Row> = Promise<Row[]> | Statement<Row>

const rowsOf = async <Row,>(c: Context, reading: Reading<Row>): Promise<Row[]> =>
  reading instanceof Promise ? await reading : await databaseOf(c).query(reading)

const databaseOf = (c: Context): Database => c.get('db')

/** Defines a list with a page and a CSV file: its rows, and their format in both. */
export interface ListOf<Row, Cursor = number, More = undefined> {
  title: string
  heading?: string
  /** The path of the list's navigation entry. */
  current: string
  rows: RowsName
  /** The filters in the address. */
  query?: Query
  /** The states that filter the rows. */
  states?: States<string>
  cursor: Cursors<Row, Cursor>
  read: (part: Part<Cursor>) => Reading<Row>
  /** Counts and sums all rows that match. */
  totals: () => Reading<Totals>
  /** Reads further data for the page at the same time. */
  more?: () => Promise<More>
  /** `count` is the number of all rows that match. */
  show: (rows: Row[], more: More | undefined, count: number) => Shown<Row>
  /** Returns the name of the file without its extension. Called after the first read. */
  file: () => string
  /** Writes rows with a header line. */
  csv: (rows: Row[]) => string
}

interface Shown<Row> extends Omit<ListProps<Row>, 'page' | 'totals' | 'rows'>, Omit<FindProps, 'address' | 'query'> {
  lead: Child
  /** A choice between views of the page. */
  views?: Child
  actions?: Child
  /** Shown between the filters and the rows: the actions on several rows. */
  above?: Child
  /** Shown below the rows. */
  below?: Child
}

/** Returns the filters in the address that have an unknown value, such as `status=lost`. */
function unknownFilters(c: Context, query: Query): string[] {
  return Object.entries(c.req.query())
    .filter(([name, value]) => value.trim() !== '' && Object.hasOwn(query, name) && !query[name])
    .map(([name, value]) => `${name}=${cut(value, 50)}`)
}

/** Refuses unknown filters, so that an action never affects more rows than intended. */
export function refuseUnknownFilters(c: Context, query: Query): void {
  const [unknown] = unknownFilters(c, query)
  if (unknown === undefined) return
  const texts: PageTexts = c.get('texts') ?? english
  throw new ApiError(
    'invalid_request',
    texts.t("The filter {filter} doesn't exist here. Go back and choose another filter.", { filter: unknown }),
  )
}

/** Renders the page of a list. */
async function renderList<Row, Cursor, More>(
  c: Context,
  list: ListOf<Row, Cursor, More>,
  Page: typeof ProgramPage | typeof PartnerPage | typeof AccountPage,
) {
  const { title, heading, current, states } = list
  const toggled = (c.req.query('columns') ?? '').split(',').filter(Boolean)
  const query: Query = { ...list.query, ...(toggled.length > 0 && { columns: cut(toggled.join(','), 200) }) }
  let totals: Totals[] | undefined
  const read = async (part: Part<Cursor>) => {
    const reading = list.read(part)
    if (totals) return await rowsOf(c, reading)
    const counting = list.totals()
    const isOneRequest = !(reading instanceof Promise || counting instanceof Promise)
    const [rows, all] = isOneRequest
      ? await databaseOf(c).batch([reading, counting])
      : await Promise.all([rowsOf(c, reading), rowsOf(c, counting)])
    totals = all
    return rows
  }
  const [page, more] = await Promise.all([readPage(c, list.cursor, read, query), list.more?.()])
  const { lead, views, actions, above, below, columns, what, sorts, choices, empty, ...shown } = list.show(
    page.rows,
    more,
    countOf(totals ?? []),
  )
  const address = c.req.path
  const program: ViewerProgram | undefined = Page === ProgramPage ? c.get('program') : undefined
  const unknown = unknownFilters(c, query)
  const isFiltered = Object.entries(list.query ?? {}).some(([name, value]) => value && name !== 'sort')
  const besideHeading = (
    <>
      {program && (
        <SavedViews
          program={program}
          list={address.split('/').slice(3).join('/')}
          query={addressOf('', query).slice(1)}
        />
      )}
      {page.rows.length > 0 && <ColumnChoice address={address} query={query} columns={columns} toggled={toggled} />}
      {page.rows.length > 0 && <ExportLink href={addressOf(`${address}.csv`, query)} />}
      {actions}
    </>
  )
  const texts: PageTexts = c.get('texts') ?? english
  return c.render(
    <Page title={title} heading={heading ?? title} current={current} lead={lead} actions={besideHeading}>
      {views && <div data-visits>{views}</div>}
      {unknown.length > 0 && (
        <p class="message warn" role="alert">
          {texts.t('The filter {filter} is unknown here and not applied.', { filter: unknown.join(', ') })}{' '}
          <a href={address}>{texts.t('Show all')}</a>
        </p>
      )}
      {(what ?? choices ?? states) && (
        <div class="toolbar">
          {(what ?? choices) && <Find address={address} query={query} what={what} sorts={sorts} choices={choices} />}
          {states && <StateFilter address={address} query={query} states={states} />}
        </div>
      )}
      {above}
      <List
        page={page}
        totals={totals ?? []}
        rows={list.rows}
        empty={isFiltered ? noneFits(address, texts) : empty}
        sorting={
          sorts && { sort: query['sort'] ?? 'newest', addressBy: (sort) => addressOf(address, { ...query, sort }) }
        }
        columns={columns.filter((column) => column && isShown(column, toggled))}
        {...shown}
      />
      {below}
    </Page>,
  )
}

interface ColumnChoiceProps<Row> {
  address: string
  query: Query
  columns: (Column<Row> | false)[]
  /** The labels of the columns that differ from the default. */
  toggled: string[]
}

const isShown = <Row,>({ label, isOptional = false }: Column<Row>, toggled: string[]) =>
  isOptional === (label !== undefined && toggled.includes(label))

/** Hides columns and shows them again. The first column always stays visible. */
function ColumnChoice<Row>({ address, query, columns, toggled }: ColumnChoiceProps<Row>) {
  const choices = columns.flatMap((column) => (column && column.label && column.label !== selectLabel ? [column] : []))
  const { t, fixed } = useTexts()
  return (
    <details class="switcher phone-off">
      <summary class="button">{t('Columns')}</summary>
      <div class="menu">
        {choices.slice(1).map((column) => {
          const { label = '' } = column
          const next = toggled.includes(label) ? toggled.filter((one) => one !== label) : [...toggled, label]
          return (
            <a
              href={addressOf(address, { ...query, columns: next.join(',') })}
              class="check"
              aria-current={isShown(column, toggled)}
            >
              {fixed(label)}
            </a>
          )
        })}
      </div>
    </details>
  )
}

const countOf = (totals: Totals[]) => totals.reduce((all, { rows }) => all + rows, 0)

/** The number of all rows of a list, and the sum of their amounts in each currency. */
function Sums({ totals, rows }: Pick<ListProps<never>, 'totals' | 'rows'>) {
  const { money, number } = useTexts()
  const count = countOf(totals)
  const name = typeof rows === 'string' ? `${number(count)} ${count === 1 ? singularOf(rows) : rows}` : rows(count)
  const sums = totals.flatMap(({ cents, currency }) => (currency === null ? [] : [money(cents, currency)]))
  return (
    <>
      {totals.some(({ hasMore }) => hasMore) ? `More than ${name}` : name}
      {sums.length > 0 && <strong>{` ${sums.join(' + ')}`}</strong>}
    </>
  )
}

const singularOf = (rows: string) => rows.replace(/(?:ie)?s$/, (end) => (end === 'ies' ? 'y' : ''))

/** Adds a list to the pages of a program. An export gets an audit log entry first. */
export function programList<Row, Cursor = number, More = undefined>(
  pages: ReturnType<typeof createProgramPages>,
  path: string,
  action: Action,
  listIn: (c: ProgramContext) => ListOf<Row, Cursor, More>,
): void {
  pages.get(path, requireProgram(action), (c) => renderList(c, listIn(c), ProgramPage))
  pages.get(`${path}.csv`, requireProgram(action), async (c) => {
    const list = listIn(c)
    const response = await listResponse(c, list)
    await noteExport(c.get('db'), c.get('viewer').user.id, c.get('program').id, list.file())
    return response
  })
}

/** Adds a list to the pages of a partner. */
export function partnerList<Row, Cursor = number, More = undefined>(
  pages: ReturnType<typeof createPages>,
  path: string,
  listIn: (c: PartnerContext) => ListOf<Row, Cursor, More>,
): void {
  pages.get(path, requirePartner, (c) => renderList(c, listIn(c), PartnerPage))
  pages.get(`${path}.csv`, requirePartner, (c) => listResponse(c, listIn(c)))
}

/** Adds a list to the pages of a workspace. An export gets an audit log entry first. */
export function workspaceList<Row, Cursor = number, More = undefined>(
  pages: ReturnType<typeof createPages>,
  path: string,
  action: Action,
  listIn: (c: WorkspaceContext) => ListOf<Row, Cursor, More>,
): void {
  pages.get(path, requireWorkspace(action), (c) => renderList(c, listIn(c), AccountPage))
  pages.get(`${path}.csv`, requireWorkspace(action), async (c) => {
    const list = listIn(c)
    const response = await listResponse(c, list)
    await noteWorkspaceExport(c.get('db'), c.get('viewer').user.id, c.get('workspace').id, list.file())
    return response
  })
}

export function ExportLink({ href }: { href: string }) {
  return <LinkButton href={href} text={useTexts().t('Export CSV')} />
}

export const searchIn = (c: Context) => cut((c.req.query('q') ?? '').trim(), 100) || undefined

/** Reads the query of a list: `q` (search text), `sort` (one of its orders), and `partner` (an id). */
export function readListQuery<Sort extends string>(c: Context, sorts: Record<Sort, string>) {
  const isSort = (text: string): text is Sort => Object.hasOwn(sorts, text)
  const sort = c.req.query('sort') ?? ''
  return {
    search: searchIn(c),
    sort: isSort(sort) ? sort : undefined,
    partner_id: positiveInteger(c.req.query('partner')),
  }
}

/** Converts the result of `readListQuery` back into a query. */
export function asQuery({ search, sort, partner_id: partner }: ReturnType<typeof readListQuery>) {
  return { q: search, sort, partner: partner?.toString() }
}

interface FindProps {
  /** The list without a query. */
  address: string
  /** The current query. The form sets `q` and `sort`. */
  query: Query
  /** The placeholder of the search field, which lists the searched columns. Without it, the form only filters. */
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

/** The first and the last day of a list, both inclusive. */
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

/** Converts the result of `daysIn` back into a query. */
export function asDays({ from, to }: ReturnType<typeof daysIn>) {
  return {
    dateFrom: from?.toISOString().slice(0, 10),
    dateTo: to && new Date(to.getTime() - dayMs).toISOString().slice(0, 10),
  }
}

/** Searches, filters and sorts a list. */
export function Find({ address, query, what, sorts, sortLabel, choices = [] }: FindProps) {
  const { t } = useTexts()
  const own = new Set(['q', 'sort', ...choices.map(({ name }) => name)])
  const kept = Object.entries(query).filter(([name, value]) => value && !own.has(name))
  return (
    <FormContext.Provider value={emptyForm}>
      <form method="get" action={address} role="search" class="row end inline find">
        <Hidden fields={Object.fromEntries(kept)} />
        {what && <Field name="q" type="search" label={t('Search')} placeholder={what} value={query['q']} />}
        {choices.map((choice) => (
          <Field {...choice} value={query[choice.name]} />
        ))}
        {sorts && (
          <Field name="sort" label={sortLabel ?? t('Order')} options={Object.entries(sorts)} value={query['sort']} />
        )}
        <button type="submit">{t('Show')}</button>
        {Object.values(query).some(Boolean) && <LinkButton href={address} text={t('Clear')} />}
      </form>
    </FormContext.Provider>
  )
}

/** The states of a list's rows, with English labels that the pages translate. */
export type States<Status extends string> = Record<Status, { name: string; tone: Tone }>

/** The row's state. */
export function StateBadge<Status extends string>({ states, status }: { states: States<Status>; status: Status }) {
  const { name, tone } = states[status]
  return <Badge tone={tone}>{useTexts().fixed(name)}</Badge>
}

/** Reads the state from the query. Returns undefined for all states. */
export function stateIn<Status extends string>(c: Context, states: States<Status>): Status | undefined {
  const isState = (text: string): text is Status => Object.hasOwn(states, text)
  const status = c.req.query('status') ?? ''
  return isState(status) ? status : undefined
}

/** Links that filter a list by state. */
function StateFilter({ address, query, states }: { address: string; query: Query; states: States<string> }) {
  const { status: current, ...others } = query
  const { t, fixed } = useTexts()
  return (
    <Segments
      label={t('State')}
      items={[
        { href: addressOf(address, others), text: t('All'), current: current === undefined },
        ...Object.entries(states).map(([status, { name }]) => ({
          href: addressOf(address, { ...others, status }),
          text: fixed(name),
          current: status === current,
        })),
      ]}
    />
  )
}

/** The message in a list without matching rows. */
export function noneFits(address: string, { t }: PageTexts = english): ListProps<never>['empty'] {
  return { title: t('No results'), text: <a href={address}>{t('Show all')}</a> }
}

/** Streams all rows of a list as a CSV file, page by page. If a query fails, the download fails too. */
export async function listResponse<Row, Cursor>(
  c: Context,
  { file, read, cursor, csv, query = {} }: Pick<ListOf<Row, Cursor>, 'file' | 'read' | 'cursor' | 'csv' | 'query'>,
): Promise<Response> {
  refuseUnknownFilters(c, query)
  const text = new TextEncoder()
  let rows = await rowsOf(c, read({ limit: csvPageSize }))
  let isFirst = true
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const lines = csv(rows)
      const chunk = isFirst ? lines : lines.slice(lines.indexOf('\n') + 1)
      if (chunk) controller.enqueue(text.encode(chunk))
      isFirst = false
      const last = rows.at(-1)
      if (rows.length < csvPageSize || last === undefined) {
        controller.close()
        return
      }
      rows = await rowsOf(c, read({ limit: csvPageSize, before: cursor.of(last) }))
    },
  })
  return c.body(stream, 200, csvHeaders(file()))
}

/** Responds with a CSV file of a program. Writes an audit log entry first. */
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
  const { t } = useTexts()
  if (!newer && !older && !children) return null
  return (
    <div class="row apart">
      <p class="muted small totals">{children}</p>
      <div class="row">
        {newer && <LinkButton class="compact" href={newer} rel="prev" text={t('Newer')} />}
        {older && <LinkButton class="compact" href={older} rel="next" text={t('Older')} />}
      </div>
    </div>
  )
}
