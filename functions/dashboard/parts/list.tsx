import type { Context } from 'hono'
import type { Child, PropsWithChildren } from 'hono/jsx'
import { noteExport } from '../../../lib/access/audit-log.ts'
import { addressOf } from './address.ts'
import { Card, Empty, Heading, Segments, type Tone } from './blocks.tsx'
import type { ProgramContext } from './page.ts'
import { type Column, Table } from './table.tsx'

const pageSize = 50

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
  filters?: Record<string, string | undefined>
  /** Where the page before ended. */
  before: Cursor | undefined
  cursorOf: (row: Row) => Cursor
}

/** A page of a list that `read` reads newest first, from the row after `before` on. */
export async function readPage<Row, Cursor extends string | number>(
  { address, filters = {}, before, cursorOf }: PageRequest<Row, Cursor>,
  read: (options: { limit: number; before: Cursor | undefined }) => Promise<Row[]>,
): Promise<Page<Row>> {
  const rows = await read({ limit: pageSize + 1, before })
  const shown = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? shown.at(-1) : undefined
  return {
    rows: shown,
    newer: before === undefined ? undefined : addressOf(address, filters),
    older: last && addressOf(address, { ...filters, before: String(cursorOf(last)) }),
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

interface ListPageProps<Row> extends ListProps<Row> {
  title: string
  lead: Child
  /** The address of the rows as a file. */
  csv: string
  filter?: Child
  actions?: Child
}

/** A page that is a list. `children` stand above the rows. */
export function ListPage<Row>({
  title,
  lead,
  csv,
  filter,
  actions,
  children,
  ...list
}: PropsWithChildren<ListPageProps<Row>>) {
  return (
    <>
      <Heading title={title} lead={lead}>
        {filter}
        {list.page.rows.length > 0 && <ExportLink href={csv} />}
        {actions}
      </Heading>
      {children}
      <List {...list} />
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

/** The states that rows of a list can be in, as people read them. */
export type States<Status extends string> = Record<Status, { name: string; tone: Tone }>

/** The state that the query asks for, or undefined where it asks for all or for none that is. */
export function stateIn<Status extends string>(c: Context, states: States<Status>): Status | undefined {
  const isState = (text: string): text is Status => Object.hasOwn(states, text)
  const asked = c.req.query('status') ?? ''
  return isState(asked) ? asked : undefined
}

/** Links to the rows in any state, or in one. */
export function StateFilter({
  address,
  states,
  current,
}: {
  address: string
  states: States<string>
  current: string | undefined
}) {
  return (
    <Segments
      label="State"
      items={[
        { href: address, text: 'All', current: current === undefined },
        ...Object.entries(states).map(([status, { name }]) => ({
          href: addressOf(address, { status }),
          text: name,
          current: status === current,
        })),
      ]}
    />
  )
}

/** What stands where no row is in the state that was asked for. */
export function noneInState(address: string, what: string): ListProps<never>['empty'] {
  return { title: 'None in this state', text: <a href={address}>Show all {what}</a> }
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
