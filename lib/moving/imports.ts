import { type InferResult, sql } from 'kysely'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError, isTransient } from '../errors.ts'
import { storeCreated, createOnce } from '../idempotency.ts'
import { type Part, partOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'
import { seal } from '../processors/seal.ts'
import { keptSince } from '../retention.ts'
import { emailHash, emailHashes } from '../tracking/customers.ts'
import {
  columnsOfFile,
  type FileColumns,
  type ImportFile,
  type Mappings,
  openFiles,
  type ReadContext,
  readFiles,
} from './read-files.ts'
import { applyArchive, planArchive } from './import-archive.ts'
import { type ArchiveParts, fromBase64, wholeArchive } from './read-archive.ts'
import { type ImportEnv, keyName, type Position, readPage, sleep } from './read-service.ts'
import { reasonText } from './reasons.ts'
import type { ReadRow } from './rows.ts'
import { RefusedByService } from './services/ask.ts'
import { services, type Source } from './sources.ts'
import { countClicks, countFigures } from '../tracking/clicks.ts'

/** The number of rows in one database request. A batch takes a fraction of a second. */
const storedAtOnce = 1000
const plannedAtOnce = 500
const appliedAtOnce = 200
const countedAtOnce = 2000

/**
 * The maximum number of rows that files can add to an import, and to all imports of a workspace in a day. Older imports count until they
 * are applied. A row takes about 400 bytes of disk.
 */
const maxRows = { import: 250_000, day: 1_000_000 }
const tooManyRows =
  'An import can have 250,000 rows, and all imports of a workspace 1,000,000 rows a day, including plans that nobody applied. Import the files in parts.'
/**
 * The maximum number of imports that a workspace can start in a minute or have in reading, and in a day. Reading 16 MiB takes about a
 * second of CPU time. An import stores up to 800 KB of headings.
 */
const maxImports = { minute: 10, day: 200 }
/** The maximum size of the archive parts of a workspace that wait for the rest of their archives. One archive can have this size. */
const maxWaitingBytes = 800 * 1024 ** 2
/** The number of failed runs of the schedule after which an import that can't be planned, or an archive that can't be applied, has failed. */
const maxFailures = 5
const notPlannable =
  'The import could not be planned. Import its files in smaller parts. If that fails too, ask the operator of this service.'
const notApplicable = 'The archive could not be imported, and nothing has changed. Ask the operator of this service.'
/** How often, and how many seconds apart, an import tries to get its turn. After that, it waits for the schedule. */
const turns = { most: 20, seconds: 1 }

export type Import = InferResult<ReturnType<typeof importsStatement>>[number]
export const outcomes = ['create', 'update', 'skip', 'error'] as const
export type Outcome = (typeof outcomes)[number]

/** Imports of a program, newest first, with their rows by outcome. `done` counts the applied rows. */
function importsStatement(programId: number, { importId, ...part }: Part & { importId?: number }) {
  let query = kysely
    .selectFrom('imports as i')
    .select(['i.id', 'i.source', 'i.state', 'i.problem', 'i.created_at', 'i.planned_at', 'i.applied_at', 'i.undone_at'])
    .select(['i.create_count as create', 'i.update_count as update', 'i.skip_count as skip', 'i.error_count as error'])
    .select(['i.row_count as rows', 'i.applied_count as done'])
    .select((eb) => eb.ref('i.files').$castTo<FileColumns[] | null>().as('files'))
    .where('i.program_id', '=', programId)
  if (importId !== undefined) query = query.where('i.id', '=', importId)
  return partOf(query, sql.ref<number>('i.id'), part)
}

export async function listImports(db: Database, programId: number, part: Part): Promise<Import[]> {
  return await db.query(importsStatement(programId, part))
}

/** Reads an import. Throws `not_found`. */
export async function readImport(db: Database, programId: number, importId: number): Promise<Import> {
  const [found] = await db.query(importsStatement(programId, { limit: 1, importId }))
  if (!found) throw noImport()
  return found
}

const noImport = () => new ApiError('not_found', 'This program has no such import.')

/**
 * Reads files into an import and plans it for up to `seconds`. The plan changes nothing in the program. Continues an earlier
 * attempt if it was interrupted.
 */
export async function importFiles(
  db: Database,
  env: ImportEnv,
  programId: number,
  importId: number,
  {
    source,
    files,
    mappings,
    seconds,
  }: { source: Source; files: readonly ImportFile[]; mappings: Mappings; seconds: number },
): Promise<Import> {
  if (source === 'archive') return await importArchive(db, env, programId, importId, files)
  const packed = files.find(({ content }) => isZip(content))
  if (packed) {
    const problem = `“${packed.name}” is a workbook or a ZIP archive, not a CSV file. Save each of its tables as a CSV file, then choose those files.`
    await noteProblem(db, programId, importId, 'failed', problem)
    return await readImport(db, programId, importId)
  }
  const context = await readContext(db, env, programId, source)
  const opened = await openFiles(files, mappings)
  const understood = JSON.stringify(opened.map(columnsOfFile))
  await db.query(
    kysely
      .updateTable('imports')
      .set({ files: understood })
      .where('program_id', '=', programId)
      .where('id', '=', importId)
      .where('state', '=', 'reading'),
  )
  let stored = 0
  let batch: ReadRow[] = []
  const store = async () => {
    const rows = JSON.stringify(batch.map((one, place) => ({ id: stored + place + 1, ...one })))
    await retryOnce(() =>
      db.query(call('store_import_rows', { of_program_id: programId, of_import_id: importId, rows })),
    )
    stored += batch.length
    batch = []
  }
  // Other imports of the workspace can store rows at the same time.
  const hasRoom = async () =>
    stored + batch.length <= maxRows.import && (await rowsOfDay(db, programId)) + batch.length <= maxRows.day
  const refuse = async () => {
    await noteProblem(db, programId, importId, 'failed', tooManyRows)
    return await readImport(db, programId, importId)
  }
  for await (const read of readFiles(opened, context)) {
    batch.push(read)
    if (batch.length < storedAtOnce) continue
    if (!(await hasRoom())) return await refuse()
    await store()
  }
  if (!(await hasRoom())) return await refuse()
  await store()
  if (stored === 0) await noteProblem(db, programId, importId, 'failed', 'The files have no rows below their headings.')
  await finishReading(db, programId, importId, source)
  await continueImport(db, env, { programId, importId, seconds })
  return await readImport(db, programId, importId)
}

const isZip = ([first, second, third, fourth]: Uint8Array) =>
  first === 0x50 && second === 0x4b && third === 3 && fourth === 4

/** Reads the archive of another program into an import. */
async function importArchive(
  db: Database,
  env: ImportEnv,
  programId: number,
  importId: number,
  files: readonly ImportFile[],
): Promise<Import> {
  const [archive, ...others] = files
  if (!archive || others.length > 0) {
    await noteProblem(db, programId, importId, 'failed', 'Choose one archive: the ZIP file of an export.')
  } else if ((await rowsOfDay(db, programId)) >= maxRows.day) {
    await noteProblem(db, programId, importId, 'failed', tooManyRows)
  } else await planArchive(db, env.EMAIL_HASH_KEY, programId, importId, wholeArchive(archive.content))
  return await readImport(db, programId, importId)
}

/** Counts the rows that the imports of the program's workspace stored in the last day or that wait to be applied. */
async function rowsOfDay(db: Database, programId: number): Promise<number> {
  const [counted] = await db.query(
    kysely
      .selectFrom('imports as i')
      .innerJoin('programs as other', 'other.id', 'i.program_id')
      .innerJoin('programs as p', 'p.workspace_id', 'other.workspace_id')
      .select((eb) => eb.cast<number>(eb.fn.coalesce(eb.fn.sum('i.row_count'), sql.lit(0)), 'bigint').as('rows'))
      .where('p.id', '=', programId)
      .where((eb) =>
        eb.or([
          eb('i.created_at', '>', sql<Date>`now() - interval '1 day'`),
          eb('i.state', 'in', ['reading', 'planned']),
        ]),
      ),
  )
  return counted?.rows ?? 0
}

/**
 * Stores a part of an import's archive. After the last missing part, it reads the archive and plans the import. Throws `not_found`, and
 * `conflict` if the import is not waiting for this part.
 */
export async function storeArchivePart(
  db: Database,
  env: ImportEnv,
  programId: number,
  importId: number,
  { part, content_base64 }: { part: number; content_base64: string },
): Promise<Import> {
  const of = { of_program_id: programId, of_import_id: importId }
  const [stored] = await db.query(
    call('store_waiting_part', { ...of, of_part: part, content_base64, most_bytes: maxWaitingBytes }),
  )
  if (stored?.outcome === 'complete') {
    await planArchive(db, env.EMAIL_HASH_KEY, programId, importId, await storedParts(db, programId, importId))
  }
  const found = await readImport(db, programId, importId)
  if (stored?.outcome === 'full')
    throw new ApiError(
      'conflict',
      'The unfinished archives of your workspace have 800 MiB. Finish one of them, or wait an hour until they are deleted.',
    )
  if (stored?.outcome) return found
  throw new ApiError('conflict', `This import is not waiting for part ${part} of an archive. Plan another import.`)
}

async function storedParts(db: Database, programId: number, importId: number): Promise<ArchiveParts> {
  const parts = kysely.selectFrom('archive_parts').where('program_id', '=', programId).where('import_id', '=', importId)
  const [counted] = await db.query(parts.select((eb) => eb.fn.countAll<number>().as('count')))
  return {
    count: counted?.count ?? 0,
    async read(part) {
      const content = sql<string>`encode(content, 'base64')`.as('content')
      const [stored] = await db.query(parts.select(content).where('part', '=', part))
      return fromBase64(stored?.content ?? '')
    },
  }
}

/**
 * Refuses a new import: `forbidden` if no owner of the workspace has a confirmed address, and `rate_limited` if the workspace has started
 * too many imports, or has too many in reading.
 */
export async function refuseImport(db: Database, programId: number): Promise<void> {
  const [found] = await db.query(
    kysely
      .selectFrom('programs as p')
      .innerJoin('programs as other', 'other.workspace_id', 'p.workspace_id')
      .leftJoin('imports as i', 'i.program_id', 'other.id')
      .select([
        sql<boolean>`has_verified_owner(p.workspace_id)`.as('is_confirmed'),
        sql<number>`count(*) filter (where i.created_at > now() - interval '1 minute' or i.state = 'reading')`.as(
          'now',
        ),
        sql<number>`count(*) filter (where i.created_at > now() - interval '1 day')`.as('today'),
      ])
      .where('p.id', '=', programId)
      .groupBy('p.workspace_id'),
  )
  if (!found?.is_confirmed)
    throw new ApiError('forbidden', 'Before an import, an owner of this workspace must confirm their e-mail address.')
  const isFull = found.today >= maxImports.day
  if (!isFull && found.now < maxImports.minute) return
  const message = isFull
    ? `A workspace can start ${maxImports.day} imports a day. Continue tomorrow.`
    : `A workspace can start ${maxImports.minute} imports a minute, and have as many in reading. Wait a minute.`
  throw new ApiError('rate_limited', message, { headers: { 'Retry-After': isFull ? '3600' : '60' } })
}

/** Creates an import that is being read. If a request is repeated, returns its first import. */
export async function createImport(
  db: Database,
  env: ImportEnv,
  programId: number,
  source: Source,
  access?: { key: string; account: string },
  parts?: number,
): Promise<number> {
  const reading = access && {
    sealed_key: sql<Uint8Array>`${await seal(env.EMAIL_HASH_KEY, 'import key', keyName(programId), access.key)}::bytea`,
    position: JSON.stringify({ account: access.account, list: 0, stored: 0 } satisfies Position),
  }
  const created = await createOnce(async () => {
    const [, [kept]] = await db.batch([
      kysely.insertInto('imports').values({ program_id: programId, source, part_count: parts ?? null, ...reading }),
      storeCreated(
        kysely
          .selectFrom('imports')
          .select('id')
          .where('program_id', '=', programId)
          .where('created_at', '=', sql<Date>`now()`)
          .orderBy('id', 'desc')
          .limit(1),
      ),
    ])
    return kept?.created
  })
  if (!created) throw new Error('the database returned no import')
  return created.id
}

async function readContext(db: Database, env: ImportEnv, programId: number, source: Source): Promise<ReadContext> {
  const [program] = await db.query(kysely.selectFrom('programs').select('currency').where('id', '=', programId))
  if (!program) throw new Error('the database has no such program')
  return {
    service: services[source],
    currency: program.currency,
    hash: (email) => emailHashes((address) => emailHash(env.EMAIL_HASH_KEY, address), email),
  }
}

/** All rows of an archive are applied in one transaction. */
const isAppliedAtOnce = sql<boolean>`(state = 'applying' and source = 'archive')`
const hasNoEffectYet = sql<boolean>`(state = 'reading' or ${isAppliedAtOnce})`

/** Records why an import can't be read, either temporarily or permanently. */
async function noteProblem(
  db: Database,
  programId: number,
  importId: number,
  state: 'reading' | 'failed',
  problem: string,
): Promise<void> {
  await db.query(
    kysely
      .updateTable('imports')
      .set({ state, problem: problem.slice(0, 1000), ...(state === 'failed' && { sealed_key: null, position: null }) })
      .where('program_id', '=', programId)
      .where('id', '=', importId)
      .where(hasNoEffectYet),
  )
}

async function finishReading(db: Database, programId: number, importId: number, source: Source): Promise<void> {
  const finish = call('finish_reading', {
    of_program_id: programId,
    of_import_id: importId,
    derives_balances: services[source].knowsPaid,
    of_note: `Opening balance from ${services[source].title}`,
  })
  await retryOnce(() => db.query(finish))
}

const repeatedPage =
  'The service returned the same page of a list twice, so other rows are missing. Start the import again, or import its files.'

/** If the import reads from a service, continues to read page by page. If two calls read the same page, only one stores it. */
async function readOn(db: Database, env: ImportEnv, programId: number, importId: number, until: number): Promise<void> {
  let context: ReadContext | undefined
  while (Date.now() < until) {
    const [reading] = await db.query(
      kysely
        .selectFrom('imports')
        .select(['program_id', 'source', 'position'])
        .select(sql<string>`sealed_key::text`.as('sealed_key'))
        .$narrowType<{ source: Source }>()
        .where('program_id', '=', programId)
        .where('id', '=', importId)
        .where('state', '=', 'reading')
        .where('sealed_key', 'is not', null),
    )
    if (!reading) return
    context ??= await readContext(db, env, programId, reading.source)
    try {
      const { rows, reached } = await readPage(env, reading, context, until)
      if (reached === undefined) return await finishReading(db, programId, importId, reading.source)
      const first = reached.stored - rows.length + 1
      const page = call('store_import_page', {
        of_program_id: programId,
        of_import_id: importId,
        rows: JSON.stringify(rows.map((one, place) => ({ id: first + place, ...one }))),
        was: JSON.stringify(reading.position),
        reached: JSON.stringify(reached),
      })
      const [stored] = await retryOnce(() => db.query(page))
      if (stored?.is_repeated) throw new RefusedByService(repeatedPage)
      if (reached.stored > maxRows.day) throw new RefusedByService(tooManyRows)
    } catch (error) {
      if (!(error instanceof RefusedByService)) {
        if (isTransient(error)) throw error
        return await noteProblem(db, programId, importId, 'reading', 'The service does not respond. We will try again.')
      }
      return await noteProblem(db, programId, importId, 'failed', error.message)
    }
  }
}

/**
 * Plans, applies or undoes an import batch by batch, until it is done or `seconds` have passed. A scheduled function continues, so the call
 * can stop at any point.
 */
export async function continueImport(
  db: Database,
  env: ImportEnv,
  { programId, importId, seconds }: { programId: number; importId: number; seconds: number },
): Promise<void> {
  const until = Date.now() + seconds * 1000
  const rows = { of_program_id: programId, of_import_id: importId }
  await readOn(db, env, programId, importId, until)
  const { source, state } = await readImport(db, programId, importId)
  if (source === 'archive') {
    if (state !== 'applying') return
    await applyArchive(db, programId, importId)
    // The pages of the program show the figures of the archive at once. The schedule counts what is left.
    while (
      Date.now() < until &&
      (await countClicks(db, countedAtOnce, programId)) + (await countFigures(db, countedAtOnce, programId)) > 0
    );
    return
  }
  for (let waited = 0; Date.now() < until && waited < turns.most;) {
    const [[planned], [applied], [undone]] = await retryOnce(() =>
      db.batch([
        call('plan_import_rows', { ...rows, max_rows: plannedAtOnce }),
        call('apply_import_rows', { ...rows, max_rows: appliedAtOnce }),
        call('undo_import_rows', { ...rows, max_rows: appliedAtOnce }),
      ]),
    )
    if (planned?.plan_import_rows === null) {
      waited += 1
      await sleep(turns.seconds * 1000)
      continue
    }
    waited = 0
    if (!planned?.plan_import_rows && !applied?.apply_import_rows && !undone?.undo_import_rows) return
    // Other imports get their turn.
    if (planned?.plan_import_rows) await sleep(20)
  }
}

const ofFailedImport = sql<boolean>`exists (
  select from imports i where i.program_id = a.program_id and i.id = a.import_id and i.state = 'failed'
)`

/** Continues all running imports. If the request was interrupted while it read the files, the import fails after an hour. */
export async function continueImports(db: Database, env: ImportEnv, seconds: number): Promise<number> {
  const [waiting] = await db.batch([
    kysely
      .selectFrom('imports')
      .select(['program_id as programId', 'id as importId'])
      .where((eb) =>
        eb.or([
          eb('state', 'in', ['applying', 'undoing']),
          eb.and([eb('state', '=', 'reading'), eb('position', 'is not', null)]),
        ]),
      )
      // Others don't wait for an import that fails again and again.
      .orderBy('failures')
      .orderBy('program_id')
      .orderBy('id'),
    kysely
      .updateTable('imports')
      .set({ state: 'failed', problem: 'The request with the files was interrupted. Send it again.' })
      .where('state', '=', 'reading')
      .where('position', 'is', null)
      .where('created_at', '<', sql<Date>`now() - interval '1 hour'`),
    kysely.deleteFrom('archive_rows as a').where(ofFailedImport),
    kysely.deleteFrom('archive_parts as a').where(ofFailedImport),
    kysely.deleteFrom('import_rows as a').where(ofFailedImport),
  ])
  const errors: unknown[] = []
  for (const one of waiting) {
    await continueImport(db, env, { ...one, seconds }).catch(async (error: unknown) => {
      errors.push(error)
      if (!isTransient(error)) return await countFailure(db, one, hasNoEffectYet)
      // An archive can also take too long or too much memory. If the database still answers, such an error counts, too.
      await countFailure(db, one, isAppliedAtOnce).catch(() => {})
    })
  }
  // One import that fails doesn't keep the others waiting.
  if (errors.length > 0) throw new AggregateError(errors, `${errors.length} of ${waiting.length} imports failed.`)
  return waiting.length
}

/** Counts a failed attempt to plan an import, or to apply an archive. After the last one, the import has failed. */
async function countFailure(
  db: Database,
  { programId, importId }: { programId: number; importId: number },
  counts: typeof hasNoEffectYet,
) {
  const [counted] = await db.query(
    kysely
      .updateTable('imports')
      .set({ failures: (eb) => eb('failures', '+', 1) })
      .where('program_id', '=', programId)
      .where('id', '=', importId)
      .where(counts)
      .returning(['failures', 'source']),
  )
  if (!counted || counted.failures < maxFailures) return
  const problem = counted.source === 'archive' ? notApplicable : notPlannable
  await noteProblem(db, programId, importId, 'failed', problem)
}

/**
 * Deletes imports with their rows at the end of their retention period. Until then, an import can be undone. Returns their number.
 */
export async function deleteOldImports(db: Database): Promise<number> {
  const gone = await db.query(
    kysely
      .deleteFrom('imports')
      .where((eb) =>
        eb.or([
          eb('created_at', '<', keptSince('imports')),
          eb.and([
            eb('state', 'in', ['reading', 'planned', 'failed', 'undone']),
            eb('created_at', '<', keptSince('idle_imports')),
          ]),
        ]),
      )
      .returning('id'),
  )
  return gone.length
}

/** Applies a planned import for up to `seconds`. Applying it again changes nothing. Throws `conflict` if it is not planned. */
export async function applyImport(
  db: Database,
  env: ImportEnv,
  programId: number,
  importId: number,
  seconds: number,
): Promise<Import> {
  const { source } = await readImport(db, programId, importId)
  const params = [...services[source].params]
  const [begun] = await db.query(call('begin_import', { of_program_id: programId, of_import_id: importId, params }))
  if (begun?.was !== 'planned' && begun?.was !== 'applying' && begun?.was !== 'applied') {
    throw new ApiError('conflict', `Only a planned import can be applied; this one is ${begun?.was ?? 'gone'}.`)
  }
  await continueImport(db, env, { programId, importId, seconds })
  return await readImport(db, programId, importId)
}

/**
 * Undoes an import for up to `seconds`. Undoing it again changes nothing. Throws `conflict` once a payout contains its
 * money, or if it was never applied.
 */
export async function undoImport(
  db: Database,
  env: ImportEnv,
  programId: number,
  importId: number,
  seconds: number,
): Promise<Import> {
  const [begun] = await db.query(call('begin_undo', { of_program_id: programId, of_import_id: importId }))
  const was = begun?.was
  if (!was) throw noImport()
  if (was === 'archive') {
    throw new ApiError(
      'conflict',
      'An archive cannot be undone, because its ledger never loses an entry. Create another program instead.',
    )
  }
  if (was === 'paid_out') {
    throw new ApiError(
      'conflict',
      "A payout contains money from this import, so it can't be undone. Refuse the payout first, or correct individual partners.",
    )
  }
  if (was === 'reading' || was === 'planned' || was === 'failed') {
    throw new ApiError('conflict', `This import is ${was}. It has not changed anything yet.`)
  }
  await continueImport(db, env, { programId, importId, seconds })
  return await readImport(db, programId, importId)
}

export type ImportRow = Awaited<ReturnType<typeof listImportRows>>[number]

/** Lists rows of an import in the order of the source, optionally of one outcome. */
export async function listImportRows(
  db: Database,
  programId: number,
  importId: number,
  list: Part & { outcome?: Outcome | undefined },
) {
  const { outcome, ...part } = list
  let query = kysely
    .selectFrom('import_rows as r')
    .select(['r.id', 'r.kind', 'r.source_id', 'r.origin', 'r.outcome', 'r.reason', 'r.target_id', 'r.is_applied'])
    .select((eb) => eb.ref('r.fields').$castTo<Record<string, unknown>>().as('fields'))
    .where('r.program_id', '=', programId)
    .where('r.import_id', '=', importId)
  if (outcome !== undefined) query = query.where('r.outcome', '=', outcome)
  const rows = await db.query(partOf(query, sql.ref<number>('r.id'), part, { ascending: true }))
  return rows.map((one) => ({ ...one, reason_text: one.reason === null ? null : reasonText(one.reason) }))
}
