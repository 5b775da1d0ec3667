import * as z from 'zod/mini'
import { type Field, tables, type Table } from '../moving/columns.ts'
import { type Import, type ImportRow, outcomes } from '../moving/imports.ts'
import { fromBase64 } from '../moving/read-archive.ts'
import type { ImportFile, Mappings } from '../moving/read-files.ts'
import { services, sources } from '../moving/sources.ts'
import { idIn, idParameter, listParameters, listQuery, listResponse, oneOf } from './lists.ts'
import { answered, answeredCreated, body, type Operation } from './operation.ts'
import { count, id, success, text, time } from '../response-fields.ts'

export const importsQuery = listQuery({})
export const importPath = z.object({ import_id: idIn() })
export const importRowsQuery = listQuery({ outcome: z.optional(oneOf(outcomes)) })

// oxlint-disable-next-line no-unsafe-type-assertion -- the keys of a constant
const tableNames = Object.keys(tables) as [Table, ...Table[]]
const mostFiles = 20
const heading = z.string().check(z.maxLength(200))
const fileName = z.string().check(z.minLength(1), z.maxLength(150))

const file = z
  .strictObject({
    name: fileName,
    content: z.optional(z.string()),
    content_base64: z.optional(z.base64('must be base64')),
    table: z.optional(oneOf(tableNames)),
  })
  .check(
    z.refine(({ content, content_base64: encoded }) => (content === undefined) !== (encoded === undefined), {
      path: ['content'],
      error: 'must be given, or else content_base64',
    }),
  )

const maxParts = 200
/** The size of an archive part in bytes. */
export const partBytes = 4 * 1024 * 1024
/** The number of base-64 characters in a part. */
const maxPartText = 4 * Math.ceil(partBytes / 3)
const wholeNumber = (most: number) => {
  const problem = `must be an integer from 1 to ${most}`
  return z.int(problem).check(z.gte(1, problem), z.lte(most, problem))
}

/** Body of POST /api/v1/imports/{import_id}/parts. */
export const newPart = z.strictObject({
  part: wholeNumber(maxParts),
  content_base64: z.base64('must be base64').check(z.minLength(4), z.maxLength(maxPartText, 'must be at most 4 MiB')),
})

const accountNeeded = 'must be the id of the account or program: this service needs it in addition to the key'

/** Body of POST /api/v1/imports. */
export const newImport = z
  .strictObject({
    source: z.enum(sources, `must be ${sources.join(' or ')}`),
    files: z.optional(
      z.union(
        [
          z
            .array(file)
            .check(
              z.minLength(1, 'must have at least one file'),
              z.maxLength(mostFiles, `must have at most ${mostFiles} files`),
            ),
          z
            .record(fileName, z.string())
            .check(z.refine((named) => Object.keys(named).length <= mostFiles, `must have at most ${mostFiles} files`)),
        ],
        'must be a list of files, each with a name and its content',
      ),
    ),
    mapping: z.optional(z.record(z.string(), z.union([heading, z.record(z.string(), heading)]))),
    api_key: z.optional(
      z.string().check(z.minLength(1), z.maxLength(1000), z.regex(/^[\x21-\x7e]+$/, 'must be a key without blanks')),
    ),
    account: z.optional(z.string().check(z.minLength(1), z.maxLength(200), z.regex(/^[\w.:-]+$/, 'must be an id'))),
    parts: z.optional(wholeNumber(maxParts)),
  })
  .check(
    z.refine(({ files, api_key: key, parts }) => [files, key, parts].filter((one) => one !== undefined).length === 1, {
      path: ['files'],
      error: 'must be given, or else api_key or parts',
    }),
    z.refine(({ source, parts }) => parts === undefined || source === 'archive', {
      path: ['parts'],
      error: 'must not be given: only an archive has parts',
    }),
    z.refine(({ source, api_key: key }) => key === undefined || services[source].url !== undefined, {
      path: ['api_key'],
      error: 'must not be given: this source only accepts files',
    }),
    z.refine(
      ({ source, api_key: key, account }) =>
        key === undefined || account !== undefined || services[source].account === undefined,
      {
        path: ['account'],
        error: accountNeeded,
      },
    ),
  )

/** Returns the source that a request names: files with their headings, or access to a service. Ignores headings of unknown fields. */
export function asNewImport({
  source,
  files = [],
  mapping = {},
  api_key: key,
  account = '',
  parts,
}: z.output<typeof newImport>): {
  source: (typeof sources)[number]
  files: ImportFile[]
  mappings: Mappings
  access: { key: string; account: string } | undefined
  parts: number | undefined
} {
  const encoder = new TextEncoder()
  const decoded = Array.isArray(files)
    ? files.map(({ name, content, content_base64, table }) => ({
        name,
        table,
        content: content_base64 === undefined ? encoder.encode(content) : fromBase64(content_base64),
      }))
    : Object.entries(files).map(([name, content]) => ({ name, content: encoder.encode(content) }))
  const mappings: Mappings = {}
  for (const [name, chosen] of Object.entries(mapping)) {
    const table = tableNames.find((one) => one === name)
    if (table !== undefined && typeof chosen !== 'string') mappings[table] = headingsOf(chosen)
    else if (typeof chosen === 'string') Object.assign(mappings, headingsOf({ [name]: chosen }))
  }
  return { source, files: decoded, mappings, access: key === undefined ? undefined : { key, account }, parts }
}

const fields = new Set<string>(Object.values(tables).flat())

function headingsOf(chosen: Record<string, string>): Partial<Record<Field, string>> {
  return Object.fromEntries(Object.entries(chosen).filter(([field]) => fields.has(field)))
}

/** Renders an import. */
export function asImport({ id: importId, create, update, skip, error, rows, done, ...rest }: Import) {
  const { created_at: created, planned_at: planned, applied_at: applied, undone_at: undone, ...shown } = rest
  return {
    import_id: importId,
    ...shown,
    counts: { create, update, skip, error },
    rows,
    applied_rows: done,
    created_at: created.toISOString(),
    planned_at: planned && planned.toISOString(),
    applied_at: applied && applied.toISOString(),
    undone_at: undone && undone.toISOString(),
  }
}

/** Renders a row without the hashes of addresses. */
export function asImportRow({ fields: stored, is_applied: applied, id: rowId, ...shown }: ImportRow) {
  const { email_hash: _, mailbox_hash: _mailbox, ...visible } = stored
  return { row_id: rowId, ...shown, applied, fields: visible }
}

const importFields = () => ({
  import_id: id(),
  source: z.enum(sources),
  state: z.string(),
  problem: text(),
  files: z.nullable(
    z.array(
      z.object({
        name: z.string(),
        table: z.enum(tableNames),
        columns: z.record(z.string(), z.string()),
        unused: z.array(z.string()),
      }),
    ),
  ),
  counts: z.object({ create: count(), update: count(), skip: count(), error: count() }),
  rows: count(),
  applied_rows: count(),
  created_at: time(),
  planned_at: z.nullable(time()),
  applied_at: z.nullable(time()),
  undone_at: z.nullable(time()),
})
const importRow = () =>
  z.object({
    row_id: id(),
    kind: z.string(),
    source_id: z.string(),
    origin: z.string(),
    outcome: z.nullable(z.enum(outcomes)),
    reason: text(),
    reason_text: text(),
    target_id: z.nullable(id()),
    applied: z.boolean(),
    fields: z.record(z.string(), z.unknown()),
  })

const example = {
  import_id: 1,
  source: 'csv',
  state: 'planned',
  problem: null,
  files: [
    {
      name: 'partners.csv',
      table: 'partners' as const,
      columns: { name: 'Name', email: 'Email', link: 'Link' },
      unused: [],
    },
  ],
  counts: { create: 2, update: 0, skip: 0, error: 0 },
  rows: 2,
  applied_rows: 0,
  created_at: '2026-01-01T12:00:00.000Z',
  planned_at: '2026-01-01T12:00:01.000Z',
  applied_at: null,
  undone_at: null,
}
const exampleOfParts = {
  ...example,
  import_id: 2,
  source: 'archive',
  state: 'reading',
  files: null,
  counts: { create: 0, update: 0, skip: 0, error: 0 },
  rows: 0,
  planned_at: null,
}
const exampleRow = {
  row_id: 1,
  kind: 'partner',
  source_id: 'ada@example.com',
  origin: 'partners.csv line 2',
  outcome: 'create',
  reason: 'new',
  reason_text: 'It is new to the program.',
  target_id: null,
  applied: false,
  fields: { name: 'Ada Lovelace', email: 'ada@example.com' },
}
const described = {
  state:
    '`reading`, `planned`, `applying`, `applied`, `undoing`, `undone` or `failed`. Work that takes longer than the call continues in the background.',
  problem: 'Why the import failed, and what to do.',
  files:
    'The files, with the column heading for each field and any unused headings. To correct them, send `mapping` with another import. Null if the data was read with an API key.',
  counts: 'The rows by outcome.',
  applied_rows: 'The number of rows applied so far.',
}
const rowFields = {
  kind: '`group`, `partner`, `link`, `code`, `customer`, `balance` or `commission`.',
  source_id: 'The id in the source. The `external_id` becomes `<source>:<id>`.',
  origin: 'The file and the line.',
  reason: 'A stable code that gives the reason for the outcome. `reason_text` explains it in a sentence.',
  target_id: 'The id of the created, changed or found object.',
}
const sent = {
  source: 'csv',
  files: [{ name: 'partners.csv', content: 'Name,Email,Link\nAda Lovelace,ada@example.com,ada' }],
}
const path = '/api/v1/imports'
const pathParameter = () => idParameter('import_id', 'Id of the import.')
const common = {
  auth: 'key' as const,
  success: {
    schemas: [z.object({ success: success(), ...importFields() })],
    description: 'The import.',
    fields: described,
  },
}

/** Describes imports for the reference. */
export const importOperations = (): Operation[] => [
  {
    ...common,
    id: 'createImport',
    method: 'post',
    path,
    summary: 'Plan an import',
    description:
      'Reads files from another service, or reads that service’s API with your key there, and plans the import. Planning does not change anything. Read the rows of the plan, then apply it. Files can be up to 16 MiB together, in UTF-8 or UTF-16, with commas, semicolons or tabs.',
    scope: 'manage',
    idempotent: true,
    body: body(newImport, {
      source: 'The service that the data comes from, or `csv` for any other service.',
      files:
        'Files with a `name` and their text in `content`, or their bytes in `content_base64`. The name or `table` says what a file contains: `groups`, `partners`, `links`, `codes`, `customers`, `balances` or `commissions`.',
      api_key:
        'Your API key for the service, instead of files. For PartnerStack, send the public key and the secret key, separated by a colon. It is stored encrypted, and only until everything has been read.',
      account:
        'The account id at FirstPromoter, or the program id at Tolt and Tapfiliate. Needed in addition to their keys.',
      mapping:
        'The column heading for each field, for all files or by table: `{"partners": {"name": "Full name"}}`. You only need it for headings that are not recognized.',
      parts:
        'Only for an archive, instead of files: the number of parts in which you send it, with up to 4 MiB each. The import is planned after the last one.',
    }),
    errors: ['forbidden'],
    examples: [
      answeredCreated('planned', 'One partner with a link', example, sent),
      answeredCreated('parts', 'An archive in two parts', exampleOfParts, { source: 'archive', parts: 2 }),
    ],
  },
  {
    ...common,
    id: 'sendArchivePart',
    method: 'post',
    path: `${path}/{import_id}/parts`,
    summary: 'Send a part of an archive',
    description:
      'Stores a part of the ZIP file. Send the parts in any order. A part replaces an earlier one with the same number. The last missing part plans the import, which can take minutes. If a part is missing for an hour, the import fails.',
    scope: 'manage',
    parameters: [idParameter('import_id', 'Id of the import.', 2)],
    body: body(newPart, {
      part: 'The number of the part, from 1.',
      content_base64: 'The bytes of the part in base64, up to 4 MiB.',
    }),
    errors: ['not_found', 'conflict'],
    examples: [answered('part', 'The first of two parts', exampleOfParts, { part: 1, content_base64: 'UEsDBA==' })],
  },
  {
    ...common,
    id: 'listImports',
    method: 'get',
    path,
    summary: 'List imports',
    description: 'The imports of the program, newest first.',
    scope: 'read',
    parameters: [listParameters(importsQuery, {})],
    success: {
      schemas: [listResponse(z.object(importFields()))],
      description: 'A page of imports.',
      fields: described,
    },
    examples: [answered('page', 'The imports', { data: [example], next_cursor: null })],
  },
  {
    ...common,
    id: 'getImport',
    method: 'get',
    path: `${path}/{import_id}`,
    summary: 'Read an import',
    description: 'One import with its state and the number of rows for each outcome.',
    scope: 'read',
    parameters: [pathParameter()],
    errors: ['not_found'],
    examples: [answered('planned', 'A planned import', example)],
  },
  {
    ...common,
    id: 'listImportRows',
    method: 'get',
    path: `${path}/{import_id}/rows`,
    summary: 'List rows of an import',
    description: 'The rows of an import in the order of the source, each with its outcome and the reason.',
    scope: 'read',
    parameters: [pathParameter(), listParameters(importRowsQuery, { outcome: 'Only rows with this outcome.' })],
    success: { schemas: [listResponse(importRow())], description: 'A page of rows.', fields: rowFields },
    errors: ['not_found'],
    examples: [answered('page', 'The first row', { data: [exampleRow], next_cursor: 'MQ' })],
  },
  {
    ...common,
    id: 'applyImport',
    method: 'post',
    path: `${path}/{import_id}/apply`,
    summary: 'Apply an import',
    description:
      'Carries out the plan without sending any mail. Call it again to continue an interrupted import; after that, it has no effect. Returns `conflict` if the import is not planned.',
    scope: 'manage',
    parameters: [pathParameter()],
    errors: ['not_found', 'conflict'],
    examples: [
      answered('applied', 'It is applied', {
        ...example,
        state: 'applied',
        applied_rows: 2,
        applied_at: '2026-01-01T12:05:00.000Z',
      }),
    ],
  },
  {
    ...common,
    id: 'undoImport',
    method: 'post',
    path: `${path}/{import_id}/undo`,
    summary: 'Undo an import',
    description:
      'Deletes the objects that the import created and reverts its changes, except for values that have changed since. Objects that are already used by clicks, sales or people are kept, and their rows say `in_use`. Returns `conflict` if a payout already contains money from the import.',
    scope: 'manage',
    parameters: [pathParameter()],
    errors: ['not_found', 'conflict'],
    examples: [
      answered('undone', 'It is undone', {
        ...example,
        state: 'undone',
        applied_at: '2026-01-01T12:05:00.000Z',
        undone_at: '2026-01-01T12:10:00.000Z',
      }),
    ],
  },
]
