import { isUtf8 } from 'node:buffer'
import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Argument, type Command, InvalidArgumentError } from 'commander'
import type { ApiOperations } from '../api-types.ts'
import { type Flags, optionValues, type Print, type Subcommand, wholeNumber } from './flags.ts'
import { addListOptions, type Column, type ListFlags, printList, type Row } from './lists.ts'
import { CommandError, type Connection, connect, download, request } from './service.ts'
import { day, type Fields, green, inLines } from './text.ts'

type Import = ApiOperations['getImport']['answer']

const sources = ['csv', 'rewardful', 'tolt', 'firstpromoter', 'partnerstack', 'tapfiliate', 'dub', 'archive'] as const

const columns: Column<Row<'listImports'>>[] = [
  ['ID', ({ import_id: id }) => id],
  ['CREATED', ({ created_at: at }) => day(at)],
  ['SOURCE', ({ source }) => source],
  ['STATE', ({ state }) => state],
  ['ROWS', ({ rows }) => rows],
  ['APPLIED', ({ applied_rows: rows }) => rows],
]
const rowColumns: Column<Row<'listImportRows'>>[] = [
  ['OUTCOME', ({ outcome }) => outcome],
  ['KIND', ({ kind }) => kind],
  ['IN THE SOURCE', ({ source_id: id }) => id.slice(0, 40)],
  ['WHERE', ({ origin }) => origin],
  ['REASON', ({ reason_text: text }) => text],
]

const fieldsOf = ({ import_id: id, source, state, rows, counts, applied_rows: applied, problem, files }: Import) => {
  const matched = (files ?? []).flatMap(({ name, table, columns: found, unused }): Fields => {
    const fields = Object.entries(found).map(([field, heading]) => `${field} = "${heading}"`)
    const rest = unused.length === 0 ? '' : `; unused: ${unused.join(', ')}`
    return [[name, `${table}: ${fields.join(', ')}${rest}`]]
  })
  return [
    ['id', id],
    ['source', source],
    ['state', state],
    ['problem', problem],
    ['rows', rows],
    ...Object.entries(counts),
    ['applied', applied],
    ...matched,
  ] satisfies Fields
}

/** Returns the user's next step. */
function nextStep({ import_id: id, source, state, counts }: Import): string {
  if (state === 'planned') {
    const errors = counts.error === 0 ? '' : `Show the errors: svc import rows ${id} --outcome error\n`
    return `${errors}Nothing has changed yet. Apply it: svc import apply ${id}`
  }
  return state === 'applied' && source !== 'archive' ? `Undo it: svc import undo ${id}` : ''
}

/** The service reads all files and applies an archive before it responds. Large ones take minutes on a busy machine. */
const patient = { timeoutSeconds: 900 }
const partBytes = 4 * 1024 * 1024
const pollMilliseconds = 1000

/** Waits until the service has done the work, and reports its progress on a terminal. */
async function finished(connection: Connection, begun: Import, showsProgress: boolean): Promise<Import> {
  let now = begun
  while (['reading', 'applying', 'undoing'].includes(now.state)) {
    if (showsProgress) process.stderr.write(`\r${now.state}: ${now.rows} rows, ${now.applied_rows} applied `)
    await wait(pollMilliseconds)
    now = await request<Import>(connection, `/api/v1/imports/${now.import_id}`)
  }
  if (showsProgress && now !== begun) process.stderr.write('\n')
  if (now.state === 'failed') {
    const hint = 'Correct the files or the key, then plan another import.'
    throw new CommandError('import_failed', now.problem ?? 'The import failed.', hint)
  }
  return now
}

function asMapping(text: string): object {
  try {
    return JSON.parse(text)
  } catch {
    throw new InvalidArgumentError('Pass JSON such as {"partners": {"name": "Full name"}}.')
  }
}

function readFile(path: string) {
  const bytes = readBytes(path)
  const name = basename(path)
  // Base 64 would add a third to the size of the request, which has a limit. A request can't contain NUL characters.
  const isText = isUtf8(bytes) && !bytes.includes(0)
  return isText ? { name, content: bytes.toString() } : { name, content_base64: bytes.toString('base64') }
}

function readBytes(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch {
    throw noFile(path)
  }
}

const noFile = (path: string) =>
  new CommandError('no_file', `The file ${path} cannot be read.`, 'Check the name and the permissions.')

/** Sends an archive in parts, so that the size limit of a request doesn't apply to it. */
async function sendArchive(connection: Connection, path: string, headers: Record<string, string>): Promise<Import> {
  const archive = openFile(path)
  try {
    const parts = Math.max(1, Math.ceil(fstatSync(archive).size / partBytes))
    let now = await request<Import>(connection, '/api/v1/imports', { body: { source: 'archive', parts }, headers })
    for (let part = 1; part <= parts; part++) {
      const content = Buffer.alloc(partBytes)
      const bytes = readSync(archive, content, 0, partBytes, (part - 1) * partBytes)
      const body = { part, content_base64: content.toString('base64', 0, bytes) }
      now = await request(connection, `/api/v1/imports/${now.import_id}/parts`, { body, ...patient })
    }
    return now
  } finally {
    closeSync(archive)
  }
}

function openFile(path: string): number {
  try {
    return openSync(path, 'r')
  } catch {
    throw noFile(path)
  }
}

/** `svc export`. */
export function addExport(svc: Command, subcommand: Subcommand, print: Print): void {
  subcommand(svc, 'export', 'Download the whole program as one archive. The key needs the scope manage.')
    .argument('[file]', 'The ZIP file to write.', 'program.zip')
    .addHelpText('after', '\nExamples:\n  $ svc export program.zip')
    .action(async (file: string, flags: Flags) => {
      const connection = connect(flags)
      const headers = { 'idempotency-key': crypto.randomUUID() }
      const created = await request<ApiOperations['createExport']['answer']>(connection, '/api/v1/exports', {
        method: 'POST',
        headers,
        timeoutSeconds: 600,
      })
      await download(connection, `/api/v1/exports/${created.export_id}/archive`, file)
      const rows = Object.values(created.rows).reduce((sum, one) => sum + one, 0)
      print(flags, { ...created, file }, `${green('✓')} ${rows} rows are in ${file}.`)
    })
}

/** `svc import plan`, `list`, `show`, `rows`, `apply` and `undo`. */
export function addImports(svc: Command, subcommand: Subcommand, print: Print): void {
  const imports = svc
    .command('import')
    .description('Import a program from another service. The key needs the scope manage.')
    .helpOption('-h, --help', 'Show this help.')

  const show = async (flags: Flags, begun: Import) => {
    const now = await finished(connect(flags), begun, process.stderr.isTTY && !flags.json)
    print(flags, now, [inLines(fieldsOf(now)), nextStep(now)].filter(Boolean).join('\n\n'))
  }

  subcommand(imports, 'plan', 'Read files or a service, and plan the effect of each row. Changes nothing.')
    .addArgument(new Argument('<source>', 'The service that the data comes from.').choices(sources))
    .argument('[files...]', 'CSV files of its export, or the archive of a program.')
    .option('--source-key <key>', "That service's API key, instead of files. Prefer SVC_SOURCE_KEY.")
    .option('--account <id>', 'Its account or program id, if it needs one.')
    .option('--mapping <json>', 'Unrecognized headings by table and field.', asMapping)
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc import plan rewardful customers.csv commissions.csv\n  $ SVC_SOURCE_KEY=… svc import plan tolt --account prg_1\n' +
        `  $ svc import plan csv people.csv --mapping '{"partners": {"name": "Full name"}}'`,
    )
    .action(async (source: string, files: string[], flags: Flags & { mapping?: object; idempotencyKey?: string }) => {
      const headers = { 'idempotency-key': flags.idempotencyKey ?? crypto.randomUUID() }
      const [archive, ...others] = files
      if (source === 'archive' && archive !== undefined && others.length === 0)
        return await show(flags, await sendArchive(connect(flags), archive, headers))
      const key = flags['sourceKey'] ?? process.env['SVC_SOURCE_KEY']
      const body = {
        source,
        ...(files.length > 0 ? { files: files.map(readFile) } : { api_key: key }),
        ...optionValues(flags, ['account']),
        ...(flags.mapping && { mapping: flags.mapping }),
      }
      await show(flags, await request<Import>(connect(flags), '/api/v1/imports', { body, headers, ...patient }))
    })

  const ofImport = (name: string, description: string) =>
    subcommand(imports, name, description).argument('<id>', 'Id of the import.', wholeNumber)

  addListOptions(subcommand(imports, 'list', 'List imports, newest first.'), {})
    .addHelpText('after', '\nExamples:\n  $ svc import list')
    .action(async (flags: ListFlags) => printList({ noun: 'imports', columns }, flags, print))

  addListOptions(ofImport('rows', 'List the rows of an import, each with its outcome and the reason.'), {
    filters: { outcome: 'create, update, skip or error' },
  })
    .addHelpText('after', '\nExamples:\n  $ svc import rows 3 --outcome error')
    .action(async (id: number, flags: ListFlags) => {
      const filters = { outcome: '' }
      await printList({ noun: 'rows', path: `imports/${id}/rows`, filters, columns: rowColumns }, flags, print)
    })

  ofImport('show', 'Show an import with its counts and the headings that it matched.')
    .addHelpText('after', '\nExamples:\n  $ svc import show 3')
    .action(async (id: number, flags: Flags) => {
      const now = await request<Import>(connect(flags), `/api/v1/imports/${id}`)
      print(flags, now, [inLines(fieldsOf(now)), nextStep(now)].filter(Boolean).join('\n\n'))
    })

  for (const [verb, description] of [
    ['apply', "Apply a planned import. It doesn't send mail. Safe to repeat."],
    ['undo', 'Undo an import. This is possible until a payout contains its money.'],
  ] as const) {
    ofImport(verb, description)
      .addHelpText('after', `\nExamples:\n  $ svc import ${verb} 3`)
      .action(async (id: number, flags: Flags) => {
        const path = `/api/v1/imports/${id}/${verb}`
        const begun = await request<Import>(connect(flags), path, { method: 'POST', ...patient })
        await show(flags, begun)
      })
  }
}
