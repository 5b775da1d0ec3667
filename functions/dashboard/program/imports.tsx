import * as z from 'zod/mini'
import { newImport, newPart, partBytes } from '../../../lib/api/imports.ts'
import { type Field as SourceField, type Table as SourceTable, tables } from '../../../lib/moving/columns.ts'
import {
  applyImport,
  continueImport,
  createImport,
  type Import,
  importFiles,
  type ImportRow,
  listImportRows,
  listImports,
  type Outcome,
  outcomes,
  readImport,
  refuseImport,
  storeArchivePart,
  undoImport,
} from '../../../lib/moving/imports.ts'
import { archiveResponse, createExport, type Export, findExport } from '../../../lib/moving/exports.ts'
import type { FileColumns, ImportFile, Mappings } from '../../../lib/moving/read-files.ts'
import { services, sources } from '../../../lib/moving/sources.ts'
import { formatMoney } from '../../../lib/money.ts'
import { ruleText } from '../../../lib/programs/commission-rules.ts'
import { addressOf, idInPath } from '../components/address.ts'
import { Badge, Card, LinkButton, Metric, Segments, type Tone } from '../components/blocks.tsx'
import { Field, Form, FormDetails, Hidden, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { formatNumber, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { byId, List, type Page, readPage } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { TableCard } from '../components/table.tsx'

/** Moves partners, links, customers and balances from another service into the program: plan, apply, report and undo. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/imports`
const importsPage = (c: ProgramContext) => addressIn(c.get('program').id)
const importIn = (c: ProgramContext) => idInPath(c, 'importId', 'This program has no such import.')

/** The number of seconds that an import may run before and after the response. A scheduled function does the rest. */
const secondsAtOnce = 3
const secondsAfterwards = 600
const shownImports = 20

const states: Record<string, { name: string; tone: Tone }> = {
  reading: { name: 'Reading', tone: 'accent' },
  planned: { name: 'Planned', tone: 'warn' },
  applying: { name: 'Applying', tone: 'accent' },
  applied: { name: 'Applied', tone: 'good' },
  undoing: { name: 'Undoing', tone: 'accent' },
  undone: { name: 'Undone', tone: 'plain' },
  failed: { name: 'Failed', tone: 'bad' },
}

function State({ state }: { state: string }) {
  const { name, tone } = states[state] ?? { name: state, tone: 'plain' }
  return <Badge tone={tone}>{name}</Badge>
}

const titleOf = (source: string) => {
  const known = sources.find((one) => one === source)
  if (known === 'archive') return 'Program archive'
  return known === undefined || known === 'csv' ? 'CSV files' : services[known].title
}

pages.get('/imports', requireProgram('partner:manage'), async (c) => {
  const address = importsPage(c)
  const programId = c.get('program').id
  const [imports, latest] = await Promise.all([
    listImports(c.get('db'), programId, { limit: shownImports }),
    findExport(c.get('db'), programId),
  ])
  return c.render(
    <ProgramPage
      title="Import and export"
      current="/imports"
      lead="Bring your program from another service, or move it to another instance."
    >
      <Card title="Plan an import">
        <p>
          The plan shows the effect of each row without changing anything. You can undo an import until a payout
          contains its money. No mail is sent. <a href="/docs/migrate-guides">A guide for each service</a>
        </p>
        <Form action={address} submit="Plan" takesFiles partBytes={partBytes}>
          <Field
            name="source"
            label="Service"
            options={sources.map((source) => [
              source,
              source === 'csv' ? 'Another one, with CSV files' : titleOf(source),
            ])}
          />
          <FilesField />
          <Field
            name="access_token"
            label="API key of the service, instead of files"
            type="password"
            autocomplete="off"
            hint="We store it encrypted until everything has been read. For PartnerStack, enter the public key and the secret key, separated by a colon."
          />
          <Field
            name="account"
            label="Account or program id"
            hint="Only needed with an API key: the account id for FirstPromoter, or the program id for Tolt and Tapfiliate."
          />
          <div data-upload hidden>
            <label class="stack tight">
              <span role="status" />
              <progress />
            </label>
          </div>
        </Form>
      </Card>
      <TableCard
        title="Imports"
        caption="Imports, newest first"
        rows={imports}
        columns={[
          { label: 'Created', cell: ({ id, created_at: at }) => <a href={`${address}/${id}`}>{<Time at={at} />}</a> },
          { label: 'Service', cell: ({ source }) => titleOf(source) },
          { label: 'State', cell: ({ state }) => <State state={state} /> },
          { label: 'Rows', cell: ({ rows }) => formatNumber(rows), right: true },
          { label: 'Errors', cell: ({ error }) => formatNumber(error), right: true },
        ]}
      />
      <ExportCard programId={programId} latest={latest} />
    </ProgramPage>,
  )
})

function ExportCard({ programId, latest }: { programId: number; latest: Export | undefined }) {
  const rows = Object.values(latest?.row_counts ?? {}).reduce((sum, one) => sum + one, 0)
  const address = `/programs/${programId}/exports`
  return (
    <Card title="Export">
      <p>
        One ZIP archive with the whole program: settings, partners, links, codes, customers, sales, commissions, payouts
        and the ledger, as JSON lines and CSV. Another instance can import it.{' '}
        <a href="/docs/export">Contents of the archive</a>
      </p>
      {latest && (
        <p>
          The copy of <Time at={new Date(latest.created_at)} /> UTC has {formatNumber(rows)} rows. You can download it
          for a day.
        </p>
      )}
      <div class="row">
        {latest && <LinkButton href={`${address}/${latest.id}`} text="Download" />}
        <PostButton action={address} text={latest ? 'Export again' : 'Export'} />
      </div>
    </Card>
  )
}

pages.post('/exports', requireProgram('partner:manage'), async (c) => {
  await createExport(c.get('db'), c.get('program').id)
  return redirectWith(c, importsPage(c), 'The program was copied. Download the archive.')
})

pages.get('/exports/:exportId', requireProgram('partner:manage'), async (c) => {
  const exportId = idInPath(c, 'exportId', 'This program has no such export.')
  return await archiveResponse(c.get('db'), c.env.EMAIL_HASH_KEY, c.get('program').id, exportId)
})

function FilesField({ hint }: { hint?: string }) {
  return (
    <Field
      name="files"
      label="Files"
      type="file"
      multiple
      hint={
        hint ??
        'The CSV files that you exported, up to 16 MiB in total: partners, links, codes, customers, balances, commissions or groups. We recognize each file by its name or its headings. Import larger files one after the other. For a program archive, choose its ZIP file. If it is larger than 16 MiB and your browser blocks JavaScript, run svc import plan archive.'
      }
    />
  )
}

const planForm = z.looseObject({
  source: z.enum(sources, 'Choose the service.'),
  access_token: optionalText.check(z.trim()),
  account: optionalText.check(z.trim()),
  parts: z.optional(z.coerce.number()),
})

/** The form's field and message for each refusal of `newImport`. */
const refusals: Record<string, [field: string, message: string]> = {
  files: ['files', 'Choose up to 20 files or enter an API key, but not both.'],
  parts: ['files', 'An archive can be up to 800 MiB.'],
  api_key: ['access_token', 'Enter a key without spaces. For another service, choose its files instead.'],
  account: ['account', 'Enter the id of your account or program. This service needs it in addition to the key.'],
}

pages.post('/imports', requireProgram('partner:manage'), form(planForm, importsPage), async (c) => {
  await refuseImport(c.get('db'), c.get('program').id)
  const { source, access_token: key, account, parts, ...fields } = c.req.valid('form')
  const files = await filesIn(c)
  const request = {
    source,
    ...(files.length > 0 && { files: files.map(({ name }) => ({ name, content: '' })) }),
    ...(key !== '' && { api_key: key }),
    ...(account !== '' && { account }),
    ...(parts !== undefined && { parts }),
  }
  const refused = newImport.safeParse(request).error?.issues[0]
  if (refused) {
    const [field, message] = refusals[String(refused.path[0])] ?? ['files', refused.message]
    throw new FormRefusal({ [field]: message })
  }
  const [db, programId] = [c.get('db'), c.get('program').id]
  const access = key === '' ? undefined : { key, account }
  const importId = await createImport(db, c.env, programId, source, access, parts)
  if (parts !== undefined) return c.redirect(`${importsPage(c)}/${importId}`, 303)
  if (access) await continueImport(db, c.env, { programId, importId, seconds: secondsAtOnce })
  else {
    const mappings = mappingsIn(fields)
    const chosen = files.map((file) => ({
      ...file,
      table: tableNames.find((table) => table === fields[tableField(file.name)]),
    }))
    await importFiles(db, c.env, programId, importId, { source, files: chosen, mappings, seconds: secondsAtOnce })
  }
  workOn(c, importId)
  return c.redirect(`${importsPage(c)}/${importId}`, 303)
})

const partForm = z.pipe(z.object({ part: z.coerce.number(), content_base64: z.string() }), newPart)

// The page's script sends the parts of an archive.
pages.post('/imports/:importId/parts', requireProgram('partner:manage'), form(partForm), async (c) => {
  await storeArchivePart(c.get('db'), c.env, c.get('program').id, importIn(c), c.req.valid('form'))
  return c.body(null, 204)
})

async function filesIn(c: ProgramContext): Promise<ImportFile[]> {
  const sent: unknown[] = (await c.req.formData()).getAll('files')
  return await Promise.all(
    // A browser sends an empty file if nobody chose one.
    sent
      .filter((file): file is File => file instanceof File && file.size > 0)
      .map(async (file) => ({
        name: file.name.slice(0, 150).toWellFormed() || 'file',
        content: new Uint8Array(await file.arrayBuffer()),
      })),
  )
}

const tableField = (file: string) => `table.${file}`
const mappedField = (table: string, field: string) => `heading.${table}.${field}`

/** Reads the corrected headings. An empty heading means that no column contains the field. */
function mappingsIn(fields: Record<string, unknown>): Mappings {
  const mappings: Mappings = {}
  for (const table of tableNames) {
    const chosen = tables[table].flatMap((field: SourceField) => {
      const heading = fields[mappedField(table, field)]
      return typeof heading === 'string' ? [[field, heading.slice(0, 200)] as const] : []
    })
    if (chosen.length > 0) mappings[table] = Object.fromEntries(chosen)
  }
  return mappings
}

// oxlint-disable-next-line no-unsafe-type-assertion -- the keys of a constant
const tableNames = Object.keys(tables) as SourceTable[]

/** Continues an import after the response. */
function workOn(c: ProgramContext, importId: number): void {
  const [db, programId] = [c.get('db'), c.get('program').id]
  c.executionCtx.waitUntil(continueImport(db, c.env, { programId, importId, seconds: secondsAfterwards }))
}

for (const [verb, work, done] of [
  ['apply', applyImport, 'The import was started.'],
  ['undo', undoImport, 'The undo was started.'],
] as const) {
  pages.post(`/imports/:importId/${verb}`, requireProgram('partner:manage'), async (c) => {
    const importId = importIn(c)
    await work(c.get('db'), c.env, c.get('program').id, importId, secondsAtOnce)
    workOn(c, importId)
    return redirectWith(c, `${importsPage(c)}/${importId}`, done)
  })
}

const outcomeNames: Record<Outcome, { name: string; tone: Tone }> = {
  create: { name: 'Create', tone: 'good' },
  update: { name: 'Update', tone: 'accent' },
  skip: { name: 'Skip', tone: 'plain' },
  error: { name: 'Error', tone: 'bad' },
}

pages.get('/imports/:importId', requireProgram('partner:manage'), async (c) => {
  const program = c.get('program')
  const db = c.get('db')
  const importId = importIn(c)
  const outcome = outcomes.find((one) => one === c.req.query('outcome'))
  const page = `${importsPage(c)}/${importId}`
  const [found, rows] = await Promise.all([
    readImport(db, program.id, importId),
    readPage(c, byId, (part) => listImportRows(db, program.id, importId, { ...part, outcome }), { outcome }),
  ])
  const works = ['reading', 'applying', 'undoing'].includes(found.state)
  return c.render(
    <ProgramPage
      title={found.source === 'archive' ? 'Import of an archive' : `Import from ${titleOf(found.source)}`}
      current="/imports"
      lead={
        <>
          Created <Time at={found.created_at} /> UTC
        </>
      }
      refreshSeconds={works ? 5 : undefined}
      actions={<LinkButton href={importsPage(c)} text="All imports" />}
    >
      <div data-part data-poll={works ? page : undefined} aria-live="polite" class="stack">
        <Progress found={found} page={page} />
        {found.files && found.state === 'planned' && (
          <Headings files={found.files} source={found.source} action={importsPage(c)} />
        )}
        {found.rows > 0 && !works && found.source !== 'archive' && (
          <Rows found={found} rows={rows} page={page} outcome={outcome} currency={program.currency} />
        )}
      </div>
    </ProgramPage>,
  )
})

const texts: Record<string, string> = {
  reading: 'The source is being read and planned. This page updates automatically.',
  planned: 'Nothing has changed yet. Check the rows, then apply the plan.',
  applying: 'The plan is being applied. This page updates automatically.',
  applied: 'The import was applied. Copy the tag from the settings again, so that old links count.',
  undoing: 'The import is being undone. This page updates automatically.',
  undone: 'The import was undone. Rows that clicks, sales or people have used since then are kept, with the reason.',
  failed: 'Nothing has changed.',
}

const appliedArchive =
  'The archive was applied. Put the tag of this program on your site, connect your processor, and invite your partners.'

/** The state of an import, its counts, and the next action. */
function Progress({ found, page }: { found: Import; page: string }) {
  const { state, problem, create, update, skip, error, done } = found
  const total = create + update
  const isArchive = found.source === 'archive'
  return (
    <Card title="State" aside={<State state={state} />}>
      {problem !== null && (
        <p class={`message ${state === 'failed' ? 'bad' : 'warn'}`} role="alert">
          {problem}
        </p>
      )}
      <p>{isArchive && state === 'applied' ? appliedArchive : texts[state]}</p>
      {(state === 'applying' || state === 'undoing') && (
        <label class="stack tight">
          {formatNumber(done)} of {formatNumber(total)} rows are applied
          <progress max={total} value={done} />
        </label>
      )}
      <dl class="cards">
        <Metric label="Create" value={formatNumber(create)} />
        <Metric label="Update" value={formatNumber(update)} />
        <Metric label="Skip" value={formatNumber(skip)} />
        <Metric label="Errors" value={formatNumber(error)} bad={error > 0} />
      </dl>
      <div class="row">
        {state === 'planned' && total > 0 && (
          <PostButton
            action={`${page}/apply`}
            class="primary"
            text={`Apply ${formatNumber(total)} ${total === 1 ? 'row' : 'rows'}`}
            confirm={
              found.source === 'archive'
                ? 'Import the archive? This fills the program, and it cannot be undone. No mail is sent.'
                : 'Apply the import? Rows with errors are skipped. No mail is sent.'
            }
          />
        )}
        {(state === 'applied' || state === 'applying') && done > 0 && found.source !== 'archive' && (
          <PostButton
            action={`${page}/undo`}
            class="danger"
            text="Undo"
            confirm="Undo the import? This deletes the objects that it created, unless clicks, sales or people already use them."
          />
        )}
      </div>
    </Card>
  )
}

interface HeadingsProps {
  files: FileColumns[]
  source: string
  action: string
}

/**
 * Shows which heading belongs to each field, and plans the files again with corrected headings. The service does not keep the files,
 * because they contain customers' addresses.
 */
function Headings({ files, source, action }: HeadingsProps) {
  const byTable = tableNames
    .map((table) => ({ table, own: files.filter((file) => file.table === table) }))
    .filter(({ own }) => own.length > 0)
  return (
    <Card title="Headings">
      {files.map(({ name, table, columns, unused }) => (
        <p>
          <strong>{name}</strong> has {table}.{' '}
          {tables[table]
            .flatMap((field: SourceField) => (columns[field] ? [`${labelOf(field)}: “${columns[field]}”`] : []))
            .join(', ') || 'No heading was recognized'}
          {unused.length > 0 && <span class="muted">. Not used: {unused.join(', ')}</span>}
        </p>
      ))}
      <FormDetails summary="Correct the headings" action={action} submit="Plan again" takesFiles>
        <Hidden fields={{ source }} />
        {files.map(({ name, table }) => (
          <Field
            name={tableField(name)}
            label={`Content of ${name}`}
            options={tableNames.map((one) => [one, labelOf(one)])}
            value={table}
          />
        ))}
        {byTable.map(({ table, own }) => {
          const headings = new Set(own.flatMap(({ columns, unused }) => [...Object.values(columns), ...unused]))
          const options = [['', 'None'] as const, ...Array.from(headings, (one) => [one, one] as const)]
          return tables[table].map((field: SourceField) => (
            <Field
              name={mappedField(table, field)}
              label={`${labelOf(table)}: ${labelOf(field).toLowerCase()}`}
              options={options}
              value={own.map(({ columns }) => columns[field]).find(Boolean) ?? ''}
            />
          ))
        })}
        <FilesField hint="Choose the same files again. We don't keep them, because they contain customers' addresses." />
      </FormDetails>
    </Card>
  )
}

/** Returns a field's display name. */
const labelOf = (name: string) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ')

interface RowsProps {
  found: Import
  rows: Page<ImportRow>
  page: string
  outcome: Outcome | undefined
  /** The program's currency. */
  currency: string
}

function Rows({ found, rows, page, outcome, currency }: RowsProps) {
  const sum = outcomes.reduce((count, one) => count + found[one], 0)
  const choices = outcomes.map((one) => ({
    href: addressOf(page, { outcome: one }),
    text: `${outcomeNames[one].name} ${formatNumber(found[one])}`,
    current: one === outcome,
  }))
  return (
    <>
      <Segments label="Outcome" items={[{ href: page, text: 'All', current: outcome === undefined }, ...choices]} />
      <List
        title="Rows"
        page={rows}
        totals={[{ currency: null, rows: outcome ? found[outcome] : sum, cents: 0 }]}
        rows="rows"
        caption="Rows of the import, in the order of the source"
        columns={[
          { label: 'Outcome', cell: (row) => <OutcomeBadge outcome={row.outcome} /> },
          { label: 'Kind', cell: ({ kind }) => <span class="number">{labelOf(kind)}</span> },
          { label: 'Content', cell: (row) => <bdi>{contentOf(row, currency)}</bdi> },
          { label: 'Read from', cell: ({ origin }) => origin },
          { label: 'Reason', cell: (row) => row.reason_text },
        ]}
        empty={{ title: 'No such rows', text: <a href={page}>Show all rows</a> }}
      />
    </>
  )
}

function OutcomeBadge({ outcome }: { outcome: Outcome | null }) {
  if (outcome === null) return null
  const { name, tone } = outcomeNames[outcome]
  return <Badge tone={tone}>{name}</Badge>
}

const importedRule = z.object({
  commission_bp: z.prefault(z.number(), 0),
  commission_fixed_cents: z.prefault(z.number(), 0),
  commission_duration_months: z.prefault(z.nullable(z.number()), null),
})
const noFurtherTerms = { product_id: null, sale_type: null, lifetime_cap_cents: null, lead_commission_cents: null }

/** Returns the values that let people recognize a row, and the terms of a group. Terms are in the program's currency. */
function contentOf({ fields, source_id: id }: ImportRow, currencyOfTerms: string): string {
  const named = ['name', 'email', 'code', 'processor_customer_id', 'customer_key', 'partner'].flatMap((field) => {
    const value = fields[field]
    return typeof value === 'string' ? [value] : []
  })
  const [rule] = z.array(importedRule).safeParse(fields['rules']).data ?? []
  if (rule) named.push(ruleText({ ...rule, ...noFurtherTerms }, currencyOfTerms))
  const { amount_cents: cents, currency } = fields
  if (typeof cents === 'number' && typeof currency === 'string') named.push(formatMoney(cents, currency))
  return named.length === 0 ? id : named.join(', ')
}
