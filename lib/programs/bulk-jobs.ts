import { sql } from 'kysely'
import { jsonObjectFrom } from 'kysely/helpers/postgres'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { ApiError, found } from '../errors.ts'
import { type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely, now } from '../kysely.ts'
import { mailBounds } from '../mail-bounds.ts'
import { keptSince } from '../retention.ts'

/** The actions on many rows. migrations/functions/programs/bulk-jobs.sql undoes them. */
export const bulkKinds = ['approve', 'reject', 'deactivate', 'move', 'rate', 'invite', 'message'] as const
export type BulkKind = (typeof bulkKinds)[number]

const stored = z.object({ kind: z.enum(bulkKinds), settings: z.record(z.string(), z.string()) })

/** The filters of a job's list and the fields of its form, by name. */
export type BulkSettings = z.infer<typeof stored>['settings']

export type BulkJob = Awaited<ReturnType<typeof listBulkJobs>>[number]

/** Lists the bulk jobs of a program, newest first, with the number of changed, undone and kept rows. */
export async function listBulkJobs(db: Database, programId: number, { jobId, ...part }: Part & { jobId?: number }) {
  let query = kysely
    .selectFrom('bulk_jobs as j')
    .leftJoin('users as u', 'u.id', 'j.started_by')
    .select([
      'j.id',
      'j.kind',
      'j.settings',
      'j.row_count',
      'j.position',
      'j.started_at',
      'j.finished_at',
      'j.undone_at',
    ])
    .select((eb) => [
      'u.name as started_by',
      sql<boolean>`j.started_at > now() - bulk_jobs_undone_within()`.as('is_recent'),
      jsonObjectFrom(
        eb
          .selectFrom('bulk_job_rows as r')
          .select((count) => [
            count.fn.countAll<number>().as('changed'),
            sql<number>`count(*) filter (where r.is_undone)`.as('undone'),
            sql<number>`count(*) filter (where not r.is_undone)`.as('kept'),
          ])
          .whereRef('r.program_id', '=', 'j.program_id')
          .whereRef('r.job_id', '=', 'j.id'),
      )
        .$notNull()
        .as('rows'),
    ])
    .where('j.program_id', '=', programId)
  if (jobId !== undefined) query = query.where('j.id', '=', jobId)
  const jobs = await db.query(partOf(query, sql.ref<number>('j.id'), part))
  return jobs.map((job) => ({ ...job, ...stored.parse(job) }))
}

export const bulkJobTotals = (programId: number) =>
  totalsOf(kysely.selectFrom('bulk_jobs').select('id').where('program_id', '=', programId))

/** Reads a bulk job. Throws `not_found`. */
export async function readBulkJob(db: Database, programId: number, jobId: number): Promise<BulkJob> {
  return found((await listBulkJobs(db, programId, { limit: 1, jobId }))[0], 'bulk action')
}

/**
 * Starts a job on `rows` rows with ids up to `newestId`, and returns its id. Throws `rate_limited` if the program has reached its
 * daily limit of messages.
 */
export async function startBulkJob(
  db: Database,
  programId: number,
  job: { kind: BulkKind; settings: BulkSettings; rows: number; newestId: number },
): Promise<number> {
  const [row] = await db.query(
    call('start_bulk_job', {
      of_program_id: programId,
      of_kind: job.kind,
      of_settings: JSON.stringify(job.settings),
      matching: job.rows,
      from_position: job.newestId + 1,
      most_messages: mailBounds.message.perProgram,
    }),
  )
  if (row?.start_bulk_job === null)
    throw new ApiError(
      'rate_limited',
      `A program can send ${mailBounds.message.perProgram} messages within 24 hours. Send this one later.`,
    )
  return found(row?.start_bulk_job, 'bulk action')
}

/** Stores a job's position after one of its parts. Without a position, the job is finished. */
export async function advanceBulkJob(db: Database, programId: number, jobId: number, position?: number): Promise<void> {
  const progress = kysely.updateTable('bulk_jobs').where('program_id', '=', programId).where('id', '=', jobId)
  await db.query(
    position === undefined
      ? progress.set({ finished_at: now })
      : progress.set({ position: (eb) => eb.fn('least', ['position', eb.val(position)]) }),
  )
}

/** The number of rows that one request undoes. Approvals take the longest, about 2 ms each. */
const undoPartSize = 200

/** Undoes a part of a job, and returns whether changes are left. Throws `conflict` if the job is too old or belongs to another program. */
export async function undoBulkJob(db: Database, programId: number, jobId: number): Promise<boolean> {
  const [row] = await db.query(
    call('undo_bulk_job', { of_program_id: programId, of_job_id: jobId, max_rows: undoPartSize }),
  )
  const tried = row?.undo_bulk_job ?? null
  if (tried === null)
    throw new ApiError('conflict', 'This action is more than seven days old. Change the rows by hand.')
  return tried === undoPartSize
}

/** Deletes old jobs, and the texts in the settings of jobs that started a day ago. */
export async function deleteOldBulkJobs(db: Database): Promise<void> {
  await db.batch([
    kysely
      .updateTable('bulk_jobs')
      .set({ settings: sql`settings - array['q', 'note']`, finished_at: (eb) => eb.fn.coalesce('finished_at', now) })
      .where('started_at', '<', keptSince('bulk_job_texts'))
      .where(sql<boolean>`settings ?| array['q', 'note']`),
    kysely.deleteFrom('bulk_jobs').where('started_at', '<', keptSince('bulk_jobs')),
  ])
}
