import { NeonDbError } from '@neondatabase/serverless'
import { bytesToHex } from '@noble/hashes/utils.js'
import { sql } from 'kysely'
import { checks } from '../audit/checks.ts'
import { type Check, planSettings } from '../audit/run-checks.ts'
import { call, type Database, hexBytes, statementOf, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { defaultClickMonths } from '../tracking/retention.ts'
import { joinPageChanges } from '../programs/join-page.ts'
import { readLogo } from '../programs/logo-image.ts'
import { type Kind, kindNames, kindOf, type KindName, referredBy } from './archive-kinds.ts'
import { emailKey, patientMilliseconds } from './exports.ts'
import {
  type ArchiveParts,
  type ArchiveRow,
  bytesOfFiles,
  readArchive,
  readManifest,
  RefusedArchive,
} from './read-archive.ts'

/** The number of rows in one database request. */
const storedAtOnce = 2000

/** The maximum number of bytes that a workspace can store from archives per day. An archive of 8 MB can contain that many. */
const mostBytesOfDay = 1024 ** 3

/** Customer identifiers that can only be computed with the key of their instance. */
const keyedFields = { email_hash: null, mailbox_hash: null, email_unverified_since: null }

const otherKey =
  'This instance has another EMAIL_HASH_KEY, so it cannot find imported customers by their e-mail address. Give it the key of the former instance first, then plan the import again.'

/**
 * Reads an archive and stores its rows separately from the program, which doesn't change. After that, the import has the state `planned`.
 * If it failed, it has a reason and keeps no rows.
 */
export async function planArchive(
  db: Database,
  emailHashKey: string,
  programId: number,
  importId: number,
  parts: ArchiveParts,
): Promise<void> {
  let problem: string | null = null
  let remark: string | null = null
  try {
    const manifest = await readManifest(parts)
    const [begun] = await db.query(
      call('begin_reading_archive', {
        of_program_id: programId,
        of_import_id: importId,
        bytes: bytesOfFiles(manifest),
        most_bytes: mostBytesOfDay,
      }),
    )
    if (begun?.why_not) throw new RefusedArchive(refusalOf(begun.why_not, ''))
    const isOwnKey = manifest.email_key === (await emailKey(emailHashKey))
    if (!isOwnKey) remark = otherKey
    let stored = 0
    for await (const page of readArchive(parts, manifest)) {
      for (const [kind, rows] of Map.groupBy(page, (row) => row.kind)) {
        for (let at = 0; at < rows.length; at += storedAtOnce) {
          const part = rows.slice(at, at + storedAtOnce)
          const checked = part.map(checkedRow)
          const read = isOwnKey || kind !== 'customers' ? checked : checked.map(withoutKeyedFields)
          await db.query(storeStatement(programId, importId, kind, stored, read))
          stored += part.length
        }
      }
    }
  } catch (error) {
    problem = problemIn(error)
  }
  const finish = call('finish_reading_archive', {
    of_program_id: programId,
    of_import_id: importId,
    why_not: problem,
    if_used: refusalOf('program_used', ''),
    remark,
  })
  await db.waiting(patientMilliseconds).query(finish)
}

const withoutKeyedFields = ({ kind, fields }: ArchiveRow): ArchiveRow => ({
  kind,
  fields: { ...fields, ...keyedFields },
})

/** Checks the row of a brand or a join page like a form in the dashboard, because visitors see it. */
function checkedRow(row: ArchiveRow): ArchiveRow {
  const { logo, headline, intro, faq, questions } = row.fields
  if (row.kind === 'brand' && typeof logo === 'string') {
    const image = imageIn(logo)
    return { ...row, fields: { ...row.fields, logo: `\\x${bytesToHex(image.bytes)}`, logo_type: image.type } }
  }
  if (row.kind === 'join_page' && !joinPageChanges.safeParse({ headline, intro, faq, questions }).success)
    throw new RefusedArchive('The join page has a text that is not accepted. Export the program again.')
  return row
}

function imageIn(logo: string) {
  try {
    return readLogo(hexBytes(logo.slice(2)))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    throw new RefusedArchive(`The logo is not accepted: ${error.message}`)
  }
}

const hasId = (kind: Kind) => kind.fields['id'] === 'id'

/** Stores rows of one kind with their new ids. */
function storeStatement(
  programId: number,
  importId: number,
  name: KindName,
  stored: number,
  rows: readonly ArchiveRow[],
) {
  const kind = kindOf(name)
  const newId = hasId(kind)
    ? sql`(f.fields->>'id')::bigint, nextval(pg_get_serial_sequence(${kind.table}, 'id'))`
    : sql`null::bigint, null::bigint`
  const fields = JSON.stringify(rows.map((row) => row.fields))
  return kysely
    .insertInto('archive_rows')
    .columns(['program_id', 'import_id', 'id', 'kind', 'old_id', 'new_id', 'fields'])
    .expression(
      sql`select ${programId}::bigint, ${importId}::bigint, ${stored}::bigint + f.place, ${name}::text, ${newId}, f.fields
        from jsonb_array_elements(${fields}::jsonb) with ordinality f (fields, place)`,
    )
}

/**
 * Applies an archive in one transaction: all its rows with new ids, then the figures that follow from them. If the database refuses a row
 * or if the audit finds a difference, the transaction rolls back and the import fails with the reason.
 */
export async function applyArchive(db: Database, programId: number, importId: number): Promise<void> {
  const ids = { of_program_id: programId, of_import_id: importId }
  const patient = db.waiting(patientMilliseconds)
  try {
    await patient.batch([
      call('begin_archive', ids),
      settingsStatement(programId, importId),
      ...kindNames.filter((name) => kindOf(name).replaces).map((name) => deleteStatement(programId, importId, name)),
      ...kindNames.filter((name) => name !== 'program').map((name) => insertStatement(programId, importId, name)),
      // There are no statistics for the new rows yet, and nested loops over all of them would take hours.
      statementOf(planSettings, []),
      call('finish_archive', ids),
      ...checksOfRows.map((check) => checkStatement(check, programId)),
    ])
  } catch (error) {
    if (violatedConstraint(error) === 'archive_applied') return
    await patient.query(
      call('finish_reading_archive', { ...ids, why_not: problemIn(error), if_used: null, remark: null }),
    )
  }
}

const rowsOf = (name: KindName) =>
  `archive_rows r cross join lateral jsonb_populate_record(null::${kindOf(name).table}, r.fields) x
  where r.program_id = $1 and r.import_id = $2 and r.kind = '${name}'`

/** The program keeps its name and its domain, because its owner chose the name and proved the domain here. */
const keptSettings = new Set(['id', 'name', 'domain'])

function settingsStatement(programId: number, importId: number) {
  const { fields, extra, write } = kindOf('program')
  const columns = Object.keys(fields).filter((field) => !keptSettings.has(field) && extra?.[field] === undefined)
  return statementOf(
    `update programs p set ${columns.map((column) => `${column} = ${write?.[column] ?? `x.${column}`}`).join(', ')}
    from ${rowsOf('program')} and p.id = r.program_id`,
    [programId, importId],
  )
}

/** Deletes the program's own rows of a kind, if the archive has such rows. */
const deleteStatement = (programId: number, importId: number, name: KindName) =>
  statementOf(
    `delete from ${kindOf(name).table} t where t.program_id = $1
    and exists (select from archive_rows r where r.program_id = $1 and r.import_id = $2 and r.kind = '${name}')`,
    [programId, importId],
  )

function insertStatement(programId: number, importId: number, name: KindName) {
  const { table, fields, extra, write } = kindOf(name)
  const values: Record<string, string> = { program_id: 'r.program_id' }
  for (const [field, type] of Object.entries(fields)) {
    const referred = referredBy(type)
    if (type === 'id') values[field] = 'r.new_id'
    else if (extra?.[field] === undefined)
      values[field] = referred ? `archived_id(r, '${referred}', x.${field})` : `x.${field}`
  }
  Object.assign(values, write)
  const where = name === 'clicks' ? ` and ${isKeptClick}` : ''
  return statementOf(
    `insert into ${table} (${Object.keys(values).join(', ')}) overriding system value
    select ${Object.values(values).join(', ')} from ${rowsOf(name)}${where} order by r.id`,
    [programId, importId],
  )
}

/** Tables that archives don't contain: figures, messages, the audit log, and reports from processors and payout providers. */
const ownTables =
  /\b(daily_totals|daily_money|grouped_totals|grouped_quarters|uncounted_clicks|uncounted_figures|link_months|link_clicks|outbox|notifications|audit_log|webhook_\w+|processor_(events|payments|reversals)|payout_items)\b/
const checksOfRows = checks.filter(({ query }) => !ownTables.test(query))

/** Refuses the archive if its rows break an audit rule. */
const checkStatement = ({ name, query }: Check, programId: number) =>
  statementOf(
    `select refuse_archive('rows_differ', left(format('Rule: %s. Found: %s. Expected: %s.', $2::text, found, expected), 900))
    from (${query}) off limit 1`,
    [programId, name],
  )

/** Older clicks belong to months that this service has already deleted. */
const isKeptClick = `x.click_timestamp >= greatest((select max(k.since) from clicks_kept k), now() - make_interval(months => ${defaultClickMonths}))`

/** Returns the sentence for a reason from the database functions. Some sentences contain `details`. */
function refusalOf(reason: string, details: string): string {
  const again = 'Export the program again.'
  switch (reason) {
    case 'program_used':
      return 'This program already has partners, rules, terms or sales. An archive can only fill a new program. Create a program and import it there.'
    case 'too_many_bytes':
      return `The archives of a workspace can have ${mostBytesOfDay / 1024 ** 3} GiB a day. Import this one tomorrow.`
    case 'row_missing': {
      const [kind = '', of = ''] = details.split(' ')
      return `${kind} refers to a row of ${of} that the archive does not have. ${again}`
    }
    case 'lead_too_old':
      return `A lead is older than 2020, when no such service existed. ${again}`
    default:
      return `The rows do not add up. ${details} ${again}`
  }
}

/** Returns the reason for an error in an archive. Throws other errors. */
function problemIn(error: unknown): string {
  if (error instanceof RefusedArchive) return error.message
  if (error instanceof RangeError) return 'The archive has a value that is nested too deeply. Export the program again.'
  // The database refused a value because it has the wrong format, violates a constraint, or is too large for an index.
  if (!(error instanceof NeonDbError) || !/^(22|23|54)/.test(error.code ?? '')) throw error
  if (error.constraint === 'archive_refused') return refusalOf(error.message, error.detail ?? '')
  return `The rows of the archive contradict each other or are not valid (${error.constraint ?? error.message.slice(0, 200)}). Export the program again.`
}
