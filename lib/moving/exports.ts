import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { Zip, ZipDeflate } from 'fflate'
import { sql } from 'kysely'
import { toCsv } from '../csv.ts'
import { call, type Database, statementOf, violatedConstraint } from '../database.ts'
import { ApiError, found } from '../errors.ts'
import { createOnce, storeCreated } from '../idempotency.ts'
import { kysely } from '../kysely.ts'
import { keptSince } from '../retention.ts'
import { emailHash } from '../tracking/customers.ts'
import { archiveVersion, type Kind, kindNames, kindOf, type KindName } from './archive-kinds.ts'

/** Copying a large program takes minutes. */
export const patientMilliseconds = 10 * 60 * 1000
/** The maximum number of rows in memory at the same time. */
const pageSize = 2000

export interface ManifestFile {
  name: string
  rows: number
  bytes: number
  sha256: string
}

/** `manifest.json`, the last file of an archive. */
export interface Manifest {
  format: 'program-archive'
  version: number
  program: { name: string; domain: string; currency: string }
  created_at: string
  /** A hash under EMAIL_HASH_KEY. Instances with the same key recognize customers by each other's hashes. */
  email_key: string
  files: ManifestFile[]
}

export interface Export {
  id: number
  row_counts: Record<string, number>
  created_at: string
}

/** The name and the address of the program, for the manifest. */
export interface ExportedProgram {
  name: string
  domain: string
  currency: string
}

/**
 * Copies all rows of a program in one snapshot, which can be downloaded for a day. Only the latest export of a program can be downloaded.
 * Throws `rate_limited` after six exports in an hour.
 */
export async function createExport(db: Database, programId: number): Promise<Export> {
  const latest = kysely
    .selectFrom('exports')
    .select(['id', 'row_counts', 'created_at'])
    .where('program_id', '=', programId)
    .orderBy('id', 'desc')
    .limit(1)
  try {
    const created = await createOnce(async () => {
      const [, , , [kept]] = await db.waiting(patientMilliseconds).batch([
        call('begin_export', { of_program_id: programId }),
        copyStatement(programId),
        kysely
          .updateTable('exports')
          .set({
            row_counts: sql`(
              select coalesce(jsonb_object_agg(k.kind, k.rows), '{}') from (
                select kind, count(*) as rows from export_rows r
                where r.program_id = exports.program_id and r.export_id = exports.id group by kind
              ) k
            )`,
          })
          .where('program_id', '=', programId)
          .where('created_at', '=', sql<Date>`now()`),
        storeCreated(latest),
      ])
      return kept?.created
    })
    if (!created) throw new Error('the database returned no export')
    return { ...created, row_counts: countsIn(created.row_counts) }
  } catch (error) {
    const refusal = violatedConstraint(error)
    if (refusal === 'exports_program_exists') throw new ApiError('not_found', 'This program was deleted.')
    if (refusal !== 'exports_per_hour') throw error
    throw new ApiError('rate_limited', 'A program can be exported six times an hour. Download the latest export.')
  }
}

function countsIn(stored: unknown): Record<string, number> {
  // oxlint-disable-next-line no-unsafe-type-assertion -- createExport wrote it
  return stored as Record<string, number>
}

/** Reads the latest export of a program if its copy is kept. An erasure of personal data deletes the copy. */
export async function findExport(db: Database, programId: number): Promise<Export | undefined> {
  const [latest] = await db.query(
    kysely
      .selectFrom('exports')
      .select(['id', 'row_counts', 'created_at'])
      .where('program_id', '=', programId)
      .where('created_at', '>', keptSince('exports'))
      .where((eb) =>
        eb.exists(
          eb
            .selectFrom('export_rows as r')
            .whereRef('r.program_id', '=', 'exports.program_id')
            .whereRef('r.export_id', '=', 'exports.id')
            .where('r.kind', '=', 'program'),
        ),
      )
      .orderBy('id', 'desc')
      .limit(1),
  )
  return (
    latest && {
      id: latest.id,
      row_counts: countsIn(latest.row_counts),
      created_at: new Date(latest.created_at).toISOString(),
    }
  )
}

/** The statement that copies the rows. It is one statement, so that all rows come from the same moment. */
function copyStatement(programId: number) {
  const copies = kindNames.map((name) => {
    const kind = kindOf(name)
    const columns = Object.keys(kind.fields).map((field) => {
      const expression = kind.read?.[field] ?? kind.extra?.[field] ?? `t.${field}`
      return `${expression} as ${field}`
    })
    const where = (kind.where ?? 't.program_id = $program').replaceAll('$program', 'e.program_id')
    return `select '${name}' as kind, row_number() over (order by ${kind.order.join(', ')}) as place, to_json(x) as fields
      from (select ${columns.join(', ')} from ${kind.view ?? kind.table} t where ${where}) x`
  })
  return statementOf(
    `insert into export_rows (program_id, export_id, kind, place, fields)
    select e.program_id, e.id, r.kind, r.place, r.fields
    from (select * from exports where program_id = $1 order by id desc limit 1) e cross join lateral (${copies.join(' union all ')}) r`,
    [programId],
  )
}

/**
 * Writes an export as a ZIP archive: JSON lines and CSV for each kind, and the manifest. Keeps one page of rows in memory, and reads the
 * next page when the caller continues to read. Throws if the copy is deleted before the end, so that no archive is missing rows.
 */
export async function* writeArchive(
  db: Database,
  emailHashKey: string,
  programId: number,
  { id: exportId, created_at, row_counts: rowCounts }: Export,
): AsyncGenerator<Uint8Array, void> {
  let ready: Uint8Array[] = []
  const zip = new Zip((error, data) => {
    if (error) throw error
    ready.push(data)
  })
  const files: ManifestFile[] = []
  const encoder = new TextEncoder()
  let program: ExportedProgram | undefined

  for (const name of kindNames) {
    for (const format of ['jsonl', 'csv'] as const) {
      const file = { name: `${format === 'csv' ? 'csv' : 'data'}/${name}.${format}`, rows: 0, bytes: 0, sha256: '' }
      const hash = sha256.create()
      const entry = new ZipDeflate(file.name, { level: 6 })
      entry.mtime = created_at
      zip.add(entry)
      const write = (text: string) => {
        const bytes = encoder.encode(text)
        hash.update(bytes)
        file.bytes += bytes.length
        entry.push(bytes)
      }
      if (format === 'csv') write(header(kindOf(name)))
      for await (const lines of pagesOf(db, programId, exportId, name)) {
        if (name === 'program' && lines[0] !== undefined) program = JSON.parse(lines[0])
        file.rows += lines.length
        write(format === 'csv' ? csvOf(kindOf(name), lines) : lines.map((line) => `${line}\n`).join(''))
        yield* ready
        ready = []
      }
      if (file.rows !== (rowCounts[name] ?? 0)) throw new Error('the copy of the export was deleted')
      entry.push(new Uint8Array(), true)
      file.sha256 = bytesToHex(hash.digest())
      files.push(file)
    }
  }
  if (!program) throw new Error('the export has no program')
  const manifest: Manifest = {
    format: 'program-archive',
    version: archiveVersion,
    program: { name: program.name, domain: program.domain, currency: program.currency },
    created_at,
    email_key: await emailKey(emailHashKey),
    files,
  }
  const last = new ZipDeflate('manifest.json', { level: 6 })
  last.mtime = created_at
  zip.add(last)
  last.push(encoder.encode(`${JSON.stringify(manifest, null, 2)}\n`), true)
  zip.end()
  yield* ready
}

/** Identifies the key of an instance without revealing it. No e-mail address looks like this text. */
export const emailKey = async (emailHashKey: string) => await emailHash(emailHashKey, 'the key of an archive')

async function* pagesOf(db: Database, programId: number, exportId: number, kind: KindName) {
  let after = 0
  for (;;) {
    const rows = await db.query(
      kysely
        .selectFrom('export_rows')
        .select(['place', sql<string>`fields::text`.as('line')])
        .where('program_id', '=', programId)
        .where('export_id', '=', exportId)
        .where('kind', '=', kind)
        .where('place', '>', after)
        .orderBy('place')
        .limit(pageSize),
    )
    const last = rows.at(-1)
    if (!last) return
    yield rows.map(({ line }) => line)
    if (rows.length < pageSize) return
    after = last.place
  }
}

const header = ({ fields }: Kind) => toCsv(Object.keys(fields), [])

/** Writes lines of JSON as CSV. Lists and objects are written as JSON. */
function csvOf({ fields }: Kind, lines: string[]): string {
  const columns = Object.keys(fields)
  const rows = lines.map((line) => {
    const row: Record<string, unknown> = JSON.parse(line)
    return Object.fromEntries(columns.map((column) => [column, cellOf(row[column])]))
  })
  return toCsv(columns, rows).slice(toCsv(columns, []).length)
}

function cellOf(value: unknown): string | number | boolean | null {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  return value === null || value === undefined ? null : JSON.stringify(value)
}

/** Returns the archive as a download that reads the database while the caller reads it. */
export async function archiveResponse(
  db: Database,
  emailHashKey: string,
  programId: number,
  exportId?: number,
): Promise<Response> {
  const latest = await findExport(db, programId)
  const kept = found(exportId === undefined || latest?.id === exportId ? latest : undefined, 'export')
  const chunks = writeArchive(db, emailHashKey, programId, kept)
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await chunks.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    async cancel() {
      await chunks.return()
    },
  })
  return new Response(body, {
    headers: {
      'Content-Type': 'application/zip',
      'Content-Disposition': `attachment; filename="program-${programId}-${kept.created_at.slice(0, 10)}.zip"`,
      'Cache-Control': 'no-store',
    },
  })
}

/** Deletes exports after a day. Returns their number. */
export async function deleteOldExports(db: Database): Promise<number> {
  const gone = await db.query(
    kysely.deleteFrom('exports').where('created_at', '<', keptSince('exports')).returning('id'),
  )
  return gone.length
}
